"""Gates: what is seen, what is let through, such as text that is only rasterised
another way, and what they say.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pytest_vnc_use.recordings.drift import is_maskable
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region
from pytest_vnc_use.recordings.gates import (
    BlinkWatch,
    Gate,
    evidence_gate,
    gate,
    surroundings,
)
from pytest_vnc_use.recordings.images import Pixels, differing, pixels_of
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.types import (
    REDACTED_COLOUR,
    Click,
    Drag,
    KeyCombo,
    Region,
    TypeText,
)
from support.images import SIZE, drawn

ADD = drawn("Add")
ADDED = drawn("Added")
NEAR = surroundings(Click(30, 35), SIZE)
FAR = (Region(200, 150, 320, 200),)
"""The surroundings of a target at the texts, and of one elsewhere."""


def grey(levels: np.ndarray[Any, Any]) -> Pixels:
    pixels: Pixels = levels.astype(np.uint32) * np.uint32(0x010101)
    return pixels


def changed(screen: Pixels, region: Region, colour: int = 0x123456) -> Pixels:
    seen = screen.copy()
    region.part_of(seen)[:] = colour
    return seen


@pytest.mark.parametrize(
    ("opened", "seen", "message"),
    [
        (
            gate(ADD, (), before=drawn("")),
            drawn("Adb"),
            "a different effect of the step before: ",
        ),
        (
            gate(ADD, (), before=ADD),
            drawn("Sub"),
            "a difference where nothing changed at the step before, when recorded: ",
        ),
        (
            gate(ADD, (), before=ADD, targets=NEAR),
            drawn("Sub"),
            "the surroundings of the step's target differ (",
        ),
        (
            gate(ADD, (), before=ADD, targets=FAR),
            drawn("Adb"),
            ", away from where the next step acts",
        ),
        (gate(ADD, ()), drawn("Adb"), "the first screen differs: "),
        (
            evidence_gate(Screen(pixels=lambda: ADD)),
            drawn("Adb"),
            "the screen differs from the judged one: ",
        ),
        (gate(ADD, ()), np.zeros((10, 12), np.uint32), "the screen has 12 x 10 pixels"),
    ],
    ids=[
        "changed text",
        "outside",
        "near target",
        "far from target",
        "first",
        "evidence",
        "size",
    ],
)
def test_mismatch_says_where_difference_is(
    opened: Gate, seen: Pixels, message: str
) -> None:
    assert opened.mismatch(opened.expected) is None

    closed = opened.mismatch(seen)
    assert closed
    assert message in closed.problem


@pytest.mark.parametrize(("levels", "is_seen"), [(2, False), (3, True)])
@pytest.mark.parametrize("channel", [0, 8, 16])
def test_mismatch_of_one_pixel_needs_three_levels(
    levels: int, channel: int, is_seen: bool
) -> None:
    screen = ADD & 0xF0F0F0
    now = screen.copy()
    now[199, 319] += np.uint32(levels << channel)
    closed = gate(screen, (), before=drawn(""), targets=NEAR).mismatch(now)
    assert (closed is not None) == is_seen
    if closed:
        assert closed.region == Region(319, 199, 320, 200)
        assert "1 px from (319, 199) to (320, 200)" in closed.problem


def test_mismatch_passing_part_is_tolerated_as_recorded() -> None:
    toast = Region(200, 20, 300, 60)
    seen = changed(ADD, toast, 0xFFE0A0)
    other = changed(ADD, toast, 0xFF0000)
    opened = gate(ADD, (), before=ADD)
    passing = [dynamic_region(toast, "unstable", toast.part_of(seen))]
    assert opened.mismatch(seen, passing=passing) is None
    assert opened.mismatch(ADD, passing=passing) is None
    assert opened.mismatch(other, passing=passing)
    assert opened.mismatch(seen)


SELECT = Region(20, 20, 180, 52)
LIST = Region(20, 53, 180, 120)
IDLE = 0x767676
PRESSED = 0x8D8D8D
RED = 0x8D0000


def select(border: int, *, is_open: bool = True, width: int = 1) -> Pixels:
    """A select whose list is open, as Chromium draws it."""
    screen = changed(drawn(""), SELECT, border)
    inside = Region(20 + width, 20 + width, 180 - width, 52 - width)
    screen = changed(screen, inside, 0xFFFFFF)
    return changed(screen, LIST, 0x1967D2) if is_open else screen


@pytest.mark.parametrize(
    ("recorded", "seen", "at", "is_seen"),
    [
        (select(PRESSED), select(IDLE), (100, 36), False),
        (select(PRESSED, width=2), select(IDLE, width=2), (100, 36), True),
        (select(IDLE), select(PRESSED), (100, 36), True),
        (select(PRESSED), select(RED), (100, 36), True),
        (select(0x1967D2), select(IDLE), (100, 36), True),
        (select(PRESSED), select(IDLE), (250, 36), True),
        (select(PRESSED), select(IDLE, is_open=False), (100, 36), True),
        (select(PRESSED, is_open=False), select(IDLE, is_open=False), (100, 36), True),
    ],
    ids=[
        "as before the step",
        "wider than before",
        "never recorded",
        "another colour",
        "focus ring missing",
        "of another control",
        "no list",
        "no list recorded",
    ],
)
def test_mismatch_border_of_pressed_control(
    recorded: Pixels, seen: Pixels, at: tuple[int, int], is_seen: bool
) -> None:
    """Chromium draws a `select` pressed or not while its list is open, by chance."""
    before = select(IDLE, is_open=False)
    opened = gate(recorded, (), before=before, pressed=(at,))
    assert (opened.mismatch(seen) is not None) == is_seen
    next_gate = gate(recorded, (), before=recorded, pressed=(at,))
    assert next_gate.mismatch(seen)


BOX = Region(15, 25, 100, 50)
BESIDE_BOX = Region(100, 30, 101, 31)


@pytest.mark.parametrize(
    "opened",
    [
        gate(ADD, (), masks=[BOX]),
        gate(ADD, (dynamic_region(BOX, "always_changing"),)),
        evidence_gate(Screen(redacted=(BOX,), pixels=lambda: ADD)),
    ],
    ids=["mask", "always changing", "redacted"],
)
def test_mismatch_leaves_out_masks_and_redactions_only(opened: Gate) -> None:
    assert opened.mismatch(drawn("Adb")) is None
    assert opened.mismatch(changed(ADD, BESIDE_BOX))


NARROW = changed(ADD, Region(10, 10, 30, 20), REDACTED_COLOUR)
WIDE = changed(ADD, Region(10, 10, 50, 20), REDACTED_COLOUR)


@pytest.mark.parametrize(
    ("expected", "seen"),
    [(NARROW, WIDE), (WIDE, NARROW)],
    ids=["wider", "narrower"],
)
def test_mismatch_leaves_out_either_redaction(expected: Pixels, seen: Pixels) -> None:
    assert gate(expected, ()).mismatch(seen) is None
    assert gate(expected, ()).mismatch(changed(seen, BESIDE_BOX))


def test_mismatch_boxes_are_apart() -> None:
    wide = Region(200, 150, 240, 160)
    narrow = Region(300, 10, 310, 12)
    closed = gate(ADD, ()).mismatch(changed(changed(ADD, wide), narrow))
    assert closed
    assert set(closed.boxes) == {wide, narrow}


@pytest.mark.parametrize(("height", "is_offered"), [(50, True), (51, False)])
def test_mask_over_half_screen_is_not_offered(height: int, is_offered: bool) -> None:
    boxes = [Region(0, 0, 320, height)] * 2
    assert is_maskable(boxes, (200, 320)) == is_offered


def test_caret_hides_nothing_beside_it() -> None:
    caret = dynamic_region(Region(75, 30, 77, 45), "caret")
    opened = gate(ADD, (caret,))
    assert opened.mismatch(changed(ADD, caret.region)) is None
    assert opened.mismatch(drawn("Adb"))


STATUS = Region(16, 24, 120, 56)
READY = drawn("READY")
BLANK = drawn("")


def test_variants_let_no_other_through() -> None:
    ready = STATUS.part_of(READY)
    blank = STATUS.part_of(BLANK)
    opened = gate(READY, (dynamic_region(STATUS, "unstable", ready, blank),))
    assert opened.mismatch(READY) is None
    assert opened.mismatch(BLANK) is None
    closed = opened.mismatch(drawn("ERROR"))
    assert closed
    assert closed.region == STATUS
    assert "shows none of its 2 recorded variants" in closed.problem


@pytest.fixture
def blinking() -> Gate:
    """A gate with a status that blinks."""
    shown = STATUS.part_of(READY)
    hidden = STATUS.part_of(BLANK)
    return gate(READY, (dynamic_region(STATUS, "blinks", shown, hidden),))


def test_blinking_part_must_show_all_variants(blinking: Gate) -> None:
    watch = BlinkWatch(blinking.blinking)
    first = watch.note(READY)
    again = watch.note(READY)
    assert first
    assert again
    assert first.region == again.region == STATUS
    problem = "has not shown all of its 2 recorded variants"
    assert problem in first.problem
    assert problem in again.problem
    assert watch.note(BLANK) is None


def test_blinking_part_redacted_need_not_blink(blinking: Gate) -> None:
    redacted = changed(READY, STATUS, REDACTED_COLOUR)
    assert BlinkWatch(blinking.blinking).note(redacted) is None


CARET = dynamic_region(Region(20, 30, 21, 44), "caret")
MOVED = dynamic_region(Region(27, 30, 28, 44), "caret")


def clock_around(part: DynamicRegion) -> DynamicRegion:
    return dynamic_region(part.region.grown(16, SIZE[::-1]), "always_changing")


def test_moved_caret_must_have_arrived() -> None:
    opened = gate(ADD, (MOVED,), before=ADD, parts_before=(CARET,))
    assert (opened.shows_effect, opened.caret) == (True, MOVED.region)
    assert opened.mismatch(changed(ADD, MOVED.region), ADD) is None
    closed = opened.mismatch(ADD, ADD)
    assert closed
    assert closed.problem == "the caret is not where it was moved by the step before"
    assert closed.region == MOVED.region
    with_text = gate(ADDED, (MOVED,), before=ADD, parts_before=(CARET,))
    assert with_text.caret is None, "the text shows the effect"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((CARET,), (CARET,)),
        ((), (MOVED,)),
        ((CARET,), ()),
        ((CARET,), (MOVED, dynamic_region(Region(90, 30, 91, 44), "caret"))),
        ((CARET,), (clock_around(MOVED),)),
        ((clock_around(CARET),), (MOVED,)),
    ],
    ids=[
        "caret unmoved",
        "no caret before",
        "no caret now",
        "two carets now",
        "clock at caret now",
        "clock at caret before",
    ],
)
def test_moving_regions_prove_no_step(
    before: tuple[DynamicRegion, ...], now: tuple[DynamicRegion, ...]
) -> None:
    blinked = ADD.copy()
    for part in before:
        part.region.part_of(blinked)[:] ^= 0xFFFFFF
    opened = gate(ADD, now, before=blinked, parts_before=before)
    assert opened.step
    assert opened.step.changed.any() == bool(before)
    assert (opened.shows_effect, opened.caret) == (False, None)


def test_surroundings_are_of_points_and_on_screen() -> None:
    assert surroundings(Click(0, 0), SIZE) == (Region(0, 0, 120, 40),)
    assert surroundings(TypeText("a", 319, 199), SIZE) == (Region(199, 159, 320, 200),)
    assert len(surroundings(Drag(10, 10, 200, 100), SIZE)) == 2
    assert surroundings(KeyCombo(("enter",)), SIZE) == ()
    assert surroundings(TypeText("a"), SIZE) == ()


SHEET = pixels_of(Path(__file__).with_name("rasterised.webp").read_bytes())
"""Texts as Chromium drew them in Liberation Sans, a row for each of `TEXTS`, a column
for each of `WAYS`.
"""
CELL = (40, 160)
TEXTS = (
    "Submit",
    "Submlt",
    "OK",
    "0K",
    "Search",
    "Seanch",
    "Total 3.75",
    "Total 8.75",
    "Total 3,75",
    "-12.40",
    "12.40",
    "From: Ann",
    "From; Ann",
    "3",
    "8",
)
WAYS = (
    "hinted",
    "plain",
    "offset",
    "hinted LCD",
    "plain LCD",
    "small hinted",
    "small plain",
)
"""All 27 pixels high but the small ones, which are 13; at an offset of a quarter of a
pixel.
"""
REDRAWN = (("plain", "offset"), ("offset", "plain"))
CHANGED = [
    ("Submit", "Submlt"),
    ("OK", "0K"),
    ("Search", "Seanch"),
    ("Total 3.75", "Total 8.75"),
    ("Total 3.75", "Total 3,75"),
    ("-12.40", "12.40"),
    ("From: Ann", "From; Ann"),
]
BUTTON = np.uint32(0xEFEFEF)


def text(words: str, way: str) -> Pixels:
    """Return the cell with these words, which has a white margin."""
    height, width = CELL
    top = TEXTS.index(words) * height
    left = WAYS.index(way) * width
    cell: Pixels = SHEET[top : top + height, left : left + width]
    return cell


def screen(*placed: tuple[Pixels, int, int]) -> Pixels:
    """Return a screen with a button and these cells, each at its left and top."""
    pixels = np.full((480, 640), 0xFFFFFF, np.uint32)
    pixels[300:342, 100:300] = 0x767676
    pixels[302:340, 102:298] = BUTTON
    for cell, left, top in placed:
        pixels[top : top + cell.shape[0], left : left + cell.shape[1]] &= cell
    return pixels


@pytest.mark.parametrize(("recorded", "now"), REDRAWN)
@pytest.mark.parametrize("words", ["Submit", "Search", "Total 3.75", "-12.40"])
def test_really_differing_redrawn_line_marks_nothing(
    words: str, recorded: str, now: str
) -> None:
    before = screen((text(words, recorded), 112, 301), (text("OK", recorded), 20, 20))
    after = screen((text(words, now), 112, 301), (text("OK", now), 20, 20))
    assert np.count_nonzero(differing(before, after)) > 100
    assert not really_differing(before, after).any()
    assert evidence_gate(Screen(pixels=lambda: before)).mismatch(after) is None


@pytest.mark.parametrize(("words", "others"), CHANGED)
@pytest.mark.parametrize(
    ("recorded", "now"),
    [*REDRAWN, ("plain", "hinted"), ("plain", "plain"), ("small plain", "small plain")],
)
def test_really_differing_changed_line_is_marked(
    recorded: str, now: str, words: str, others: str
) -> None:
    before = screen((text(words, recorded), 112, 301))
    after = screen((text(others, now), 112, 301))
    assert (really_differing(before, after) == differing(before, after)).all()


MOVED_BY_A_PIXEL = (301 - 1, 301 + 1)
"""The tops of a line that stood at 301."""


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda before: gate(before, ()), id="plain gate"),
        pytest.param(
            lambda before: gate(before, (), before=screen(), targets=NEAR), id="targets"
        ),
        pytest.param(
            lambda before: evidence_gate(Screen(pixels=lambda: before)), id="evidence"
        ),
    ],
)
@pytest.mark.parametrize("top", MOVED_BY_A_PIXEL)
@pytest.mark.parametrize(
    ("words", "way"),
    [
        ("Submit", "plain"),
        ("OK", "plain"),
        ("Total 3.75", "plain"),
        ("-12.40", "plain"),
        ("From: Ann", "plain LCD"),
        ("Search", "small plain"),
    ],
)
def test_line_moved_by_one_pixel_is_same(
    words: str, way: str, top: int, make: Callable[[Pixels], Gate]
) -> None:
    before = screen((text(words, way), 112, 301), (text("Search", way), 20, 20))
    now = screen((text(words, way), 112, top), (text("Search", way), 20, 20))
    assert differing(before, now).any()
    assert make(before).mismatch(now) is None


def written(words: str, top: int) -> Pixels:
    """Return a screen with words in Pillow's own font, 48 pixels high."""
    image = Image.new("L", (320, 200), 255)
    ImageDraw.Draw(image).text((40, top), words, 0, ImageFont.load_default(48))
    return grey(np.asarray(image))


@pytest.mark.parametrize("top", [79, 81])
@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        ("java", True),
        ("jaua", False),
        ("jave", False),
        ("ȷava", False),
        ("ja va", False),
    ],
)
def test_dots_belong_to_moved_line(now: str, is_same: bool, top: int) -> None:
    opened = gate(written("java", 80), ())
    assert (opened.mismatch(written(now, top)) is None) == is_same


@pytest.mark.parametrize(("words", "others"), CHANGED)
@pytest.mark.parametrize("top", MOVED_BY_A_PIXEL)
@pytest.mark.parametrize("way", ["plain", "small plain", "plain LCD"])
def test_changed_line_moved_by_one_pixel_differs(
    way: str, top: int, words: str, others: str
) -> None:
    before = screen((text(words, way), 112, 301))
    now = screen((text(others, way), 112, top))
    assert gate(before, ()).mismatch(now)


TOTAL = text("Total 3.75", "plain")


def moved_total(columns: slice = np.s_[:], down: int = 1) -> Pixels:
    """Return the cell of the total, some of whose columns stand lower."""
    cell = TOTAL.copy()
    cell[:, columns] = np.roll(cell[:, columns], down, axis=0)
    return cell


def without_full_stop() -> Pixels:
    """Return the cell of the total without its full stop, a pixel lower."""
    cell = moved_total()
    starts = np.flatnonzero(np.diff((cell != 0xFFFFFF).any(axis=0).astype(int)) > 0)
    # T o t a l 3 . 7 5
    cell[:, starts[-3] + 1 : starts[-2]] = 0xFFFFFF
    return cell


@pytest.mark.parametrize(
    "now",
    [
        moved_total(down=2),
        moved_total(down=-2),
        moved_total(np.s_[:70]),
        moved_total(np.s_[70:]),
        without_full_stop(),
        TOTAL | np.uint32(0x300000),
        np.roll(moved_total(), 1, axis=1),
        moved_total() | np.uint32(0x0F0000),
    ],
    ids=[
        "two down",
        "two up",
        "a word",
        "other word",
        "full stop",
        "colour",
        "aside",
        "moved and recoloured",
    ],
)
def test_line_that_changed_otherwise_differs(now: Pixels) -> None:
    before = screen((TOTAL, 112, 301))
    assert gate(before, ()).mismatch(screen((now, 112, 301)))


def outlined_words() -> Pixels:
    """Words in a border, without another background."""
    pixels = screen((text("Submit", "plain"), 20, 20))
    pixels[18, 14:130] = 0x767676
    pixels[56, 14:130] = 0x767676
    pixels[18:57, 14] = 0x767676
    pixels[18:57, 130] = 0x767676
    return pixels


def bars() -> Pixels:
    pixels = screen()
    for left, height in ((50, 20), (64, 14), (78, 26), (92, 30), (106, 18)):
        pixels[100 - height : 100, left : left + 8] = 0
    return pixels


def dots() -> Pixels:
    dot = grey(np.asarray(RING.resize((20, 10), Image.Resampling.BOX)))
    pixels = screen()
    for left in range(50, 200, 26):
        pixels[100:110, left : left + 20] = dot
    return pixels


def dashes() -> Pixels:
    pixels = screen()
    for left in range(50, 200, 12):
        pixels[100:104, left : left + 6] = 0
    return pixels


@pytest.mark.parametrize(
    "draw",
    [
        # with its border
        lambda: screen((text("Submit", "plain"), 112, 301)),
        lambda: screen((text("3", "plain"), 20, 20)),
        lambda: screen((text("8", "plain"), 20, 20)),
        outlined_words,
        bars,
        dashes,
        dots,
    ],
    ids=["button", "3", "8", "outlined words", "bars", "dashes", "dots"],
)
def test_no_line_moved_by_one_pixel_differs(draw: Callable[[], Pixels]) -> None:
    drawing = draw()
    assert gate(drawing, ()).mismatch(np.roll(drawing, 1, axis=0))


def test_caret_in_moved_line_is_not_compared() -> None:
    before = screen((text("Submit", "plain"), 112, 301))
    now = screen((text("Submit", "plain"), 112, 302))
    caret = Region(220, 308, 222, 334)
    parts = (dynamic_region(caret, "caret"),)
    assert gate(before, parts).mismatch(changed(now, caret, 0)) is None
    assert gate(changed(before, caret, 0), parts).mismatch(now) is None
    assert gate(before, ()).mismatch(changed(now, caret, 0))


RING = Image.new("L", (800, 400), 255)
ImageDraw.Draw(RING).rounded_rectangle((80, 80, 720, 320), 60, 255, 16, 24)
CORNERS = np.asarray(RING.resize((200, 100), Image.Resampling.BOX)).astype(np.uint32)
"""A focus ring with rounded corners, which are blended."""


@pytest.mark.parametrize(
    ("blended", "levels", "is_same"),
    [(2, 5, True), (2, -9, True), (8, 5, True), (2, 13, False), (9, 5, False)],
)
def test_single_pixels_of_corner_may_differ(
    blended: int, levels: int, is_same: bool
) -> None:
    places = np.argwhere((CORNERS > 60) & (CORNERS < 220))
    apart = [place for n, place in enumerate(places) if n % 7 == 3]
    assert len(apart) >= 9
    now = CORNERS.copy()
    for row, column in apart[:blended]:
        now[row, column] = int(now[row, column]) + levels
    mismatch = gate(grey(CORNERS), ()).mismatch(grey(now))
    assert (mismatch is None) == is_same


@pytest.mark.parametrize(("beside", "is_same"), [(2, True), (3, False)])
def test_pixels_of_corner_side_by_side(beside: int, is_same: bool) -> None:
    now = CORNERS.copy()
    now[20, 30 : 30 + beside] += 3  # where the top of the ring begins
    mismatch = gate(grey(CORNERS), ()).mismatch(grey(now))
    assert (mismatch is None) == is_same


@pytest.mark.parametrize(("levels", "is_same"), [(5, True), (7, False)])
def test_single_pixel_of_faint_corner_may_differ(levels: int, is_same: bool) -> None:
    faint = 230 + CORNERS // 16
    row, column = np.argwhere((CORNERS > 60) & (CORNERS < 160))[0]
    now = faint.copy()
    now[row, column] += levels
    mismatch = gate(grey(faint), ()).mismatch(grey(now))
    assert (mismatch is None) == is_same


def test_single_pixels_of_corner_are_no_part_of_other_difference() -> None:
    now = CORNERS.copy()
    now[20, 30:32] += 3
    now[50, 100:120] = 0  # inside of the ring
    mismatch = gate(grey(CORNERS), ()).mismatch(grey(now))
    assert mismatch
    assert mismatch.boxes == (Region(100, 50, 120, 51),)


@pytest.mark.parametrize("colour", [0x101010, 0x300000, 0x808080])
def test_really_differing_line_in_other_colour_is_marked(colour: int) -> None:
    before = screen((text("Search", "plain"), 20, 20))
    after = screen((text("Search", "offset"), 20, 20)) | np.uint32(colour)
    assert really_differing(before, after).any()


@pytest.mark.parametrize("character", ["3", "8"])
def test_really_differing_single_character_is_marked(character: str) -> None:
    before = screen((text(character, "plain"), 20, 20))
    after = screen((text(character, "offset"), 20, 20))
    assert really_differing(before, after).any()


def test_redrawn_word_beside_equal_word_is_marked() -> None:
    """The second word would be drawn again too if the whole line were."""
    redrawn = TOTAL.copy()
    redrawn[:, 70:] = text("Total 3.75", "offset")[:, 70:]
    before = screen((TOTAL, 20, 20))
    after = screen((redrawn, 20, 20))
    assert differing(before, after).any()
    assert (really_differing(before, after) == differing(before, after)).all()


def test_bars_grown_by_one_pixel_are_marked() -> None:
    before = bars()
    after = bars() & np.roll(bars(), -1, axis=0)
    assert (really_differing(before, after) == differing(before, after)).all()


BORDER = np.s_[300:342, 100:102]
FOCUS_RING = np.s_[298:300, 98:302]
CARET_BOX = np.s_[308:334, 210:212]
PIXEL = np.s_[320:321, 250:251]
UNDERLINE = np.s_[334:335, 122:205]


@pytest.mark.parametrize("change", [BORDER, FOCUS_RING, CARET_BOX, PIXEL, UNDERLINE])
def test_really_differing_change_beside_redrawn_line_is_marked(
    change: tuple[slice, slice],
) -> None:
    before = screen((text("Submit", "plain"), 112, 301))
    after = screen((text("Submit", "offset"), 112, 301))
    after[change] = 0x1A73E8
    assert really_differing(before, after)[change].all()
