"""Qwen's `computer_use` tool: one function whose argument `action` names the action, one action a turn.

Source: the cookbook of Qwen3-VL, `utils/agent_function_call.py`. The model drags from the pointer's place, and scrolls
by `pixels`: positive ones go up, or right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import (
    PIXELS_A_NOTCH,
    TrackedArguments,
    Unreadable,
    seconds_to_wait,
    split_keys,
)
from pytest_vnc_use.planners.common.functions import Declaration, Offered, declare_all
from pytest_vnc_use.planners.common.toolset import (
    EndKind,
    EndOfRun,
    FunctionCall,
    Point,
    Reading,
    ScreenArguments,
    Spell,
    check_excluded,
    notches,
    proposal,
)
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Direction,
    Drag,
    InvalidAction,
    KeyCombo,
    Move,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)

NAME = "computer_use"
ENDINGS = ("terminate", "answer")
STATUSES: Mapping[str, EndKind] = {"success": "finished", "failure": "gave_up"}


def _target(args: ScreenArguments) -> Point:
    """Return the point of the call, or else the pointer's last place."""
    return args.pointer if args.pointer and not args.has_point() else args.target()


def _click(args: ScreenArguments, *, button: Button = "left", count: int = 1) -> Action:
    return Click(*_target(args), button=button, count=count)


def _drag(args: ScreenArguments) -> Action:
    start = args.pointer if args.pointer and not args.has_point("start_") else args.place("start_")
    return Drag(*start, *args.target())


def _scroll(args: ScreenArguments, *, ahead: Direction = "up", back: Direction = "down") -> Action:
    pixels = args.number("pixels", default=0.0)
    if not pixels:
        raise Unreadable(f"'pixels' must be a number above 0 for {ahead}, below 0 for {back}, got 0")
    x, y = _target(args) if args.has_point() or args.pointer else args.middle()
    return Scroll(x, y, ahead if pixels > 0 else back, clicks=notches(pixels / PIXELS_A_NOTCH))


def _type(args: ScreenArguments) -> Action:
    return TypeText(args.text("text"))


def _keys(args: ScreenArguments) -> Action:
    return KeyCombo(split_keys(args.first("keys", "key", "text")))


def _wait(args: ScreenArguments) -> Action:
    return Wait(seconds_to_wait(args.number("time", "duration", default=1.0)))


ACTIONS: Mapping[str, Callable[[ScreenArguments], Action]] = {
    "key": _keys,
    "type": _type,
    "mouse_move": lambda args: Move(*_target(args)),
    "left_click": _click,
    "left_click_drag": _drag,
    "right_click": partial(_click, button="right"),
    "middle_click": partial(_click, button="middle"),
    "double_click": partial(_click, count=2),
    "triple_click": partial(_click, count=3),
    "scroll": _scroll,
    "hscroll": partial(_scroll, ahead="right", back="left"),
    "wait": _wait,
    "screenshot": lambda _: TakeScreenshot(),
}
"""The values of `action`, except the two that end a run. Qwen's own list has no screenshot; its models ask for one."""


def _declaration(actions: Sequence[str]) -> Declaration:
    properties = {
        "action": {"type": "string", "enum": [*actions, *ENDINGS]},
        "keys": {"type": "array", "items": {"type": "string"}, "description": "For key: pressed together."},
        "text": {"type": "string", "description": "For type and answer."},
        "coordinate": {"type": "array", "items": {"type": "number"}, "description": "[x, y], for the mouse."},
        "pixels": {"type": "number", "description": "For scroll: above 0 up, below 0 down; for hscroll right, left."},
        "time": {"type": "number", "description": "For wait: seconds."},
        "status": {"type": "string", "enum": list(STATUSES), "description": "For terminate."},
    }
    return Declaration(
        NAME,
        "Use the mouse and the keyboard of the computer, and look at its screen. left_click_drag drags from where the "
        "pointer is. terminate ends the task, with status failure and the reason in text where it cannot be done.",
        {"type": "object", "properties": properties, "required": ["action"]},
    )


class ComputerUse:
    """A vocabulary of this tool, with the user's functions beside it.

    `excluded` are actions that are neither offered nor carried out. Raises SettingsError.
    """

    most_actions = 1
    rules = (
        "Make exactly one call in each answer; you will see the screen after it.",
        "When the newest screenshot shows that the task is done, terminate with status success.",
        prompts.GIVING_UP.format(call="terminate with status failure and say in text what you saw"),
    )

    def __init__(self, functions: Sequence[Offered] = (), excluded: Sequence[str] = ()) -> None:
        own = declare_all(functions, taken=(NAME, *ACTIONS, *ENDINGS))
        self._excluded = check_excluded(excluded, tuple(ACTIONS))
        self._functions = frozenset(declaration.name for declaration in own)
        offered = [name for name in ACTIONS if name not in self._excluded]
        self._names = (*offered, *ENDINGS, *sorted(self._functions))
        self.declarations = (_declaration(offered), *own)

    def read(self, call: FunctionCall, spell: Spell) -> Reading:
        """Return the meaning of a call. A call under an action's own name counts as one of the tool."""
        if call.name in self._functions:
            return (proposal(call, CallFunction(call.name, dict(call.args))),)
        name = str(call.args.get("action") or "") if call.name == NAME else call.name
        heeded = TrackedArguments({key: value for key, value in call.args.items() if key != "action"})
        args = spell(heeded)
        if name == "answer" and args.has("text"):
            return EndOfRun("finished", str(args.first("text")))
        if name == "terminate" and args.has("status") and str(args.first("status")) in STATUSES:
            return EndOfRun(STATUSES[str(args.first("status"))], str(args.values.get("text") or ""))
        return (proposal(call, self._action(name, args, heeded)),)

    def _action(self, name: str, args: ScreenArguments, heeded: TrackedArguments) -> Action:
        if name in self._excluded:
            return InvalidAction(name, f"{name!r} is excluded in this run; use another action")
        if name == "terminate":
            return InvalidAction(name, f"'status' must be success or failure, got {args.values.get('status')!r}")
        if name not in ACTIONS:
            return InvalidAction(name, f"there is no action {name!r:.100}; there are {', '.join(self._names)}")
        heeded.asked.clear()
        try:
            action = ACTIONS[name](args)
            heeded.check(name, self._names)
            return action
        except Unreadable as problem:
            return InvalidAction(name, str(problem))
