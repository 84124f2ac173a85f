"""Gates: what is seen, what is let through, and what they say."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region
from pytest_vnc_use.recordings.gates import (
    BlinkWatch,
    Gate,
    Mismatch,
    evidence_gate,
    gate,
    is_maskable,
    surroundings,
)
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import Click, Drag, KeyCombo, Region, TypeText
from support.drawings import SIZE, drawn

FAR_AWAY = (200, 150)
"""Where the texts below are not."""


def middle(before: Pixels, expected: Pixels, *targets: Region) -> Gate:
    """The gate before a step in the middle."""
    return gate(expected, (), before=before, targets=targets)


@pytest.mark.parametrize(("recorded", "now"), [("total 3.00", "total 3.01"), ("0 1", "0 l"), (".", ","), ("a", "á")])
def test_one_character_of_what_a_step_changed_is_seen(recorded: str, now: str) -> None:
    closed = middle(drawn(""), drawn(recorded)).mismatch(drawn(now))
    assert closed is not None
    assert "a part that the step before changed differs" in closed.problem
    assert closed.region.left >= 18


@pytest.mark.parametrize(("levels", "is_seen"), [(1, False), (2, False), (3, True)])
@pytest.mark.parametrize("channel", [0, 8, 16])
def test_what_nobody_sees_is_no_difference(levels: int, channel: int, is_seen: bool) -> None:
    screen = drawn("total 3.00") & 0xF0F0F0
    now = screen.copy()
    now[35, 25] += np.uint32(levels << channel)
    closed = middle(drawn(""), screen).mismatch(now)
    assert (closed is not None) == is_seen
    if closed:
        assert closed.region == Region(25, 35, 26, 36)
        assert "1 px from (25, 35) to (26, 36): " in closed.problem


def test_the_same_picture_never_drifts() -> None:
    for text in ("total 3.00", "ÄÖÜ", "x" * 40):
        assert middle(drawn(""), drawn(text), Region(0, 0, 320, 200)).mismatch(drawn(text)) is None


def test_mismatch_near_target_names_its_surroundings() -> None:
    targets = surroundings(Click(30, 35), SIZE)
    closed = middle(drawn("Add"), drawn("Add"), *targets).mismatch(drawn("Sub"))
    assert closed is not None
    assert ": the surroundings of its target look different" in closed.problem
    assert closed.problem.endswith(" px in the surroundings, from (0, 0) to (150, 75)")


def test_mismatch_far_from_target_says_so() -> None:
    closed = middle(drawn("Add"), drawn("Add"), Region(200, 150, 320, 200)).mismatch(drawn("Adb"))
    assert closed is not None
    assert "the difference is outside the parts that the step before changed" in closed.problem
    assert closed.problem.endswith(
        "; the surroundings of the step's target, from (200, 150) to (320, 200), are as recorded"
    )


def test_mismatch_one_pixel_anywhere_closes_gate() -> None:
    opened = middle(drawn("Add"), drawn("Add"), *surroundings(Click(*FAR_AWAY), SIZE))
    now = drawn("Add").copy()
    now[5, 5] = 0
    closed = opened.mismatch(now)
    assert closed is not None
    assert closed.region == Region(5, 5, 6, 6)


def test_mismatch_passing_part_is_tolerated_as_recorded() -> None:
    toast = Region(200, 20, 300, 60)
    seen, other = drawn("Add").copy(), drawn("Add").copy()
    toast.part_of(seen)[:] = 0xFFE0A0
    toast.part_of(other)[:] = 0xFF0000
    opened, passing = middle(drawn("Add"), drawn("Add")), dynamic_region(toast, "unstable", toast.part_of(seen))
    assert opened.mismatch(seen, passing=[passing]) is opened.mismatch(drawn("Add"), passing=[passing]) is None
    assert opened.mismatch(other, passing=[passing]) is not None
    assert opened.mismatch(seen) is not None


def test_at_the_end_one_pixel_anywhere_is_seen() -> None:
    last = gate(drawn("3.00"), (), before=drawn(""))
    now = drawn("3.00").copy()
    now[199, 319] ^= 0x80
    closed = last.mismatch(now)
    assert closed is not None
    assert closed.region == Region(319, 199, 320, 200)


def test_all_of_a_first_screen_must_be_as_it_was_but_what_was_known_to_move() -> None:
    first = gate(drawn("pasword"), ())
    assert first.mismatch(drawn("pasword")) is None
    closed = first.mismatch(drawn("password"))
    assert closed is not None
    assert "the first screen differs" in closed.problem
    assert gate(drawn("pasword"), (), masks=closed.masks).mismatch(drawn("password")) is None
    assert (
        gate(drawn("pasword"), (dynamic_region(closed.region, "always_changing"),)).mismatch(drawn("password")) is None
    )


def test_a_mask_that_is_proposed_covers_all_that_differs() -> None:
    now = drawn("pasword").copy()
    now[150:160, 200:240] ^= 0xFFFFFF
    now[10:12, 300:310] ^= 0xFFFFFF
    closed = gate(drawn("pasword"), ()).mismatch(now)
    assert closed is not None
    assert set(closed.masks) == {Region(200, 150, 240, 160), Region(300, 10, 310, 12)}


@pytest.mark.parametrize(("height", "offered"), [(50, True), (51, False)])
def test_no_mask_of_more_than_a_quarter_of_the_screen_is_proposed(height: int, *, offered: bool) -> None:
    top, all_of_it = Region(0, 0, 320, height), (200, 320)
    assert is_maskable((top,), all_of_it) == is_maskable((top, top), all_of_it) == offered


def test_a_caret_that_was_recorded_hides_nothing_of_the_text_beside_it() -> None:
    caret = dynamic_region(Region(75, 30, 77, 45), "caret")
    first = gate(drawn("pasword"), (caret,))
    assert first.mismatch(drawn("password")) is not None
    blinked = drawn("pasword").copy()
    blinked[30:45, 75:77] ^= 0xFFFFFF
    assert first.mismatch(blinked) is None


STATUS = Region(16, 24, 120, 56)


def test_of_what_has_looks_no_other_is_let_through() -> None:
    status = dynamic_region(STATUS, "unstable", *(STATUS.part_of(drawn(text)) for text in ("READY", "")))
    first = gate(drawn("READY"), (status,))
    assert first.mismatch(drawn("READY")) is first.mismatch(drawn("")) is None
    closed = first.mismatch(drawn("ERROR"))
    assert closed is not None
    assert closed.region == STATUS
    assert "shows none of its 2 recorded variants" in closed.problem


def test_what_blinked_must_show_each_of_its_looks() -> None:
    status = dynamic_region(STATUS, "blinks", *(STATUS.part_of(drawn(text)) for text in ("READY", "")))
    watch = BlinkWatch(gate(drawn("READY"), (status,)).blinking)
    for _ in range(2):
        missing = watch.note(drawn("READY"))
        assert missing is not None
        assert (missing.region, "has not shown all of its 2 recorded variants" in missing.problem) == (STATUS, True)
    assert watch.note(drawn("")) is None


CARET, MOVED = dynamic_region(Region(20, 30, 21, 44), "caret"), dynamic_region(Region(27, 30, 28, 44), "caret")


def test_where_only_a_caret_moved_it_must_have_come_there() -> None:
    screen = drawn("Add")
    opened = gate(screen, (MOVED,), before=screen, parts_before=(CARET,))
    assert (opened.tells, opened.caret) == (True, MOVED.region)
    came = screen.copy()
    came[30:44, 27] ^= 0xFFFFFF
    assert opened.mismatch(came, screen) is None
    closed = opened.mismatch(screen, screen)
    assert closed is not None
    assert closed.problem == "the caret did not reach the place where the step before moved it"
    assert closed.region == MOVED.region


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((CARET,), (CARET,)),
        ((), (MOVED,)),
        ((CARET,), ()),
        ((CARET,), (MOVED, dynamic_region(Region(90, 30, 91, 44), "caret"))),
        ((CARET,), (dynamic_region(Region(27, 30, 59, 62), "always_changing"),)),
        ((dynamic_region(Region(10, 20, 42, 52), "always_changing"),), (MOVED,)),
    ],
)
def test_what_moves_by_itself_does_not_tell_that_a_step_was_done(
    before: tuple[DynamicRegion, ...], now: tuple[DynamicRegion, ...]
) -> None:
    blinked = drawn("Add").copy()
    for part in before:
        part.region.part_of(blinked)[:] ^= 0xFFFFFF
    opened = gate(drawn("Add"), now, before=blinked, parts_before=before)
    assert opened.changed.any() == bool(before)
    assert (opened.tells, opened.caret) == (False, None)


def test_where_more_than_a_caret_changed_the_rest_tells() -> None:
    opened = gate(drawn("Added"), (MOVED,), before=drawn("Add"), parts_before=(CARET,))
    assert (opened.tells, opened.caret) == (True, None)


def mismatch_of(expected: Pixels, seen: Pixels, *parts: DynamicRegion) -> Mismatch | None:
    return evidence_gate(Screen(dynamic=parts, pixels=lambda: expected)).mismatch(seen)


def test_what_is_left_out_is_not_compared() -> None:
    left_out = Region(15, 25, 100, 50)
    assert gate(drawn("total 3.00"), (), masks=(left_out,)).mismatch(drawn("total 3.01")) is None
    assert mismatch_of(drawn("total 3.00"), drawn("total 3.01"), dynamic_region(left_out, "always_changing")) is None


def test_evidence_is_the_whole_screen() -> None:
    now = drawn("total 3.00").copy()
    now[199, 319] ^= 0x80
    mismatch = mismatch_of(drawn("total 3.00"), now)
    assert mismatch is not None
    assert mismatch.region == Region(319, 199, 320, 200)
    assert mismatch_of(drawn("a"), np.zeros((10, 10), np.uint32)) is not None


def test_surroundings_are_of_points_and_on_the_screen() -> None:
    assert surroundings(Click(0, 0), SIZE) == (Region(0, 0, 120, 40),)
    assert surroundings(TypeText("a", 319, 199), SIZE) == (Region(199, 159, 320, 200),)
    assert len(surroundings(Drag(10, 10, 200, 100), SIZE)) == 2
    assert surroundings(KeyCombo(("enter",)), SIZE) == surroundings(TypeText("a"), SIZE) == ()


def test_redacted_box_is_left_out_and_nothing_beside_it() -> None:
    box = Region(15, 25, 100, 50)
    screen = Screen(redacted=(box,), pixels=lambda: drawn("total 3.00"))
    assert evidence_gate(screen).mismatch(drawn("total 3.01")) is None
    beside = drawn("total 3.00").copy()
    beside[30, 100] = 0
    assert evidence_gate(screen).mismatch(beside) is not None
