"""The covers of one desktop: what is known of the secrets that were typed there, and a screen without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pytest_vnc_use.backends.covers.changes import Appeared, Mask, appeared, differing, field_around
from pytest_vnc_use.backends.covers.cover_look import CODE_KEY, key_of, paint
from pytest_vnc_use.backends.covers.glyphs import Line, dot_of, drawings_on
from pytest_vnc_use.backends.covers.places import Dots, Place, sides_of
from pytest_vnc_use.backends.covers.typed_text import Part
from pytest_vnc_use.backends.screen.rectangles import COLOUR_BITS, Pixels
from pytest_vnc_use.types import Region

_OTHER_SCREEN = 0.25
"""The share of a screen that changes where it becomes another one, such as after the last digit of a code."""
_TALLER_PX = 8
"""The most rows by which letters reach above and below the dots that stand for them."""
FindCaret = Callable[[Sequence[Region]], "Region | None"]
"""A function that watches fields, and returns where a caret blinks in one of them."""


@dataclass(frozen=True, eq=False)
class Typing:
    """A secret that was typed: the screen before, and the looks at it since; the last one shows all of the secret.

    `moving` are pixels that changed by themselves before.
    """

    secret: Part
    before: Pixels
    looks: list[Pixels]
    moving: Mask


@dataclass(eq=False)
class Covers:
    """The places where secrets were typed on a desktop, and the lines of text that appeared there."""

    _places: list[Place] = field(default_factory=list)
    _lines: list[tuple[Line, bytes]] = field(default_factory=list)
    _newest: tuple[Pixels, Pixels | None] | None = None
    """The screen that was looked at last, and the same with its covers."""

    def learn(self, typing: Typing, find_caret: FindCaret) -> bool:
        """Learn what appeared while a secret was typed; return whether anything did."""
        self._newest = None
        text, looks = typing.secret.text, typing.looks
        if len(looks) > 1 and differing(looks[-2], looks[-1]).mean() > _OTHER_SCREEN:
            text, looks = text[:-1], looks[:-1]  # the last character led to another screen
        after, caret = looks[-1], None
        seen = [*appeared(typing.before, after, typing.moving)]
        fields = [each.field for each in seen if self._dots(each, after, text) is None]
        if fields and (caret := find_caret(fields)):
            after = _without(caret, after, seen)
            seen = [*appeared(typing.before, after, typing.moving)]
        for each in seen:
            self._add(each, typing, after, text, caret)
        return bool(seen)

    def _add(self, seen: Appeared, typing: Typing, after: Pixels, text: str, caret: Region | None) -> None:
        secret, dots = typing.secret, self._dots(seen, after, text)
        key = CODE_KEY if secret.is_code else key_of(secret.mark, secret.text)
        field = seen.field
        if dots is not None:
            field = field_around(seen.box, after, seen.paper, _TALLER_PX)
            dots = Dots(tuple(field.part_of(each).copy() for each in (typing.before, after)), dots.dot, dots.paper)
        place = Place(field, after.shape, sides_of(field, after), key, dots)
        place.note(after, caret)
        self._places = [*(each for each in self._places if not place.holds(each.field)), place]
        line = Line.of(seen, after, len(text)) if dots is None else None
        if line and not any(known == key and line.is_in(other) for other, known in self._lines):
            self._lines.append((line, key))

    def _dots(self, seen: Appeared, screen: Pixels, text: str) -> Dots | None:
        dot = dot_of(seen.box.part_of(screen), seen.paper, text)
        return None if dot is None else Dots((), dot, seen.paper)

    def watch(self, screen: Pixels, find_caret: FindCaret) -> bool:
        """Look for the caret anew where the text beneath a cover has changed; return whether that was so."""
        changed = [each for each in self._places if each.is_covered(screen) and each.has_changed(screen)]
        caret = find_caret([each.field for each in changed]) if changed else None
        for each in changed:
            each.note(screen, caret)
            self._newest = None
        return bool(changed)

    def covered(self, screen: Pixels) -> Pixels | None:
        """Return a copy of a screen with its covers; None where it needs none."""
        if not self._places:
            return None
        newest = self._newest
        if newest is None or not np.array_equal(newest[0], screen):
            newest = self._newest = screen, self._painted(screen & COLOUR_BITS)
        return newest[1]

    def _painted(self, screen: Pixels) -> Pixels | None:
        places = [each for each in self._places if each.is_covered(screen)]
        regions = [*self._found(screen), *((each.field, each.key) for each in places)]
        if not regions:
            return None
        beneath = screen
        for place in places:
            beneath = place.beneath(beneath)
        painted: Pixels = screen.copy()
        for region, key in regions:
            paint(painted, beneath, region, key)
        return painted

    def _found(self, screen: Pixels) -> Iterator[tuple[Region, bytes]]:
        for (x, y), drawing in drawings_on(screen) if self._lines else ():
            for line, key in self._lines:
                for found in line.places(drawing):
                    yield Region(found.left + x, found.top + y, found.right + x, found.bottom + y), key


def _without(caret: Region, screen: Pixels, seen: Sequence[Appeared]) -> Pixels:
    """Return a screen with paper where the caret is."""
    paper = next((each.paper for each in seen if each.field.meets(caret) or each.box.meets(caret)), 0)
    painted: Pixels = screen.copy()
    caret.part_of(painted)[:] = paper
    return painted
