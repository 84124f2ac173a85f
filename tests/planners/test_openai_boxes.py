"""Points and boxes as models spell them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_vnc_use.planners.common.arguments import Unreadable, pixel_of
from pytest_vnc_use.types import FrameRef

SCREEN = FrameRef("", 1440, 900)


@pytest.mark.parametrize(
    "spelled",
    [
        [500, 500],
        ["500", "500.0"],
        [400, 300, 600, 700],
        [[400, 300], [600, 700]],
        [[400.0, "300"], [600, 7e2]],
        {"x": 500, "y": "500"},
        {"x1": 400, "y1": 300, "x2": 600, "y2": 700},
        {"x": [500, 500]},
        [{"x": 400, "y": 300}, {"x": 600, "y": 700}],
        "(500,500)",
        "[[400, 300], [600, 700]]",
        "<point>500 500</point>",
        "<|box_start|>(400,300),(600,700)<|box_end|>",
    ],
)
def test_every_spelling_of_middle(spelled: Any) -> None:
    assert pixel_of(spelled, SCREEN) == (720, 450)


@pytest.mark.parametrize(
    ("spelled", "on_the_grid", "in_pixels"),
    [
        ([0, 0], (0, 0), (0, 0)),
        ([1000, 1000], (1439, 899), (1000, 899)),
        ([999, 250], (1438, 225), (999, 250)),
        ([-5, -0.1], (0, 0), (0, 0)),
        ([5000, 1e300], (1439, 899), (1439, 899)),
        ([10**400, 1], None, None),
        ([-100, 0, 100, 20], (72, 9), (50, 10)),
        ([900, 880, 2000, 2000], (1367, 845), (1169, 889)),
        (["1.5", ".5"], (2, 0), (1, 0)),
    ],
)
def test_what_lies_outside_is_moved_to_edge(spelled: Any, on_the_grid: Any, in_pixels: Any) -> None:
    for counted, expected in (((1000, 1000), on_the_grid), ((1440, 900), in_pixels)):
        if expected is None:
            with pytest.raises(Unreadable):
                pixel_of(spelled, SCREEN, counted)
        else:
            assert pixel_of(spelled, SCREEN, counted) == expected


def test_pixels_of_smaller_image_are_scaled_back() -> None:
    assert pixel_of([360, 225], SCREEN, (720, 450)) == (720, 450)
    assert pixel_of([0, 0, 719, 449], SCREEN, (720, 450)) == (719, 449)


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "here",
        "3 of 4",
        "5 " * 200,
        [],
        [1, 2, 3],
        [True, False],
        [math.inf, 1],
        {},
        {"x": 5},
        {"x": 5, "y": "here"},
        7,
    ],
)
def test_nonsense_is_told_in_one_line(nonsense: Any) -> None:
    with pytest.raises(Unreadable) as told:
        pixel_of(nonsense, SCREEN)
    assert "a point must be [x, y], or a box [x1, y1, x2, y2], in numbers, got " in str(told.value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 300
