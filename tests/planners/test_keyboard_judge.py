"""Whoever is at the keyboard as a judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.planners.local.person_judge import AtTheKeyboard
from pytest_vnc_use.types import Verdict, report_to_nobody
from pytest_vnc_use.types.protocols import Judge
from support.memory_desktop import painted

CLAIM = "the basket shows 2 apples"


class Asked:
    """Answers always the same, and looks at the picture meanwhile."""

    def __init__(self, answer: str) -> None:
        self.answer, self.question, self.picture, self.seen = answer, "", Path(), b""

    def __call__(self, question: str) -> str:
        self.question = question
        self.picture = Path(question.partition("Look at ")[2].partition(". Yes")[0])
        self.seen = self.picture.read_bytes()
        return self.answer


def judged(ask: Asked) -> Verdict:
    judge: Judge = AtTheKeyboard(ask)
    return judge.judge(CLAIM, painted(1), timeout_s=60, report=report_to_nobody)


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ("yes", "holds", "yes"),
        ("Yes, the row says 2", "holds", "the row says 2"),
        ("  y: 2", "holds", "2"),
        ("no. it says 3", "fails", "it says 3"),
        ("N", "fails", "N"),
        ("yesterday it did", "unsure", "it did"),
        ("", "unsure", ""),
    ],
)
def test_yes_holds_no_fails_and_all_else_is_unsure(answer: str, kind: str, reason: str) -> None:
    verdict = judged(Asked(answer))
    assert (verdict.kind, verdict.reason) == (kind, f"whoever recorded it said: {reason}")
    assert verdict.frame == painted(1).ref


def test_the_picture_is_there_while_somebody_is_asked() -> None:
    asked = Asked("yes")
    judged(asked)
    assert CLAIM in asked.question
    assert asked.seen == painted(1).png
    assert not asked.picture.exists()


@pytest.mark.parametrize("error", [EOFError(), OSError("no terminal")])
def test_without_anybody_it_is_unsure_and_says_what_to_do(error: Exception) -> None:
    def ask(_: str) -> str:
        raise error

    verdict = AtTheKeyboard(ask).judge(CLAIM, painted(1), timeout_s=60, report=report_to_nobody)
    assert verdict.kind == "unsure"
    assert "--vnc-judge" in verdict.reason
