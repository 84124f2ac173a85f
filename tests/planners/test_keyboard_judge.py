"""Whoever is at the keyboard as a judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.planners.local.person_judge import AtTheKeyboard, InputEnded
from pytest_vnc_use.types import Verdict, report_to_nobody
from pytest_vnc_use.types.protocols import Judge
from support.memory_desktop import painted

CLAIM = "the basket shows 2 apples"


class AskedAgain:
    """Gives these answers, one after the other, then nobody is there any more."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.questions = [*answers], list[str]()

    def __call__(self, question: str) -> str:
        self.questions.append(question)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)


class Asked:
    """Answers always the same, and looks at the image meanwhile."""

    def __init__(self, answer: str) -> None:
        self.answer, self.question, self.image, self.seen = answer, "", Path(), b""

    def __call__(self, question: str) -> str:
        if "Look at " in question:  # it is not, where it is asked again
            self.question = question
            self.image = Path(question.partition("Look at ")[2].partition(". Yes")[0])
        self.seen = self.image.read_bytes()
        return self.answer


def judged(ask: Callable[[str], str]) -> Verdict:
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
def test_yes_holds_no_fails_and_all_else_ends_as_unsure(answer: str, kind: str, reason: str) -> None:
    verdict = judged(Asked(answer))
    assert (verdict.kind, verdict.reason) == (kind, f"whoever recorded it said: {reason}")
    assert verdict.frame == painted(1).ref


def test_no_of_whoever_records_is_inconclusive() -> None:
    judge = AtTheKeyboard(Asked("no, it says 3"), records=True)
    with pytest.raises(Inconclusive, match=r"^recording refused by its user: nothing was recorded\n.*: it says 3\n"):
        judge.judge(CLAIM, painted(1), timeout_s=60, report=report_to_nobody)


@pytest.mark.parametrize(
    ("answers", "kind", "questions"),
    [
        (("", "ok, it does", "yes, it says 2"), "holds", 3),
        (("well", "no, it says 3"), "fails", 2),
        (("unsure", "yes"), "unsure", 1),
        (("Unsure, it is covered", "yes"), "unsure", 1),
        (("", "ok", "sure", "yes"), "unsure", 3),
        (("ok",), "unsure", 2),
    ],
    ids=["yes", "no", "unsure", "unsure and why", "three unclear answers", "end of input"],
)
def test_unclear_answer_is_asked_again(answers: tuple[str, ...], kind: str, questions: int) -> None:
    asked = AskedAgain(*answers)
    assert judged(asked).kind == kind
    assert len(asked.questions) == questions
    assert all("answer yes or no" in question for question in asked.questions[1:])
    assert all(repr(answer) in again for answer, again in zip(answers, asked.questions[1:], strict=False))


def test_image_is_there_while_somebody_is_asked() -> None:
    asked = Asked("yes")
    judged(asked)
    assert CLAIM in asked.question
    assert asked.seen == painted(1).png
    assert not asked.image.exists()


def test_whoever_ends_input_was_there() -> None:
    def ask(_: str) -> str:
        raise InputEnded

    verdict = judged(ask)
    assert verdict.kind == "unsure"
    assert verdict.reason.startswith("the input ended (Ctrl-D) before the answer, so nothing was recorded")


@pytest.mark.parametrize("error", [EOFError(), OSError("no terminal")])
def test_without_anybody_it_is_unsure_and_says_what_to_do(error: Exception) -> None:
    def ask(_: str) -> str:
        raise error

    verdict = AtTheKeyboard(ask).judge(CLAIM, painted(1), timeout_s=60, report=report_to_nobody)
    assert verdict.kind == "unsure"
    assert "--vnc-judge" in verdict.reason
