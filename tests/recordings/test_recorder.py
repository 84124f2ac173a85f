"""What is learned of a screen while it is recorded, which parts of it move on their own, and what by a rehearsal."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.format import DynamicRegion, Recording, screens
from pytest_vnc_use.recordings.gates import Gate, gate
from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.recordings.moving import stable_screen
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.store import save
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
    ("screens", "parts"),
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
def test_dynamic_regions_of_moving_tiles(screens: Turning, parts: list[tuple[Region, str, int]]) -> None:
    found = stable_screen(screens).dynamic
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
    screens = Turning(BLANK, both, turned, moving=(Region(64, 64, 96, 128),))
    assert [part.region for part in stable_screen(screens).dynamic] == parts


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


WHITE, BLACK, GREY = 0xFFFFFF, 0, 0x404040


def replayed(tills: Tills, *till: str, rehearsal: Rehearsal | None = None) -> list[str]:
    """Replay the recording; return what was there for a moment."""
    with tills.agent("replay", None, *till, gate_s=3.0, rehearsal=rehearsal) as played:
        played.run()
        played.agent.end_body()
        return played.recorded.transients


def rehearsed(tills: Tills, *till: str) -> None:
    """Rehearse the recording of a till, and write what that taught."""
    rehearsal = Rehearsal(tills.recording)
    replayed(tills, *till, rehearsal=rehearsal)
    save(tills.key.path, rehearsal.learnt())


def unstable(recording: Recording) -> list[DynamicRegion]:
    return [part for screen in screens(recording) for part in screen.dynamic if part.kind == "unstable"]


@pytest.mark.slow
def test_rehearsal_learns_line_moved_by_pixel_and_toast(recorded: Tills) -> None:
    with pytest.raises(RecordingDrifted, match=r"record again with vnc_rehearse=2"):
        replayed(recorded, "--fault=shaky text")
    rehearsed(recorded, "--fault=shaky text")
    assert {len(part.variants) for part in unstable(recorded.recording)} == {2}
    rehearsed(recorded, "--fault=toast")
    assert replayed(recorded, "--fault=toast") == []
    replayed(recorded, "--fault=shaky text")
    with pytest.raises(RecordingDrifted) as drift:
        replayed(recorded, "--fault=wrong total")
    assert "vnc_rehearse" not in str(drift.value)
    with pytest.raises(RecordingDrifted):
        rehearsed(recorded, "--fault=wrong total")


@pytest.mark.slow
def test_gate_that_opens_late_is_not_repeated_by_rehearsal(recorded: Tills, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.recordings.record._REHEARSED_SHARE", 0.1)
    replayed(recorded, "--slow=1")  # its second effect comes after 0.85 s
    with pytest.raises(RecordingDrifted, match="drift before step 4 of 4"):
        rehearsed(recorded, "--slow=1")


def boxes_drawn(*boxes: tuple[Region, int]) -> Pixels:
    pixels = np.full((400, 800), WHITE, np.uint32)
    for box, colour in boxes:
        box.part_of(pixels)[:] = colour
    return pixels


def outline(box: Region, colour: int) -> list[tuple[Region, int]]:
    inner = Region(box.left + 2, box.top + 2, box.right - 2, box.bottom - 2)
    return [(box, colour), (inner, WHITE)]


def opened(expected: Pixels, seen: Pixels, caret: DynamicRegion | None = None) -> Gate | None:
    rehearsal = Rehearsal(Recording(test="t", screen_size=(800, 400)))
    return rehearsal.opened(gate(expected, [caret] if caret else []), seen)


def test_opened_border_23_levels_off_is_four_parts() -> None:
    box = Region(100, 100, 400, 180)
    was, now = boxes_drawn(*outline(box, GREY)), boxes_drawn(*outline(box, GREY + 0x171717))
    learnt = opened(was, now)
    assert learnt is not None
    assert len(learnt.parts) == 4
    assert learnt.mismatch(was) is None
    assert learnt.mismatch(now) is None
    other = now.copy()
    other[140, 250] = BLACK
    assert learnt.mismatch(other) is not None


@pytest.mark.parametrize(
    "boxes",
    [
        [Region(100, 100, 300, 110)],
        [Region(100 * n, 100, 100 * n + 4, 104) for n in range(1, 6)],
        [Region(0, 0, 800, 400)],
    ],
    ids=["too large", "in too many places", "another screen"],
)
def test_opened_large_or_scattered_difference_is_none(boxes: list[Region]) -> None:
    assert opened(boxes_drawn(), boxes_drawn(*((box, BLACK) for box in boxes))) is None


def test_opened_drawing_elsewhere_is_none() -> None:
    was, moved = boxes_drawn((Region(100, 100, 140, 104), BLACK)), boxes_drawn((Region(100, 101, 140, 105), BLACK))
    assert opened(was, moved) is not None
    assert opened(was, boxes_drawn((Region(100, 108, 140, 112), BLACK))) is None


@pytest.mark.parametrize("pair", ["58", ".,", "O0"])
def test_opened_other_character_is_none(pair: str) -> None:
    was, now = (drawn(f"total {character}.00", (100, 100), (800, 400)) for character in pair)
    assert opened(was, now) is None
    assert opened(was, np.roll(was, 1, axis=0)) is not None
