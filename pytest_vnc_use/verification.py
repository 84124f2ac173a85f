"""Claims about the screen and their verdicts.

A verdict comes from a judge, never from the planner that did the work; what no judge can see is unsure, and unsure does
not pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_vnc_use.ports import Judge
from pytest_vnc_use.types import Frame, Report, Verdict, report_to_nobody

JUDGE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Verifier:
    """Puts claims to a judge; the verdict names the frame that it is about. `report` hears what a model is asked."""

    judge: Judge
    report: Report = report_to_nobody

    def verify(self, claim: str, frame: Frame, *, timeout_s: float = JUDGE_TIMEOUT_S) -> Verdict:
        """Whether the claim holds on this frame. Raises PlannerError where the judge cannot be asked."""
        if not claim.strip():
            return Verdict(claim, "unsure", "the claim is empty", frame=frame.ref)
        verdict = self.judge.judge(claim, frame, timeout_s=timeout_s, report=self.report)
        return replace(verdict, claim=claim, frame=frame.ref)


class NoJudge:
    """The judge where no model is configured: every claim is unsure."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody) -> Verdict:
        reason = (
            "no model is configured to judge claims; set GOOGLE_API_KEY and pass --vnc-planner=gemini, "
            "or check the program's own state in the test's body"
        )
        return Verdict(claim, "unsure", reason, frame=frame.ref)


def end_state_claim(task: str) -> str:
    """The claim that a task is done, as far as the screen shows it."""
    return f"The screen shows that this task has been carried out completely: {task}"
