"""Conversations with the fake server for chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.types import Action
from support.chat_server import MODEL, ChatServer
from support.gemini_conversations import QUICK, History, Talk


class ChatTalk(Talk[ChatServer]):
    """A talk whose next turn is asked for by its actions."""

    def actions(self) -> list[Action]:
        """Return the actions of the next turn."""
        return [proposal.action for proposal in self.act().proposals]


@contextmanager
def chat(script: Any = (), *, api_key: str = "", history: History | None = None, **settings: Any) -> Iterator[ChatTalk]:
    """Yield a talk over a script of replies, of which every request was accepted; other keywords are the planner's."""
    with ChatServer(script, api_key=api_key, takes_thoughts=bool(settings.get("keep_thoughts"))) as server:
        planner = OpenAICompatible(server.url, MODEL, api_key, **{"backoff": QUICK, **settings})
        yield ChatTalk(server, planner, history=history or History())
    assert server.refusals == []
