"""The model of each provider, as it says the same in its own form: actions, a call of a
function, the end of a run; and the judges of every kind, each with the fake server for
its service.

A player serves the replies for a list of turns, with the planner that asks for them:

    player = PLAYERS["anthropic"]
    with player.conversation([player.click("I open it."), player.done]) as conversation:
        assert conversation.actions() == [MIDDLE]
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

from PIL import Image

from pytest_vnc_use.planners.anthropic import AnthropicComputer, AnthropicJudge
from pytest_vnc_use.planners.chat.chat_completions import ChatJudge, OpenAICompatible
from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.planners.gemini.computer_use import GeminiComputerUse, GeminiJudge
from pytest_vnc_use.planners.openai import OpenAIComputer, OpenAIJudge
from pytest_vnc_use.types import (
    Action,
    Click,
    Decision,
    Frame,
    FrameRef,
    ModelExchange,
    Observation,
    Report,
    Ruling,
    Step,
    Turn,
    Wait,
    ignore_report,
)
from pytest_vnc_use.types.protocols import Judge, Planner
from support import (
    chat_server,
    gemini_server,
    images,
    messages_server,
    responses_server,
)
from support.json_server import Reply, Script

V = TypeVar("V")
ALLOWED = Ruling("allow", "rule 1")
QUICK = Backoff(first_wait_s=0.01, max_wait_s=0.02)
WIDTH = 1440
HEIGHT = 900
MIDDLE = Click(WIDTH // 2, HEIGHT // 2)


def into(exchanges: list[ModelExchange]) -> Report:
    """Return a report that keeps the exchanges, and not what is reported before each of
    them.
    """

    def report(event: object) -> None:
        if isinstance(event, ModelExchange):
            exchanges.append(event)

    return report


@cache
def frame_of(colour: int, width: int = WIDTH, height: int = HEIGHT) -> Frame:
    """Return a screen of one colour; with a palette, it is made in a tenth of the
    time.
    """
    image = Image.new("P", (width, height))
    image.putpalette((colour % 256, colour // 256, 0))
    return images.frame_of(image)


@dataclass
class History:
    """The history of a run that is performed by hand: every step shows a screen of its
    own.
    """

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
        return Observation(
            "Open the basket",
            self.first,
            self.screen,
            tuple(self.turns),
            lambda ref: self.pngs[ref.digest],
            report,
        )

    def perform(self, decision: Decision, **changes: Any) -> None:
        """Add one step a proposal; `changes` are fields of every step."""
        number = len(self.turns) + 1
        steps = []
        for proposal in decision.proposals:
            self.steps += 1
            before = self.screen
            self.screen = self._new_screen()
            step = Step(self.steps, number, proposal, ALLOWED, before, self.screen)
            steps.append(replace(step, **changes))
        self.turns.append(Turn(decision, steps=tuple(steps)))


@dataclass
class Conversation:
    server: Any
    planner: Planner
    exchanges: list[ModelExchange] = field(default_factory=list)
    history: History = field(default_factory=History)

    def decide(self, timeout_s: float = 20.0) -> Decision:
        observation = self.history.observation(into(self.exchanges))
        return self.planner.decide(observation, timeout_s=timeout_s)

    def act(self, **changes: Any) -> Decision:
        decision = self.decide()
        self.history.perform(decision, **changes)
        return decision

    def actions(self, **changes: Any) -> list[Action]:
        return [proposal.action for proposal in self.act(**changes).proposals]


@dataclass(frozen=True)
class Said:
    """Clicks and waits of one turn."""

    actions: tuple[Click | Wait, ...]
    text: str = ""


def _grid(action: Click) -> tuple[int, int]:
    return round(action.x * 1000 / WIDTH), round(action.y * 1000 / HEIGHT)


def _on_grid(action: Click | Wait) -> tuple[str, Any]:
    """Return a call of Gemini's tools, or a command."""
    if isinstance(action, Wait):
        return "wait", {"seconds": action.duration_s}
    return "click", dict(zip("xy", _grid(action), strict=True))


def _claudes(action: Click | Wait) -> tuple[str, Any]:
    if isinstance(action, Wait):
        return "wait", {"duration": action.duration_s}
    return "left_click", {"coordinate": [action.x, action.y]}


def _openais(action: Click | Wait) -> dict[str, Any]:
    if isinstance(action, Wait):
        return {"type": "wait"}
    return {"type": "click", "button": "left", "x": action.x, "y": action.y}


def _qwens(action: Click | Wait) -> tuple[str, Any]:
    arguments: dict[str, Any] = {"action": "left_click"}
    if isinstance(action, Wait):
        arguments = {"action": "wait", "time": action.duration_s}
    else:
        arguments["coordinate"] = _grid(action)
    return "computer_use", arguments


def _vnc_command(action: Click | Wait) -> dict[str, Any]:
    if isinstance(action, Wait):
        return {"action": "wait", "ms": action.duration_s * 1000}
    return {"action": "mouse_click", "x": action.x, "y": action.y}


def _turn_of_commands(said: Said) -> Reply:
    named = [_on_grid(action) for action in said.actions]
    if len(named) > 1:
        batch = [{"command": name, "arguments": given} for name, given in named]
        named = [("batch", {"actions": batch})]
    return chat_server.calls(*named, words=said.text)


def _turn_of_a_queue(said: Said) -> Reply:
    actions = [_vnc_command(action) for action in said.actions]
    named: tuple[str, Any] = ("vnc_command", actions[0])
    if len(actions) > 1:
        named = ("action_queue", {"actions": actions})
    return chat_server.calls(named, words=said.text)


def _complete(words: str) -> Reply:
    return chat_server.call("task_complete", summary=words)


def _terminate(words: str) -> Reply:
    end = {"action": "terminate", "status": "success", "text": words}
    return chat_server.call("computer_use", **end)


@dataclass(frozen=True)
class Player:
    """One planner, the fake server for the service that it asks, and the forms in which
    its model answers.

    `say` makes the answer of a turn, `end` the one that ends a run as done, and `call`
    one with a call of a function.
    """

    serve: Callable[..., AbstractContextManager[Any]]
    planner: Callable[..., Planner]
    say: Callable[[Said], Any]
    end: Callable[[str], Any]
    call: Callable[..., Any]
    one_by_one: bool = False
    """Whether a turn holds a single action."""

    @property
    def done(self) -> Any:
        return self.end("It is done.")

    def click(self, words: str = "") -> Any:
        return self.say(Said((MIDDLE,), words))

    @contextmanager
    def conversation(
        self,
        replies: Script = (),
        *,
        serve: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Iterator[Conversation]:
        """Yield a conversation of the planner with the fake server with settings
        `serve`; it rejects no request.
        """
        with self.serve(replies, **serve) as server:
            planner = self.planner(server, **{"backoff": QUICK, **options})
            yield Conversation(server, planner)
            assert server.refusals == []


def _native(kind: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """Return what makes a planner or a judge that asks a server."""

    def made(server: Any, **options: Any) -> Any:
        place = {"api_key": server.api_key, "base_url": server.url}
        return kind(**{**place, **settings, **options})

    return made


def _chat_player(
    toolset: str, say: Callable[[Said], Any], end: Callable[[str], Any], **more: Any
) -> Player:
    planner = _native(OpenAICompatible, model=chat_server.MODEL, toolset=toolset)
    return Player(chat_server.ChatServer, planner, say, end, chat_server.call, **more)


PLAYERS = {
    "gemini": Player(
        gemini_server.GeminiServer,
        _native(GeminiComputerUse),
        lambda said: gemini_server.calls(*map(_on_grid, said.actions), words=said.text),
        gemini_server.text,
        lambda name, /, **args: gemini_server.calls((name, args)),
    ),
    "openai-compatible, commands": _chat_player(
        "commands", _turn_of_commands, _complete
    ),
    "openai-compatible, vnc_command": _chat_player(
        "vnc_command", _turn_of_a_queue, _complete
    ),
    "openai-compatible, computer_use": _chat_player(
        "computer_use",
        lambda said: chat_server.calls(*map(_qwens, said.actions), words=said.text),
        _terminate,
        one_by_one=True,
    ),
    "anthropic": Player(
        messages_server.MessagesServer,
        _native(AnthropicComputer),
        lambda said: messages_server.uses(
            *map(_claudes, said.actions), words=said.text
        ),
        messages_server.text,
        lambda name, /, **args: messages_server.uses((name, args), toolset=None),
    ),
    "openai": Player(
        responses_server.ResponsesServer,
        _native(OpenAIComputer),
        lambda said: responses_server.acts(
            *map(_openais, said.actions), words=said.text
        ),
        responses_server.text,
        lambda name, /, **args: responses_server.calls(name, json.dumps(args)),
    ),
}


def cases_of(table: Mapping[str, Iterable[V]]) -> list[tuple[str, V]]:
    """Return each name of a table with each of its values, for `parametrize`."""
    cases = []
    for name, values in table.items():
        for value in values:
            cases.append((name, value))
    return cases


gemini = PLAYERS["gemini"].conversation
claude = PLAYERS["anthropic"].conversation
gpt = PLAYERS["openai"].conversation
chat = PLAYERS["openai-compatible, commands"].conversation


def texts_of(request: Any) -> Iterator[str]:
    match getattr(request, "body", request):
        case str(text):
            yield text
        case Mapping() as items:
            yield from chain.from_iterable(map(texts_of, items.values()))
        case list(items):
            yield from chain.from_iterable(map(texts_of, items))


def says(request: Any, words: str) -> bool:
    return any(words in text for text in texts_of(request))


def screens_of(request: Any) -> list[str]:
    """Return the digests of the screenshots in a request."""
    digests = []
    for text in texts_of(request):
        data = text.removeprefix("data:image/png;base64,")
        if data.startswith("iVBOR"):
            digests.append(hashlib.sha256(base64.b64decode(data)).hexdigest())
    return digests


@dataclass(frozen=True)
class Kind:
    """A kind of judge, and its service: how the service says words, a box, and its
    answer to a refused prompt.

    The box is the middle half of the screen at the top, in the service's coordinates.
    """

    server: Callable[..., Any]
    judge: Callable[..., Judge]
    say: Callable[[str], Any]
    box: Sequence[int]
    blocked: Any


KINDS = {
    "gemini": Kind(
        gemini_server.GeminiServer,
        _native(GeminiJudge, backoff=QUICK),
        gemini_server.text,
        (0, 250, 500, 750),
        gemini_server.blocked_prompt("SAFETY"),
    ),
    "chat": Kind(
        chat_server.ChatServer,
        _native(ChatJudge, backoff=QUICK, model=chat_server.MODEL),
        chat_server.said,
        (250, 0, 750, 500),
        chat_server.said("", refusal="I cannot."),
    ),
    "anthropic": Kind(
        messages_server.MessagesServer,
        _native(AnthropicJudge, backoff=QUICK),
        messages_server.text,
        (360, 0, 1080, 450),
        messages_server.refused("cyber", "Not this."),
    ),
    "openai": Kind(
        responses_server.ResponsesServer,
        _native(OpenAIJudge, backoff=QUICK),
        responses_server.text,
        (360, 0, 1080, 450),
        responses_server.response(
            status="incomplete", incomplete_details={"reason": "content_filter"}
        ),
    ),
}


def opinion(**changes: Any) -> str:
    answer = {"reason": "The row says 2 apples.", "verdict": "holds", "box_2d": None}
    return json.dumps({**answer, **changes})
