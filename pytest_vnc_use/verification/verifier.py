"""Claims about the screen and their verdicts.

A verdict comes from a judge, never from the planner that did the work. If no judge can see the answer, the verdict is
unsure, and unsure does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, get_args

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ModelUnavailable, SettingsError
from pytest_vnc_use.types import Frame, Report, Usage, Verdict, VerdictKind, report_to_nobody
from pytest_vnc_use.types.protocols import Judge

T = TypeVar("T")

JUDGE_TIMEOUT_S = 60.0
_LATE_S = 2.0


@dataclass(frozen=True)
class Verifier:
    """A verifier that puts claims to a judge. `report` gets each request to a model.

    The verdict names the frame that was judged: a judge that watches the screen may name a later one than it was given.
    """

    judge: Judge
    report: Report = report_to_nobody

    def verify(self, claim: str, frame: Frame, *, votes: int = 1, timeout_s: float = JUDGE_TIMEOUT_S) -> Verdict:
        """Return the verdict on a claim about this frame, by a majority of `votes`; unsure if there is none.

        The judge votes one time after the other, and no more once a majority is certain or impossible: of 3 votes 2 are
        often enough. Raises PlannerError if the judge cannot be asked: an outage is no verdict; SettingsError if it
        returns something else than a verdict.
        """
        _vnc_asks = "judge"
        if not claim.strip():
            return Verdict(claim, "unsure", "the claim is empty", frame=frame.ref)
        deadline = Deadline(timeout_s)
        ballots: list[Verdict] = []
        while not _is_decided([ballot.kind for ballot in ballots], votes):
            ballots.append(within(partial(self._ask, claim, frame), deadline, "judges a claim"))
        counted = _count(ballots, votes)
        return replace(counted, claim=claim, frame=counted.frame or frame.ref)

    def _ask(self, claim: str, frame: Frame, timeout_s: float) -> Verdict:
        answer = self.judge.judge(claim, frame, timeout_s=timeout_s, report=self.report)
        return check_answer(self.judge, answer, Verdict)


def check_answer(judge: object, answer: T, kind: type[T]) -> T:
    """Return the answer of a judge, which may be a user's own. Raises SettingsError if it is not of that class."""
    if isinstance(answer, kind) and (not isinstance(answer, Verdict) or answer.kind in get_args(VerdictKind)):
        return answer
    wanted = 'Verdict(claim, "holds", reason), or "fails", or "unsure"' if kind is Verdict else kind.__name__
    raise SettingsError(
        f"the judge {type(judge).__module__}:{type(judge).__qualname__} must return a {wanted}, got {answer!r}"
    )


def _is_decided(kinds: Sequence[VerdictKind], votes: int) -> bool:
    """Return whether one of the kinds has a majority, or none can get one any more."""
    most = max(map(kinds.count, kinds), default=0)
    return most > votes // 2 or most + votes - len(kinds) <= votes // 2


def _count(ballots: Sequence[Verdict], votes: int) -> Verdict:
    """Return the first ballot of the majority, or unsure, with the votes and the usage of all."""
    kinds = tuple(ballot.kind for ballot in ballots)
    most = max(kinds, key=kinds.count)
    won = ballots[kinds.index(most)] if kinds.count(most) > votes // 2 else _split(ballots)
    return replace(won, votes=kinds, usage=sum((ballot.usage for ballot in ballots), Usage()))


def _split(ballots: Sequence[Verdict]) -> Verdict:
    """Return an unsure verdict that says how the votes split, with a reason for each side."""
    kinds = [ballot.kind for ballot in ballots]
    sides = [kind for kind in get_args(VerdictKind) if kind in kinds]
    counts = ", ".join(f"{kinds.count(side)} {side}" for side in sides)
    reasons = "; ".join(f"{side}: {ballots[kinds.index(side)].reason}" for side in sides)
    return replace(ballots[0], kind="unsure", reason=f"they split {counts}; {reasons}", region=None)


def within(work: Callable[[float], T], deadline: Deadline, what: str) -> T:
    """Return `work(seconds)`; wait until the deadline and a little longer, because foreign code may hang.

    Work that keeps to the seconds raises its own error. Raises ModelUnavailable, with `what` in its message, if the
    work hangs.
    """
    left_s = deadline.remaining_s
    try:
        return Deadline(left_s + _LATE_S).call(lambda: work(left_s))
    except DeadlineExceeded as exc:
        raise ModelUnavailable(f"the model that {what} did not answer within {left_s:g} s") from exc


class NoJudge:
    """The judge of a run without a configured model. It finds every claim unsure."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report = report_to_nobody) -> Verdict:
        """Return unsure, with the advice to configure a model."""
        reason = (
            "no model is configured to judge claims; set GOOGLE_API_KEY and pass --vnc-planner=gemini, "
            "or check the program's own state in the test's body"
        )
        return Verdict(claim, "unsure", reason, frame=frame.ref)


def verify_function(
    judge: Callable[[], Judge], look: Callable[[], Frame], report: Report, to_placeholders: Callable[[str], str] = str
) -> Callable[[str], str]:
    """Return a `verify(question)` function for a planning model. A judge that sees only the screen answers it.

    The answer is `holds: …`, `fails: …` or `unsure: …`, and is no verdict of the test. `to_placeholders` hides secrets
    in the question.
    """

    def verify(question: str) -> str:
        verdict = Verifier(judge(), report).verify(to_placeholders(question), look())
        return f"{verdict.kind}: {verdict.reason}"

    return verify


def failed_claim(judge: Callable[[], Judge], claims: Sequence[str], frame: Frame, report: Report) -> str:
    """Return the first of the claims that fails on a frame, and why; "" where none does. It is no verdict of a test."""
    for claim in claims:
        verdict = Verifier(judge(), report).verify(claim, frame)
        if verdict.kind == "fails":
            return f"{claim!r} fails: {verdict.reason}"
    return ""


def end_state_claim(task: str) -> str:
    """Return the claim that a task is done, as far as the screen shows it."""
    return f"The screen shows that this task has been carried out completely: {task}"


# --- arguments and errors --------------------------------------------------------------------------------------------


def check_asked(claim: object, votes: object, within_s: object = 0.0) -> None:
    """Raise SettingsError for a claim that cannot be judged, before any judge is asked."""
    if not (isinstance(claim, str) and claim.strip()):
        raise SettingsError(f"a claim must be a sentence about the screen, got {claim!r}")
    if not (isinstance(votes, int) and votes > 0 and votes % 2):
        raise SettingsError(f"votes must be an odd number, at least 1, got {votes!r}")
    if not (isinstance(within_s, (int, float)) and 0 <= within_s < math.inf):
        raise SettingsError(f"within_s must be a number of seconds, 0 for now, got {within_s!r}")
