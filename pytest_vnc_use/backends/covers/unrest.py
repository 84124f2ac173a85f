"""Watch what moves on a screen before a secret is typed: blinking text, a spinner, a clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pytest_vnc_use.backends.covers.changes import Mask, boxes_of, differing
from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.types import CARET_PX, Region

_MOST_LOOKS = 3
"""The most looks of a blinking part. With more it is a spinner or a clock, whose next look is unknown."""
_CHANGES = 3
"""The fewest changes of a moving part: something that is drawn late after a click changes once."""
_REACH_PX = 3


@dataclass
class _Mover:
    """A part of the screen that changed, the looks of its boxes, and when it changed first and last."""

    region: Region
    first_s: float
    last_s: float
    changes: int = 0
    looks: list[tuple[Region, Pixels]] = field(default_factory=list)
    comes_back: bool = False

    def add(self, box: Region, screens: tuple[Pixels, Pixels], now_s: float) -> None:
        """Take in a change within a box, from the first screen to the second."""
        self.region, self.last_s, self.changes = self.region.joined(box), now_s, self.changes + 1
        for number, screen in enumerate(screens):
            look = box.part_of(screen)
            if any(region == box and np.array_equal(look, each) for region, each in self.looks):
                self.comes_back |= number == 1
            elif self.changes <= _CHANGES * _MOST_LOOKS:
                self.looks.append((box, look.copy()))

    @property
    def is_endless(self) -> bool:
        """Return whether its looks never repeat."""
        return len(self.looks) > _MOST_LOOKS

    def is_known(self, span_s: float) -> bool:
        """Return whether it was watched long enough to know how it moves."""
        if self.region.is_within(CARET_PX) or (self.comes_back and not self.is_endless):
            return True
        return self.changes >= _CHANGES and self.last_s - self.first_s >= span_s


class Unrest:
    """A watch over a screen before a secret is typed. `span_s` is the time for which a spinner must turn."""

    def __init__(self, first: Pixels, span_s: float) -> None:
        self._span_s = span_s
        self._movers: list[_Mover] = []
        self._once = self._again = np.zeros(first.shape, np.bool_)
        self.newest = first & COLOUR_BITS

    def look(self, screen: Pixels, now_s: float) -> None:
        """Take in the screen at another moment."""
        before, self.newest = self.newest, screen & COLOUR_BITS
        if before.shape != self.newest.shape:
            self._movers = []
            self._once = self._again = np.zeros(screen.shape, np.bool_)
            return
        changed = differing(before, self.newest)
        self._once, self._again = self._once | changed, self._again | (self._once & changed)
        for box in boxes_of(changed):
            mover = next((each for each in self._movers if each.region.meets(box)), None)
            if mover is None:
                mover = _Mover(box, now_s, now_s)
                self._movers.append(mover)
            mover.add(box, (before, self.newest), now_s)

    @property
    def is_known(self) -> bool:
        """Return whether each moving part was watched long enough, or is no larger than a caret."""
        return all(each.is_known(self._span_s) for each in self._movers)

    def left_out(self, screen: Pixels) -> Mask:
        """Mark the pixels that show nothing of the secret: parts that look as before, and parts that never repeat.

        Other moving parts are not marked: one may be a label that moved away to make room for the text. A part that was
        drawn only once is not marked either: it may be the frame of the field, around a caret that blinks.
        """
        marked = np.zeros(screen.shape, np.bool_)
        for mover in self._movers:
            if mover.is_endless and mover.is_known(self._span_s) and not mover.region.is_within(CARET_PX):
                for box in self._boxes_again(mover):
                    box.grown(_REACH_PX, *screen.shape[::-1]).part_of(marked)[:] = True
            for box, look in mover.looks:
                if np.array_equal(box.part_of(screen) & COLOUR_BITS, look):
                    box.part_of(marked)[:] = True
        return marked

    def is_new(self, before: Pixels, screen: Pixels) -> bool:
        """Return whether a screen shows anything new since an earlier one, besides parts that move by themselves."""
        return before.shape != screen.shape or bool((differing(before, screen) & ~self.left_out(screen)).any())

    def moved(self, shape: tuple[int, ...]) -> Mask:
        """Mark the parts that move by themselves: the plain space of a field ends there."""
        marked = np.zeros(shape, np.bool_)
        for mover in self._movers:
            if mover.comes_back or mover.changes >= _CHANGES:
                for box in self._boxes_again(mover):
                    box.part_of(marked)[:] = True
        return marked

    def _boxes_again(self, mover: _Mover) -> Iterator[Region]:
        """Yield boxes around the pixels of a part that changed more than once."""
        again = np.zeros(self._again.shape, np.bool_)
        mover.region.part_of(again)[:] = mover.region.part_of(self._again)
        return boxes_of(again)
