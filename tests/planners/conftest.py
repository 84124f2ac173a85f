"""Fixtures for planners: a run performed by hand, and a conversation with the model's fake server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.types import ModelExchange
from support.gemini_conversations import QUICK, Conversation, History
from support.gemini_server import GeminiServer


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def converse() -> Iterator[Callable[..., Conversation]]:
    """Starts a conversation over a script of replies; keywords are the planner's own."""
    with ExitStack() as servers:

        def start(script: Any, *, with_ids: bool = True, **settings: Any) -> Conversation:
            server = servers.enter_context(GeminiServer(script, with_ids=with_ids))
            exchanges: list[ModelExchange] = []
            settings = {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}
            return Conversation(server, GeminiComputerUse(**settings), exchanges)

        yield start
