"""The claims of a test about the screen, judged now or within some time, and the values that it reads off it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import SettingsError, TaskFailed
from pytest_vnc_use.loop.runner import Runner
from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Extracted,
    Frame,
    FrameRef,
    Judged,
    Reading,
    Usage,
    Verdict,
    VerdictKind,
    error_for_verdicts,
)
from pytest_vnc_use.types.protocols import Controller, Judge
from pytest_vnc_use.verification.extraction import Form, unread
from pytest_vnc_use.verification.verifier import Verifier, check_asked, end_state_claim

T = TypeVar("T")

MOST_FRAMES = 8
"""The most kept frames that `saw` judges, newest first."""
CONFIRMING_VOTES = 5
"""The votes that must confirm a claim on a kept frame. Many frames mean many questions, so one wrong answer is likely.
"""


@dataclass(frozen=True)
class ClaimContext:
    """The things that an agent lends to its claims. Each function returns the current value.

    `will_judge` is called before the screen is captured for a judge.
    """

    settings: Callable[[], Settings]
    controller: Callable[[], Controller]
    judge: Callable[[], Judge]
    runner: Runner
    secrets: Secrets
    will_judge: Callable[[], None]


class Claims:
    """The claims and values of a test. `settings.votes` holds if a call gives no `votes`."""

    def __init__(self, context: ClaimContext) -> None:
        self._context = context
        self.verdicts: list[Verdict] = []
        self.extracted: list[Reading] = []
        self._checks: list[tuple[VerdictKind, str]] = []

    # --- claims ------------------------------------------------------------------------------------------------------

    def assess(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim, as `VncUseAgent.assess` says."""
        votes = self._votes(votes)
        check_asked(claim, votes, within_s)
        claim = self._context.secrets.declared.hide(claim)
        self._context.will_judge()
        verdicts = []
        for frame in looks_within(self._context.controller(), within_s):
            verdicts.append(self._judge_now(claim, frame, votes))
            if verdicts[-1].holds:
                break
        return self._remember(verdicts[-1], verdicts, [frame])

    def saw(self, claim: str, *, steps: int = 1, votes: int | None = None) -> Verdict:
        """Judge whether a claim held before, as `VncUseAgent.saw` says."""
        votes = self._votes(votes)
        check_asked(claim, votes)
        claim = self._context.secrets.declared.hide(claim)
        if steps < 1:
            raise SettingsError(f"steps must be at least 1, got {steps!r}")
        self._context.will_judge()
        frames = list(islice(_distinct(self._kept_frames(steps)), MOST_FRAMES))
        verdicts = []
        for frame in frames:
            verdicts.append(self._confirm(claim, frame, votes))
            if verdicts[-1].holds:
                break
        decided = verdicts[-1] if verdicts[-1].holds else _verdict_of_none(verdicts)
        return _held(self._remember(decided, verdicts, frames[: len(verdicts)]))

    def verify(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim, as `VncUseAgent.verify` says."""
        return _held(self.assess(claim, within_s=within_s, votes=votes))

    def check(self, claim: str | object, message: str = "", *, within_s: float = 0.0, votes: int | None = None) -> bool:
        """Note a soft check, as `VncUseAgent.check` says."""
        if isinstance(claim, str):
            claim = self.assess(claim, within_s=within_s, votes=votes)
        if not message and not isinstance(claim, Verdict):
            raise SettingsError(
                f"`check` needs a `message` for the condition {claim!r}, got {message!r}: for example check(total "
                '== 3, "the total is 3")'
            )
        kind: VerdictKind = claim.kind if isinstance(claim, Verdict) else "holds" if claim else "fails"
        line = ": ".join(filter(None, [message, str(claim) if isinstance(claim, Verdict) else ""]))
        self._checks.append((kind, line))
        return kind == "holds"

    def unmet(self) -> TaskFailed | None:
        """Return the error of all soft checks so far, as `VncUseAgent.unmet` says."""
        checks, self._checks = self._checks, []
        failed = [(kind, line) for kind, line in checks if kind != "holds"]
        if not failed:
            return None
        lines = [f"{len(failed)} of {len(checks)} checks not met", *(line for _, line in failed)]
        return error_for_verdicts([kind for kind, _ in failed])("\n  ".join(lines))

    # --- the end of a task -------------------------------------------------------------------------------------------

    def verify_end_state(self, task: str, *, votes: int | None = None) -> Verdict:
        """Judge the end state of a task, as `VncUseAgent.verify_end_state` says."""
        self._context.will_judge()
        frame = self._context.controller().frame()
        verdict = self._judge_now(end_state_claim(self._context.secrets.declared.hide(task)), frame, self._votes(votes))
        return self._remember(verdict, [verdict], [frame])

    def _votes(self, votes: int | None) -> int:
        return self._context.settings().votes if votes is None else votes

    def _judge_now(self, claim: str, frame: Frame, votes: int) -> Verdict:
        verifier = Verifier(self._context.judge(), self._context.runner.emit)
        return verifier.verify(claim, frame, votes=votes, timeout_s=self._context.settings().seconds)

    def _confirm(self, claim: str, frame: Frame, votes: int) -> Verdict:
        verdict = self._judge_now(claim, frame, votes)
        if not verdict.holds or votes >= CONFIRMING_VOTES:
            return verdict
        again = self._judge_now(claim, frame, CONFIRMING_VOTES)
        return replace(again, usage=verdict.usage + again.usage)

    def _remember(self, verdict: Verdict, all_of_it: Sequence[Verdict], frames: Sequence[Frame]) -> Verdict:
        usage = sum((each.usage for each in all_of_it), Usage())
        judged = self._context.secrets.everything.hide_in(replace(verdict, looks=len(all_of_it), usage=usage))
        judged = replace(
            judged, reason=cut(judged.reason)
        )  # hide first: a secret that is cut in half would not be recognised
        self.verdicts.append(judged)
        self._context.runner.record(Judged(judged), frames)
        return self.verdicts[-1]

    def _kept_frames(self, steps: int) -> Iterator[Frame]:
        """Yield the screen now and the kept frames, newest first. A frame that was kept twice comes twice."""
        transients = self._context.controller().transient_frames()
        yield self._context.controller().frame()
        yield from reversed(transients)
        yield from self._context.runner.newest_frames(steps)

    # --- values ------------------------------------------------------------------------------------------------------

    def extract(self, model: type[T], question: str) -> T:
        """Read a value off the screen, as `VncUseAgent.extract` says."""
        form = Form.of(model)
        if not question.strip():
            raise SettingsError(f"`question` must name the value to read, got {question!r}")
        self._context.will_judge()
        frame = self._context.controller().frame()
        reading = form.read(
            self._context.judge(),
            self._context.secrets.declared.hide(question),
            frame,
            timeout_s=self._context.settings().seconds,
            report=self._context.runner.emit,
            hide=self._context.secrets.declared.hide,
        )
        problem = form.problem(reading)
        reading, problem = replace(reading, reason=cut(reading.reason)), cut(problem)
        self.extracted.append(reading)
        self._context.runner.record(Extracted(reading, form.name, problem), [frame])
        if problem:
            hide = self._context.secrets.everything
            raise unread(form.name, hide.hide_in(reading), hide.hide(problem))
        return form.filled(reading)


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return the claim that decides, with the judge's reason, and a line for each claim.

    At least one of the verdicts must not hold.
    """
    failed = [verdict for verdict in verdicts if not verdict.holds]
    decisive = next((verdict for verdict in failed if verdict.kind == "fails"), failed[0])
    count = f"{len(failed)} of {len(verdicts)} claims do not surely hold: " if len(verdicts) > 1 else ""
    what = "fails" if decisive.kind == "fails" else "is unsure"
    headline = f"{count}claim {plain(decisive.claim)!r} {what}: {plain(decisive.reason)}"
    return "\n  ".join([headline, *(plain(str(verdict)) for verdict in verdicts)])


def format_end_state(verdict: Verdict, task: str) -> str:
    """Return whether the task is done, with the judge's reason, and a line for the judged claim."""
    named = f"the task {plain(task)!r} is"
    what = f"{named} not done" if verdict.kind == "fails" else f"it is unsure whether {named} done"
    return f"{what}: {plain(verdict.reason)}\n  {plain(str(verdict))}"


def _held(verdict: Verdict) -> Verdict:
    if verdict.holds:
        return verdict
    raise error_for_verdicts([verdict.kind])(format_verdicts([verdict]))


def looks_within(controller: Controller, within_s: float) -> Iterator[Frame]:
    """Yield the screen now, and again each time that it has changed and come to rest, until the time is up.

    A change during the judge's answer counts too, also if the time is up by then. Raises DesktopError.
    """
    deadline, left_s = Deadline(within_s), within_s
    last: FrameRef | None = None
    while True:
        frame = controller.frame()
        if frame.ref != last:
            yield frame
        if not left_s:
            return
        last, left_s = frame.ref, deadline.remaining_s
        if not controller.wait_changed(frame.taken_at, left_s):
            return
        controller.settle()


def _distinct(frames: Iterator[Frame]) -> Iterator[Frame]:
    seen: set[FrameRef] = set()
    for frame in frames:
        if frame.ref not in seen:
            seen.add(frame.ref)
            yield frame


def _verdict_of_none(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim that holds on none of the frames."""
    verdict = next((each for each in verdicts if each.kind == "unsure"), verdicts[0])
    where = f"it holds on none of {len(verdicts)} frames" if len(verdicts) > 1 else "it does not hold on the only frame"
    return replace(verdict, reason=f"{where}; {verdict.reason}")
