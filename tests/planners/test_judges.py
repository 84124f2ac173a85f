"""What every judge keeps to, whichever model it asks; and how each service is asked."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.errors import AnswerRefused, Inconclusive, ModelUnavailable
from pytest_vnc_use.planners.anthropic import SMALLER, AnthropicJudge
from pytest_vnc_use.planners.common.judge import Opinion, answer_in
from pytest_vnc_use.types import Frame, ModelExchange, Reading, Region, Verdict
from pytest_vnc_use.types.protocols import Judge, Reader
from support.chat_server import said
from support.json_server import Reply, openai_error
from support.messages_server import MessagesServer, text
from support.players import KINDS, Kind, frame_of, into, opinion

CHAT = KINDS["chat"]
CLAUDE = KINDS["anthropic"]
GEMINI = KINDS["gemini"]
CLAIM = "The basket shows 2 apples."
QUESTION = "How many apples are in the basket?"
COUNT = {
    "type": "object",
    "properties": {"apples": {"$ref": "#/$defs/Count"}},
    "required": ["apples"],
    "additionalProperties": False,
    "$defs": {"Count": {"type": "integer", "description": "how many"}},
}
KEY = "a-key-for-the-tests"


@dataclass
class Court:
    """A judge, the service that it asks, the frame for its claims, and the exchanges
    that it reported.
    """

    server: Any
    judge: Judge
    frame: Frame = field(default_factory=lambda: frame_of(7))
    exchanges: list[ModelExchange] = field(default_factory=list)

    def ask(self) -> Verdict:
        report = into(self.exchanges)
        return self.judge.judge(CLAIM, self.frame, timeout_s=20.0, report=report)

    def read(self) -> Reading:
        assert isinstance(self.judge, Reader)
        report = into(self.exchanges)
        return self.judge.read(
            QUESTION, COUNT, self.frame, timeout_s=20.0, report=report
        )

    @property
    def bodies(self) -> list[Any]:
        return [exchange.request for exchange in self.exchanges]


@contextmanager
def judges(
    kind: Kind,
    *replies: Any,
    serve: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> Iterator[Court]:
    with kind.server(replies, api_key=KEY, **serve) as server:
        yield Court(server, kind.judge(server, **settings))


def value(**changes: Any) -> str:
    answer = {"reason": "The row says 2 apples.", "box_2d": None}
    return json.dumps({**answer, "value": {"apples": 2}, **changes})


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_claim_holds_with_region_and_usage(kind: Kind) -> None:
    answers = (
        opinion(box_2d=kind.box),
        opinion(verdict="fails"),
        opinion(verdict="unsure"),
    )
    with judges(kind, *map(kind.say, answers)) as asked:
        verdict = asked.ask()
        assert verdict.holds is True
        assert verdict.model
        assert verdict.region == Region(360, 0, 1080, 450)
        assert verdict.claim == CLAIM
        assert verdict.reason == "The row says 2 apples."
        assert verdict.frame == asked.frame.ref
        assert verdict.usage.input == 1500
        assert verdict.usage.output + verdict.usage.thinking == 100
        [exchange] = asked.exchanges
        assert (exchange.purpose, exchange.error) == ("judge", "")
        shown = repr(exchange)
        assert [
            each in shown for each in (CLAIM, f"sha256:{asked.frame.ref.digest}", KEY)
        ] == [True, True, False]
        assert "computer" not in repr(asked.bodies)
        verdicts = [asked.ask(), asked.ask()]
        assert [(verdict.kind, verdict.holds) for verdict in verdicts] == [
            ("fails", False),
            ("unsure", False),
        ]


def test_claim_unreadable_answer_is_asked_once_more(kind: Kind) -> None:
    unreadable = kind.say('{"reason": "Yes.", "verdict": "yes"}')
    with judges(kind, unreadable, kind.say(opinion()), unreadable, unreadable) as asked:
        verdict = asked.ask()
        assert verdict
        assert (verdict.usage.input, len(asked.exchanges)) == (3000, 2)
        verdict = asked.ask()
        assert verdict.kind == "unsure"
        assert verdict.usage.input == 3000
        assert len(asked.exchanges) == 4
        assert "not the JSON that was asked for" in verdict.reason


def test_refusing_service_is_error_not_verdict(kind: Kind) -> None:
    with judges(kind, kind.blocked, kind.blocked) as asked:
        with pytest.raises(AnswerRefused):
            asked.ask()
        assert len(asked.exchanges) == 1
        with pytest.raises(AnswerRefused):
            asked.read()


def test_read_value_with_reason_and_region(kind: Kind) -> None:
    with judges(
        kind, kind.say(value(box_2d=kind.box)), kind.say(value(value=None))
    ) as asked:
        reading = asked.read()
        assert reading.question == QUESTION
        assert reading.value == {"apples": 2}
        assert reading.reason == "The row says 2 apples."
        assert reading.region == Region(360, 0, 1080, 450)
        assert reading.frame == asked.frame.ref
        assert reading.model
        assert reading.usage.input == 1500
        assert asked.server.refusals == []
        assert [each in repr(asked.bodies) for each in (QUESTION, "#/$defs/Count")] == [
            True,
            True,
        ]
        assert asked.read().value is None


def test_read_unreadable_twice_is_inconclusive(kind: Kind) -> None:
    answers = ["Two.", value(), "Two.", '{"reason": "so"}']
    with judges(kind, *map(kind.say, answers)) as asked:
        assert asked.read().value == {"apples": 2}
        with pytest.raises(
            Inconclusive, match="not the JSON that was asked for, twice"
        ):
            asked.read()
        assert len(asked.exchanges) == 4


BOUND = {
    "gemini": lambda body: body["generationConfig"]["responseJsonSchema"],
    "chat": lambda body: body["response_format"]["json_schema"]["schema"],
    "anthropic": lambda body: body["output_config"]["format"]["schema"],
    "openai": lambda body: body["text"]["format"]["schema"],
}


@pytest.mark.parametrize("name", BOUND)
def test_answer_is_bound_to_schema_reason_first(name: str) -> None:
    with judges(KINDS[name], KINDS[name].say(opinion())) as asked:
        assert asked.ask()
        [body] = asked.bodies
    assert list(BOUND[name](body)["properties"]) == ["reason", "verdict", "box_2d"]
    assert not {"tools", "tool_choice"} & set(body)


def test_server_that_fails_is_asked_bound_again() -> None:
    with judges(CHAT, openai_error(503, "", "Loading model"), said(opinion())) as asked:
        assert asked.ask()
        assert ["response_format" in body for body in asked.bodies] == [True, True]


def test_server_without_binding_is_asked_unbound_afterwards() -> None:
    with judges(
        CHAT, said(opinion()), said(opinion(verdict="fails")), serve={"binds": False}
    ) as asked:
        assert asked.ask()
        assert asked.ask().kind == "fails"
    assert ["response_format" in body for body in asked.bodies] == [True, False, False]
    assert "response_format" in asked.exchanges[0].error
    assert asked.exchanges[0].retry_in_s == 0.0


def test_model_without_binding_is_asked_in_words() -> None:
    with judges(CLAUDE, text(opinion()), model="claude-sonnet-4-20250514") as asked:
        assert asked.ask()
    assert ["output_config" in body for body in asked.bodies] == [True, False]
    assert '{"reason": …, "verdict": …, "box_2d": …}' in asked.bodies[1]["system"]


def test_chat_answer_cut_off_is_no_verdict() -> None:
    cut = [said("<think>Let me see", finish_reason="length")] * 5
    with judges(CHAT, *cut, max_tokens=20, temperature=0.0) as asked:
        with pytest.raises(ModelUnavailable, match="cut off at max_tokens=20"):
            asked.ask()
        assert len(asked.exchanges) == 5
        assert asked.bodies[0]["temperature"] == 0.0


@pytest.mark.parametrize(
    "text",
    [
        f"<think>It may fail: {opinion(verdict='fails')}</think>{opinion()}",
        f"I looked at the row. {opinion()}",
    ],
    ids=["thoughts", "sentence"],
)
def test_opinion_is_found_in_text(text: str) -> None:
    with judges(CHAT, said(text)) as asked:
        assert asked.ask()


@pytest.mark.parametrize(
    "text",
    [
        '{"reason": "cut o',
        f"{opinion()} {opinion(verdict='fails')}",
        f"The screen says {opinion()}, and nothing else.",
        f'{{"reason": "It says {opinion()}", "verdict": "fails"}}',
        opinion(box_2d=[0, 0, float("nan"), 9]),
    ],
    ids=["cut", "ambiguous", "quoted", "quoted in another", "no number"],
)
def test_no_opinion_in_cut_quoted_or_ambiguous_text(text: str) -> None:
    assert answer_in(text, Opinion) is None


@pytest.mark.parametrize(
    ("asked_kind", "settings", "box", "region"),
    [
        (CHAT, {}, [0, -5, 500, 2000], Region(0, 0, 720, 900)),
        (
            CHAT,
            {"coordinates": "pixels"},
            [123, 457, 1441, 901],
            Region(123, 457, 1440, 900),
        ),
        (GEMINI, {}, [-5, 0, 2000, 500], Region(0, 0, 720, 900)),
    ],
)
def test_region_is_pixels_inside_screen(
    asked_kind: Kind, settings: Any, box: Any, region: Region | None
) -> None:
    with judges(asked_kind, asked_kind.say(opinion(box_2d=box)), **settings) as asked:
        assert asked.ask().region == region
    size = (
        "x from 0 to 1440 and y from 0 to 900"
        if settings
        else "x from 0 to 1000 and y from 0 to 1000"
    )
    assert size in repr(asked.bodies[0])


def test_claude_counts_in_pixels_of_sent_screenshot() -> None:
    def left_half(request: Any) -> Reply:
        data = base64.b64decode(request["messages"][0]["content"][0]["source"]["data"])
        width, height = Image.open(io.BytesIO(data)).size
        assert max(width, height) <= SMALLER.max_side
        assert f"x from 0 to {width} and y from 0 to {height}" in request["system"]
        return text(opinion(box_2d=[0, 0, width / 2, height]))

    with MessagesServer(left_half, api_key=KEY) as server:
        judge = AnthropicJudge(api_key=KEY, base_url=server.url, limit=SMALLER)
        verdict = judge.judge(CLAIM, frame_of(7, 3840, 2160), timeout_s=20.0)
    assert verdict.region == Region(0, 0, 1920, 2160)
