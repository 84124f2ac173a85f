"""Claude's computer actions, read as actions in screen pixels.

The names and inputs are the members of `computer_toolset_20260801`. In the older `computer_20251124` and
`computer_20250124` they are values of `action`. Source: platform.claude.com/docs, "Computer use tool", and the types
`Computer*Input` of the anthropic SDK 2.12. A modifier held around an action is a step of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_vnc_use.planners.common.arguments import (
    Arguments,
    Reader,
    Unreadable,
    notches,
    number_of,
    read_action,
    seconds_to_wait,
    split_keys,
)
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
from pytest_vnc_use.types.actions import Point

MOST_REPEATS = 20
"""The most presses of one `key`, each a step of its own. The documented limit is 100."""

UNAVAILABLE = ("zoom", "cursor_position")
"""Members that no desktop here supports. They are not offered; a model that uses one gets a message that says so."""


@dataclass(frozen=True)
class Call:
    """One tool_use block. `is_computer` marks the computer's members, as other tools may have the same names."""

    name: str
    args: JsonObject
    is_computer: bool


def read_calls(
    calls: Sequence[Call],
    read: Callable[..., Arguments],
    *,
    pointer: Point | None = None,
    functions: Collection[str] = (),
    excluded: Collection[str] = (),
) -> list[tuple[Proposal, ...]]:
    """Return the proposals of each call, in order, at least one a call. `functions` are names of the user's own.

    `read` makes the arguments of a call, for the screen of the turn and the pointer's place before the call, which
    was at `pointer` before the first one.
    """
    offered = [name for name in MEMBERS if name not in (*excluded, *UNAVAILABLE)] + list(functions)
    proposals: list[tuple[Proposal, ...]] = []
    for call in calls:
        if not call.is_computer and call.name in functions:
            actions: tuple[Action, ...] = (CallFunction(call.name, call.args),)
        else:
            readers = READERS if call.is_computer else {}
            args = read(call.args, pointer=pointer)
            actions = read_action(call.name, args, readers, offered=offered, excluded=excluded, noun="tool")
        pointer = pointer_after(actions, pointer)
        proposals.append(proposals_of(call.name, call.args, actions))
    return proposals


def _words(args: Arguments) -> str:
    text = args.first("text")
    if not isinstance(text, str) or not text:
        raise Unreadable(f"'text' must be text, got {text!r}")
    return text


def _click(args: Arguments, *, button: Button = "left", count: int = 1) -> tuple[Action, ...]:
    return while_held(args.keys("text"), Click(*args.at_pointer(), button=button, count=count))


def _drag(args: Arguments) -> tuple[Action, ...]:
    return while_held(args.keys("text"), Drag(*args.place("start_"), *args.target()))


def _scroll(args: Arguments) -> tuple[Action, ...]:
    clicks = notches(number_of("scroll_amount", args.first("scroll_amount")))
    scroll = Scroll(*args.at_pointer(), args.direction("scroll_direction"), clicks)
    return while_held(args.keys("text"), scroll)


def _key(args: Arguments) -> tuple[Action, ...]:
    given = args.get("repeat")
    repeat = 1 if given is None else number_of("repeat", given)
    if not 1 <= repeat <= MOST_REPEATS or repeat != int(repeat):
        raise Unreadable(f"'repeat' must be a whole number, 1 to {MOST_REPEATS}, got {given!r}")
    return (KeyCombo(split_keys(_words(args))),) * int(repeat)


def _hold_key(args: Arguments) -> tuple[Action, ...]:
    return while_held(split_keys(_words(args)), Wait(seconds_to_wait(number_of("duration", args.first("duration")))))


def _zoom(_: Arguments) -> tuple[Action, ...]:
    raise Unreadable("'zoom' is not available here; look at the newest screenshot, it shows the whole screen")


def _cursor_position(args: Arguments) -> tuple[Action, ...]:
    where = f"you last moved it to pixel {args.pointer} of the screen" if args.pointer else "it was not moved yet"
    raise Unreadable(f"'cursor_position' is not available here; {where}")


READERS: Mapping[str, Reader] = {
    "screenshot": lambda _: (TakeScreenshot(),),
    "left_click": _click,
    "right_click": partial(_click, button="right"),
    "middle_click": partial(_click, button="middle"),
    "double_click": partial(_click, count=2),
    "triple_click": partial(_click, count=3),
    "left_click_drag": _drag,
    "mouse_move": lambda args: (Move(*args.target()),),
    "left_mouse_down": lambda args: (MouseDown(*args.at_pointer()),),
    "left_mouse_up": lambda args: (MouseUp(*args.at_pointer()),),
    "scroll": _scroll,
    "type": lambda args: (TypeText(_words(args)),),
    "key": _key,
    "hold_key": _hold_key,
    "wait": lambda args: (Wait(seconds_to_wait(number_of("duration", args.first("duration")))),),
    "zoom": _zoom,
    "cursor_position": _cursor_position,
}
MEMBERS = tuple(READERS)
