"""Conversations with the stand-ins for services whose own computer use tools are planners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer
from pytest_vnc_use.planners.openai.planner import OpenAIComputer
from pytest_vnc_use.types import Decision, ModelExchange
from pytest_vnc_use.types.protocols import Planner
from support.exchanges import into
from support.gemini_conversations import QUICK, History
from support.messages_server import MessagesServer
from support.responses_server import ResponsesServer

Server = TypeVar("Server")


@dataclass
class Talk(Generic[Server]):
    """A planner, the service that it asks, and the exchanges that it reported."""

    server: Server
    planner: Planner
    exchanges: list[ModelExchange] = field(default_factory=list)
    history: History = field(default_factory=History)

    def decide(self, timeout_s: float = 20.0) -> Decision:
        return self.planner.decide(self.history.observation(into(self.exchanges)), timeout_s=timeout_s)

    def act(self, **changes: Any) -> Decision:
        """One turn, carried out; `changes` are fields of its steps."""
        decision = self.decide()
        self.history.carry_out(decision, **changes)
        return decision


@contextmanager
def claude(script: Any = (), *, signs: bool = True, **settings: Any) -> Iterator[Talk[MessagesServer]]:
    """A talk with Claude over a script of replies; other keywords are the planner's."""
    with MessagesServer(script, signs=signs) as server:
        settings = {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}
        yield Talk(server, AnthropicComputer(**settings))


@contextmanager
def gpt(script: Any = (), **settings: Any) -> Iterator[Talk[ResponsesServer]]:
    """A talk with a model of OpenAI over a script of replies; other keywords are the planner's."""
    with ResponsesServer(script) as server:
        settings = {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}
        yield Talk(server, OpenAIComputer(**settings))
