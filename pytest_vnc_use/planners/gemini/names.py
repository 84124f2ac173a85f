"""The meanings of Gemini's function names, in both dialects and for names that a model makes up."""

from __future__ import annotations

from collections.abc import Collection

from pytest_vnc_use.types import Action, KeyCombo

MADE_UP = {
    "mouse_click": "click",
    "left_click": "click",
    "mouse_move": "move",
    "type_text": "type",
    "key": "press_key",
    "press_key_combination": "hotkey",
    "open_url": "navigate",
    "drag": "drag_and_drop",
    "screenshot": "take_screenshot",
}
"""Names that models use although no dialect has them, with their meanings."""

SAME_AS = {
    "click_at": "click",
    "hover_at": "move",
    "type_text_at": "type",
    "key_combination": "hotkey",
    "scroll_at": "scroll",
    "scroll_document": "scroll",
    "wait_5_seconds": "wait",
}
"""Names of the older dialect, with the names of the newer one that do the same."""

PRESSES = frozenset({"press_key", "hotkey", "key_combination"})
"""Functions that differ only in how many keys they are meant for."""


def excluding_name(name: str, action: Action, excluded: Collection[str]) -> str | None:
    """Return the `excluded` name that means the same as the function `name`, read as `action`; None if there is none.

    Several keys at once count as a hotkey and a single one as press_key, whichever function was called.
    """
    meaning = SAME_AS.get(name, name)
    if name in PRESSES and isinstance(action, KeyCombo):
        meaning = "press_key" if len(action.keys) == 1 else "hotkey"
    return next((other for other in excluded if name == other or meaning == SAME_AS.get(other, other)), None)
