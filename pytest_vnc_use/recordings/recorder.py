"""A recorder of a run as it happens: each step, the screen at rest before it, and the parts that move by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.recordings.format import RecordedStep, Screen, Volatile, merged, volatile
from pytest_vnc_use.recordings.pictures import Mask, Pixels, differing, pixels_in, pixels_of
from pytest_vnc_use.runs.json_lines import to_json
from pytest_vnc_use.types import (
    BAR_PX,
    CARET_PX,
    CallFunction,
    Frame,
    FrameRef,
    Glance,
    Proposal,
    Region,
    RunEvent,
    Step,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Wait,
)
from pytest_vnc_use.types.protocols import Controller

QUIET_S = 1.2
"""How long nothing may change, except parts that move by themselves, before a screen is recorded."""
LONGEST_WATCH_S = 5.0
_SAMPLES, _MORE_SAMPLES = 9, 11
_SAMPLE_S = 0.15
"""The time between two samples of the parts that move by themselves.

The first samples cover both phases of a caret. More cover a part that blinks within 2 s.
"""
_MOST_LOOKS = 4
"""The most looks of a blinking part. With more it is a spinner or a video."""
_REACH_PX = 4
"""How far a moving part may extend beyond the tiles where it was seen to move."""
_CLEAR_PX = 16
"""The number of resting rows between a caret and anything else that moves, needed to tell them apart."""
_LEAST_BAR_PX = 8
_MOST_TRANSIENTS = 4
"""The most frames kept with a step as possible transient frames."""
_READING = frozenset({"get_browser_state", "list_elements"})
"""The functions by which a model reads a page or a desktop, through `vnc_cdp` and `vnc_elements`."""
VERIFY = "verify"
"""The function by which a model asks a judge. It changes nothing, and is not repeated in a replay."""


def screen_at_rest(eyes: Controller) -> Screen:
    """Wait until the screen has been quiet for `QUIET_S`; return it with its volatile parts. Raises DesktopError.

    After `LONGEST_WATCH_S` it is returned as it is, with `quiet_s` 0.
    """
    deadline, is_quiet = Deadline(LONGEST_WATCH_S), False
    while not is_quiet and deadline.remaining_s:
        eyes.wait_changed(clock.monotonic(), _SAMPLE_S)
        is_quiet = not eyes.changed_since(clock.monotonic() - QUIET_S)
    frame = eyes.frame()
    parts = _watch(frame, eyes) if frame.moving else ()
    quiet_s = QUIET_S if is_quiet else 0.0
    return Screen(volatile=merged(parts), quiet_s=quiet_s, pixels=partial(pixels_of, frame.png))


def _watch(frame: Frame, eyes: Controller) -> list[Volatile]:
    """Return the volatile parts. Parts that are more than a caret are watched longer, until their looks come back."""
    seen = Moving(frame)
    parts: list[Volatile] = []
    for samples in (_SAMPLES, _MORE_SAMPLES):
        for _ in range(samples):
            eyes.wait_changed(clock.monotonic(), _SAMPLE_S)
            seen.look(eyes.glance())
        parts = list(seen.parts())
        if seen.is_known:
            break
    return parts


class Moving:
    """The moving regions of a frame, and their content at each moment."""

    def __init__(self, frame: Frame) -> None:
        size = frame.ref.width, frame.ref.height
        self._samples: list[tuple[Region, Region, list[Pixels]]]
        self._samples = [(region, region.grown(_REACH_PX, *size), []) for region in frame.moving]
        self.look(frame)

    def look(self, screen: Frame | Glance) -> None:
        """Note the whole screen at another moment."""
        for _, grown, samples in self._samples:
            samples.append(grown.part_of(pixels_in(screen)).copy())

    @property
    def all_changed(self) -> bool:
        """Return whether each of the regions was seen to change."""
        return all(_has_changed(_cut(region, grown, samples)) for region, grown, samples in self._samples)

    @property
    def is_known(self) -> bool:
        """Return whether each of the regions was seen to change, and holds only carets."""
        return self.all_changed and all(part.kind == "caret" for part in self.parts())

    def parts(self) -> Iterator[Volatile]:
        """Yield the volatile parts: a caret's own box, else its tiles and a little around them.

        A change only around a region is its neighbour's. It may be a piece of a caret, of which the rest is compared:
        then a replay would never see all looks of a part that held that piece.
        """
        for region, grown, samples in self._samples:
            if _has_changed(_cut(region, grown, samples)):
                yield from _changing(region, grown, samples)


def _has_changed(samples: Sequence[Pixels]) -> bool:
    return any(differing(look, samples[0]).any() for look in samples)


def _changing(region: Region, grown: Region, samples: Sequence[Pixels]) -> Iterator[Volatile]:
    """Yield a caret; else the region with its looks, without a caret that stands apart from other moving parts."""
    marked = _mark(_cut(region, grown, samples))
    if caret := _caret_of(marked, region):
        yield _caret(caret, grown, samples)
        return
    bands = [replace(region, top=region.top + top, bottom=region.top + bottom) for top, bottom in _bands(marked)]
    bars = [_bar_of(marked[band.top - region.top : band.bottom - region.top], band) for band in bands]
    if not any(bars):
        yield _with_looks(grown, samples)
        return
    for bar, band in zip(bars, bands, strict=True):
        # as wide as the grown region, and a little higher where there is room
        top, bottom = max(grown.top, band.top - _REACH_PX), min(grown.bottom, band.bottom + _REACH_PX)
        wider = Region(grown.left, top, grown.right, bottom)
        yield _caret(bar, grown, samples) if bar else _with_looks(wider, _cut(wider, grown, samples))


def _caret(box: Region, grown: Region, samples: Sequence[Pixels]) -> Volatile:
    """Return a caret. If it is larger than a bar it keeps its looks, because it may be a lamp."""
    if box.is_within(BAR_PX):
        return volatile(box, "caret")
    return volatile(box, "caret", *_distinct(_cut(box, grown, samples))[0])


def _mark(samples: Sequence[Pixels]) -> Mask:
    """Mark the pixels that differ from the first look."""
    differs: Mask = np.logical_or.reduce([look != samples[0] for look in samples])
    return differs


def _cut(box: Region, grown: Region, samples: Sequence[Pixels]) -> list[Pixels]:
    """Return what a box shows in each look of the grown region that holds it."""
    x, y = grown.left, grown.top
    inside = Region(box.left - x, box.top - y, box.right - x, box.bottom - y)
    return [inside.part_of(look) for look in samples]


def _with_looks(region: Region, samples: Sequence[Pixels]) -> Volatile:
    """Return a region that blinks if it repeats a few looks; else an endless one.

    A part that never repeats a look, such as the seconds of a clock, may show anything next.
    """
    looks, order = _distinct(samples)
    come_back = 2 * len(looks) <= len(order) + 1
    if len(looks) <= _MOST_LOOKS and come_back:
        return volatile(region, "blinks", *looks)
    return volatile(region, "endless")


def _distinct(samples: Sequence[Pixels]) -> tuple[list[Pixels], list[int]]:
    """Return each look once, and the numbers of the looks in the order in which they came."""
    looks: list[Pixels] = []
    order: list[int] = []
    for pixels in samples:
        number = next((n for n, look in enumerate(looks) if not differing(look, pixels).any()), len(looks))
        looks += [pixels] if number == len(looks) else []
        order += [number] if order[-1:] != [number] else []
    return looks, order


def _bands(part: Mask) -> Iterator[tuple[int, int]]:
    """Yield top and bottom of bands with free rows between them, from the top of a region to its bottom."""
    rows = np.flatnonzero(part.any(axis=1))
    gaps = np.flatnonzero(np.diff(rows) > _CLEAR_PX)
    cuts = [int(rows[gap] + rows[gap + 1]) // 2 for gap in gaps]
    yield from pairwise([0, *cuts, part.shape[0]])


def _bar_of(part: Mask, band: Region) -> Region | None:
    """Return the box of a caret that is a bar; None where there is none."""
    caret = _caret_of(part, band) if part.any() else None
    is_bar = caret and caret.right - caret.left <= BAR_PX[0] and caret.bottom - caret.top >= _LEAST_BAR_PX
    return caret if is_bar else None


def _caret_of(part: Mask, region: Region) -> Region | None:
    """Return the box of the marked pixels; None where it is larger than a caret, or not full, as a clock's digit."""
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    if right - left > CARET_PX[0] or bottom - top > CARET_PX[1] or not part[top:bottom, left:right].all():
        return None
    x, y = region.left, region.top
    return Region(x + int(left), y + int(top), x + int(right), y + int(bottom))


class Recorder:
    """The steps of one run that are carried out live.

    `screen` returns the screen at rest, `load` a frame's pixels. Waits and looks are left out, as gates take their
    place. Failed steps are left out too. `holds_secret` is true if a step contained a secret that no recording may
    contain and that no replay could insert: the desktop's password, or a key.
    """

    def __init__(self, screen: Callable[[], Screen], load: Callable[[FrameRef], Pixels]) -> None:
        self.screen = screen
        self._load = load
        self.steps: list[RecordedStep] = []
        self.holds_secret = False
        self._begun: tuple[Proposal, Screen] | None = None
        self._acted_at = 0.0

    def observe(self, event: RunEvent) -> None:
        """Take in an event of the run; before a step, wait for the screen to be at rest."""
        match event:
            case StepStarted(proposal=proposal) if not _is_look(proposal):
                self._begun = proposal, self.next_screen()
                self._acted_at = clock.monotonic()
            case StepFinished(step=step) if self._begun:
                (proposal, screen), self._begun = self._begun, None
                if not step.error:
                    self.steps.append(_step_of(step, screen))
                    self.holds_secret |= step.proposal.action != proposal.action
                self._keep_transients(step.frame_after, *step.passed)
            case StepFinished(step=step):
                self._keep_transients(step.frame_after, *step.passed)
            case _:
                pass

    def next_screen(self) -> Screen:
        """Return the screen at rest after the newest step, and note how long after it that is. Raises DesktopError."""
        screen = self.screen()
        if self.steps:
            took_s = round(clock.monotonic() - self._acted_at, 1)
            self.steps[-1] = self.steps[-1].model_copy(update={"took_s": took_s})
        return screen

    def _keep_transients(self, *transient: FrameRef) -> None:
        """Keep the frames that may be transient with the newest step.

        The frame after the step is one of them: a toast may still be there.
        """
        if not self.steps:
            return
        newest = self.steps[-1]
        samples = [Screen(pixels=partial(self._load, frame)) for frame in transient[:_MOST_TRANSIENTS]]
        self.steps[-1] = newest.model_copy(update={"transients": (*newest.transients, *samples)})


def _is_look(proposal: Proposal) -> bool:
    action = proposal.action
    return isinstance(action, (Wait, TakeScreenshot)) or (isinstance(action, CallFunction) and action.name == VERIFY)


def _step_of(step: Step, screen: Screen) -> RecordedStep:
    proposal = step.proposal
    call = str(proposal.as_proposed.get("name", ""))
    is_answered = isinstance(proposal.action, CallFunction) and proposal.action.name not in _READING
    return RecordedStep.model_validate(
        {
            "action": to_json(proposal.action),
            "intent": proposal.intent or step.words,
            "call": "" if call == proposal.action.kind else call,
            "confirmation": proposal.confirmation,
            "screen": screen,
            "answer": step.output if is_answered else None,
            "elements": step.elements,
        }
    )
