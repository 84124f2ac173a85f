"""The point or way of a step is seen on its screenshot, on every ground, and nothing else of it is touched."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image, ImageChops

from pytest_vnc_use.report.annotate import action_path, mark_action
from pytest_vnc_use.types import (
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

MARK = (230, 0, 126)
SIZE = (400, 300)


def image_of(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def touched(before: bytes, after: bytes) -> tuple[int, int, int, int] | None:
    """The rectangle in which two screenshots differ."""
    return ImageChops.difference(image_of(before), image_of(after)).getbbox()


@pytest.mark.parametrize(
    "action",
    [
        Click(200, 150),
        Click(200, 150, "right", 3),
        MouseDown(200, 150),
        MouseUp(200, 150),
        Move(200, 150),
        TypeText("x", 200, 150),
        Scroll(200, 150, "down"),
        Drag(200, 150, 230, 150),
    ],
    ids=lambda action: action.kind,
)
def test_point_is_marked_and_far_away_is_not(paint, action):
    png = paint("white", SIZE).png
    marked = mark_action(png, action)
    assert image_of(marked).size == SIZE
    assert image_of(marked).getpixel((200, 150)) == MARK
    left, top, right, bottom = touched(png, marked)
    assert left > 100
    assert top > 50
    assert right < 300
    assert bottom < 250


@pytest.mark.parametrize("ground", ["white", "black", "#808080", "#e6007e", "#1f6fb2"])
def test_mark_shows_on_every_ground(paint, ground):
    png = paint(ground, SIZE).png
    left, top, right, bottom = touched(png, mark_action(png, Click(200, 150)))
    assert right - left > 40
    assert bottom - top > 40


@pytest.mark.parametrize(
    "action",
    [
        TypeText("x"),
        KeyCombo(("ctrl", "a")),
        KeyDown("a"),
        KeyUp("a"),
        OpenAddress("example.org"),
        TraverseHistory("back"),
        Wait(),
        TakeScreenshot(),
        CallFunction("order_count", {}),
        InvalidAction("bash", "no hand can do it"),
    ],
    ids=lambda action: action.kind,
)
def test_action_without_point_leaves_frame_as_it_was(paint, action):
    png = paint("white", SIZE).png
    assert mark_action(png, action) == png


def test_drag_is_arrow_from_its_start_to_its_end(paint):
    png = paint("white", SIZE).png
    there, back = mark_action(png, Drag(60, 60, 340, 240)), mark_action(png, Drag(340, 240, 60, 60))
    for point in [(60, 60), (200, 150), (340, 240)]:
        assert image_of(there).getpixel(point) == MARK
    ring_above_start = (60, 40)
    assert image_of(there).getpixel(ring_above_start) == MARK
    assert image_of(back).getpixel(ring_above_start) == (255, 255, 255)


@pytest.mark.parametrize(
    ("direction", "ahead", "behind"),
    [
        ("up", (200, 100), (200, 200)),
        ("down", (200, 200), (200, 100)),
        ("left", (150, 150), (250, 150)),
        ("right", (250, 150), (150, 150)),
    ],
)
def test_scroll_points_its_way(paint, direction, ahead, behind):
    image = image_of(mark_action(paint("white", SIZE).png, Scroll(200, 150, direction)))
    assert image.getpixel(ahead) == MARK
    assert image.getpixel(behind) == (255, 255, 255)


@pytest.mark.parametrize(("x", "y", "edge"), [(10**12, 150, (399, 150)), (-7, -(10**12), (0, 0))])
def test_point_off_frame_is_drawn_at_its_edge(paint, x, y, edge):
    assert image_of(mark_action(paint("white", SIZE).png, Click(x, y))).getpixel(edge) == MARK


def test_marks_grow_with_frame(paint):
    small, large = paint("white", (1440, 900)).png, paint("white", (2880, 1800)).png
    left, _, right, _ = touched(small, mark_action(small, Click(700, 450)))
    wide_left, _, wide_right, _ = touched(large, mark_action(large, Click(1400, 900)))
    assert wide_right - wide_left == pytest.approx(2 * (right - left), abs=4)


def test_as_svg_click_is_ring_four_lines_and_middle_of_its_pixel():
    path = action_path(Click(200, 150), SIZE)
    ring = "M180.5 150.5a20 20 0 1 0 40 0a20 20 0 1 0 -40 0"
    lines = "M212.5 150.5L230.5 150.5M200.5 162.5L200.5 180.5M188.5 150.5L170.5 150.5M200.5 138.5L200.5 120.5"
    assert path == f"{ring}{lines}M200.5 150.5h0"


def test_as_svg_drag_is_ring_and_arrow():
    path = action_path(Drag(60, 60, 340, 240), SIZE)
    assert path.startswith("M40.5 60.5a20 20 0 1 0 40 0a20 20 0 1 0 -40 0M60.5 60.5L340.5 240.5M")
    assert path.count("L340.5 240.5") == 2, "the line, and the head's middle"


def test_as_svg_action_without_point_is_nothing():
    assert action_path(KeyCombo(("ctrl", "a")), SIZE) == ""
