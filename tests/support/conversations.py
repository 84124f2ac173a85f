"""Conversations of a planner with the fake server for its service, and a run that is performed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, TypeVar

from PIL import Image

from pytest_vnc_use.planners.anthropic import AnthropicComputer
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.planners.openai import OpenAIComputer
from pytest_vnc_use.types import (
    Action,
    Decision,
    Frame,
    FrameRef,
    ModelExchange,
    Observation,
    Report,
    Ruling,
    Step,
    Turn,
    ignore_report,
)
from pytest_vnc_use.types.protocols import Planner
from support import images
from support.chat_server import MODEL, ChatServer
from support.gemini_server import GeminiServer
from support.messages_server import MessagesServer
from support.responses_server import ResponsesServer

Server = TypeVar("Server")
ALLOWED = Ruling("allow", "rule 1")
QUICK = Backoff(first_wait_s=0.01, max_wait_s=0.02)


def into(exchanges: list[ModelExchange]) -> Report:
    """Return a report that keeps the exchanges, and not what is reported before each of them."""
    return lambda event: exchanges.append(event) if isinstance(event, ModelExchange) else None


@cache
def frame_of(colour: int, width: int = 1440, height: int = 900) -> Frame:
    """Return a screen of one colour, as a real PNG; with a palette, it is made in a tenth of the time."""
    image = Image.new("P", (width, height))
    image.putpalette((colour % 256, colour // 256, 0))
    return images.frame_of(image)


@dataclass
class History:
    """The history of a run that is performed by hand: every step shows a screen of its own."""

    task: str = "Open the basket"
    turns: list[Turn] = field(default_factory=list)
    pngs: dict[str, bytes] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        self.first = self.screen = self._new_screen()

    def _new_screen(self) -> FrameRef:
        frame = frame_of(self.steps)
        self.pngs[frame.ref.digest] = frame.png
        return frame.ref

    def observation(self, report: Report = ignore_report) -> Observation:
        turns = tuple(self.turns)
        return Observation(self.task, self.first, self.screen, turns, lambda ref: self.pngs[ref.digest], report)

    def carry_out(self, decision: Decision, **changes: Any) -> None:
        """Add one step a proposal; `changes` are fields of every step."""
        turn = Turn(decision)
        for proposal in decision.proposals:
            self.steps += 1
            before, self.screen = self.screen, self._new_screen()
            step = Step(self.steps, len(self.turns) + 1, proposal, ALLOWED, before, self.screen)
            turn = replace(turn, steps=(*turn.steps, replace(step, **changes)))
        self.turns.append(turn)


@dataclass
class Talk(Generic[Server]):
    server: Server
    planner: Planner
    exchanges: list[ModelExchange] = field(default_factory=list)
    history: History = field(default_factory=History)
    is_refused: bool = False
    """Whether the test expects that the service refuses a request."""

    def decide(self, timeout_s: float = 20.0) -> Decision:
        return self.planner.decide(self.history.observation(into(self.exchanges)), timeout_s=timeout_s)

    def act(self, **changes: Any) -> Decision:
        """Perform one turn and return it; `changes` are fields of its steps."""
        decision = self.decide()
        self.history.carry_out(decision, **changes)
        return decision

    def actions(self, **changes: Any) -> list[Action]:
        return [proposal.action for proposal in self.act(**changes).proposals]


def talk_with(server: Any, planner: Planner, history: History | None = None) -> Iterator[Talk[Any]]:
    """Yield a talk, and assert at its end that the service refused none of its requests."""
    talk = Talk(server, planner, history=history or History())
    yield talk
    assert talk.is_refused or server.refusals == []


def _at(server: Any, settings: dict[str, Any]) -> dict[str, Any]:
    return {"api_key": server.api_key, "base_url": server.url, "backoff": QUICK, **settings}


@contextmanager
def gemini(script: Any = (), *, with_ids: bool = True, **settings: Any) -> Iterator[Talk[GeminiServer]]:
    """Yield a talk with Gemini over a script of replies; other keywords are the planner's, here and below."""
    with GeminiServer(script, with_ids=with_ids) as server:
        yield from talk_with(server, GeminiComputerUse(**_at(server, settings)))


@contextmanager
def claude(script: Any = (), **settings: Any) -> Iterator[Talk[MessagesServer]]:
    with MessagesServer(script) as server:
        yield from talk_with(server, AnthropicComputer(**_at(server, settings)))


@contextmanager
def gpt(script: Any = (), **settings: Any) -> Iterator[Talk[ResponsesServer]]:
    with ResponsesServer(script) as server:
        yield from talk_with(server, OpenAIComputer(**_at(server, settings)))


@contextmanager
def chat(
    script: Any = (), *, api_key: Any = "", history: History | None = None, **settings: Any
) -> Iterator[Talk[ChatServer]]:
    key = api_key if isinstance(api_key, str) else ""
    with ChatServer(script, api_key=key, takes_thoughts="keep_thoughts" in settings) as server:
        planner = OpenAICompatible(server.url, MODEL, api_key, **{"backoff": QUICK, **settings})
        yield from talk_with(server, planner, history)
