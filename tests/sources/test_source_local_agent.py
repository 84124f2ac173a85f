"""The contract of the document about a local vision agent: its tools, boxes, results,
errors, variables and files.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.agent import build, providers
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.chat.chat_completions import chat_service
from pytest_vnc_use.planners.common.screens import ScaledScreens, png_size
from pytest_vnc_use.settings.fallbacks import VARIABLES
from pytest_vnc_use.types import (
    Action,
    Click,
    InvalidAction,
    KeyCombo,
    Ruling,
    Scroll,
    TakeScreenshot,
    TypeText,
)
from support.chat_server import ChatRequest, ChatServer, call, calls, said
from support.memory_desktop import PaintedController
from support.players import chat

LOCAL = {"toolset": "local_agent"}
SAVE = {"label": "the button Save"}
MIDDLE = Click(719, 449)
LOOK = call("observe_screen")
ENDPOINT = "http://localhost:1234/v1/chat/completions"
OTHER_ENDPOINT = "http://localhost:9/v1/chat/completions"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*VARIABLES, "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


CALLS: list[tuple[str, Any, Action]] = [
    ("observe_screen", {}, TakeScreenshot()),
    ("observe_screen", "", TakeScreenshot()),
    ("observe_screen", None, TakeScreenshot()),
    ("click_element", {**SAVE, "box": [500, 500]}, MIDDLE),
    ("click_element", {**SAVE, "box": [400, 300, 600, 700]}, MIDDLE),
    ("click_element", {**SAVE, "box": [[400, 300], [600, 700]]}, MIDDLE),
    ("click_element", {**SAVE, "box": [600, 700, 400, 300]}, MIDDLE),
    ("click_element", {**SAVE, "box": [0, 0]}, Click(0, 0)),
    ("click_element", {**SAVE, "box": [1000, 1000]}, Click(1439, 899)),
    ("click_element", {**SAVE, "box": [1200, -5]}, Click(1439, 0)),
    ("click_element", json.dumps({**SAVE, "box": [500, 500]}), MIDDLE),
    ("type_text", {"text": "hello"}, TypeText("hello")),
    ("press_key", {"key": "enter"}, KeyCombo(("enter",))),
    *[
        ("press_key", {"key": key}, KeyCombo((key,)))
        for key in "tab escape windows ctrl alt shift F4 a Z".split()
    ],
    ("press_key", {"key": "ctrl+c"}, KeyCombo(("ctrl", "c"))),
    ("press_key", {"key": "alt+f4"}, KeyCombo(("alt", "f4"))),
    ("scroll_at_position", {"box": [500, 500]}, Scroll(719, 449, "down", 1)),
    (
        "scroll_at_position",
        {"box": [500, 500], "amount": 360},
        Scroll(719, 449, "down", 3),
    ),
]


def test_call_means_action() -> None:
    script = [calls((tool, arguments)) for tool, arguments, _ in CALLS]
    with chat(script, **LOCAL) as conversation:
        actions = [conversation.actions() for _ in CALLS]
    assert actions == [[action] for _, _, action in CALLS]


BOX = {**SAVE, "box": [500, 500]}
FURTHER_ARGUMENTS: list[tuple[str, Any, Action, str | None]] = [
    (
        "click_element",
        {**BOX, "button": "right"},
        replace(MIDDLE, button="right"),
        None,
    ),
    ("click_element", {**BOX, "button": "left"}, MIDDLE, None),
    ("click_element", {**BOX, "clicks": 2}, replace(MIDDLE, count=2), None),
    (
        "type_text",
        {"text": "a", "press_enter": True},
        TypeText("a", press_enter=True),
        None,
    ),
    ("type_text", {"text": "a", "box": [500, 500]}, TypeText("a", 719, 449), None),
    (
        "scroll_at_position",
        {"box": [500, 500], "direction": "up"},
        Scroll(719, 449, "up", 1),
        None,
    ),
    ("observe_screen", {"region": [1, 2]}, TakeScreenshot(), "region=[1, 2]"),
    ("click_element", {**BOX, "button": "big"}, MIDDLE, "button='big'"),
    ("click_element", {**BOX, "clicks": 9}, MIDDLE, "clicks=9"),
    ("press_key", {"key": "tab", "label": "x"}, KeyCombo(("tab",)), "label='x'"),
    (
        "type_text",
        {"text": "a", "press_enter": "maybe"},
        TypeText("a"),
        "press_enter='maybe'",
    ),
]
"""Calls, their actions, and the argument that the result says is ignored."""


def test_further_argument_is_taken_or_ignored_with_note() -> None:
    script = [calls((tool, args)) for tool, args, _, _ in FURTHER_ARGUMENTS]
    with chat([*script, said("Done.")], **LOCAL) as conversation:
        actions = [conversation.actions() for _ in FURTHER_ARGUMENTS]
        conversation.decide()
        results = [
            json.loads(request.of("tool")[-1]["content"])
            for request in conversation.server.requests[1:]
        ]
    assert actions == [[action] for _, _, action, _ in FURTHER_ARGUMENTS]
    assert [result for result in results if not result["ok"]] == []
    assert [result.get("note") for result in results] == [
        ignored and f"ignored: {ignored}" for _, _, _, ignored in FURTHER_ARGUMENTS
    ]


ERRORS: list[tuple[str, str, Any]] = [
    ("missing_label", "click_element", {"box": [5, 5]}),
    ("missing_box", "click_element", SAVE),
    ("missing_box", "scroll_at_position", {}),
    ("invalid_box", "click_element", {**SAVE, "box": [1, 2, 3]}),
    ("invalid_box", "click_element", {**SAVE, "box": ["left", 2]}),
    ("invalid_args", "type_text", "[1]"),
    ("invalid_json", "type_text", '{"text": '),
    ("empty_text", "type_text", {"text": ""}),
    ("missing_key", "press_key", {}),
    ("invalid_key", "press_key", {"key": "nosuchkey"}),
    ("unknown_tool", "fly", {}),
]


@pytest.mark.parametrize(("kind", "tool", "arguments"), ERRORS)
def test_error_has_type_and_message(kind: str, tool: str, arguments: Any) -> None:
    script = [calls((tool, arguments)), said("It is so.")]
    with chat(script, **LOCAL) as conversation:
        decision = conversation.decide()
        [proposal] = decision.proposals
        assert isinstance(proposal.action, InvalidAction)
        problem = proposal.action.problem
        conversation.history.perform(decision, error=problem)
        conversation.decide()
        [message] = conversation.server.requests[1].of("tool")
    result = json.loads(message["content"])
    assert result == {"ok": False, "error": {"type": kind, "message": problem}}


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"error": "it is off the screen"}, "failed", "it is off the screen"),
        (
            {"ruling": Ruling("deny", "rule 2", "no clicks here", ends_run=False)},
            "refused",
            "refused: no clicks here",
        ),
    ],
)
def test_action_not_performed_has_type(
    changes: dict[str, Any], kind: str, message: str
) -> None:
    with chat(
        [call("press_key", key="tab"), said("It is so.")], **LOCAL
    ) as conversation:
        conversation.act(**changes)
        conversation.decide()
        [result] = conversation.server.requests[1].of("tool")
    assert json.loads(result["content"]) == {
        "ok": False,
        "error": {"type": kind, "message": message},
    }


def test_further_call_is_refused_and_no_step() -> None:
    both = calls(
        ("press_key", {"key": "tab"}),
        ("press_key", {"key": "enter"}),
        ("type_text", {"text": "a"}),
    )
    with chat([both, said("Done.")], **LOCAL) as conversation:
        assert conversation.actions() == [KeyCombo(("tab",))]
        conversation.decide()
        results = [
            json.loads(message["content"])
            for message in conversation.server.requests[1].of("tool")
        ]
    assert results[0] == {"ok": True}
    assert [result["error"]["type"] for result in results[1:]] == [
        "too_many_tool_calls"
    ] * 2
    assert results[1]["error"]["message"].startswith("press_key: ")


def test_answer_without_call_ends_run_without_think_tags() -> None:
    with chat(
        [said("<think>Is it\nso?</think>The menu is open.")], **LOCAL
    ) as conversation:
        decision = conversation.decide()
    assert (decision.kind, decision.text) == ("finished", "The menu is open.")


RULES = (
    "Observe, think, act, verify",
    "One tool call in each answer",
    "[x, y] for a small target",
    "0 to 1000",
)


def test_request_has_five_tools_with_arguments_and_rules() -> None:
    with chat(
        [said("Done.")], temperature=0.6, max_tokens=2048, **LOCAL
    ) as conversation:
        conversation.decide()
        [request] = conversation.server.requests
    assert {
        name: list(tool["parameters"]["properties"])
        for name, tool in request.tools.items()
    } == {
        "observe_screen": [],
        "click_element": ["label", "box"],
        "type_text": ["text"],
        "press_key": ["key"],
        "scroll_at_position": ["box", "amount"],
    }
    assert set(request.body) == {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "temperature",
        "max_tokens",
    }
    assert len(request.images) == 1  # the initial observation
    assert [rule for rule in RULES if rule not in request.texts[0]] == []


def test_screenshots_follow_observation_and_old_ones_are_replaced() -> None:
    tap = call("press_key", key="tab")
    with chat(
        [tap, LOOK, LOOK, tap, said("Done.")], keep_screenshots=2, **LOCAL
    ) as conversation:
        for _ in range(4):
            conversation.act()
        conversation.decide()
        requests = conversation.server.requests
    assert [len(request.images) for request in requests] == [1, 1, 2, 2, 2]
    assert "[older screenshot left out]" not in str(requests[2].body)
    roles = [message["role"] for message in requests[2].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    ("variable", "value", "field", "default", "read"),
    [
        ("LMSTUDIO_ENDPOINT", OTHER_ENDPOINT, "base_url", ENDPOINT, OTHER_ENDPOINT),
        (
            "LMSTUDIO_MODEL",
            "qwen3-vl-4b-instruct",
            "model",
            "qwen3-vl-8b-instruct",
            "qwen3-vl-4b-instruct",
        ),
        ("LMSTUDIO_TIMEOUT", "60", "request_seconds", 240.0, 60.0),
        ("AGENT_MAX_STEPS", "7", "max_steps", 10, 7),
        ("AGENT_STEP_DELAY", "1.5", "step_delay", 0.4, 1.5),
        ("AGENT_MAX_STEPS", "20", "max_seconds", 3000.0, 6000.0),
    ],
)
def test_variable_sets_field(
    variable: str,
    value: str,
    field: str,
    default: object,
    read: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert getattr(build.settings_of(LOCAL), field) == default
    monkeypatch.setenv(variable, value)
    assert getattr(build.settings_of(LOCAL), field) == read


def test_planner_is_openai() -> None:
    assert build.settings_of(LOCAL).planner == "openai"


@pytest.mark.parametrize(
    ("variables", "temperature", "max_tokens", "size"),
    [
        ({}, 0.6, 2048, (1536, 864)),
        (
            {
                "LMSTUDIO_TEMPERATURE": "0.1",
                "LMSTUDIO_MAX_TOKENS": "99",
                "AGENT_IMAGE_W": "640",
                "AGENT_IMAGE_H": "400",
            },
            0.1,
            99,
            (640, 400),
        ),
    ],
    ids=["defaults", "set"],
)
def test_variables_reach_request(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    temperature: float,
    max_tokens: int,
    size: tuple[int, int],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with ChatServer([said("Done.")]) as server:
        monkeypatch.setenv("LMSTUDIO_ENDPOINT", f"{server.url}/chat/completions")
        settings = build.settings_of(LOCAL)
        with VncUseAgent(
            settings=settings,
            planner=providers.build_planner(settings),
            controller=PaintedController(),
        ) as agent:
            agent.run("Look")
        [request] = server.requests
    assert request.body["temperature"] == temperature
    assert request.body["max_tokens"] == max_tokens
    assert png_size(request.images[0]) == size


def run_of(
    script: Any, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[RunResult, ChatServer]:
    """Run a task with a server's answers, without a delay between steps."""
    with ChatServer(script, **options) as server:
        monkeypatch.setenv("LMSTUDIO_ENDPOINT", f"{server.url}/chat/completions")
        monkeypatch.setenv("AGENT_STEP_DELAY", "0")
        with VncUseAgent(
            settings=build.settings_of(LOCAL),
            controller=PaintedController(),
        ) as agent:
            return agent.run("Look"), server


@pytest.mark.parametrize(
    ("variables", "images", "thoughts"),
    [({}, 2, 2), ({"KEEP_LAST_SCREENSHOTS": "1", "KEEP_LAST_THINKS": "1"}, 1, 1)],
)
def test_variables_prune_history(
    variables: dict[str, str],
    images: int,
    thoughts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = calls(("observe_screen", {}), words="<think>Hm.</think>I look.")
    for name, value in variables.items():
        monkeypatch.setenv(f"AGENT_{name}", value)
    script = [look, look, look, look, said("Done.")]
    _, server = run_of(script, monkeypatch, takes_thoughts=True)
    last = server.requests[-1]
    kept = sum("<think>" in message["content"] for message in last.of("assistant"))
    assert (len(last.images), kept) == (images, thoughts)


@pytest.mark.parametrize(("max_steps", "requests"), [("", 10), ("3", 3)])
def test_max_steps_counts_requests(
    max_steps: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MAX_STEPS", max_steps)
    result, server = run_of(lambda request: LOOK, monkeypatch)
    assert (len(server.requests), len(result.steps)) == (requests, requests)
    assert result.outcome is Outcome.STEP_LIMIT


def test_words_in_last_request_end_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_STEPS", "2")
    result, _ = run_of([LOOK, said("It is open.")], monkeypatch)
    assert (result.outcome, result.message) == (Outcome.DONE, "It is open.")


def test_unchanged_screen_is_dumped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of([LOOK, LOOK, said("It is the same.")], monkeypatch)
    assert sorted(file.name for file in (tmp_path / "dumps").iterdir()) == [
        "screen_0001.png",
        "screen_0002.png",
        "screen_0003.png",
    ]


def test_wrong_variable_of_option_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSTUDIO_TEMPERATURE", "hot")
    with pytest.raises(
        SettingsError, match=r"LMSTUDIO_TEMPERATURE: .* valid number, .* got 'hot'"
    ):
        providers.build_planner(build.settings_of(LOCAL))


def test_endpoint_is_used_unchanged() -> None:
    assert (
        chat_service(ENDPOINT, "m").url
        == chat_service("http://localhost:1234", "m").url
        == ENDPOINT
    )


def test_screenshot_gets_size_whatever_its_shape() -> None:
    with chat(
        [call("click_element", label="x", box=[500, 500])], **LOCAL
    ) as conversation:
        stretched = ScaledScreens(conversation.planner, (1536, 864))
        [proposal] = stretched.decide(
            conversation.history.observation(), timeout_s=20.0
        ).proposals
        [image] = conversation.server.requests[0].images
    assert (png_size(image), proposal.action) == ((1536, 864), MIDDLE)


@pytest.mark.parametrize(
    ("variables", "files"),
    [
        ({}, ["dumps/screen_0001.png", "dumps/screen_0002.png"]),
        (
            {"DIR": "seen", "PREFIX": "look-", "START": "7"},
            ["seen/look-0007.png", "seen/look-0008.png"],
        ),
    ],
)
def test_run_of_example_ends_in_report(
    variables: dict[str, str],
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One setting, one endpoint: observe, click, an error and its correction, and the
    last words, in words alone.
    """

    def answer(request: ChatRequest) -> Any:
        script = [
            call("click_element", label="the field", box=[500, 500]),
            call("type_text", text=""),
            call("type_text", text="hello"),
            LOOK,
            said("<think>It is there.</think>hello is written in the field."),
        ]
        return script[len(request.of("tool"))]

    controller = PaintedController()
    with ChatServer(answer) as server:
        monkeypatch.setenv("LMSTUDIO_ENDPOINT", f"{server.url}/chat/completions")
        monkeypatch.setenv("AGENT_STEP_DELAY", "0")
        for variable, value in variables.items():
            monkeypatch.setenv(f"AGENT_DUMP_{variable}", value)
        settings = build.settings_of({**LOCAL, "runs_dir": str(tmp_path / "runs")})
        with VncUseAgent(settings=settings, controller=controller) as agent:
            result = agent.run("Write hello")
        results = [
            json.loads(message["content"]) for message in server.requests[-1].of("tool")
        ]
        images = [png_size(image) for image in server.requests[-1].images]
    assert result.outcome == Outcome.DONE
    assert result.message == "hello is written in the field."
    assert [result["ok"] for result in results] == [True, False, True, True]
    assert results[1]["error"]["type"] == "empty_text"
    assert controller.typed == "hello"
    assert images == [(1536, 864)] * 2
    assert [str(tmp_path / file) for file in files] == sorted(
        map(str, (tmp_path / files[0]).parent.iterdir())
    )
    [log] = tmp_path.glob("agent_run_????????_??????.log")
    text = log.read_text(encoding="utf-8")
    assert "(5 tools)" in text
    assert re.search(r"sha256:[0-9a-f]{64} \(\d+ characters\)", text)
    assert "iVBOR" not in text
    assert "hello is written in the field." in text
