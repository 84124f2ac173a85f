"""What a rehearsal learns, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.format import DynamicRegion, Recording, screens
from pytest_vnc_use.recordings.gates import Gate, gate
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.store import save
from pytest_vnc_use.types import Region
from support.images import drawn
from support.tills import Tills

WHITE, BLACK, GREY = 0xFFFFFF, 0, 0x404040


def replayed(tills: Tills, *till: str, rehearsal: Rehearsal | None = None) -> list[str]:
    """Replay the recording; return what was there for a moment."""
    with tills.agent("replay", None, *till, gate_s=2.0, rehearsal=rehearsal) as played:
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
@pytest.mark.desktop
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
