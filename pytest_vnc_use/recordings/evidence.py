"""What was judged, without a model: a recorded answer is given again where the screen shows its evidence again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import Inconclusive, ProductFailed
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.format import Evidence, Screen, dynamic_region
from pytest_vnc_use.recordings.gates import (
    BACK_S,
    LOOK_FOR_BLINK_S,
    BlinkWatch,
    Mismatch,
    evidence_gate,
)
from pytest_vnc_use.recordings.images import Pixels, differing, frame_of, pixels_in
from pytest_vnc_use.recordings.moving import STABLE_S
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.types import REDACTED_COLOUR, Frame, JsonObject, Reading, Region, Report, Verdict
from pytest_vnc_use.types.protocols import Controller, Judge, Reader
from pytest_vnc_use.types.verdicts import USER_VERDICT, check_answer

UNJUDGED = "have it judged again with --vnc-record=auto or rewrite and a judge (--vnc-planner, or --vnc-judge)"
ONLY_MASKED = (
    "it holds by what a mask hides {}, which no replay compares, and not by the rest: {}; make the mask smaller "
    '("masks" in the recording), or claim what is beside it'
)
_BLINKS_S = 4.0
"""The longest wait for all variants of a blinking part."""

Comparison = tuple[Frame, Evidence | None, Mismatch | None]
"""What a claim was compared with: the frame, its evidence, and how the frame differs from that."""


@dataclass(eq=False)
class RecordedJudge:
    """The ports Judge and Reader: a recorded answer is given again on the same screen, and on no other.

    Beside each evidence is the recorded end of its run, if nothing acted on the desktop since: what passed by between
    the two may still be there, outside the claim's region. The `live` judge answers everything else; without one the
    verdict is unsure. `hide` takes secrets out of a claim.
    `masks` are left out of all comparisons, so they are no evidence. The `controller` watches what blinks. `compared`
    gets for each claim the frame that was compared, its evidence if there is any, and how the frame differs from that.
    A screen must stay so for `watch_s`, unless `is_watched` says that it did, or is seen to.
    """

    evidence: Sequence[tuple[Evidence, Screen | None]]
    live: Callable[[], Judge] | None
    masks: tuple[Region, ...]
    controller: Callable[[], Controller]
    hide: Callable[[str], str]
    compared: dict[str, Comparison]
    rehearsal: Rehearsal | None = None
    review: Review | None = None
    watch_s: float = STABLE_S
    is_watched: Callable[[Pixels], bool] = lambda _: False

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Return the recorded verdict, else the live judge's. Without a live judge, answer `unsure` at once.

        A verdict by what a mask hides could not be replayed, so the judge is asked again without that.
        """
        evidence, problem, frame = self._find_evidence(claim, frame, reading=False)
        if evidence and evidence.verdict != "read":
            reason = f"the screen is the same as when this was judged: {evidence.reason}"
            return Verdict(claim, evidence.verdict, reason, evidence.region, frame.ref)
        if self.live is None:
            return Verdict(claim, "unsure", f"{problem}; {UNJUDGED}", frame=frame.ref)
        live = self.live()

        def ask(shown: Frame) -> Verdict:
            return check_answer(live, live.judge(claim, shown, timeout_s=timeout_s, report=report), Verdict)

        verdict = ask(frame)
        by = Evidence(claim=claim, verdict="holds", region=verdict.region, screen=Screen())
        hides = next(filter(by.is_about, self.masks), None)
        if hides is None or verdict.kind == "unsure" or verdict.reason.startswith(USER_VERDICT):
            return verdict
        masked = self._without_masks(frame)
        again = ask(masked)
        usage = verdict.usage + again.usage
        if again.kind == verdict.kind:
            self.compared[self.hide(claim)] = masked, *self.compared[self.hide(claim)][1:]
            return replace(again, frame=verdict.frame, usage=usage)
        if not verdict.holds:
            return replace(verdict, usage=usage)
        return replace(verdict, kind="unsure", reason=ONLY_MASKED.format(hides, again.reason), usage=usage)

    def _without_masks(self, frame: Frame) -> Frame:
        """Return a frame on which the masks are redacted: what a judge sees there, a replay can compare."""
        pixels = pixels_in(frame).copy()
        for mask in self.masks:
            mask.part_of(pixels)[:] = REDACTED_COLOUR
        redacted = (*frame.redacted, *self.masks)
        return replace(frame_of(pixels), taken_at=frame.taken_at, moving=frame.moving, redacted=redacted)

    def read(self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report) -> Reading:
        """Return the recorded value, else the live judge's. Without a live judge, raise Inconclusive at once."""
        evidence, problem, frame = self._find_evidence(question, frame, reading=True)
        if evidence:
            reason = f"the screen is the same as when this was read: {evidence.reason}"
            return Reading(question, evidence.value, reason, evidence.region, frame.ref)
        reader = self.live() if self.live else None
        if isinstance(reader, Reader):
            reading = reader.read(question, schema, frame, timeout_s=timeout_s, report=report)
            return check_answer(reader, reading, Reading)
        raise Inconclusive(f"extract: no planner can read {question!r}: {problem}; {UNJUDGED}")

    def _find_evidence(self, claim: str, frame: Frame, *, reading: bool) -> tuple[Evidence | None, str, Frame]:
        """Return the evidence that the screen shows again, or None and the reason, and the frame that was compared."""
        sanitized, mismatch, compared = self.hide(claim), None, frame
        self.compared[sanitized] = frame, None, None
        for evidence, end in self.evidence:
            if evidence.claim == sanitized and (evidence.verdict == "read") == reading:
                mismatch, compared = self._mismatch(evidence, end, frame)
                self.compared[sanitized] = compared, evidence, mismatch
                if mismatch is None:
                    return evidence, "", compared
        _, nearest, _ = self.compared[sanitized]
        if nearest is None or mismatch is None:
            return None, "it has no recorded verdict, and no judge is configured", frame
        where = f"drift from the recorded evidence: {mismatch.problem}"
        if self.review and mismatch.boxes and not self.live:  # after a model has continued, the judge is asked
            gate = evidence_gate(nearest.screen, self.masks)
            answer = self.review.ask_claim(nearest, gate, compared, where)
            if answer.kind == "bug":
                raise ProductFailed(f"{claim!r}: {answer.text or 'it is a bug'} (according to the reviewer)\n{where}")
            if answer.kind == "accept":
                self.compared[sanitized] = compared, nearest, None
                return nearest, "", compared
            where += f"; the reviewer was not asked: {answer.text}" if answer.text else ""
        return None, f"{where}; no judge is configured", compared

    def _mismatch(self, evidence: Evidence, end: Screen | None, frame: Frame) -> tuple[Mismatch | None, Frame]:
        """Return the difference from the evidence, and the frame that shows it; a later one than `frame` may.

        The screen must stay so for the time of an end, unless it is the end that was watched. For what always changes
        now, such as a caret that did not blink, it is looked at again, as a gate does. Each blinking part in the
        evidence's region must show all its variants again. Evidence without a region may be about any region that no
        comparison looks at, except those no larger than a caret.
        """
        about = evidence.region
        hidden = [*self.masks, *(part.region for part in evidence.screen.dynamic if part.kind == "always_changing")]
        for region in () if evidence.is_end else hidden:
            if evidence.is_about(region):
                why = f"the claim's region is masked or always changing, {region}"
                return Mismatch(f"{why}, so it cannot be compared", region), frame
        mismatch, seen, controller = self._other(evidence, end, frame), frame, self.controller()
        stable_s = 0.0 if self.is_watched(pixels_in(frame)) or not evidence.screen.stable_s else self.watch_s
        boxes = mismatch.boxes if mismatch else ()
        moves = bool(boxes) and all(any(map(box.meets, frame.moving)) for box in boxes)
        if moves or (not mismatch and controller.changed_since(clock.monotonic() - stable_s)):
            while (left_s := frame.taken_at + stable_s + (BACK_S if mismatch else 0.0) - clock.monotonic()) > 0:
                left_s = min(left_s, LOOK_FOR_BLINK_S) if mismatch else left_s
                if not controller.wait_changed(seen.taken_at, left_s) and not mismatch:
                    break
                seen = controller.frame()
                mismatch = self._other(evidence, end, seen)
        if mismatch:
            return mismatch, seen
        blinking = [part for part in evidence.screen.dynamic if part.kind == "blinks"]
        blinking = [part for part in blinking if about is None or about.meets(part.region)]
        blinks, deadline = BlinkWatch(blinking), Deadline(_BLINKS_S)
        while blinking and (mismatch := blinks.note(pixels_in(controller.raw_frame()))) and deadline.remaining_s:
            controller.wait_changed(clock.monotonic(), LOOK_FOR_BLINK_S)
        return mismatch, frame

    def _other(self, evidence: Evidence, end: Screen | None, frame: Frame) -> Mismatch | None:
        """Return where a frame differs from the judged one. In a rehearsal, what may be learnt does not count."""
        screen, seen = evidence.screen, pixels_in(frame)
        gate = evidence_gate(screen, self.masks)
        if self.rehearsal and self.rehearsal.accepts(screen, gate, seen):
            return None
        mismatch = gate.mismatch(seen)
        if mismatch and mismatch.boxes and end and evidence.region:
            shown = end.pixels()
            boxes = boxes_of(differing(gate.expected, shown) & ~gate.ignored)
            boxes = [box for box in boxes if not box.meets(evidence.region)]
            passing = [dynamic_region(box, "unstable", box.part_of(shown)) for box in boxes]
            mismatch = gate.mismatch(seen, passing=passing)
        return None if mismatch and self.review and self.review.keeps(evidence, gate, seen) else mismatch
