"""What a chat completion says: thoughts left out, and tool calls found wherever a
server leaves them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_vnc_use.planners.chat.answers import (
    NotJson,
    read_arguments,
    split_reasoning,
)
from pytest_vnc_use.types import Click, Decision, InvalidAction, TypeText, Usage, Wait
from support.chat_server import call, said
from support.players import chat

WAIT = '{"name": "wait", "arguments": {"seconds": 2}}'
TYPE = '{"name": "type_text", "arguments": {"text": "a < b ` c"}}'


def decide(*script: Any, **settings: Any) -> Decision:
    with chat(script, **settings) as conversation:
        return conversation.decide()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>Hm. </think>\n\nI click.", "I click."),
        ("Hm, hm.</think>I click.", "I click."),
        ("I click.<think>Was that", "I click."),
        ("a</think>b</think>c", "c"),
        ("a < b, and so </thinker>", "a < b, and so </thinker>"),
    ],
)
def test_split_thoughts_leaves_them_out(text: str, answer: str) -> None:
    assert split_reasoning(text)[0] == answer


CODER = "<function=wait>\n<parameter=seconds>\n2\n</parameter>\n</function>"
GLM = "<tool_call>wait\n<arg_key>seconds</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
INVOKE = (
    'invoke name="wait">\n<{0}parameter name="seconds"'
    ' string="false">\n2\n</{0}parameter>\n</{0}invoke>'
)
DSML = f"<｜DSML｜function_calls><｜DSML｜{INVOKE.format('｜DSML｜')}</｜DSML｜function_calls>"
DEEPSEEK = 'function<｜tool▁sep｜>wait\n```json\n{"seconds": 2}\n```<｜tool▁call▁end｜>'
KIMI = (
    '<|tool_call_begin|>functions.wait:0<|tool_call_argument_begin|>{"seconds":'
    " 2}<|tool_call_end|>"
)
OSS = (
    "<|end|><|channel|>commentary to=functions.wait"
    ' <|constrain|>json<|message|>{"seconds": 2}<|call|>'
)
WAITS: list[tuple[Any, str]] = [
    (f"I wait.\n<tool_call>{WAIT}", "I wait."),
    (
        (
            "<think>no:"
            f" <tool_call>{TYPE}</tool_call></think><tool_call>{WAIT}</tool_call>"
        ),
        "",
    ),
    (f"```tool_call\n[{WAIT}]\n```", ""),
    (WAIT, ""),
    ('{"name": "wait", "parameters": {"seconds": 2}}', ""),
    (f"<tool_call>\n{WAIT}\n</tool_call><|im_end|>", ""),  # Hermes, Qwen 2.5 and 3
    (f"[TOOL_CALLS][{WAIT}]", ""),  # Mistral
    ('I wait.[TOOL_CALLS]wait[ARGS]{"seconds": 2}', "I wait."),
    (f"<|python_tag|>{WAIT}<|eom_id|>", ""),  # Llama 3
    (f"<|tool_call|>[{WAIT}]<|/tool_call|>", ""),  # Phi 4, Granite
    (f"functools[{WAIT}]", "functools"),
    (f"I wait.\n<tool_call>\n{CODER}\n</tool_call>", "I wait."),  # Qwen3-Coder
    ('<function=wait>{"seconds": 2}</function>', ""),
    (GLM, ""),
    (f"<minimax:tool_call>\n<{INVOKE.format('')}\n</minimax:tool_call>", ""),
    (DSML, "<｜DSML｜function_calls>"),
    # DeepSeek 3
    (f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{DEEPSEEK}<｜tool▁calls▁end｜>", ""),
    ('<｜tool▁call▁begin｜>wait<｜tool▁sep｜>{"seconds": 2}<｜tool▁call▁end｜>', ""),
    (f"<|tool_calls_section_begin|>{KIMI}<|tool_calls_section_end|>", ""),  # Kimi K2
    (f"I wait.{OSS}", "I wait.commentary"),  # gpt-oss
    (
        [
            {"type": "text", "text": "I wait."},
            {"type": "text", "text": f"<tool_call>{WAIT}"},
        ],
        "I wait.",
    ),
]
SPACED = (
    "<function=type_text>\n<parameter=text>\n a <"
    " b\n\n</parameter>\n<parameter=press_enter>true</parameter>"
)
CALLS: list[tuple[Any, str, list[Any]]] = [
    *((content, words, [Wait(2.0)]) for content, words in WAITS),
    (
        f"I type:\n```json\n{TYPE}\n```\nThen I look.",
        "I type:\n\nThen I look.",
        [TypeText("a < b ` c")],
    ),
    (SPACED, "", [TypeText(" a < b\n", press_enter=True)]),
    (
        f"<tool_call>{WAIT}\n<tool_call>{TYPE}</tool_call>",
        "",
        [Wait(2.0), TypeText("a < b ` c")],
    ),
]


@pytest.mark.parametrize(("content", "words", "actions"), CALLS)
def test_calls_in_content_are_read(
    content: Any, words: str, actions: list[Any]
) -> None:
    decision = decide(said(content))
    assert [proposal.action for proposal in decision.proposals] == actions
    assert decision.text == words


def test_name_of_qwens_tool_may_be_left_out() -> None:
    decision = decide(
        said('{"action": "left_click", "coordinate": [500, 500]}'),
        toolset="computer_use",
    )
    assert [proposal.action for proposal in decision.proposals] == [Click(720, 450)]
    answered = decide(
        said('{"action": "answer", "text": "3.00"}'), toolset="computer_use"
    )
    assert answered.kind == "finished"
    assert answered.text == "3.00"
    assert answered.proposals == ()


@pytest.mark.parametrize(
    "content",
    [
        "```json\n{'name': 'wait'}\n```",
        "<function=wait>\n<parameter=seconds>\n2",
        f"I wait. {WAIT}.",
        "```tool_code\nwait(seconds=2)\n```",
        f"{WAIT}\nThen {TYPE}",
    ],
)
def test_unread_call_names_form_and_option(content: str) -> None:
    [proposal] = decide(said(content)).proposals
    assert isinstance(proposal.action, InvalidAction)
    assert proposal.action.problem.startswith(
        'a call in the text of an answer must be <tool_call>{"name": …, "arguments":'
        " {…}}</tool_call>, got "
    )
    assert "--enable-auto-tool-choice --tool-call-parser" in proposal.action.problem
    assert "--jinja" in proposal.action.problem


def test_words_without_call_give_up() -> None:
    words = 'The <toolbar> (with buttons) shows {"name": "Al"} now.<|im_end|>'
    talked = decide(said(words), said(words))
    assert talked.kind == "gave_up"
    assert "you answered without a tool call" in talked.text


def test_arguments_of_text_get_declared_types() -> None:
    batch = (
        "<function=batch><parameter=actions>\n"
        '[{"command": "wait", "arguments": {"seconds": "2"}}, {"command": "type_text",'
        ' "arguments": {"text": "[1]"}}]\n'
        "</parameter></function><function=type_text><parameter=text>[1]</parameter></function>"
    )
    decision = decide(said(batch))
    assert [proposal.action for proposal in decision.proposals] == [
        Wait(2.0),
        TypeText("[1]"),
        TypeText("[1]"),
    ]
    drag = (
        "<function=computer_use><parameter=action>left_click</parameter><parameter=coordinate>[500,"
        " 500]</parameter>"
    )
    assert decide(said(drag), toolset="computer_use").proposals[0].as_proposed["args"][
        "coordinate"
    ] == [500, 500]


def test_arguments_as_servers_send_them() -> None:
    forms: list[Any] = [
        {"seconds": 2},
        '{"seconds": 2}',
        '"{\\"seconds\\": 2}"',
        ' {"seconds": "2"} ',
    ]
    answer = said(
        "",
        tool_calls=[
            {"id": "x", "function": {"name": "wait", "arguments": form}}
            for form in forms
        ],
    )
    assert [proposal.action for proposal in decide(answer).proposals] == [Wait(2.0)] * 4


WAITS = {"seconds": 2}


@pytest.mark.parametrize(
    "answer_of",
    [
        pytest.param(lambda name: call(name, **WAITS), id="call"),
        pytest.param(
            lambda name: call("batch", actions=[{"command": name, "arguments": WAITS}]),
            id="batch",
        ),
        pytest.param(
            lambda name: said(
                f"<tool_call>{json.dumps({'name': name, 'arguments': WAITS})}"
                "</tool_call>"
            ),
            id="text",
        ),
        pytest.param(
            lambda name: said(
                f"<|tool_call_begin|>{name.strip()}<|x|>{json.dumps(WAITS)}"
            ),
            id="token",
        ),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "wait:0",
        "wait:12",
        "functions.wait",
        "functions.wait:3",
        "default_api.wait",
        "default_api:wait",
        " wait",
    ],
)
def test_decorated_tool_name_is_understood(
    name: str, answer_of: Callable[[str], Any]
) -> None:
    """As servers of Kimi K2 and others leave it, in each place where a name stands."""
    with chat([answer_of(name), call("wait")]) as conversation:
        assert conversation.actions() == [Wait(2.0)]
        conversation.act()
        [assistant] = conversation.server.requests[1].of("assistant")
    [sent_back] = assistant["tool_calls"]
    assert sent_back["function"]["name"] in ("wait", "batch")


@pytest.mark.parametrize("nothing", [None, "", " \n", "null"])
def test_read_arguments_none_is_empty(nothing: str | None) -> None:
    assert read_arguments(nothing) == {}


@pytest.mark.parametrize(
    "wrong", ["5", [1], "[1]", 7, "{", '{"a": Infinity}', '{"a": "\\ud83d"}']
)
def test_read_arguments_invalid_raises(wrong: Any) -> None:
    with pytest.raises(NotJson):
        read_arguments(wrong)


def test_invalid_calls_are_reported_to_model() -> None:
    invalid = [
        None,
        {"id": 7, "function": {"name": 5}},
        {"function": {"name": "wait", "arguments": "{"}},
    ]
    with chat([said("", tool_calls=invalid), call("wait")]) as conversation:
        assert [action.kind for action in conversation.actions()] == ["invalid"] * 3
        assert conversation.act().kind == "act"


EXTRA = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


def test_calls_return_with_ids_and_extra_content() -> None:
    twins = [
        {
            "id": "x",
            "type": "function",
            "function": {"name": "wait", "arguments": "{}"},
            **EXTRA,
        }
    ] * 2
    with chat([said("", tool_calls=twins), call("wait")]) as conversation:
        conversation.act()
        conversation.act()
        [assistant], tools = (
            conversation.server.requests[1].of(role) for role in ("assistant", "tool")
        )
    assert [tool["tool_call_id"] for tool in tools] == ["call_1_0", "call_1_1"]
    assert EXTRA.items() <= assistant["tool_calls"][0].items()


def test_usage_is_summed_over_attempts() -> None:
    assert decide(call("wait")).usage == Usage(
        input=1500, cached=300, output=40, thinking=60
    )
    assert decide(said("?"), call("wait")).usage == Usage(
        input=3000, cached=600, output=80, thinking=120
    )


@pytest.mark.parametrize("text", ["<tool_call>" * 100_000, '{"a":' * 100_000])
def test_endless_text_is_read_quickly(text: str) -> None:
    started = time.process_time()
    with chat([said(text), call("wait")]) as conversation:
        assert conversation.decide().kind == "act"
    assert time.process_time() - started < 5.0
