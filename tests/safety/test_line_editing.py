"""Ways around a deny rule by the keys with which a shell, a terminal or a field edits its text."""

from __future__ import annotations

import re

import pytest

from pytest_vnc_use.safety.guesses import MOST_GUESSED
from pytest_vnc_use.safety.keyboard_state import KeyboardState
from pytest_vnc_use.safety.rules import Policy, ReviewContext, Rule
from pytest_vnc_use.types import Action, Click, Drag, KeyCombo, Proposal, TypeText

RULE = re.compile(r"zz\s+-rf")


def key(*keys: str) -> KeyCombo:
    return KeyCombo(keys)


def ruled(actions: list[Action], pattern: re.Pattern[str] = RULE) -> list[str]:
    policy = Policy((Rule("deny", text=pattern),))
    keyboard, said = KeyboardState(), []
    for action in actions:
        said.append(policy.review(Proposal(action), ReviewContext(keyboard=keyboard)).kind)
        keyboard = keyboard.after(action)
    return said


T = TypeText
ENTER = key("enter")
EVASIONS: dict[str, list[Action]] = {
    "escape, and d": [T("XX -rf"), key("ctrl", "a"), key("escape"), T("d"), T("zz"), ENTER],
    "escape, and d in one text": [T("XX -rf"), key("ctrl", "a"), key("escape"), T("dzz\n")],
    "escape, and b": [T("-rf"), key("escape"), T("b"), key("left"), T("zz "), ENTER],
    "escape, and backspace": [T("zz XX"), key("escape"), key("backspace"), T("-rf"), ENTER],
    "ctrl+[, and backspace": [T("zz XX"), key("ctrl", "["), key("backspace"), T("-rf"), ENTER],
    "ctrl and alt, and h": [T("zz XX"), key("ctrl", "alt", "h"), T("-rf"), ENTER],
    "ctrl+w twice": [T("-rf x"), key("ctrl", "w"), key("ctrl", "w"), T("zz "), key("ctrl", "y"), ENTER],
    "ctrl+u and ctrl+k": [T("-rf"), key("home"), key("right"), key("ctrl", "u"), key("ctrl", "k"), T("zz "),
                          key("ctrl", "y"), ENTER],
    "ctrl+x, and backspace": [T("XX"), key("ctrl", "x"), key("backspace"), T("-rf"), key("home"), T("zz "), ENTER],
    "ctrl+x, backspace, and yank": [T("-rf"), key("ctrl", "x"), key("backspace"), T("zz "), key("ctrl", "y"), ENTER],
    "a search for a character": [T("zz -Xrf"), key("ctrl", "a"), key("ctrl", "]"), T("X"), key("ctrl", "d"), ENTER],
    "a character twice": [key("alt", "2"), T("z"), T(" -rf"), ENTER],
    "a character ten times": [key("alt", "1"), T("0"), T("z"), T(" -rf"), ENTER],
    "a character twice by escape": [key("escape"), T("2z -rf\n")],
    "two characters deleted": [T("zzQQ -rf"), key("ctrl", "a"), key("right"), key("right"), key("alt", "2"),
                               key("ctrl", "d"), ENTER],
    "an older kill": [T("-rf"), key("ctrl", "u"), T("x"), key("ctrl", "u"), T("zz "), key("ctrl", "y"),
                      key("alt", "y"), ENTER],
    "undone": [T("zz "), T("X"), key("ctrl", "_"), T("-rf"), ENTER],
    "a capital": [T("QZ -rf"), key("home"), key("right"), key("alt", "l"), ENTER, T("zz"), key("ctrl", "/"), T(" -rf")],
    "typed over": [T("zX -rf"), key("home"), key("right"), key("insert"), T("z"), ENTER],
    "typed over from the start": [T("XX -rf"), key("home"), key("insert"), T("zz"), ENTER],
    "insert where nothing is typed over": [T(" -rf"), key("home"), key("insert"), T("zz"), ENTER],
    "selected by keys, and the middle button": [T("-rf"), key("shift", "home"), T("zz "), Click(9, 9, "middle"), ENTER],
    "selected by keys, and the middle button elsewhere": [T("-rf"), key("shift", "home"), Click(1, 1), T("zz "),
                                                          Click(9, 9, "middle"), ENTER],
    "selected by a double click, and the middle button": [T("# \n"), T("-rf"), ENTER, Click(30, 20, count=2),
                                                          T("zz "), Click(9, 9, "middle"), ENTER],
    "selected by a drag, and the middle button": [T("-rf"), Drag(1, 1, 9, 1), key("ctrl", "u"), T("zz "),
                                                  Click(9, 9, "middle"), ENTER],
}  # fmt: skip


@pytest.mark.parametrize("actions", EVASIONS.values(), ids=EVASIONS)
def test_a_line_is_one_however_it_is_edited(actions: list[Action]) -> None:
    assert "deny" in ruled(actions)


HARMLESS: dict[str, list[Action]] = {
    "a dialog closed": [T("zz"), key("escape"), T("apples"), ENTER],
    "a menu by its letter": [T("zz"), key("alt", "f"), T("s"), key("alt", "s"), T("rf")],
    "cut": [T("rf zz"), key("ctrl", "a"), key("ctrl", "x"), T("apples"), ENTER],
    "undone in another line": [T("-rf zz\n"), key("ctrl", "/"), T("ls")],
    "a middle click": [T("-rf zz\n"), Click(9, 9, "middle")],
    "typed over elsewhere": [T("zz apples"), key("home"), key("insert"), T("yy")],
}


@pytest.mark.parametrize("actions", HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_is_not_denied(actions: list[Action]) -> None:
    assert set(ruled(actions)) == {"allow"}


def test_an_address_that_was_entered_is_in_no_doubt() -> None:
    only_the_shop = re.compile(r"^https?://(?!shop\.test)")
    actions: list[Action] = [key("ctrl", "l"), T("https://shop.test/a"), key("escape"), ENTER, key("alt", "t"), T("x")]
    assert set(ruled(actions, only_the_shop)) == {"allow"}


def test_a_long_line_in_doubt_costs_no_more_than_its_bound() -> None:
    keyboard = KeyboardState()
    for action in (T("x y " * 5_000), key("ctrl", "_"), T("abc" * 100), key("insert"), T("d")):
        keyboard = keyboard.after(action)
        texts = [joined for editor in keyboard.editors for joined in editor.guess.texts()]
        assert sum(len(joined.text) for joined in texts) <= 6 * MOST_GUESSED
