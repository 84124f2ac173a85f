"""Single VNC commands, and batches of them, as tools for any model that calls tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_vnc_use.planners.chat.answers import call_of
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import TrackedArguments, Unreadable, seconds_to_wait, split_keys
from pytest_vnc_use.planners.common.functions import Declaration, Offered, declare_all
from pytest_vnc_use.planners.common.toolset import (
    GIVE_UP,
    EndOfRun,
    FunctionCall,
    Reading,
    ScreenArguments,
    Spell,
    check_excluded,
    notches,
    proposal,
    refused,
)
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Direction,
    Drag,
    InvalidAction,
    JsonObject,
    KeyCombo,
    Move,
    OpenAddress,
    Proposal,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

MOST_ACTIONS = 20

NUMBER: JsonObject = {"type": "number"}
TEXT: JsonObject = {"type": "string"}
POINT: JsonObject = {"x": NUMBER, "y": NUMBER}
DIRECTIONS: dict[str, Direction] = {"up": "up", "down": "down", "left": "left", "right": "right"}
BUTTONS: dict[str, Button] = {"left": "left", "middle": "middle", "right": "right"}
OPPOSITE: dict[Direction, Direction] = {"up": "down", "down": "up", "left": "right", "right": "left"}


@dataclass(frozen=True)
class Command:
    """One command: its description for the model, and the function that reads its arguments."""

    description: str
    read: Callable[[ScreenArguments], Action]
    required: JsonObject
    optional: JsonObject

    def declaration(self, name: str) -> Declaration:
        """Return the command's declaration under this name."""
        properties = {**self.required, **self.optional}
        schema = {"type": "object", "properties": properties, "required": list(self.required)}
        return Declaration(name, self.description, schema)


def _command(
    description: str,
    read: Callable[[ScreenArguments], Action],
    required: JsonObject | None = None,
    **optional: JsonObject,
) -> Command:
    return Command(description, read, required or {}, optional)


# --- reading arguments -----------------------------------------------------------------------------------------------


def _click(args: ScreenArguments, *, button: Button = "left", count: int = 1) -> Action:
    return Click(*args.target(), button=button, count=count)


def _any_click(args: ScreenArguments) -> Action:
    name = str(args.values.get("button") or "left").strip().lower()
    if name not in BUTTONS:
        raise Unreadable(f"'button' must be {', '.join(BUTTONS)}, got {name!r:.100}")
    return _click(args, button=BUTTONS[name])


def _drag(args: ScreenArguments) -> Action:
    start = args.place("from_", "start_", "source_")
    return Drag(*start, *args.place("to_", "end_", "target_", "destination_"))


def _scroll(args: ScreenArguments) -> Action:
    """Return the scroll. A negative number of clicks turns the wheel the other way."""
    word = args.first("direction")
    direction = DIRECTIONS.get(str(word).strip().lower())
    if direction is None:
        raise Unreadable(f"'direction' must be up, down, left or right, got {word!r}")
    clicks = args.number("clicks", "amount", "notches", default=3)
    x, y = args.target() if args.has_point() else args.middle()
    return Scroll(x, y, OPPOSITE[direction] if clicks < 0 else direction, clicks=notches(clicks))


def _type_text(args: ScreenArguments) -> Action:
    x, y = args.target() if args.has_point() else (None, None)
    return TypeText(args.text("text", "content"), x, y, press_enter=args.flag("press_enter", default=False))


def _press_key(args: ScreenArguments) -> Action:
    keys = args.first("key", "keys")
    return KeyCombo(split_keys(str(keys) if isinstance(keys, int) else keys))


def _wait(args: ScreenArguments) -> Action:
    return Wait(seconds_to_wait(args.number("seconds", "duration", "time", default=1.0)))


COMMANDS: Mapping[str, Command] = {
    "click": _command(
        "Click at a point, with the left button where no other is named.",
        _any_click,
        POINT,
        button={"type": "string", "enum": list(BUTTONS)},
    ),
    "double_click": _command("Click the left button twice at a point.", partial(_click, count=2), POINT),
    "right_click": _command("Click the right button at a point.", partial(_click, button="right"), POINT),
    "move": _command("Move the pointer to a point.", lambda args: Move(*args.target()), POINT),
    "drag": _command(
        "Press the left button at one point and release it at another.",
        _drag,
        {"from_x": NUMBER, "from_y": NUMBER, "to_x": NUMBER, "to_y": NUMBER},
    ),
    "scroll": _command(
        "Turn the wheel by some clicks, at a point or in the middle of the screen.",
        _scroll,
        {"direction": {"type": "string", "enum": list(DIRECTIONS)}},
        clicks={"type": "integer", "description": "3 where not given"},
        **POINT,
    ),
    "type_text": _command("Type text at the focus.", _type_text, {"text": TEXT}, press_enter={"type": "boolean"}),
    "paste": _command("Put text of any length and script in at the focus.", _type_text, {"text": TEXT}),
    "press_key": _command(
        "Press a key, or several together.",
        _press_key,
        {"key": {**TEXT, "description": "such as Enter or Ctrl+Shift+P"}},
    ),
    "wait": _command("Let some seconds pass, then look again.", _wait, seconds=NUMBER),
    "open_address": _command(
        "Open an address in the focused browser.",
        lambda args: OpenAddress(args.text("address", "url")),
        {"address": TEXT},
    ),
    "go_back": _command("Go back in the focused browser.", lambda _: TraverseHistory("back")),
    "go_forward": _command("Go forward in the focused browser.", lambda _: TraverseHistory("forward")),
    "take_screenshot": _command("Do nothing, and look again.", lambda _: TakeScreenshot()),
}
"""The single commands. `paste` types: a character that the keyboard lacks goes through the clipboard anyway."""

COMPLETE = Declaration(
    "task_complete",
    "The task is done, as the newest screenshot shows. Say in one sentence what you see.",
    {"type": "object", "properties": {"summary": TEXT}, "required": ["summary"]},
)


def _batch(name: str, names: Sequence[str]) -> Declaration:
    item = {
        "type": "object",
        "properties": {"command": {"type": "string", "enum": list(names)}, "arguments": {"type": "object"}},
        "required": ["command"],
    }
    actions = {"type": "array", "items": item, "minItems": 1, "maxItems": MOST_ACTIONS}
    return Declaration(
        name,
        "Carry out several commands in order, without a look in between; after the first that fails, the rest is left.",
        {"type": "object", "properties": {"actions": actions}, "required": ["actions"]},
    )


def rules_of(batch: str) -> tuple[str, ...]:
    """Return the rules for a model whose tool for several commands has this name."""
    return (
        f"For up to {MOST_ACTIONS} actions that need no look in between, call {batch}.",
        "When the newest screenshot shows that the task is done, call task_complete, and nothing beside it.",
        prompts.GIVING_UP.format(call="call task_failed and say what you saw"),
    )


# --- the vocabulary --------------------------------------------------------------------------------------------------


class Commands:
    """A vocabulary of single commands, a batch of up to 20 in one turn, two ways to end, and the user's functions.

    `excluded` are names of commands and functions that are neither offered nor carried out. `commands` and `batch` are
    the commands, and the name of the tool for several of them. Raises SettingsError.
    """

    most_actions = MOST_ACTIONS

    def __init__(
        self,
        functions: Sequence[Offered] = (),
        excluded: Sequence[str] = (),
        *,
        commands: Mapping[str, Command] = COMMANDS,
        batch: str = "batch",
    ) -> None:
        known = declare_all(functions, taken=(*commands, batch, COMPLETE.name, GIVE_UP.name))
        self._commands, self._batch_name = commands, batch
        self._excluded = check_excluded(excluded, [*commands, batch, *(declaration.name for declaration in known)])
        own = [declaration for declaration in known if declaration.name not in self._excluded]
        self._functions = frozenset(declaration.name for declaration in own)
        self.singles = [each.declaration(name) for name, each in commands.items() if name not in self._excluded]
        names = [declaration.name for declaration in (*self.singles, *own)]
        batches = [] if batch in self._excluded else [_batch(batch, names)]
        self.others = (*batches, *own, COMPLETE, GIVE_UP)
        self.declarations = (*self.singles, *self.others)
        self._names = [declaration.name for declaration in self.declarations]
        self.rules = (*rules_of(batch), *prompts.desktop_rules(names))

    def read(self, call: FunctionCall, spell: Spell) -> Reading:
        """Return the meaning of a call. A batch becomes one proposal for each of its actions."""
        if call.name == COMPLETE.name:
            return EndOfRun("finished", str(call.args.get("summary") or ""))
        if call.name == GIVE_UP.name:
            return EndOfRun("gave_up", str(call.args.get("reason") or ""))
        if call.name == self._batch_name and call.name not in self._excluded:
            return self._read_batch(call, spell)
        return (self._read_single(call, spell),)

    def _read_single(self, call: FunctionCall, spell: Spell) -> Proposal:
        if call.name in self._functions:
            return proposal(call, CallFunction(call.name, dict(call.args)))
        return proposal(call, self._action(call, spell))

    def _action(self, call: FunctionCall, spell: Spell) -> Action:
        command = self._commands.get(call.name)
        if call.name in self._excluded:
            return InvalidAction(call.name, f"{call.name!r} is excluded in this run; use another command")
        if command is None:
            return InvalidAction(
                call.name, f"there is no command {call.name!r:.100}; there are {', '.join(self._names)}"
            )
        try:
            args = TrackedArguments(call.args)
            action = command.read(spell(args))
            args.check(call.name, self._names, (*command.required, *command.optional))
            return action
        except Unreadable as problem:
            return InvalidAction(call.name, str(problem))

    def _read_batch(self, call: FunctionCall, spell: Spell) -> tuple[Proposal, ...]:
        args = TrackedArguments(call.args)
        given = args.get("actions")
        actions = given if isinstance(given, list) else []
        try:
            args.check(call.name, self._names)
        except Unreadable as unknown:
            return (refused(call, f"{unknown}; nothing was done"),)
        if not 1 <= len(actions) <= MOST_ACTIONS:
            problem = f"'actions' must be a list of 1 to {MOST_ACTIONS} commands, got {len(actions)}; nothing was done"
            return (refused(call, problem),)
        return tuple(self._read_item(item, spell) for item in actions)

    def _read_item(self, item: Any, spell: Spell) -> Proposal:
        call = call_of(item)
        if call is None:
            problem = (
                f"an action of a {self._batch_name} must be {{'command': …, 'arguments': …}}, got {repr(item)[:200]}"
            )
            return refused(FunctionCall(self._batch_name, {}), problem)
        if call.name in (self._batch_name, COMPLETE.name, GIVE_UP.name):
            return refused(call, f"{call.name!r} cannot stand in a {self._batch_name}; call it by itself")
        return self._read_single(call, spell)
