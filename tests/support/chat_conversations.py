"""Conversations with the stand-in for chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.types import Action, Decision, ModelExchange
from support.chat_server import MODEL, ChatServer
from support.exchanges import into
from support.gemini_conversations import QUICK, History


@dataclass
class ChatTalk:
    """A planner, the service that it asks, and the exchanges that it reported."""

    server: ChatServer
    planner: OpenAICompatible
    history: History = field(default_factory=History)
    exchanges: list[ModelExchange] = field(default_factory=list)

    def decide(self, timeout_s: float = 20.0) -> Decision:
        return self.planner.decide(self.history.observation(into(self.exchanges)), timeout_s=timeout_s)

    def act(self, **changes: Any) -> Decision:
        """One turn, carried out; `changes` are fields of its steps."""
        decision = self.decide()
        self.history.carry_out(decision, **changes)
        return decision

    def actions(self) -> list[Action]:
        """What the next turn is to do."""
        return [proposal.action for proposal in self.act().proposals]


@contextmanager
def chat(script: Any = (), *, api_key: str = "", history: History | None = None, **settings: Any) -> Iterator[ChatTalk]:
    """A talk over a script of replies, of which every request was accepted; other keywords are the planner's."""
    with ChatServer(script, api_key=api_key) as server:
        planner = OpenAICompatible(server.url, MODEL, api_key, **{"backoff": QUICK, **settings})
        yield ChatTalk(server, planner, history or History())
    assert server.refusals == []
