"""The content of a chat completion, read from its JSON: text without reasoning, and
tool calls wherever they are.

Wire format: OpenAI's chat completions, as vLLM, llama.cpp and LM Studio serve it. If a
server does not parse its model's tool calls, they are in the content, in the model's
format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from pytest_vnc_use.errors import AnswerRefused, ModelUnavailable
from pytest_vnc_use.planners.common.http import (
    Failure,
    NotJson as NotJson,
    count_of,
    malformed,
    read_json,
)
from pytest_vnc_use.planners.common.service_planner import ModelAnswer
from pytest_vnc_use.planners.common.toolset import FunctionCall
from pytest_vnc_use.types import JsonObject, Usage

_THINK = re.compile(r"(</?think(?:ing)?>)", re.IGNORECASE)
_TOOL_CALL = re.compile(
    r"<tool_call>([^<]*(?:<(?!/?tool_call>)[^<]*)*)(?:</tool_call>|(?=<tool_call>)|\Z)"
)
_FENCED = re.compile(r"```(?:json|tool_call)?((?:[^`]|`(?!``))*)```")
_NAMED = re.compile(
    r"(?:<function(?:=|\s+name=)"  # Qwen3-Coder, Llama 3.1
    r"|<[^\s<>]{0,12}\binvoke\s+name="  # MiniMax, DeepSeek 3.2
    r"|<tool_call>\s*(?=[\w.-]+\s*(?:<|\Z))"  # GLM
    r"|\[TOOL_CALLS\]\s*(?=[\w.-]+\s*[\[{])"  # Mistral
    r"|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?"  # DeepSeek 3
    r"|<\|tool_call_begin\|>|\bto=(?=functions\.))"  # Kimi K2; gpt-oss
    r"[\"']?([\w.:-]+)"
)
"""The beginning of a call with its name. JSON or `_PAIR`s follow."""
_DECORATED = re.compile(r"(?:[\w-]+[.:])*([^\W\d][\w-]*)(?::\d+)?")
"""A tool's name with what some servers leave around it: `functions.type_text:3`."""
_PARAMETER = r"[^\s<>]{0,12}\bparameter\b"
_PAIR = re.compile(
    rf"<(?:{_PARAMETER}(?:=|\s+name=)[\"']?([\w.-]+)[^<>]*>|arg_key>\s*([\w.-]+)\s*</arg_key>\s*<arg_value>)"
    rf"([^<]*(?:<(?!/?{_PARAMETER}|/?arg_)[^<]*)*)(</)?"
)
"""An argument and its value: `<parameter=NAME>…</`, `<parameter name="NAME">…</`,
`<arg_key>NAME</arg_key>…</`.
"""
_JSON_BEGIN = re.compile(r'[\[{]\s*[{"]')
_MAX_TRIES = 20
_SPECIAL = r"<\|/?\w+\|>|<｜[\w▁]+｜>|</?(?:\w{1,12}:)?tool_calls?>|\[/?TOOL_CALLS\]"
_BETWEEN = re.compile(rf"(?:[\s;,]|{_SPECIAL})*")
_JSON_AFTER = re.compile(r"(?:[^{<]|<(?!/))*(?=\{)")
_CALL_LIKE = re.compile(
    r"<[^\s<>]{0,12}(?:tool[_▁]|function|invoke\b|python_tag|action_start)|\[TOOL_CALLS\]|```tool_"
    r"|[\"'](?:arguments|parameters)[\"']\s*:|\A\s*\[?\w{1,50}\([^()]*\)\]?\s*\Z"
)
"""Text that is meant as a call, in whatever format."""
UNREAD = (
    'a call in the text of an answer must be <tool_call>{{"name": …, "arguments":'
    " {{…}}}}</tool_call>, got {!r:.200} (this server leaves calls in the text: vLLM"
    " parses them with --enable-auto-tool-choice --tool-call-parser=…, llama.cpp with"
    " --jinja)"
)

WHOLE = frozenset(
    {
        "",
        "stop",
        "eos",
        "eos_token",
        "end_turn",
        "stop_sequence",
        "tool_calls",
        "function_call",
    }
)
CUT_OFF = ("length", "max_tokens")
WITHHELD = ("content_filter", "safety", "sensitive")
BROKEN = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""Finish reasons of an outage: OpenRouter's, vLLM's, GLM's, DeepSeek's. With any other
reason, an empty answer is an outage too.
"""

NOT_AN_OBJECT = "not an object"
NAMES = ("command", "name", "action")
LABELS = ("id", "type", "index", "call_id")
"""Fields beside a call that do not say what it does."""
ARGUMENTS = ("arguments", "params", "parameters")


def read_answer(body: JsonObject) -> ModelAnswer[FunctionCall] | Failure:
    """Return the first choice of a chat completion; a Failure if there is none, or if
    the service withheld it.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return malformed(f"no choice with a message: {body}")
    reason = str(choice.get("finish_reason") or "")
    if reason.lower().startswith(WITHHELD) or message.get("refusal"):
        return Failure(
            AnswerRefused(
                "the model's service refused:"
                f" {message.get('refusal') or reason!s:.500}"
            )
        )
    text, reasoning = split_reasoning(_text(message.get("content")))
    calls: tuple[FunctionCall, ...] = ()
    if isinstance(message.get("tool_calls"), list) and message["tool_calls"]:
        calls = tuple(map(_tool_call, message["tool_calls"]))
    else:  # The server parsed no call.
        text, calls = _calls_in(text)
    if reason.lower() in BROKEN or not (
        text or calls or reason.lower() in (*WHOLE, *CUT_OFF)
    ):
        problem = (
            f"the model's service ended its answer with finish_reason {reason!r:.100},"
            f" after {text[:200]!r}"
        )
        return Failure(ModelUnavailable(problem), again=True)
    # Some servers return the reasoning separately.
    for name in ("reasoning", "reasoning_content"):
        if isinstance(message.get(name), str) and message[name].strip():
            reasoning = _THINK.sub("", message[name]).strip()
    usage = usage_of(body)
    model = str(body.get("model") or "")
    return ModelAnswer(
        (), text, reasoning, calls, usage, model, cut_off=reason.lower() in CUT_OFF
    )


def _text(content: Any) -> str:
    """Return the text of a content, which is text or a list of parts, some of them
    text.
    """
    if isinstance(content, list):
        return "".join(
            str(part.get("text") or "") for part in content if isinstance(part, Mapping)
        )
    return content if isinstance(content, str) else ""


def split_reasoning(text: str) -> tuple[str, str]:
    """Return the text outside of `<think>…</think>`, and the reasoning.

    Everything before a lone closing tag, and after an unclosed one, is reasoning too.
    """
    kept: list[str] = []
    reasoning: list[str] = []
    thinking = False
    for piece in _THINK.split(text):
        if not _THINK.fullmatch(piece):
            (reasoning if thinking else kept).append(piece)
            continue
        if piece.startswith("</") and not thinking:
            reasoning += kept
            kept.clear()
        thinking = not piece.startswith("</")
    return "".join(kept).strip(), "".join(reasoning).strip()


def _tool_call(call: Any) -> FunctionCall:
    """Return one of a message's `tool_calls`, even if fields are missing."""
    call = call if isinstance(call, Mapping) else {}
    function = call.get("function") if isinstance(call.get("function"), Mapping) else {}
    name = tool_name(str(function.get("name") or ""))
    call_id = str(call.get("id") or "")
    extra = (
        {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
    )
    try:
        return FunctionCall(
            name, read_arguments(function.get("arguments")), call_id, extra=extra
        )
    except NotJson as exc:
        problem = (
            f"the arguments must be a JSON object, got {function['arguments']!r:.200}"
        )
        kind = "invalid_args" if str(exc) == NOT_AN_OBJECT else "invalid_json"
        return FunctionCall(name, {}, call_id, problem, kind, extra)


def tool_name(text: str) -> str:
    """Return the name of the tool that a call names, without namespace and index."""
    decorated = _DECORATED.fullmatch(text.strip())
    return decorated[1] if decorated else text


def read_arguments(value: Any) -> JsonObject:
    """Return the arguments from an object or its JSON, encoded once or twice; {} for
    none. Raises NotJson.
    """
    for _ in range(2):
        if isinstance(value, str):
            value = read_value(value) if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise NotJson(NOT_AN_OBJECT)
    return value


def read_value(text: str) -> Any:
    """Return the value of JSON text, read as strictly as a response: it can be written
    again. Raises NotJson.
    """
    try:
        return read_json(json.dumps({"value": json.loads(text)}))["value"]
    except (ValueError, RecursionError) as exc:
        raise NotJson(f"this is not JSON: {exc}") from exc


def _calls_in(content: str) -> tuple[str, tuple[FunctionCall, ...]]:
    """Return the content without its calls, and the calls. An unreadable call has a
    `problem`.
    """
    found = (
        _marked_calls(_TOOL_CALL, content)
        or _named_calls(content)
        or _marked_calls(_FENCED, content)
        or _last_calls(content)
    )
    if found:
        return found
    if _CALL_LIKE.search(content):
        return content, (_unread(content),)
    return content, ()


def _marked_calls(
    pattern: re.Pattern[str], content: str
) -> tuple[str, tuple[FunctionCall, ...]] | None:
    """Return the calls in marked texts that begin as JSON."""
    calls: list[FunctionCall] = []
    for text in pattern.findall(content):
        if not text.lstrip().startswith(("{", "[")):
            continue
        try:
            calls += _written_calls(text)
        except NotJson:
            calls.append(_unread(text))
    return (_without_marks(pattern.sub("", content)), tuple(calls)) if calls else None


def _named_calls(content: str) -> tuple[str, tuple[FunctionCall, ...]] | None:
    """Return the calls whose marks contain their names. The text after a name has the
    arguments.
    """
    first, *named = _NAMED.split(content)
    calls = [
        _named_call(name, text)
        for name, text in zip(named[::2], named[1::2], strict=True)
    ]
    return (_without_marks(first), tuple(calls)) if calls else None


def _named_call(name: str, text: str) -> FunctionCall:
    pairs = _PAIR.findall(text)
    if not all(closed for *_, closed in pairs):
        return _unread(name + text)
    args: JsonObject = {
        one or other: value.removeprefix("\n").removesuffix("\n")
        for one, other, value, _ in pairs
    }
    json_begin = None if pairs else _JSON_AFTER.match(text)
    if json_begin:
        try:
            args = read_arguments(_decode(text, json_begin.end())[0])
        except NotJson:
            return _unread(name + text)
    return FunctionCall(tool_name(name), args)


def _last_calls(content: str) -> tuple[str, tuple[FunctionCall, ...]] | None:
    """Return the calls written as JSON at the end of the content, or as all of it."""
    for begin in islice(_JSON_BEGIN.finditer(content), _MAX_TRIES):
        with suppress(NotJson):
            calls = _written_calls(content[begin.start() :])
            before = _without_marks(content[: begin.start()])
            if calls and not _CALL_LIKE.search(before):
                return before, tuple(calls)
            return None
    return None


def _written_calls(text: str) -> list[FunctionCall]:
    """Return the calls of JSON values or lists that follow each other. Raises NotJson
    if there is other text.
    """
    calls: list[FunctionCall | None] = []
    at = _end_of_marks(text, 0)
    while at < len(text):
        value, at = _decode(text, at)
        calls += map(call_of, value if isinstance(value, list) else [value])
        at = _end_of_marks(text, at)
    return [call for call in calls if call is not None]


def _decode(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value at index `at`, and its end. Raises NotJson."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError) as exc:
        raise NotJson(f"this is not JSON: {exc}") from exc
    return read_value(text[at:end]), end


def _end_of_marks(text: str, at: int) -> int:
    marks = _BETWEEN.match(text, at)
    return marks.end() if marks else at


def _without_marks(text: str) -> str:
    return re.sub(_SPECIAL, "", text).strip()


def _unread(text: str) -> FunctionCall:
    return FunctionCall("", {}, problem=UNREAD.format(text.strip()))


def call_of(item: Any) -> FunctionCall | None:
    """Return the call that a model has written as JSON; None if the JSON is no call.

    The forms are `{"name": …, "arguments": {…}}`, the same with flat arguments, or
    either in a `function`.
    """
    if not isinstance(item, Mapping):
        return None
    if isinstance(item.get("function"), Mapping):
        return call_of(item["function"])
    named = next((name for name in NAMES if isinstance(item.get(name), str)), None)
    if named is None:
        return None
    arguments = next((name for name in ARGUMENTS if name in item), None)
    try:
        beside = {
            name: value
            for name, value in item.items()
            if name not in (named, arguments, *LABELS)
        }
        return FunctionCall(
            tool_name(item[named]),
            {**beside, **(read_arguments(item[arguments]) if arguments else {})},
        )
    except NotJson:
        return None


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response. The completion's tokens include those of
    reasoning.
    """
    counts = body.get("usage")
    thinking = count_of(counts, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        input=count_of(counts, "prompt_tokens"),
        cached=count_of(counts, "prompt_tokens_details", "cached_tokens"),
        output=max(0, count_of(counts, "completion_tokens") - thinking),
        thinking=thinking,
    )
