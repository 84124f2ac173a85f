"""The tools of an agent with a tool prompt: `vnc_command`, `action_queue`, `observe_screen` and others.

Points may be in other units than the planner's, and elements are clicked by their numbers in the newest list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_vnc_use.planners.chat.answers import call_of
from pytest_vnc_use.planners.chat.commands import (
    BUTTONS,
    DIRECTIONS,
    NUMBER,
    OPPOSITE,
    POINT,
    TEXT,
    Command,
    Commands,
)
from pytest_vnc_use.planners.common.arguments import GRID, Unreadable, pixel_of, seconds_to_wait, split_keys
from pytest_vnc_use.planners.common.functions import CONFIGURE, GET_TIMING, Declaration, Offered
from pytest_vnc_use.planners.common.toolset import (
    FunctionCall,
    Point,
    Reading,
    ScreenArguments,
    Spell,
    notches,
    refused,
)
from pytest_vnc_use.types import (
    PIXELS_A_NOTCH,
    Action,
    Button,
    Click,
    Drag,
    JsonObject,
    KeyCombo,
    Move,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)

NAME = "vnc_command"
UNITS = ("normalized", "percent", "pixels")
"""Units of a point: a grid of 1000, hundredths of the screen, or pixels of the screenshot."""
UNIT: JsonObject = {"type": "string", "enum": list(UNITS)}


def _in_units(args: ScreenArguments) -> ScreenArguments:
    """Return the arguments with the screen's size in the unit that they name. Raises Unreadable."""
    units = str(args.values.get("units") or "").strip().lower()
    sizes = {"": args.counted, "normalized": (GRID, GRID), "percent": (100, 100), "pixels": args.sent}
    if units not in sizes:
        raise Unreadable(f"'units' must be {', '.join(UNITS)}, got {units!r:.100}")
    return replace(args, counted=sizes[units])


def _button(args: ScreenArguments) -> Button:
    name = str(args.values.get("button") or "left").strip().lower()
    if name not in BUTTONS:
        raise Unreadable(f"'button' must be {', '.join(BUTTONS)}, got {name!r:.100}")
    return BUTTONS[name]


def _count(args: ScreenArguments) -> int:
    count = args.number("count", "clicks", default=1)
    if count not in (1, 2, 3):
        raise Unreadable(f"'count' must be 1, 2 or 3, got {count:g}")
    return int(count)


def _mouse_click(args: ScreenArguments) -> Action:
    return Click(*_in_units(args).target(), _button(args), _count(args))


def _mouse_drag(args: ScreenArguments) -> Action:
    args = _in_units(args)
    return Drag(*args.place("from_", "start_"), *args.place("to_", "end_"))


def _click_element(args: ScreenArguments) -> Action:
    return Click(*_listed(args), _button(args), _count(args))


def _listed(args: ScreenArguments) -> Point:
    """Return the pixel of the element with this number in the newest list. Raises Unreadable."""
    index = args.number("index", "element", "id", default=0)
    point = args.listed.get(int(index)) if index == int(index) else None
    if point is None:
        have = f"the newest list has 1 to {max(args.listed)}" if args.listed else "call list_elements first"
        raise Unreadable(f"'index' must be the number of an element in the newest list, got {index:g}; {have}")
    return pixel_of(point, args.screen, args.counted)


def _scroll(args: ScreenArguments) -> Action:
    word = str(args.first("direction")).strip().lower()
    if word not in DIRECTIONS:
        raise Unreadable(f"'direction' must be up, down, left or right, got {word!r:.100}")
    pixels = args.number("pixels", "magnitude", default=0)
    clicks = pixels / PIXELS_A_NOTCH if pixels else args.number("clicks", "amount", default=3)
    direction = OPPOSITE[DIRECTIONS[word]] if clicks < 0 else DIRECTIONS[word]
    point = _in_units(args).target() if args.has_point() else args.middle()
    return Scroll(*point, direction, clicks=notches(clicks))


def _key_tap(args: ScreenArguments) -> Action:
    keys = split_keys(args.text("key"))
    if len(keys) != 1:
        raise Unreadable(f"'key' must be one key, got {keys!r}; there is key_combo")
    return KeyCombo(keys)


def _type_text(args: ScreenArguments) -> Action:
    return TypeText(args.text("text"), press_enter=args.flag("press_enter", default=False))


def _wait(args: ScreenArguments) -> Action:
    return Wait(seconds_to_wait(args.number("ms", default=1000.0) / 1000))


def _command(
    description: str,
    read: Callable[[ScreenArguments], Action],
    required: JsonObject | None = None,
    **optional: JsonObject,
) -> Command:
    return Command(description, read, required or {}, optional)


_BUTTON: JsonObject = {"type": "string", "enum": list(BUTTONS)}
_INTEGER: JsonObject = {"type": "integer"}
_EDGES: JsonObject = {"from_x": NUMBER, "from_y": NUMBER, "to_x": NUMBER, "to_y": NUMBER}
COMMANDS: Mapping[str, Command] = {
    "mouse_click": _command("Click at a point.", _mouse_click, POINT, button=_BUTTON, count=_INTEGER, units=UNIT),
    "mouse_move": _command("Move to a point.", lambda args: Move(*_in_units(args).target()), POINT, units=UNIT),
    "mouse_drag": _command("Drag with the left button.", _mouse_drag, _EDGES, units=UNIT),
    "click_element": _command(
        "Click the element with this number in the newest list of list_elements.",
        _click_element,
        {"index": _INTEGER},
        button=_BUTTON,
        count=_INTEGER,
    ),
    "scroll_at_position": _command(
        "Turn the wheel at a point: by clicks, or by pixels, 100 a click.",
        _scroll,
        {**POINT, "direction": {"type": "string", "enum": list(DIRECTIONS)}},
        clicks=_INTEGER,
        pixels=NUMBER,
        units=UNIT,
    ),
    "key_tap": _command("Press one key.", _key_tap, {"key": TEXT}),
    "key_combo": _command(
        "Press keys together.",
        lambda args: KeyCombo(split_keys(args.first("keys", "key"))),
        {"keys": {"type": "array", "items": TEXT}},
    ),
    "type_text": _command("Type text at the focus.", _type_text, {"text": TEXT}, press_enter={"type": "boolean"}),
    "paste": _command("Put text of any length and script in at the focus.", _type_text, {"text": TEXT}),
    "wait": _command("Let some milliseconds pass, then look again.", _wait, ms=NUMBER),
    "observe_screen": _command("Do nothing, and look again.", lambda _: TakeScreenshot()),
}


def _single(commands: Sequence[Declaration]) -> Declaration:
    """Return the tool for one command; its properties are those of all commands."""
    known = {name: each for command in commands for name, each in command.parameters["properties"].items()}
    words = " ".join(f"{each.name}({', '.join(each.parameters['required'])}): {each.description}" for each in commands)
    names: JsonObject = {"type": "string", "enum": [each.name for each in commands]}
    schema = {"type": "object", "properties": {"command": names, **known}, "required": ["command"]}
    return Declaration(NAME, f"Carry out one command. {words}", schema)


class VncCommand:
    """A vocabulary of one tool for single commands, one for a queue of up to 20, and tools that look and time.

    `excluded` are names of commands and functions, or `action_queue`. Raises SettingsError.
    """

    most_actions = Commands.most_actions

    def __init__(self, functions: Sequence[Offered] = (), excluded: Sequence[str] = ()) -> None:
        timing = [each for each in (GET_TIMING, CONFIGURE) if each.name not in {_name(other) for other in functions}]
        self._commands = Commands((*functions, *timing), excluded, commands=COMMANDS, batch="action_queue")
        looks = [each for each in self._commands.singles if each.name == "observe_screen"]
        self.declarations = (_single(self._commands.singles), *looks, *self._commands.others)
        self.rules = self._commands.rules

    def read(self, call: FunctionCall, spell: Spell) -> Reading:
        """Return the meaning of a call. A command that is called by its own name counts too."""
        if call.name != NAME:
            return self._commands.read(call, spell)
        single = call_of(dict(call.args))
        if single is None or single.name not in COMMANDS:
            given = call.args.get("command")
            if given in [*COMMANDS]:
                return (refused(call, f"the arguments of {given!r} must be an object, got {dict(call.args)!r:.200}"),)
            return (refused(call, f"'command' must be one of {', '.join(COMMANDS)}, got {given!r:.100}"),)
        return self._commands.read(single, spell)


def _name(offered: Offered) -> str:
    return offered.name if isinstance(offered, Declaration) else getattr(offered, "__name__", "")
