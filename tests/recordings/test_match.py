"""Gates: what is seen, what is let through, and what they say."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from drawn import SIZE, drawn

from pytest_vnc_use.recordings.match import gate, other_than, surroundings
from pytest_vnc_use.types import Click, Drag, KeyCombo, Region, TypeText

FAR_AWAY = (200, 150)
"""Where the texts below are not."""


@pytest.mark.parametrize(("recorded", "now"), [("total 3.00", "total 3.01"), ("0 1", "0 l"), (".", ","), ("a", "á")])
def test_one_character_of_what_a_step_changed_is_seen(recorded: str, now: str) -> None:
    closed = gate(drawn(""), drawn(recorded), ()).mismatch(drawn(now))
    assert closed is not None
    assert "what the step before changed is not as it was then" in closed.problem
    assert closed.region.left >= 18


def test_one_shade_of_one_pixel_is_seen() -> None:
    now = drawn("total 3.00")
    now = now.copy()
    now[35, 25] ^= 1
    closed = gate(drawn(""), drawn("total 3.00"), ()).mismatch(now)
    assert closed is not None
    assert closed.region == Region(25, 35, 26, 36)
    assert "(1 pixel)" in closed.problem


def test_the_same_picture_never_drifts() -> None:
    for text in ("total 3.00", "ÄÖÜ", "x" * 40):
        assert gate(drawn(""), drawn(text), (), (Region(0, 0, 320, 200),)).mismatch(drawn(text)) is None


def test_the_targets_surroundings_are_compared_though_no_step_changed_them() -> None:
    targets = surroundings(Click(30, 35), SIZE)
    closed = gate(drawn("Add"), drawn("Add"), (), targets).mismatch(drawn("Sub"))
    assert closed is not None
    assert closed.problem.startswith("the surroundings of its target look different")
    assert gate(drawn("Add"), drawn("Add"), (), surroundings(Click(*FAR_AWAY), SIZE)).mismatch(drawn("Sub")) is None


def test_the_rest_may_differ_up_to_a_limit() -> None:
    before = now = drawn("Add")
    open_gate = gate(before, before, (), surroundings(Click(*FAR_AWAY), SIZE))
    for share, is_open in ((0.04, True), (0.06, False)):
        now = before.copy()
        now[: int(200 * share), :] = 0x123456
        assert (open_gate.mismatch(now) is None) == is_open, share


def test_all_of_a_first_screen_must_be_as_it_was_but_what_moves() -> None:
    first = gate(None, drawn("pasword"), ())
    assert first.mismatch(drawn("pasword")) is None
    closed = first.mismatch(drawn("password"))
    assert closed is not None
    assert "before anything was done" in closed.problem
    assert json.loads(f"{{{closed.mask}}}") == {"masks": [asdict(closed.region)]}
    assert gate(None, drawn("pasword"), (closed.region,)).mismatch(drawn("password")) is None
    beside = replace(closed.region, left=SIZE[0] - 32, right=SIZE[0])
    assert first.mismatch(drawn("password"), (closed.region,)) is None
    assert first.mismatch(drawn("password"), (beside,)) is not None


def test_of_a_clock_the_hours_may_be_other_too() -> None:
    first = gate(None, drawn("09:41:07"), ())
    seconds, below = Region(64, 0, 96, 64), Region(64, 64, 96, 96)
    assert first.mismatch(drawn("16:20:30"), (seconds,)) is None
    assert first.mismatch(drawn("16:20:30"), (below,)) is not None


def test_a_caret_that_was_recorded_hides_nothing_of_the_text_beside_it() -> None:
    caret, tile = Region(75, 30, 77, 45), Region(64, 0, 96, 64)
    first = gate(None, drawn("pasword"), (caret,))
    assert first.mismatch(drawn("password"), (tile,)) is not None
    blinked = drawn("pasword").copy()
    blinked[30:45, 75:77] ^= 0xFFFFFF
    assert first.mismatch(blinked, (tile,)) is None


def test_a_first_screen_that_moves_as_a_whole_is_another() -> None:
    moved = gate(None, drawn("a"), ()).mismatch(drawn("a") ^ 1, (Region(0, 0, *SIZE),))
    assert moved is not None
    assert "100% of the screen" in moved.problem


CARET, MOVED = Region(20, 30, 21, 44), Region(27, 30, 28, 44)


def test_where_only_a_caret_moved_it_must_have_come_there() -> None:
    screen = drawn("Add")
    opened = gate(screen, screen, (MOVED,), left_out_before=(CARET,))
    assert (opened.tells, opened.caret) == (True, MOVED)
    came = screen.copy()
    came[30:44, 27] ^= 0xFFFFFF
    gone = screen.copy()
    gone[30:44, 20] ^= 0xFFFFFF
    assert opened.mismatch(came, (), screen) is None
    for still in (screen, gone):
        closed = opened.mismatch(still, (), screen)
        assert closed is not None
        assert (closed.problem, closed.region) == ("the caret has not come to where the step before moved it", MOVED)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ((CARET,), (CARET,)),
        ((), (MOVED,)),
        ((CARET,), ()),
        ((CARET,), (MOVED, Region(90, 30, 91, 44))),
        ((CARET,), (Region(27, 30, 59, 62),)),
        ((Region(10, 20, 42, 52),), (MOVED,)),
    ],
)
def test_what_moves_by_itself_does_not_tell_that_a_step_was_done(
    before: tuple[Region, ...], now: tuple[Region, ...]
) -> None:
    blinked = drawn("Add").copy()
    for part in before:
        blinked[part.top : part.bottom, part.left : part.right] ^= 0xFFFFFF
    opened = gate(blinked, drawn("Add"), now, left_out_before=before)
    assert opened.changed.any() == bool(before)
    assert (opened.tells, opened.caret) == (False, None)


def test_where_more_than_a_caret_changed_the_rest_tells() -> None:
    opened = gate(drawn("Add"), drawn("Added"), (MOVED,), left_out_before=(CARET,))
    assert (opened.tells, opened.caret) == (True, None)


def test_what_is_left_out_is_not_compared() -> None:
    left_out = (Region(15, 25, 100, 50),)
    assert gate(drawn(""), drawn("total 3.00"), left_out).mismatch(drawn("total 3.01")) is None
    assert other_than(drawn("total 3.00"), drawn("total 3.01"), left_out) is None


def test_evidence_is_the_whole_screen() -> None:
    now = drawn("total 3.00").copy()
    now[199, 319] ^= 1
    mismatch = other_than(drawn("total 3.00"), now, ())
    assert mismatch is not None
    assert mismatch.region == Region(319, 199, 320, 200)
    assert other_than(drawn("a"), np.zeros((10, 10), np.uint32), ()) is not None


def test_surroundings_are_of_points_and_on_the_screen() -> None:
    assert surroundings(Click(0, 0), SIZE) == (Region(0, 0, 120, 40),)
    assert surroundings(TypeText("a", 319, 199), SIZE) == (Region(199, 159, 320, 200),)
    assert len(surroundings(Drag(10, 10, 200, 100), SIZE)) == 2
    assert surroundings(KeyCombo(("enter",)), SIZE) == surroundings(TypeText("a"), SIZE) == ()
