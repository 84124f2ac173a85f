"""A place where a secret was typed. It is covered while its surroundings show that it is still that field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_vnc_use.backends.covers.carets import Caret
from pytest_vnc_use.backends.covers.changes import Mask, differing
from pytest_vnc_use.backends.covers.glyphs import dots_in, glyphs_in, is_caret
from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.same_screen import within_caret
from pytest_vnc_use.types import Region

_NEAR_PX, _FAR_PX = 6, 40
"""The surroundings of a field: from the first distance to the second. Its frame, which shows the focus, is not
included.
"""
_FEWEST_PX = 12
"""The fewest drawn pixels by which a side can be recognised."""
_SAME = 0.8
"""The share of a side's drawn pixels that must be equal."""


@dataclass(frozen=True, eq=False)
class FieldSide:
    """The drawing on one side of a field: the pixels of a region that are not of its most common colour."""

    region: Region
    pixels: Pixels
    drawn: Mask

    @classmethod
    def of(cls, region: Region, screen: Pixels, moved: Mask) -> FieldSide:
        """Return the side of a field on a screen, without what `moved` by itself."""
        pixels = region.part_of(screen) & COLOUR_BITS
        colours, counts = np.unique(pixels, return_counts=True)
        drawn = pixels != (colours[counts.argmax()] if colours.size else 0)
        return cls(region, pixels, drawn & ~region.part_of(moved))

    @property
    def is_known(self) -> bool:
        """Return whether enough is drawn there to recognise it."""
        return bool(self.drawn.sum() >= _FEWEST_PX)

    def is_on(self, screen: Pixels) -> bool:
        """Return whether a screen shows the side as it was."""
        there = ~differing(self.pixels, self.region.part_of(screen))
        return bool(there[self.drawn].mean() >= _SAME)


def sides_of(field: Region, screen: Pixels, moved: Mask) -> tuple[FieldSide, ...]:
    """Return the sides of a field by which it is recognised: a light that blinks beside it does not belong to them."""
    height, width = screen.shape
    left, top = max(0, field.left - _FAR_PX), max(0, field.top - _FAR_PX)
    right, bottom = min(width, field.right + _FAR_PX), min(height, field.bottom + _FAR_PX)
    regions = (
        Region(left, top, right, max(top, field.top - _NEAR_PX)),
        Region(left, min(bottom, field.bottom + _NEAR_PX), right, bottom),
        Region(left, field.top, max(left, field.left - _NEAR_PX), field.bottom),
        Region(min(right, field.right + _NEAR_PX), field.top, right, field.bottom),
    )
    sides = (FieldSide.of(region, screen, moved) for region in regions)
    return tuple(side for side in sides if side.is_known)


@dataclass(frozen=True, eq=False)
class Dots:
    """The look of a field that hides its text, and the `dot` that stands for each character."""

    looks: tuple[Pixels, ...]
    dot: Pixels
    paper: int

    def are_all(self, field: Pixels) -> bool:
        """Return whether a field shows dots only, or nothing, and perhaps a caret."""
        if any(within_caret(differing(look, field)) for look in self.looks):
            return True
        others = [each for each in glyphs_in(field, self.paper) if not dots_in(each, self.dot, self.paper)]
        return not others or (len(others) == 1 and is_caret(others[0], self.paper))


@dataclass(eq=False)
class CoveredPlace:
    """A field where a secret was typed: it is covered while it is there and shows more than `dots`.

    `key` is that of the secret's cover, see cover_look. `other_key` is the key if the field shows other text than a
    one-time code. `caret` is the last caret that blinked there.
    """

    field: Region
    screen_shape: tuple[int, ...]
    sides: tuple[FieldSide, ...]
    key: bytes
    other_key: bytes = b""
    dots: Dots | None = None
    caret: Caret | None = None
    _content: Pixels | None = None
    """The field's pixels at the last watch, without the caret."""

    def note(self, screen: Pixels, caret: Caret | None) -> None:
        """Note a watch of the field: its pixels on the screen, and the caret in it, if any."""
        self.caret = caret if caret and caret.region.meets(self.field) else None
        self._content = self.field.part_of(self.beneath(screen))

    def has_changed(self, screen: Pixels) -> bool:
        """Return whether the field has changed since the last watch for a caret."""
        return self._content is None or not np.array_equal(self._content, self.field.part_of(self.beneath(screen)))

    def beneath(self, screen: Pixels) -> Pixels:
        """Return a copy of a screen without the caret, because that blinks by itself."""
        copy: Pixels = screen & COLOUR_BITS
        if self.caret:
            self.caret.remove_from(copy)
        return copy

    def is_covered(self, screen: Pixels) -> bool:
        """Return whether the field must be covered on a screen."""
        if screen.shape != self.screen_shape:
            return False
        if 2 * sum(side.is_on(screen) for side in self.sides) < len(self.sides):
            return False  # most sides have changed; a field without sides is always there
        return self.dots is None or not self.dots.are_all(self.field.part_of(screen))

    def holds(self, other: Region) -> bool:
        """Return whether a region lies within the field."""
        across = self.field.left <= other.left and other.right <= self.field.right
        return across and self.field.top <= other.top and other.bottom <= self.field.bottom
