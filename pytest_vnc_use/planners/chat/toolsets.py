"""The toolsets of models behind chat completions: four tables.

`commands` are single VNC commands, and batches of them, for any model that calls tools.
`computer_use` is Qwen's tool. `vnc_command` are the tools of an agent with a tool
prompt, and `local_agent` those of a local vision agent; both are contracts with
migrating users (docs/models.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import (
    DIRECTIONS,
    FLAGS,
    GRID,
    PIXELS_PER_WHEEL_CLICK,
    Arguments,
    Unreadable,
    numbers_of,
    pixel_of,
    seconds_to_wait,
    split_keys,
    wheel_clicks,
)
from pytest_vnc_use.planners.common.functions import Declaration
from pytest_vnc_use.planners.common.toolset import (
    DONE,
    GIVE_UP,
    MAX_ACTIONS,
    EndKind,
    EndOfRun,
    Table,
    Tool,
    tool,
)
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Direction,
    Drag,
    JsonObject,
    KeyCombo,
    Move,
    OpenUrl,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point
from pytest_vnc_use.types.keys import parse_key

NUMBER: JsonObject = {"type": "number"}
INTEGER: JsonObject = {"type": "integer"}
TEXT: JsonObject = {"type": "string"}
KEYS: JsonObject = {"type": "array", "items": TEXT}
POINT: JsonObject = {"x": NUMBER, "y": NUMBER}
BUTTONS: dict[str, Button] = {"left": "left", "middle": "middle", "right": "right"}
OPPOSITE: dict[Direction, Direction] = {
    "up": "down",
    "down": "up",
    "left": "right",
    "right": "left",
}
DIRECTION: JsonObject = {"type": "string", "enum": list(DIRECTIONS)}
BUTTON: JsonObject = {"type": "string", "enum": list(BUTTONS), "default": "left"}


def _click(args: Arguments, *, button: Button = "left", count: int = 1) -> Action:
    return Click(*args.target(), button=button, count=count)


def _any_click(args: Arguments) -> Action:
    name = str(args.get("button") or "left").strip().lower()
    if name not in BUTTONS:
        raise Unreadable(f"'button' must be {', '.join(BUTTONS)}, got {name!r:.100}")
    return _click(args, button=BUTTONS[name])


def _drag(args: Arguments) -> Action:
    return Drag(*args.point("from_"), *args.point("to_"))


def _scroll(args: Arguments, name: str) -> Action:
    """Return the scroll. A negative number of clicks turns the wheel the other way."""
    direction = args.direction("direction")
    clicks = args.number(name)
    x, y = args.target() if args.has_point() else args.middle()
    return Scroll(
        x,
        y,
        OPPOSITE[direction] if clicks < 0 else direction,
        clicks=wheel_clicks(clicks),
    )


def _type_text(args: Arguments) -> Action:
    x, y = args.target() if args.has_point() else (None, None)
    return TypeText(
        args.text("text"),
        x,
        y,
        press_enter=args.flag("press_enter", default=False),
    )


def _press_keys(args: Arguments) -> Action:
    keys = args.first("key", "keys")
    return KeyCombo(split_keys(str(keys) if isinstance(keys, int) else keys))


def _tap(args: Arguments) -> Action:
    keys = split_keys(args.text("key"))
    if len(keys) != 1:
        raise Unreadable(f"'key' must be one key, got {keys!r}; there is key_combo")
    return KeyCombo(keys)


def _wait(args: Arguments, name: str, *, unit_s: float = 1.0) -> Action:
    return Wait(seconds_to_wait(args.number(name) * unit_s))


def _take_screenshot(_: Arguments) -> Action:
    return TakeScreenshot()


def _ends(kind: EndKind, description: str, argument: str) -> Tool:
    """Return the row of a tool that ends the run; `argument` names the one with the
    result.
    """
    return tool(
        description,
        lambda args: EndOfRun(kind, str(args.get(argument) or "")),
        {argument: TEXT},
        ends=True,
    )


def _command_rules(offered: Sequence[str]) -> Sequence[str]:
    return (
        f"For up to {MAX_ACTIONS} actions that need no look in between, call batch.",
        (
            "When the newest screenshot shows that the task is done, call"
            " task_complete, and nothing beside it."
        ),
        prompts.GIVING_UP.format(call="call task_failed and say what you saw"),
        *([prompts.VERIFY_RULE] if "verify" in offered else []),
        *prompts.DESKTOP_RULES,
    )


COMMANDS = Table(
    rows={
        "click": tool(
            "Click at a point, with the left button where no other is named.",
            _any_click,
            POINT,
            button=BUTTON,
        ),
        "double_click": tool(
            "Click the left button twice at a point.", partial(_click, count=2), POINT
        ),
        "right_click": tool(
            "Click the right button at a point.", partial(_click, button="right"), POINT
        ),
        "move": tool(
            "Move the pointer to a point.", lambda args: Move(*args.target()), POINT
        ),
        "drag": tool(
            "Press the left button at one point and release it at another.",
            _drag,
            {"from_x": NUMBER, "from_y": NUMBER, "to_x": NUMBER, "to_y": NUMBER},
        ),
        "scroll": tool(
            "Turn the wheel by some clicks, at a point or in the middle of the screen.",
            lambda args: _scroll(args, "clicks"),
            {"direction": DIRECTION},
            clicks={**INTEGER, "default": 3},
            **POINT,
        ),
        "type_text": tool(
            "Type text at the focus.",
            _type_text,
            {"text": TEXT},
            press_enter={"type": "boolean"},
        ),
        "paste": tool(
            "Put text of any length and script in at the focus.",
            _type_text,
            {"text": TEXT},
        ),
        "press_key": tool(
            "Press a key, or several together.",
            _press_keys,
            {"key": {**TEXT, "description": "such as Enter or Ctrl+Shift+P"}},
        ),
        "wait": tool(
            "Let some seconds pass, then look again.",
            lambda args: _wait(args, "seconds"),
            seconds={**NUMBER, "default": 1},
        ),
        "open_url": tool(
            "Open a URL in the focused browser.",
            lambda args: OpenUrl(args.text("url")),
            {"url": TEXT},
        ),
        "go_back": tool(
            "Go back in the focused browser.", lambda _: TraverseHistory("back")
        ),
        "go_forward": tool(
            "Go forward in the focused browser.", lambda _: TraverseHistory("forward")
        ),
        "take_screenshot": tool("Do nothing, and look again.", _take_screenshot),
        "task_complete": _ends("finished", DONE.description, "summary"),
        "task_failed": _ends("gave_up", GIVE_UP.description, "reason"),
    },
    rules=_command_rules,
    batch="batch",
)
"""`paste` types, as characters that the keyboard lacks go through the clipboard anyway.
"""

STATUSES = {"success": "finished", "failure": "gave_up"}


def _click_at_pointer(
    args: Arguments, *, button: Button = "left", count: int = 1
) -> Action:
    return Click(*args.at_pointer(), button=button, count=count)


def _drag_from_pointer(args: Arguments) -> Action:
    start = args.pointer
    if start is None or args.has_point("start_"):
        start = args.point("start_")
    return Drag(*start, *args.target())


def _scroll_pixels(
    args: Arguments, *, positive: Direction = "up", negative: Direction = "down"
) -> Action:
    pixels = args.number("pixels", default=0.0)
    if not pixels:
        raise Unreadable(
            f"'pixels' must be a number above 0 for {positive}, below 0 for {negative},"
            " got 0"
        )
    x, y = args.at_pointer() if args.has_point() or args.pointer else args.middle()
    return Scroll(
        x,
        y,
        positive if pixels > 0 else negative,
        clicks=wheel_clicks(pixels / PIXELS_PER_WHEEL_CLICK),
    )


def _terminate(args: Arguments) -> EndOfRun:
    status = args.get("status")
    if not isinstance(status, str) or status not in STATUSES:
        raise Unreadable(f"'status' must be success or failure, got {status!r}")
    return EndOfRun(
        "finished" if status == "success" else "gave_up", str(args.get("text") or "")
    )


def _describe_computer(rows: Sequence[tuple[str, Tool]]) -> Declaration:
    properties = {
        "action": {"type": "string", "enum": [name for name, _ in rows]},
        "keys": {**KEYS, "description": "For key: pressed together."},
        "text": {"type": "string", "description": "For type and answer."},
        "coordinate": {
            "type": "array",
            "items": NUMBER,
            "description": "[x, y], for the mouse.",
        },
        "pixels": {
            "type": "number",
            "description": (
                "For scroll: above 0 up, below 0 down; for hscroll right, left."
            ),
        },
        "time": {"type": "number", "description": "For wait: seconds."},
        "status": {
            "type": "string",
            "enum": list(STATUSES),
            "description": "For terminate.",
        },
    }
    return Declaration(
        "computer_use",
        "Use the mouse and the keyboard of the computer, and look at its screen."
        " left_click_drag drags from where the pointer is. terminate ends the task,"
        " with status failure and the reason in text where it cannot be done.",
        {"type": "object", "properties": properties, "required": ["action"]},
    )


COMPUTER_USE = Table(
    rows={
        "key": tool(
            "", lambda args: KeyCombo(split_keys(args.first("keys", "key", "text")))
        ),
        "type": tool("", lambda args: TypeText(args.text("text"))),
        "mouse_move": tool("", lambda args: Move(*args.at_pointer())),
        "left_click": tool("", _click_at_pointer),
        "left_click_drag": tool("", _drag_from_pointer),
        "right_click": tool("", partial(_click_at_pointer, button="right")),
        "middle_click": tool("", partial(_click_at_pointer, button="middle")),
        "double_click": tool("", partial(_click_at_pointer, count=2)),
        "triple_click": tool("", partial(_click_at_pointer, count=3)),
        "scroll": tool("", _scroll_pixels),
        "hscroll": tool("", partial(_scroll_pixels, positive="right", negative="left")),
        "wait": tool(
            "",
            lambda args: _wait(args, "time"),
            time={**NUMBER, "default": 1},
        ),
        "screenshot": tool("", _take_screenshot),
        "terminate": tool("", _terminate, ends=True),
        "answer": tool(
            "", lambda args: EndOfRun("finished", args.text("text")), ends=True
        ),
    },
    rules=lambda _: (
        "Make exactly one call in each answer; you will see the screen after it.",
        (
            "When the newest screenshot shows that the task is done, terminate with"
            " status success."
        ),
        prompts.GIVING_UP.format(
            call="terminate with status failure and say in text what you saw"
        ),
    ),
    single="computer_use",
    selector="action",
    describe=_describe_computer,
    ends_inside=True,
    noun="action",
    max_actions=1,
)
"""Source: the cookbook of Qwen3-VL, `utils/agent_function_call.py`. The model drags
from the pointer position, and scrolls by `pixels`: positive ones go up, or right.
Qwen's own list has no screenshot; its models ask for one.
"""


def _drag_to(args: Arguments) -> Action:
    if not (args.has("toX") and args.has("toY")):
        raise Unreadable("the end is missing: give toX and toY")
    return Drag(
        *args.target(),
        *pixel_of([args.get("toX"), args.get("toY")], args.screen, args.sent),
    )


def _configure(args: Arguments) -> Action:
    settings = args.get("params")
    if not isinstance(settings, dict):
        settings = {name: args.first(name) for name in args.values}
    return CallFunction("configure", dict(settings))


def _describe_vnc(rows: Sequence[tuple[str, Tool]]) -> Declaration:
    commands = [row.declaration(name) for name, row in rows if not row.ends]
    args: JsonObject = {}
    for row in commands:
        args |= row.parameters["properties"]
    lines = [
        f"{row.name} {{{', '.join(row.parameters['properties'])}}}: {row.description}"
        for row in commands
    ]
    names: JsonObject = {"type": "string", "enum": [row.name for row in commands]}
    schema = {
        "type": "object",
        "properties": {"action": names, **args},
        "required": ["action"],
    }
    return Declaration(
        "vnc_command", "\n".join(["Perform one command.", *lines]), schema
    )


VNC_COMMAND = Table(
    rows={
        "screenshot": tool(
            "Look at the screen: answers with an image.",
            _take_screenshot,
            shows_screen=True,
        ),
        "mouse_click": tool("Click.", _any_click, POINT, button=BUTTON),
        "mouse_double_click": tool("Click twice.", partial(_click, count=2), POINT),
        "mouse_drag": tool(
            "Drag with the left button from x, y to toX, toY.",
            _drag_to,
            {**POINT, "toX": NUMBER, "toY": NUMBER},
        ),
        "scroll": tool(
            "Turn the wheel.",
            lambda args: _scroll(args, "amount"),
            {**POINT, "direction": DIRECTION},
            amount={**NUMBER, "default": 3},
        ),
        "key_tap": tool(
            "Press one key: return, escape, tab, space, pagedown, up, f5 …",
            _tap,
            {"key": TEXT},
        ),
        "key_combo": tool(
            'Press keys together: key "ctrl+a", or keys ["ctrl", "shift", "t"].',
            _press_keys,
            key=TEXT,
            keys=KEYS,
        ),
        "paste": tool(
            "Put text in at the focus by the clipboard and ctrl+v: in browsers and"
            " editors, not in terminals.",
            lambda args: TypeText(args.text("text"), paste=True),
            {"text": TEXT},
        ),
        "hover": tool("Move the pointer.", lambda args: Move(*args.target()), POINT),
        "wait": tool(
            "Let some milliseconds pass.",
            lambda args: _wait(args, "ms", unit_s=0.001),
            ms={**NUMBER, "default": 500},
        ),
        "detect_elements": tool(
            "List what can be clicked, or read, as text: its name, with x, y, w, h.",
            lambda _: CallFunction("list_elements", {}),
            needs="list_elements",
        ),
        "configure": tool(
            "Set in params: step_delay_ms, the wait after each step;"
            " screenshot_max_side, in pixels.",
            _configure,
            params={"type": "object"},
        ),
        "get_timing": tool(
            "The times of this run, and the screen's size.",
            lambda _: CallFunction("get_timing", {}),
        ),
        "task_complete": _ends(
            "finished",
            "The whole task is done. Say in the summary what was done.",
            "summary",
        ),
        "task_failed": _ends(
            "gave_up",
            "The task cannot be done. Say in the reason what you saw.",
            "reason",
        ),
    },
    rules=prompts.vnc_command_rules,
    operator=prompts.VNC_COMMAND_OPERATOR,
    answered={
        "list_elements": (
            "elements are not available: they need vnc_elements, or vnc_cdp for those"
            " of a page, or pytest-vnc-use[ocr], which reads text off any screen"
        ),
        "configure": "",
        "get_timing": "",
    },
    single="vnc_command",
    selector="action",
    describe=_describe_vnc,
    batch="action_queue",
    always_shows_screen=False,
    text_ends="gave_up",
)

CLICK_COUNTS = {"1": 1, "2": 2, "3": 3}
LABEL: JsonObject = {**TEXT, "description": "what is there, in a few words"}
BOX: JsonObject = {
    "type": "array",
    "description": (
        "[x, y] or [x1, y1, x2, y2], 0 to 1000 over the width and the height of the"
        " screen"
    ),
}


def _box_centre(args: Arguments) -> Point:
    """Return the pixel in the middle of a box in one of its three forms, clamped to 0
    to 1000. Raises Unreadable.
    """
    box = args.get("box")
    if box is None:
        raise Unreadable(
            "'box' is missing: give [x, y] or [x1, y1, x2, y2]", "missing_box"
        )
    numbers = numbers_of(box)
    if (
        not isinstance(box, list)
        or len(numbers) not in (2, 4)
        or not all(map(math.isfinite, numbers))
    ):
        raise Unreadable(
            "'box' must be [x, y], [x1, y1, x2, y2] or [[x1, y1], [x2, y2]], got"
            f" {box!r:.200}",
            "invalid_box",
        )
    inside = [min(max(number, 0.0), float(GRID)) for number in numbers]
    x = sum(inside[::2]) / len(inside[::2])
    y = sum(inside[1::2]) / len(inside[1::2])
    column = int(x / GRID * (args.screen.width - 1))
    row = int(y / GRID * (args.screen.height - 1))
    return column, row


def _click_element(args: Arguments) -> Action:
    label = args.get("label")
    if not isinstance(label, str) or not label.strip():
        raise Unreadable(
            "'label' is missing: say in a few words what you click", "missing_label"
        )
    button = args.further("button", BUTTONS) or "left"
    count = args.further("clicks", CLICK_COUNTS) or 1
    return Click(*_box_centre(args), button=button, count=count)


def _type_ascii(args: Arguments) -> Action:
    text = args.get("text")
    if not isinstance(text, str) or not text:
        raise Unreadable("'text' must not be empty", "empty_text")
    x, y = _box_centre(args) if args.has("box") else (None, None)
    press_enter = args.further("press_enter", FLAGS) or False
    return TypeText(text, x, y, press_enter=press_enter)


def _press_known_key(args: Arguments) -> Action:
    key = args.get("key")
    if not isinstance(key, str) or not key.strip():
        raise Unreadable(
            "'key' is missing: give enter, tab, escape, ctrl+c …", "missing_key"
        )
    keys = split_keys(key)
    try:
        for name in keys:
            parse_key(name)
    except ActionError as exc:
        raise Unreadable(str(exc), "invalid_key") from exc
    return KeyCombo(keys)


def _scroll_down(args: Arguments) -> Action:
    x, y = _box_centre(args)
    direction = args.further("direction", DIRECTIONS) or "down"
    return Scroll(x, y, direction, wheel_clicks(args.number("amount") / 120))


LOCAL_AGENT = Table(
    rows={
        "observe_screen": tool(
            "Take a screenshot; it follows in the next message.",
            _take_screenshot,
            shows_screen=True,
        ),
        "click_element": tool(
            "Click what you name, in the middle of its box.",
            _click_element,
            {"label": LABEL, "box": BOX},
        ),
        "type_text": tool(
            "Type text at the focus; click an input field first.",
            _type_ascii,
            {"text": TEXT},
        ),
        "press_key": tool(
            "Press a key, or several together.",
            _press_known_key,
            {
                "key": {
                    **TEXT,
                    "description": (
                        "enter, tab, escape, windows, F4, a letter, ctrl+c, alt+f4 …"
                    ),
                }
            },
        ),
        "scroll_at_position": tool(
            "Scroll down at a place.",
            _scroll_down,
            {"box": BOX},
            amount={**NUMBER, "default": 120},
        ),
    },
    rules=prompts.local_agent_rules,
    operator=prompts.LOCAL_AGENT_OPERATOR,
    noun="tool",
    max_actions=1,
    always_shows_screen=False,
    text_ends="finished",
    typed_errors=True,
)

TABLES = {
    "commands": COMMANDS,
    "computer_use": COMPUTER_USE,
    "vnc_command": VNC_COMMAND,
    "local_agent": LOCAL_AGENT,
}
