"""A caret is what goes and comes again; a character that is replaced late is none."""

from __future__ import annotations

import numpy as np

from pytest_vnc_use.backends.covers.carets import CaretWatch
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import Region

FIELD = Region(5, 5, 95, 35)


def screen(*, caret: bool = False, width: int = 1, letter: int = 0) -> Pixels:
    pixels = np.full((40, 100), 0xFFFFFF, np.uint32)
    pixels[10:30, 50 : 50 + width] = 0 if caret else 0xFFFFFF
    pixels[12:28:3, 38:46] = 0
    pixels[12 + letter : 28 : 4, 40:44] = 0x202020
    return pixels


def watched(*screens: Pixels) -> CaretWatch:
    watch = CaretWatch([FIELD])
    for each in screens:
        watch.look(each)
    return watch


def test_what_goes_and_comes_again_is_a_caret_and_is_taken_away() -> None:
    for width in (1, 9):
        shown, gone = screen(caret=True, width=width), screen(width=width)
        caret = watched(shown, gone, shown).caret
        assert caret
        assert caret.region == Region(50, 10, 50 + width, 30)
        caret.remove_from(shown)
        assert np.array_equal(shown, gone)


def test_what_comes_once_is_none() -> None:
    assert watched(screen(), screen(caret=True)).caret is None
    assert watched(screen(), screen(letter=1), screen(letter=1)).caret is None


def test_a_letter_that_changes_and_changes_back_is_none() -> None:
    assert watched(screen(), screen(letter=1), screen(), screen(letter=1)).caret is None


def test_another_letter_in_the_place_of_a_caret_stays() -> None:
    caret = watched(screen(caret=True), screen(), screen(caret=True)).caret
    assert caret
    other = screen()
    other[10:20, 50] = 0x123456
    kept = other.copy()
    caret.remove_from(other)
    assert np.array_equal(other, kept)
