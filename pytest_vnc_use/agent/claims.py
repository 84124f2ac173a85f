"""What a test says of the screen: claims that are judged, now or within some time, and values that are read off it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from pytest_vnc_use.body_checks.code_places import Place
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import SettingsError, TaskFailed
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.sightings import SIGHTINGS
from pytest_vnc_use.types import (
    AskedVerdict,
    Extracted,
    Frame,
    FrameRef,
    Judged,
    Reading,
    Report,
    RunResult,
    RunStarted,
    Usage,
    Verdict,
    VerdictKind,
)
from pytest_vnc_use.types.protocols import Controller, Judge
from pytest_vnc_use.verification.extraction import Form, unread
from pytest_vnc_use.verification.verifier import Verifier, check_asked, end_state_claim, error_for_verdicts

T = TypeVar("T")

MOST_FRAMES = 8
"""Of the frames that were kept, so many of the newest are looked through."""
CONFIRMING_VOTES = 5
"""Who looks through many frames asks many times: one where a claim seems to hold is judged anew by so many votes."""


@dataclass(frozen=True)
class LastTask:
    """The last task of a test: its number from 1, how it ended, and where the test stood then.

    `result` is None where it broke; `verdicts` is how many there were before it ended, `looks` how many looks of the
    test's own.
    """

    number: int
    task: str
    body_checks: bool
    result: RunResult | None
    verdicts: int
    places: tuple[Place, ...] = ()
    looks: int = 0


class Claims(ABC):
    """The part of an agent that says what the screen shows; `settings.votes` hold where a call names none."""

    settings: Settings

    def __init__(self) -> None:
        self.verdicts: list[AskedVerdict] = []
        """Every verdict so far, oldest first; those whose `holds` is false are not shown to hold."""
        self.extracted: list[Reading] = []
        """All that was read so far, oldest first, each with its reason and the region that it came from."""
        self._checks: list[tuple[VerdictKind, str]] = []
        self._counted = 0
        """So many of the verdicts were looked through for those that nobody asked."""
        self._last_task: LastTask | None = None
        self._end_frame: Frame | None = None

    # --- what the agent lends ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def controller(self) -> Controller: ...

    @property
    @abstractmethod
    def judge(self) -> Judge: ...

    @property
    @abstractmethod
    def _report(self) -> Report:
        """Who is told of each exchange with a model."""

    @abstractmethod
    def _record(self, event: Judged | Extracted, frames: Sequence[Frame]) -> None:
        """Tell of an event, and keep its frames, where they are kept."""

    @abstractmethod
    def _hidden(self, verdict: Verdict) -> Verdict:
        """The verdict without secrets."""

    @abstractmethod
    def _concealed(self, text: str) -> str:
        """The text with placeholders for the values of its secrets."""

    @abstractmethod
    def _frames_of_run(self, steps: int) -> Iterator[Frame]:
        """Kept frames of the last steps of the newest run, newest first; none once something was done after it."""

    @abstractmethod
    def _will_judge(self) -> None:
        """Is called before the screen is looked at for a judge."""

    # --- claims ------------------------------------------------------------------------------------------------------

    def verify(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim about the screen. The verdict is true where it holds, false where it fails.

        Where the judge is unsure, its `bool()` raises Inconclusive. That something is absent is claimed as it is, "no
        error is shown": of `not verify("an error is shown")`, what the judge overlooks would pass for absent.
        With `within_s` the claim may come to hold within so many seconds: it is judged again whenever the screen has
        changed and come to rest, the last time on what the screen was when the time was up. `votes` is odd: the judge
        is asked until a majority of so many agrees, and is unsure where none does.
        Raises SettingsError before anything is asked; InfraError where the judge or the desktop is not there.
        """
        votes = self._votes(votes)
        check_asked(claim, votes, within_s)
        self._will_judge()
        verdicts = []
        for frame in looks_within(self.controller, within_s):
            verdicts.append(self._judged(claim, frame, votes))
            if verdicts[-1].holds:
                break
        return self._remembered(verdicts[-1], verdicts, [frame])

    def saw(self, claim: str, *, steps: int = 1, votes: int | None = None) -> Verdict:
        """Judge whether a claim held at any time since the last step began, or since the last `steps` of a run.

        Looked through, newest first, are the screen now and the frames that were kept, also those that were only there
        for half a second: at most `MOST_FRAMES`. One on which the claim seems to hold decides, once `CONFIRMING_VOTES`
        have said so too. Where it holds on none, it is unsure where it is unsure on one of them.
        """
        votes = self._votes(votes)
        check_asked(claim, votes)
        if steps < 1:
            raise SettingsError(f"steps must be at least 1, got {steps!r}")
        self._will_judge()
        frames = list(islice(_distinct(self._kept(steps)), MOST_FRAMES))
        verdicts = []
        for frame in frames:
            verdicts.append(self._confirmed(claim, frame, votes))
            if verdicts[-1].holds:
                break
        decided = verdicts[-1] if verdicts[-1].holds else _unseen(verdicts)
        return self._remembered(decided, verdicts, frames[: len(verdicts)])

    def check(self, claim: str | object, message: str = "", *, within_s: float = 0.0, votes: int | None = None) -> bool:
        """A soft check: the test goes on, and fails at its end where one is not met. Returns whether this one is.

        A string is a claim for the judge, as in `verify`; all else is a condition, and `message` says what it means. A
        verdict, as of `saw`, speaks for itself.
        """
        if isinstance(claim, str):
            claim = self.verify(claim, within_s=within_s, votes=votes)
        if not message and not isinstance(claim, Verdict):
            raise SettingsError(f"check needs a message that says what {claim!r} means")
        kind: VerdictKind = claim.kind if isinstance(claim, Verdict) else "holds" if claim else "fails"
        told = ": ".join(filter(None, [message, str(claim) if isinstance(claim, Verdict) else ""]))
        self._checks.append((kind, told))
        return kind == "holds"

    def unmet(self) -> TaskFailed | None:
        """What the soft checks so far come to, in one error that names all that are not met; they then count no more.

        A verdict that does not hold, and that nobody asked whether it does, is one of them.
        ProductFailed where at least one fails, Inconclusive where the judge was unsure and none fails.
        """
        checks, self._checks = [*self._checks, *self._ignored()], []
        failed = [(kind, told) for kind, told in checks if kind != "holds"]
        if not failed:
            return None
        lines = [f"{len(failed)} of {len(checks)} checks not met", *(told for _, told in failed)]
        return error_for_verdicts([kind for kind, _ in failed])("\n  ".join(lines))

    def _ignored(self) -> list[tuple[VerdictKind, str]]:
        new, self._counted = self.verdicts[self._counted :], len(self.verdicts)
        ignored = [each.plain for each in new if not each.asked]
        return [(each.kind, f"{each} (nobody asked whether it holds)") for each in ignored if not each.holds]

    # --- the end of a task -------------------------------------------------------------------------------------------

    def verify_end_state(self, task: str, *, votes: int | None = None) -> Verdict:
        """Judge whether the end state of a task is on the screen, or was before the agent's hands did something."""
        self._will_judge()
        frame = self._end_frame or self.controller.frame()
        verdict = self._judged(end_state_claim(self._concealed(task)), frame, self._votes(votes))
        return self._remembered(verdict, [verdict], [frame])

    def take_unproven(self) -> LastTask | None:
        """The last task, once, if nothing that was judged since holds, and the test did not say `expect=None`."""
        last, self._last_task = self._last_task, None
        if last is None or last.body_checks:
            return None
        return None if any(verdict.plain.holds for verdict in self.verdicts[last.verdicts :]) else last

    def _end(self, number: int, started: RunStarted, result: RunResult | None, places: tuple[Place, ...]) -> None:
        """Note that a task has ended."""
        self._end_frame = None
        seen = len(self.verdicts), places, SIGHTINGS.count
        self._last_task = LastTask(number, started.task, started.body_checks, result, *seen)

    def _acts(self) -> None:
        if self._last_task and self._end_frame is None:
            self._end_frame = self.controller.frame()

    def _votes(self, votes: int | None) -> int:
        return self.settings.votes if votes is None else votes

    def _judged(self, claim: str, frame: Frame, votes: int) -> Verdict:
        verifier = Verifier(self.judge, self._report)
        return verifier.verify(claim, frame, votes=votes, timeout_s=self.settings.seconds)

    def _confirmed(self, claim: str, frame: Frame, votes: int) -> Verdict:
        verdict = self._judged(claim, frame, votes)
        if not verdict.holds or votes >= CONFIRMING_VOTES:
            return verdict
        again = self._judged(claim, frame, CONFIRMING_VOTES)
        return replace(again, usage=verdict.usage + again.usage)

    def _remembered(self, verdict: Verdict, all_of_it: Sequence[Verdict], frames: Sequence[Frame]) -> AskedVerdict:
        usage = sum((each.usage for each in all_of_it), Usage())
        told = self._hidden(replace(verdict, looks=len(all_of_it), usage=usage))
        told = replace(told, reason=cut(told.reason))  # in this order: half a secret would not be known as one
        self.verdicts.append(AskedVerdict.of(told))
        self._record(Judged(told), frames)
        return self.verdicts[-1]

    def _kept(self, steps: int) -> Iterator[Frame]:
        """The screen now and what was kept of it since then, newest first; what is seen twice comes twice."""
        passed = self.controller.transient_frames()
        yield self.controller.frame()
        yield from reversed(passed)
        yield from self._frames_of_run(steps)

    # --- values ------------------------------------------------------------------------------------------------------

    def extract(self, model: type[T], question: str) -> T:
        """Read a value off the screen: a pydantic model, or whatever else pydantic can make of JSON.

        What was seen, and where, is the newest of `extracted`. Raises SettingsError, before anything is asked, for a
        type without a JSON Schema; Inconclusive, which shows what was read, where that is none of the type, or nothing;
        InfraError.
        """
        form = Form.of(model)
        if not question.strip():
            raise SettingsError(f"a question must say what is to be read, got {question!r}")
        self._will_judge()
        frame = self.controller.frame()
        reading = form.read(self.judge, question, frame, timeout_s=self.settings.seconds, report=self._report)
        problem = form.problem(reading)
        reading, problem = replace(reading, reason=cut(reading.reason)), cut(problem)
        self.extracted.append(reading)
        self._record(Extracted(reading, form.name, problem), [frame])
        if problem:
            raise unread(form.name, reading, problem)
        return form.filled(reading)


def looks_within(controller: Controller, within_s: float) -> Iterator[Frame]:
    """The screen now, and anew each time that it has changed and come to rest, until the time is up.

    What changed while nobody looked is looked at, also once the time is up. Raises DesktopError.
    """
    deadline, left_s = Deadline(within_s), within_s
    shown: FrameRef | None = None
    while True:
        frame = controller.frame()
        if frame.ref != shown:
            yield frame
        if not left_s:
            return
        shown, left_s = frame.ref, deadline.remaining_s
        if not controller.wait_changed(frame.taken_s, left_s):
            return
        controller.settle()


def _distinct(frames: Iterator[Frame]) -> Iterator[Frame]:
    seen: set[FrameRef] = set()
    for frame in frames:
        if frame.ref not in seen:
            seen.add(frame.ref)
            yield frame


def _unseen(verdicts: Sequence[Verdict]) -> Verdict:
    """What is said of a claim that holds on none of the frames."""
    verdict = next((each for each in verdicts if each.kind == "unsure"), verdicts[0])
    where = f"on none of {len(verdicts)} frames" if len(verdicts) > 1 else "not on the only frame there is"
    return replace(verdict, reason=f"{where}; {verdict.reason}")
