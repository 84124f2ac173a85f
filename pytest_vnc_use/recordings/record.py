"""Records a run as it happens: each step with the screen at rest before it, and what moves there by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.json_lines import to_json
from pytest_vnc_use.ports import Controller
from pytest_vnc_use.recordings.format import RecordedStep, Screen
from pytest_vnc_use.recordings.pictures import Mask, pixels_in, pixels_of
from pytest_vnc_use.screens import BAR_PX, CARET_PX
from pytest_vnc_use.types import (
    CallFunction,
    Frame,
    FrameRef,
    Proposal,
    Region,
    RunEvent,
    Step,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Wait,
)

QUIET_S = 1.2
"""So long nothing may have changed, but what moves by itself, before a screen is recorded."""
LONGEST_WATCH_S = 5.0
_SAMPLES = 9
_SAMPLE_S = 0.15
"""Pictures of what moves by itself, over both phases of a caret, and how far they are apart."""
_REACH_PX = 4
"""So far what turns or glows reaches, now and then, over the edges of the tiles in which it is known to move."""
_CLEAR_PX = 16
"""So many rows that rest lie between a caret and what else moves, if it is to be told from that."""
_LEAST_BAR_PX = 8
VERIFY = "verify"
"""The function by which a model asks a judge; it changes nothing, and is not done again."""


def screen_at_rest(eyes: Controller) -> Screen:
    """The screen once it has been quiet for a while, and what moves on it. Raises DesktopError."""
    deadline = Deadline(LONGEST_WATCH_S)
    while eyes.changed_since(time.monotonic() - QUIET_S) and deadline.remaining_s:
        eyes.wait_changed(time.monotonic(), _SAMPLE_S)
    frame = eyes.frame()
    return Screen(volatile=outermost(_volatile(eyes, frame)), pixels=partial(pixels_of, frame.png))


def outermost(regions: Iterable[Region]) -> tuple[Region, ...]:
    """The regions, each once, without those that are within another."""
    distinct = tuple(dict.fromkeys(regions))
    return tuple(each for each in distinct if not any(_is_within(each, other) for other in distinct if other != each))


def _is_within(inner: Region, outer: Region) -> bool:
    across = outer.left <= inner.left and inner.right <= outer.right
    return across and outer.top <= inner.top and inner.bottom <= outer.bottom


def _volatile(eyes: Controller, frame: Frame) -> Iterator[Region]:
    """What moves by itself now, watched for a while."""
    if frame.moving:
        yield from moving_parts(frame, _samples(eyes))


def _samples(eyes: Controller) -> Iterator[Frame]:
    for _ in range(_SAMPLES):
        eyes.wait_changed(time.monotonic(), _SAMPLE_S)
        yield eyes.frame()


def moving_parts(frame: Frame, others: Iterable[Frame], *, unseen: bool = False) -> Iterator[Region]:
    """Of what moves by itself what differs in `others`: of a caret its own box, else its tiles and a little around.

    With `unseen` also what does not differ there, as too few others may have been looked at.
    """
    first = pixels_in(frame)
    differs: Mask = np.zeros(first.shape, np.bool_)
    for other in others:
        differs |= pixels_in(other) != first
    for region in frame.moving:
        part = differs[region.top : region.bottom, region.left : region.right]
        if part.any():
            yield from _moving_in(part, region, frame.ref)
        elif unseen:
            yield _grown(region, frame.ref)


def _moving_in(part: Mask, region: Region, screen: FrameRef) -> Iterator[Region]:
    """A caret's box; else the region, but for a caret clear of what else moves there: in a field below a spinner."""
    if caret := _caret_of(part, region):
        yield caret
        return
    bands = [replace(region, top=region.top + top, bottom=region.top + bottom) for top, bottom in _bands(part)]
    bars = [_bar_of(part[band.top - region.top : band.bottom - region.top], band) for band in bands]
    if any(bars):
        yield from (bar or _grown(band, screen) for bar, band in zip(bars, bands, strict=True))
    else:
        yield _grown(region, screen)


def _bands(part: Mask) -> Iterator[tuple[int, int]]:
    """Top and bottom of what is clear of each other, from the top of a region to its bottom."""
    rows = np.flatnonzero(part.any(axis=1))
    gaps = np.flatnonzero(np.diff(rows) > _CLEAR_PX)
    cuts = [int(rows[gap] + rows[gap + 1]) // 2 for gap in gaps]
    yield from pairwise([0, *cuts, part.shape[0]])


def _bar_of(part: Mask, band: Region) -> Region | None:
    """The box of a caret that is a bar."""
    caret = _caret_of(part, band)
    is_bar = caret and caret.right - caret.left <= BAR_PX[0] and caret.bottom - caret.top >= _LEAST_BAR_PX
    return caret if is_bar else None


def _caret_of(part: Mask, region: Region) -> Region | None:
    """The box of what differs in a region; None where it is larger than a caret, or not full, as a clock's digit is."""
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    if right - left > CARET_PX[0] or bottom - top > CARET_PX[1] or not part[top:bottom, left:right].all():
        return None
    x, y = region.left, region.top
    return Region(x + int(left), y + int(top), x + int(right), y + int(bottom))


def _grown(region: Region, screen: FrameRef) -> Region:
    right, bottom = min(screen.width, region.right + _REACH_PX), min(screen.height, region.bottom + _REACH_PX)
    return Region(max(0, region.left - _REACH_PX), max(0, region.top - _REACH_PX), right, bottom)


class Recorder:
    """Collects the steps of one run that are carried out live. `screen` looks at the screen at rest.

    Waits and looks are left out, as gates stand for them, and so is what could not be done. `holds_secret` where a step
    told something that no recording may hold, and that nobody could put back: the desktop's password, or a key.
    """

    def __init__(self, screen: Callable[[], Screen]) -> None:
        self.screen = screen
        self.steps: list[RecordedStep] = []
        self.holds_secret = False
        self._begun: tuple[Proposal, Screen] | None = None

    def observe(self, event: RunEvent) -> None:
        match event:
            case StepStarted(proposal=proposal) if not _is_look(proposal):
                self._begun = proposal, self.screen()
            case StepFinished(step=step) if self._begun:
                (proposal, screen), self._begun = self._begun, None
                if not step.error:
                    self.steps.append(_recorded(step, screen))
                    self.holds_secret |= step.proposal.action != proposal.action
            case _:
                pass


def _is_look(proposal: Proposal) -> bool:
    action = proposal.action
    return isinstance(action, (Wait, TakeScreenshot)) or (isinstance(action, CallFunction) and action.name == VERIFY)


def _recorded(step: Step, screen: Screen) -> RecordedStep:
    proposal = step.proposal
    call = str(proposal.as_proposed.get("name", ""))
    return RecordedStep.model_validate(
        {
            "action": to_json(proposal.action),
            "intent": proposal.intent or step.words,
            "call": "" if call == proposal.action.kind else call,
            "confirmation": proposal.confirmation,
            "screen": screen,
        }
    )
