"""What a screen shows on its way to the next one, however slow the machine is, and where
it shows anything else: a message, which has a line of text that neither screen has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from pytest_vnc_use.backends.pixels import box_of, boxes_of, most_common
from pytest_vnc_use.recordings.images import Mask, Pixels, differing, levels_of
from pytest_vnc_use.recordings.same_text import MAX_HEIGHT_PX, really_differing
from pytest_vnc_use.types import CARET_PX, Region

_PAGE_SHARE = 0.5
"""The part of the screen that a message has at most: more is a page that loads."""
_SAME_LINE = 0.96
"""The smallest likeness of a line of text to that elsewhere: "Slide 2" has 0.98 of itself
at any fraction of a pixel, and 0.83 of "Slide 1"; "9.99" has 0.93 of "9.98".
"""
_SAME_SCALED = 0.6
"""The smallest likeness of a line to that in another size: the names of fields that move
have 0.68 to 0.98, other words of 17 that were compared 0.51 at most.
"""
_SAME_SIZE_PX = 2
"""How much larger or smaller a line may be that has moved by a fraction of a pixel."""
_NEAR_PX = 32
"""How far away a line in another size is looked for."""
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
_CLEARED_PX = 64
"""How close to what is cleared it may say that it loads."""
_VISIBLE_LEVELS = 48
"""The smallest difference of a level of a letter that can be read."""
_TEXT_PX = 6
"""The smallest height of a line of text."""
_LEAST_LETTERS = 3
"""A line with fewer letters is a sign, such as an arrow or a bullet."""
_SIGN_WIDTH = 1.2
_SIGN_APART = 1 / 3
"""How wide a sign before a line of text is at most, and how far from it at least, in
heights of the line.
"""
_TEXT_APART_PX = (1, 12)
"""The number of rows between two lines of text, and of columns that end one."""
_LINE_APART_PX = (1, 64)
"""The same of two lines of which one is empty: what a shorter text leaves of its line is
no line.
"""
_FRAME_PX = 3
"""The width of the border of a button or a message, and of its round corners."""

_MAX_FOUND = 64
_found_lines: dict[bytes, Sequence[Region]] = {}
"""The lines of text of some screens, at most `_MAX_FOUND`, by the screen's digest."""

Levels = npt.NDArray[np.float64]
Move = tuple[Pixels, int, int]
"""A screen on which text was elsewhere, and how far right and down of where it is now."""


@dataclass(frozen=True, eq=False)
class Passage:
    """The way from one recorded screen to the next: both `screens`, also as accepted,
    what was seen to pass, and where the text of the newest step may begin that Enter has
    taken away; None if it typed none. `is_drawn` says whether what is looked at is one
    of the screens but for the unknown parts.
    """

    screens: Sequence[Pixels]
    passing: Sequence[Pixels] = ()
    typed_at: Sequence[Region] | None = None
    is_drawn: bool = False
    moves: list[Move] = field(default_factory=list)
    """Where lines of text were found that have moved."""

    def shows(self, box: Region, seen: Pixels) -> bool:
        """Return whether a box of a screen may be seen on the way: it has no line of text
        that is new.
        """
        return not any(self.new_lines(box, seen))

    def new_lines(self, box: Region, seen: Pixels) -> Iterator[Region]:
        """Yield the lines of text of a box that are new; none of a page that loads."""
        is_page = box.area > _PAGE_SHARE * seen.size
        if is_page or self._is_typed(box, seen):
            return
        for line in text_lines(box, seen):
            if not self._has_line(line, seen):
                yield line

    def _is_typed(self, box: Region, seen: Pixels) -> bool:
        typed_at = self.typed_at
        return typed_at is not None and any(
            is_typed(box, typed_at, screen, seen) for screen in self.screens
        )

    def _has_line(self, line: Region, seen: Pixels) -> bool:
        """Return whether a line of text is one of the screens': in its place, in any
        colours, elsewhere, in another size close by, or on its way to another one. Or
        it was typed.
        """
        screens = [*self.screens, *self.passing]
        return (
            has_text_at(line, screens, seen)
            or self._is_typed(line, seen)
            or (not self.is_drawn and is_on_its_way(line, self.screens, seen))
            or is_fading(line, screens, seen)
            or is_moved_text(line, screens, seen, self.moves)
            or is_scaled_text(line, screens, seen)
        )


def shows_text_of(earlier: Pixels, box: Region, seen: Pixels) -> bool:
    """Return whether each line of text in a box of a screen is one of an earlier screen,
    also moved or faded.
    """
    is_comparable = earlier.shape == seen.shape
    return is_comparable and Passage((earlier,)).shows(box, seen)


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


def is_drawn_beside(
    parts: Iterable[Region], screens: Iterable[Pixels], seen: Pixels, left_out: Mask
) -> bool:
    """Return whether a screen is one of the recorded `screens` but for some parts, and a
    caret.
    """
    compared = ~left_out
    for part in parts:
        part.grown(_FRAME_PX, seen.shape).part_of(compared)[:] = False
    for screen in screens:
        unlike = differing(screen, seen) & compared
        if all(map(_may_be_caret, boxes_of(unlike))):
            return True
    return False


def _may_be_caret(box: Region) -> bool:
    return box.is_within(CARET_PX) and box.height > box.width


def text_lines(box: Region, seen: Pixels) -> Iterator[Region]:
    """Yield the lines of text within a box, also those on a ground of their own."""
    ink = _visible_ink(box.part_of(seen))
    # a border across the box, as of a window that is half drawn, is no letter
    taller = box.grown(_FRAME_PX, seen.shape)
    columns = replace(box, top=taller.top, bottom=taller.bottom).part_of(seen)
    ink[:, (columns == columns[0]).all(axis=0)] = False
    for piece in boxes_of(ink, _TEXT_APART_PX):
        piece = _without_sign(piece, ink)
        place = piece.moved(box.left, box.top)
        if _is_line_of_text(piece.part_of(ink)):
            yield place
        elif min(piece.width, piece.height) >= 2 * _FRAME_PX + _TEXT_PX:
            # a button or a message, within its border
            inner = Region(
                place.left + _FRAME_PX,
                place.top + _FRAME_PX,
                place.right - _FRAME_PX,
                place.bottom - _FRAME_PX,
            )
            yield from text_lines(inner, seen)


def _visible_ink(part: Pixels) -> Mask:
    """Return which pixels stand out from the most common colour."""
    background = most_common(part)
    ink: Mask = np.zeros(part.shape, np.bool_)
    for shift in (16, 8, 0):
        levels = (part >> shift & 0xFF).astype(np.int16)
        ink |= np.abs(levels - (background >> shift & 0xFF)) > _VISIBLE_LEVELS
    return ink


def _has_text(box: Region, seen: Pixels) -> bool:
    """Return whether a box is of a line of text, also on a ground that is darker further
    down.
    """
    ink = _visible_ink(box.part_of(seen))
    on_shaded_ground = _strengths(box, seen) > _VISIBLE_LEVELS
    return _is_line_of_text(ink) or _is_line_of_text(on_shaded_ground)


def _without_sign(piece: Region, ink: Mask) -> Region:
    """Return a line without the sign that it begins with, such as a menu item's check
    mark, or as it is.
    """
    columns = np.flatnonzero(piece.part_of(ink).any(axis=0))
    gaps = np.diff(columns)
    last_of_glyphs = np.flatnonzero(gaps > 1)
    if not last_of_glyphs.size:
        return piece
    last = last_of_glyphs[0]
    end = columns[last]
    start = columns[last + 1]
    is_apart = start - end > piece.height * _SIGN_APART
    if not is_apart or end > piece.height * _SIGN_WIDTH:
        return piece
    inked = box_of(ink[piece.top : piece.bottom, piece.left + start : piece.right])
    return inked.moved(piece.left + int(start), piece.top)


def _is_line_of_text(ink: Mask) -> bool:
    """Return whether a line has several letters, parted by columns without ink."""
    height, width = ink.shape
    if not _TEXT_PX <= height <= MAX_HEIGHT_PX or width < height:
        return False
    has_ink = ink.any(axis=0).astype(np.int8)
    letters = np.count_nonzero(np.diff(has_ink, prepend=0) == 1)
    return bool(letters >= _LEAST_LETTERS)


def cleared_place(
    seen: Pixels, screens: Sequence[Pixels], left_out: Mask
) -> Region | None:
    """Return where a screen has empty lines that are empty on none of the `screens`, and
    close around: the page has taken something away, and has yet to draw what comes in
    its place. None if nowhere. A line that has moved is elsewhere.
    """
    place: Region | None = None
    for box in boxes_of(_unlike(seen, screens, left_out), _LINE_APART_PX):
        if min(box.width, box.height) <= _TEXT_PX or not _is_empty(box, seen):
            continue
        background = _background(box, seen)
        is_cleared = all(_background(box, screen) == background for screen in screens)
        if is_cleared and not any(_has_moved(box, screen, seen) for screen in screens):
            place = place.joined(box) if place else box
    return place and place.grown(_CLEARED_PX, seen.shape)


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


def has_text_at(line: Region, screens: Sequence[Pixels], seen: Pixels) -> bool:
    """Return whether one of some screens has a line of text in its place, in any
    colours, also without the pixels that another screen has, as of a border across it.
    Or it has no text but theirs, as beside a button with a new border.
    """
    drawn = line.part_of(seen)
    is_new: Mask = np.ones(drawn.shape, np.bool_)
    for screen in screens:
        is_new &= differing(line.part_of(screen), drawn)
    if not is_new.any():
        return True
    if not _has_text(box_of(is_new).moved(line.left, line.top), seen):
        return True
    strengths = _strengths(line, seen)
    for screen in screens:
        recorded = line.part_of(screen)
        recorded_strengths = _strengths(line, screen)
        likeness = max(
            _explained(drawn, recorded),
            _explained(drawn[is_new], recorded[is_new]),
            _likeness(recorded_strengths, strengths),
            _likeness(recorded_strengths * is_new, strengths * is_new),
        )
        if likeness >= _SAME_LINE:
            return True
    return False


def is_on_its_way(line: Region, screens: Sequence[Pixels], seen: Pixels) -> bool:
    """Return whether a line of text is in a place where the step draws another text, on
    the ground of one of the screens: a page that is not complete yet, or its status. A
    message has a ground of its own, or shows where the step draws no text.
    """
    first, *others = [line.part_of(screen) for screen in screens]
    if not any(differing(first, other).any() for other in others):
        return False
    ground = _background(line, seen)
    for screen in screens:
        recorded = np.array(_background(line, screen))
        is_same = np.abs(_ink(recorded, ground)).max() <= _PLAIN_LEVELS
        if is_same and not _is_empty(line, screen):
            return True
    return False


def _explained(drawn: Pixels, recorded: Pixels) -> float:
    """Return how much of a drawing is another one in other colours, from 0 to 1: the
    share of the variance that is between pixels of different recorded colours, as the
    correlation ratio of statistics.
    """
    shade = _shades(recorded)
    pixels_of_shade = np.bincount(shade)
    shades = np.count_nonzero(pixels_of_shade)
    left_over = 0.0
    total = 0.0
    for channel in levels_of(drawn).reshape(-1, 3).T.astype(np.float64):
        mean_of_shade = np.bincount(shade, channel) / np.maximum(pixels_of_shade, 1)
        left_over += ((channel - mean_of_shade[shade]) ** 2).sum()
        total += ((channel - channel.mean()) ** 2).sum()
    # each shade of its own explains one pixel, whatever its colour is
    freedom = (len(shade) - 1) / max(len(shade) - shades, 1)
    return float(1 - left_over / max(total, 1) * freedom)


def _shades(pixels: Pixels) -> npt.NDArray[np.int64]:
    """Return the number of each pixel's shade, in one row: the four highest bits of its
    red, green and blue.

    >>> _shades(np.array([[0x102030, 0x1F2F3F, 0xFFFFFF]], np.uint32)).tolist()
    [291, 291, 4095]
    """
    red, green, blue = (pixels >> shift & 0xF for shift in (20, 12, 4))
    return (red << 8 | green << 4 | blue).ravel().astype(np.int64)


def is_moved_text(
    box: Region, screens: Iterable[Pixels], seen: Pixels, moves: list[Move]
) -> bool:
    """Return whether a box is of a line of text that one of the screens has, in its place
    or elsewhere, where it is not now. On its way it may be drawn at a fraction of a pixel,
    and in another colour.

    It is looked for first where other lines were found, the `moves`, to which its own is
    added: the lines of a list move together, and a search in a whole screen takes a fifth
    of a second.
    """
    background = _background(box, seen)
    is_drawn = np.abs(_ink(box.part_of(seen), background)).max(axis=2) > _PLAIN_LEVELS
    if not is_drawn.any():
        return False
    # without the place that it has left
    line = box_of(is_drawn).moved(box.left, box.top)
    # ink on the most of it is a background of several colours, whatever is on that
    if is_drawn.sum() > line.grown(_AROUND_PX, seen.shape).area / 2:
        return False
    drawn = _ink(line.part_of(seen), background)
    height, width = seen.shape
    for screen, across, down in moves:
        there = line.moved(across, down)
        is_on_screen = there.is_part_of(Region(0, 0, width, height))
        if is_on_screen and _is_from(there, screen, seen, drawn):
            return True
    for screen in screens:
        for there in _places_of(line, drawn, screen, seen):
            if _is_from(there, screen, seen, drawn):
                across = there.left - line.left
                down = there.top - line.top
                moves.append((screen, across, down))
                return True
    return False


def _is_from(there: Region, screen: Pixels, seen: Pixels, drawn: Levels) -> bool:
    """Return whether a screen has a drawing at a place where it is not now."""
    is_gone = differing(there.part_of(screen), there.part_of(seen)).any()
    return bool(is_gone) and _likeness_to(there, screen, drawn) >= _SAME_LINE


def is_scaled_text(line: Region, screens: Iterable[Pixels], seen: Pixels) -> bool:
    """Return whether a line of text is one that a screen has close by in another size,
    as the name of a field that moves up and becomes smaller.
    """
    near = line.grown(_NEAR_PX, seen.shape)
    drawn = _strengths(line, seen)
    height, width = drawn.shape
    for screen in screens:
        for there in text_lines(near, screen):
            if not 1 / 2 < there.width / width < 2:
                continue
            recorded = Image.fromarray(_strengths(there, screen).astype(np.float32))
            scaled = np.array(recorded.resize((width, height)), np.float64)
            if _likeness(scaled, drawn) >= _SAME_SCALED:
                return True
    return False


def _likeness(one: Levels, other: Levels) -> float:
    """Return how much two drawings are alike, from 0 to 1, however faint they are."""
    sizes = (one**2).sum() * (other**2).sum()
    return float((one * other).sum() ** 2 / max(sizes, 1))


def _strengths(line: Region, screen: Pixels) -> Levels:
    """Return how far each pixel of a line is from the background of its row: a button
    may be darker further down.
    """
    levels = levels_of(line.part_of(screen)).astype(np.float64)
    background = np.median(levels, axis=1, keepdims=True)
    strengths: Levels = np.abs(levels - background).max(axis=2)
    return strengths


def _ink(pixels: Pixels, background: int | Pixels) -> Levels:
    """Return how far each pixel is from the background, in each channel."""
    return levels_of(pixels).astype(np.float64) - levels_of(np.array(background))


def _background(box: Region, screen: Pixels) -> int:
    """Return the most common colour of a box and just around it: a sign such as a minus
    fills its own.
    """
    return most_common(box.grown(_AROUND_PX, screen.shape).part_of(screen))


def _places_of(
    line: Region, drawn: Levels, screen: Pixels, seen: Pixels
) -> Iterator[Region]:
    """Yield where a screen may have a line: in its place, where its row and its column are
    most like it, also without what is there still, and at each line of its size.
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
    whole = Region(0, 0, width, height)
    for other in _lines_on(screen):
        place = corner.moved(other.left, other.top)
        across = abs(other.width - line.width)
        down = abs(other.height - line.height)
        if max(across, down) <= _SAME_SIZE_PX and place.is_part_of(whole):
            yield place


def _lines_on(screen: Pixels) -> Sequence[Region]:
    """Return the lines of text of a screen. They are found once for all the lines that
    are looked for there.
    """
    digest = hashlib.sha1(screen.tobytes()).digest()
    if digest not in _found_lines:
        if len(_found_lines) == _MAX_FOUND:
            _found_lines.clear()
        height, width = screen.shape
        _found_lines[digest] = [*text_lines(Region(0, 0, width, height), screen)]
    return _found_lines[digest]


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
        begins_there = first <= _start_of_words(box, first, seen) <= last
        between = seen[row, box.right : place.right]
        if is_in_row and begins_there and (between == background).all():
            return True
    return False


def _start_of_words(box: Region, first: int, seen: Pixels) -> int:
    """Return the column at which the words begin, from the column `first` on, of which a
    box is the last: they are apart by at most their height.
    """
    left = max(first, 0)
    before = seen[box.top : box.bottom, left : box.left]
    has_ink = (before != most_common(box.part_of(seen))).any(axis=0)
    start = box.left
    for column in np.flatnonzero(has_ink)[::-1] + left:
        if start - column > box.height:
            break
        start = int(column)
    return start


def _ends_with_block(line: Pixels) -> bool:
    """Return whether a line ends with a terminal's caret: one colour all over a cell,
    which is half as wide as it is high.
    """
    height = len(line)
    is_caret = (line == line[0, -1]).all(axis=0)
    width = int(is_caret[::-1].cumprod().sum())
    return height / 3 <= width <= height * 2 / 3
