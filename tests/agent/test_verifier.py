"""Claims and verdicts, whoever judges: votes are counted, and what is unsure or split does not pass."""

from __future__ import annotations

import hashlib
import operator
import threading
from dataclasses import replace
from typing import Any

import pytest

from pytest_vnc_use.agent.claims import NoJudge, check_asked, judge_claim
from pytest_vnc_use.errors import Inconclusive, ModelUnavailable, SettingsError
from pytest_vnc_use.types import Frame, FrameRef, Report, Verdict
from pytest_vnc_use.types.protocols import Judge
from support.judges import USAGE, ListJudge

PNG = b"\x89PNG\r\n\x1a\n"
FRAME = Frame(FrameRef(hashlib.sha256(PNG).hexdigest(), 1, 1), PNG)


class Recording:
    """A judge with one answer, which it gives without naming frame or claim."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[tuple[str, Frame]] = []
        self.timeouts_s: list[float] = []

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        self.asked.append((claim, frame))
        self.timeouts_s.append(timeout_s)
        return self.verdict


@pytest.mark.parametrize(("kind", "passes"), [("holds", True), ("fails", False), ("unsure", False)])
def test_verdict_is_judges_and_names_its_frame(kind: str, passes: bool) -> None:
    judge = Recording(Verdict("", kind, "because"))  # type: ignore[arg-type]
    verdict = judge_claim(judge, "2 apples", FRAME, timeout_s=7.0)
    assert verdict.holds is passes
    assert verdict == Verdict("2 apples", kind, "because", frame=FRAME.ref, votes=(kind,))  # type: ignore[arg-type]
    assert judge.asked == [("2 apples", FRAME)]
    assert 0 < judge.timeouts_s[0] <= 7.0


def test_without_model_every_claim_is_unsure_and_says_what_to_do() -> None:
    judge: Judge = NoJudge()
    assert judge_claim(judge, "  ", FRAME).reason == "the claim is empty"
    verdict = judge_claim(judge, "2 apples", FRAME)
    assert (verdict.kind, "no model is configured" in verdict.reason) == ("unsure", True)


H, F, U = "holds", "fails", "unsure"


@pytest.mark.parametrize(
    ("votes", "said", "kind"),
    [
        (3, [H, H], H),
        (3, [U, U], U),
        (3, [H, F, H], H),
        (3, [H, F, U], U),
        (5, [H, F, U, U, U], U),
    ],
)
def test_majority_decides_and_nobody_is_asked_once_it_is_certain(votes: int, said: list[str], kind: str) -> None:
    judge = ListJudge([*said, "asked too often"])
    verdict = judge_claim(judge, "2 apples", FRAME, votes=votes)
    assert (verdict.kind, verdict.votes) == (kind, tuple(said))
    assert len(judge.asked) == len(said)
    assert verdict.usage.input == len(said) * USAGE.input


def test_unsure_is_neither_true_nor_false() -> None:
    verdict = Verdict("an error is shown", "unsure", "a dialog hides it")
    for ask in (bool, operator.not_):
        with pytest.raises(Inconclusive, match=r"^unsure: 'an error is shown': a dialog hides it$"):
            ask(verdict)
    assert operator.not_(replace(verdict, kind="fails"))
    assert not operator.not_(replace(verdict, kind="holds"))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("  \n", 1), "a claim must be text about the screen, got "),
        (("open", 0), "votes must be an odd number, at least 1, got "),
        (("open", 2), "votes must be an odd number, at least 1, got "),
        (("open", 1, float("nan")), "within_s must be a number of seconds, 0 for now, got "),
    ],
)
def test_check_asked_invalid_raises_settings_error(asked: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_asked(*asked)


def test_judge_that_hangs_raises_model_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.agent.claims._LATE_S", 0.05)
    answered = threading.Event()

    class Hanging(Recording):
        def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
            answered.wait(60)
            return self.verdict

    with pytest.raises(ModelUnavailable, match="did not answer within"):
        judge_claim(Hanging(Verdict("", H, "late")), "2 apples", FRAME, timeout_s=0.05)
    answered.set()
