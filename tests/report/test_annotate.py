"""The point or path of a step is seen on its screenshot, on every ground, and nothing else of it is touched."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image, ImageChops

from pytest_vnc_use.report.annotate import action_path, mark_action
from pytest_vnc_use.types import Click, Drag, KeyCombo, MouseDown, Move, Scroll, TypeText, Wait

MARK = (230, 0, 126)
SIZE = (400, 300)


def image_of(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def touched(before: bytes, after: bytes) -> tuple[int, int, int, int]:
    """The rectangle in which two screenshots differ."""
    return ImageChops.difference(image_of(before), image_of(after)).getbbox() or (0, 0, 0, 0)


@pytest.mark.parametrize("ground", ["white", "black", "#808080", "#e6007e", "#1f6fb2"])
@pytest.mark.parametrize(
    "action",
    [
        Click(200, 150, "right", 3),
        MouseDown(200, 150),
        Move(200, 150),
        TypeText("x", 200, 150),
        Scroll(200, 150, "down"),
        Drag(200, 150, 230, 150),
    ],
    ids=lambda action: getattr(action, "kind", action),
)
def test_mark_action_marks_point_on_every_ground(paint, action, ground) -> None:
    png = paint(ground, SIZE).png
    marked = mark_action(png, action)
    assert image_of(marked).size == SIZE
    assert image_of(marked).getpixel((200, 150)) == MARK
    left, top, right, bottom = touched(png, marked)
    assert 100 < left < right - 40 < 260
    assert 50 < top < bottom - 40 < 210


@pytest.mark.parametrize("action", [TypeText("x"), KeyCombo(("ctrl", "a")), Wait()], ids=lambda action: action.kind)
def test_mark_action_without_point_changes_nothing(paint, action) -> None:
    png = paint("white", SIZE).png
    assert mark_action(png, action) == png
    assert action_path(action, SIZE) == ""


def test_mark_action_drag_has_ring_at_start(paint) -> None:
    png = paint("white", SIZE).png
    forth, back = mark_action(png, Drag(60, 60, 340, 240)), mark_action(png, Drag(340, 240, 60, 60))
    assert [image_of(forth).getpixel(point) for point in [(60, 60), (200, 150), (340, 240), (60, 40)]] == [MARK] * 4
    assert image_of(back).getpixel((60, 40)) == (255, 255, 255)
    path = action_path(Drag(60, 60, 340, 240), SIZE)
    assert path.startswith("M40.5 60.5a20 20 0 1 0 40 0a20 20 0 1 0 -40 0M60.5 60.5L340.5 240.5M")
    assert path.count("L340.5 240.5") == 2, "the line, and the head's middle"


@pytest.mark.parametrize(
    ("direction", "ahead", "behind"),
    [
        ("up", (200, 100), (200, 200)),
        ("down", (200, 200), (200, 100)),
        ("left", (150, 150), (250, 150)),
        ("right", (250, 150), (150, 150)),
    ],
)
def test_mark_action_scroll_points_ahead(paint, direction, ahead, behind) -> None:
    image = image_of(mark_action(paint("white", SIZE).png, Scroll(200, 150, direction)))
    assert (image.getpixel(ahead), image.getpixel(behind)) == (MARK, (255, 255, 255))


@pytest.mark.parametrize(("x", "y", "edge"), [(10**12, 150, (399, 150)), (-7, -(10**12), (0, 0))])
def test_mark_action_point_off_frame_is_at_edge(paint, x, y, edge) -> None:
    assert image_of(mark_action(paint("white", SIZE).png, Click(x, y))).getpixel(edge) == MARK


def test_mark_grows_with_frame(paint) -> None:
    small, large = paint("white", (1440, 900)).png, paint("white", (2880, 1800)).png
    left, _, right, _ = touched(small, mark_action(small, Click(700, 450)))
    wide_left, _, wide_right, _ = touched(large, mark_action(large, Click(1400, 900)))
    assert wide_right - wide_left == pytest.approx(2 * (right - left), abs=4)


def test_action_path_of_click_is_ring_and_cross() -> None:
    ring = "M180.5 150.5a20 20 0 1 0 40 0a20 20 0 1 0 -40 0"
    lines = "M212.5 150.5L230.5 150.5M200.5 162.5L200.5 180.5M188.5 150.5L170.5 150.5M200.5 138.5L200.5 120.5"
    assert action_path(Click(200, 150), SIZE) == f"{ring}{lines}M200.5 150.5h0"
