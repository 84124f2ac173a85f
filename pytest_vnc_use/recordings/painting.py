"""What a screen shows on its way to the next one, however slow the machine is, and where
it shows anything else, such as a message.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from pytest_vnc_use.backends.pixels import box_of, boxes_of, most_common
from pytest_vnc_use.recordings.images import Mask, Pixels, differing, levels_of
from pytest_vnc_use.recordings.same_text import MAX_HEIGHT_PX, really_differing
from pytest_vnc_use.types import CARET_PX, FrameRef, Region
from pytest_vnc_use.types.actions import Point

_BORDER_PX = 6
"""The width of a border, or of a ring around what has the focus, on a screen on which
all is twice as large.
"""
_SAME_COLOUR_LEVELS = 12
"""The largest difference of a level where pixels of one colour have another one now:
blended edges are rounded.
"""
_INSIDE = np.s_[_BORDER_PX:-_BORDER_PX, _BORDER_PX:-_BORDER_PX]
_RING_APART_PX = 4
"""The number of equal rows or columns between the rings of two fields, of which one has
lost the focus and the other got it.
"""
_LINE_APART_PX = (1, 64)
"""The number of equal rows between two lines, and of columns between two lines beside
each other: what a shorter text leaves of its line is no line.
"""
_PAGE_SHARE = 0.5
"""The part of the screen that a message has at most: more is a page that loads."""
_CORNER_PX = 8
"""The size of a round corner, on a screen on which all is twice as large."""
_SAME_LINE = 0.96
"""The smallest likeness of a line of text to that elsewhere: "Slide 2" has 0.98 of itself
at any fraction of a pixel, and 0.83 of "Slide 1"; "9.99" has 0.93 of "9.98".
"""
_SAME_PIECE = 0.87
"""The smallest likeness of a piece of a title bar to the same on another background,
where its edges are blended otherwise: "Preferences" has 0.91.
"""
_SIGN_PX = (80, 80)
"""The largest sign that turns or moves, on a screen on which all is twice as large."""
_AROUND_PX = 2
"""How far around a box its background is looked for."""
_PLAIN_LEVELS = 8
"""The largest difference of a level of a background with a faint pattern."""
_FADE_LEVELS = 6
"""The largest difference of a level from the blend of two screens."""
_BEARING_PX = 8
"""The largest gap between a caret and the text that begins there, on a screen on which
all is twice as large.
"""

Levels = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Passage:
    """The way from one recorded screen to the next: both `screens`, also as accepted,
    what was seen to pass, the points at which the steps so far acted, and where the
    text of the newest one may begin that Enter has taken away; None if it typed none.
    A key that the newest step has pressed `may_press` a button, as Enter does.
    """

    screens: Sequence[Pixels]
    passing: Sequence[Pixels] = ()
    acted_at: Sequence[Point] = ()
    typed_at: Sequence[Region] | None = None
    may_press: bool = False

    def shows(self, box: Region, seen: Pixels) -> bool:
        """Return whether a box of a screen may be seen on the way."""
        is_page = box.area > _PAGE_SHARE * seen.size
        if is_page:
            return True
        if self._is_painting(box, seen) or is_sliding(box, self.screens, seen):
            return True
        # a field that has lost the focus, and close to it the button that got it
        close = unlike_parts(box, self.screens, seen)
        if all(self._is_recoloured(part, seen) for part in close):
            return True
        parts = unslid_parts(box, self.screens, seen)
        return all(self._is_painting(part, seen) for part in parts)

    def _is_recoloured(self, box: Region, seen: Pixels) -> bool:
        is_side_of_border = min(box.width, box.height) <= _BORDER_PX
        if is_side_of_border and box.holds_any(self.acted_at):
            return True
        # a link may be as wide as its column, and is clicked beside its text
        is_in_row = any(box.top <= y < box.bottom for _, y in self.acted_at)
        for screen in self.screens:
            if is_border(box, screen, seen):
                return True
            if (is_in_row or self.may_press) and is_recoloured(box, screen, seen):
                return True
        return False

    def _is_painting(self, box: Region, seen: Pixels) -> bool:
        if self._is_recoloured(box, seen):
            return True
        if self.typed_at is not None:
            for screen in self.screens:
                if is_typed(box, self.typed_at, screen, seen):
                    return True
        return (
            is_fading(box, [*self.screens, *self.passing], seen)
            or is_appearing(box, self.screens, seen)
            or is_moved_text(box, self.screens, seen, self.acted_at)
        )


def unknown_parts(
    seen: Pixels, known: Iterable[Pixels], left_out: Mask
) -> list[Region]:
    """Return where a screen differs from all of the `known` screens.

    A window that is still being drawn does not count: each of its pieces is as on the
    screen before or after, or of one colour. A caret does not count either.
    """
    unlike = _unlike(seen, list(known), left_out)
    boxes = []
    for box in boxes_of(unlike):
        pixels = box.part_of(seen)[box.part_of(unlike)]
        is_plain = (pixels == pixels[0]).all() or _is_empty(box, seen)
        if not is_plain and not box.is_within(CARET_PX):
            boxes.append(box)
    return boxes


def is_half_painted(seen: Pixels, screens: Sequence[Pixels], left_out: Mask) -> bool:
    """Return whether a line of a screen is empty that is empty on none of the `screens`:
    the page has taken something away, and has yet to draw what comes in its place. A
    line that has moved is elsewhere.
    """
    for box in boxes_of(_unlike(seen, screens, left_out), _LINE_APART_PX):
        if min(box.width, box.height) <= _BORDER_PX or not _is_empty(box, seen):
            continue
        background = _background(box, seen)
        is_cleared = all(_background(box, screen) == background for screen in screens)
        if is_cleared and not any(_has_moved(box, screen, seen) for screen in screens):
            return True
    return False


def _has_moved(line: Region, screen: Pixels, seen: Pixels) -> bool:
    """Return whether a line of a screen is further along its row or column now, however
    faint.
    """
    drawn = _ink(line.part_of(screen), _background(line, screen))
    places = _places_of(line, drawn, seen, screen)
    return any(_likeness_to(there, seen, drawn) >= _SAME_LINE for there in places)


def _unlike(seen: Pixels, screens: Sequence[Pixels], left_out: Mask) -> Mask:
    """Return which pixels of a screen none of the others has; none if their sizes
    differ.
    """
    unlike: Mask = ~left_out
    for screen in screens:
        if screen.shape != seen.shape:
            return np.zeros_like(left_out)
        unlike &= differing(screen, seen)
    # A slide on its way differs from each screen nearly everywhere.
    for screen in screens:
        unlike = really_differing(screen, seen, left_out, only=unlike)
    return unlike


def _is_empty(box: Region, seen: Pixels) -> bool:
    """Return whether a box has only a background, which may be darker further down."""
    row_levels = np.ptp(levels_of(box.part_of(seen)), axis=1)
    return bool(row_levels.max() <= _PLAIN_LEVELS)


def is_sliding(box: Region, screens: Sequence[Pixels], seen: Pixels) -> bool:
    """Return whether a box shows content that slides from where one of the screens has
    it to where another has it, as an accordion that opens.

    Each of its rows, or of its columns, is plain, or one of the screens': in its place,
    or from where it is not now. A message has rows of its own.
    """
    rows = Region(box.left, 0, box.right, seen.shape[0])
    columns = Region(0, box.top, seen.shape[1], box.bottom)
    down = [rows.part_of(screen) for screen in (seen, *screens)]
    across = [columns.part_of(screen).T for screen in (seen, *screens)]
    return _is_made_of(slice(box.top, box.bottom), *down) or (
        _is_made_of(slice(box.left, box.right), *across)
    )


def _is_made_of(part: slice, seen: Pixels, *screens: Pixels) -> bool:
    """Return whether each row of a part is plain, or one of the screens': in its place,
    or from where it is not now. The ends of rows are left out, as corners may be round.
    """
    width = seen.shape[1]
    corner_px = _CORNER_PX if width > 4 * _CORNER_PX else 0
    inside = slice(corner_px, width - corner_px)
    rows = seen[:, inside]
    is_unknown = (rows != rows[:, :1]).any(axis=1)
    elsewhere: set[bytes] = set()
    for screen in screens:
        recorded = screen[:, inside]
        has_moved = (recorded != rows).any(axis=1)
        is_unknown &= has_moved
        # rows like the one above, as of a box's sides, may still be in their place
        is_repeated = (recorded[1:] == recorded[:-1]).all(axis=1)
        has_moved[1:] |= is_repeated
        elsewhere.update(row.tobytes() for row in recorded[has_moved])
    return all(row.tobytes() in elsewhere for row in rows[part][is_unknown[part]])


def unlike_parts(box: Region, screens: Iterable[Pixels], seen: Pixels) -> list[Region]:
    """Return what of a box none of the screens has, in parts as close together as the
    rings of two fields may be.
    """
    part = box.part_of(seen)
    is_unlike: Mask = np.ones(part.shape, np.bool_)
    for screen in screens:
        is_unlike &= differing(box.part_of(screen), part)
    parts = boxes_of(is_unlike, (_RING_APART_PX, _RING_APART_PX))
    return [unlike.moved(box.left, box.top) for unlike in parts]


def unslid_parts(box: Region, screens: Iterable[Pixels], seen: Pixels) -> list[Region]:
    """Return what is left of a box without what slides up or down from a screen, by the
    distance by which most of its rows have moved: a sign that turns on its way.
    """
    part = box.part_of(seen)
    is_left: Mask = np.ones(part.shape, np.bool_)
    for screen in screens:
        distances = _distances(box, screen, part)
        for distance, _ in distances.most_common(1):
            there = box.moved(0, -distance)
            is_left &= differing(there.part_of(screen), part)
    return [left.moved(box.left, box.top) for left in boxes_of(is_left)]


def _distances(box: Region, screen: Pixels, part: Pixels) -> Counter[int]:
    """Return how many rows of a part of a screen may have come from how far above, so
    that all of its box has come from the screen.
    """
    height = screen.shape[0]
    columns = Region(box.left, 0, box.right, height)
    places = defaultdict[bytes, list[int]](list)
    for y, row in enumerate(columns.part_of(screen)):
        if (row != row[0]).any():
            places[row.tobytes()].append(y)
    distances: Counter[int] = Counter()
    for y, row in enumerate(part, box.top):
        for place in places[row.tobytes()]:
            distance = y - place
            if box.bottom - height <= distance <= box.top:
                distances[distance] += 1
    return distances


def is_moved_text(
    box: Region,
    screens: Sequence[Pixels],
    seen: Pixels,
    targets: Iterable[Point] = (),
) -> bool:
    """Return whether a box is of a line of text, or of a sign, that one of the screens
    has, in its place or further along its row or column, where it is not now. On its
    way it may be drawn at a fraction of a pixel, and is no stronger than on any screen,
    except on a target that is pointed at.
    """
    background = _background(box, seen)
    is_drawn = np.abs(_ink(box.part_of(seen), background)).max(axis=2) > _PLAIN_LEVELS
    if not is_drawn.any():
        return False
    # without the place that it has left
    line = box_of(is_drawn).moved(box.left, box.top)
    if line.height > MAX_HEIGHT_PX and not line.is_within(_SIGN_PX):
        return False
    # ink on the most of it is a background of several colours, whatever is on that
    if is_drawn.sum() > line.grown(_AROUND_PX, seen.shape).area / 2:
        return False
    drawn = _ink(line.part_of(seen), background)
    strongest = max(_strength(line, screen) for screen in screens)
    for screen in screens:
        for there in _places_of(line, drawn, screen, seen):
            if _likeness_to(there, screen, drawn) < _SAME_LINE:
                continue
            is_gone = differing(there.part_of(screen), there.part_of(seen)).any()
            limit = max(strongest, _strength(there, screen)) + _FADE_LEVELS
            if np.abs(drawn).max() > limit and not box.holds_any(targets):
                continue
            if is_gone:
                return True
    return False


def _ink(pixels: Pixels, background: int | Pixels) -> Levels:
    """Return how far each pixel is from the background, in each channel."""
    return levels_of(pixels).astype(np.float64) - levels_of(np.array(background))


def _background(box: Region, screen: Pixels) -> int:
    """Return the most common colour of a box and just around it: a sign such as a minus
    fills its own.
    """
    return most_common(box.grown(_AROUND_PX, screen.shape).part_of(screen))


def _strength(line: Region, screen: Pixels) -> float:
    """Return how far from its background a line is at most."""
    ink = _ink(line.part_of(screen), _background(line, screen))
    return float(np.abs(ink).max())


def _places_of(
    line: Region, drawn: Levels, screen: Pixels, seen: Pixels
) -> Iterator[Region]:
    """Yield where a screen may have a line: in its place, and where its row and its
    column are most like it, also without what is there still.
    """
    yield line
    background = _background(line, seen)
    height, width = screen.shape
    row = Region(0, line.top, width, line.bottom)
    column = Region(line.left, 0, line.right, height)
    corner = Region(0, 0, line.width, line.height)
    for strip in (row, column):
        shown = strip.part_of(screen)
        ink = _ink(shown, background)
        is_gone = differing(shown, strip.part_of(seen))
        for searched in (ink, ink * is_gone[..., np.newaxis]):
            left, top = _place_in(searched, drawn)
            yield corner.moved(strip.left + left, strip.top + top)


def _place_in(strip: Levels, drawn: Levels) -> tuple[int, int]:
    """Return the column and the row at which a strip of the screen is most like a
    drawing. Only the sum of the channels is compared.
    """
    drawn = drawn.sum(axis=2)
    places = sliding_window_view(strip.sum(axis=2), drawn.shape)
    shared = np.einsum("yxij,ij->yx", places, drawn)
    sizes = np.einsum("yxij,yxij->yx", places, places)
    alike = shared / np.sqrt(np.maximum(sizes, 1))
    top, left = np.unravel_index(alike.argmax(), alike.shape)
    return int(left), int(top)


def _likeness_to(there: Region, screen: Pixels, drawn: Levels) -> float:
    """Return how much a drawing is like what a screen has at a place, from 0 to 1,
    however faint it is.

    At a fraction of a pixel it is a sum of what is there, and of the same one pixel to
    each side: the largest likeness of any such sum counts.
    """
    height, width = screen.shape
    background = _background(there, screen)
    copies = []
    for across, down in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
        place = there.moved(across, down)
        if place.is_part_of(Region(0, 0, width, height)):
            copies.append(_ink(place.part_of(screen), background).ravel())
    shares = np.linalg.lstsq(np.transpose(copies), drawn.ravel(), rcond=None)[0]
    rest = drawn.ravel() - shares @ copies
    return float(1 - (rest**2).sum() / (drawn**2).sum())


def is_border(box: Region, before: Pixels, seen: Pixels) -> bool:
    """Return whether a box has changed at its border alone, as a field that gets or
    loses the focus.
    """
    if min(box.width, box.height) <= 2 * _BORDER_PX:
        return False
    was = box.part_of(before)[_INSIDE]
    now = box.part_of(seen)[_INSIDE]
    return not differing(was, now).any()


def is_recoloured(box: Region, before: Pixels, seen: Pixels) -> bool:
    """Return whether a box shows the same drawing in other colours, as a button that is
    pressed. Its border may be another one, and a link be underlined.

    It does if each colour has become one other colour, all over the box:

        before  A A B B A      now  C C D D C    the same drawing: A is C, B is D
                                    C C D E C    another one: B is D and E
    """
    was = box.part_of(before)
    now = box.part_of(seen)
    if min(box.width, box.height) > 2 * _BORDER_PX:
        was = was[_INSIDE]
        now = now[_INSIDE]
    else:
        is_drawn = [not _is_line(row, most_common(now)) for row in now]
        was = was[is_drawn]
        now = now[is_drawn]
    # `kinds` has for each pixel the number of its colour before
    colours, kinds = np.unique(was, return_inverse=True)
    kinds = kinds.ravel()
    for shift in (0, 8, 16):
        level = now.ravel() >> shift & 0xFF
        # the darkest and the lightest that each colour has become, in this channel
        least = np.full(len(colours), 0xFF)
        greatest = np.zeros(len(colours), np.int64)
        np.minimum.at(least, kinds, level)
        np.maximum.at(greatest, kinds, level)
        if (greatest - least > _SAME_COLOUR_LEVELS).any():
            return False
    # a drawing of several colours has disappeared if it is one colour now
    return len(colours) <= 1 or len(np.unique(now)) > 1


def _is_line(row: Pixels, background: int) -> bool:
    """Return whether most of a row has one colour that is not the background's."""
    colour = most_common(row)
    return bool(colour != background and (row == colour).mean() > 1 / 2)


def is_appearing(box: Region, screens: Iterable[Pixels], seen: Pixels) -> bool:
    """Return whether a box shows what only one of the screens has, on another
    background, as the title of a window that has no focus yet.

    Each of its pieces is drawn alike.
    """
    shown = [box.part_of(screen) for screen in screens]
    if not any(differing(*pair).any() for pair in combinations(shown, 2)):
        return False
    background, drawn = _drawing(box.part_of(seen))
    for part in shown:
        recorded_background, recorded = _drawing(part)
        if (recorded_background == background).any():
            continue
        pieces = boxes_of(drawn + recorded > _PLAIN_LEVELS)
        likeness = [
            _likeness(piece.part_of(recorded), piece.part_of(drawn)) for piece in pieces
        ]
        if likeness and min(likeness) >= _SAME_PIECE:
            return True
    return False


def _likeness(one: Levels, other: Levels) -> float:
    """Return how much two drawings are alike, from 0 to 1, however faint they are."""
    sizes = (one**2).sum() * (other**2).sum()
    return float((one * other).sum() ** 2 / max(sizes, 1))


def _drawing(pixels: Pixels) -> tuple[Pixels, Levels]:
    """Return the most common colour of each row, as a title bar is darker further down,
    and how far each pixel is from it.
    """
    background = np.array([most_common(row) for row in pixels])
    ink = _ink(pixels, background[:, np.newaxis])
    return background, np.abs(ink).max(axis=2)


class UnknownParts(NamedTuple):
    """Where a transient frame shows what is unknown."""

    frame: FrameRef
    seen: Pixels
    regions: list[Region]

    def is_turning(self, region: Region, frames: Iterable[UnknownParts]) -> bool:
        """Return whether one of the frames shows something else in a small region that
        is unknown on both, as a sign that turns while a program works.
        """
        if not region.is_within(_SIGN_PX):
            return False
        for other in frames:
            small = [part for part in other.regions if part.is_within(_SIGN_PX)]
            if not region.meets_any(small):
                continue
            shown = region.part_of(other.seen)
            if differing(region.part_of(self.seen), shown).any():
                return True
        return False


def is_fading(box: Region, screens: Sequence[Pixels], seen: Pixels) -> bool:
    """Return whether a box shows how one of the screens fades into another: each pixel
    has come the same share of the way from one colour to the other.
    """
    now = levels_of(box.part_of(seen)).astype(np.int64)
    for one, other in combinations(screens, 2):
        start = levels_of(box.part_of(one))
        way = levels_of(box.part_of(other)) - start.astype(np.int64)
        length = (way * way).sum()
        if not length:
            continue
        share = ((now - start) * way).sum() / length
        blend = start + share * way
        if 0 < share < 1 and np.abs(now - blend).max() <= _FADE_LEVELS:
            return True
    return False


def is_typed(
    box: Region, typed_at: Iterable[Region], before: Pixels, seen: Pixels
) -> bool:
    """Return whether a box may show typed text that is gone, as of a field that Enter
    empties: a line on the field's background, that begins at one of some places, or
    ends at a terminal's caret, which has moved with it.

    Between its end and the end of that place there is only background. A message beside
    the field is outside the field's border, or begins further to the right.
    """
    background = most_common(box.part_of(seen))
    if box.height > MAX_HEIGHT_PX or background != most_common(box.part_of(before)):
        return False
    if _ends_with_block(box.part_of(seen)):
        return True
    for place in typed_at:
        row = (place.top + place.bottom) // 2
        is_in_row = box.top <= row < box.bottom
        first = place.left - _BEARING_PX
        last = place.right + _BEARING_PX
        begins_there = first <= box.left <= last
        between = seen[row, box.right : place.right]
        if is_in_row and begins_there and (between == background).all():
            return True
    return False


def _ends_with_block(line: Pixels) -> bool:
    """Return whether a line ends with a terminal's caret: one colour all over a cell,
    which is half as wide as it is high.
    """
    height = len(line)
    is_caret = (line == line[0, -1]).all(axis=0)
    width = int(is_caret[::-1].cumprod().sum())
    return height / 3 <= width <= height * 2 / 3
