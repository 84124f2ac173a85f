"""A screen settles when it has answered and is quiet, whatever blinks or spins on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.backends.screen import ActionWindow, Activity, SettleRules, decide
from pytest_vnc_use.backends.vnc import VNCController
from support import vnc_servers
from support.vnc_servers import VncServer
from support.witness_programs import xterm

Connect = Callable[..., VNCController]
RULES = SettleRules()
WHOLE = np.ones((10, 10), np.bool_)


Change = tuple[int, int, float]


def seen(*changes: Change) -> Activity:
    """Return the observed changes of 10 x 10 pixels, each with its corner and its time."""
    activity = Activity(320, 320)
    for x, y, now_s in changes:
        activity.add(x, y, WHOLE, now_s)
    return activity


ACTION = ActionWindow(10.0, 10.0)
LONG = ActionWindow(10.0, 14.0)
PRESSED = ActionWindow(10.0, 10.0, (100, 100))
ENTERED = ActionWindow(10.0, 10.0, entered=True)
ANY = SettleRules(any_change=True)
BRIEFLY = RULES.shortened()
PATIENT_ON_DESKTOP = SettleRules(first_change_s=10.0, limit_s=30.0)
"""Waits for a change however slow the machine is, but not longer than the change takes."""
PATIENT = SettleRules(first_change_s=2.0, quiet_s=1.0)
SPINNER = [(0, 0, 10.0 + number * 0.05) for number in range(9)]
FEW = [(0, 0, 10.0 + 0.2 * number) for number in range(5)]
QUICK = [(0, 0, 10.0 + 0.3 * number / 19) for number in range(20)]
LINE, CARET_BELOW = (10, 100, 10.01), (10, 120, 10.02)
DECISIONS: list[tuple[str, list[Change], ActionWindow, SettleRules, float, str, float]] = [
    ("first change is awaited", [], ACTION, RULES, 10.1, "nothing_changed", 10.5),
    ("long action and a quiet time", [], LONG, RULES, 14.0, "nothing_changed", 14.2),
    ("change in a long action", [(0, 0, 11.0)], LONG, RULES, 14.0, "settled", 14.2),
    ("quiet after a change", [(0, 0, 10.1)], ACTION, RULES, 10.2, "settled", 10.3),
    ("quiet after the last change", [(0, 0, 10.1), (99, 99, 10.2)], ACTION, RULES, 10.2, "settled", 10.4),
    ("change before the action", [(0, 0, 9.9)], ACTION, RULES, 10.0, "nothing_changed", 10.5),
    ("animation that began", SPINNER, ACTION, RULES, 10.4, "animated", 10.5),
    ("answer beside it", [(100, 100, 10.1), *SPINNER], ACTION, RULES, 10.4, "animated", 10.3),
    ("few changes", FEW, ACTION, RULES, 10.8, "settled", 11.0),
    ("quick changes", QUICK, ACTION, RULES, 10.3, "settled", 10.5),
    ("pressed button", [(90, 90, 10.02)], PRESSED, RULES, 10.1, "settled", 10.5),
    ("pressed button, late", [(90, 90, 10.4)], PRESSED, RULES, 10.4, "settled", 10.6),
    ("its answer", [(90, 90, 10.02), (90, 200, 10.03)], PRESSED, RULES, 10.1, "settled", 10.23),
    ("pressed button is enough", [(90, 90, 10.02)], PRESSED, ANY, 10.1, "settled", 10.22),
    ("entered line", [LINE, CARET_BELOW], ENTERED, RULES, 10.1, "settled", 10.5),
    ("line that was not entered", [LINE, CARET_BELOW], ACTION, RULES, 10.1, "settled", 10.22),
    ("entered line is enough", [LINE, CARET_BELOW], ENTERED, ANY, 10.1, "settled", 10.22),
    ("answer above the line", [LINE, (10, 10, 10.3)], ENTERED, RULES, 10.3, "settled", 10.5),
    ("answer below the line", [LINE, (200, 250, 10.3)], ENTERED, RULES, 10.3, "settled", 10.5),
    ("early answer", [LINE, (10, 250, 10.05)], ENTERED, RULES, 10.1, "settled", 10.25),
    ("brief wait for a change", [], ACTION, BRIEFLY, 10.0, "nothing_changed", 10.3),
    ("brief quiet", [(0, 0, 10.1)], ACTION, BRIEFLY, 10.1, "settled", 10.2),
    ("first change by a setting", [], ACTION, PATIENT, 10.0, "nothing_changed", 12.0),
    ("quiet by a setting", [(0, 0, 10.5)], ACTION, PATIENT, 10.5, "settled", 11.5),
]


@pytest.mark.parametrize(
    ("changes", "window", "rules", "now_s", "reason", "at_s"),
    [case[1:] for case in DECISIONS],
    ids=[case[0] for case in DECISIONS],
)
def test_decide_gives_reason_and_time(
    changes: list[Change], window: ActionWindow, rules: SettleRules, now_s: float, reason: str, at_s: float
) -> None:
    assert decide(seen(*changes), window, rules, now_s) == (reason, pytest.approx(at_s))


def test_known_motion_is_no_answer() -> None:
    activity = seen(*SPINNER)
    activity.learn(10.5)
    activity.restart()
    activity.add(0, 0, WHOLE, 10.6)
    assert decide(activity, ActionWindow(10.5, 10.5), RULES, 10.6) == ("nothing_changed", pytest.approx(11.0))
    activity.add(100, 100, WHOLE, 10.6)
    assert decide(activity, ActionWindow(10.5, 10.5), RULES, 10.6)[0] == "animated"


@pytest.mark.parametrize("interval_s", [0.5, 1.0])
def test_caret_or_clock_is_known_after_four_changes(interval_s: float) -> None:
    ticks = [(0, 0, 10.0 + interval_s * number) for number in range(4)]
    assert not seen(*ticks[:3]).moving(ticks[2][2]).any()
    assert seen(*ticks).moving(ticks[3][2])[0, 0]


def test_what_came_to_rest_has_changed() -> None:
    activity = seen(*SPINNER)
    assert activity.moving(11.8)[0, 0]
    assert not activity.moving(12.0).any()
    activity.learn(11.8)
    activity.add(0, 0, WHOLE, 13.0)
    assert not activity.moving(13.0).any()


def test_motion_beside_entered_line_is_no_answer() -> None:
    activity = seen(*SPINNER)
    activity.learn(10.5)
    activity.restart()
    activity.add(10, 290, WHOLE, 10.51)
    activity.add(0, 0, WHOLE, 10.55)
    assert decide(activity, ActionWindow(10.5, 10.5, entered=True), RULES, 10.6)[1] == pytest.approx(11.0)


def test_text_beside_caret_is_no_blink() -> None:
    activity = Activity(320, 320)
    caret = np.ones((18, 1), np.bool_)
    for number in range(5):
        activity.add(4, 4, caret, 10.0 + number * 0.5)
    activity.learn(12.1)
    activity.restart()
    activity.add(4, 4, WHOLE, 12.2)
    assert decide(activity, ActionWindow(12.1, 12.1), RULES, 12.2)[0] == "settled"


def test_changes_are_counted_in_every_tile_they_touch() -> None:
    activity = Activity(100, 70)
    changed = np.zeros((40, 60), np.bool_)
    changed[0, 0] = changed[39, 59] = True
    for now_s in range(4):
        activity.add(20, 30, changed, float(now_s))
    expected = np.zeros((3, 4), np.bool_)
    expected[0, 0] = expected[2, 2] = True
    assert np.array_equal(activity.moving(3.0), expected)
    assert np.array_equal(np.isfinite(activity.last_s), expected)


def test_settle_ends_soon_after_answer(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "exec cat"):
        hands = connected(tigervnc, settle_rules=PATIENT_ON_DESKTOP)
        hands.click(100, 100)
        hands.type_text("a")
        settled = hands.settle()
        assert settled.reason == "settled"
        assert settled.duration_s < 5.0


@pytest.mark.desktop
@pytest.mark.parametrize("begin", ["move", "click"])
def test_pointer_that_leaves_image_is_no_answer(connected: Connect, begin: str) -> None:
    """TigerVNC draws it into the screen of a client that has not moved it yet."""
    with vnc_servers.tigervnc() as server:
        server.output_of("xsetroot", "-solid", "black", "-cursor_name", "left_ptr")
        hands = connected(server)
        assert not hands.screen.only_colour(0.1)
        getattr(hands, begin)(10, 10)
        assert hands.settle().reason == "nothing_changed"
        assert hands.screen.only_colour(0.1) == "#000000"


def test_late_output_is_waited_for(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "stty -echo; while read line; do sleep 0.35; seq 3; sleep 0.15; seq 3; done"):
        hands = connected(tigervnc, settle_rules=PATIENT_ON_DESKTOP)
        hands.click(100, 100)
        hands.key_combo("enter")
        assert hands.settle().reason == "settled"
        frame = hands.frame()
        hands.wait(0.5)
        assert hands.frame() == frame


@pytest.mark.parametrize(
    "enter",
    [
        lambda hands: hands.type_text("a\n"),
        lambda hands: hands.type_text("a", press_enter=True),
        lambda hands: hands.key_combo("kp_enter"),
    ],
    ids=["line feed", "press enter", "number pad"],
)
def test_command_is_answered_by_more_than_its_echo(
    tigervnc: VncServer, connected: Connect, tmp_path: Path, enter: Callable[[VNCController], None]
) -> None:
    answered = tmp_path / "answered"
    with xterm(tigervnc, f"while read line; do sleep 1; touch {answered}; seq 20; done"):
        hands = connected(tigervnc, settle_rules=PATIENT_ON_DESKTOP)
        hands.click(100, 100)
        enter(hands)
        hands.settle()
        assert answered.exists()


def test_what_never_rests_ends_at_limit(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "n=0; while true; do n=$((n+1)); seq $n $((n+30)); sleep 0.1; done"):
        hands = connected(tigervnc, settle_rules=SettleRules(quiet_s=0.5, limit_s=0.3))
        hands.move(600, 300)
        settled = hands.settle()
        assert settled.reason == "limit"
        assert 0.25 < settled.duration_s < 4.0
