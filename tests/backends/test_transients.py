"""What comes and goes between two looks is kept, and what moves on its own is not."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from pytest_vnc_use.backends.pixels import Area, Rectangle
from pytest_vnc_use.backends.screen import (
    MOST_A_TILE,
    MOST_FRAMES,
    SHOWN_S,
    TILE_PX,
    Capture,
    Framebuffer,
    TransientFrames,
    regions,
)
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.types import Frame, Region
from support.images import decoded
from support.vnc_servers import VncServer
from support.witness_programs import xterm

Connect = Callable[..., VNCController]
ROWS, COLUMNS = 4, 20


class Screen:
    """A screen of 4 x 20 tiles, on which tiles are painted at given times."""

    def __init__(self) -> None:
        self.passed = TransientFrames()
        self.pixels = np.zeros((ROWS * TILE_PX, COLUMNS * TILE_PX), np.uint32)
        self.last_s = np.zeros((ROWS, COLUMNS))
        self.moving = np.zeros((ROWS, COLUMNS), np.bool_)

    def look(self, now_s: float) -> None:
        self.passed.look(Capture(self.pixels.copy(), now_s, self.last_s > 0, self.moving))

    def paint(self, now_s: float, colour: int, *tiles: tuple[int, int], size_px: int = TILE_PX) -> None:
        drawn = np.zeros((ROWS, COLUMNS), np.bool_)
        for row, column in tiles:
            drawn[row, column] = True
        self.passed.draw_over(drawn, self.pixels, self.last_s, self.moving, now_s)
        for row, column in tiles:
            top, left = row * TILE_PX, column * TILE_PX
            self.pixels[top : top + size_px, left : left + size_px] = colour
        self.last_s[drawn] = now_s

    def colours_passed(self, *tile: int) -> list[int]:
        row, column = tile
        return [int(seen.pixels[row * TILE_PX, column * TILE_PX]) for seen in self.passed.take()]


@pytest.fixture
def screen() -> Screen:
    screen = Screen()
    screen.look(10.0)
    return screen


def test_toast_is_kept_and_told_once(screen: Screen) -> None:
    screen.paint(10.1, 7, (0, 18), (0, 19))
    screen.paint(10.4, 0, (0, 18), (0, 19))
    (toast,) = screen.passed.take()
    assert toast.taken_at == 10.4
    assert (toast.pixels[:TILE_PX, 18 * TILE_PX :] == 7).all()
    assert np.count_nonzero(toast.pixels) == 2 * TILE_PX**2
    assert not list(screen.passed.take())


def test_what_is_still_there_has_not_passed(screen: Screen) -> None:
    screen.paint(10.1, 7, (0, 0))
    screen.paint(10.9, 8, (2, 2))
    assert screen.colours_passed(0, 0) == []


def test_toast_beside_what_changes_all_time_is_kept(screen: Screen) -> None:
    screen.paint(10.1, 7, (0, 19))
    for tick in range(12):
        screen.paint(10.1 + tick * 0.03, tick, (2, 2), (2, 3))
    screen.paint(10.46, 0, (0, 19))
    assert screen.colours_passed(0, 19) == [7]


ALL = tuple((row, column) for row in range(ROWS) for column in range(COLUMNS))
NEVER_KEPT: dict[str, tuple[bool, int, float, int, tuple[tuple[int, int], ...]]] = {
    "an animation": (False, 200, 0.1, TILE_PX, ALL),
    "what is known to move": (True, 10, 1.0, TILE_PX, ((1, 1),)),
    "a blinking caret": (False, 10, 0.5, 11, ((1, 1),)),
}
"""Whether it is known to move, and its changes: their number, their interval, their size, their tiles."""


@pytest.mark.parametrize("name", NEVER_KEPT)
def test_moving_region_is_not_kept(screen: Screen, name: str) -> None:
    screen.moving[1, 1], count, interval_s, size_px, tiles = NEVER_KEPT[name]
    for tick in range(count):
        screen.paint(10.5 + tick * interval_s, tick % 2 or 3, *tiles, size_px=size_px)
    assert not list(screen.passed.take())


def test_clock_is_kept_few_times_only(screen: Screen) -> None:
    for tick in range(30):
        screen.paint(11.0 + tick, tick + 1, (1, 1))
    assert screen.colours_passed(1, 1) == [1, 2, 3][:MOST_A_TILE]


def test_newest_are_kept(screen: Screen) -> None:
    for tick in range(COLUMNS):
        screen.paint(11.0 + tick, tick + 1, (0, tick))
        screen.paint(11.5 + tick, 0, (0, tick))
    kept = screen.passed.take()
    assert [int(seen.pixels.max()) for seen in kept] == list(range(COLUMNS + 1 - MOST_FRAMES, COLUMNS + 1))


def test_look_keeps_transients_before_and_during_it(screen: Screen) -> None:
    """A replay looks when a glance was as recorded; by then a toast may be there, and the look counts for nothing."""
    screen.paint(10.1, 7, (0, 0))
    screen.paint(10.6, 0, (0, 0))
    screen.paint(10.9, 9, (3, 3))
    screen.look(11.0)
    screen.paint(11.4, 0, (3, 3))
    first, second = screen.passed.take()
    assert (first.pixels[0, 0], first.pixels[-1, 0]) == (7, 0)
    assert (second.pixels[0, 0], second.pixels[3 * TILE_PX, 3 * TILE_PX]) == (0, 9)


def test_regions_cover_tiles_within_screen() -> None:
    tiles = np.zeros((3, 4), np.bool_)
    tiles[0, :2] = tiles[1, :2] = tiles[1, 3] = tiles[2, 3] = True
    assert list(regions(tiles, 120, 90)) == [Region(0, 0, 64, 64), Region(96, 32, 120, 90)]
    assert list(regions(np.ones((3, 4), np.bool_), 120, 90)) == [Region(0, 0, 120, 90)]
    assert list(regions(np.zeros((3, 4), np.bool_), 120, 90)) == []


def sent(x: int, y: int, width: int, height: int, colour: int) -> Rectangle:
    return Rectangle(Area(x, y, width, height), np.full((height, width), colour, np.uint32))


def test_resize_keeps_transients_of_both_sizes() -> None:
    framebuffer = Framebuffer()
    framebuffer.resize(64, 64)
    framebuffer.apply([sent(0, 0, 64, 64, 1)])
    framebuffer.last_capture()
    framebuffer.apply([sent(0, 0, 32, 32, 2)])
    time.sleep(SHOWN_S)
    framebuffer.resize(128, 96)
    framebuffer.apply([sent(0, 0, 128, 96, 3)])
    time.sleep(SHOWN_S)
    framebuffer.apply([sent(0, 0, 40, 40, 4)])
    small, large = framebuffer.transients()
    assert (small.pixels[0, 0], small.pixels[-1, -1], small.pixels.shape) == (2, 1, (64, 64))
    assert (large.pixels == 3).all()
    assert large.pixels.shape == (96, 128)


TOAST = r"printf '\033[?25l'; stty -echo; while read line; do printf 'SAVED SAVED'; sleep %s; printf '\r\033[K'; done"
SPINNER = r"printf '\033[?25l'; while true; do for c in / - '\' '|'; do printf '\r%s' $c; sleep 0.03; done; done"


def differ(one: Frame, other: Frame) -> npt.NDArray[np.bool_]:
    return (decoded(one) != decoded(other)).any(axis=2)


def passing_toast(hands: VNCController) -> tuple[Frame, Frame, Frame]:
    """The frames before, between and after, of a press of Enter that shows a toast."""
    hands.click(100, 100)
    hands.settle()
    before = hands.frame()
    hands.transient_frames()
    hands.key_combo("enter")
    assert hands.wait_changed(before.taken_at, 10)
    came_s = hands.screen.changed_at
    assert hands.wait_changed(came_s, 10)
    after = hands.frame()
    (toast,) = hands.transient_frames()
    return before, toast, after


def test_toast_in_terminal(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, TOAST % 0.4):
        before, toast, after = passing_toast(connected(tigervnc))
    assert before == after
    assert differ(toast, before)[:40, :200].any()
    assert before.taken_at < toast.taken_at < after.taken_at
    assert all(
        differ(toast, before)[region.top : region.bottom, region.left : region.right].any() for region in toast.changed
    )


def test_toast_beside_spinner(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, SPINNER, "spinner", "20x4+600+500"), xterm(tigervnc, TOAST % 0.4):
        hands = connected(tigervnc)
        hands.move(100, 100)
        hands.settle()
        before, toast, after = passing_toast(hands)
    assert differ(toast, before)[:40, :200].any()
    assert not differ(before, after)[:40, :200].any()
    (spinner,) = after.moving
    assert spinner.left >= 576
    assert spinner.top >= 480
