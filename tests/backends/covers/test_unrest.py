"""What moved by itself before a secret was typed shows nothing of it; what moved once may have made room for it."""

from __future__ import annotations

import numpy as np

from pytest_vnc_use.backends.covers.unrest import Unrest
from pytest_vnc_use.recordings.pictures import Pixels


def screen(look: int) -> Pixels:
    pixels = np.full((100, 200), 0xFFFFFF, np.uint32)
    if look:
        pixels[40:60, 100:160] = look
    return pixels


def watched(*looks: int) -> Unrest:
    unrest = Unrest(screen(looks[0]), 1.0)
    for number, look in enumerate(looks[1:], 1):
        unrest.look(screen(look), number * 0.5)
    return unrest


def test_what_blinks_is_left_out_in_each_of_its_looks_and_in_no_other() -> None:
    unrest = watched(0, 7, 0, 7)
    assert unrest.is_known
    assert unrest.left_out(screen(7))[40:60, 100:160].all()
    assert unrest.left_out(screen(0))[40:60, 100:160].all()
    assert not unrest.left_out(screen(9)).any()
    assert unrest.moved((100, 200))[50, 120]


def test_what_has_no_end_of_looks_is_left_out_in_any() -> None:
    assert watched(1, 2, 3, 4, 5).left_out(screen(99))[50, 120]


def test_what_moved_once_is_not_known() -> None:
    unrest = watched(0, 7)
    assert not unrest.is_known
    assert not unrest.left_out(screen(9)).any()
    assert not unrest.moved((100, 200)).any()


def test_what_moved_fast_and_stopped_is_not_left_out() -> None:
    unrest = Unrest(screen(1), 1.0)
    for look in range(2, 8):
        unrest.look(screen(look), look * 0.02)
    assert not unrest.left_out(screen(99)).any()
