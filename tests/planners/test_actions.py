"""Calls of every tool format, one by one: what each becomes on the screen, and
otherwise what the model is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import pytest

from pytest_vnc_use.planners.anthropic import MEMBERS, ToolUse, read_calls
from pytest_vnc_use.planners.chat.answers import call_of
from pytest_vnc_use.planners.chat.toolsets import COMMANDS, COMPUTER_USE
from pytest_vnc_use.planners.common.arguments import Arguments, Unreadable, pixel_of
from pytest_vnc_use.planners.common.toolset import FunctionCall, Table, Toolset
from pytest_vnc_use.planners.gemini import denorm_x
from pytest_vnc_use.planners.gemini.calls import (
    DESKTOP,
    FunctionNames,
    offered_names,
    read_confirmation,
    read_proposal,
)
from pytest_vnc_use.planners.openai import (
    ACTIONS,
    read_computer_call,
    read_confirmation as read_checks,
    read_function_call,
)
from pytest_vnc_use.types import (
    Action,
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
from support.fuzzing.trial import assert_on_screen, mutated_json

SCREEN = FrameRef("0" * 64, 1440, 900)
HALF = partial(Arguments, screen=FrameRef("", 2000, 1000), sent=(1000, 500))
"""The arguments of a model that got an image half as wide and high as the screen."""
AT = {"x": 100, "y": 50}
PAIR = {"coordinate": [100, 50]}
HERE = (201, 101)
"""The pixel of that point on the larger screen."""
POINT = {"x": 500, "y": 500}
OFFERED = offered_names("desktop", (), older=False)
Read = Callable[[str, Any], list[Action]]


def gemini(name: str, args: Any) -> list[Action]:
    return [
        read_proposal(
            FunctionCall(name, args), SCREEN, FunctionNames(offered=OFFERED)
        ).action
    ]


def read_claude(
    name: str, args: Any, pointer: tuple[int, int] | None = None
) -> tuple[Proposal, ...]:
    use = ToolUse(name, args, is_computer=True)
    [proposals] = read_calls([use], HALF, pointer=pointer)
    return tuple(proposals)


def anthropic(
    name: str, args: Any, pointer: tuple[int, int] | None = None
) -> list[Action]:
    proposals = read_claude(name, args, pointer)
    assert {proposal.as_proposed["name"] for proposal in proposals} == {name}
    assert len(proposals) > 1 or proposals[0].as_proposed["args"] == args
    return [proposal.action for proposal in proposals]


def openai(name: str, args: Any) -> list[Action]:
    one = {"action": {"type": name, **args}}
    several = {"actions": [{"type": name, **args}]}
    found = [proposal.action for proposal in read_computer_call(several, HALF)]
    assert [proposal.action for proposal in read_computer_call(one, HALF)] == found
    return found


def read_tool(
    table: Table, call: FunctionCall, *args: Any, **given: Any
) -> tuple[Proposal, ...]:
    reading = Toolset(table, *args, call_in=call_of).read(
        call, partial(Arguments, screen=SCREEN, **given)
    )
    assert isinstance(reading, tuple)
    return reading


def commands(name: str, args: Any) -> list[Action]:
    return [
        proposal.action for proposal in read_tool(COMMANDS, FunctionCall(name, args))
    ]


def computer_use(name: str, args: Any) -> list[Action]:
    call = FunctionCall("computer_use", {"action": name, **args})
    return [proposal.action for proposal in read_tool(COMPUTER_USE, call)]


def problem(actions: list[Action]) -> str:
    [action] = actions
    assert isinstance(action, InvalidAction), action
    assert "\n" not in action.problem
    return action.problem


GEMINIS: list[tuple[str, dict[str, Any], Action]] = [
    ("click", POINT, Click(720, 450)),
    ("double_click", POINT, Click(720, 450, count=2)),
    ("triple_click", POINT, Click(720, 450, count=3)),
    ("middle_click", POINT, Click(720, 450, "middle")),
    ("right_click", POINT, Click(720, 450, "right")),
    ("mouse_down", POINT, MouseDown(720, 450)),
    ("mouse_up", POINT, MouseUp(720, 450)),
    ("move", POINT, Move(720, 450)),
    ("type", {"text": "Grüße 你好"}, TypeText("Grüße 你好")),
    ("type", {"text": "a", **POINT}, TypeText("a", 720, 450)),
    (
        "drag_and_drop",
        {"start_x": 0, "start_y": 0, "end_x": 500, "end_y": 500},
        Drag(0, 0, 720, 450),
    ),
    ("wait", {}, Wait(1.0)),
    ("press_key", {"key": "ctrl+a"}, KeyCombo(("ctrl", "a"))),
    ("key_down", {"key": "shift"}, KeyDown("shift")),
    ("key_up", {"key": "shift"}, KeyUp("shift")),
    ("hotkey", {"keys": ["ctrl", "shift", "p"]}, KeyCombo(("ctrl", "shift", "p"))),
    ("take_screenshot", {}, TakeScreenshot()),
    (
        "scroll",
        {**POINT, "direction": "down", "magnitude_in_wheel_clicks": 4},
        Scroll(720, 450, "down", 4),
    ),
    (
        "scroll",
        {**POINT, "direction": "down", "magnitude_in_pixels": 500},
        Scroll(720, 450, "down", 4),
    ),
    ("scroll", {**POINT, "direction": "down"}, Scroll(720, 450, "down", 3)),
]
VARIANTS: list[tuple[str, dict[str, Any], Action]] = [
    ("search", {}, KeyCombo(("ctrl", "k"))),
    ("click", {"x": [500, 500]}, Click(720, 450)),
    ("drag_and_drop", {"start": [0, 0], "end": [500, 500]}, Drag(0, 0, 720, 450)),
    ("type", {"text": "a", "press_enter": "true"}, TypeText("a", press_enter=True)),
    ("wait", {"seconds": 2, "reason": "it loads", "intent": "to see"}, Wait(2.0)),
    ("press_key", {"key": "alt f"}, KeyCombo(("alt", "f"))),
    ("hotkey", {"keys": ["ctrl+k", " "]}, KeyCombo(("ctrl", "k", " "))),
    (
        "scroll",
        {"direction": "DOWN", "magnitude_in_wheel_clicks": "2"},
        Scroll(720, 450, "down", 2),
    ),
]


def held(key: str, action: Action) -> list[Action]:
    return [KeyDown(key), action, KeyUp(key)]


CLAUDES: list[tuple[str, dict[str, Any], list[Action]]] = [
    ("screenshot", {}, [TakeScreenshot()]),
    ("left_click", PAIR, [Click(*HERE)]),
    ("right_click", PAIR, [Click(*HERE, button="right")]),
    ("middle_click", PAIR, [Click(*HERE, button="middle")]),
    ("double_click", PAIR, [Click(*HERE, count=2)]),
    ("triple_click", PAIR, [Click(*HERE, count=3)]),
    ("left_click", {**PAIR, "text": "shift"}, held("shift", Click(*HERE))),
    ("left_click_drag", {"start_coordinate": [0, 0], **PAIR}, [Drag(1, 1, *HERE)]),
    ("mouse_move", PAIR, [Move(*HERE)]),
    ("left_mouse_down", PAIR, [MouseDown(*HERE)]),
    ("left_mouse_up", PAIR, [MouseUp(*HERE)]),
    (
        "scroll",
        {**PAIR, "scroll_direction": "down", "scroll_amount": 5},
        [Scroll(*HERE, "down", 5)],
    ),
    ("type", {"text": "a\nb "}, [TypeText("a\nb ")]),
    ("key", {"text": "ctrl+shift+Escape"}, [KeyCombo(("ctrl", "shift", "Escape"))]),
    ("key", {"text": "Down", "repeat": 3}, [KeyCombo(("Down",))] * 3),
    (
        "hold_key",
        {"text": "ctrl+w", "duration": 2},
        [KeyDown("ctrl"), *held("w", Wait(2.0)), KeyUp("ctrl")],
    ),
    ("wait", {"duration": 3}, [Wait(3.0)]),
]
OPENAIS: list[tuple[str, dict[str, Any], list[Action]]] = [
    ("click", {"button": "left", **AT}, [Click(*HERE)]),
    ("click", {"button": "wheel", **AT}, [Click(*HERE, button="middle")]),
    ("click", {"button": "left", **AT, "keys": ["CTRL"]}, held("CTRL", Click(*HERE))),
    ("double_click", AT, [Click(*HERE, count=2)]),
    ("move", AT, [Move(*HERE)]),
    ("drag", {"path": [{"x": 0, "y": 0}, {"x": 9, "y": 9}, AT]}, [Drag(1, 1, *HERE)]),
    ("scroll", {**AT, "scroll_x": 0, "scroll_y": 300}, [Scroll(*HERE, "down", 3)]),
    ("scroll", {**AT, "scroll_x": -200, "scroll_y": 0}, [Scroll(*HERE, "left", 2)]),
    (
        "scroll",
        {**AT, "scroll_x": 100, "scroll_y": 5000},
        [Scroll(*HERE, "down", 50), Scroll(*HERE, "right", 1)],
    ),
    ("type", {"text": "a\nb "}, [TypeText("a\nb ")]),
    ("keypress", {"keys": ["CTRL", "A"]}, [KeyCombo(("CTRL", "A"))]),
    (
        "keypress",
        {"keys": ["DOWN", "DOWN"]},
        [KeyCombo(("DOWN",)), KeyCombo(("DOWN",))],
    ),
    ("wait", {}, [Wait(2.0)]),
    ("screenshot", {}, [TakeScreenshot()]),
]
COMMAND_CALLS: list[tuple[str, dict[str, Any], Action]] = [
    ("click", POINT, Click(720, 450)),
    ("click", {"point": "(500, 500)"}, Click(720, 450)),
    ("double_click", POINT, Click(720, 450, count=2)),
    ("right_click", POINT, Click(720, 450, "right")),
    ("move", POINT, Move(720, 450)),
    (
        "drag",
        {"from_x": 0, "from_y": 0, "to_x": 500, "to_y": 500},
        Drag(0, 0, 720, 450),
    ),
    ("scroll", {"direction": "down"}, Scroll(720, 450, "down", 3)),
    ("scroll", {"direction": "down", "clicks": -4}, Scroll(720, 450, "up", 4)),
    ("type_text", {"text": "añ\n"}, TypeText("añ\n")),
    ("paste", {"text": "日本"}, TypeText("日本")),
    (
        "press_key",
        {"key": "ctrl shift page down"},
        KeyCombo(("ctrl", "shift", "page down")),
    ),
    ("wait", {"thought": "it loads"}, Wait(1.0)),
    ("open_url", {"url": "example.org"}, OpenUrl("example.org")),
    ("go_back", {}, TraverseHistory("back")),
    ("go_forward", {}, TraverseHistory("forward")),
    ("take_screenshot", {}, TakeScreenshot()),
]
QWENS: list[tuple[str, dict[str, Any], Action]] = [
    ("left_click", {"coordinate": [500, 500], "text": "", "keys": []}, Click(720, 450)),
    ("right_click", {"coordinate": [500, 500]}, Click(720, 450, "right")),
    ("middle_click", {"coordinate": [500, 500]}, Click(720, 450, "middle")),
    ("double_click", {"coordinate": [500, 500]}, Click(720, 450, count=2)),
    ("triple_click", {"coordinate": [500, 500]}, Click(720, 450, count=3)),
    ("mouse_move", {"coordinate": "[500, 500]"}, Move(720, 450)),
    (
        "left_click_drag",
        {"start_coordinate": [0, 0], "coordinate": [500, 500]},
        Drag(0, 0, 720, 450),
    ),
    ("scroll", {"pixels": -500}, Scroll(720, 450, "down", 5)),
    ("hscroll", {"pixels": -200}, Scroll(720, 450, "left", 2)),
    ("key", {"keys": ["ctrl", "c"]}, KeyCombo(("ctrl", "c"))),
    ("type", {"text": "a"}, TypeText("a")),
    ("wait", {"time": 2}, Wait(2.0)),
    ("screenshot", {}, TakeScreenshot()),
]
MEANINGS: list[tuple[Read, str, dict[str, Any], list[Action]]] = [
    *((gemini, name, args, [action]) for name, args, action in [*GEMINIS, *VARIANTS]),
    *((anthropic, *row) for row in CLAUDES),
    *((openai, *row) for row in OPENAIS),
    *((commands, name, args, [action]) for name, args, action in COMMAND_CALLS),
    *((computer_use, name, args, [action]) for name, args, action in QWENS),
]


@pytest.mark.parametrize(("read", "name", "args", "actions"), MEANINGS)
def test_call_means_actions(
    read: Read, name: str, args: dict[str, Any], actions: list[Action]
) -> None:
    assert read(name, args) == actions


def openai_unchecked(name: str, args: Any) -> list[Action]:
    call = {"actions": [{"type": name, **args}]}
    return [proposal.action for proposal in read_computer_call(call, HALF)]


def anthropic_unchecked(name: str, args: Any) -> list[Action]:
    return [proposal.action for proposal in read_claude(name, args)]


UNCHECKED = {openai: openai_unchecked, anthropic: anthropic_unchecked}


@pytest.mark.parametrize(("read", "name", "args", "actions"), MEANINGS)
def test_hostile_arguments_stay_on_screen(
    read: Read, name: str, args: dict[str, Any], actions: list[Action]
) -> None:
    """What is read of any arguments can be performed, or is invalid."""
    reader = UNCHECKED.get(read, read)
    for seed in range(50):
        given = mutated_json(Random(seed), args)
        for action in reader(name, given) if isinstance(given, dict) else ():
            assert_on_screen(action, FrameRef("", 2000, 1000))


def test_every_call_of_tables_is_tested() -> None:
    """Those of Gemini's older dialect are in tests/sources."""
    named: dict[Read, set[str]] = {}
    for read, name, _, _ in MEANINGS:
        named.setdefault(read, set()).add(name)
    assert set(DESKTOP) <= named[gemini]
    assert named[anthropic] == set(MEMBERS) - {"zoom", "cursor_position"}
    assert named[openai] == set(ACTIONS)


@pytest.mark.parametrize(
    ("read", "table"), [(commands, COMMANDS), (computer_use, COMPUTER_USE)]
)
def test_every_row_of_toolset_is_tested(read: Read, table: Any) -> None:
    tested = {name for by, name, _, _ in MEANINGS if by is read}
    assert tested == {name for name, row in table.rows.items() if not row.ends}


PROBLEMS: list[tuple[Read, str, dict[str, Any], str]] = [
    (
        gemini,
        "bash",
        {"command": "ls"},
        f"there is no function 'bash'; there are {', '.join(OFFERED)}",
    ),
    (
        gemini,
        "click",
        {"x": 5},
        "a point must be [x, y], or a box [x1, y1, x2, y2], in numbers, got {'x': 5}",
    ),
    (
        gemini,
        "click",
        {**AT, "button": "right"},
        "'click' does not take button='right'; its arguments: x, y; there is",
    ),
    (gemini, "type", {}, "'text' is missing"),
    (
        gemini,
        "type",
        {"text": "a", "press_enter": "maybe"},
        "'press_enter' must be true or false, got 'maybe'",
    ),
    (
        gemini,
        "scroll",
        {**POINT, "direction": "sideways"},
        "must be up, down, left or right, got 'sideways'",
    ),
    (gemini, "hotkey", {"keys": []}, "at least one key"),
    (
        gemini,
        "scroll",
        {"direction": "up", "magnitude_in_wheel_clicks": 0},
        "more than 0 and at most 50 wheel clicks, got 0",
    ),
    (
        gemini,
        "drag_and_drop",
        {"x": 1, "y": 1},
        "a point is missing: give end_x and end_y",
    ),
    (gemini, "wait", {"seconds": 600}, "a wait takes 0 to 60 seconds, got 600"),
    (
        anthropic,
        "left_click",
        {"coordinate": [1, 501]},
        "'y' must lie on the screenshot, 0 to 499, got 501",
    ),
    (
        anthropic,
        "key",
        {"text": "Down", "repeat": 100},
        "'repeat' must be a whole number, 1 to 20, got 100",
    ),
    (
        anthropic,
        "zoom",
        {"region": [0, 0, 9, 9]},
        "'zoom' is not supported; look at the newest screenshot",
    ),
    (anthropic, "cursor_position", {}, "it was not moved yet"),
    (anthropic, "bash", {"command": "ls"}, "there is no tool 'bash'"),
    (
        openai,
        "click",
        {"button": "back", **AT},
        "'button' must be left, right or wheel, got 'back'",
    ),
    (
        openai,
        "click",
        {**AT, "keys": 5},
        "'keys' must be a key or a list of keys, got 5",
    ),
    (openai, "drag", {"path": [AT]}, "'path' must be a list of at least two points"),
    (
        openai,
        "scroll",
        AT,
        "'scroll_x' or 'scroll_y' must be a number of pixels other than 0",
    ),
    (
        commands,
        "clack",
        POINT,
        "there is no command 'clack'; there are click, double_click",
    ),
    (
        commands,
        "double_click",
        {**AT, "button": "right"},
        "its arguments: x, y; there is right_click",
    ),
    (
        commands,
        "batch",
        {"actions": [{"command": "wait"}], "stop": True},
        "does not take stop=True",
    ),
    (
        commands,
        "batch",
        {"actions": [{"command": "wait"}] * 21},
        "1 to 20 commands, got 21; nothing was done",
    ),
    (
        computer_use,
        "scroll",
        {},
        "'pixels' must be a number above 0 for up, below 0 for down, got 0",
    ),
    (
        computer_use,
        "terminate",
        {"status": ["success"]},
        "'status' must be success or failure, got ['success']",
    ),
]


@pytest.mark.parametrize(("read", "name", "args", "message"), PROBLEMS)
def test_call_without_meaning_reports_problem(
    read: Read, name: str, args: dict[str, Any], message: str
) -> None:
    assert message in problem(read(name, args))


def test_batch_with_bad_actions_keeps_order() -> None:
    wait = {"command": "wait"}
    first, nested, nameless, last = commands(
        "batch", {"actions": [wait, {"command": "batch"}, {"text": "a"}, wait]}
    )
    assert (first, last) == (Wait(1.0), Wait(1.0))
    assert "'batch' is not allowed in a batch; call it on its own" in problem([nested])
    assert "must be {'command': …, 'arguments': …}, got {'text': 'a'}" in problem(
        [nameless]
    )


def test_batch_reads_each_form() -> None:
    text = '{"text": "a"}'
    wrapped = {"type": "function", "function": {"name": "type_text", "arguments": text}}
    items = [
        {"command": "click", **POINT},
        {"command": "type_text", "arguments": text},
        wrapped,
    ]
    click, *typed = read_tool(COMMANDS, FunctionCall("batch", {"actions": items}))
    assert [click.action, *(each.action for each in typed)] == [
        Click(720, 450),
        TypeText("a"),
        TypeText("a"),
    ]
    assert [each.as_proposed for each in typed] == [
        {"name": "type_text", "args": {"text": "a"}}
    ] * 2


def stock_of(fruit: str) -> str:
    """How many of a fruit are in stock."""
    return f"3 {fruit}"


def test_problem_lists_only_offered_names() -> None:
    toolset = Toolset(COMMANDS, [stock_of], ["paste", "go_back"], call_in=call_of)
    names = [declaration.name for declaration in toolset.declarations]
    assert {"batch", "stock_of", "task_complete", "click"} <= set(names)
    assert not {"paste", "go_back"} & set(names)
    batch = FunctionCall("batch", {"actions": [{"command": "paste", "text": "a"}]})
    [refused] = read_tool(COMMANDS, batch, [stock_of], ["paste", "go_back"])
    assert "'paste' is excluded in this run" in problem([refused.action])
    [refused] = read_tool(
        COMMANDS, FunctionCall("copy", {}), [stock_of], ["paste", "go_back"]
    )
    assert (
        problem([refused.action])
        == f"there is no command 'copy'; there are {', '.join(names)}"
    )
    [refused] = read_tool(
        COMPUTER_USE, FunctionCall("computer_use", {"action": "copy"}), (), ["hscroll"]
    )
    assert "hscroll" not in problem([refused.action])
    [refused] = read_computer_call(
        {"actions": [{"type": "zoom"}]}, HALF, excluded=["drag"]
    )
    assert "double_click, keypress, " in problem([refused.action])


@pytest.mark.parametrize(
    ("value", "pixel"),
    [
        (["500", "500.0"], (720, 450)),
        ({"x": 500, "y": "500"}, (720, 450)),
        ({"x1": 400, "y1": 300, "x2": 600, "y2": 700}, (720, 450)),
        ("(500,500)", (720, 450)),
        ("<|box_start|>(400,300),(600,700)<|box_end|>", (720, 450)),
        ([1000, 1000], (1439, 899)),
        ([5000, 1e300], (1439, 899)),
        ([-5, -0.1], (0, 0)),
        ([-100, 0, 100, 20], (72, 9)),
    ],
)
def test_pixel_of_any_format_is_on_screen(value: Any, pixel: tuple[int, int]) -> None:
    assert pixel_of(value, SCREEN) == pixel


@pytest.mark.parametrize(
    "value",
    [
        "",
        "here",
        "3 of 4",
        "5 " * 200,
        [1, 2, 3],
        [True, False],
        [math.inf, 1],
        [10**400, 1],
        {},
        {"x": 5},
        True,
    ],
)
def test_pixel_of_nonsense_raises(value: Any) -> None:
    with pytest.raises(
        Unreadable, match=r"a point must be \[x, y\], or a box .*, in numbers, got "
    ) as raised:
        pixel_of(value, SCREEN)
    assert len(str(raised.value)) < 300
    with pytest.raises(Unreadable, match="must be a number"):
        denorm_x(value, 1440)


@pytest.mark.parametrize(
    ("decision", "confirmation"),
    [
        ({"decision": "allow"}, None),
        (
            {"decision": "require_confirmation", "explanation": "x", "category": "y"},
            Confirmation("x", "y"),
        ),
        (
            {"decision": "block"},
            Confirmation(
                "the model's safety decision is {'decision': 'block'}", blocks=True
            ),
        ),
        (
            {"decision": "allow all", "explanation": "harm"},
            Confirmation("harm", blocks=True),
        ),
        (
            "require_confirmation",
            Confirmation("the model's safety decision is 'require_confirmation'"),
        ),
    ],
)
def test_confirmation_only_plain_go_needs_none(
    decision: Any, confirmation: Confirmation | None
) -> None:
    assert read_confirmation(decision) == confirmation


def test_proposal_keeps_call_as_it_came() -> None:
    decision = {"decision": "require_confirmation", "explanation": "pays"}
    call = FunctionCall(
        "add_user", {"text": "a", "intent": "open it", "safety_decision": decision}
    )
    proposal = read_proposal(call, SCREEN, FunctionNames({"add_user"}))
    assert (proposal.intent, proposal.confirmation) == ("open it", Confirmation("pays"))
    assert proposal.action == CallFunction("add_user", {"text": "a"})
    assert proposal.as_proposed == {"name": "add_user", "args": call.args}
    assert (
        read_proposal(FunctionCall("wait", {"reason": "it loads"}), SCREEN).intent
        == "it loads"
    )
    assert (
        read_tool(COMMANDS, FunctionCall("wait", {"thought": "it loads"}))[0].intent
        == "it loads"
    )


@pytest.mark.parametrize(
    ("first", "second"), [("allowed", "block"), ("block", "require_confirmation")]
)
def test_confirmation_of_two_decisions_is_stricter(first: str, second: str) -> None:
    args = {
        **POINT,
        "safety_decision": {"decision": first},
        "safetyDecision": {"decision": second},
    }
    proposal = read_proposal(FunctionCall("click", args), SCREEN)
    assert proposal.confirmation is not None
    assert proposal.confirmation.blocks


@pytest.mark.parametrize(
    ("excluded", "name", "args"),
    [
        ("navigate", "navigate", {"url": "x"}),
        ("type", "type_text_at", {**POINT, "text": "a"}),
        ("key_combination", "hotkey", {"keys": ["ctrl", "w"]}),
        ("press_key", "key_combination", {"keys": "Enter"}),
    ],
)
def test_excluded_name_holds_for_all_its_names(
    excluded: str, name: str, args: dict[str, Any]
) -> None:
    names = FunctionNames(excluded=["drag_and_drop", excluded])
    refused = InvalidAction(
        name, f"{excluded!r} is excluded in this run; use another action"
    )
    assert read_proposal(FunctionCall(name, args), SCREEN, names).action == refused


def test_pointer_moves_with_calls_of_batch() -> None:
    drag = {"start_coordinate": [100, 50], "coordinate": [0, 0]}
    named: list[tuple[str, Any]] = [
        ("left_click", {}),
        ("mouse_move", PAIR),
        ("left_click", {}),
    ]
    named += [("left_click_drag", drag), ("key", {"text": "a"}), ("double_click", {})]
    read = read_calls(
        [ToolUse(*each, is_computer=True) for each in named], HALF, pointer=(7, 8)
    )
    actions = [proposal.action for proposal in chain.from_iterable(read)]
    clicks = [action for action in actions if isinstance(action, Click)]
    assert clicks == [Click(7, 8), Click(*HERE), Click(1, 1, count=2)]
    assert "you last moved it to pixel (7, 8)" in problem(
        anthropic("cursor_position", {}, (7, 8))
    )


@pytest.mark.parametrize(
    ("call", "explanation"),
    [
        *(
            ({"actions": actions}, "a list of 1 to 20 actions; nothing was done")
            for actions in ("click", {"type": "click"}, [{"type": "wait"}] * 21)
        ),
        ({}, "there is no action 'computer'"),
    ],
)
def test_computer_call_without_list_does_nothing(
    call: dict[str, Any], explanation: str
) -> None:
    proposals = read_computer_call(call, HALF)
    assert explanation in problem([proposal.action for proposal in proposals])


def test_safety_checks_become_one_confirmation() -> None:
    checks = [{"id": "1", "code": "a"}, {"id": "2", "message": "B."}, {"id": "3"}]
    assert read_checks(checks) == Confirmation("a; B.; 3", "a")
    assert read_checks(None) is None


def test_function_call_without_json_reports_problem() -> None:
    [proposal] = read_function_call(
        {"name": "users", "arguments": "{name: al}"}, functions=["users"]
    )
    assert "the arguments of 'users' must be JSON" in problem([proposal.action])
