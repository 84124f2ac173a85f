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
from pytest_vnc_use.types import Action, Click, Drag, JsonObject, KeyCombo, Move, Proposal, Scroll, TypeText, Wait
from pytest_vnc_use.types.protocols import Desktop, Planner
from support import chat_server, gemini_server, messages_server, responses_server
from support.json_server import Reply
from support.paths import EXAMPLES

SHOP = [sys.executable, str(EXAMPLES / "shop")]
WIDTH, HEIGHT = 1440, 900
WAIT_S = 2.0
"""What OpenAI's wait takes, which says nothing of its length."""
COORDINATES = ("x", "y", "to_x", "to_y")


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


def on_grid(x: int, y: int) -> tuple[int, int]:
    """Return a pixel in thousandths of the screen, which may be a pixel off."""
    return round(x * 1000 / WIDTH), round(y * 1000 / HEIGHT)


def _named(names: str, *points: tuple[int, int]) -> dict[str, int]:
    return dict(zip(names.split(), (value for point in points for value in on_grid(*point)), strict=True))


def geminis(action: Action) -> tuple[str, JsonObject]:
    """Return a function of the newer dialect."""
    match action:
        case Click(x=x, y=y):
            return "click", _named("x y", (x, y))
        case Move(x=x, y=y):
            return "move", _named("x y", (x, y))
        case Drag():
            points = (action.x, action.y), (action.to_x, action.to_y)
            return "drag_and_drop", _named("start_x start_y end_x end_y", *points)
        case Scroll(x=x, y=y):
            notches = {"direction": action.direction, "magnitude_in_wheel_clicks": action.clicks}
            return "scroll", {**_named("x y", (x, y)), **notches}
        case TypeText(text=text):
            return "type", {"text": text}
        case KeyCombo(keys=keys):
            return "hotkey", {"keys": list(keys)}
        case Wait(duration_s=seconds):
            return "wait", {"seconds": seconds}
    raise ValueError(f"an action must be one that every toolset has, got {action!r}")


def commands(action: Action) -> tuple[str, JsonObject]:
    """Return a command: mostly what Gemini says, by other names."""
    match action:
        case Drag():
            points = (action.x, action.y), (action.to_x, action.to_y)
            return "drag", _named("from_x from_y to_x to_y", *points)
        case Scroll(x=x, y=y):
            return "scroll", {**_named("x y", (x, y)), "direction": action.direction, "clicks": action.clicks}
        case TypeText(text=text):
            return "type_text", {"text": text}
        case KeyCombo(keys=keys):
            return "press_key", {"key": "+".join(keys)}
    return geminis(action)


def qwens(action: Action) -> JsonObject:
    """Return arguments of `computer_use`."""
    match action:
        case Click(x=x, y=y):
            return {"action": "left_click", "coordinate": on_grid(x, y)}
        case Move(x=x, y=y):
            return {"action": "mouse_move", "coordinate": on_grid(x, y)}
        case Drag(to_x=x, to_y=y):
            return {"action": "left_click_drag", "coordinate": on_grid(x, y)}
        case Scroll(x=x, y=y):
            pixels = action.clicks * (100 if action.direction == "up" else -100)
            return {"action": "scroll", "coordinate": on_grid(x, y), "pixels": pixels}
        case TypeText(text=text):
            return {"action": "type", "text": text}
        case KeyCombo(keys=keys):
            return {"action": "key", "keys": list(keys)}
        case Wait(duration_s=seconds):
            return {"action": "wait", "time": seconds}
    raise ValueError(f"an action must be one that every toolset has, got {action!r}")


def claudes(action: Action) -> tuple[str, JsonObject]:
    """Return a member of the toolset."""
    match action:
        case Click(x=x, y=y):
            return "left_click", {"coordinate": [x, y]}
        case Move(x=x, y=y):
            return "mouse_move", {"coordinate": [x, y]}
        case Drag():
            start, end = [action.x, action.y], [action.to_x, action.to_y]
            return "left_click_drag", {"start_coordinate": start, "coordinate": end}
        case Scroll():
            notches = {"scroll_direction": action.direction, "scroll_amount": action.clicks}
            return "scroll", {"coordinate": [action.x, action.y], **notches}
        case TypeText(text=text):
            return "type", {"text": text}
        case KeyCombo(keys=keys):
            return "key", {"text": "+".join(keys)}
        case Wait(duration_s=seconds):
            return "wait", {"duration": seconds}
    raise ValueError(f"an action must be one that every toolset has, got {action!r}")


def openais(action: Action) -> JsonObject:
    """Return an action of a computer_call."""
    match action:
        case Click(x=x, y=y):
            return {"type": "click", "button": "left", "x": x, "y": y}
        case Move(x=x, y=y):
            return {"type": "move", "x": x, "y": y}
        case Drag():
            path = [{"x": action.x, "y": action.y}, {"x": action.to_x, "y": action.to_y}]
            return {"type": "drag", "path": path}
        case Scroll(x=x, y=y):
            pixels = action.clicks * (-100 if action.direction == "up" else 100)
            return {"type": "scroll", "x": x, "y": y, "scroll_x": 0, "scroll_y": pixels}
        case TypeText(text=text):
            return {"type": "type", "text": text}
        case KeyCombo(keys=keys):
            return {"type": "keypress", "keys": list(keys)}
        case Wait(duration_s=seconds) if seconds == WAIT_S:
            return {"type": "wait"}
    raise ValueError(f"an action must be one that every toolset has, got {action!r}")


def _geminis_turn(said: Said) -> gemini_server.Reply:
    return gemini_server.calls(*map(geminis, said.actions), words=said.words)


def _turn_of_commands(said: Said) -> Reply:
    named = list(map(commands, said.actions))
    batch = {"actions": [{"command": name, "arguments": arguments} for name, arguments in named]}
    return chat_server.calls(*(named if len(named) == 1 else [("batch", batch)]), words=said.words)


def _turn_of_a_queue(said: Said) -> Reply:
    named = list(map(vnc_commands, said.actions))
    queue = [("action_queue", {"actions": named})] if len(named) > 1 else [("vnc_command", named[0])]
    return chat_server.calls(*queue, words=said.words)


def vnc_commands(action: Action) -> JsonObject:
    """Return an action of `vnc_command`, which counts in pixels."""
    match action:
        case Click(x=x, y=y):
            return {"action": "mouse_click", "x": x, "y": y}
        case Move(x=x, y=y):
            return {"action": "hover", "x": x, "y": y}
        case Drag(x=x, y=y):
            return {"action": "mouse_drag", "x": x, "y": y, "toX": action.to_x, "toY": action.to_y}
        case Scroll(x=x, y=y):
            return {"action": "scroll", "x": x, "y": y, "direction": action.direction, "amount": action.clicks}
        case TypeText(text=text):
            return {"action": "paste", "text": text}
        case KeyCombo(keys=keys):
            return {"action": "key_combo", "keys": list(keys)}
        case Wait(duration_s=seconds):
            return {"action": "wait", "ms": seconds * 1000}
    raise ValueError(f"an action must be one that every toolset has, got {action!r}")


def _qwens_turn(said: Said) -> Reply:
    return chat_server.calls(*(("computer_use", qwens(action)) for action in said.actions), words=said.words)


def _claudes_turn(said: Said) -> Reply:
    return messages_server.uses(*map(claudes, said.actions), words=said.words)


def _openais_turn(said: Said) -> Reply:
    return responses_server.acts(*map(openais, said.actions), words=said.words)


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


PLAYERS = {
    "gemini": Player(
        gemini_server.GeminiServer, _native(GeminiComputerUse), _geminis_turn, gemini_server.text("It is done.")
    ),
    "openai-compatible, commands": Player(
        chat_server.ChatServer,
        _chats("commands"),
        _turn_of_commands,
        chat_server.call("task_complete", summary="It is done."),
    ),
    "openai-compatible, vnc_command": Player(
        chat_server.ChatServer,
        _chats("vnc_command"),
        _turn_of_a_queue,
        chat_server.call("task_complete", summary="It is done."),
    ),
    "openai-compatible, computer_use": Player(
        chat_server.ChatServer,
        _chats("computer_use"),
        _qwens_turn,
        chat_server.call("computer_use", action="terminate", status="success", text="It is done."),
        one_by_one=True,
    ),
    "anthropic": Player(
        messages_server.MessagesServer, _native(AnthropicComputer), _claudes_turn, messages_server.text("It is done.")
    ),
    "openai": Player(
        responses_server.ResponsesServer, _native(OpenAIComputer), _openais_turn, responses_server.text("It is done.")
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
        return Played(result, sizes_of(server), tuple(server.refusals), files)


def sizes_of(server: Any) -> list[int]:
    """Return bytes of each request, in order."""
    return server.sizes if hasattr(server, "sizes") else [request.size for request in server.requests]


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
