"""A judge that needs no model if the screen shows the evidence for a recorded verdict again, pixel by pixel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.recordings.format import Evidence
from pytest_vnc_use.recordings.gates import BlinkWatch, Mismatch, evidence_gate, is_small
from pytest_vnc_use.recordings.pictures import Pixels, pixels_in, pixels_of
from pytest_vnc_use.recordings.rehearsal import Rehearsal
from pytest_vnc_use.types import Frame, JsonObject, Reading, Region, Report, Verdict
from pytest_vnc_use.types.protocols import Controller, Judge, Reader
from pytest_vnc_use.verification.verifier import check_answer

UNJUDGED = "have it judged again with --vnc-record=auto or rewrite and a judge (--vnc-planner, or --vnc-judge)"
Live = Callable[[], Judge]
_BLINKS_S = 4.0
"""The longest wait for all looks of a blinking part."""
_LOOK_AGAIN_S = 0.1
_BACK_S = 2.0
"""How long a difference may last while the screen must stay unchanged."""


class RecordedJudge:
    """The ports Judge and Reader: a recorded answer is given again on the same screen, and on no other.

    The `live` judge answers everything else; without one the verdict is unsure. `hide` takes secrets out of a claim.
    `masks` are left out of all comparisons, so they are no evidence. `eyes` watch blinking parts. `on_question` takes
    each claim, the frame that was compared, the evidence for it if there is any, and where the frame differs from that.
    """

    def __init__(
        self,
        evidence: Sequence[Evidence],
        live: Live | None,
        *,
        masks: tuple[Region, ...],
        rehearsal: Rehearsal | None = None,
        eyes: Callable[[], Controller],
        hide: Callable[[str], str],
        on_question: Callable[[str, Frame, Evidence | None, Mismatch | None], None],
    ) -> None:
        self._evidence = evidence
        self._live = live
        self._masks = masks
        self._rehearsal = rehearsal
        self._eyes = eyes
        self._hide = hide
        self._on_question = on_question

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Return the recorded verdict, else the live judge's. Without a live judge, answer `unsure` at once."""
        known, problem, frame = self._known(claim, frame, reading=False)
        if known and known.verdict != "read":
            reason = f"the screen is the same as when this was judged: {known.reason}"
            return Verdict(claim, known.verdict, reason, known.region, frame.ref)
        if self._live is not None:
            live = self._live()
            return check_answer(live, live.judge(claim, frame, timeout_s=timeout_s, report=report), Verdict)
        return Verdict(claim, "unsure", f"{problem}; {UNJUDGED}", frame=frame.ref)

    def read(self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report) -> Reading:
        """Return the recorded value, else the live judge's. Without a live judge, raise Inconclusive at once."""
        known, problem, frame = self._known(question, frame, reading=True)
        if known:
            reason = f"the screen is the same as when this was read: {known.reason}"
            return Reading(question, known.value, reason, known.region, frame.ref)
        reader = self._live() if self._live is not None else None
        if isinstance(reader, Reader):
            reading = reader.read(question, schema, frame, timeout_s=timeout_s, report=report)
            return check_answer(reader, reading, Reading)
        raise Inconclusive(f"extract: nobody can read {question!r}: {problem}; {UNJUDGED}")

    def _known(self, claim: str, frame: Frame, *, reading: bool) -> tuple[Evidence | None, str, Frame]:
        """Return the evidence that the screen shows again, or None and the reason, and the frame that was compared."""
        sanitized = self._hide(claim)
        evidence = [each for each in self._evidence if each.claim == sanitized and (each.verdict == "read") == reading]
        if not evidence:
            self._on_question(sanitized, frame, None, None)
            return None, "it has no recorded verdict, and no judge is configured", frame
        for each in evidence:
            mismatch, compared = self._mismatch(each, frame)
            self._on_question(sanitized, compared, each, mismatch)
            if mismatch is None:
                return each, "", compared
        where = mismatch.problem if mismatch else ""
        return None, f"drift from the recorded evidence: {where}; no judge is configured", compared

    def _mismatch(self, evidence: Evidence, frame: Frame) -> tuple[Mismatch | None, Frame]:
        """Return the difference from the evidence, and the frame that shows it; a later one than `frame` may."""
        if not evidence.is_end and (hidden := next(self._hidden(evidence), None)):
            return Mismatch("the claim's region is masked or always changing, so it cannot be compared", hidden), frame
        if found := self._other(evidence, pixels_of(frame.png)):
            return found, frame
        found, seen = self._not_staying(evidence, frame)
        return (found, seen) if found else (self._not_blinking(evidence), frame)

    def _other(self, evidence: Evidence, seen: Pixels) -> Mismatch | None:
        """Return where the screen differs from the judged one.

        In a rehearsal, differences that may be learnt do not count.
        """
        screen = evidence.screen
        gate = evidence_gate(screen.pixels(), screen.volatile, self._masks)
        if self._rehearsal and self._rehearsal.accepts(screen, gate, seen):
            return None
        return gate.mismatch(seen)

    def _not_staying(self, evidence: Evidence, frame: Frame) -> tuple[Mismatch | None, Frame]:
        """Watch until the screen has stayed unchanged for the recorded time; return what differs then, and where."""
        eyes, quiet_s, problem, seen = self._eyes(), evidence.screen.quiet_s, None, frame
        if not eyes.changed_since(clock.monotonic() - quiet_s):
            return None, frame
        while (left_s := frame.taken_at + quiet_s + (_BACK_S if problem else 0.0) - clock.monotonic()) > 0:
            if not eyes.wait_changed(seen.taken_at, left_s):
                break
            seen = eyes.frame()
            problem = self._other(evidence, pixels_in(seen))
        return problem, seen

    def _hidden(self, evidence: Evidence) -> Iterator[Region]:
        """Yield the regions that no comparison looks at and that the evidence may be about.

        Evidence without a region may be about any of them, except those no larger than a caret.
        """
        endless = [part.region for part in evidence.screen.volatile if part.kind == "endless"]
        for region in (*self._masks, *endless):
            if evidence.region.meets(region) if evidence.region else not is_small(region):
                yield region

    def _not_blinking(self, evidence: Evidence) -> Mismatch | None:
        """Return the first blinking part in the evidence's region that does not show all its looks again."""
        blinking = [part for part in evidence.screen.volatile if part.kind == "blinks"]
        about = [part for part in blinking if evidence.region is None or evidence.region.meets(part.region)]
        if not about:
            return None
        eyes, watch, deadline = self._eyes(), BlinkWatch(about), Deadline(_BLINKS_S)
        while (missing := watch.look(pixels_in(eyes.glance()))) and deadline.remaining_s:
            eyes.wait_changed(clock.monotonic(), _LOOK_AGAIN_S)
        return missing
