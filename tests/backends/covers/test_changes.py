"""The plain space around a text is its field, whatever moves there by itself."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.backends.covers.changes import appeared, field_around
from pytest_vnc_use.types import Region
from support.painted_form import word

WHITE, BLACK, GREEN = 0xFFFFFF, 0x000000, 0x008000
TEXT, FRAMED = Region(70, 46, 100, 54), Region(61, 41, 159, 59)


def framed_text() -> tuple[np.ndarray, np.ndarray]:
    screen = np.full((100, 240), WHITE, np.uint32)
    screen[40:60, 60:160] = BLACK
    screen[41:59, 61:159] = WHITE
    screen[46:54:2, 70:100:2] = BLACK
    return screen, np.zeros(screen.shape, np.bool_)


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_caret_right_beside_the_text_is_in_its_field(*, is_shown: bool) -> None:
    screen, moved = framed_text()
    moved[44:56, 102] = True
    screen[44:56, 102] = BLACK if is_shown else WHITE
    assert field_around(TEXT, screen, WHITE, moved) == FRAMED


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_field_ends_at_a_light_that_blinks_further_away(*, is_shown: bool) -> None:
    screen, moved = framed_text()
    light = np.s_[44:56, 120:130]
    moved[light] = True
    screen[light] = GREEN if is_shown else WHITE
    assert field_around(TEXT, screen, WHITE, moved) == Region(61, 41, 120, 59)


def test_other_digits_in_the_place_of_selected_ones_are_no_other_colour() -> None:
    selected, typed, disabled = np.full((3, 40, 120), WHITE, np.uint32)
    selected[5:35, 5:115] = GREEN
    for screen, text, ink in ((selected, "888888", WHITE), (typed, "330568", BLACK), (disabled, "330568", GREEN)):
        marks = word(text) != WHITE
        screen[10 : 10 + marks.shape[0], 10 : 10 + marks.shape[1]][marks] = ink
    nothing = np.zeros(typed.shape, np.bool_)
    assert [*appeared(selected, typed, nothing, nothing)]
    assert not [*appeared(disabled, typed, nothing, nothing)]
