"""The actions of OpenAI's computer tool, read as actions in screen pixels.

Source: developers.openai.com, "Computer use", and the types `ComputerAction` of the openai SDK 3.54. A modifier held
around an action is a step of its own, and so is each direction of a scroll that has two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pytest_vnc_use.planners.common.arguments import (
    PIXELS_A_NOTCH,
    Arguments,
    Reader,
    Unreadable,
    notches,
    pixel_of,
    read_action,
    split_keys,
)
from pytest_vnc_use.planners.common.turns import proposals_of, while_held
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Confirmation,
    Direction,
    Drag,
    InvalidAction,
    JsonObject,
    KeyCombo,
    Move,
    Proposal,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import TOO_DEEP, is_shallow

MOST_ACTIONS = 20
"""The most actions of one call that are performed."""

WAIT_S = 2.0
"""The length of a wait, which the call does not give. The guide's own examples take two seconds."""

BUTTONS: Mapping[str, Button] = {"left": "left", "right": "right", "wheel": "middle", "middle": "middle"}
MODIFIERS = frozenset({"ctrl", "control", "shift", "alt", "option", "meta", "cmd", "command", "super", "win"})


def read_computer_call(
    item: JsonObject, read: Callable[[JsonObject], Arguments], *, excluded: Collection[str] = ()
) -> tuple[Proposal, ...]:
    """Return the proposals of a computer_call, at least one. Each of them carries the call's safety checks.

    `read` makes the arguments of an action, for the screen of the turn.
    """
    confirmation = read_confirmation(item.get("pending_safety_checks"))
    actions = item.get("actions") or [item.get("action")]
    if not isinstance(actions, list) or len(actions) > MOST_ACTIONS:
        problem = f"'actions' must be a list of 1 to {MOST_ACTIONS} actions; nothing was done"
        return proposals_of("computer", {}, [InvalidAction("computer", problem)], confirmation)
    proposals: list[Proposal] = []
    for asked in actions:
        fields = dict(asked) if isinstance(asked, dict) else {}
        name = str(fields.pop("type", "computer"))
        offered = sorted(set(READERS) - set(excluded))
        meant = read_action(name, read(fields), READERS, offered=offered, excluded=excluded)
        proposals += proposals_of(name, fields, meant, confirmation)
    return tuple(proposals)


def read_function_call(item: JsonObject, *, functions: Collection[str]) -> tuple[Proposal, ...]:
    """Return the proposal for a call of a user's function, whose arguments are JSON in a string."""
    name = str(item.get("name"))
    try:
        arguments = json.loads(item.get("arguments") or "{}")
    except (TypeError, ValueError, RecursionError) as exc:
        arguments, problem = {}, f"the arguments of {name!r} must be JSON: {exc}"
    else:
        problem = "" if is_shallow(arguments) else f"the arguments of {name!r} {TOO_DEEP}"
        problem = problem if isinstance(arguments, dict) else f"the arguments of {name!r} must be a JSON object"
    if name not in functions:
        problem = f"there is no function {name!r}; use one of those that you were given"
    action = InvalidAction(name, problem) if problem else CallFunction(name, arguments)
    return proposals_of(name, {} if problem else arguments, [action])


def read_confirmation(checks: Any) -> Confirmation | None:
    """Return pending safety checks, each `{"id", "code", "message"}`, as a request for a person's confirmation."""
    checks = [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    if not checks:
        return None
    messages = [str(check.get("message") or check.get("code") or check.get("id")) for check in checks]
    return Confirmation("; ".join(messages), ", ".join(str(check["code"]) for check in checks if check.get("code")))


def _click(args: Arguments) -> tuple[Action, ...]:
    name = args.get("button") or "left"
    button = BUTTONS.get(str(name))
    if button is None:
        raise Unreadable(f"'button' must be left, right or wheel, got {name!r}; press alt+left to go back")
    return while_held(args.keys("keys"), Click(*args.target(), button=button))


def _double_click(args: Arguments) -> tuple[Action, ...]:
    return while_held(args.keys("keys"), Click(*args.target(), count=2))


def _drag(args: Arguments) -> tuple[Action, ...]:
    path = args.first("path")
    if not isinstance(path, list) or len(path) < 2:
        raise Unreadable(f"'path' must be a list of at least two points, got {path!r:.200}")
    start, end = (pixel_of(point, args.screen, args.sent) for point in (path[0], path[-1]))
    return while_held(args.keys("keys"), Drag(*start, *end))


def _scroll(args: Arguments) -> tuple[Action, ...]:
    """Return the scrolls. Distances are pixels, down and to the right if positive."""
    right, down = args.number("scroll_x", "scrollX", default=0.0), args.number("scroll_y", "scrollY", default=0.0)
    directions: list[tuple[float, Direction]] = [
        (down, "down" if down > 0 else "up"),
        (right, "right" if right > 0 else "left"),
    ]
    point = args.target()
    scrolls = [
        Scroll(*point, direction, notches(pixels / PIXELS_A_NOTCH)) for pixels, direction in directions if pixels
    ]
    if not scrolls:
        raise Unreadable("'scroll_x' or 'scroll_y' must be a number of pixels other than 0")
    return while_held(args.keys("keys"), *scrolls)


def _keypress(args: Arguments) -> tuple[Action, ...]:
    """Return one combination if there is a modifier; else one press after the other."""
    keys = split_keys(args.first("keys"))
    if MODIFIERS.isdisjoint(key.lower() for key in keys):
        return tuple(KeyCombo((key,)) for key in keys)
    return (KeyCombo(keys),)


def _type(args: Arguments) -> tuple[Action, ...]:
    text = args.first("text")
    if not isinstance(text, str):
        raise Unreadable(f"'text' must be text, got {text!r}")
    return (TypeText(text),)


READERS: Mapping[str, Reader] = {
    "click": _click,
    "double_click": _double_click,
    "drag": _drag,
    "keypress": _keypress,
    "move": lambda args: while_held(args.keys("keys"), Move(*args.target())),
    "screenshot": lambda _: (TakeScreenshot(),),
    "scroll": _scroll,
    "type": _type,
    "wait": lambda _: (Wait(WAIT_S),),
}
ACTIONS = tuple(READERS)
