"""What is learned of a screen while it is recorded: which parts of it move on their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.recordings.moving import stable_screen
from pytest_vnc_use.types import Frame, Region, Report, Verdict
from support.images import drawn
from support.judges import CLAIM, Says
from support.memory_desktop import PaintedController
from support.tills import STEPS, Played, Steps, Tills


class Turning(PaintedController):
    """Shows one screen after the other, again and again, and tells in which regions it moves."""

    def __init__(self, *screens: Pixels, moving: tuple[Region, ...]) -> None:
        super().__init__()
        self._frames = cycle([replace(frame_of(pixels), moving=moving) for pixels in screens])

    def frame(self) -> Frame:
        return next(self._frames)


def filled(region: Region) -> Pixels:
    pixels = drawn("total 3.00").copy()
    pixels[region.top : region.bottom, region.left : region.right] = 0x808080
    return pixels


TILE, NEXT_TILE = Region(64, 64, 96, 96), Region(96, 64, 128, 96)
ALL_OF_TILE, CORNER = Region(60, 60, 100, 100), Region(288, 192, 320, 200)
CARET, LAMP, CARET_IN_NEXT = Region(70, 66, 72, 86), Region(70, 66, 82, 78), Region(96, 66, 97, 86)
BLANK, AT = drawn("total 3.00"), (TILE.left + 10, TILE.top + 10)
SPINS = Turning(BLANK, filled(Region(66, 66, 94, 94)), moving=(TILE,))
REACHES = Turning(
    *(BLANK, filled(Region(66, 64, 94, 94)), filled(Region(78, 63, 79, 64))), moving=(TILE, Region(64, 32, 96, 64))
)


@pytest.mark.parametrize(
    ("eyes", "parts"),
    [
        (SPINS, [(ALL_OF_TILE, "blinks", 2)]),
        (REACHES, [(ALL_OF_TILE, "blinks", 3)]),
        (Turning(drawn(""), filled(CORNER), moving=(CORNER,)), [(Region(284, 188, 320, 200), "blinks", 2)]),
        (Turning(BLANK, filled(CARET), moving=(TILE,)), [(CARET, "caret", 0)]),
        (Turning(BLANK, filled(CARET_IN_NEXT), moving=(TILE, NEXT_TILE)), [(CARET_IN_NEXT, "caret", 0)]),
        (Turning(BLANK, filled(LAMP), moving=(TILE,)), [(LAMP, "caret", 2)]),
        # of a digit's 40 pixels 39 differ
        (Turning(drawn("6", AT), drawn("7", AT), moving=(TILE,)), [(ALL_OF_TILE, "blinks", 2)]),
    ],
    ids=["spinner", "reaches out", "at the edge", "caret", "caret in next tile", "lamp", "clock"],
)
def test_dynamic_regions_of_moving_tiles(eyes: Turning, parts: list[tuple[Region, str, int]]) -> None:
    found = stable_screen(eyes).dynamic
    assert [(part.region, part.kind, len(part.variants)) for part in found] == parts


@pytest.mark.parametrize(
    ("below", "parts"),
    [
        (Region(70, 100, 72, 115), [Region(60, 60, 100, 91), Region(70, 100, 72, 115)]),
        (Region(70, 91, 72, 106), [Region(60, 60, 100, 132)]),
        (Region(70, 100, 74, 115), [Region(60, 60, 100, 132)]),
    ],
    ids=["a caret", "too near", "too wide"],
)
def test_caret_below_moving_part_stands_apart(below: Region, parts: list[Region]) -> None:
    turned = filled(Region(66, 66, 90, 76))
    both = turned.copy()
    below.part_of(both)[:] = 0
    eyes = Turning(BLANK, both, turned, moving=(Region(64, 64, 96, 128),))
    assert [part.region for part in stable_screen(eyes).dynamic] == parts


@pytest.mark.parametrize(
    "beside",
    [Region(96, 50, 97, 74), Region(70, 96, 72, 116), Region(60, 70, 64, 90), Region(96, 90, 130, 110)],
    ids=["a caret that continues above", "a caret below", "a block", "a part of another part"],
)
def test_change_beside_tile_is_no_part_of_it(beside: Region) -> None:
    """A tile that the caret has left still counts as moving for a while."""
    assert stable_screen(Turning(BLANK, filled(beside), moving=(TILE,))).dynamic == ()


class AtNoon(Says):
    """Until it has thought, the clock has become stable."""

    played: Played

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        self.played.desktop.write_file("noon", "")
        return super().judge(claim, frame, timeout_s=timeout_s, report=report)


@pytest.mark.desktop
@pytest.mark.slow
def test_part_that_rests_while_judged_is_left_out(tills: Tills) -> None:
    judge = AtNoon()
    with tills.agent("auto", Steps(*STEPS[:2]), "--clock", judge=judge) as judge.played:
        judge.played.run()
        assert judge.played.agent.assess(CLAIM)
        assert judge.played.recorded.keep()
    with tills.agent("replay", None, "--clock") as played:
        played.run()
        assert played.agent.assess(CLAIM).kind == "holds"
