"""A run as text: what a step is called, and what a planner that continues after a
replay sees.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.runs.transcript import (
    REPLAYED,
    action_line,
    caption,
    format_caption,
    seen_by_live,
)
from pytest_vnc_use.types import (
    NO_FRAME,
    Action,
    CallFunction,
    Click,
    Decision,
    Drag,
    InvalidAction,
    KeyCombo,
    MouseDown,
    Observation,
    OpenUrl,
    Region,
    Scroll,
    Turn,
    TypeText,
)
from pytest_vnc_use.types.elements import Element, Elements

BOX = Region(0, 0, 9, 9)
BUTTON = Element("button", "Sign in", BOX)
FIELD = Element("textbox", "", BOX)
EVIL = 'a"\x1b[31m\u202e\n# b'


@pytest.mark.parametrize(
    ("action", "elements", "words"),
    [
        (Click(1, 2), (), "click at (1, 2)"),
        (Click(1, 2, count=2), (), "double-click at (1, 2)"),
        (Click(1, 2), (BUTTON,), 'click "Sign in" (button)'),
        (Click(1, 2), (FIELD,), "click the textbox at (1, 2)"),
        (Click(1, 2), (Element("b\n", EVIL, BOX),), 'click "a\\" [31m # b" (b)'),
        (MouseDown(1, 2), (BUTTON,), 'press the left button on "Sign in" (button)'),
        (Drag(1, 2, 3, 4), (BUTTON, None), 'drag "Sign in" (button) to (3, 4)'),
        (
            Scroll(1, 2, "down", 3, "keys"),
            (BUTTON,),
            'scroll down by 3 in "Sign in" (button), by keys',
        ),
        (
            TypeText("a", 0, 2, True, True),
            (),
            'type "a" over what was there at (0, 2), then press Enter',
        ),
        (
            TypeText("al", press_enter=True),
            (BUTTON,),
            'type "al" in "Sign in" (button), then press Enter',
        ),
        (KeyCombo(("ctrl", "shift", "p")), (BUTTON,), "press ctrl+shift+p"),
        (
            OpenUrl("about:blank"),
            (),
            'open the URL "about:blank"',
        ),
        (
            CallFunction("order_count", {"user": "al", "days": 3}),
            (),
            'call order_count(user="al", days=3)',
        ),
        (
            InvalidAction("bash", "no hand can do it"),
            (),
            "bash, which cannot be done: no hand can do it",
        ),
    ],
)
def test_action_is_named_by_its_elements(
    action: Action, elements: Elements, words: str
) -> None:
    assert format_caption(action, elements) == words


def test_terminal_line_names_element_cut_or_gives_numbers() -> None:
    assert action_line(Click(1, 2), (BUTTON,)) == 'click "Sign in" (button)'
    assert (
        action_line(Click(1, 2), (FIELD,)) == "click(x=1, y=2, button='left', count=1)"
    )
    name = caption(Click(1, 2), (Element("b", "x" * 10_000_000, BOX),))[2].text
    assert name.startswith("(the first 200 of 10000000 characters) xxx")
    assert len(name) < 300


def test_live_planner_sees_turns_after_replayed_ones() -> None:
    def observed(*details: dict[str, Any]) -> Observation:
        turns = tuple(Turn(Decision("act", provider_details=each)) for each in details)
        return Observation("pay", NO_FRAME, NO_FRAME, turns, lambda _: b"")

    seen = seen_by_live(
        observed({REPLAYED: True}, {REPLAYED: True}, {}, {REPLAYED: True})
    )
    assert [turn.decision.provider_details for turn in seen.turns] == [
        {},
        {REPLAYED: True},
    ]
    with_a_cache = observed({"replayed": 0}, {"replayed": 1})
    assert seen_by_live(with_a_cache) is with_a_cache
