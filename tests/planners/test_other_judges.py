"""Judges beside Gemini's: how answers are bound to the schema, what is done where that is refused, and boxes."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.errors import KeyMissing, ModelUnavailable, PlannerError
from pytest_vnc_use.planners.anthropic.planner import LARGER, SMALLER, AnthropicJudge
from pytest_vnc_use.planners.common.judge import SCHEMA, Opinion, answer_in
from pytest_vnc_use.planners.common.screens import PictureLimit
from pytest_vnc_use.planners.openai.planner import OpenAIJudge
from pytest_vnc_use.types import Region
from support.chat_server import error, said
from support.gemini_conversations import frame_of
from support.json_server import Reply
from support.judge_servers import CLAIM, KEY, KINDS, court, opinion
from support.messages_server import MessagesServer, text
from support.strict_schemas import problems_of_format

CHAT, CLAUDE, GPT = KINDS["chat"], KINDS["anthropic"], KINDS["openai"]


def properties_bound(body: Any) -> list[str]:
    """The schema's fields, in the order in which a model fills them."""
    return list(body["schema"]["properties"])


# --- bound to the schema ---------------------------------------------------------------------------------------------


def test_chat_completions_are_bound_by_response_format() -> None:
    with court(CHAT, said(opinion())) as asked:
        assert asked.ask()
        [request] = asked.server.requests
    assert properties_bound(request.body["response_format"]["json_schema"]) == ["reason", "verdict", "box_2d"]
    assert (request.images, request.body["max_tokens"], "tools" in request.body) == ((asked.frame.png,), 4096, False)


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-opus-5-5"])
def test_claude_is_bound_by_output_config(model: str) -> None:
    with court(CLAUDE, text(opinion()), model=model) as asked:
        assert asked.ask()
        [request] = asked.server.requests
    assert properties_bound(request["output_config"]["format"]) == ["reason", "verdict", "box_2d"]
    assert not {"tools", "tool_choice"} & set(request)


def test_openai_is_bound_by_text_format() -> None:
    with court(GPT, GPT.say(opinion())) as asked:
        assert asked.ask()
        [request] = asked.server.requests
    assert properties_bound(request["text"]["format"]) == ["reason", "verdict", "box_2d"]
    assert (request["store"], "tools" in request) == (False, False)


# --- where that is refused -------------------------------------------------------------------------------------------


def test_a_server_that_binds_no_answer_is_asked_without_from_then_on() -> None:
    with court(CHAT, said(opinion()), said(opinion(verdict="fails")), serve={"binds": False}) as asked:
        assert asked.ask()
        assert asked.ask().kind == "fails"
    assert ["response_format" in body for body in asked.bodies] == [True, False, False]
    assert "response_format" in asked.exchanges[0].error
    assert asked.exchanges[0].retry_in_s == 0.0


def test_a_claude_that_cannot_be_bound_is_asked_in_words() -> None:
    with court(CLAUDE, text(opinion()), model="claude-sonnet-4-20250514") as asked:
        assert asked.ask()
    assert ["output_config" in body for body in asked.bodies] == [True, False]
    assert '{"reason": …, "verdict": …, "box_2d": …}' in asked.bodies[1]["system"]


def test_a_request_that_is_wrong_either_way_is_an_error() -> None:
    wrong = error(400, "invalid_request_error", "This model does not support images.")
    with court(CHAT, wrong, wrong, said(opinion())) as asked:
        with pytest.raises(PlannerError, match="This model does not support images"):
            asked.ask()
        assert len(asked.exchanges) == 2


def test_a_service_that_is_busy_is_asked_again_bound() -> None:
    with court(CHAT, error(503, "", "Loading model"), said(opinion())) as asked:
        assert asked.ask()
    assert all("response_format" in body for body in asked.bodies)


def test_an_answer_that_was_cut_off_is_no_verdict() -> None:
    cut = [said("<think>Let me see", finish_reason="length")] * 5
    with court(CHAT, *cut, max_tokens=20) as asked:
        with pytest.raises(ModelUnavailable, match="cut off at max_tokens=20"):
            asked.ask()
        assert len(asked.exchanges) == 5


def test_a_temperature_is_sent_where_one_is_given() -> None:
    with court(CHAT, said(opinion()), temperature=0.0) as asked:
        asked.ask()
    assert asked.bodies[0]["temperature"] == 0.0


# --- an opinion in a text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        f"\n{opinion()}\n",
        f"```json\n{opinion()}\n```",
        f"Here is my verdict:\n\n```\n{opinion()}\n```\n",
        f"<think>It may fail: {opinion(verdict='fails')}</think>{opinion()}",
        f"I looked at the row. {opinion()}",
        opinion(reason="It reads {2} and }."),
        opinion(confidence=0.9),
    ],
)
def test_an_opinion_is_found_in_what_a_model_says(words: str) -> None:
    with court(CHAT, said(words)) as asked:
        assert asked.ask()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "}{",
        '{"reason": "cut o',
        '{"verdict": "holds"}',
        opinion(reason=""),
        opinion(box_2d=[1, 2]),
        "[]",
        f"[{opinion()}]",
        f"{opinion()} {opinion(verdict='fails')}",
        f"The screen says {opinion()}, and nothing else.",
        f'{{"reason": "It says {opinion()}", "verdict": "fails"}}',
        f'{{"reason": "It fails", "said": {opinion()}}}',
        opinion(box_2d=[0, 0, float("nan"), 9]),
        opinion(box_2d=[0, 0, float("inf"), 9]),
    ],
)
def test_what_is_cut_off_or_only_quoted_or_ambiguous_is_no_opinion(words: str) -> None:
    assert answer_in(words, Opinion) is None


# --- boxes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("box", "region"),
    [
        ([0, 0, 1000, 1000], Region(0, 0, 1440, 900)),
        ([0, -5, 500, 2000], Region(0, 0, 720, 900)),
        ([500, 500, 500, 500], None),
        ([900, 900, 100, 100], None),
    ],
)
def test_thousandths_are_pixels_inside_the_screen(box: list[int], region: Region | None) -> None:
    with court(CHAT, said(opinion(box_2d=box))) as asked:
        assert asked.ask().region == region
    assert "x from 0 to 1000 and y from 0 to 1000" in asked.bodies[0]["messages"][0]["content"]


def test_a_model_that_counts_in_pixels_is_asked_for_them() -> None:
    with court(CHAT, said(opinion(box_2d=[123, 457, 1441, 901])), coordinates="pixels") as asked:
        assert asked.ask().region == Region(123, 457, 1440, 900)
    assert "x from 0 to 1440 and y from 0 to 900" in asked.bodies[0]["messages"][0]["content"]


@pytest.mark.parametrize("limit", [LARGER, SMALLER])
def test_claude_counts_in_the_pixels_of_the_picture_that_it_is_sent(limit: PictureLimit) -> None:
    def left_half(request: Any) -> Reply:
        data = base64.b64decode(request["messages"][0]["content"][0]["source"]["data"])
        width, height = Image.open(io.BytesIO(data)).size
        assert max(width, height) <= limit.longest_side
        assert f"x from 0 to {width} and y from 0 to {height}" in request["system"]
        return text(opinion(box_2d=[0, 0, width / 2, height]))

    with MessagesServer(left_half, api_key=KEY) as server:
        judge = AnthropicJudge(api_key=KEY, base_url=server.url, limit=limit)
        verdict = judge.judge(CLAIM, frame_of(7, 3840, 2160), timeout_s=20.0)
    assert verdict.region == Region(0, 0, 1920, 2160)


# --- addresses and keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("judge", "variable"), [(AnthropicJudge, "ANTHROPIC_API_KEY"), (OpenAIJudge, "OPENAI_API_KEY")]
)
def test_a_key_that_is_missing(judge: Any, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(KeyMissing, match=rf"set {variable}\. In Python a planner or judge also takes api_key="):
        judge()


# --- the stand-ins refuse a schema that services would ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": ""}, "Missing required parameter"),
        ({"schema": {"type": "array"}}, "schema must be a JSON Schema of 'type: \"object\"'"),
        ({"schema": {**SCHEMA, "propertyOrdering": []}}, "'propertyOrdering' is not permitted"),
        ({"schema": {**SCHEMA, "additionalProperties": True}}, "'additionalProperties' is required to be supplied"),
        ({"schema": {**SCHEMA, "required": ["reason", "verdict"]}}, "Missing 'box_2d'"),
    ],
)
def test_a_strict_schema_that_is_not_strict(changes: dict[str, Any], problem: str) -> None:
    format_ = {"name": "verdict", "strict": True, "schema": SCHEMA}
    assert list(problems_of_format(format_, "text.format")) == []
    assert problem in next(problems_of_format({**format_, **changes}, "text.format"), "")
