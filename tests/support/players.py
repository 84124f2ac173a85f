"""The model of each provider, as it says the same in its own form: actions, a call of a
function, the end of a run; and the judges of every kind, each with the fake server for
its service.

A player serves the replies for a list of turns, with the planner that asks for them:

    with PLAYERS["anthropic"].asked([Said((Click(720, 450),), "Open it.")]) as (server,
    planner):
        VncUseAgent(planner=planner, …).run("Open the basket")
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any

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
    Drag,
    Frame,
    FrameRef,
    KeyCombo,
    ModelExchange,
    Move,
    Observation,
    Reading,
    Report,
    Ruling,
    Scroll,
    Step,
    Turn,
    TypeText,
    Verdict,
    Wait,
    ignore_report,
)
from pytest_vnc_use.types.protocols import Judge, Planner, Reader
from support import (
    chat_server,
    gemini_server,
    images,
    messages_server,
    responses_server,
)
from support.json_server import Reply, Script

ALLOWED = Ruling("allow", "rule 1")
QUICK = Backoff(first_wait_s=0.01, max_wait_s=0.02)


def into(exchanges: list[ModelExchange]) -> Report:
    """Return a report that keeps the exchanges, and not what is reported before each of
    them.
    """
    return lambda event: (
        exchanges.append(event) if isinstance(event, ModelExchange) else None
    )


@cache
def frame_of(colour: int, width: int = 1440, height: int = 900) -> Frame:
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
        return Observation(
            self.task,
            self.first,
            self.screen,
            turns,
            lambda ref: self.pngs[ref.digest],
            report,
        )

    def perform(self, decision: Decision, **changes: Any) -> None:
        """Add one step a proposal; `changes` are fields of every step."""
        turn = Turn(decision)
        for proposal in decision.proposals:
            self.steps += 1
            before, self.screen = self.screen, self._new_screen()
            step = Step(
                self.steps, len(self.turns) + 1, proposal, ALLOWED, before, self.screen
            )
            turn = replace(turn, steps=(*turn.steps, replace(step, **changes)))
        self.turns.append(turn)


@dataclass
class Conversation:
    server: Any
    planner: Planner
    exchanges: list[ModelExchange] = field(default_factory=list)
    history: History = field(default_factory=History)
    is_refused: bool = False
    """Whether the test expects that the service refuses a request."""

    def decide(self, timeout_s: float = 20.0) -> Decision:
        return self.planner.decide(
            self.history.observation(into(self.exchanges)), timeout_s=timeout_s
        )

    def act(self, **changes: Any) -> Decision:
        decision = self.decide()
        self.history.perform(decision, **changes)
        return decision

    def actions(self, **changes: Any) -> list[Action]:
        return [proposal.action for proposal in self.act(**changes).proposals]


WIDTH = 1440
HEIGHT = 900
MIDDLE = Click(WIDTH // 2, HEIGHT // 2)
Toolset = Mapping[type[Any], Callable[[Any], Any]]
"""By the type of an action, the same in a toolset: a name and arguments, or arguments
alone.
"""


@dataclass(frozen=True)
class Said:
    actions: tuple[Action, ...]
    text: str = ""


def _grid(x: int, y: int) -> tuple[int, int]:
    return round(x * 1000 / WIDTH), round(y * 1000 / HEIGHT)


def _on_grid(names: str, *points: tuple[int, int]) -> dict[str, int]:
    values = chain.from_iterable(_grid(*point) for point in points)
    return dict(zip(names.split(), values, strict=True))


def _wheel_px(action: Scroll, up: int) -> int:
    return action.clicks * (up if action.direction == "up" else -up)


GEMINI: Toolset = {
    Click: lambda a: ("click", _on_grid("x y", (a.x, a.y))),
    Move: lambda a: ("move", _on_grid("x y", (a.x, a.y))),
    Drag: lambda a: (
        "drag_and_drop",
        _on_grid("start_x start_y end_x end_y", (a.x, a.y), (a.to_x, a.to_y)),
    ),
    Scroll: lambda a: (
        "scroll",
        {
            **_on_grid("x y", (a.x, a.y)),
            "direction": a.direction,
            "magnitude_in_wheel_clicks": a.clicks,
        },
    ),
    TypeText: lambda a: ("type", {"text": a.text}),
    KeyCombo: lambda a: ("hotkey", {"keys": list(a.keys)}),
    Wait: lambda a: ("wait", {"seconds": a.duration_s}),
}
COMMANDS: Toolset = {
    **GEMINI,
    Drag: lambda a: (
        "drag",
        _on_grid("from_x from_y to_x to_y", (a.x, a.y), (a.to_x, a.to_y)),
    ),
    Scroll: lambda a: (
        "scroll",
        {**_on_grid("x y", (a.x, a.y)), "direction": a.direction, "clicks": a.clicks},
    ),
    TypeText: lambda a: ("type_text", {"text": a.text}),
    KeyCombo: lambda a: ("press_key", {"key": "+".join(a.keys)}),
}
COMPUTER_USE: Toolset = {
    Click: lambda a: {"action": "left_click", "coordinate": _grid(a.x, a.y)},
    Move: lambda a: {"action": "mouse_move", "coordinate": _grid(a.x, a.y)},
    Drag: lambda a: {"action": "left_click_drag", "coordinate": _grid(a.to_x, a.to_y)},
    Scroll: lambda a: {
        "action": "scroll",
        "coordinate": _grid(a.x, a.y),
        "pixels": _wheel_px(a, 100),
    },
    TypeText: lambda a: {"action": "type", "text": a.text},
    KeyCombo: lambda a: {"action": "key", "keys": list(a.keys)},
    Wait: lambda a: {"action": "wait", "time": a.duration_s},
}
CLAUDE: Toolset = {
    Click: lambda a: ("left_click", {"coordinate": [a.x, a.y]}),
    Move: lambda a: ("mouse_move", {"coordinate": [a.x, a.y]}),
    Drag: lambda a: (
        "left_click_drag",
        {"start_coordinate": [a.x, a.y], "coordinate": [a.to_x, a.to_y]},
    ),
    Scroll: lambda a: (
        "scroll",
        {
            "coordinate": [a.x, a.y],
            "scroll_direction": a.direction,
            "scroll_amount": a.clicks,
        },
    ),
    TypeText: lambda a: ("type", {"text": a.text}),
    KeyCombo: lambda a: ("key", {"text": "+".join(a.keys)}),
    Wait: lambda a: ("wait", {"duration": a.duration_s}),
}
OPENAI: Toolset = {
    Click: lambda a: {"type": "click", "button": "left", "x": a.x, "y": a.y},
    Move: lambda a: {"type": "move", "x": a.x, "y": a.y},
    Drag: lambda a: {
        "type": "drag",
        "path": [{"x": a.x, "y": a.y}, {"x": a.to_x, "y": a.to_y}],
    },
    Scroll: lambda a: {
        "type": "scroll",
        "x": a.x,
        "y": a.y,
        "scroll_x": 0,
        "scroll_y": _wheel_px(a, -100),
    },
    TypeText: lambda a: {"type": "type", "text": a.text},
    KeyCombo: lambda a: {"type": "keypress", "keys": list(a.keys)},
    Wait: lambda a: {"type": "wait"},
}
VNC_COMMAND: Toolset = {
    Click: lambda a: {"action": "mouse_click", "x": a.x, "y": a.y},
    Move: lambda a: {"action": "hover", "x": a.x, "y": a.y},
    Drag: lambda a: {
        "action": "mouse_drag",
        "x": a.x,
        "y": a.y,
        "toX": a.to_x,
        "toY": a.to_y,
    },
    Scroll: lambda a: {
        "action": "scroll",
        "x": a.x,
        "y": a.y,
        "direction": a.direction,
        "amount": a.clicks,
    },
    TypeText: lambda a: {"action": "paste", "text": a.text},
    KeyCombo: lambda a: {"action": "key_combo", "keys": list(a.keys)},
    Wait: lambda a: {"action": "wait", "ms": a.duration_s * 1000},
}


def _in(toolset: Toolset, said: Said) -> list[Any]:
    return [toolset[type(action)](action) for action in said.actions]


def _turn_of_commands(said: Said) -> Reply:
    named = _in(COMMANDS, said)
    batch = {
        "actions": [
            {"command": name, "arguments": arguments} for name, arguments in named
        ]
    }
    return chat_server.calls(
        *(named if len(named) == 1 else [("batch", batch)]), words=said.text
    )


def _turn_of_a_queue(said: Said) -> Reply:
    named = _in(VNC_COMMAND, said)
    queue = (
        ("action_queue", {"actions": named})
        if len(named) > 1
        else ("vnc_command", named[0])
    )
    return chat_server.calls(queue, words=said.text)


def _qwens_turn(said: Said) -> Reply:
    return chat_server.calls(
        *(("computer_use", call) for call in _in(COMPUTER_USE, said)), words=said.text
    )


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

    def turns(self, task: Sequence[Said]) -> list[Said]:
        if not self.one_by_one:
            return [*task]
        turns = []
        for said in task:
            turns += [Said((action,), said.text) for action in said.actions]
        return turns

    @contextmanager
    def conversation(
        self,
        replies: Script = (),
        *,
        serve: Mapping[str, Any] = MappingProxyType({}),
        history: History | None = None,
        **options: Any,
    ) -> Iterator[Conversation]:
        """Yield a conversation of the planner with the fake server with settings
        `serve`; it rejects no request.
        """
        with self.serve(replies, **serve) as server:
            planner = self.planner(server, **{"backoff": QUICK, **options})
            conversation = Conversation(server, planner, history=history or History())
            yield conversation
            assert conversation.is_refused or server.refusals == []

    @contextmanager
    def replying(
        self, replies: Script, **options: Any
    ) -> Iterator[tuple[Any, Planner]]:
        with self.serve(replies) as server:
            yield server, self.planner(server, **options)

    def asked(
        self, task: Sequence[Said], **options: Any
    ) -> AbstractContextManager[tuple[Any, Planner]]:
        return self.replying([*map(self.say, self.turns(task)), self.done], **options)


def _native(kind: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """Return what makes a planner or a judge that asks a server."""
    return lambda server, **options: kind(
        **{"api_key": server.api_key, "base_url": server.url, **settings, **options}
    )


def _chat_player(
    toolset: str, say: Callable[[Said], Any], end: Callable[[str], Any], **more: Any
) -> Player:
    planner = _native(OpenAICompatible, model=chat_server.MODEL, toolset=toolset)
    return Player(chat_server.ChatServer, planner, say, end, chat_server.call, **more)


def _complete(words: str) -> Reply:
    return chat_server.call("task_complete", summary=words)


def _terminate(words: str) -> Reply:
    return chat_server.call(
        "computer_use", action="terminate", status="success", text=words
    )


PLAYERS = {
    "gemini": Player(
        gemini_server.GeminiServer,
        _native(GeminiComputerUse),
        lambda said: gemini_server.calls(*_in(GEMINI, said), words=said.text),
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
        "computer_use", _qwens_turn, _terminate, one_by_one=True
    ),
    "anthropic": Player(
        messages_server.MessagesServer,
        _native(AnthropicComputer),
        lambda said: messages_server.uses(*_in(CLAUDE, said), words=said.text),
        messages_server.text,
        lambda name, /, **args: messages_server.uses((name, args), toolset=None),
    ),
    "openai": Player(
        responses_server.ResponsesServer,
        _native(OpenAIComputer),
        lambda said: responses_server.acts(*_in(OPENAI, said), words=said.text),
        responses_server.text,
        lambda name, /, **args: responses_server.calls(name, json.dumps(args)),
    ),
}


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
    texts = (text.removeprefix("data:image/png;base64,") for text in texts_of(request))
    return [
        hashlib.sha256(base64.b64decode(text)).hexdigest()
        for text in texts
        if text.startswith("iVBOR")
    ]


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
        return self.judge.judge(
            CLAIM, self.frame, timeout_s=20.0, report=into(self.exchanges)
        )

    def read(self) -> Reading:
        assert isinstance(self.judge, Reader)
        return self.judge.read(
            QUESTION, COUNT, self.frame, timeout_s=20.0, report=into(self.exchanges)
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


def opinion(**changes: Any) -> str:
    return json.dumps(
        {
            "reason": "The row says 2 apples.",
            "verdict": "holds",
            "box_2d": None,
            **changes,
        }
    )


def value(**changes: Any) -> str:
    return json.dumps(
        {
            "reason": "The row says 2 apples.",
            "value": {"apples": 2},
            "box_2d": None,
            **changes,
        }
    )
