"""The size in which a screen is sent: examples from the documentation of Claude's vision, and points back again."""

from __future__ import annotations

import math

import pytest

from pytest_vnc_use.planners.anthropic.planner import LARGER, SMALLER
from pytest_vnc_use.planners.common.screens import ImageLimit, SentScreen
from pytest_vnc_use.types import FrameRef


@pytest.mark.parametrize(
    ("limit", "size", "sent"),
    [
        (SMALLER, (1075, 1520), (924, 1307)),
        (SMALLER, (3840, 2160), (1456, 819)),
        (LARGER, (3840, 2160), (2576, 1449)),
        (LARGER, (1440, 900), (1440, 900)),
        (SMALLER, (1024, 768), (1024, 768)),
        (SMALLER, (10_000, 10), (1568, 2)),
        (SMALLER, (1, 10_000), (1, 1568)),
    ],
)
def test_documented_sizes(limit: ImageLimit, size: tuple[int, int], sent: tuple[int, int]) -> None:
    assert limit.fitted(*size) == sent


@pytest.mark.parametrize("size", [(1366, 768), (1920, 1080), (1080, 1920), (5120, 1440), (3001, 2999)])
def test_every_pixel_sent_is_one_of_screen(size: tuple[int, int]) -> None:
    sent = SentScreen.within(SMALLER, FrameRef("", *size))
    assert math.ceil(sent.width / 28) * math.ceil(sent.height / 28) <= 1568
    assert max(sent.width, sent.height) <= 1568
    columns = [sent.point(x, 0)[0] for x in range(sent.width)]
    assert columns == sorted(set(columns))
    assert sent.point(sent.width - 1, sent.height - 1) <= (size[0] - 1, size[1] - 1)
    middle = sent.point(sent.width / 2, sent.height / 2)
    assert abs(middle[0] - size[0] / 2) <= size[0] / sent.width
