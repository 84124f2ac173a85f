"""Carets beneath a cover: a part that disappears and comes again, at the same place and with the same pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_vnc_use.backends.covers.changes import boxes_of, differing, most_common
from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.types import BAR_PX, CARET_PX, Region


@dataclass(frozen=True, eq=False)
class Caret:
    """A caret that blinks in a region: the pixels of the region without it, and with it."""

    region: Region
    without: Pixels
    shown: Pixels

    def remove_from(self, screen: Pixels) -> None:
        """Remove the caret if a screen shows it. Anything else in its place stays."""
        there = self.region.part_of(screen)
        if np.array_equal(there, self.shown):
            there[:] = self.without


class CaretWatch:
    """A watch over fields for a caret in one of them. `caret` is None until it has blinked once."""

    def __init__(self, fields: Sequence[Region]) -> None:
        self._looks: list[tuple[Region, list[Pixels]]] = [(field, []) for field in fields]
        self.caret: Caret | None = None

    def look(self, screen: Pixels) -> None:
        """Take in the screen at another moment."""
        for field, looks in self._looks:
            now = field.part_of(screen) & COLOUR_BITS
            if looks and not differing(looks[-1], now).any():
                continue
            looks.append(now)
            if self.caret is None:
                self.caret = _caret_in(field, looks)


def _caret_in(field: Region, looks: Sequence[Pixels]) -> Caret | None:
    """Return the last change if it is at most as large as a caret and looks again as in an earlier look."""
    if len(looks) < 3:
        return None
    *earlier, before, now = looks
    changed = differing(before, now)
    for box in boxes_of(changed):
        if not (box.is_within(BAR_PX) or (box.is_within(CARET_PX) and box.part_of(changed).all())):
            continue  # a block is full; another letter in its place is not
        one, other = box.part_of(before), box.part_of(now)
        if any(np.array_equal(box.part_of(look), other) for look in earlier):
            paper = most_common(now)
            without, with_caret = sorted((one, other), key=lambda look: (-int((look == paper).sum()), look.tobytes()))
            x, y = field.left, field.top
            return Caret(Region(x + box.left, y + box.top, x + box.right, y + box.bottom), without, with_caret)
    return None
