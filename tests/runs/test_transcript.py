"""A run as text: what a step is called, and what a planner that continues after a replay sees."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.runs.transcript import (
    REPLAYED,
    CaptionPart,
    action_in_words,
    action_line,
    caption,
    seen_by_live,
)
from pytest_vnc_use.types import (
    NO_FRAME,
    Action,
    Click,
    Decision,
    Drag,
    KeyCombo,
    MouseDown,
    Move,
    Observation,
    Region,
    Scroll,
    Turn,
    TypeText,
)
from pytest_vnc_use.types.elements import Element, Elements

BOX = Region(0, 0, 9, 9)
BUTTON, FIELD = Element("button", "Sign in", BOX), Element("textbox", "", BOX)
EVIL = 'a"\x1b[31m\u202e\n# b'


@pytest.mark.parametrize(
    ("action", "elements", "words"),
    [
        (Click(1, 2), (BUTTON,), 'click "Sign in" (button)'),
        (Click(1, 2, "right", 2), (BUTTON,), 'right double-click "Sign in" (button)'),
        (Click(1, 2), (), "click at (1, 2)"),
        (Click(1, 2), (None,), "click at (1, 2)"),
        (Click(1, 2), (FIELD,), "click the textbox at (1, 2)"),
        (Click(1, 2), (Element("", "\u200b", BOX),), "click the element at (1, 2)"),
        (MouseDown(1, 2), (BUTTON,), 'press the left button on "Sign in" (button)'),
        (Move(1, 2), (BUTTON,), 'move to "Sign in" (button)'),
        (Scroll(1, 2, "down", 3, "keys"), (BUTTON,), 'scroll down by 3 in "Sign in" (button), by keys'),
        (Drag(1, 2, 3, 4), (BUTTON, None), 'drag "Sign in" (button) to (3, 4)'),
        (Drag(1, 2, 3, 4), (None, BUTTON), 'drag from (1, 2) to "Sign in" (button)'),
        (TypeText("al", press_enter=True), (BUTTON,), 'type "al" in "Sign in" (button), then press Enter'),
        (TypeText("al"), (FIELD,), 'type "al" in the textbox'),
        (TypeText("al"), (), 'type "al"'),
        (KeyCombo(("ctrl", "s")), (BUTTON,), "press ctrl+s"),
        (Click(1, 2), (Element("b\n", EVIL, BOX),), 'click "a\\" [31m # b" (b)'),
    ],
)
def test_action_with_its_elements(action: Action, elements: Elements, words: str) -> None:
    assert action_in_words(action, elements) == words


def test_name_is_part_of_its_own_and_is_cut() -> None:
    assert caption(Click(1, 2), (BUTTON,)) == (
        CaptionPart("click"),
        CaptionPart(" "),
        CaptionPart("Sign in", "name"),
        CaptionPart(" ("),
        CaptionPart("button", "quote"),
        CaptionPart(")"),
    )
    name = caption(Click(1, 2), (Element("b", "x" * 10_000_000, BOX),))[2].text
    assert name.startswith("(the first 200 of 10000000 characters) xxx")
    assert len(name) < 300


def test_line_of_terminal_names_element_or_gives_numbers() -> None:
    assert action_line(Click(1, 2), (BUTTON,)) == 'click "Sign in" (button)'
    assert action_line(Click(1, 2), (FIELD,)) == "click(x=1, y=2, button='left', count=1)"


def observed(*details: dict[str, Any]) -> Observation:
    turns = tuple(Turn(Decision("act", provider_details=each)) for each in details)
    return Observation("pay", NO_FRAME, NO_FRAME, turns, lambda _: b"")


def test_only_turns_before_its_own_were_replayed() -> None:
    seen = seen_by_live(observed({REPLAYED: True}, {REPLAYED: True}, {}, {REPLAYED: True}))
    assert [turn.decision.provider_details for turn in seen.turns] == [{}, {REPLAYED: True}]


def test_words_of_planner_are_its_own() -> None:
    """Such as those of one with a cache."""
    observation = observed({"replayed": 0}, {"replayed": 1})
    assert seen_by_live(observation) is observation
