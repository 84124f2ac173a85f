"""Judges of every kind, each with the fake server for its service, which answers as the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_vnc_use.planners.anthropic import AnthropicJudge
from pytest_vnc_use.planners.chat.planner import ChatJudge
from pytest_vnc_use.planners.gemini.planner import GeminiJudge
from pytest_vnc_use.planners.openai import OpenAIJudge
from pytest_vnc_use.types import Frame, ModelExchange, Reading, Verdict
from pytest_vnc_use.types.protocols import Judge, Reader
from support import chat_server, gemini_server, messages_server, responses_server
from support.chat_server import ChatServer
from support.gemini_server import GeminiServer
from support.messages_server import MessagesServer
from support.players import QUICK, frame_of, into
from support.responses_server import ResponsesServer

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


@dataclass(frozen=True)
class Kind:
    """A kind of judge, and its service: how the service says words, a box, and its answer to a refused prompt.

    The box is the middle half of the screen at the top, in the service's coordinates.
    """

    server: Callable[..., Any]
    judge: Callable[..., Judge]
    say: Callable[[str], Any]
    box: Sequence[int]
    blocked: Any


def _at(kind: Callable[..., Judge]) -> Callable[..., Judge]:
    return lambda server, **settings: kind(**{"base_url": server.url, "api_key": KEY, "backoff": QUICK, **settings})


def _chat_judge(**settings: Any) -> ChatJudge:
    return ChatJudge(**{"model": chat_server.MODEL, **settings})


KINDS = {
    "gemini": Kind(
        GeminiServer, _at(GeminiJudge), gemini_server.text, (0, 250, 500, 750), gemini_server.blocked_prompt()
    ),
    "chat": Kind(
        ChatServer, _at(_chat_judge), chat_server.said, (250, 0, 750, 500), chat_server.said("", refusal="I cannot.")
    ),
    "anthropic": Kind(
        MessagesServer,
        _at(AnthropicJudge),
        messages_server.text,
        (360, 0, 1080, 450),
        messages_server.refused("cyber", "Not this."),
    ),
    "openai": Kind(
        ResponsesServer,
        _at(OpenAIJudge),
        responses_server.text,
        (360, 0, 1080, 450),
        responses_server.response(status="incomplete", incomplete_details={"reason": "content_filter"}),
    ),
}


@dataclass
class Court:
    """A judge, the service that it asks, the frame for its claims, and the exchanges that it reported."""

    server: Any
    judge: Judge
    frame: Frame = field(default_factory=lambda: frame_of(7))
    exchanges: list[ModelExchange] = field(default_factory=list)

    def ask(self, timeout_s: float = 20.0) -> Verdict:
        return self.judge.judge(CLAIM, self.frame, timeout_s=timeout_s, report=into(self.exchanges))

    def read(self, timeout_s: float = 20.0) -> Reading:
        assert isinstance(self.judge, Reader)
        return self.judge.read(QUESTION, COUNT, self.frame, timeout_s=timeout_s, report=into(self.exchanges))

    @property
    def bodies(self) -> list[Any]:
        return [exchange.request for exchange in self.exchanges]


@contextmanager
def court(kind: Kind, *replies: Any, serve: dict[str, Any] | None = None, **settings: Any) -> Iterator[Court]:
    with kind.server(replies, **{"api_key": KEY, **(serve or {})}) as server:
        yield Court(server, kind.judge(server, **settings))


def opinion(**changes: Any) -> str:
    return json.dumps({"reason": "The row says 2 apples.", "verdict": "holds", "box_2d": None, **changes})


def value(**changes: Any) -> str:
    return json.dumps({"reason": "The row says 2 apples.", "value": {"apples": 2}, "box_2d": None, **changes})
