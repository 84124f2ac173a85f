"""What a person did, event by event, and the actions that it comes to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_vnc_use.demonstrate.gestures import AGAIN_S, LONG_S, PAUSE_S, Demonstration, Motion
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
    """The actions, and what was done on the desktop, until the person is gone."""
    demonstration, done = Demonstration(), list[DesktopAction]()
    for motion, at_s in events:
        done += [action.action for action in demonstration.actions(motion, at_s)]
    done += [action.action for action in demonstration.end(100.0)]
    return [step.action for step in demonstration.steps], done


def actions(*events: tuple[Motion, float]) -> list[Action]:
    return shown(*events)[0]


def press(x: int, y: int, at_s: float, button: Button = "left", held_s: float = 0.1) -> list[tuple[Motion, float]]:
    return [(MouseDown(x, y, button), at_s), (MouseUp(x, y, button), at_s + held_s)]


def typed(text: str, at_s: float = 0.0) -> list[tuple[Motion, float]]:
    events: list[tuple[Motion, float]] = []
    for character in text:
        shift: list[tuple[Motion, float]] = [(KeyDown("shift"), at_s)] if character.isupper() else []
        events += [*shift, (KeyDown(character), at_s), (KeyUp(character), at_s)]
        events += [(KeyUp("shift"), at_s)] if shift else []
    return events


def struck(*keys: str, at_s: float = 0.0) -> list[tuple[Motion, float]]:
    return [(KeyDown(key), at_s) for key in keys] + [(KeyUp(key), at_s) for key in reversed(keys)]


# --- the pointer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("button", ["left", "middle", "right"])
def test_a_press_is_a_click(button: Button) -> None:
    assert actions(*press(10, 20, 0.0, button)) == [Click(10, 20, button)]


def test_hovering_is_nothing_and_moves_nothing() -> None:
    assert shown((Move(10, 20), 0.0), (Move(30, 40), 1.0)) == ([], [])


def test_a_hand_that_shakes_clicks() -> None:
    assert actions((MouseDown(10, 20), 0.0), (Move(13, 22), 0.05), (MouseUp(12, 22), 0.1)) == [Click(10, 20)]


@pytest.mark.parametrize("count", [2, 3])
def test_clicks_that_follow_at_once_are_one(count: int) -> None:
    clicks = [event for number in range(count) for event in press(10 + number, 20, number * AGAIN_S / 2)]
    assert actions(*clicks) == [Click(10, 20, count=count)]


@pytest.mark.parametrize(
    ("second", "clicks"),
    [
        (press(10, 20, AGAIN_S + 0.1), [Click(10, 20), Click(10, 20)]),
        (press(30, 20, 0.2), [Click(10, 20), Click(30, 20)]),
        (press(10, 20, 0.2, "right"), [Click(10, 20), Click(10, 20, "right")]),
        ([*struck("f5", at_s=0.1), *press(10, 20, 0.2)], [Click(10, 20), KeyCombo(("f5",)), Click(10, 20)]),
    ],
    ids=["later", "elsewhere", "another button", "a key between"],
)
def test_other_clicks_are_several(second: Events, clicks: list[Action]) -> None:
    assert actions(*press(10, 20, 0.0), *second) == clicks


def test_a_fourth_click_begins_anew() -> None:
    assert actions(*(event for number in range(4) for event in press(10, 20, number * 0.1))) == [
        Click(10, 20, count=3),
        Click(10, 20),
    ]


def test_a_way_with_the_left_button_is_a_drag() -> None:
    way = [(MouseDown(10, 20), 0.0), (Move(60, 40), 0.1), (Move(110, 60), 0.2), (MouseUp(110, 60), 0.3)]
    assert shown(*way) == ([Drag(10, 20, 110, 60)], [event for event, _ in way])


@pytest.mark.parametrize(
    ("detour", "after_s", "is_exact"),
    [((60, 45), 0.1, True), ((60, 140), 0.1, False), ((60, 45), PAUSE_S, False)],
    ids=["straight", "bent", "held still"],
)
def test_drag_that_differs_from_plain_is_inexact(detour: tuple[int, int], after_s: float, is_exact: bool) -> None:
    demonstration = Demonstration()
    for number, motion in enumerate((MouseDown(10, 20), Move(*detour), MouseUp(110, 60))):
        list(demonstration.actions(motion, 9.0 + number * after_s))
    assert demonstration.steps[0].is_exact == is_exact
    assert demonstration.steps[0].action == Drag(10, 20, 110, 60)


@pytest.mark.parametrize(
    "held",
    [
        [(MouseDown(10, 20, "right"), 0.0), (MouseUp(90, 20, "right"), 0.1)],
        [(MouseDown(10, 20), 0.0), (MouseUp(10, 20), LONG_S)],
    ],
    ids=["another button that moves", "long"],
)
def test_what_no_click_and_no_drag_can_do_is_two_actions(held: Events) -> None:
    assert actions(*held) == [motion for motion, _ in held]


def test_notches_that_follow_at_once_are_one_turn() -> None:
    def notch(direction: str, at_s: float) -> tuple[Motion, float]:
        return Scroll(10, 20, direction, 1), at_s  # type: ignore[arg-type]

    later = 0.5 + PAUSE_S
    assert actions(
        notch("down", 0.0), notch("down", 0.2), notch("down", 0.4), notch("down", later), notch("up", later)
    ) == [
        Scroll(10, 20, "down", 3),
        Scroll(10, 20, "down", 1),
        Scroll(10, 20, "up", 1),
    ]


def test_a_key_that_is_held_while_clicking_is_held_on_the_desktop() -> None:
    events = [(KeyDown("control"), 0.0), *press(10, 20, 0.1), *press(10, 90, 0.9), (KeyUp("control"), 1.5)]
    assert actions(*events) == [KeyDown("control"), Click(10, 20), Click(10, 90), KeyUp("control")]


def test_whoever_is_gone_holds_nothing() -> None:
    events = [(KeyDown("control"), 0.0), (MouseDown(10, 20), 0.1), (Move(90, 20), 0.2)]
    folded, done = shown(*events)
    assert folded == [KeyDown("control"), Drag(10, 20, 90, 20), KeyUp("control")]
    assert done[-2:] == [MouseUp(90, 20), KeyUp("control")]


def test_a_second_button_does_nothing() -> None:
    both = [(MouseDown(10, 20), 0.0), *press(10, 20, 0.1, "right"), (MouseUp(10, 20), 0.3)]
    assert actions(*both) == [Click(10, 20)]


# --- the keyboard ----------------------------------------------------------------------------------------------------


def test_typing_without_pause_is_one_text() -> None:
    assert actions(*typed("Ab", 0.0), *typed("çł ", 0.9 * PAUSE_S)) == [TypeText("Abçł ")]


@pytest.mark.parametrize("key", ["x", "backspace"])
def test_key_after_pause_is_its_own_action(key: str) -> None:
    shaken: tuple[Motion, float] = (Move(9, 9), 0.9 * PAUSE_S)
    after = TypeText("x") if key == "x" else KeyCombo((key,))
    assert actions(*typed("ab"), shaken, *struck(key, at_s=PAUSE_S)) == [TypeText("ab"), after]


@pytest.mark.parametrize(
    ("events", "first"),
    [
        (typed("ab"), TypeText("ab")),
        (press(1, 2, 0.0, held_s=0.0), Click(1, 2)),
        ([(Scroll(1, 2, "down", 1), 0.0)], Scroll(1, 2, "down", 1)),
    ],
    ids=["text", "click", "scroll"],
)
def test_closed_action_grows_no_more(events: Events, first: Action) -> None:
    demonstration = Demonstration()
    for again in range(2):
        for motion, at_s in events:
            list(demonstration.actions(motion, at_s + again * 0.1))
        demonstration.close()
    assert [step.action for step in demonstration.steps] == [first, first]


def test_what_is_typed_goes_out_character_by_character() -> None:
    assert shown(*typed("aB"))[1] == [TypeText("a"), TypeText("B")]


def test_enter_is_always_its_own_action() -> None:
    texts = TypeText("ab"), TypeText("c")
    assert actions(*typed("ab"), *struck("return"), *typed("c")) == [texts[0], KeyCombo(("return",)), texts[1]]


def test_what_is_deleted_at_once_was_never_typed() -> None:
    assert actions(*typed("abx"), *struck("backspace"), *typed("c")) == [TypeText("abc")]


def test_the_first_character_of_a_text_stays() -> None:
    """It may have taken the place of what was selected."""
    assert actions(*typed("a"), *struck("backspace")) == [TypeText("a"), KeyCombo(("backspace",))]


@pytest.mark.parametrize("key", ["return", "backspace", "tab", "f5", "kpenter", "escape", "left"])
def test_other_keys_are_for_themselves(key: str) -> None:
    assert actions(*struck(key), *struck(key)) == [KeyCombo((key,))] * 2


@pytest.mark.parametrize(
    ("keys", "combo"),
    [
        (("control", "a"), ("control", "a")),
        (("shift", "control", "P"), ("control", "shift", "p")),
        (("control", "alt", "delete"), ("control", "alt", "delete")),
        (("shift", "tab"), ("shift", "tab")),
        (("alt", " "), ("alt", "space")),
        (("shift", "return"), ("shift", "return")),
        (("alt",), ("alt",)),
        (("super",), ("super",)),
    ],
    ids="+".join,
)
def test_keys_that_are_pressed_together(keys: tuple[str, ...], combo: tuple[str, ...]) -> None:
    assert actions(*typed("a"), *struck(*keys), *typed("b")) == [TypeText("a"), KeyCombo(combo), TypeText("b")]


@pytest.mark.parametrize("key", ["shift", "control", "altgr", "capslock", "numlock"])
def test_keys_that_mean_nothing_alone(key: str) -> None:
    assert shown(*typed("a"), *struck(key), *typed("b"))[0] == [TypeText("ab")]


def test_with_altgr_a_character_is_a_character() -> None:
    assert actions((KeyDown("altgr"), 0.0), *typed("@"), (KeyUp("altgr"), 0.1)) == [TypeText("@")]


def test_a_key_that_repeats_itself_repeats_itself() -> None:
    held: list[tuple[Motion, float]] = [(KeyDown("left"), 0.0), (KeyDown("left"), 0.1), (KeyUp("left"), 0.2)]
    assert actions(*held) == [KeyCombo(("left",))] * 2


def test_whatever_comes_after_a_text_ends_it() -> None:
    assert actions(*typed("a"), *press(1, 2, 0.0), *typed("b")) == [TypeText("a"), Click(1, 2), TypeText("b")]


# --- what begins, and what could not be done -------------------------------------------------------------------------


def test_each_action_begins_once() -> None:
    demonstration, begun = Demonstration(), 0
    events = [*press(1, 2, 0.0), *press(1, 2, 0.2), *typed("ab"), *struck("tab"), *press(1, 2, 5.0)]
    for motion, at_s in events:
        begun += sum(action.begins is not None for action in demonstration.actions(motion, at_s))
    assert begun == len(demonstration.steps) == 4


@pytest.mark.parametrize(
    ("events", "left"),
    [
        (typed("ab"), [TypeText("a")]),
        (typed("a"), []),
        ([*typed("a"), *struck("0xfe51")], [TypeText("a")]),
    ],
    ids=["a character", "the first one", "a key"],
)
def test_what_could_not_be_done_is_taken_back(events: Events, left: list[Action]) -> None:
    demonstration = Demonstration()
    for motion, at_s in events:
        list(demonstration.actions(motion, at_s))
    demonstration.take_back()
    assert [step.action for step in demonstration.steps] == left
