"""What is learned of a screen while it is recorded: which parts of it move by themselves."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import cycle

import pytest

from pytest_vnc_use.recordings.format import DynamicRegion, dynamic_region, merged
from pytest_vnc_use.recordings.gates import Moving, screen_at_rest
from pytest_vnc_use.recordings.images import Pixels, png_of
from pytest_vnc_use.types import Frame, FrameRef, Region, Report, Verdict
from support.drawings import drawn
from support.fixed_judge import CLAIM, Says
from support.memory_desktop import PaintedController
from support.tills import STEPS, Played, Steps, Tills


class Turning(PaintedController):
    """Shows one screen after the other, again and again, and tells in which regions it moves."""

    def __init__(self, *screens: Pixels, moving: tuple[Region, ...]) -> None:
        super().__init__()
        self._frames = cycle([frame_of(pixels, moving) for pixels in screens])

    def frame(self) -> Frame:
        return next(self._frames)


def frame_of(pixels: Pixels, moving: tuple[Region, ...]) -> Frame:
    png = png_of(pixels)
    height, width = pixels.shape
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), width, height), png, moving=moving)


def filled(region: Region) -> Pixels:
    pixels = drawn("total 3.00").copy()
    pixels[region.top : region.bottom, region.left : region.right] = 0x808080
    return pixels


TILE = Region(64, 64, 96, 96)


def regions(parts: tuple[DynamicRegion, ...]) -> tuple[Region, ...]:
    return tuple(part.region for part in parts)


def of(region: Region) -> DynamicRegion:
    return dynamic_region(region, "always_changing")


def test_what_turns_is_left_out_with_what_it_reaches_now_and_then() -> None:
    eyes = Turning(drawn("total 3.00"), filled(Region(66, 66, 94, 94)), moving=(TILE,))
    assert regions(screen_at_rest(eyes).dynamic) == (Region(60, 60, 100, 100),)
    reaching = Turning(
        *(drawn("total 3.00"), filled(Region(66, 64, 94, 94)), filled(Region(78, 63, 79, 64))),
        moving=(TILE, Region(64, 32, 96, 64)),
    )
    assert regions(screen_at_rest(reaching).dynamic) == (Region(60, 60, 100, 100),)


def test_what_is_left_out_is_on_the_screen() -> None:
    corner = Region(288, 192, 320, 200)
    assert regions(screen_at_rest(Turning(drawn(""), filled(corner), moving=(corner,))).dynamic) == (
        Region(284, 188, 320, 200),
    )


def test_of_a_caret_only_its_own_box_is_left_out() -> None:
    caret = Region(70, 66, 72, 86)
    assert regions(screen_at_rest(Turning(drawn("total 3.00"), filled(caret), moving=(TILE,))).dynamic) == (caret,)


def test_what_may_be_a_lamp_is_kept_with_its_looks() -> None:
    lamp = Region(70, 66, 82, 78)
    (part,) = screen_at_rest(Turning(drawn("total 3.00"), filled(lamp), moving=(TILE,))).dynamic
    assert (part.region, part.kind, len(part.variants)) == (lamp, "caret", 2)


@pytest.mark.parametrize(
    ("below", "parts"),
    [
        (Region(70, 100, 72, 115), (Region(60, 60, 100, 91), Region(70, 100, 72, 115))),
        (Region(70, 91, 72, 106), (Region(60, 60, 100, 132),)),
        (Region(70, 100, 74, 115), (Region(60, 60, 100, 132),)),
        (Region(70, 100, 72, 106), (Region(60, 60, 100, 132),)),
    ],
    ids=["a caret", "too near", "too wide", "too low"],
)
def test_a_caret_below_what_turns_is_left_out_for_itself(below: Region, parts: tuple[Region, ...]) -> None:
    turned = filled(Region(66, 66, 90, 76))
    both = turned.copy()
    both[below.top : below.bottom, below.left : below.right] = 0
    column = Region(64, 64, 96, 128)
    assert regions(screen_at_rest(Turning(drawn("total 3.00"), both, turned, moving=(column,))).dynamic) == parts


@pytest.mark.parametrize(
    "beside",
    [Region(96, 50, 97, 74), Region(70, 96, 72, 116), Region(60, 70, 64, 90), Region(96, 90, 130, 110)],
    ids=["a caret that goes on above", "a caret below", "a block", "a part of another part"],
)
def test_what_blinks_only_beside_a_tile_is_no_part_of_it(beside: Region) -> None:
    """A tile that the caret has left still counts as moving for a while."""
    assert screen_at_rest(Turning(drawn("total 3.00"), filled(beside), moving=(TILE,))).dynamic == ()


def test_a_caret_that_has_gone_on_to_the_next_tile_is_a_caret_there() -> None:
    caret, next_tile = Region(96, 66, 97, 86), Region(96, 64, 128, 96)
    eyes = Turning(drawn("total 3.00"), filled(caret), moving=(TILE, next_tile))
    (part,) = screen_at_rest(eyes).dynamic
    assert (part.region, part.kind) == (caret, "caret")


def test_a_tile_is_watched_on_while_only_something_beside_it_blinks() -> None:
    caret = Region(96, 66, 97, 86)
    seen = Moving(frame_of(drawn("total 3.00"), (TILE,)))
    seen.add(frame_of(filled(caret), ()))
    assert not seen.is_known
    seen.add(frame_of(filled(Region(70, 66, 71, 86)), ()))
    assert seen.is_known


def test_a_digit_of_a_clock_is_no_caret() -> None:
    at = (TILE.left + 10, TILE.top + 10)
    clock = Turning(drawn("6", at), drawn("7", at), moving=(TILE,))  # of 40 pixels 39 differ
    assert regions(screen_at_rest(clock).dynamic) == (Region(60, 60, 100, 100),)


def test_a_region_within_another_is_not_told() -> None:
    inner, beside = Region(65, 65, 70, 70), Region(96, 64, 128, 96)
    assert regions(merged([of(inner), of(TILE), of(beside), of(TILE)])) == (TILE, beside)
    assert regions(merged([of(Region(65, 65, 97, 70)), of(TILE)])) == (Region(65, 65, 97, 70), TILE)


@dataclass
class AtNoon(Says):
    """Until it has thought, the clock has come to rest."""

    played: Played | None = None

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        assert self.played
        self.played.desktop.write_file("noon", "")
        return super().judge(claim, frame, timeout_s=timeout_s, report=report)


@pytest.mark.desktop
@pytest.mark.slow
def test_what_rests_by_the_time_a_judge_has_thought_is_left_out_of_the_evidence(tills: Tills) -> None:
    judge = AtNoon()
    with tills.agent("auto", Steps(*STEPS[:2]), "--clock", judge=judge) as played:
        judge.played = played
        played.run()
        assert played.agent.assess(CLAIM)
        assert played.recorded.keep()
    with tills.agent("replay", None, "--clock") as played:
        played.run()
        assert played.agent.assess(CLAIM).kind == "holds"
