"""Gates: what is seen, what is let through, and what they say."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.recordings.drift import is_maskable
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region
from pytest_vnc_use.recordings.gates import BlinkWatch, Gate, evidence_gate, gate, surroundings
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import REDACTED_COLOUR, Click, Drag, KeyCombo, Region, TypeText
from support.images import SIZE, drawn

ADD, ADDED = drawn("Add"), drawn("Added")
NEAR, FAR = surroundings(Click(30, 35), SIZE), (Region(200, 150, 320, 200),)
"""The surroundings of a target at the texts, and of one elsewhere."""


def changed(screen: Pixels, region: Region, colour: int = 0x123456) -> Pixels:
    seen = screen.copy()
    region.part_of(seen)[:] = colour
    return seen


@pytest.mark.parametrize(
    ("opened", "seen", "told"),
    [
        (gate(ADD, (), before=drawn("")), drawn("Adb"), "what the step before did looks different: "),
        (gate(ADD, (), before=ADD), drawn("Sub"), "a region that the step before did not touch differs: "),
        (gate(ADD, (), before=ADD, targets=NEAR), drawn("Sub"), "the surroundings of the step's target differ ("),
        (gate(ADD, (), before=ADD, targets=FAR), drawn("Adb"), ", away from where the next step acts"),
        (gate(ADD, ()), drawn("Adb"), "the first screen differs: "),
        (evidence_gate(Screen(pixels=lambda: ADD)), drawn("Adb"), "the screen differs from the judged one: "),
        (gate(ADD, ()), np.zeros((10, 12), np.uint32), "the screen has 12 x 10 pixels"),
    ],
    ids=["changed text", "outside", "near target", "far from target", "first", "evidence", "size"],
)
def test_mismatch_says_where_difference_is(opened: Gate, seen: Pixels, told: str) -> None:
    assert opened.mismatch(opened.expected) is None
    closed = opened.mismatch(seen)
    assert closed
    assert told in closed.problem


@pytest.mark.parametrize(("levels", "is_seen"), [(2, False), (3, True)])
@pytest.mark.parametrize("channel", [0, 8, 16])
def test_mismatch_of_one_pixel_needs_three_levels(levels: int, channel: int, is_seen: bool) -> None:
    screen = ADD & 0xF0F0F0
    now = screen.copy()
    now[199, 319] += np.uint32(levels << channel)
    closed = gate(screen, (), before=drawn(""), targets=NEAR).mismatch(now)
    assert (closed is not None) == is_seen
    if closed:
        assert closed.region == Region(319, 199, 320, 200)
        assert "1 px from (319, 199) to (320, 200)" in closed.problem


def test_mismatch_passing_part_is_tolerated_as_recorded() -> None:
    toast = Region(200, 20, 300, 60)
    seen, other = changed(ADD, toast, 0xFFE0A0), changed(ADD, toast, 0xFF0000)
    opened, passing = gate(ADD, (), before=ADD), [dynamic_region(toast, "unstable", toast.part_of(seen))]
    assert opened.mismatch(seen, passing=passing) is opened.mismatch(ADD, passing=passing) is None
    assert opened.mismatch(other, passing=passing)
    assert opened.mismatch(seen)


def test_mismatch_leaves_out_masks_and_redactions_only() -> None:
    box, beside = Region(15, 25, 100, 50), Region(100, 30, 101, 31)
    for opened in (
        gate(ADD, (), masks=[box]),
        gate(ADD, (dynamic_region(box, "always_changing"),)),
        evidence_gate(Screen(redacted=(box,), pixels=lambda: ADD)),
    ):
        assert opened.mismatch(drawn("Adb")) is None
        assert opened.mismatch(changed(ADD, beside))
    narrow, wide = (changed(ADD, Region(10, 10, right, 20), REDACTED_COLOUR) for right in (30, 50))
    for expected, seen in ((narrow, wide), (wide, narrow)):
        assert gate(expected, ()).mismatch(seen) is None
        assert gate(expected, ()).mismatch(changed(seen, beside))


def test_mismatch_boxes_are_apart() -> None:
    boxes = {Region(200, 150, 240, 160), Region(300, 10, 310, 12)}
    now = ADD
    for box in boxes:
        now = changed(now, box)
    closed = gate(ADD, ()).mismatch(now)
    assert closed
    assert set(closed.boxes) == boxes
    for height, offered in ((50, True), (51, False)):
        assert is_maskable([Region(0, 0, 320, height)] * 2, (200, 320)) == offered


def test_caret_hides_nothing_beside_it() -> None:
    caret = dynamic_region(Region(75, 30, 77, 45), "caret")
    opened = gate(ADD, (caret,))
    assert opened.mismatch(changed(ADD, caret.region)) is None
    assert opened.mismatch(drawn("Adb"))


STATUS = Region(16, 24, 120, 56)
READY, BLANK = drawn("READY"), drawn("")


def test_variants_let_no_other_through() -> None:
    opened = gate(READY, (dynamic_region(STATUS, "unstable", STATUS.part_of(READY), STATUS.part_of(BLANK)),))
    assert opened.mismatch(READY) is opened.mismatch(BLANK) is None
    closed = opened.mismatch(drawn("ERROR"))
    assert closed
    assert (closed.region, "shows none of its 2 recorded variants" in closed.problem) == (STATUS, True)


def test_blinking_part_must_show_all_variants_unless_redacted() -> None:
    opened = gate(READY, (dynamic_region(STATUS, "blinks", STATUS.part_of(READY), STATUS.part_of(BLANK)),))
    watch = BlinkWatch(opened.blinking)
    for _ in range(2):
        missing = watch.note(READY)
        assert missing
        assert (missing.region, "has not shown all of its 2 recorded variants" in missing.problem) == (STATUS, True)
    assert watch.note(BLANK) is None
    assert BlinkWatch(opened.blinking).note(changed(READY, STATUS, REDACTED_COLOUR)) is None


CARET, MOVED = dynamic_region(Region(20, 30, 21, 44), "caret"), dynamic_region(Region(27, 30, 28, 44), "caret")
CLOCK, MOVED_CLOCK = (dynamic_region(part.region.grown(16, *SIZE), "always_changing") for part in (CARET, MOVED))


def test_moved_caret_must_have_arrived() -> None:
    opened = gate(ADD, (MOVED,), before=ADD, parts_before=(CARET,))
    assert (opened.tells, opened.caret) == (True, MOVED.region)
    assert opened.mismatch(changed(ADD, MOVED.region), ADD) is None
    closed = opened.mismatch(ADD, ADD)
    assert closed
    assert closed.problem == "the caret did not reach the place where the step before moved it"
    assert closed.region == MOVED.region
    assert gate(ADDED, (MOVED,), before=ADD, parts_before=(CARET,)).caret is None, "the rest tells"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((CARET,), (CARET,)),
        ((), (MOVED,)),
        ((CARET,), ()),
        ((CARET,), (MOVED, dynamic_region(Region(90, 30, 91, 44), "caret"))),
        ((CARET,), (MOVED_CLOCK,)),
        ((CLOCK,), (MOVED,)),
    ],
)
def test_moving_regions_prove_no_step(before: tuple[DynamicRegion, ...], now: tuple[DynamicRegion, ...]) -> None:
    blinked = ADD.copy()
    for part in before:
        part.region.part_of(blinked)[:] ^= 0xFFFFFF
    opened = gate(ADD, now, before=blinked, parts_before=before)
    assert opened.changed.any() == bool(before)
    assert (opened.tells, opened.caret) == (False, None)


def test_surroundings_are_of_points_and_on_screen() -> None:
    assert surroundings(Click(0, 0), SIZE) == (Region(0, 0, 120, 40),)
    assert surroundings(TypeText("a", 319, 199), SIZE) == (Region(199, 159, 320, 200),)
    assert len(surroundings(Drag(10, 10, 200, 100), SIZE)) == 2
    assert surroundings(KeyCombo(("enter",)), SIZE) == surroundings(TypeText("a"), SIZE) == ()
