"""Gemini's function calls, in both tool formats of Computer Use, read as actions in
screen pixels.

The names in a call decide the format, not the model's name. Numbers may be text, floats
or off the grid, and points may be pairs. An unreadable call becomes an `InvalidAction`
that says why, for the model's next turn.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_vnc_use.planners.common.arguments import (
    GRID,
    PIXELS_PER_WHEEL_CLICK,
    Arguments,
    Reader,
    Unreadable,
    number_of,
    on_grid,
    read_action,
    reason_in,
    seconds_to_wait,
    split_keys,
    wheel_clicks,
)
from pytest_vnc_use.planners.common.functions import BROWSER_STATE
from pytest_vnc_use.planners.common.prompts import NO_DEVTOOLS, TOO_EARLY
from pytest_vnc_use.planners.common.toolset import DONE, GIVE_UP, FunctionCall
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenUrl,
    Proposal,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import EMPTY_PAGE

SAFETY_DECISION = ("safety_decision", "safetyDecision")
GO = frozenset({"allow", "allowed", "regular"})
ASK = frozenset({"require_confirmation", "requires_confirmation", "confirm"})
"""Values of a safety decision: GO are harmless, ASK need a user's approval. Any other
blocks.
"""


def denorm_x(x: Any, width: int) -> int:
    """Return the pixel column of `x` on the 0 to 999 grid, in a screen `width` pixels
    wide. Raises Unreadable.
    """
    return on_grid(number_of("x", x), width)


def denorm_y(y: Any, height: int) -> int:
    """Return the pixel row of `y` on the 0 to 999 grid, in a screen `height` pixels
    high. Raises Unreadable.
    """
    return on_grid(number_of("y", y), height)


def denorm(x: Any, y: Any, width: int, height: int) -> tuple[int, int]:
    """Return the pixel of a point on the 0 to 999 grid. Raises Unreadable."""
    return denorm_x(x, width), denorm_y(y, height)


@dataclass(frozen=True)
class FunctionNames:
    """The names of functions: the user's, those excluded in this run, and those that
    the model is offered.

    `search_page` is the URL that `search` opens; without one the browser's shortcut for
    it is pressed. With `opens_browser`, `open_web_browser` empties the window; without,
    it changes nothing.
    """

    functions: Collection[str] = ()
    excluded: Collection[str] = ()
    offered: Collection[str] = ()
    search_page: str = ""
    opens_browser: bool = False


# frozen
def read_proposal(
    call: FunctionCall, screen: FrameRef, names: FunctionNames = FunctionNames()
) -> Proposal:
    """Return one call as a proposal. An excluded function is rejected under any of its
    names, in either tool format.
    """
    args = dict(call.args)
    intent = str(args.pop("intent", None) or "") or (
        "" if call.name in names.functions else reason_in(args)
    )
    decisions = [args.pop(name) for name in SAFETY_DECISION if name in args]
    requests = [request for request in map(read_confirmation, decisions) if request]
    confirmation = max(requests, key=lambda request: request.blocks, default=None)
    action = _read_action(call.name, args, screen, names)
    as_proposed = {"name": call.name, "args": copy.deepcopy(dict(call.args))}
    return Proposal(action, intent, as_proposed, confirmation)


def read_confirmation(decision: Any) -> Confirmation | None:
    """Return the confirmation for the `safety_decision` in a call's arguments; None if
    the decision allows the action.

    A value of ASK, or none, asks the user. Any other blocks the action.
    """
    fields = decision if isinstance(decision, Mapping) else {"decision": decision}
    kind = fields.get("decision")
    if str(kind).strip().lower() in GO:
        return None
    explanation = str(
        fields.get("explanation") or f"the model's safety decision is {decision!r}"
    )
    asks = kind in (None, "") or str(kind).strip().lower() in ASK
    return Confirmation(explanation, str(fields.get("category") or ""), blocks=not asks)


def _read_action(
    name: str, args: dict[str, Any], screen: FrameRef, names: FunctionNames
) -> Action:
    if name in names.functions:
        return CallFunction(name, args)
    if name in names.excluded and name not in PREDEFINED_FUNCTIONS:
        return InvalidAction(
            name, f"{name!r} is excluded in this run; use another action"
        )
    if name == BROWSER_STATE.name:
        return InvalidAction(name, NO_DEVTOOLS.format(name=name))
    if name == DONE.name:
        return InvalidAction(name, TOO_EARLY)
    [action] = read_action(
        name,
        Arguments(args, screen),
        READERS,
        offered=names.offered or READERS,
        noun="function",
    )
    if name == "search" and names.search_page and isinstance(action, KeyCombo):
        action = OpenUrl(names.search_page)
    if (
        name == "open_web_browser"
        and names.opens_browser
        and isinstance(action, TakeScreenshot)
    ):
        action = OpenUrl(EMPTY_PAGE)
    excluding = excluding_name(name, action, names.excluded)
    if excluding is None:
        return action
    return InvalidAction(
        name, f"{excluding!r} is excluded in this run; use another action"
    )


def _click(args: Arguments, *, button: Button = "left", count: int = 1) -> Action:
    return Click(*args.target(), button=button, count=count)


def _drag(args: Arguments) -> Action:
    """Return the drag. Both tool formats call it drag_and_drop, with different
    arguments.
    """
    start = args.point("start_") if args.has_point("start_") else args.target()
    return Drag(*start, *args.point("end_", "destination_"))


def _type(
    args: Arguments, *, press_enter: bool = False, clear_first: bool = False
) -> Action:
    x, y = args.target() if args.has_point() else (None, None)
    enter = args.flag("press_enter", default=press_enter)
    clear = args.flag("clear_before_typing", default=clear_first)
    return TypeText(args.text("text"), x, y, press_enter=enter, clear_first=clear)


def _scroll(args: Arguments, *, default: int) -> Action:
    """Return the scroll. Models give wheel clicks, or a magnitude on the grid: a share
    of the side along the scroll.
    """
    direction = args.direction("direction")
    x, y = args.target() if args.has_point() else args.middle()
    if args.has("magnitude_in_wheel_clicks"):
        clicks = args.number("magnitude_in_wheel_clicks")
    else:
        size = args.screen.height if direction in ("up", "down") else args.screen.width
        magnitude = min(
            args.number("magnitude_in_pixels", "magnitude", default=default), GRID
        )
        clicks = magnitude / GRID * size / PIXELS_PER_WHEEL_CLICK
    return Scroll(x, y, direction, clicks=wheel_clicks(clicks))


def _keys(args: Arguments) -> Action:
    return KeyCombo(split_keys(args.first("keys", "key")))


def _one_key(args: Arguments) -> str:
    keys = split_keys(args.first("key", "keys"))
    if len(keys) != 1:
        raise Unreadable(f"'key' must be one key, got {keys!r}")
    return keys[0]


def _wait(args: Arguments) -> Action:
    return Wait(seconds_to_wait(args.number("seconds", default=1.0)))


DESKTOP: Mapping[str, Reader] = {
    "click": _click,
    "double_click": partial(_click, count=2),
    "triple_click": partial(_click, count=3),
    "middle_click": partial(_click, button="middle"),
    "right_click": partial(_click, button="right"),
    "mouse_down": lambda args: MouseDown(*args.target()),
    "mouse_up": lambda args: MouseUp(*args.target()),
    "move": lambda args: Move(*args.target()),
    "type": _type,
    "drag_and_drop": _drag,
    "wait": _wait,
    "press_key": _keys,
    "key_down": lambda args: KeyDown(_one_key(args)),
    "key_up": lambda args: KeyUp(_one_key(args)),
    "hotkey": _keys,
    "take_screenshot": lambda _: TakeScreenshot(),
    "scroll": partial(_scroll, default=300),
}
"""The newer tool format. `press_enter` is off by default, and typing clears nothing."""

OLDER: Mapping[str, Reader] = {
    "drag_and_drop": _drag,
    "open_web_browser": lambda _: TakeScreenshot(),
    "click_at": _click,
    "hover_at": lambda args: Move(*args.target()),
    "type_text_at": partial(_type, press_enter=True, clear_first=True),
    "key_combination": _keys,
    "scroll_document": partial(_scroll, default=800),
    "scroll_at": partial(_scroll, default=800),
    "wait_5_seconds": lambda _: Wait(5.0),
    "navigate": lambda args: OpenUrl(args.text("url")),
    "go_back": lambda _: TraverseHistory("back"),
    "go_forward": lambda _: TraverseHistory("forward"),
    "search": lambda _: KeyCombo(("ctrl", "k")),
}
"""The tool format of gemini-2.5-computer-use-preview-10-2025. Functions that a desktop
lacks are done by keyboard.
"""

READERS = {**DESKTOP, **OLDER}
PREDEFINED_FUNCTIONS = frozenset(READERS)

SAME_AS = {
    "click_at": "click",
    "hover_at": "move",
    "type_text_at": "type",
    "key_combination": "hotkey",
    "scroll_at": "scroll",
    "scroll_document": "scroll",
    "wait_5_seconds": "wait",
}
"""Names of the older tool format, with their equivalents in the newer one."""

PRESSES = frozenset({"press_key", "hotkey", "key_combination"})
"""Functions that differ only in how many keys they are meant for."""


def excluding_name(name: str, action: Action, excluded: Collection[str]) -> str | None:
    """Return the `excluded` name that means the same as the function `name`, read as
    `action`; None if there is none.

    Several keys at once count as a hotkey and a single one as press_key, whichever
    function was called.
    """
    meaning = SAME_AS.get(name, name)
    if name in PRESSES and isinstance(action, KeyCombo):
        meaning = "press_key" if len(action.keys) == 1 else "hotkey"
    return next(
        (
            other
            for other in excluded
            if name == other or meaning == SAME_AS.get(other, other)
        ),
        None,
    )


BROWSER_ONLY = ("gemini-2.5-", "gemini-3-", "gemini-3.1-")
"""Prefixes of models that know no desktop. They get a browser as environment, and use
the older tool format.
"""

BROWSER = frozenset({*DESKTOP, "navigate", "go_back", "go_forward"})
MOBILE = frozenset(
    {
        "click",
        "type",
        "drag_and_drop",
        "press_key",
        "go_back",
        "wait",
        "take_screenshot",
    }
)
"""The functions of a phone that a desktop has too."""


def resolve_tool_format(model: str, environment: str) -> tuple[bool, str]:
    """Return whether a model has only the older tool format, and its environment: such
    a model gets a browser for a desktop.
    """
    older = model.startswith(BROWSER_ONLY)
    environment = environment.lower()
    return older, "browser" if older and environment == "desktop" else environment


def filter_supported(
    names: Collection[str], environment: str, *, older: bool
) -> list[str]:
    """Return the names that the service supports in this environment.

    A model of the `older` tool format uses it in every environment.
    """
    newer: Mapping[str, Collection[str]] = {
        "desktop": DESKTOP,
        "browser": BROWSER,
        "mobile": MOBILE,
    }
    offered = OLDER if older else newer[environment]
    return [name for name in names if name in offered]


def offered_names(
    environment: str, excluded: Collection[str], *, older: bool
) -> tuple[str, ...]:
    """Return the names of the functions that a model may call in this environment, with
    those that end its run.
    """
    predefined = filter_supported(tuple(READERS), environment, older=older)
    left = [
        name
        for name in predefined
        if excluding_name(name, TakeScreenshot(), excluded) is None
    ]
    return (*left, DONE.name, GIVE_UP.name)


def can_detect_injection(model: str) -> bool:
    """Return whether the model's service detects prompt injection: from Gemini 3.5 on,
    by its name.
    """
    version = re.match(r"gemini-(\d+)(?:\.(\d+))?-", model)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= (3, 5)
