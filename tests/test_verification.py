"""Claims and verdicts, whoever judges."""

from __future__ import annotations

import hashlib

import pytest

from pytest_vnc_use.ports import Judge
from pytest_vnc_use.types import Frame, FrameRef, Report, Verdict
from pytest_vnc_use.verification import NoJudge, Verifier, end_state_claim

PNG = b"\x89PNG\r\n\x1a\n"
FRAME = Frame(FrameRef(hashlib.sha256(PNG).hexdigest(), 1, 1), PNG)


class Recording:
    """A judge with one answer, which it gives without naming frame or claim."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[tuple[str, Frame, float]] = []

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        self.asked.append((claim, frame, timeout_s))
        return self.verdict


@pytest.mark.parametrize(("kind", "passes"), [("holds", True), ("fails", False), ("unsure", False)])
def test_a_verdict_is_the_judges_and_names_its_frame(kind: str, passes: bool) -> None:
    judge = Recording(Verdict("", kind, "because"))  # type: ignore[arg-type]
    verdict = Verifier(judge).verify("2 apples", FRAME, timeout_s=7.0)
    assert bool(verdict) is passes
    assert verdict == Verdict("2 apples", kind, "because", frame=FRAME.ref)  # type: ignore[arg-type]
    assert judge.asked == [("2 apples", FRAME, 7.0)]


def test_an_empty_claim_is_unsure_and_nobody_is_asked() -> None:
    judge = Recording(Verdict("", "holds", "nothing is easily true"))
    assert Verifier(judge).verify("  ", FRAME).kind == "unsure"
    assert judge.asked == []


def test_without_a_model_every_claim_is_unsure_and_says_what_to_do() -> None:
    judge: Judge = NoJudge()
    verdict = Verifier(judge).verify("2 apples", FRAME)
    assert verdict.kind == "unsure"
    assert "no model is configured" in verdict.reason
    assert "GOOGLE_API_KEY" in verdict.reason


def test_the_end_state_of_a_task_is_a_claim() -> None:
    assert "Open the basket" in end_state_claim("Open the basket")
