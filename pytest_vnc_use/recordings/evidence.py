"""What was judged: a recorded answer is given again, without a model, where the screen
shows its evidence again; a new answer is kept with its evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import Inconclusive, ProductFailed, causes
from pytest_vnc_use.recordings import ANSWER_IT
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.course import Allowances
from pytest_vnc_use.recordings.format import (
    DynamicRegion,
    Evidence,
    Screen,
    ShownValue,
    dynamic_region,
    merged,
)
from pytest_vnc_use.recordings.gates import (
    BACK_S,
    LOOK_FOR_BLINK_S,
    BlinkWatch,
    Gate,
    Mismatch,
    evidence_gate,
    mask_of,
)
from pytest_vnc_use.recordings.images import Pixels, differing, frame_of, pixels_in
from pytest_vnc_use.recordings.life import GateClosed
from pytest_vnc_use.recordings.moving import STABLE_S, screen_of, stable_screen
from pytest_vnc_use.recordings.question import NO, Answer
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.recordings.segment_run import SegmentRun
from pytest_vnc_use.recordings.values import Values
from pytest_vnc_use.types import (
    REDACTED_COLOUR,
    Frame,
    JsonObject,
    Reading,
    Region,
    Report,
    Verdict,
)
from pytest_vnc_use.types.protocols import Controller, Judge, Reader
from pytest_vnc_use.types.values import VALUE_MARK, fill, value_mark
from pytest_vnc_use.types.verdicts import USER_VERDICT, check_answer

_UNJUDGED = (
    f"{ANSWER_IT}, or have it judged again with --vnc-record=auto and a judge"
    " (--vnc-planner, or --vnc-judge)"
)
_NO_JUDGE = "no judge is configured"
_UNANSWERED = "the question whether it holds was not answered with yes"
_BLINKS_S = 4.0
"""The longest wait for all variants of a blinking part."""


class KnownAnswer(NamedTuple):
    """A recorded answer, and what lets its gate open though the screen is another.

    `end` is the recorded end of its segment, if nothing acted on the desktop since:
    what came and went between the two may still be there, outside the claim's region.
    """

    evidence: Evidence
    allowances: Allowances
    end: Screen | None = None

    @property
    def gate(self) -> Gate:
        """The gate to the screen of the evidence."""
        screen = self.evidence.screen
        return evidence_gate(screen, self.allowances.masks_on(screen))


@dataclass(frozen=True)
class Compared:
    """What a claim was compared with: the `frame` that was looked at last, the `known`
    answer if there is any, and how the frame differs from its evidence.
    """

    frame: Frame
    known: KnownAnswer | None = None
    mismatch: Mismatch | None = None

    @property
    def is_changed(self) -> bool:
        """Whether pixels differ from the evidence: then a reviewer is asked whether the
        claim still holds.
        """
        return self.mismatch is not None and bool(self.mismatch.boxes)


@dataclass(eq=False)
class RecordedJudge:
    """The ports Judge and Reader: a recorded answer is given again on the same screen,
    and on no other.

    Args:
        known: What was judged.
        live: Answers everything else; without it the verdict is unsure.
        masks: What its evidence should not be about.
        controller: Watches what blinks.
        hide: Takes secrets out of a claim.
        compared: Gets for each claim what it was compared with.
        run: The newest run; None before the first.
        review: Has a user answer what has no evidence, where there is no live judge.
    """

    known: Sequence[KnownAnswer]
    live: Callable[[], Judge] | None
    masks: Sequence[Region]
    controller: Callable[[], Controller]
    hide: Callable[[str], str]
    compared: dict[str, Compared]
    run: SegmentRun | None = None
    review: Review | None = None

    @property
    def _values(self) -> Values:
        """The values of the run, which claims have by name."""
        return _values_of(self.run)

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        """Return the recorded verdict, else the live judge's. Without a live judge, a
        reviewer answers; without one the verdict is unsure at once.

        A verdict by what a mask hides can only be replayed while it is the same there,
        so the judge is asked again without that, and the answer kept if it is the same.
        """
        evidence, problem, frame = self._find_evidence(claim, frame, reading=False)
        if evidence and evidence.verdict != "read":
            reason = (
                f"the screen is the same as when this was judged: {evidence.reason}"
            )
            return Verdict(claim, evidence.verdict, reason, evidence.region, frame.ref)
        if self.live is None:
            return self._by_user(claim, frame, problem)
        live = self.live()
        asked = fill(claim, self._values)
        verdict = _ask(live, asked, frame, timeout_s, report)
        if not self._is_under_mask(verdict):
            return verdict
        masked = self._without_masks(frame)
        again = _ask(live, asked, masked, timeout_s, report)
        usage = verdict.usage + again.usage
        if again.kind == verdict.kind:
            hidden = self.hide(claim)
            self.compared[hidden] = replace(self.compared[hidden], frame=masked)
            return replace(again, frame=verdict.frame, usage=usage)
        return replace(verdict, usage=usage)

    def _by_user(self, claim: str, frame: Frame, problem: str) -> Verdict:
        """Return the verdict of a reviewer on what has no evidence; unsure where there
        is none, or they were asked whether a change of the screen matters.

        They see what a replay can compare: the screen without masks.
        """
        hidden = self.hide(claim)
        nearest = self.compared[hidden]
        if self.review is None:
            reason = f"{problem}; {_NO_JUDGE}; {_UNJUDGED}"
            return Verdict(claim, "unsure", reason, frame=frame.ref)
        if nearest.is_changed:
            reason = f"{problem}; {_UNANSWERED}"
            return Verdict(claim, "unsure", reason, frame=frame.ref)
        shown = self._without_masks(frame) if self.masks else frame
        asked = fill(hidden, self._values)
        answer = self.review.ask_new_claim(asked, shown, problem)
        self.compared[hidden] = replace(nearest, frame=shown)
        match answer.kind:
            case "accept":
                reason = f"{USER_VERDICT}it holds"
                return Verdict(claim, "holds", reason, answer.region, frame.ref)
            case "bug":
                reason = f"{USER_VERDICT}{answer.text or 'it does not hold'}"
                return Verdict(claim, "fails", reason, frame=frame.ref)
            case _:
                why = answer.text or _UNANSWERED
                reason = f"{problem}; {why}"
                return Verdict(claim, "unsure", reason, frame=frame.ref)

    def _is_under_mask(self, verdict: Verdict) -> bool:
        """Return whether a mask hides something that a judge's verdict is about; not
        where a user judged.
        """
        if verdict.kind == "unsure" or verdict.reason.startswith(USER_VERDICT):
            return False
        evidence = Evidence(
            claim=verdict.claim,
            verdict="holds",
            region=verdict.region,
            screen=Screen(),
        )
        return any(map(evidence.is_about, self.masks))

    def _without_masks(self, frame: Frame) -> Frame:
        """Return a frame on which the masks are redacted: what a judge sees there, a
        replay can compare.
        """
        pixels = pixels_in(frame).copy()
        for mask in self.masks:
            mask.part_of(pixels)[:] = REDACTED_COLOUR
        redacted = (*frame.redacted, *self.masks)
        return replace(
            frame_of(pixels),
            taken_at=frame.taken_at,
            moving=frame.moving,
            redacted=redacted,
        )

    def read(
        self,
        question: str,
        schema: JsonObject,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
    ) -> Reading:
        """Return the recorded value, else the live judge's. Without a live judge, raise
        Inconclusive at once.
        """
        evidence, problem, frame = self._find_evidence(question, frame, reading=True)
        if evidence:
            reason = f"the screen is the same as when this was read: {evidence.reason}"
            return Reading(question, evidence.value, reason, evidence.region, frame.ref)
        reader = self.live() if self.live else None
        if isinstance(reader, Reader):
            with causes.users_errors("judge", reader):
                reading = reader.read(
                    question, schema, frame, timeout_s=timeout_s, report=report
                )
            return check_answer(reader, reading, Reading)
        raise Inconclusive(
            f"extract: no planner can read {question!r}: {problem}; {_NO_JUDGE};"
            f" {_UNJUDGED}"
        )

    def _find_evidence(
        self, claim: str, frame: Frame, *, reading: bool
    ) -> tuple[Evidence | None, str, Frame]:
        """Return the evidence that the screen shows again, or None and the reason, and
        the frame that was compared.
        """
        hidden = self.hide(claim)
        nearest, problem = self._nearest(hidden, frame, reading=reading)
        self.compared[hidden] = nearest
        known = nearest.known
        if known and not problem:
            return known.evidence, "", nearest.frame
        # After a model has continued, the judge is asked.
        if known and nearest.is_changed and not self.live:
            answer = _ask_reviewer(known, nearest, problem)
            if answer.kind == "bug":
                bug = answer.text or "it is a bug"
                raise ProductFailed(
                    f"{claim!r}: {bug} (according to the reviewer)\n{problem}"
                )
            if answer.kind == "accept":
                self.compared[hidden] = replace(nearest, mismatch=None)
                return known.evidence, "", nearest.frame
            if answer.text:
                problem += f"; the reviewer was not asked: {answer.text}"
        return None, problem, nearest.frame

    def _nearest(
        self, claim: str, frame: Frame, *, reading: bool
    ) -> tuple[Compared, str]:
        """Return the comparison with the evidence that the screen shows, else with the
        last evidence of the claim, and why the screen does not show that; "" if it does.
        """
        nearest = Compared(frame)
        problem = "it has no recorded verdict"
        for known in self.known:
            evidence = known.evidence
            is_reading = evidence.verdict == "read"
            if evidence.claim != claim or is_reading != reading:
                continue
            problem = _why_other_value(evidence, self._values)
            if problem:
                # It is judged again for this run, and its evidence stays.
                nearest = Compared(frame, known)
                continue
            nearest = self._compare(known, frame)
            if nearest.mismatch is None:
                problem = _why_other_shown(evidence, pixels_in(nearest.frame))
            else:
                what = nearest.mismatch.problem
                problem = f"drift from the recorded evidence: {what}"
            if not problem:
                break
        return nearest, problem

    def _compare(self, known: KnownAnswer, frame: Frame) -> Compared:
        """Compare a frame, or a later one that shows a difference, with the evidence.

        The screen must stay so for the time of an end, unless it is the end that was
        watched. For what always changes now, such as a caret that did not blink, it is
        looked at again, as a gate does. Each blinking part in the evidence's region
        must show all its variants again.
        """
        evidence = known.evidence
        changing = [
            part.region
            for part in evidence.screen.dynamic
            if part.kind == "always_changing"
        ]
        if region := _concerned(evidence, changing):
            why = f"the claim's region is always changing, {region}"
            mismatch = Mismatch(f"{why}, so it cannot be compared", region)
            return Compared(frame, known, mismatch)
        difference, seen = self._stable_mismatch(known, frame)
        if difference:
            return Compared(seen, known, difference)
        if region := _hiding_mask(known, pixels_in(seen)):
            why = (
                f"the claim's region is masked, and differs there, {region}, so it cannot"
                " be compared: mark a region of the claim beside the mask"
            )
            mismatch = Mismatch(why, region)
            return Compared(frame, known, mismatch)
        return Compared(frame, known, self._await_blinks(evidence))

    def _stable_mismatch(
        self, known: KnownAnswer, frame: Frame
    ) -> tuple[Mismatch | None, Frame]:
        """Return the difference once the screen has stayed so for its time."""
        mismatch = _mismatch(known, frame)
        seen = frame
        controller = self.controller()
        stable_s = self._stable_s(known.evidence, frame)
        stable_since = clock.monotonic() - stable_s
        is_unstable = mismatch is None and controller.changed_since(stable_since)
        if not is_unstable and not _is_moving(mismatch, frame):
            return mismatch, seen
        while True:
            until = frame.taken_at + stable_s
            if mismatch:
                until += BACK_S
            wait_s = until - clock.monotonic()
            if wait_s <= 0:
                break
            if mismatch:
                wait_s = min(wait_s, LOOK_FOR_BLINK_S)
            has_changed = controller.wait_changed(seen.taken_at, wait_s)
            if not has_changed and not mismatch:
                break
            seen = controller.frame()
            mismatch = _mismatch(known, seen)
        return mismatch, seen

    def _stable_s(self, evidence: Evidence, frame: Frame) -> float:
        """Return how long the screen must still stay as it is."""
        if not evidence.screen.stable_s:
            return 0.0
        if self.run is None:
            return STABLE_S
        watched = self.run.watched
        if watched and watched.shows_end(pixels_in(frame)):
            return 0.0
        return float(self.run.started.settings["watch_seconds"])

    def _await_blinks(self, evidence: Evidence) -> Mismatch | None:
        """Wait until each blinking part that a claim is about has shown all its
        variants; return what is missing.
        """
        about = evidence.region
        blinking = []
        for part in evidence.screen.dynamic:
            is_within = about is None or about.meets(part.region)
            if part.kind == "blinks" and is_within:
                blinking.append(part)
        if not blinking:
            return None
        controller = self.controller()
        blinks = BlinkWatch(blinking)
        deadline = Deadline(_BLINKS_S)
        while missing := blinks.note(pixels_in(controller.raw_frame())):
            if not deadline.remaining_s:
                break
            controller.wait_changed(clock.monotonic(), LOOK_FOR_BLINK_S)
        return missing


def _ask_reviewer(known: KnownAnswer, nearest: Compared, problem: str) -> Answer:
    """Return a reviewer's answer whether a claim holds; no if there is no reviewer."""
    review = known.allowances.review
    if review is None or nearest.mismatch is None:
        return NO
    asked = replace(nearest.mismatch, problem=problem)
    return review.ask_claim(known.evidence, known.gate, nearest.frame, asked)


def _hiding_mask(known: KnownAnswer, seen: Pixels) -> Region | None:
    """Return a mask that a claim is about, and that hides a difference from the screen
    on which it was judged; None for none.

    Where the screen is the same under a mask too, the mask hides nothing.
    """
    evidence = known.evidence
    screen = evidence.screen
    masks = (*known.allowances.masks_on(screen), *screen.masks)
    if _concerned(evidence, masks) is None:
        return None
    carets = [part.region for part in screen.dynamic if part.kind == "caret"]
    left_out = [*screen.redacted, *carets]
    differs = really_differing(screen.pixels(), seen, mask_of(left_out, seen.shape))
    if evidence.region:
        differs &= mask_of([evidence.region], seen.shape)
    for mask in masks:
        if evidence.is_about(mask) and mask.part_of(differs).any():
            return mask
    return None


def _values_of(run: SegmentRun | None) -> Values:
    return run.started.values if run else {}


def _why_other_value(evidence: Evidence, values: Values) -> str:
    """Return which value of a claim is another now than when it was judged; "" if none
    is.
    """
    for name, recorded in evidence.values.items():
        now = values.get(name, recorded)
        if now != recorded:
            return f"it was judged with {value_mark(name)} = {recorded!r}, not {now!r}"
    return ""


def _why_other_shown(evidence: Evidence, seen: Pixels) -> str:
    """Return which value that a claim is about shows on the screen as another one than
    when it was judged; "" if none does.
    """
    screen = evidence.screen
    for shown in screen.values:
        if _concerned(evidence, [shown.region]) is None:
            continue
        recorded = shown.region.part_of(screen.pixels())
        if differing(recorded, shown.region.part_of(seen)).any():
            return (
                f"it is about the region {shown.region}, which shows another value of"
                f" {shown.name!r}"
            )
    return ""


def _mismatch(known: KnownAnswer, frame: Frame) -> Mismatch | None:
    """Return where a frame differs from the judged one, except for what a rehearsal may
    learn, and what a reviewer has accepted beside the claim.
    """
    evidence = known.evidence
    seen = pixels_in(frame)
    rehearsal = known.allowances.rehearsal
    review = known.allowances.review
    gate = known.gate
    if rehearsal and rehearsal.learn_evidence(evidence.screen, gate, seen):
        return None
    mismatch = gate.mismatch(seen)
    if mismatch and mismatch.boxes and known.end and evidence.region:
        passing = _passing(gate, known.end.pixels(), evidence.region)
        mismatch = gate.mismatch(seen, passing=passing)
    if mismatch and review and review.keeps(evidence, gate, seen):
        return None
    return mismatch


def _ask(
    live: Judge, claim: str, frame: Frame, timeout_s: float, report: Report
) -> Verdict:
    """Return the live judge's verdict."""
    with causes.users_errors("judge", live):
        answer = live.judge(claim, frame, timeout_s=timeout_s, report=report)
    return check_answer(live, answer, Verdict)


def _concerned(evidence: Evidence, regions: Iterable[Region]) -> Region | None:
    """Return the first of these regions that a claim is about; None for none.

    Evidence without a region may be about any, except those no larger than a caret. The
    end of a task is about none: it is compared without them.
    """
    if evidence.is_end:
        return None
    return next(filter(evidence.is_about, regions), None)


def _passing(gate: Gate, end: Pixels, about: Region) -> list[DynamicRegion]:
    """Return what was on the recorded end, and no longer when a claim was judged,
    outside the region that the claim is about.
    """
    differs = differing(gate.expected, end) & ~gate.ignored
    boxes = [box for box in boxes_of(differs) if not box.meets(about)]
    return [dynamic_region(box, "unstable", box.part_of(end)) for box in boxes]


def _is_moving(mismatch: Mismatch | None, frame: Frame) -> bool:
    """Return whether all that differs is within the moving parts of a frame."""
    if mismatch is None or not mismatch.boxes:
        return False
    return all(box.meets_any(frame.moving) for box in mismatch.boxes)


class Answers:
    """What judges answered in a test, each answer with its evidence: what was judged
    before the first run is in `before`, the rest with its run.
    """

    def __init__(self) -> None:
        self.before: list[Evidence] = []
        self.compared: dict[str, Compared] = {}
        """What each claim was compared with, from the judge until its answer is
        kept.
        """
        self.controller: Callable[[], Controller] | None = None
        """The desktop that judges look at; None until one is asked."""

    def announce(self, claim: str, run: SegmentRun | None, *, is_healed: bool) -> str:
        """Announce, in a run, that the evidence for a claim is not shown again, and
        return the announcement; "" if it is shown, or there is no evidence.
        """
        compared = self.compared.get(claim)
        if compared is None or compared.known is None or compared.mismatch is None:
            return ""
        mismatch = compared.mismatch
        problem = (
            f"the evidence for {claim!r} is not on the screen again: {mismatch.problem}"
        )
        if run:
            gate = compared.known.gate
            seen = run.directory.store(compared.frame)
            closed = GateClosed(gate, mismatch, problem, seen, is_healed, claim)
            run.life.announce(closed)
        return problem

    def keep(
        self,
        claim: str,
        judged: Verdict | Reading,
        run: SegmentRun | None,
        answers: list[Evidence],
        *,
        is_recorded: bool,
    ) -> None:
        """Keep an answer, given after a run, among others: with the recorded evidence if
        that gave it, else with new evidence, if the test `is_recorded`. Raises
        DesktopError.
        """
        compared = self.compared.pop(claim, None)
        if compared is None:
            return
        if compared.known and compared.mismatch is None:
            answers.append(_recorded_answer(compared.known.evidence, run))
            return
        is_unsure = isinstance(judged, Verdict) and judged.kind == "unsure"
        if is_unsure or not is_recorded or self.controller is None:
            return
        end = run.ended.end if run and run.ended else None
        desktop = self.controller()
        evidence = _new_evidence(judged, compared.frame, desktop, end)
        values = _values_of(run)
        names = [name for name in VALUE_MARK.findall(claim) if name in values]
        fields = {"values": {name: values[name] for name in names}}
        answers.append(evidence.model_copy(update=fields))


def _recorded_answer(evidence: Evidence, run: SegmentRun | None) -> Evidence:
    """Return the recorded answer that the evidence stands for: a task's end has one of
    the judge's.
    """
    replayed = run.replayed if run else None
    if replayed is None or not evidence.is_end:
        return evidence
    for answer in replayed.claims:
        if answer.claim == evidence.claim:
            return answer
    return evidence


def _new_evidence(
    judged: Verdict | Reading, frame: Frame, controller: Controller, end: Screen | None
) -> Evidence:
    """Return the evidence for an answer about a frame; `end` is the recorded end of the
    segment, if there is one. Raises DesktopError.

    It has the parts that move now. If the frame shows the end, the parts that moved
    there belong to it too, because carets come to rest while a judge thinks.
    """
    seen = pixels_in(frame)
    stable = stable_screen(controller)
    parts = [*stable.dynamic]
    shown: tuple[ShownValue, ...] = ()
    if end and evidence_gate(end).mismatch(seen) is None:
        parts += end.dynamic
        shown = end.values
    dynamic = merged(parts)
    fields = {"dynamic": dynamic, "values": shown}
    screen = screen_of(frame).model_copy(update=fields)
    screen_now = stable.model_copy(update={"dynamic": dynamic})
    if evidence_gate(screen_now).mismatch(seen) is None:
        screen = screen.model_copy(update={"stable_s": stable.stable_s})
    answer: dict[str, Any] = {
        "reason": judged.reason,
        "region": judged.region,
        "model": judged.model,
        "screen": screen,
    }
    if isinstance(judged, Verdict):
        answer["claim"] = judged.claim
        answer["verdict"] = judged.kind
    else:
        answer["claim"] = judged.question
        answer["verdict"] = "read"
        answer["value"] = judged.value
    return Evidence(**answer)
