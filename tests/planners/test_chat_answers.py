"""What a chat completion says: thoughts left out, and tool calls found wherever a server leaves them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pytest_vnc_use.planners.chat.answers import NotJson, read_arguments, split_thoughts
from pytest_vnc_use.types import Click, Decision, InvalidAction, TypeText, Usage, Wait
from support.chat_conversations import chat
from support.chat_server import call, calls, said
from support.gemini_conversations import History

STARTED = History()
WAIT = '{"name": "wait", "arguments": {"seconds": 2}}'
TYPE = '{"name": "type_text", "arguments": {"text": "a < b ` c"}}'


def decide(*script: Any, **settings: Any) -> Decision:
    with chat(script, history=STARTED, **settings) as talk:
        return talk.decide()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<think>Hm. </think>\n\nI click.", "I click."),
        ("First. <think>Hm.</think> Then.", "First.  Then."),
        ("Hm, hm.</think>I click.", "I click."),
        ("I click.<think>Was that", "I click."),
        ("<think>a</think>b<think>c</think>d", "bd"),
        ("<THINKING>a</Thinking>b", "b"),
        ("a</think>b</think>c", "c"),
        ("<think>a<think>b</think>c", "c"),
        ("<think></think>", ""),
        ("a < b, and so </thinker>", "a < b, and so </thinker>"),
    ],
)
def test_thoughts_are_left_out(text: str, words: str) -> None:
    assert split_thoughts(text)[0] == words


def test_thoughts_stand_neither_in_result_nor_in_history() -> None:
    first = calls(("wait", {}), words="<think>secretly</think>I wait.", reasoning_content="secretly, at length")
    with chat([first, call("task_complete", summary="Done.")]) as talk:
        assert talk.act().words == "I wait."
        talk.decide()
        assert "secretly" not in json.dumps(talk.server.requests[1].body)
        assert "secretly, at length" in json.dumps(talk.exchanges[0].response)


@pytest.mark.parametrize(
    ("content", "words", "action"),
    [
        (f"<tool_call>\n{WAIT}\n</tool_call>", "", Wait(2.0)),
        (f"I wait.\n<tool_call>{WAIT}", "I wait.", Wait(2.0)),
        (f"<think>no: <tool_call>{TYPE}</tool_call></think><tool_call>{WAIT}</tool_call>", "", Wait(2.0)),
        (f"I type:\n```json\n{TYPE}\n```\nThen I look.", "I type:\n\nThen I look.", TypeText("a < b ` c")),
        (f"```\n{WAIT}\n```", "", Wait(2.0)),
        (f"```tool_call\n[{WAIT}]\n```", "", Wait(2.0)),
        (WAIT, "", Wait(2.0)),
        (f" [{WAIT}]\n", "", Wait(2.0)),
        ('{"function": {"name": "wait", "arguments": "{\\"seconds\\": 2}"}}', "", Wait(2.0)),
        ('{"name": "wait", "parameters": {"seconds": 2}}', "", Wait(2.0)),
        (f"```json {WAIT}```", "", Wait(2.0)),
        (f"I wait. {WAIT}", "I wait.", Wait(2.0)),
        (f"<tool_call>\n{WAIT}\n</tool_call><|im_end|>", "", Wait(2.0)),  # Hermes, Qwen 2.5 and 3
        (f"[TOOL_CALLS][{WAIT}]", "", Wait(2.0)),  # Mistral
        (f"<|python_tag|>{WAIT}<|eom_id|>", "", Wait(2.0)),  # Llama 3
        (f"<|tool_call|>[{WAIT}]<|/tool_call|>", "", Wait(2.0)),  # Phi 4, Granite
        (f"functools[{WAIT}]", "functools", Wait(2.0)),
        (  # Qwen3-Coder
            "I wait.\n<tool_call>\n<function=wait>\n<parameter=seconds>\n2\n</parameter>\n</function>\n</tool_call>",
            "I wait.",
            Wait(2.0),
        ),
        (
            "<function=type_text>\n<parameter=text>\n a < b\n\n</parameter>\n<parameter=press_enter>true</parameter>",
            "",
            TypeText(" a < b\n", press_enter=True),
        ),
        (  # GLM
            "<tool_call>wait\n<arg_key>seconds</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
            "",
            Wait(2.0),
        ),
        (
            '<minimax:tool_call>\n<invoke name="wait">\n<parameter name="seconds">2</parameter>\n</invoke>\n'
            "</minimax:tool_call>",
            "",
            Wait(2.0),
        ),
        (
            '<｜DSML｜function_calls><｜DSML｜invoke name="wait"><｜DSML｜parameter name="seconds" string="false">2'
            "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
            "<｜DSML｜function_calls>",
            Wait(2.0),
        ),
        (  # DeepSeek 3
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>wait\n```json\n"
            '{"seconds": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            "",
            Wait(2.0),
        ),
        (
            '<｜tool▁call▁begin｜>wait<｜tool▁sep｜>{"seconds": 2}<｜tool▁call▁end｜>',
            "",
            Wait(2.0),
        ),
        (  # Kimi K2
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.wait:0<|tool_call_argument_begin|>"
            '{"seconds": 2}<|tool_call_end|><|tool_calls_section_end|>',
            "",
            Wait(2.0),
        ),
        (  # gpt-oss
            'I wait.<|end|><|channel|>commentary to=functions.wait <|constrain|>json<|message|>{"seconds": 2}<|call|>',
            "I wait.commentary",
            Wait(2.0),
        ),
        ('I wait.[TOOL_CALLS]wait[ARGS]{"seconds": 2}', "I wait.", Wait(2.0)),
        ('<function=wait>{"seconds": 2}</function>', "", Wait(2.0)),
        ([{"type": "text", "text": "I wait."}, {"type": "text", "text": f"<tool_call>{WAIT}"}], "I wait.", Wait(2.0)),
    ],
)
def test_calls_in_content(content: Any, words: str, action: Any) -> None:
    decision = decide(said(content))
    assert ([proposal.action for proposal in decision.proposals], decision.words) == ([action], words)


def test_two_calls_in_content_of_which_first_is_not_closed() -> None:
    decision = decide(said(f"<tool_call>{WAIT}\n<tool_call>{TYPE}</tool_call>"))
    assert [proposal.action for proposal in decision.proposals] == [Wait(2.0), TypeText("a < b ` c")]


def test_name_of_qwens_tool_may_be_left_out() -> None:
    decision = decide(said('{"action": "left_click", "coordinate": [500, 500]}'), toolset="computer_use")
    assert [proposal.action for proposal in decision.proposals] == [Click(720, 450)]


@pytest.mark.parametrize(
    "content",
    [
        '<tool_call>{"name": "wait"',
        "```json\n{'name': 'wait'}\n```",
        "<tool_call>wait(seconds=2)</tool_call>",
        "<function=wait>\n<parameter=seconds>\n2",
        '<function=wait>{"seconds": </function>',
        "[wait(seconds=2)]",
        "```tool_code\nwait(seconds=2)\n```",
        "<start_function_call>call:wait{seconds:2}<end_function_call>",
        f"I wait. {WAIT}.",
        f"{WAIT}\nThen {TYPE}",
    ],
)
def test_unread_call_in_text_names_form_and_option(content: str) -> None:
    [proposal] = decide(said(content)).proposals
    assert isinstance(proposal.action, InvalidAction)
    assert proposal.action.problem.startswith(
        'a call in the text of an answer must be <tool_call>{"name": …, "arguments": {…}}</tool_call>, got '
    )
    assert "--enable-auto-tool-choice --tool-call-parser" in proposal.action.problem
    assert "--jinja" in proposal.action.problem


@pytest.mark.parametrize(
    "words", ["It is open.<|im_end|>", 'The page shows {"name": "Al"} now.', "I see a <toolbar> (with buttons)."]
)
def test_words_without_call_are_words(words: str) -> None:
    talked = decide(said(words), said(words))
    assert talked.kind == "gave_up"
    assert "you answered without a tool call" in talked.words


def test_arguments_of_text_get_declared_types() -> None:
    batch = (
        "<function=batch><parameter=actions>\n"
        '[{"command": "wait", "arguments": {"seconds": "2"}}, {"command": "type_text", "arguments": {"text": "[1]"}}]\n'
        "</parameter></function><function=type_text><parameter=text>[1]</parameter></function>"
    )
    decision = decide(said(batch))
    assert [proposal.action for proposal in decision.proposals] == [Wait(2.0), TypeText("[1]"), TypeText("[1]")]
    drag = "<function=computer_use><parameter=action>left_click</parameter><parameter=coordinate>[500, 500]</parameter>"
    assert decide(said(drag), toolset="computer_use").proposals[0].as_proposed["args"]["coordinate"] == [500, 500]


@pytest.mark.parametrize("arguments", [{"seconds": 2}, '{"seconds": 2}', '"{\\"seconds\\": 2}"', ' {"seconds": "2"} '])
def test_arguments_as_servers_send_them(arguments: Any) -> None:
    answer = said("", tool_calls=[{"id": "x", "function": {"name": "wait", "arguments": arguments}}])
    assert [proposal.action for proposal in decide(answer).proposals] == [Wait(2.0)]


def test_no_arguments_and_wrong_ones() -> None:
    assert [read_arguments(nothing) for nothing in (None, "", " \n", "null")] == [{}, {}, {}, {}]
    for wrong in ("5", [1], "[1]", 7, "{", '{"a": Infinity}', '{"a": "\\ud83d"}'):
        with pytest.raises(NotJson):
            read_arguments(wrong)


@pytest.mark.parametrize(
    "tool_calls",
    [[None], ["wait"], [{}], [{"function": "wait"}], [{"function": {"name": 5}}], [{"id": 7, "function": {}}]],
)
def test_call_without_what_makes_it_one_is_told_to_model(tool_calls: Any) -> None:
    with chat([said("", tool_calls=tool_calls), call("wait")]) as talk:
        [proposal] = talk.act().proposals
        assert isinstance(proposal.action, InvalidAction)
        assert talk.act().kind == "act"


def test_two_calls_with_same_id_get_ids_of_our_own() -> None:
    twins = [{"id": "x", "type": "function", "function": {"name": "wait", "arguments": "{}"}}] * 2
    with chat([said("", tool_calls=twins), call("wait")]) as talk:
        talk.act()
        talk.act()
        tools = talk.server.requests[1].of("tool")
    assert [tool["tool_call_id"] for tool in tools] == ["call_1_0", "call_1_1"]


def test_what_service_wants_back_with_call_goes_back() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    signed = {"id": "x", "type": "function", "function": {"name": "wait", "arguments": "{}"}, "extra_content": extra}
    with chat([said("", tool_calls=[signed]), call("wait")]) as talk:
        talk.act()
        talk.act()
        [assistant] = talk.server.requests[1].of("assistant")
    assert assistant["tool_calls"][0]["extra_content"] == extra


def test_what_it_costs() -> None:
    assert decide(call("wait")).usage == Usage(input=1500, cached=300, output=40, thinking=60)
    assert decide(said("?"), call("wait")).usage == Usage(input=3000, cached=600, output=80, thinking=120)


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 100_000,
        "<tool_call>" * 100_000,
        "```\n" * 100_000,
        "```" + "\n" * 300_000,
        "<tool_call>{" + "<" * 300_000,
        '{"a":' * 100_000,
        "[{" * 100_000,
        "<function=wait><parameter=seconds>" + "<" * 300_000,
        "<parameter=a" * 100_000,
        "<function=wait>" * 10_000,
        "<tool_call>" + " " * 300_000,
        "[TOOL_CALLS]" * 50_000,
    ],
)
def test_model_that_goes_round_in_circles_is_read_quickly(text: str) -> None:
    started = time.process_time()
    with chat([said(text), call("wait")], history=STARTED) as talk:
        assert talk.decide().kind == "act"
    assert time.process_time() - started < 5.0
