"""Ten tasks of the example shop, as the model of each provider would do them: actions, and the fake servers' replies.

A player serves the replies for a list of turns, with the planner that asks for them:

    with PLAYERS["anthropic"].asked([Said((Click(720, 450),), "Open it.")]) as (server, planner):
        VncUseAgent(planner=planner, …).run("Open the basket")
"""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.planners.openai.planner import OpenAIComputer
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Action, Click, Drag, KeyCombo, Move, Proposal, Scroll, TypeText, Wait
from pytest_vnc_use.types.protocols import Desktop, Planner
from support import chat_server, gemini_server, messages_server, responses_server
from support.json_server import Reply
from support.paths import EXAMPLES

SHOP = [sys.executable, str(EXAMPLES / "shop")]
WIDTH, HEIGHT = 1440, 900
WAIT_S = 2.0
"""What OpenAI's wait takes, which says nothing of its length."""
COORDINATES = ("x", "y", "to_x", "to_y")
Toolset = Mapping[type[Any], Callable[[Any], Any]]
"""By the type of an action, the same in a toolset: a name and arguments, or arguments alone."""


@dataclass(frozen=True)
class Said:
    """A model's answer in one turn: its actions, and its reason for them."""

    actions: tuple[Action, ...]
    words: str = ""


def _tasks() -> dict[str, list[Said]]:
    """Return the sentences of the examples; in each shop nobody is signed in, except for users other than alice."""
    examples = runpy.run_path(str(EXAMPLES / "scripts.py"))
    as_alice: list[Proposal] = examples["AS_ALICE"]
    turns = {
        sentence: script if script[0] is as_alice else [as_alice, *script]
        for sentence, script in examples["SCRIPTS"].items()
        if not sentence.startswith(("Try to sign in", "Sign in as bob"))
    }
    return {sentence: [_said(turn) for turn in script] for sentence, script in turns.items()}


def _said(turn: Sequence[Proposal]) -> Said:
    return Said(tuple(action for proposal in turn for action in in_common(proposal.action)), turn[0].intent)


def in_common(action: Action) -> tuple[Action, ...]:
    """Return the same in actions that every toolset has."""
    match action:
        case TypeText(x=int(x), y=int(y)):
            return Click(x, y), *in_common(replace(action, x=None, y=None))
        case TypeText(press_enter=True):
            return TypeText(action.text), KeyCombo(("enter",))
        case Drag(x=x, y=y):
            return Move(x, y), action
        case Scroll():
            return (replace(action, by="wheel"),)
        case Wait():
            return (Wait(WAIT_S),) * math.ceil(action.duration_s / WAIT_S)
        case _:
            return (action,)


TASKS = _tasks()


def _grid(x: int, y: int) -> tuple[int, int]:
    """Return a pixel in thousandths of the screen, which may be a pixel off."""
    return round(x * 1000 / WIDTH), round(y * 1000 / HEIGHT)


def _on_grid(names: str, *points: tuple[int, int]) -> dict[str, int]:
    return dict(zip(names.split(), (value for point in points for value in _grid(*point)), strict=True))


def _wheel_px(action: Scroll, up: int) -> int:
    return action.clicks * (up if action.direction == "up" else -up)


GEMINI: Toolset = {
    Click: lambda a: ("click", _on_grid("x y", (a.x, a.y))),
    Move: lambda a: ("move", _on_grid("x y", (a.x, a.y))),
    Drag: lambda a: ("drag_and_drop", _on_grid("start_x start_y end_x end_y", (a.x, a.y), (a.to_x, a.to_y))),
    Scroll: lambda a: (
        "scroll",
        {**_on_grid("x y", (a.x, a.y)), "direction": a.direction, "magnitude_in_wheel_clicks": a.clicks},
    ),
    TypeText: lambda a: ("type", {"text": a.text}),
    KeyCombo: lambda a: ("hotkey", {"keys": list(a.keys)}),
    Wait: lambda a: ("wait", {"seconds": a.duration_s}),
}
COMMANDS: Toolset = {
    **GEMINI,
    Drag: lambda a: ("drag", _on_grid("from_x from_y to_x to_y", (a.x, a.y), (a.to_x, a.to_y))),
    Scroll: lambda a: ("scroll", {**_on_grid("x y", (a.x, a.y)), "direction": a.direction, "clicks": a.clicks}),
    TypeText: lambda a: ("type_text", {"text": a.text}),
    KeyCombo: lambda a: ("press_key", {"key": "+".join(a.keys)}),
}
COMPUTER_USE: Toolset = {
    Click: lambda a: {"action": "left_click", "coordinate": _grid(a.x, a.y)},
    Move: lambda a: {"action": "mouse_move", "coordinate": _grid(a.x, a.y)},
    Drag: lambda a: {"action": "left_click_drag", "coordinate": _grid(a.to_x, a.to_y)},
    Scroll: lambda a: {"action": "scroll", "coordinate": _grid(a.x, a.y), "pixels": _wheel_px(a, 100)},
    TypeText: lambda a: {"action": "type", "text": a.text},
    KeyCombo: lambda a: {"action": "key", "keys": list(a.keys)},
    Wait: lambda a: {"action": "wait", "time": a.duration_s},
}
CLAUDE: Toolset = {
    Click: lambda a: ("left_click", {"coordinate": [a.x, a.y]}),
    Move: lambda a: ("mouse_move", {"coordinate": [a.x, a.y]}),
    Drag: lambda a: ("left_click_drag", {"start_coordinate": [a.x, a.y], "coordinate": [a.to_x, a.to_y]}),
    Scroll: lambda a: (
        "scroll",
        {"coordinate": [a.x, a.y], "scroll_direction": a.direction, "scroll_amount": a.clicks},
    ),
    TypeText: lambda a: ("type", {"text": a.text}),
    KeyCombo: lambda a: ("key", {"text": "+".join(a.keys)}),
    Wait: lambda a: ("wait", {"duration": a.duration_s}),
}
OPENAI: Toolset = {
    Click: lambda a: {"type": "click", "button": "left", "x": a.x, "y": a.y},
    Move: lambda a: {"type": "move", "x": a.x, "y": a.y},
    Drag: lambda a: {"type": "drag", "path": [{"x": a.x, "y": a.y}, {"x": a.to_x, "y": a.to_y}]},
    Scroll: lambda a: {"type": "scroll", "x": a.x, "y": a.y, "scroll_x": 0, "scroll_y": _wheel_px(a, -100)},
    TypeText: lambda a: {"type": "type", "text": a.text},
    KeyCombo: lambda a: {"type": "keypress", "keys": list(a.keys)},
    Wait: lambda a: {"type": "wait"},
}
VNC_COMMAND: Toolset = {
    Click: lambda a: {"action": "mouse_click", "x": a.x, "y": a.y},
    Move: lambda a: {"action": "hover", "x": a.x, "y": a.y},
    Drag: lambda a: {"action": "mouse_drag", "x": a.x, "y": a.y, "toX": a.to_x, "toY": a.to_y},
    Scroll: lambda a: {"action": "scroll", "x": a.x, "y": a.y, "direction": a.direction, "amount": a.clicks},
    TypeText: lambda a: {"action": "paste", "text": a.text},
    KeyCombo: lambda a: {"action": "key_combo", "keys": list(a.keys)},
    Wait: lambda a: {"action": "wait", "ms": a.duration_s * 1000},
}


def _in(toolset: Toolset, said: Said) -> list[Any]:
    return [toolset[type(action)](action) for action in said.actions]


def _turn_of_commands(said: Said) -> Reply:
    named = _in(COMMANDS, said)
    batch = {"actions": [{"command": name, "arguments": arguments} for name, arguments in named]}
    return chat_server.calls(*(named if len(named) == 1 else [("batch", batch)]), words=said.words)


def _turn_of_a_queue(said: Said) -> Reply:
    named = _in(VNC_COMMAND, said)
    queue = ("action_queue", {"actions": named}) if len(named) > 1 else ("vnc_command", named[0])
    return chat_server.calls(queue, words=said.words)


def _qwens_turn(said: Said) -> Reply:
    return chat_server.calls(*(("computer_use", call) for call in _in(COMPUTER_USE, said)), words=said.words)


Replies = Iterable[Any] | Callable[[Any], Any]
"""A fake server's answers in order, or a function of the request."""


@dataclass(frozen=True)
class Player:
    """One planner, the fake server for the service that it asks, and the form in which its model answers a turn.

    `planner` takes the server, and options of the planner's own.
    """

    serve: Callable[[Replies], AbstractContextManager[Any]]
    planner: Callable[..., Planner]
    say: Callable[[Said], Any]
    done: Any
    one_by_one: bool = False
    """Whether a turn holds a single action."""

    def turns(self, task: Sequence[Said]) -> list[Said]:
        """Return the turns of a task as this model takes them."""
        return [Said((action,), said.words) for said in task for action in said.actions] if self.one_by_one else [*task]

    @contextmanager
    def asked(self, task: Sequence[Said], **options: Any) -> Iterator[tuple[Any, Planner]]:
        """Yield the fake server with its answers for a task, and the planner that asks it."""
        with self.replying([*map(self.say, self.turns(task)), self.done], **options) as asked:
            yield asked

    @contextmanager
    def replying(self, replies: Replies, **options: Any) -> Iterator[tuple[Any, Planner]]:
        """Yield the fake server with these answers, and the planner that asks it."""
        with self.serve(replies) as server:
            yield server, self.planner(server, **options)


def _chats(toolset: str) -> Callable[..., Planner]:
    def planner(server: chat_server.ChatServer, **options: Any) -> Planner:
        return OpenAICompatible(server.url, chat_server.MODEL, toolset=toolset, **options)

    return planner


def _native(kind: Callable[..., Planner]) -> Callable[..., Planner]:
    return lambda server, **options: kind(api_key=server.api_key, base_url=server.url, **options)


_DONE = "It is done."
PLAYERS = {
    "gemini": Player(
        gemini_server.GeminiServer,
        _native(GeminiComputerUse),
        lambda said: gemini_server.calls(*_in(GEMINI, said), words=said.words),
        gemini_server.text(_DONE),
    ),
    "openai-compatible, commands": Player(
        chat_server.ChatServer,
        _chats("commands"),
        _turn_of_commands,
        chat_server.call("task_complete", summary=_DONE),
    ),
    "openai-compatible, vnc_command": Player(
        chat_server.ChatServer,
        _chats("vnc_command"),
        _turn_of_a_queue,
        chat_server.call("task_complete", summary=_DONE),
    ),
    "openai-compatible, computer_use": Player(
        chat_server.ChatServer,
        _chats("computer_use"),
        _qwens_turn,
        chat_server.call("computer_use", action="terminate", status="success", text=_DONE),
        one_by_one=True,
    ),
    "anthropic": Player(
        messages_server.MessagesServer,
        _native(AnthropicComputer),
        lambda said: messages_server.uses(*_in(CLAUDE, said), words=said.words),
        messages_server.text(_DONE),
    ),
    "openai": Player(
        responses_server.ResponsesServer,
        _native(OpenAIComputer),
        lambda said: responses_server.acts(*_in(OPENAI, said), words=said.words),
        responses_server.text(_DONE),
    ),
}


@dataclass(frozen=True)
class Played:
    """The result of a task: `sizes` are bytes of the requests, `files` the text of all files that the shop wrote."""

    result: RunResult
    sizes: Sequence[int]
    refusals: Sequence[str]
    files: str


def play(player: Player, task: str, said: Sequence[Said], desktop: Desktop, runs_dir: Path) -> Played:
    """Perform a task in the shop, started again."""
    desktop.run(["find", ".", "-mindepth", "1", "-delete"])
    desktop.launch(SHOP)
    settings = Settings(server=desktop.server, runs_dir=str(runs_dir), max_steps=100, watch=False)
    with player.asked(said) as (server, planner), VncUseAgent(settings=settings, planner=planner) as agent:
        result = agent.run(task)
        files = desktop.run(["sh", "-c", 'grep "" *']).stdout
        return Played(result, server.sizes, tuple(server.refusals), files)


def differences(played: Mapping[str, Played], task: Sequence[Said]) -> list[str]:
    """Return a line for each thing that is not as in the task, or not as with the first planner.

    Points may be 2 pixels apart; words, and how many turns there are, are the planner's own.
    """
    files = next(iter(played.values())).files
    lines = ((name, line) for name, each in played.items() for line in _differences(PLAYERS[name], each, task, files))
    return [f"{name}: {line}" for name, line in lines]


def _differences(player: Player, played: Played, task: Sequence[Said], files: str) -> Iterator[str]:
    trace = read_trace(played.result.run_dir)
    if played.result.outcome is not Outcome.DONE:
        yield f"ended as {played.result.outcome}: {played.result.message}"
    yield from (f"was refused: {line}" for line in played.refusals)
    yield from (f"step {step.number} failed: {step.error}" for step in trace.steps if step.error)
    said, done = [len(turn.actions) for turn in player.turns(task)], [len(turn.steps) for turn in trace.turns]
    if done != [*said, 0]:
        yield f"the turns have {done} steps, the model said {said}"
    actions = (action for turn in task for action in turn.actions)
    for step, action in zip(trace.steps, actions, strict=False):
        if not alike(step.proposal.action, action):
            yield f"step {step.number} is {step.proposal.action}, and not {action}"
    if played.files != files:
        yield f"the files say {played.files!r}, and not {files!r}"


def alike(one: Action, other: Action) -> bool:
    """Return whether two actions are the same but for 2 pixels, and for how a text goes there: typed or pasted."""
    if type(one) is not type(other):
        return False
    pairs = [(name, value, vars(other)[name]) for name, value in vars(one).items()]
    return all(a == b or name == "paste" or (name in COORDINATES and abs(a - b) <= 2) for name, a, b in pairs)
