"""A line of text that is only rasterised another way is no difference; one that says something else is.

`rasterised.webp` holds texts as Chromium drew them in Liberation Sans, a row for each of `TEXTS`, a column for each of
`WAYS`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.gates import evidence_gate
from pytest_vnc_use.recordings.images import Pixels, differing, pixels_of
from pytest_vnc_use.recordings.same_text import really_differing

SHEET = pixels_of(Path(__file__).with_name("rasterised.webp").read_bytes())
CELL = (40, 160)
TEXTS = (
    *("Submit", "Submlt", "OK", "0K", "Search", "Seanch", "Total 3.75", "Total 8.75", "Total 3,75", "-12.40", "12.40"),
    *("From: Ann", "From; Ann", "3", "8"),
)
WAYS = ("hinted", "plain", "offset", "hinted LCD", "plain LCD", "small hinted", "small plain")
"""All 27 pixels high but the small ones, which are 13; at an offset of a quarter of a pixel."""
REDRAWN = (("hinted", "plain"), ("plain", "hinted"), ("plain", "offset"), ("hinted LCD", "plain LCD"))
CHANGED = (
    *(("Submit", "Submlt"), ("OK", "0K"), ("Search", "Seanch"), ("Total 3.75", "Total 8.75")),
    *(("Total 3.75", "Total 3,75"), ("-12.40", "12.40"), ("From: Ann", "From; Ann")),
)
BUTTON = np.uint32(0xEFEFEF)


def text(words: str, way: str) -> Pixels:
    """Return the cell with these words, which has a white margin."""
    (height, width), row, column = CELL, TEXTS.index(words), WAYS.index(way)
    cell: Pixels = SHEET[row * height : (row + 1) * height, column * width : (column + 1) * width]
    return cell


def screen(*placed: tuple[Pixels, int, int]) -> Pixels:
    """Return a screen with a button and these cells, each at its left and top."""
    pixels = np.full((480, 640), 0xFFFFFF, np.uint32)
    pixels[300:342, 100:300], pixels[302:340, 102:298] = 0x767676, BUTTON
    for cell, left, top in placed:
        pixels[top : top + cell.shape[0], left : left + cell.shape[1]] &= cell
    return pixels


@pytest.mark.parametrize(
    ("words", "recorded", "now"),
    [("Submit", *REDRAWN[0]), ("Search", *REDRAWN[1]), ("Total 3.75", *REDRAWN[2]), ("-12.40", *REDRAWN[3])],
)
def test_really_differing_redrawn_line_marks_nothing(words: str, recorded: str, now: str) -> None:
    before, after = (screen((text(words, way), 112, 301), (text("OK", way), 20, 20)) for way in (recorded, now))
    assert np.count_nonzero(differing(before, after)) > 100
    assert not really_differing(before, after).any()
    assert evidence_gate(Screen(pixels=lambda: before)).mismatch(after) is None


@pytest.mark.parametrize(("recorded", "now"), [*REDRAWN, ("plain", "plain"), ("small plain", "small plain")])
def test_really_differing_changed_line_is_marked(recorded: str, now: str) -> None:
    for words, others in CHANGED:
        before, after = screen((text(words, recorded), 112, 301)), screen((text(others, now), 112, 301))
        assert (really_differing(before, after) == differing(before, after)).all(), words


def test_really_differing_other_drawing_is_marked() -> None:
    """A single character, a line moved by a whole pixel, and one in another colour."""
    before, after = screen((text("Search", "plain"), 20, 20)), screen((text("Search", "hinted"), 20, 20))
    for left, top in ((21, 20), (20, 21), (19, 19)):
        assert really_differing(before, screen((text("Search", "plain"), left, top))).any()
    for colour in (0x101010, 0x300000, 0x808080):
        assert really_differing(before, after | np.uint32(colour)).any()
    for words in ("3", "8"):
        assert really_differing(screen((text(words, "plain"), 20, 20)), screen((text(words, "hinted"), 20, 20))).any()


def test_really_differing_redrawn_word_beside_equal_word_is_marked() -> None:
    """The second word would be drawn again too if the whole line were."""
    total = text("Total 3.75", "plain").copy()
    total[:, 70:] = text("Total 3.75", "hinted")[:, 70:]
    before, after = screen((text("Total 3.75", "plain"), 20, 20)), screen((total, 20, 20))
    assert differing(before, after).any()
    assert (really_differing(before, after) == differing(before, after)).all()


def test_really_differing_bars_grown_by_one_pixel_are_marked() -> None:
    before, after = screen(), screen()
    for number, height in enumerate((20, 14, 26, 30, 18)):
        columns = np.s_[50 + 14 * number : 58 + 14 * number]
        before[100 - height : 100, columns] = after[99 - height : 100, columns] = 0
    assert (really_differing(before, after) == differing(before, after)).all()


BORDER, FOCUS_RING, CARET = np.s_[300:342, 100:102], np.s_[298:300, 98:302], np.s_[308:334, 210:212]
PIXEL, UNDERLINE = np.s_[320:321, 250:251], np.s_[334:335, 122:205]


@pytest.mark.parametrize("change", [BORDER, FOCUS_RING, CARET, PIXEL, UNDERLINE])
def test_really_differing_change_beside_redrawn_line_is_marked(change: tuple[slice, slice]) -> None:
    before, after = (screen((text("Submit", way), 112, 301)) for way in ("plain", "hinted"))
    after[change] = 0x1A73E8
    assert really_differing(before, after)[change].all()
