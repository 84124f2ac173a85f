"""The actions that a planner can propose. Coordinates are screen pixels from the top
left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from typing_extensions import assert_never

from pytest_vnc_use.errors import ActionError

Button = Literal["left", "middle", "right"]
Direction = Literal["up", "down", "left", "right"]
ScrollMeans = Literal["wheel", "keys"]
TypingMeans = Literal["keys", "clipboard"]
HistoryDirection = Literal["back", "forward"]
JsonObject = Mapping[str, Any]
NUMBERED_BUTTONS: Mapping[int, Button] = {1: "left", 2: "middle", 3: "right"}
"""The buttons by their numbers in VNC's protocol."""
CLICKS: Mapping[str, int] = {"single": 1, "double": 2, "triple": 3}
"""The counts of a click by their names, in traces of UiPath and in custom agents."""
PIXELS_PER_WHEEL_CLICK = 100
"""The pixels that a wheel click stands for, where a scroll is in pixels."""
POLICY_PRESETS = ("strict",)
"""The names of built-in policies, in place of a policy file."""
SECRET_MARK = re.compile(r"<(?:secret|totp):([A-Za-z_][A-Za-z0-9_]*)>")
"""The placeholder, with the secret's name, for the value of a secret, or for a one-time
code whose key the value is.

It is replaced just before it is typed.
"""


@dataclass(frozen=True)
class Click:
    """Press and release `button` `count` times (1 to 3) at a point."""

    x: int
    y: int
    button: Button = "left"
    count: int = 1
    kind: Literal["click"] = "click"


@dataclass(frozen=True)
class MouseDown:
    """Press `button` at a point and keep it pressed."""

    x: int
    y: int
    button: Button = "left"
    kind: Literal["mouse_down"] = "mouse_down"


@dataclass(frozen=True)
class MouseUp:
    """Release `button` at a point."""

    x: int
    y: int
    button: Button = "left"
    kind: Literal["mouse_up"] = "mouse_up"


@dataclass(frozen=True)
class Move:
    """Move the pointer to a point."""

    x: int
    y: int
    kind: Literal["move"] = "move"


@dataclass(frozen=True)
class Drag:
    """Press the left button at (x, y), move to (to_x, to_y) through points between, and
    release it.
    """

    x: int
    y: int
    to_x: int
    to_y: int
    kind: Literal["drag"] = "drag"


@dataclass(frozen=True)
class Scroll:
    """Turn the wheel by `clicks` at a point, or press page and arrow keys there."""

    x: int
    y: int
    direction: Direction
    clicks: int = 3
    by: ScrollMeans = "wheel"
    kind: Literal["scroll"] = "scroll"


@dataclass(frozen=True)
class TypeText:
    """Type text at the focus. With (x, y), click there first. With `clear_first`, select
    all text of the field and replace it.

    With `paste`, the text is pasted by ctrl+v if the server has a clipboard for it.
    """

    text: str
    x: int | None = None
    y: int | None = None
    press_enter: bool = False
    clear_first: bool = False
    paste: bool = False
    kind: Literal["type_text"] = "type_text"


@dataclass(frozen=True)
class KeyCombo:
    """Press keys together, in order, and release them in reverse order: `("ctrl",
    "shift", "p")`.
    """

    keys: tuple[str, ...]
    kind: Literal["key_combo"] = "key_combo"


@dataclass(frozen=True)
class KeyDown:
    """Press one key and keep it pressed."""

    key: str
    kind: Literal["key_down"] = "key_down"


@dataclass(frozen=True)
class KeyUp:
    """Release a key that `KeyDown` holds."""

    key: str
    kind: Literal["key_up"] = "key_up"


EMPTY_PAGE = "about:blank"


@dataclass(frozen=True)
class OpenUrl:
    """Open a URL in the focused browser with the keys that a user presses: ctrl+l, the
    URL, enter.
    """

    url: str
    kind: Literal["open_url"] = "open_url"


@dataclass(frozen=True)
class TraverseHistory:
    """Go to the page before or after this one in the focused browser: alt+left,
    alt+right.
    """

    direction: HistoryDirection
    kind: Literal["traverse_history"] = "traverse_history"


HISTORY_KEYS: Mapping[HistoryDirection, tuple[str, ...]] = {
    "back": ("alt", "left"),
    "forward": ("alt", "right"),
}


@dataclass(frozen=True)
class Wait:
    """Let `duration_s` pass and watch the screen."""

    duration_s: float = 1.0
    kind: Literal["wait"] = "wait"


@dataclass(frozen=True)
class TakeScreenshot:
    """Do nothing and look again."""

    kind: Literal["take_screenshot"] = "take_screenshot"


@dataclass(frozen=True)
class CallFunction:
    """Call one of the user's Python functions by name."""

    name: str
    arguments: JsonObject
    kind: Literal["call_function"] = "call_function"


@dataclass(frozen=True)
class InvalidAction:
    """A request of the planner that cannot be performed. `problem` is the reason, which
    the planner gets in its next turn.
    """

    name: str
    problem: str
    kind: Literal["invalid"] = "invalid"


DesktopAction = Union[
    Click,
    MouseDown,
    MouseUp,
    Move,
    Drag,
    Scroll,
    TypeText,
    KeyCombo,
    KeyDown,
    KeyUp,
    OpenUrl,
    TraverseHistory,
    Wait,
    TakeScreenshot,
]
"""The actions that a Controller performs."""

Action = Union[DesktopAction, CallFunction, InvalidAction]
"""Every action that a planner can propose, in screen pixels, never in a model's
coordinates.
"""


def button_of(button: Button | int) -> Button:
    """Return the name of a button that is given by name or number. Raises
    ActionError.
    """
    name = NUMBERED_BUTTONS.get(button) if isinstance(button, int) else button
    if name is None or name not in NUMBERED_BUTTONS.values():
        raise ActionError(
            "a button must be 'left', 'middle' or 'right', or its number 1, 2 or 3,"
            f" got {button!r}"
        )
    return name


Point = tuple[int, int]


def points(action: Action) -> tuple[Point, ...]:
    """Return the points of an action, in pixels of the screen; for a drag both ends."""
    match action:
        case Click() | MouseDown() | MouseUp() | Move() | Scroll():
            return ((action.x, action.y),)
        case Drag():
            return ((action.x, action.y), (action.to_x, action.to_y))
        case TypeText(x=int(x), y=int(y)):
            return ((x, y),)
        case TypeText() | KeyCombo() | KeyDown() | KeyUp():
            return ()
        case OpenUrl() | TraverseHistory() | Wait() | TakeScreenshot():
            return ()
        case CallFunction() | InvalidAction():
            return ()
        case _:
            assert_never(action)


DEEPEST = 100
"""The maximum levels of nested JSON. No model needs more, and deeper JSON breaks the
programs that read it.
"""
TOO_DEEP = f"must not be more than {DEEPEST} levels of JSON deep"


def is_shallow(value: Any, levels: int = DEEPEST) -> bool:
    """Return whether a JSON value has at most this many levels."""
    if levels < 0:
        return False
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, (list, tuple)):
        inner = value
    return all(is_shallow(item, levels - 1) for item in inner)


class SecretText(str):
    """A text to type that contains the values of secrets. Its `repr` is that of
    `redacted`, which has the secrets' names instead, for tracebacks, assertions and
    debuggers.

    `str(…)` is the plain text, which only the keyboard reads.
    """

    redacted: str

    def __new__(cls, text: str, redacted: str) -> SecretText:
        """Return the text that `redacted` becomes with the values in it."""
        copy = super().__new__(cls, text)
        copy.redacted = redacted
        return copy

    @classmethod
    def of(cls, name: str, value: str) -> SecretText:
        """Return the value of one secret."""
        return cls(value, f"<secret:{name}>")

    def __repr__(self) -> str:
        return repr(self.redacted)
