"""The message of a drift: what differs, why that may be, and what can be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.closed import Circumstances
from pytest_vnc_use.recordings.course import Course, gate_to
from pytest_vnc_use.recordings.drift import cell_around, explained, remedies
from pytest_vnc_use.recordings.format import (
    Accepted,
    DynamicRegion,
    RecordedStep,
    Recording,
    Screen,
    Segment,
    ShownValue,
    dynamic_region,
    held,
)
from pytest_vnc_use.recordings.gates import gate
from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.types import Click, Frame, Region
from support.images import numbers
from support.memory_desktop import PaintedController, replayed

SIZE = (400, 300)
WINDOW = (20, 20, 220, 140)
CLOCK = (330, 8)
LAMP = Region(300, 200, 316, 216)
PLAIN = np.full((300, 400), 0x305070, np.uint32)


def window(
    *lines: str, clock: str = "10:35", back: str = "#ffffff", ink: str = "#000000"
) -> Pixels:
    """Draw a desktop with a clock and a window, which covers a fifth of it."""
    image = Image.new("RGB", SIZE, "#305070")
    draw = ImageDraw.Draw(image)
    draw.text(CLOCK, clock, "#ffffff")
    draw.rectangle(WINDOW, back, ink)
    for number, text in enumerate(lines):
        draw.text((40, 40 + 30 * number), text, ink)
    return numbers(image)


class Shown(PaintedController):
    """A desktop that shows one screen before the first action, and another after it."""

    def __init__(self, *screens: Pixels) -> None:
        super().__init__()
        self._screens = screens

    def frame(self) -> Frame:
        return frame_of(self._screens[len(self.performed)])


def drift(
    recorded: Sequence[Pixels],
    shown: Sequence[Pixels],
    *parts: DynamicRegion,
    at: tuple[int, int] = (380, 280),
    values: tuple[ShownValue, ...] = (),
) -> list[str]:
    """Return the lines of the drift of a click from one screen to the other one, which
    shows values.
    """

    def screen(name: str, pixels: Pixels) -> Screen:
        return Screen(
            pixels=held(pixels), image=f"{name}.webp", digest="0" * 12, dynamic=parts
        )

    first, last = recorded
    before = screen("s1", first)
    after = screen("end1", last).model_copy(update={"values": values})
    step = RecordedStep(id="s1", action=Click(*at), screen=before)
    run = Segment(id="t1", task="Click", steps=(step,), end=after)
    recording = Recording(test="test_it", screen_size=SIZE, segments=(run,))
    circumstances = Circumstances(test="test_it.py::test_it", recording=recording)
    replay = Replay(
        Shown(*shown), Course(run), watch_s=0.0, circumstances=circumstances
    )
    with pytest.raises(RecordingDrifted) as drifted:
        replayed(replay)
    return str(drifted.value).splitlines()


OPEN = window("Total 3.00", "open")
PAID = window("Total 6.00", "paid")
HANGS = "If the program hangs, or ignores the step"
HALF = window("Total 6.00", "open")
OTHER = window("Total 6.01", "open")


@pytest.mark.parametrize(
    ("seen", "ends"),
    [
        (HALF, r"; nothing changed there after step 1 of 1, click at \(380, 280\)"),
        (
            OTHER,
            r"; nothing changed from \(40, 7\d\) to \(6\d, 8\d\) after step 1 of 1, ",
        ),
    ],
    ids=["half drawn", "half drawn and another"],
)
def test_drift_names_regions_that_step_left_unchanged(seen: Pixels, ends: str) -> None:
    problem, *advice = drift([OPEN, PAID], [OPEN, seen])
    assert problem.startswith("drift at the end: a different effect of step 1 of 1, ")
    assert re.search(ends, problem)
    assert any(line.startswith(HANGS) for line in advice)
    assert advice[-4].endswith("in the test (all 2 gates):")
    assert advice[-3].startswith("  cua-vnc mask test_it.py::test_it ")
    assert advice[-2:] == [
        "or at this gate only (end1):",
        f"{advice[-3]} --at end1",
    ]


def test_drift_with_other_value_names_no_hang() -> None:
    shown = ShownValue(name="title", region=Region(36, 36, 200, 56))
    recorded = [window("", "open"), window("Train", "five letters")]
    seen = [recorded[0], window("Boat", "open")]
    problem, *advice = drift(recorded, seen, values=(shown,))
    assert "nothing changed" not in problem
    assert [line for line in advice if line.startswith(HANGS)] == []


def test_drift_with_another_effect_names_no_hang() -> None:
    problem, *advice = drift([OPEN, PAID], [OPEN, window("Total 6.00", "void")])
    assert "nothing changed" not in problem
    assert [line for line in advice if line.startswith(HANGS)] == []


DARKENED = window("Total 3.00", "open", back="#202020", ink="#e0e0e0")
WIDE = window("Total 3.00", "open").copy()
Region(20, 150, 220, 280).part_of(WIDE)[:] = 0xFFFFFF


@pytest.mark.parametrize(
    ("seen", "starts"),
    [
        (DARKENED, "other colours nearly everywhere from (20, 20) "),
        (WIDE, "a different effect of step 1 of 1: "),
    ],
    ids=["dark", "larger"],
)
def test_accepted_look_differs_after_step_without_effect(
    seen: Pixels, starts: str
) -> None:
    placed = window("Total 3.00 |", "open")
    made = gate(placed, (), before=OPEN, step="step 1 of 1")
    mismatch = made.mismatch(seen, seen)
    assert mismatch
    assert explained(mismatch, made, seen, seen).problem.startswith(starts)


@pytest.mark.parametrize(
    ("before_at", "after_at", "kind"),
    [(2, 1, "recoloured"), (2, 0, "recoloured"), (1, 2, "unchanged")],
)
def test_theme_accepted_before_step_is_not_its_effect(
    before_at: int, after_at: int, kind: str
) -> None:
    def accepted(day: int) -> tuple[Accepted, ...]:
        at = datetime(2026, 11, day or 1, tzinfo=timezone.utc)
        change = Accepted(by="eve", at=at, region=Region(18, 18, 223, 143))
        return (change,) if day else ()

    before = Screen(pixels=held(DARKENED), history=accepted(before_at))
    end = Screen(pixels=held(OPEN), history=accepted(after_at))
    step = RecordedStep(action=Click(1, 1), screen=before)
    run = Segment(task="Click", steps=(step,), end=end)
    made = gate_to(run, 1)
    mismatch = made.mismatch(DARKENED, DARKENED)
    assert mismatch
    mismatch = explained(mismatch, made, DARKENED, DARKENED)
    assert mismatch.kind == kind
    lines = remedies(mismatch, made, DARKENED, run, acted_on=DARKENED)
    assert any(line.startswith(HANGS) for line in lines) == (kind == "unchanged")


def test_screen_resized_by_step_is_drift() -> None:
    problem, *advice = drift([OPEN, PAID], [OPEN, OTHER[:100]])
    assert "the screen has 400 x 100 pixels" in problem
    assert advice


REVIEW = "After a CI job, review its run directories on your machine"


@pytest.mark.parametrize("value", ["true", "false"])
def test_drift_in_ci_names_review(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", value)
    _, *advice = drift([OPEN, PAID], [OPEN, OTHER])
    names_review = any(line.startswith(REVIEW) for line in advice)
    assert names_review == (value == "true")


DARK = {"back": "#202020", "ink": "#e0e0e0"}


@pytest.mark.parametrize("clock", ["10:35", "11:48"])
def test_drift_of_small_window_in_other_theme_is_named(clock: str) -> None:
    dark = window("Total 3.00", "open", clock=clock, **DARK)
    problem, *advice = drift([OPEN, PAID], [dark, dark])
    assert problem.startswith(
        "drift: other colours nearly everywhere from (20, 20) to (221, 141), as in"
        " another theme, before step 1 of 1, "
    )
    assert any("start it with the recorded theme" in line for line in advice)


def test_drift_of_other_window_is_no_theme() -> None:
    other = window("Another", "window", "with other", **DARK)
    problem, *_ = drift([OPEN, PAID], [other, other])
    assert "theme" not in problem


def test_drift_of_clock_on_first_screen_offers_mask() -> None:
    later = window("Total 3.00", "open", clock="11:48")
    problem, *advice = drift([OPEN, PAID], [later, later])
    assert problem.startswith(
        "drift before step 1 of 1, click at (380, 280): the first"
    )
    assert any("faketime -f '2026-01-15 10:00:00'" in line for line in advice)
    command, region = advice[-3].rsplit(maxsplit=1)
    assert command == "  cua-vnc mask test_it.py::test_it"
    left, top, right, bottom = map(int, region.split(","))
    assert left <= CLOCK[0] < right <= SIZE[0]
    assert top <= CLOCK[1] < bottom <= CLOCK[1] + 20


def test_drift_without_window_asks_for_program() -> None:
    blank = PLAIN.copy()
    problem, *advice = drift([OPEN, PAID], [blank, blank])
    assert problem.startswith(
        "drift before step 1 of 1, click at (380, 280): the program's window is not"
        " there, from (20, "
    )
    assert any("vnc_desktop.logs()['program']" in line for line in advice)
    assert [line for line in advice if "mask" in line] == []


def test_drift_of_lamp_that_blinks_no_more_offers_mask() -> None:
    shades = (np.full((16, 16), shade, np.uint32) for shade in (0x305070, 0xFF0000))
    lamp = dynamic_region(LAMP, "blinks", *shades)
    problem, *advice = drift([OPEN, PAID], [OPEN, PAID], lamp)
    assert problem == (
        "drift before step 1 of 1, click at (380, 280): the blinking region has not"
        " shown all of its 2 recorded variants from (300, 200) to (316, 216)"
    )
    assert advice[-3] == "  cua-vnc mask test_it.py::test_it 300,200,316,216"


LATE = "wait longer"
CLOCK_STOPS = "faketime"


@pytest.mark.parametrize(
    ("seen", "at", "advice"),
    [
        (
            window("Book", clock="11:48"),
            (380, 280),
            [LATE, CLOCK_STOPS, "cua-vnc mask"],
        ),
        (window("Reserve"), (380, 280), [LATE, "cua-vnc mask"]),
        (window("Reserve"), (50, 45), []),
        (window("Reserve", clock="11:48"), (50, 45), [LATE]),
    ],
    ids=["clock", "renamed label", "renamed button", "clock and renamed button"],
)
def test_drift_of_first_screen_has_advice_that_fits(
    seen: Pixels, at: tuple[int, int], advice: Sequence[str]
) -> None:
    _, *lines = drift([window("Book"), PAID], [seen, PAID], at=at)
    text = "\n".join(lines)
    known = (LATE, CLOCK_STOPS, "cua-vnc mask")
    assert [word for word in known if word in text] == advice


def framed(colour: int, letter: str = "A", thick_px: int = 1) -> Pixels:
    """Draw a field with a border in a window, and a letter in the field."""
    screen = window("Name")
    outer = Region(40, 60, 200, 92)
    inner = Region(40 + thick_px, 60 + thick_px, 200 - thick_px, 92 - thick_px)
    outer.part_of(screen)[:] = colour
    inner.part_of(screen)[:] = 0xFFFFFF
    image = Image.new("1", (12, 14))
    ImageDraw.Draw(image).text((1, 1), letter, 1)
    Region(100, 70, 112, 84).part_of(screen)[np.asarray(image)] = 0
    return screen


@pytest.mark.parametrize(
    ("seen", "masks"),
    [
        (
            framed(0x8D8D8D),
            ["40,60,200,61", "40,91,200,92", "40,61,41,91", "199,61,200,91"],
        ),
        (
            framed(0x8D8D8D, thick_px=2),
            ["40,60,200,62", "40,90,200,92", "40,62,42,90", "198,62,200,90"],
        ),
        (framed(0x8D8D8D, "B"), ["39,59,201,93"]),
        (framed(0x767676, "B"), ["93,71,115,83"]),
    ],
    ids=["border", "wider border", "border and letter", "letter"],
)
def test_drift_of_border_offers_mask_of_its_sides(
    seen: Pixels, masks: Sequence[str]
) -> None:
    lines = drift([window("Name"), framed(0x767676)], [window("Name"), seen])
    assert lines[-3] == f"  cua-vnc mask test_it.py::test_it {' '.join(masks)}"


@pytest.mark.parametrize("edge", ["#007bff", "#767676"], ids=["filled", "bordered"])
def test_cell_of_button_that_grew_is_the_button(edge: str) -> None:
    def form(typed: str, label: str) -> Pixels:
        image = Image.new("RGB", (400, 200), "white")
        draw = ImageDraw.Draw(image)
        draw.rectangle((20, 80, 180, 110), outline="gray")
        draw.text((26, 88), typed, fill="black")
        fill = edge if edge == "#007bff" else "#efefef"
        right = 206 + round(draw.textlength(label))
        draw.rectangle((188, 80, right, 110), fill=fill, outline=edge)
        draw.text((196, 88), label, fill="white" if fill == edge else "black")
        return numbers(image)

    cells = set()
    for typed in ("", "w0nder", "w0nder-land"):
        recorded = form(typed, "Log in")
        now = form(typed, "Sign in here")
        (box,) = boxes_of(recorded != now)
        cells.add(cell_around(box, recorded, now))
    (cell,) = cells
    assert (cell.left, cell.top, cell.bottom) == (187, 79, 112)
