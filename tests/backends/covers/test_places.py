"""What is around a field, by which it is known again."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.backends.covers.places import CoveredPlace, sides_of
from pytest_vnc_use.types import Region

FIELD, LIGHT, TITLE = Region(60, 40, 160, 60), np.s_[44:56, 170:190], np.s_[10:20, 60:100]


@pytest.mark.parametrize(("blinks", "is_covered"), [(True, True), (False, False)])
def test_a_light_that_blinks_does_not_tell_a_field(*, blinks: bool, is_covered: bool) -> None:
    screen = np.full((100, 240), 0xFFFFFF, np.uint32)
    moved = np.zeros(screen.shape, np.bool_)
    moved[LIGHT] = blinks
    without = screen.copy()
    screen[LIGHT] = 0x008000
    place = CoveredPlace(FIELD, screen.shape, sides_of(FIELD, screen, moved), b"key")
    assert place.is_covered(screen)
    assert place.is_covered(without) == is_covered


def test_what_stays_tells_a_field_also_beside_a_light() -> None:
    screen = np.full((100, 240), 0xFFFFFF, np.uint32)
    moved = np.zeros(screen.shape, np.bool_)
    moved[LIGHT] = True
    screen[LIGHT] = screen[TITLE] = 0x008000
    place = CoveredPlace(FIELD, screen.shape, sides_of(FIELD, screen, moved), b"key")
    screen[LIGHT] = 0xFFFFFF
    assert place.is_covered(screen)
    screen[TITLE] = 0xFFFFFF
    assert not place.is_covered(screen)
