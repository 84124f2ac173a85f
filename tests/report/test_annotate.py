"""The point or path of a step is seen on its screenshot, on every ground, and nothing else of it is touched."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image, ImageChops

from pytest_vnc_use.report.annotate import action_path, mark_action
from pytest_vnc_use.types import Action, Click, Drag, KeyCombo, MouseDown, Move, Scroll, TypeText, Wait

MARK = (230, 0, 126)
SIZE = (400, 300)


def image_of(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def touched(before: bytes, after: bytes) -> tuple[int, int, int, int]:
    """The rectangle in which two screenshots differ."""
    return ImageChops.difference(image_of(before), image_of(after)).getbbox() or (0, 0, 0, 0)


@pytest.mark.parametrize("ground", ["white", "black", "#e6007e"])
def test_mark_action_marks_point_on_every_ground(paint, ground) -> None:
    png = paint(ground, SIZE).png
    for action in (
        Click(200, 150, "right", 3),
        MouseDown(200, 150),
        Move(200, 150),
        TypeText("x", 200, 150),
        Scroll(200, 150, "down"),
        Drag(200, 150, 230, 150),
    ):
        marked = mark_action(png, action)
        assert image_of(marked).size == SIZE
        assert image_of(marked).getpixel((200, 150)) == MARK
        left, top, right, bottom = touched(png, marked)
        assert 100 < left < right - 40 < 260
        assert 50 < top < bottom - 40 < 210


def test_mark_action_follows_kind_and_place_of_action(paint) -> None:
    png = paint("white", SIZE).png

    def colours(action: Action, *points: tuple[int, int]) -> list[bool]:
        return [image_of(mark_action(png, action)).getpixel(point) == MARK for point in points]

    for action in (TypeText("x"), KeyCombo(("ctrl", "a")), Wait()):
        assert (mark_action(png, action), action_path(action, SIZE)) == (png, "")
    assert colours(Drag(60, 60, 340, 240), (60, 60), (200, 150), (340, 240), (60, 40)) == [True] * 4
    assert colours(Drag(340, 240, 60, 60), (60, 40)) == [False], "the ring is at the start"
    above, below, left, right = (200, 100), (200, 200), (150, 150), (250, 150)
    for direction, ahead, behind in (
        ("up", above, below),
        ("down", below, above),
        ("left", left, right),
        ("right", right, left),
    ):
        assert colours(Scroll(200, 150, direction), ahead, behind) == [True, False], direction
    assert colours(Click(10**12, 150), (399, 150)) == [True], "at the edge of the frame"
    assert colours(Click(-7, -(10**12)), (0, 0)) == [True]


def test_mark_grows_with_frame(paint) -> None:
    small, large = paint("white", (1440, 900)).png, paint("white", (2880, 1800)).png
    left, _, right, _ = touched(small, mark_action(small, Click(700, 450)))
    wide_left, _, wide_right, _ = touched(large, mark_action(large, Click(1400, 900)))
    assert wide_right - wide_left == pytest.approx(2 * (right - left), abs=4)


def test_action_path_is_drawn_like_mark() -> None:
    ring = "M180.5 150.5a20 20 0 1 0 40 0a20 20 0 1 0 -40 0"
    lines = "M212.5 150.5L230.5 150.5M200.5 162.5L200.5 180.5M188.5 150.5L170.5 150.5M200.5 138.5L200.5 120.5"
    assert action_path(Click(200, 150), SIZE) == f"{ring}{lines}M200.5 150.5h0"
    path = action_path(Drag(60, 60, 340, 240), SIZE)
    assert path.startswith("M40.5 60.5a20 20 0 1 0 40 0a20 20 0 1 0 -40 0M60.5 60.5L340.5 240.5M")
    assert path.count("L340.5 240.5") == 2, "the line, and the head's middle"
