"""The covers of one desktop: what is known of the secrets that were typed there, and the screen with covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pytest_vnc_use.backends.covers.carets import Caret
from pytest_vnc_use.backends.covers.changes import AppearedPart, appeared, differing, field_around
from pytest_vnc_use.backends.covers.cover_look import CODE_KEY, key_of, paint
from pytest_vnc_use.backends.covers.glyphs import Line, dot_of, drawings_on
from pytest_vnc_use.backends.covers.places import CoveredPlace, Dots, sides_of
from pytest_vnc_use.backends.covers.typed_text import TypedPart
from pytest_vnc_use.backends.covers.unrest import Unrest
from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.types import Region

_OTHER_SCREEN = 0.25
"""If this share of a screen changes, it is another screen, such as after the last digit of a code."""
_TALLER_PX = 8
"""The most rows by which letters are taller, above and below, than the dots that stand for them."""
_MOST_WATCHES = 6
"""The most watches of a field for a text that appears slowly."""
WatchFields = Callable[[Sequence[Region]], "tuple[Caret | None, Pixels]"]
"""A function that watches fields; it returns the caret that blinks in one of them, and the screen at the end."""


@dataclass(frozen=True, eq=False)
class Typing:
    """A secret that was typed: the screen before, and the looks at it since; the last one shows all of the secret.

    `unrest` is what moved by itself before.
    """

    secret: TypedPart
    before: Pixels
    looks: list[Pixels]
    unrest: Unrest

    def appeared(self, screen: Pixels) -> list[AppearedPart]:
        """Return what is drawn on a screen since the secret was typed."""
        return [*appeared(self.before, screen, self.unrest.left_out(screen), self.unrest.moved(screen.shape))]


@dataclass(eq=False)
class Covers:
    """The places where secrets were typed on a desktop, and the lines of text that appeared there."""

    _places: list[CoveredPlace] = field(default_factory=list)
    _lines: list[tuple[Line, bytes]] = field(default_factory=list)
    _newest: tuple[Pixels, Pixels | None] | None = None
    """The last screen, and the same with its covers."""
    _learnt: list[tuple[CoveredPlace, Pixels]] = field(default_factory=list)
    """The places of the secret that was typed last, and their covers when it was learnt."""
    _passing: list[Region] = field(default_factory=list)
    """Places that showed something while the secret was typed, such as a hint. It may be gone now."""

    def learn(self, typing: Typing, watch_fields: WatchFields | None = None) -> bool:
        """Learn what appeared while a secret was typed; return whether anything did.

        The fields are watched until no more of the text comes.
        """
        text, looks = typing.secret.text, typing.looks
        if len(looks) > 1 and _is_another(looks[-2], looks[-1]):
            text, looks, watch_fields = text[:-1], looks[:-1], None  # the last character led to another screen
        after, caret = self._watch_growth(typing, looks[-1], text, watch_fields) if watch_fields else (looks[-1], None)
        seen = typing.appeared(after)
        self._keep_lines(seen, typing, after, text)
        places = [self._place(each, typing, after, text, caret) for each in seen]
        for place in places:
            self._places = [*(each for each in self._places if not place.holds(each.field)), place]
        if passing := [each for each in typing.looks[:-1] if each.shape == after.shape]:
            self._passing = [
                each.field
                for look in passing
                for each in typing.appeared(look)
                if self._dots(each, look, typing.secret.text[:-1]) is None
            ]
        self._newest = None
        painted = self._paint_covers(after)
        self._learnt = [] if painted is None else [(each, each.field.part_of(painted).copy()) for each in places]
        return bool(seen)

    def _watch_growth(
        self, typing: Typing, after: Pixels, text: str, watch_fields: WatchFields
    ) -> tuple[Pixels, Caret | None]:
        """Return the screen without the caret, once a readable text is complete; and the caret."""
        caret: Caret | None = None
        for _ in range(_MOST_WATCHES):
            seen = typing.appeared(after)
            fields = [each.field for each in seen if self._dots(each, after, text) is None]
            if not fields:
                break
            self._keep_lines(seen, typing, after, text)
            caret, now = watch_fields(fields)
            if _is_another(after, now):
                return after, None
            before, after = after, now.copy()
            if caret:
                caret.remove_from(after)
            if not _has_grown(before, after, fields, caret):
                break
        return after, caret

    def has_grown(self, screen: Pixels) -> bool:
        """Return whether a field shows a piece of the last secret, and changed since that was learnt."""
        changed = [
            each for each, _ in self._learnt if not each.dots and each.is_covered(screen) and each.has_changed(screen)
        ]
        found = [region for region, _ in self._find_lines(screen)] if changed else []
        return any(region.meets(each.field) for each in changed for region in found)

    def as_learnt(self, covered: Pixels) -> Pixels:
        """Return a picture taken while a secret was typed, with the covers of the whole secret.

        Whatever showed at that moment is covered too, by a pattern that is always the same.
        """
        painted: Pixels = covered.copy()
        for region in self._passing:
            paint(painted, painted, region, CODE_KEY)
        for place, look in self._learnt:
            if covered.shape == place.screen_shape:
                place.field.part_of(painted)[:] = look
        return painted

    def _keep_lines(self, seen: Sequence[AppearedPart], typing: Typing, after: Pixels, text: str) -> None:
        """Keep the readable lines that appeared, to find their glyphs elsewhere. The first ones may be gone later."""
        key = _key_of(typing.secret)
        for each in seen:
            if self._dots(each, after, text) is None:
                for line in Line.all_of(each, after, len(text)):
                    if not any(line_key == key and line.is_in(other) for other, line_key in self._lines):
                        self._lines.append((line, key))

    def _place(self, seen: AppearedPart, typing: Typing, after: Pixels, text: str, caret: Caret | None) -> CoveredPlace:
        secret, dots, field = typing.secret, self._dots(seen, after, text), seen.field
        moved = typing.unrest.moved(after.shape)
        if dots is not None:
            field = field_around(seen.box, after, seen.paper, moved, _TALLER_PX)
            dots = Dots(tuple(field.part_of(each).copy() for each in (typing.before, after)), dots.dot, dots.paper)
        other_key = key_of(secret.mark, "") if secret.is_code else b""
        place = CoveredPlace(field, after.shape, sides_of(field, after, moved), _key_of(secret), other_key, dots)
        place.note(after, caret)
        return place

    def _dots(self, seen: AppearedPart, screen: Pixels, text: str) -> Dots | None:
        dot = dot_of(seen.box.part_of(screen), seen.paper, text)
        return None if dot is None else Dots((), dot, seen.paper)

    def watch(self, screen: Pixels, watch_fields: WatchFields) -> bool:
        """Look for the caret again if the text beneath a cover has changed; return whether it has."""
        changed = [each for each in self._places if each.is_covered(screen) and each.has_changed(screen)]
        if not changed:
            return False
        caret, now = watch_fields([each.field for each in changed])
        for each in changed:
            if now.shape == each.screen_shape:
                each.note(now, caret)
            self._newest = None
        return True

    def covered(self, screen: Pixels) -> Pixels | None:
        """Return a copy of a screen with its covers; None if it needs none."""
        if not self._places:
            return None
        newest = self._newest
        if newest is None or not np.array_equal(newest[0], screen):
            newest = self._newest = screen, self._paint_covers(screen & COLOUR_BITS)
        return newest[1]

    def _paint_covers(self, screen: Pixels) -> Pixels | None:
        places = [each for each in self._places if each.is_covered(screen)]
        found = [*self._find_lines(screen)]
        regions = [*found, *((each.field, _key_now(each, found)) for each in places)]
        if not regions:
            return None
        beneath = screen
        for place in places:
            beneath = place.beneath(beneath)
        painted: Pixels = screen.copy()
        for region, key in regions:
            paint(painted, beneath, region, key)
        return painted

    def _find_lines(self, screen: Pixels) -> Iterator[tuple[Region, bytes]]:
        for (x, y), drawing in drawings_on(screen) if self._lines else ():
            for line, key in self._lines:
                for found in line.places(drawing):
                    yield Region(found.left + x, found.top + y, found.right + x, found.bottom + y), key


def _key_of(secret: TypedPart) -> bytes:
    return CODE_KEY if secret.is_code else key_of(secret.mark, secret.text)


def _key_now(place: CoveredPlace, found: Sequence[tuple[Region, bytes]]) -> bytes:
    """Return the key of a place's cover: the one for other text, once the glyphs of a one-time code are gone there."""
    if place.key != CODE_KEY or any(key == CODE_KEY and region.meets(place.field) for region, key in found):
        return place.key
    return place.other_key


def _is_another(before: Pixels, now: Pixels) -> bool:
    """Return whether a screen has become another one."""
    return before.shape != now.shape or bool(differing(before, now).mean() > _OTHER_SCREEN)


def _has_grown(before: Pixels, now: Pixels, fields: Sequence[Region], caret: Caret | None) -> bool:
    """Return whether more than a caret changed in the fields."""
    changed = differing(before, now)
    if caret:
        caret.region.part_of(changed)[:] = False
    return any(each.part_of(changed).any() for each in fields)
