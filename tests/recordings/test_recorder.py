"""What is learned of a screen while it is recorded, which parts of it move on their
own, and what by a rehearsal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain, cycle

import numpy as np
import pytest

from pytest_vnc_use import deadline
from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings import moving, replay
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.format import (
    DynamicRegion,
    RecordedStep,
    Recording,
    Screen,
    Segment,
    screens,
)
from pytest_vnc_use.recordings.gates import Gate, gate
from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.recordings.moving import MovingRegions, stable_screen
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.recordings.store import save
from pytest_vnc_use.types import (
    Click,
    DesktopAction,
    Frame,
    RawFrame,
    Region,
    Report,
    Verdict,
)
from support.images import drawn
from support.judges import CLAIM, Says
from support.memory_desktop import PaintedController, replayed as replayed_by
from support.tills import STEPS, Played, Steps, Tills


class Turning(PaintedController):
    """Shows one screen after the other, again and again, and tells in which regions it
    moves.
    """

    def __init__(self, *screens: Pixels, moving: tuple[Region, ...]) -> None:
        super().__init__()
        frames = [replace(frame_of(pixels), moving=moving) for pixels in screens]
        self._frames = cycle(frames)

    def frame(self) -> Frame:
        return next(self._frames)


def filled(region: Region) -> Pixels:
    pixels = drawn("total 3.00").copy()
    pixels[region.top : region.bottom, region.left : region.right] = 0x808080
    return pixels


TILE = Region(64, 64, 96, 96)
NEXT_TILE = Region(96, 64, 128, 96)
ALL_OF_TILE = Region(60, 60, 100, 100)
CORNER = Region(288, 192, 320, 200)
CARET = Region(70, 66, 72, 86)
LAMP = Region(70, 66, 82, 78)
CARET_IN_NEXT = Region(96, 66, 97, 86)
BLANK = drawn("total 3.00")
AT = (TILE.left + 10, TILE.top + 10)
SPINS = Turning(BLANK, filled(Region(66, 66, 94, 94)), moving=(TILE,))
REACHES = Turning(
    BLANK,
    filled(Region(66, 64, 94, 94)),
    filled(Region(78, 63, 79, 64)),
    moving=(TILE, Region(64, 32, 96, 64)),
)


@pytest.mark.parametrize(
    ("screens", "parts"),
    [
        (SPINS, [(ALL_OF_TILE, "blinks", 2)]),
        (REACHES, [(ALL_OF_TILE, "blinks", 3)]),
        (
            Turning(drawn(""), filled(CORNER), moving=(CORNER,)),
            [(Region(284, 188, 320, 200), "blinks", 2)],
        ),
        (Turning(BLANK, filled(CARET), moving=(TILE,)), [(CARET, "caret", 0)]),
        (
            Turning(BLANK, filled(CARET_IN_NEXT), moving=(TILE, NEXT_TILE)),
            [(CARET_IN_NEXT, "caret", 0)],
        ),
        (Turning(BLANK, filled(LAMP), moving=(TILE,)), [(LAMP, "caret", 2)]),
        # of a digit's 40 pixels 39 differ
        (
            Turning(drawn("6", AT), drawn("7", AT), moving=(TILE,)),
            [(ALL_OF_TILE, "blinks", 2)],
        ),
    ],
    ids=[
        "spinner",
        "reaches out",
        "at the edge",
        "caret",
        "caret in next tile",
        "lamp",
        "clock",
    ],
)
def test_dynamic_regions_of_moving_tiles(
    screens: Turning, parts: list[tuple[Region, str, int]]
) -> None:
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
def test_caret_below_moving_part_stands_apart(
    below: Region, parts: list[Region]
) -> None:
    turned = filled(Region(66, 66, 90, 76))
    both = turned.copy()
    below.part_of(both)[:] = 0
    screens = Turning(BLANK, both, turned, moving=(Region(64, 64, 96, 128),))
    assert [part.region for part in stable_screen(screens).dynamic] == parts


@pytest.mark.parametrize(
    "beside",
    [
        Region(96, 50, 97, 74),
        Region(70, 96, 72, 116),
        Region(60, 70, 64, 90),
        Region(96, 90, 130, 110),
    ],
    ids=[
        "a caret that continues above",
        "a caret below",
        "a block",
        "a part of another part",
    ],
)
def test_change_beside_tile_is_no_part_of_it(beside: Region) -> None:
    """A tile that the caret has left still counts as moving for a while."""
    assert stable_screen(Turning(BLANK, filled(beside), moving=(TILE,))).dynamic == ()


class Later(PaintedController):
    """A desktop with a caret and a mark in one tile, and its clock: `marks` are what
    the mark shows from these moments on, in seconds, and `after` after the first action.
    """

    def __init__(
        self, marks: Mapping[float, int], after: Mapping[float, int] = {}
    ) -> None:
        super().__init__()
        self._marks = marks
        self._after = after
        self._acted_at = 0.0
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        self.now_s += timeout_s
        return False

    def perform(self, action: DesktopAction) -> None:
        super().perform(action)
        self._acted_at = self.now_s
        self._marks = self._after

    def frame(self) -> Frame:
        shown = self.shown()
        return replace(frame_of(shown), moving=(TILE,), taken_at=self.now_s)

    def raw_frame(self) -> RawFrame:
        return RawFrame(self.shown(), self.now_s)

    def shown(self) -> Pixels:
        since_s = self.now_s - self._acted_at
        pixels = BLANK.copy()
        marks = [mark for at_s, mark in self._marks.items() if at_s <= since_s]
        MARK.part_of(pixels)[:] = marks[-1]
        if round(self.now_s / 0.6) % 2:
            CARET.part_of(pixels)[:] = 0
        return pixels


MARK = Region(76, 66, 84, 74)
RED = 0xC00000
OLD = 0x808080
NEW = 0x00C000
UNTIL_SAVED = {0.0: RED, 2.1: NEW}
"""A mark that is red until the file is saved. The desktop waits for 1.2 s first."""
BLINKING = {0.5 * turn: (RED, NEW)[turn % 2] for turn in range(12)}
COUNTING = {1.0 * turn: RED + turn * 16 for turn in range(12)}


@pytest.fixture
def use_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Later], None]:
    """`use_clock(desktop)`: time passes as it does on the desktop."""

    def use_clock(desktop: Later) -> None:
        for module in (moving, replay, deadline):
            monkeypatch.setattr(module, "clock", desktop)

    return use_clock


@pytest.mark.parametrize(
    ("marks", "kinds", "colour"),
    [
        (UNTIL_SAVED, [("caret", 0)], NEW),
        ({0.0: RED, 4.5: NEW}, [("caret", 0)], RED),
        ({0.0: RED, 0.5: NEW}, [("caret", 0)], NEW),
        ({0.0: RED, 1.8: OLD, 2.2: NEW}, [("caret", 0)], NEW),
        (BLINKING, [("blinks", 4)], None),
        (COUNTING, [("always_changing", 0)], None),
    ],
    ids=["saved", "saved later", "saved before", "saving", "blinks", "counts"],
)
def test_mark_that_changes_once_is_recorded_as_last(
    marks: Mapping[float, int],
    kinds: list[tuple[str, int]],
    colour: int | None,
    use_clock: Callable[[Later], None],
) -> None:
    desktop = Later(marks)
    use_clock(desktop)
    recorded = stable_screen(desktop)
    parts = recorded.dynamic
    assert [(part.kind, len(part.variants)) for part in parts] == kinds
    if colour is not None:
        assert (MARK.part_of(recorded.pixels()) == colour).all()


def test_mark_that_changed_before_newest_frame_is_no_part() -> None:
    desktop = Later({0.0: RED, 0.5: NEW})
    frames = []
    for turn in range(8):
        desktop.now_s = 0.3 * turn
        frames.append(desktop.frame())
    seen = MovingRegions(frames[-1])
    for earlier in frames[:-1]:
        seen.add(earlier)
    (part,) = seen.dynamic_regions()
    assert part.kind == "caret"
    assert part.region == CARET
    assert not seen.is_outdated


@pytest.mark.parametrize("now", [UNTIL_SAVED, {0.0: NEW}], ids=["slow", "fast"])
def test_replay_of_mark_that_changed_once_passes(
    now: Mapping[float, int], use_clock: Callable[[Later], None]
) -> None:
    def recorded(marks: Mapping[float, int]) -> Screen:
        desktop = Later(marks)
        use_clock(desktop)
        return stable_screen(desktop)

    step = RecordedStep(action=Click(200, 150), screen=recorded({0.0: OLD}))
    run = Segment(task="Save", steps=(step,), end=recorded(UNTIL_SAVED))
    desktop = Later({0.0: OLD}, now)
    use_clock(desktop)

    assert replayed_by(Replay(desktop, Course(run), limit_s=5.0)) == [step.action]


class AtNoon(Says):
    """Until it has thought, the clock has become stable."""

    played: Played

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        self.played.desktop.write_file("noon", "")
        return super().judge(claim, frame, timeout_s=timeout_s, report=report)


@pytest.mark.desktop
@pytest.mark.slow
def test_part_that_rests_while_judged_is_left_out(tills: Tills) -> None:
    judge = AtNoon()
    planner = Steps(*STEPS[:2])
    with tills.agent("auto", planner, "--clock", judge=judge) as played:
        judge.played = played
        played.run()
        assert played.agent.assess(CLAIM)
        assert played.recorded.write()
    with tills.agent("replay", None, "--clock") as played:
        played.run()
        assert played.agent.assess(CLAIM).kind == "holds"


WHITE = 0xFFFFFF
BLACK = 0
GREY = 0x404040


def replayed(tills: Tills, *till: str, rehearsal: Rehearsal | None = None) -> list[str]:
    """Replay the recording; return what was there for a moment."""
    with tills.agent("replay", None, *till, gate_s=3.0, rehearsal=rehearsal) as played:
        played.run()
        played.agent.end_body()
        return played.recorded.transients.messages


def rehearsed(tills: Tills, *till: str) -> None:
    """Rehearse the recording of a till, and write what that taught."""
    path = tills.key.path
    recording = tills.recording
    rehearsal = Rehearsal([recording])
    replayed(tills, *till, rehearsal=rehearsal)
    save(path, rehearsal.learnt(recording))


def unstable(recording: Recording) -> list[DynamicRegion]:
    parts = chain.from_iterable(screen.dynamic for screen in screens(recording))
    return [part for part in parts if part.kind == "unstable"]


@pytest.mark.slow
@pytest.mark.parametrize("repeat", [replayed, rehearsed])
def test_recording_of_rarer_drawing_needs_no_variant(
    tills: Tills, repeat: Callable[[Tills], object]
) -> None:
    """It was recorded while a line stood a pixel higher than in all later runs."""
    with tills.agent("auto", Steps(*STEPS), "--fault=raised text") as played:
        played.run()
        assert played.recorded.write()
    repeat(tills)
    assert unstable(tills.recording) == []
    with pytest.raises(RecordingDrifted):
        replayed(tills, "--fault=wrong total")


@pytest.mark.slow
def test_rehearsal_learns_line_moved_aside_and_toast(recorded: Tills) -> None:
    with pytest.raises(RecordingDrifted, match=r"record again with vnc_rehearse=5"):
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
def test_gate_that_opens_late_is_not_repeated_by_rehearsal(
    recorded: Tills, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vnc_use.recordings.record._REHEARSED_SHARE", 0.1)
    replayed(recorded, "--slow=1")  # its second effect comes after 0.85 s
    with pytest.raises(
        RecordingDrifted, match="drift: nothing changed on the screen after step 3 of 4"
    ):
        rehearsed(recorded, "--slow=1")


def boxes_drawn(*boxes: tuple[Region, int]) -> Pixels:
    pixels = np.full((400, 800), WHITE, np.uint32)
    for box, colour in boxes:
        box.part_of(pixels)[:] = colour
    return pixels


def outline(box: Region, colour: int) -> list[tuple[Region, int]]:
    inner = Region(box.left + 2, box.top + 2, box.right - 2, box.bottom - 2)
    return [(box, colour), (inner, WHITE)]


def opened(
    expected: Pixels, seen: Pixels, caret: DynamicRegion | None = None
) -> Gate | None:
    return Rehearsal.with_learned(gate(expected, [caret] if caret else []), seen)


def test_opened_border_23_levels_off_is_four_parts() -> None:
    box = Region(100, 100, 400, 180)
    was = boxes_drawn(*outline(box, GREY))
    now = boxes_drawn(*outline(box, GREY + 0x171717))
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
    black = [(box, BLACK) for box in boxes]
    assert opened(boxes_drawn(), boxes_drawn(*black)) is None


def test_opened_drawing_elsewhere_is_none() -> None:
    was = boxes_drawn((Region(100, 100, 140, 104), BLACK))
    moved = boxes_drawn((Region(100, 101, 140, 105), BLACK))
    assert opened(was, moved) is not None
    assert opened(was, boxes_drawn((Region(100, 108, 140, 112), BLACK))) is None


@pytest.mark.parametrize("pair", ["58", ".,", "O0"])
def test_opened_other_character_is_none(pair: str) -> None:
    recorded, shown = pair
    was = drawn(f"total {recorded}.00", (100, 100), (800, 400))
    now = drawn(f"total {shown}.00", (100, 100), (800, 400))
    assert opened(was, now) is None
    assert opened(was, np.roll(was, 1, axis=0)) is not None
