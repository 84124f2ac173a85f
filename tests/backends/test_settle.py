"""A screen settles when it has answered and is quiet, whatever blinks or spins on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from vnc_servers import VncServer
from witnesses import xterm

from pytest_vnc_use.backends.activity import Activity
from pytest_vnc_use.backends.settle import Mark, SettleRules, judge
from pytest_vnc_use.backends.vnc import VNCController

Connect = Callable[..., VNCController]
RULES = SettleRules()
WHOLE = np.ones((10, 10), np.bool_)


def seen(*changes: tuple[int, int, float]) -> Activity:
    """What is known after changes of 10 x 10 pixels, each with its corner and its time."""
    activity = Activity(320, 320)
    for x, y, now_s in changes:
        activity.add(x, y, WHOLE, now_s)
    return activity


def test_without_a_change_it_waits_for_the_first() -> None:
    judgement = judge(seen(), Mark(10.0, 10.02), RULES)
    assert (judgement.reason, judgement.at_s) == ("nothing_changed", 10.5)


def test_a_long_action_is_waited_out_and_a_quiet_time_more() -> None:
    assert judge(seen(), Mark(10.0, 14.0), RULES).at_s == pytest.approx(14.2)
    assert judge(seen((0, 0, 11.0)), Mark(10.0, 14.0), RULES).at_s == pytest.approx(14.2)


def test_each_change_begins_the_quiet_anew() -> None:
    assert judge(seen((0, 0, 10.1)), Mark(10.0, 10.0), RULES).at_s == pytest.approx(10.3)
    assert judge(seen((0, 0, 10.1), (99, 99, 10.2)), Mark(10.0, 10.0), RULES).at_s == pytest.approx(10.4)


def test_a_change_before_the_action_is_not_its_answer() -> None:
    assert judge(seen((0, 0, 9.9)), Mark(10.0, 10.0), RULES).reason == "nothing_changed"


def test_an_animated_tile_is_left_out() -> None:
    spinner = [(0, 0, 10.0 + number * 0.05) for number in range(7)]
    assert judge(seen(*spinner), Mark(10.0, 10.0), RULES).reason == "animated"
    answered = judge(seen((100, 100, 10.1), *spinner), Mark(10.0, 10.0), RULES)
    assert (answered.reason, answered.at_s) == ("animated", pytest.approx(10.3))


@pytest.mark.parametrize(("count", "span_s"), [(5, 1.0), (20, 0.2)])
def test_few_or_quick_changes_are_no_animation(count: int, span_s: float) -> None:
    changes = [(0, 0, 10.0 + span_s * number / (count - 1)) for number in range(count)]
    judgement = judge(seen(*changes), Mark(10.0, 10.0), RULES)
    assert (judgement.reason, judgement.at_s) == ("settled", pytest.approx(10.2 + span_s))


def test_changes_are_counted_in_every_tile_they_touch() -> None:
    activity = Activity(100, 70)
    changed = np.zeros((40, 60), np.bool_)
    changed[0, 0] = changed[39, 59] = True
    for now_s in range(6):
        activity.add(20, 30, changed, float(now_s))
    expected = np.zeros((3, 4), np.bool_)
    expected[0, 0] = expected[2, 2] = True
    assert np.array_equal(activity.animated(6, 1.0), expected)
    assert np.array_equal(np.isfinite(activity._last_s), expected)


def test_a_key_in_xterm(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "exec cat"):
        hands = connected(tigervnc)
        hands.click(100, 100)
        hands.settle()
        hands.type_text("a")
        settled = hands.settle()
        assert settled.reason == "settled"
        assert settled.duration_s < 0.4


def test_output_that_comes_late_is_waited_for(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "stty -echo; while read line; do sleep 0.35; seq 3; sleep 0.15; seq 3; done"):
        hands = connected(tigervnc)
        hands.click(100, 100)
        hands.settle()
        hands.key_combo("enter")
        assert hands.settle().reason == "settled"
        frame = hands.frame()
        hands.wait(0.5)
        assert hands.frame() == frame


def test_a_blinking_cursor_does_not_hold_it_up(tigervnc: VncServer, connected: Connect) -> None:
    blinking = r"printf '\033[?12h'; exec cat"
    with xterm(tigervnc, blinking):
        hands = connected(tigervnc)
        hands.click(100, 100)
        hands.settle()
        for _ in range(4):
            hands.type_text("a")
            assert hands.settle().duration_s < 1.0


def test_a_spinner_does_not_hold_it_up(tigervnc: VncServer, connected: Connect) -> None:
    spinner = r"while true; do for c in / - '\' '|'; do printf '\r%s' $c; sleep 0.02; done; done"
    with xterm(tigervnc, spinner):
        hands = connected(tigervnc)
        hands.click(600, 300)
        settled = hands.settle()
        assert settled.reason == "animated"
        assert settled.duration_s < 1.5


def test_what_never_rests_ends_at_the_limit(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "n=0; while true; do n=$((n+1)); seq $n $((n+30)); sleep 0.1; done"):
        hands = connected(tigervnc, settle_rules=SettleRules(animated_updates=10_000, limit_s=1.0))
        hands.move(600, 300)
        settled = hands.settle()
        assert settled.reason == "limit"
        assert 0.9 < settled.duration_s < 1.5
