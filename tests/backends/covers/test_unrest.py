"""What moved by itself before a secret was typed shows nothing of it; what moved once may have made room for it."""

from __future__ import annotations

import numpy as np

from pytest_vnc_use.backends.covers.unrest import Unrest
from pytest_vnc_use.recordings.images import Pixels


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


def field(frame: int, caret: int, text: int = 0xFFFFFF) -> Pixels:
    """Return a screen with the frame of a field, the caret in it and a text of one colour."""
    pixels = np.full((100, 200), 0xFFFFFF, np.uint32)
    pixels[40:60, 20:180] = frame
    pixels[42:58, 22:178] = 0xFFFFFF
    pixels[45:55, 40:90] = text
    pixels[45:55, 30:32] = caret
    return pixels


def test_a_frame_that_is_drawn_once_around_a_caret_does_not_move_by_itself() -> None:
    for frames in ((0, 7, 7, 7, 7, 7), (0, 0, 7, 7, 7, 7)):
        unrest = Unrest(field(0, 0xFFFFFF), 1.0)
        for number, frame in enumerate(frames):
            unrest.look(field(frame, 0 if number % 2 else 0xFFFFFF), number * 0.5)
        assert unrest.is_known
        typed = field(7, 0, text=3)
        assert not unrest.left_out(typed)[45:55, 40:90].any(), "a secret typed into the field is not learnt"
        assert not unrest.moved(typed.shape)[45:55, 40:90].any(), "the plain space of the field ends there"
        assert unrest.moved(typed.shape)[50, 31]
