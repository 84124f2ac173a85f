"""Whether two runs did the same step: places may differ by a little, how often and how far may not."""

from __future__ import annotations

import pytest

from pytest_vnc_use.report.reliability import NEAR_PX, same_step
from pytest_vnc_use.types import Action, Click, Drag, FrameRef, Proposal, Ruling, Scroll, Step, TypeText, Wait

FRAME = FrameRef("0" * 64, 800, 600)


def step(action: Action) -> Step:
    return Step(1, 1, Proposal(action), Ruling("allow", "", ""), FRAME, FRAME)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Click(10, 10), Click(10 + NEAR_PX, 10 - NEAR_PX), True),
        (Click(10, 10), Click(11 + NEAR_PX, 10), False),
        (Click(10, 10), Click(10, 10, count=2), False),
        (Scroll(10, 10, "down", 3), Scroll(10, 10, "down", 9), False),
        (Drag(1, 1, 90, 90), Drag(2, 2, 95, 95), True),
        (TypeText("a"), TypeText("b"), False),
        (Wait(1.0), Click(1, 1), False),
    ],
)
def test_two_steps_are_same(one: Action, other: Action, same: bool) -> None:
    assert same_step(step(one), step(other)) is same
