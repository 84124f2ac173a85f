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
        marked = image_of(mark_action(png, action))
        assert (marked.size, marked.getpixel((200, 150))) == (SIZE, MARK)
        left, top, right, bottom = ImageChops.difference(image_of(png), marked).getbbox() or (0, 0, 0, 0)
        assert (100 < left < right - 40 < 260, 50 < top < bottom - 40 < 210) == (True, True)


def test_mark_action_follows_kind_and_place_of_action(paint) -> None:
    png = paint("white", SIZE).png

    def colours(action: Action, *points: tuple[int, int]) -> list[bool]:
        return [image_of(mark_action(png, action)).getpixel(point) == MARK for point in points]

    for action in (TypeText("x"), KeyCombo(("ctrl", "a")), Wait()):
        assert (mark_action(png, action), action_path(action, SIZE)) == (png, "")
    assert colours(Drag(60, 60, 340, 240), (60, 60), (200, 150), (340, 240), (60, 40)) == [True] * 4
    assert colours(Drag(340, 240, 60, 60), (60, 40)) == [False], "the ring is at the start"
    above, below, left, right = (200, 100), (200, 200), (150, 150), (250, 150)
    for direction, ahead, behind in (("up", above, below), ("left", left, right), ("right", right, left)):
        assert colours(Scroll(200, 150, direction), ahead, behind) == [True, False], direction
    assert colours(Click(10**12, 150), (399, 150)) == [True], "at the edge of the frame"
    assert colours(Click(-7, -(10**12)), (0, 0)) == [True]
