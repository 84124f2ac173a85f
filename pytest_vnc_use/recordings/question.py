"""What a reviewer is asked at a closed gate or about a claim: what a question shows, and
which answers it offers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from typing_extensions import assert_never

from pytest_vnc_use.recordings.gates import mask_of
from pytest_vnc_use.recordings.images import Pixels, differing, frame_of, pixels_in
from pytest_vnc_use.recordings.life import AnswerKind
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Frame, Region
from pytest_vnc_use.types.actions import Point

OVER = "the task is over: only its last screen is left to check"
NO_MODEL = "no planner is set (--vnc-planner=gemini)"
NO_PAGE = "only the page shows the desktop (--vnc-ui)"
_CROSS_PX = 8
"""How far the arms of a cross at an action reach."""
_BORDER_PX = 3
"""How far the boxes in the image of a difference are from it."""
_MARK = 0xE00000
"""Red: what differs."""
_CROSS = 0x0000E0
"""Blue: where an action is."""


@dataclass(frozen=True)
class Offer:
    """The answers that a question offers, beside a bug and no.

    The screen cannot be accepted if targets have `moved`. `masks` are what a mask would
    hide, `masked_px` pixels, and `concerned` says of each answer that masks which gates
    and claims that concerns; it is empty where no mask is offered. `values` are those
    that are other than recorded, which the difference may show, with what they are.
    `refused` says of other answers why they are not possible.
    """

    moved: tuple[str, ...] = ()
    masks: tuple[Region, ...] = ()
    masked_px: int = 0
    concerned: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a reviewer decides: whether a screen is right now; with a `claim`, whether
    it holds there.

    `boxes` is what differs. `images` are the files of the recorded screen, of the one
    now, and of the difference; of a claim that was not judged before, only of the one
    now. `acts` are the recorded actions within the changed cells. A transient was shown
    before the recorded screen, and may show again if it is accepted.
    """

    test: str
    problem: str
    boxes: tuple[Region, ...]
    images: tuple[Path, ...]
    claim: str = ""
    acts: tuple[str, ...] = ()
    offer: Offer = Offer()
    is_transient: bool = False

    @property
    def is_new_claim(self) -> bool:
        """Return whether its claim was not judged before on a screen to compare."""
        return bool(self.claim) and not self.boxes

    def offers(self, kind: AnswerKind) -> bool:
        """Return whether an answer of this kind is possible."""
        offer = self.offer
        match kind:
            case "accept":
                return not offer.moved
            case "mask" | "mask_gate":
                return kind in offer.concerned
            case "value":
                return bool(offer.values)
            case "model" | "hand":
                is_over = bool(self.claim) or self.is_transient
                return not is_over and kind not in offer.refused
            case "bug" | "no":
                return True
            case _:
                assert_never(kind)


@dataclass(frozen=True)
class Answer:
    """A reviewer's answer, with the text about a bug, the name of the value that shows,
    or why no user could be asked; for a claim that holds, where on the screen they see
    that.

    `moved` says which target of the screen has moved, so that it cannot be accepted.
    """

    kind: AnswerKind
    text: str = ""
    region: Region | None = None
    moved: str = ""

    @property
    def is_unasked(self) -> bool:
        """Whether no user was asked, so that the next question may still reach one."""
        return self.kind == "no" and bool(self.text)


NO = Answer("no")
Ask = Callable[[Question], Answer]


def images_of(
    directory: RunDirectory,
    recorded: Pixels,
    frame: Frame,
    boxes: Sequence[Region],
    at: Sequence[Point],
) -> tuple[Path, Path, Path]:
    """Store the images of a question: the recorded screen, the one now, and what
    differs.

    The third is the screen now in pale grey, with what differs within the boxes in red,
    the boxes around it, and crosses at actions.
    """
    seen = pixels_in(frame)
    marked = _pale(seen)
    if recorded.shape == seen.shape:
        differs = differing(recorded, seen) & mask_of(boxes, seen.shape)
        marked[differs] = _MARK
    for box in boxes:
        _draw_box(marked, box)
    for x, y in at:
        left = max(0, x - _CROSS_PX)
        top = max(0, y - _CROSS_PX)
        marked[top : y + _CROSS_PX + 1, x] = _CROSS
        marked[y, left : x + _CROSS_PX + 1] = _CROSS
    return (
        image_of(directory, frame_of(recorded)),
        image_of(directory, frame),
        image_of(directory, frame_of(marked)),
    )


def image_of(directory: RunDirectory, frame: Frame) -> Path:
    """Store a screen as an image of a run directory; return its file."""
    stored = directory.store(frame)
    return directory.path / "screens" / f"{stored.digest}.png"


def _pale(screen: Pixels) -> Pixels:
    """Return a screen in greys from 127 to 254: pale, and still readable."""
    total = np.zeros_like(screen)
    for shift in (0, 8, 16):
        total += screen >> shift & 0xFF
    # half the mean of red, green and blue, from 127 on
    grey = total // 6 + 127
    return (grey << 16 | grey << 8 | grey).astype(np.uint32)


def _draw_box(screen: Pixels, box: Region) -> None:
    """Draw a frame of one pixel around a box, at some distance from it."""
    outer = box.grown(_BORDER_PX, screen.shape)
    drawn = outer.part_of(screen)
    inside = drawn[1:-1, 1:-1].copy()
    drawn[:] = _MARK
    drawn[1:-1, 1:-1] = inside
