"""A judge that needs no model where the screen shows again, pixel by pixel, what a verdict was given on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.ports import Judge, Reader
from pytest_vnc_use.recordings.format import Evidence
from pytest_vnc_use.recordings.match import Mismatch, other_than
from pytest_vnc_use.recordings.pictures import Pixels, pixels_of
from pytest_vnc_use.types import Frame, JsonObject, Reading, Region, Report, Verdict

UNJUDGED = "have it judged anew with --vnc-record=auto or rewrite and a judge (--vnc-planner, or --vnc-judge)"
Live = Callable[[], Judge]


class RecordedJudge:
    """The ports Judge and Reader: what was said of a screen is said again of the same screen, and of no other.

    The `live` judge is asked for all else; without one it is unsure. `hide` takes secrets out of a claim. `masks` are
    left out of all comparisons. `heard` is told of what was asked, and of the frame; then of the evidence that is there
    again, or of that which is not, and where.
    """

    def __init__(
        self,
        evidence: Sequence[Evidence],
        live: Live | None,
        *,
        masks: tuple[Region, ...],
        hide: Callable[[str], str],
        heard: Callable[[str, Frame, Evidence | None, Mismatch | None], None],
    ) -> None:
        self._evidence = evidence
        self._live = live
        self._masks = masks
        self._hide = hide
        self._heard = heard

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """As the port says; without a live judge, at once."""
        known, problem = self._known(claim, frame, reading=False)
        if known and known.verdict != "read":
            reason = f"the screen is as it was when this was said: {known.reason}"
            return Verdict(claim, known.verdict, reason, known.region, frame.ref)
        if self._live is not None:
            return self._live().judge(claim, frame, timeout_s=timeout_s, report=report)
        return Verdict(claim, "unsure", f"{problem}; {UNJUDGED}", frame=frame.ref)

    def read(self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report) -> Reading:
        """As the port says; without a live judge, at once."""
        known, problem = self._known(question, frame, reading=True)
        if known:
            reason = f"the screen is as it was when this was read: {known.reason}"
            return Reading(question, known.value, reason, known.region, frame.ref)
        live = self._live() if self._live is not None else None
        if isinstance(live, Reader):
            return live.read(question, schema, frame, timeout_s=timeout_s, report=report)
        raise Inconclusive(f"extract: nobody can read {question!r}: {problem}; {UNJUDGED}")

    def _known(self, claim: str, frame: Frame, *, reading: bool) -> tuple[Evidence | None, str]:
        """The evidence that is there again, or what is to be said of that there is none."""
        told, seen = self._hide(claim), pixels_of(frame.png)
        evidence = [each for each in self._evidence if each.claim == told and (each.verdict == "read") == reading]
        mismatches = [self._mismatch(each, seen) for each in evidence]
        for each, mismatch in zip(evidence, mismatches, strict=True):
            if mismatch is None:
                self._heard(told, frame, each, None)
                return each, ""
        if not evidence:
            self._heard(told, frame, None, None)
            return None, "nothing is recorded of it, and no model is configured"
        self._heard(told, frame, evidence[-1], mismatches[-1])
        last = mismatches[-1]
        where = f"{last.problem}; where that changes by itself: {last.mask}" if last else ""
        return None, f"the screen is not as it was when this was judged ({where}), and no model is there to look at it"

    def _mismatch(self, evidence: Evidence, seen: Pixels) -> Mismatch | None:
        return other_than(evidence.screen.pixels(), seen, (*self._masks, *evidence.screen.volatile))
