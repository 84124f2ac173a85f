"""Claude's computer actions, read as actions in screen pixels.

The names and inputs are the members of `computer_toolset_20260801`. In the older `computer_20251124` and
`computer_20250124` they are values of `action`. Source: platform.claude.com/docs, "Computer use tool", and the types
`Computer*Input` of the anthropic SDK 2.12. A modifier held around an action is a step of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_vnc_use.planners.common.arguments import (
    Arguments,
    Reader,
    TrackedArguments,
    Unreadable,
    number_of,
    read_action,
    seconds_to_wait,
    split_keys,
)
from pytest_vnc_use.planners.common.screens import SentScreen
from pytest_vnc_use.planners.common.toolset import notches
from pytest_vnc_use.planners.common.turns import pointer_after, proposals_of, while_held
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Drag,
    JsonObject,
    KeyCombo,
    MouseDown,
    MouseUp,
    Move,
    Proposal,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)

MOST_REPEATS = 20
"""The most presses of one `key`, each a step of its own. The documented limit is 100."""

UNAVAILABLE = ("zoom", "cursor_position")
"""Members that no desktop here supports. They are not offered; a model that uses one gets a message that says so."""


@dataclass(frozen=True)
class Call:
    """One tool_use block. `is_computer` marks the computer's members, as other tools may have the same names."""

    id: str
    name: str
    input: JsonObject
    is_computer: bool

    @property
    def args(self) -> JsonObject:
        """Return the input without the name of the action."""
        return {name: value for name, value in self.input.items() if name != "action" or not self.is_computer}


@dataclass(frozen=True)
class Input(Arguments):
    """The input of one call, the image of its coordinates, and the pointer's place at that time."""

    sent: SentScreen
    pointer: tuple[int, int] | None

    def point(self, name: str = "coordinate") -> tuple[int, int]:
        """Return the point under this name as a pixel of the screen. Raises Unreadable."""
        pair = self.first(name)
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Unreadable(f"{name!r} must be [x, y], got {pair!r}")
        return self.sent.point(*pair)

    def target(self) -> tuple[int, int]:
        """Return the coordinate, or else the pointer's place. Raises Unreadable."""
        if self.values.get("coordinate") is not None:
            return self.point()
        if self.pointer is None:
            raise Unreadable("'coordinate' is missing, and the pointer was not moved yet; give [x, y]")
        return self.pointer

    def words(self) -> str:
        """Return the text. Raises Unreadable if it is empty or no text."""
        text = self.first("text")
        if not isinstance(text, str) or not text:
            raise Unreadable(f"'text' must be text, got {text!r}")
        return text

    def seconds(self) -> float:
        """Return the duration in seconds. Raises Unreadable."""
        return seconds_to_wait(number_of("duration", self.first("duration")))


def read_calls(
    calls: Sequence[Call],
    sent: SentScreen,
    *,
    pointer: tuple[int, int] | None = None,
    functions: Collection[str] = (),
    excluded: Collection[str] = (),
) -> list[tuple[Proposal, ...]]:
    """Return the proposals of each call, in order, at least one a call. `functions` are names of the user's own.

    `pointer` is the pointer's place before the first call.
    """
    read: list[tuple[Proposal, ...]] = []
    for call in calls:
        values = Input(TrackedArguments(call.args), sent.screen, sent, pointer)
        actions = _read(call, values, functions, excluded)
        pointer = pointer_after(actions, pointer)
        read.append(proposals_of(call.name, call.args, actions))
    return read


def _read(call: Call, values: Input, functions: Collection[str], excluded: Collection[str]) -> tuple[Action, ...]:
    if not call.is_computer and call.name in functions:
        return (CallFunction(call.name, call.input),)
    offered = [name for name in MEMBERS if name not in (*excluded, *UNAVAILABLE)] + list(functions)
    readers = READERS if call.is_computer else {}
    return read_action(call.name, values, readers, offered=offered, excluded=excluded, noun="tool")


def _click(values: Input, *, button: Button = "left", count: int = 1) -> tuple[Action, ...]:
    return while_held(values.keys("text"), Click(*values.target(), button=button, count=count))


def _drag(values: Input) -> tuple[Action, ...]:
    return while_held(values.keys("text"), Drag(*values.point("start_coordinate"), *values.point()))


def _scroll(values: Input) -> tuple[Action, ...]:
    clicks = notches(number_of("scroll_amount", values.first("scroll_amount")))
    scroll = Scroll(*values.target(), values.direction("scroll_direction"), clicks)
    return while_held(values.keys("text"), scroll)


def _key(values: Input) -> tuple[Action, ...]:
    given = values.values.get("repeat")
    repeat = 1 if given is None else number_of("repeat", given)
    if not 1 <= repeat <= MOST_REPEATS or repeat != int(repeat):
        raise Unreadable(f"'repeat' must be a whole number, 1 to {MOST_REPEATS}, got {given!r}")
    return (KeyCombo(split_keys(values.words())),) * int(repeat)


def _hold_key(values: Input) -> tuple[Action, ...]:
    return while_held(split_keys(values.words()), Wait(values.seconds()))


def _zoom(_: Input) -> tuple[Action, ...]:
    raise Unreadable("'zoom' is not available here; look at the newest screenshot, it shows the whole screen")


def _cursor_position(values: Input) -> tuple[Action, ...]:
    where = f"you last moved it to pixel {values.pointer} of the screen" if values.pointer else "it was not moved yet"
    raise Unreadable(f"'cursor_position' is not available here; {where}")


READERS: Mapping[str, Reader[Input]] = {
    "screenshot": lambda _: (TakeScreenshot(),),
    "left_click": _click,
    "right_click": partial(_click, button="right"),
    "middle_click": partial(_click, button="middle"),
    "double_click": partial(_click, count=2),
    "triple_click": partial(_click, count=3),
    "left_click_drag": _drag,
    "mouse_move": lambda values: (Move(*values.point()),),
    "left_mouse_down": lambda values: (MouseDown(*values.target()),),
    "left_mouse_up": lambda values: (MouseUp(*values.target()),),
    "scroll": _scroll,
    "type": lambda values: (TypeText(values.words()),),
    "key": _key,
    "hold_key": _hold_key,
    "wait": lambda values: (Wait(values.seconds()),),
    "zoom": _zoom,
    "cursor_position": _cursor_position,
}
MEMBERS = tuple(READERS)
