"""Conversations with the fake servers for services whose own computer use tools are planners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer
from pytest_vnc_use.planners.openai.planner import OpenAIComputer
from support.gemini_conversations import QUICK, Talk
from support.messages_server import MessagesServer
from support.responses_server import ResponsesServer


@contextmanager
def claude(script: Any = (), *, signs: bool = True, **settings: Any) -> Iterator[Talk[MessagesServer]]:
    """Yield a talk with Claude over a script of replies; other keywords are the planner's."""
    with MessagesServer(script, signs=signs) as server:
        settings = {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}
        yield Talk(server, AnthropicComputer(**settings))


@contextmanager
def gpt(script: Any = (), **settings: Any) -> Iterator[Talk[ResponsesServer]]:
    """Yield a talk with a model of OpenAI over a script of replies; other keywords are the planner's."""
    with ResponsesServer(script) as server:
        settings = {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}
        yield Talk(server, OpenAIComputer(**settings))
