"""The contract of the document about an agent with a tool prompt: its tools, arguments,
defaults, limits and rules.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.agent import providers
from pytest_vnc_use.agent.nodes import Timing
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.functions import VERIFY
from pytest_vnc_use.planners.common.screens import png_size
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    Move,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)
from support.chat_server import MODEL, ChatRequest, ChatServer, call, calls, said
from support.memory_desktop import PaintedController
from support.players import chat

AT = {"x": 720, "y": 450}
QUEUE = [
    {"action": "key_combo", "key": "ctrl+l"},
    {"action": "paste", "text": "https://example.com"},
    {"action": "key_tap", "key": "return"},
    {"action": "wait", "ms": 3000},
]
KEYS = [
    "return",
    "escape",
    "tab",
    "space",
    "pagedown",
    "pageup",
    "backspace",
    "delete",
    "up",
    "down",
    "left",
    "right",
    *(f"f{number}" for number in range(1, 13)),
]


def list_elements() -> str:
    """List the elements."""
    return (
        "1. link 'second' at (138, 414), [100, 400, 176, 428]\n2. button 'a, b' at (9,"
        " 9), [0, 0, 18, 18]"
    )


FUNCTIONS = {"functions": [list_elements, VERIFY]}


def meaning(name: str, /, **arguments: Any) -> list[Action]:
    with chat(
        [call(name, **arguments)], toolset="vnc_command", **FUNCTIONS
    ) as conversation:
        return conversation.actions()


COMMANDS: list[tuple[str, dict[str, Any], Action]] = [
    ("screenshot", {}, TakeScreenshot()),
    ("mouse_click", AT, Click(720, 450)),
    ("mouse_click", {**AT, "button": "left"}, Click(720, 450)),
    ("mouse_click", {**AT, "button": "right"}, Click(720, 450, "right")),
    ("mouse_click", {**AT, "button": "middle"}, Click(720, 450, "middle")),
    ("mouse_double_click", AT, Click(720, 450, count=2)),
    ("mouse_drag", {"x": 1, "y": 2, "toX": 30, "toY": 40}, Drag(1, 2, 30, 40)),
    ("scroll", {**AT, "direction": "up"}, Scroll(720, 450, "up", 3)),
    ("scroll", {**AT, "direction": "down", "amount": 5}, Scroll(720, 450, "down", 5)),
    ("scroll", {**AT, "direction": "left", "amount": 1}, Scroll(720, 450, "left", 1)),
    ("scroll", {**AT, "direction": "right"}, Scroll(720, 450, "right", 3)),
    *[("key_tap", {"key": key}, KeyCombo((key,))) for key in KEYS],
    ("key_combo", {"key": "ctrl+a"}, KeyCombo(("ctrl", "a"))),
    ("key_combo", {"key": "alt+f4"}, KeyCombo(("alt", "f4"))),
    ("key_combo", {"keys": ["ctrl", "shift", "t"]}, KeyCombo(("ctrl", "shift", "t"))),
    ("paste", {"text": "é"}, TypeText("é", paste=True)),
    ("hover", AT, Move(720, 450)),
    ("wait", {}, Wait(0.5)),
    ("wait", {"ms": 3000}, Wait(3.0)),
    ("detect_elements", {}, CallFunction("list_elements", {})),
    (
        "configure",
        {"params": {"step_delay_ms": 40}},
        CallFunction("configure", {"step_delay_ms": 40}),
    ),
    (
        "configure",
        {"step_delay_ms": 40},
        CallFunction("configure", {"step_delay_ms": 40}),
    ),
    ("get_timing", {}, CallFunction("get_timing", {})),
]


@pytest.mark.parametrize("is_queued", [False, True])
def test_command_means_action(is_queued: bool) -> None:
    answers = []
    for command, arguments, _ in COMMANDS:
        named = {"action": command, **arguments}
        if is_queued:
            answers.append(call("action_queue", actions=[named]))
        else:
            answers.append(call("vnc_command", **named))
    with chat(answers, toolset="vnc_command", **FUNCTIONS) as conversation:
        for command, arguments, action in COMMANDS:
            assert conversation.actions() == [action], (command, arguments)


def test_command_is_read_in_other_forms() -> None:
    assert (
        meaning("vnc_command", command="wait")
        == meaning("vnc_command", name="wait")
        == [Wait(0.5)]
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"action": "key_type", "text": "a"},
            "there is no command 'key_type'; there are screenshot, mouse_click, ",
        ),
        (
            {"action": "mouse_click", **AT, "button": "back"},
            "'button' must be left, middle, right, got 'back'",
        ),
        ({"action": "mouse_drag", **AT}, "the end is missing: give toX and toY"),
        (
            {"action": "key_tap", "key": "ctrl+a"},
            "'key' must be one key, got ('ctrl', 'a'); there is key_combo",
        ),
        ({"action": "paste", "text": ["a"]}, "'text' must be text, got ['a']"),
        (
            {"action": "mouse_click", "params": "middle"},
            "the arguments of 'mouse_click' must be an object",
        ),
    ],
)
def test_command_without_meaning_is_refused(
    arguments: dict[str, Any], problem: str
) -> None:
    [action] = meaning("vnc_command", **arguments)
    assert isinstance(action, InvalidAction)
    assert problem in action.problem


@pytest.mark.parametrize(
    ("count", "problem"), [(20, ""), (21, "must be a list of 1 to 20 commands, got 21")]
)
def test_queue_holds_twenty_actions(count: int, problem: str) -> None:
    actions = meaning("action_queue", actions=[{"action": "wait"}] * count)
    assert len(actions) == (1 if problem else 20)
    assert problem in str(actions[0])


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (call("task_complete", summary="Bought."), ("finished", "Bought.")),
        (call("task_failed", reason="No shop."), ("gave_up", "No shop.")),
        (said("I would open the shop now."), ("gave_up", "I would open the shop now.")),
    ],
)
def test_function_or_words_end_run(answer: Any, ending: tuple[str, str]) -> None:
    """After words alone nothing was said to be complete, so they are no success."""
    with chat([answer], toolset="vnc_command") as conversation:
        decision = conversation.decide()
        assert len(conversation.server.requests) == 1
    assert (decision.kind, decision.text) == ending


FIELDS = {
    "vnc_command": "action x y button toX toY direction amount key keys text ms params",
    "action_queue": "actions",
    "verify": "question",
    "task_complete": "summary",
    "task_failed": "reason",
}
RULES = (
    "act on it at once",
    "action_queue; it is one turn",
    "ask verify rather than take a screenshot",
    "call detect_elements",
    "task_complete or task_failed",
    "never let the turns run out",
    "ctrl+a, ctrl+l, ctrl+c, ctrl+v, alt+f4",
    "no key_type: use paste for all text",
    "key_combo ctrl+l",
    "No escape",
    "paste does not work in terminals: click right there and choose Paste",
    "then pagedown or scroll",
    "plan the steps",
    "find its target again with detect_elements",
    "Costs: detect_elements is free",
    "screenshot costs most",
    "Coordinates are pixels of the newest screenshot, which has 1440 x 900 pixels",
)


def test_request_has_tools_with_parameters_and_rules() -> None:
    with chat(
        [call("task_complete", summary="")], toolset="vnc_command", **FUNCTIONS
    ) as conversation:
        conversation.decide()
        [request] = conversation.server.requests
    fields = {
        name: set(tool["parameters"]["properties"])
        for name, tool in request.tools.items()
    }
    assert fields == {name: set(named.split()) for name, named in FIELDS.items()}
    prompt = " ".join(request.texts[0].split())
    assert [rule for rule in RULES if rule not in prompt] == []


def test_prompt_of_file_replaces_prompt(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Be brief, and careful.")
    with ChatServer([call("task_complete", summary="Yes.")]) as server:
        fields = {
            "planner": "openai",
            "base_url": server.url,
            "model": MODEL,
            "toolset": "vnc_command",
        }
        settings = Settings(
            planner_options=(f"system_instruction={tmp_path}/prompt.md",), **fields
        )
        with VncUseAgent(settings=settings, controller=PaintedController()) as agent:
            agent.run("Look")
        assert server.requests[0].texts[0] == "Be brief, and careful."
    missing = dataclasses.replace(
        settings, planner_options=(f"system_instruction={tmp_path}/none.md",)
    )
    with pytest.raises(SettingsError, match="must be a file with a prompt"):
        providers.build_planner(missing)


def test_screenshots_come_first_and_on_request_only() -> None:
    click = call("vnc_command", action="mouse_click", **AT)
    queue = call("action_queue", actions=QUEUE)
    look = call("vnc_command", action="screenshot")
    with chat(
        [click, queue, look, click, click], toolset="vnc_command"
    ) as conversation:
        for _ in range(5):
            conversation.act()
        counts = [len(request.images) for request in conversation.server.requests]
        assert (
            conversation.server.requests[2].of("tool")[1]["content"].splitlines()[0]
            == "1. key_combo: ok"
        )
    assert counts == [1, 1, 1, 2, 2]


def test_elements_have_name_and_box() -> None:
    asked = call("vnc_command", action="detect_elements")
    with chat([asked, asked], toolset="vnc_command", **FUNCTIONS) as conversation:
        conversation.act(output=list_elements())
        conversation.decide()
        [result] = conversation.server.requests[1].of("tool")
    assert (
        result["content"]
        == "link 'second' (x=100, y=400, w=76, h=28)\nbutton 'a, b' (x=0, y=0, w=18,"
        " h=18)"
    )


def test_elements_without_source_are_neither_offered_nor_recommended() -> None:
    asked = call("vnc_command", action="detect_elements")
    with chat([asked], toolset="vnc_command") as conversation:
        problem = str(conversation.actions())
        [request] = conversation.server.requests
    assert "they need vnc_elements, or vnc_cdp" in problem
    assert "or pytest-vnc-use[ocr], which reads text off any screen" in problem
    assert "detect_elements" not in json.dumps(request.body)


def test_timing_is_configured_at_runtime() -> None:
    timing = Timing(0.5, {"step_delay": 0.5, "max_seconds": 300.0})
    configured = "step_delay_ms: 40\nmax_seconds_ms: 300000"
    assert timing.configure(step_delay_ms=40) == configured
    assert timing.configure(screenshot_max_side=720) == configured


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_delay_ms", -1),
        ("screenshot_max_side", 99),
        ("screenshot_max_side", "720"),
    ],
)
def test_invalid_configuration_is_rejected(name: str, value: object) -> None:
    timing = Timing(0.5, {"step_delay": 0.5, "max_seconds": 300.0})
    with pytest.raises(ValueError, match=f"{name} must be"):
        timing.configure(**{name: value})


def test_screenshot_size_is_configured_at_runtime() -> None:
    timing = Timing(0.04, {"step_delay": 0.04, "max_seconds": 300.0})
    smaller = call(
        "vnc_command", action="configure", params={"screenshot_max_side": 720}
    )
    asks = call("vnc_command", action="get_timing")
    click = call("vnc_command", action="mouse_click", x=360, y=225)
    with chat([smaller, asks, click], toolset="vnc_command") as conversation:
        conversation.act(output=timing.get_timing())
        conversation.act(output=timing.get_timing())
        # in the middle of a pixel of the smaller image
        assert conversation.actions() == [Click(721, 451)]
        before, *_, after = conversation.server.requests
    assert after.of("tool")[-1]["content"].splitlines() == [
        "step_delay_ms: 40",
        "max_seconds_ms: 300000",
        "screenshot: 720 x 450 pixels",
    ]
    assert png_size(before.images[0]) == (1440, 900)
    assert png_size(after.images[0]) == (720, 450)
    assert "which has 720 x 450 pixels" in after.texts[0]


def test_run_of_example_ends_in_report(tmp_path: Path) -> None:
    """From the first screenshot to the end, with a queue that stops at its first error
    and an observer's answer.
    """
    broken = [QUEUE[0], {"action": "key_tap", "key": "nosuchkey"}, QUEUE[2]]

    def answer(request: ChatRequest) -> Any:
        if "tools" not in request.body:
            return said(
                json.dumps(
                    {
                        "reason": "It is written there.",
                        "value": "example.com",
                        "box_2d": None,
                    }
                )
            )
        script = [
            calls(("action_queue", {"actions": broken})),
            call("action_queue", actions=[*QUEUE[:3], {"action": "wait", "ms": 10}]),
            call("verify", question="Which page is open?"),
            call("task_complete", summary="The page is open."),
        ]
        return script[len(request.of("tool"))]

    controller = PaintedController()
    with ChatServer(answer) as server:
        fields = {
            "planner": "openai",
            "base_url": server.url,
            "model": MODEL,
            "toolset": "vnc_command",
        }
        settings = Settings(runs_dir=str(tmp_path / "runs"), **fields)
        with VncUseAgent(settings=settings, controller=controller) as agent:
            result = agent.run("Open example.com")
        *_, queue, verified = server.requests[-1].of("tool")
        first = server.requests[1].of("tool")[0]["content"].splitlines()
    assert (result.outcome, result.message) == (Outcome.DONE, "The page is open.")
    assert [line.split(": ")[1][:15] for line in first] == [
        "ok",
        "unknown key 'no",
        "not performed",
    ]
    assert [line.partition(": ")[2] for line in queue["content"].splitlines()] == [
        "ok"
    ] * 4
    assert verified["content"] == "example.com: It is written there."
    assert "https://example.com" in controller.typed
