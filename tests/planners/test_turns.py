"""Turns that only one provider has: its own forms of requests and answers, and what
goes back to it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic import AnthropicComputer
from pytest_vnc_use.planners.common.turns import KEPT_TURNS
from pytest_vnc_use.planners.gemini.calls import can_detect_injection
from pytest_vnc_use.planners.gemini.computer_use import GeminiComputerUse
from pytest_vnc_use.types import (
    CallFunction,
    Click,
    Drag,
    KeyCombo,
    Move,
    Scroll,
    TypeText,
    Wait,
)
from support import gemini_server, json_server, messages_server, responses_server
from support.chat_server import call, calls, said
from support.messages_server import uses
from support.players import (
    PLAYERS,
    chat,
    claude,
    frame_of,
    gemini,
    gpt,
    says,
    screens_of,
)
from support.responses_server import acts, computer_call, response

AT = {"x": 500, "y": 500}
PAIR = {"coordinate": [720, 450]}
CLICKED = {"type": "click", "button": "left", "x": 720, "y": 450}
CLAUDE_DONE = messages_server.text("It is open.")
GPT_DONE = responses_server.text("It is open.")
THINKS = {
    "gemini": (
        gemini_server.calls(("click", AT), thought="Where is it?"),
        {
            "generationConfig": {
                "maxOutputTokens": 8192,
                "thinkingConfig": {"includeThoughts": True},
            }
        },
    ),
    "anthropic": (
        uses(("left_click", PAIR), thinking="Where is it?"),
        {"thinking": {"type": "adaptive", "display": "summarized"}},
    ),
    "openai": (acts(CLICKED, thinks=True), {"reasoning": {"summary": "auto"}}),
}


@pytest.mark.parametrize("name", THINKS)
def test_thoughts_are_requested_and_read(name: str) -> None:
    thinks, asked = THINKS[name]
    with PLAYERS[name].conversation([thinks], include_thoughts=True) as conversation:
        assert conversation.decide().text == "Where is it?"
        body = getattr(
            conversation.server.requests[0], "body", conversation.server.requests[0]
        )
        assert {field: body[field] for field in asked} == asked


LARGE = {
    "anthropic": (
        uses(
            ("left_click", {"coordinate": [2575, 0]}),
            ("left_click", {"coordinate": [0, 1448]}),
        ),
        (2576, 1449),
        [Click(5119, 0), Click(0, 2879)],
    ),
    "openai": (acts({**CLICKED, "x": 0, "y": 2391}), (4256, 2394), [Click(0, 2876)]),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_screen_is_scaled_down_and_points_back(name: str) -> None:
    """The fake servers refuse images that the service would scale down on its own."""
    reply, size, actions = LARGE[name]
    with PLAYERS[name].conversation([reply]) as conversation:
        frame = frame_of(1, 5120, 2880)
        conversation.history.first = conversation.history.screen = frame.ref
        conversation.history.pngs[frame.ref.digest] = frame.png
        assert conversation.actions() == actions
        assert size_of(conversation.server.requests[0]) == size


def size_of(request: Any) -> tuple[int, int] | None:
    """Return the size of the one screenshot of a request of Claude's or OpenAI's."""
    if "messages" in request:
        return json_server.size_of(
            request["messages"][0]["content"][0]["source"]["data"]
        )
    return json_server.size_of(
        request["input"][0]["content"][1]["image_url"].partition(",")[2]
    )


def results_of(request: Any) -> list[Any]:
    """Return the tool results of the newest message."""
    return [
        block
        for block in request["messages"][-1]["content"]
        if block["type"] == "tool_result"
    ]


def test_claude_unknown_block_goes_back_unchanged() -> None:
    block = {"type": "a_block_of_next_year", "data": {"x": [1]}}
    use = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "left_click",
        "toolset_name": "computer",
        "input": PAIR,
    }
    with claude(
        [messages_server.message([block, use], "tool_use"), CLAUDE_DONE]
    ) as conversation:
        conversation.act()
        assert conversation.decide().kind == "finished"
        assert conversation.server.requests[1]["messages"][1]["content"][0] == block


def test_claude_calls_after_failure_are_not_executed() -> None:
    named = [
        ("left_click", PAIR),
        ("key", {"text": "Hyper"}),
        ("wait", {"duration": 1}),
    ]
    with claude([uses(*named), CLAUDE_DONE], excluded_actions=["zoom"]) as conversation:
        conversation.act()
        assert conversation.server.requests[0]["tools"][0]["configs"]["zoom"] == {
            "enabled": False
        }
        [turn] = conversation.history.turns
        failed = [
            replace(step, error=error)
            for step, error in zip(turn.steps, ["", "no key", "…"], strict=True)
        ]
        conversation.history.turns[0] = replace(turn, steps=tuple(failed))
        conversation.decide()
        results = results_of(conversation.server.requests[1])
    assert [result["tool_use_id"] for result in results] == [
        "toolu_0_0",
        "toolu_0_1",
        "toolu_0_2",
    ]
    assert [result.get("is_error", False) for result in results] == [False, True, True]
    not_executed = "Not executed: an earlier computer action in this turn failed."
    assert [result["content"][0]["text"] for result in results] == [
        "ok",
        "no key",
        not_executed,
    ]


def test_claude_older_tool_gets_size() -> None:
    """One tool with a field `action`, which needs the size of the images."""
    tool = "computer_20250124"
    click = {"action": "left_click", "coordinate": [694, 434]}
    wait = {"action": "wait", "duration": 1}
    turn = uses(("computer", click), ("computer", wait), toolset=None)
    replies = [turn, CLAUDE_DONE]
    with claude(replies, model="claude-opus-4-5", tool=tool) as conversation:
        first = conversation.act().proposals[0]
        assert first.action == Click(720, 450)
        assert first.as_proposed == {
            "name": "left_click",
            "args": {"coordinate": [694, 434]},
        }
        assert conversation.decide().kind == "finished"
        request, second = conversation.server.requests
    size = {"display_width_px": 1389, "display_height_px": 868}
    assert request["tools"][0] == {"type": tool, "name": "computer", **size}
    assert size_of(request) == (1389, 868)
    assert [result for result in results_of(second) if "toolset_name" in result] == []
    with pytest.raises(
        SettingsError,
        match=r"tool must be one of \['computer_20250124'.*\], got 'computer_2030'",
    ):
        AnthropicComputer(api_key="a key", tool="computer_2030")


def signatures(request: Any) -> list[str]:
    """Return the signatures of the thoughts in a request."""
    blocks = chain.from_iterable(message["content"] for message in request["messages"])
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def test_claude_thoughts_go_back_while_prefix_is_same() -> None:
    """The fake server refuses a thought whose prefix changed; between two removals of
    images there is none such.
    """
    with claude(
        lambda request: uses(("left_click", PAIR), thinking="Where is it?")
    ) as conversation:
        for _ in range(KEPT_TURNS + 8):
            conversation.act()
        sent = [*map(signatures, conversation.server.requests)]
        assert says(conversation.server.requests[-1], "What was done so far:")
    assert sent[:6] == [
        [],
        ["signed_0_0"],
        ["signed_0_0", "signed_1_0"],
        [],
        ["signed_3_0"],
        [],
    ]
    assert max(map(len, sent)) == 2


def test_gpt_check_of_skipped_call_is_not_acknowledged() -> None:
    """A call that is skipped after a failure is allowed without a question, and was not
    done.
    """
    check = {
        "id": "sc_1",
        "code": "malicious_instructions",
        "message": "The page gives orders.",
    }
    with gpt(
        [
            response(computer_call(CLICKED), computer_call(CLICKED, checks=[check])),
            GPT_DONE,
        ]
    ) as conversation:
        conversation.act(error="not performed: …")
        assert conversation.decide().kind == "finished"
        assert "acknowledged_safety_checks" not in str(conversation.server.requests[1])


def test_gemini_policies_are_sent_and_checked() -> None:
    policies = ["account_creation", "DATA_MODIFICATION"]
    click = gemini_server.calls(("click", AT))
    with gemini(
        [click], detect_prompt_injection=True, disabled_safety_policies=policies
    ) as conversation:
        conversation.decide()
        assert conversation.server.requests[0].computer_use == {
            "environment": "ENVIRONMENT_DESKTOP",
            "enablePromptInjectionDetection": True,
            "disabledSafetyPolicies": ["ACCOUNT_CREATION", "DATA_MODIFICATION"],
        }
    assert can_detect_injection("gemini-10-pro")
    assert not can_detect_injection("gemini-3.1-pro-preview")
    with pytest.raises(
        SettingsError, match=r"must be one of \[.*'desktop'.*\], got 'laptop'"
    ):
        GeminiComputerUse(api_key="a key", environment="laptop")


TWO = calls(
    ("computer_use", {"action": "wait"}),
    ("computer_use", {"action": "wait"}),
    words="Both.",
)
MANY = calls(*[("wait", {})] * 21)


@pytest.mark.parametrize(
    ("toolset", "answer", "line"),
    [
        (
            "commands",
            said("I would click."),
            "you answered without a tool call, with 'I would click.'; answer with a",
        ),
        (
            "commands",
            calls(("wait", {}), finish_reason="length"),
            "your answer was cut off at max_tokens=4096",
        ),
        (
            "commands",
            MANY,
            "one turn may hold 20 actions, got 21; nothing was performed",
        ),
        (
            "computer_use",
            TWO,
            "one turn may hold 1 action, got 2; nothing was performed",
        ),
    ],
)
def test_chat_unusable_answer_is_requested_again(
    toolset: str, answer: Any, line: str
) -> None:
    with chat([answer, call("wait")], toolset=toolset) as conversation:
        assert conversation.actions() == [Wait(1.0)]
        again = conversation.server.requests[1]
        assert [exchange.attempt for exchange in conversation.exchanges] == [1, 2]
    assert again.texts[-1].startswith(f"Nothing was performed: {line}")
    assert again.messages[-2]["role"] == "assistant"
    assert line in conversation.exchanges[0].error
    assert conversation.exchanges[0].retry_in_s == 0.0
    assert conversation.exchanges[1].error == ""


def stock_of(fruit: str) -> str:
    """How many of a fruit are in stock."""
    return f"3 {fruit}"


def test_chat_batch_with_function_has_one_screenshot() -> None:
    batch = call(
        "batch",
        actions=(
            '[{"name": "stock_of", "fruit": "pears"}, {"command": "press_key", "key":'
            ' "F5"}]'
        ),
    )
    with chat([batch, call("wait")], functions=[stock_of]) as conversation:
        assert conversation.actions() == [
            CallFunction("stock_of", {"fruit": "pears"}),
            KeyCombo(("F5",)),
        ]
        conversation.decide()
        first, second = conversation.server.requests
    assert first.tools["stock_of"]["parameters"]["required"] == ["fruit"]
    assert [tool["content"] for tool in second.of("tool")] == [
        "1. stock_of: ok\n2. press_key: ok"
    ]
    assert screens_of(second) == [
        conversation.history.first.digest,
        conversation.history.screen.digest,
    ]


def test_chat_computer_use_without_point_acts_at_pointer() -> None:
    use = partial(call, "computer_use")
    script = [
        use(action="mouse_move", coordinate=[500, 500]),
        use(action="left_click_drag", coordinate=[0, 0]),
    ]
    script += [
        use(action="type", text="a"),
        call("left_click"),
        use(action="scroll", pixels=-100),
    ]
    with chat(script, toolset="computer_use") as conversation:
        actions = [conversation.actions()[0] for _ in script]
    assert actions == [
        Move(720, 450),
        Drag(720, 450, 0, 0),
        TypeText("a"),
        Click(0, 0),
        Scroll(0, 0, "down", 1),
    ]


def test_chat_thoughts_of_newest_turns_go_back() -> None:
    words = [
        {"words": "<think>The first.</think>I click."},
        {"words": "I click.", "reasoning_content": "The second."},
    ]
    script = [*(calls(("click", AT), **each) for each in words), call("wait")]
    with chat(
        script, serve={"takes_thoughts": True}, reasoning_turns=1
    ) as conversation:
        conversation.act()
        conversation.act()
        conversation.decide()
        *_, last = conversation.server.requests
    contents = [message["content"] for message in last.of("assistant")]
    assert contents == ["I click.", "<think>\nThe second.\n</think>\n\nI click."]
