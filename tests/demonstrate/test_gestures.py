"""What a user did, event by event, and the actions that it comes to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_vnc_use.demonstrate.gestures import (
    AGAIN_S,
    LONG_S,
    PAUSE_S,
    Demonstration,
    Motion,
)
from pytest_vnc_use.types import (
    Action,
    Button,
    Click,
    DesktopAction,
    Drag,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TypeText,
)

Events = Sequence[tuple[Motion, float]]


def shown(*events: tuple[Motion, float]) -> tuple[list[Action], list[DesktopAction]]:
    """The actions, and what was done on the desktop, until the user is gone."""
    demonstration = Demonstration()
    done = list[DesktopAction]()
    for motion, at_s in events:
        done += [action.action for action in demonstration.actions(motion, at_s)]
    done += [action.action for action in demonstration.end(100.0)]
    return [step.action for step in demonstration.steps], done


def press(
    x: int, y: int, at_s: float, button: Button = "left", held_s: float = 0.1
) -> list[tuple[Motion, float]]:
    return [(MouseDown(x, y, button), at_s), (MouseUp(x, y, button), at_s + held_s)]


def presses(count: int, every_s: float) -> list[tuple[Motion, float]]:
    events: list[tuple[Motion, float]] = []
    for number in range(count):
        events += press(10 + number, 20, number * every_s)
    return events


def typed(text: str, at_s: float = 0.0) -> list[tuple[Motion, float]]:
    events: list[tuple[Motion, float]] = []
    for character in text:
        keys = ["shift", character] if character.isupper() else [character]
        events += struck(*keys, at_s=at_s)
    return events


def struck(*keys: str, at_s: float = 0.0) -> list[tuple[Motion, float]]:
    """Press keys together, in order, and release them in reverse."""
    motions = [*map(KeyDown, keys), *map(KeyUp, reversed(keys))]
    return [(motion, at_s) for motion in motions]


def notch(direction: str, at_s: float) -> tuple[Motion, float]:
    return Scroll(10, 20, direction, 1), at_s  # type: ignore[arg-type]


def combo(*keys: str) -> KeyCombo:
    return KeyCombo(keys)


RIGHT = press(10, 20, 0.0, "right")
LONG = press(10, 20, 0.0, held_s=LONG_S)
WITH_CONTROL = [
    (KeyDown("control"), 0.0),
    *press(10, 20, 0.1),
    *press(10, 90, 0.9),
    (KeyUp("control"), 1.5),
]
TURNED = [
    notch("down", 0.0),
    notch("down", 0.4),
    notch("down", 0.5 + PAUSE_S),
    notch("up", 0.5 + PAUSE_S),
]
ONE = Click(10, 20)
TWO = Click(10, 20, count=2)
TABLE: dict[str, tuple[Events, list[Action]]] = {
    "click": (press(10, 20, 0.0), [ONE]),
    "right click": (RIGHT, [Click(10, 20, "right")]),
    "shaking hand": (
        [(MouseDown(10, 20), 0.0), (Move(13, 22), 0.05), (MouseUp(12, 22), 0.1)],
        [ONE],
    ),
    "double click": (presses(2, AGAIN_S / 2), [TWO]),
    "triple click and one": (presses(4, 0.1), [Click(10, 20, count=3), Click(13, 20)]),
    "clicks apart": (presses(2, AGAIN_S + 0.1), [ONE, Click(11, 20)]),
    "click of other button": (
        [*press(10, 20, 0.0), *press(10, 20, 0.2, "right")],
        [ONE, Click(10, 20, "right")],
    ),
    "key between": (
        [*press(10, 20, 0.0), *struck("f5", at_s=0.1), *press(10, 20, 0.2)],
        [ONE, combo("f5"), ONE],
    ),
    "long press": (LONG, [motion for motion, _ in LONG]),
    "second button": (
        [
            (MouseDown(10, 20), 0.0),
            *press(10, 20, 0.1, "right"),
            (MouseUp(10, 20), 0.3),
        ],
        [ONE],
    ),
    "wheel": (
        TURNED,
        [Scroll(10, 20, "down", 2), Scroll(10, 20, "down", 1), Scroll(10, 20, "up", 1)],
    ),
    "held key": (
        WITH_CONTROL,
        [KeyDown("control"), ONE, Click(10, 90), KeyUp("control")],
    ),
    "text": ([*typed("Ab"), *typed("çł ", 0.9 * PAUSE_S)], [TypeText("Abçł ")]),
    "text after pause": (
        [*typed("ab"), (Move(9, 9), 0.9 * PAUSE_S), *typed("x", PAUSE_S)],
        [TypeText("ab"), TypeText("x")],
    ),
    "backspace after pause": (
        [*typed("ab"), *struck("backspace", at_s=PAUSE_S)],
        [TypeText("ab"), combo("backspace")],
    ),
    "text around click": (
        [*typed("a"), *press(1, 2, 0.0), *typed("b")],
        [TypeText("a"), Click(1, 2), TypeText("b")],
    ),
    "enter": (
        [*typed("ab"), *struck("return"), *typed("c")],
        [TypeText("ab"), combo("return"), TypeText("c")],
    ),
    "deleted": ([*typed("abx"), *struck("backspace"), *typed("c")], [TypeText("abc")]),
    "altgr": (
        [(KeyDown("altgr"), 0.0), *typed("@"), (KeyUp("altgr"), 0.1)],
        [TypeText("@")],
    ),
    "repeating key": (
        [(KeyDown("left"), 0.0), (KeyDown("left"), 0.1), (KeyUp("left"), 0.2)],
        [combo("left")] * 2,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_events_become_actions(name: str) -> None:
    events, actions = TABLE[name]
    assert shown(*events)[0] == actions


@pytest.mark.parametrize("key", ["backspace", "tab", "f5", "kpenter"])
def test_key_struck_twice_is_two_actions(key: str) -> None:
    recorded, _ = shown(*struck(key), *struck(key))
    assert recorded == [combo(key), combo(key)]


@pytest.mark.parametrize(
    ("keys", "recorded"),
    [
        (("shift", "control", "P"), combo("control", "shift", "p")),
        (("shift", "tab"), combo("shift", "tab")),
        (("alt", " "), combo("alt", "space")),
        (("alt",), combo("alt")),
    ],
)
def test_keys_between_texts_are_combination(
    keys: tuple[str, ...], recorded: KeyCombo
) -> None:
    actions, _ = shown(*typed("a"), *struck(*keys), *typed("b"))
    assert actions == [TypeText("a"), recorded, TypeText("b")]


@pytest.mark.parametrize("key", ["shift", "control", "altgr", "capslock", "numlock"])
def test_modifier_alone_between_texts_is_nothing(key: str) -> None:
    actions, _ = shown(*typed("a"), *struck(key), *typed("b"))
    assert actions == [TypeText("ab")]


def test_pointer_that_only_moves_is_nothing() -> None:
    recorded, done = shown((Move(10, 20), 0.0), (Move(30, 40), 1.0))
    assert recorded == []
    assert done == []


def test_desktop_receives_keys_at_once() -> None:
    _, done = shown(*typed("aB"))
    assert done == [TypeText("a"), TypeText("B")]


def test_desktop_receives_each_move_of_drag() -> None:
    moves = [MouseDown(10, 20), Move(60, 40), Move(110, 60), MouseUp(110, 60)]
    recorded, done = shown(*((move, 0.1 * at) for at, move in enumerate(moves)))
    assert recorded == [Drag(10, 20, 110, 60)]
    assert done == moves


def test_user_who_is_gone_holds_nothing() -> None:
    recorded, done = shown(
        (KeyDown("control"), 0.0), (MouseDown(10, 20), 0.1), (Move(90, 20), 0.2)
    )
    assert recorded == [KeyDown("control"), Drag(10, 20, 90, 20), KeyUp("control")]
    assert done[-2:] == [MouseUp(90, 20), KeyUp("control")]


@pytest.mark.parametrize(
    ("detour", "after_s", "is_exact"),
    [
        ((60, 45), 0.1, True),
        ((60, 140), 0.1, False),
        ((60, 45), PAUSE_S, False),
    ],
)
def test_drag_that_differs_from_plain_is_inexact(
    detour: tuple[int, int], after_s: float, is_exact: bool
) -> None:
    demonstration = Demonstration()
    list(demonstration.actions(MouseDown(10, 20), 9.0))
    list(demonstration.actions(Move(*detour), 9.0 + after_s))
    list(demonstration.actions(MouseUp(110, 60), 9.0 + 2 * after_s))
    (step,) = demonstration.steps
    assert (step.action, step.is_exact) == (Drag(10, 20, 110, 60), is_exact)


@pytest.mark.parametrize(
    ("events", "left"),
    [
        (typed("ab"), [TypeText("a")]),
        (typed("a"), []),
        ([*typed("a"), *struck("0xfe51")], [TypeText("a")]),
    ],
)
def test_refused_action_is_taken_back(events: Events, left: list[Action]) -> None:
    demonstration = Demonstration()
    gestures = []
    for motion, at_s in events:
        gestures += demonstration.actions(motion, at_s)
    demonstration.take_back(gestures[-1].action)
    assert [step.action for step in demonstration.steps] == left
