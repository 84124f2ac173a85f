"""Ten tasks of the example shop, as the model of each provider would do them, and what came of them."""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Action, Click, Drag, KeyCombo, Move, Proposal, Scroll, TypeText, Wait
from pytest_vnc_use.types.protocols import Desktop
from support.paths import EXAMPLES
from support.players import PLAYERS, Player, Said

SHOP = [sys.executable, str(EXAMPLES / "shop")]
WAIT_S = 2.0
"""What OpenAI's wait takes, which says nothing of its length."""
COORDINATES = ("x", "y", "to_x", "to_y")


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


@dataclass(frozen=True)
class Played:
    """The result of a task: `files` is the text of all files that the shop wrote."""

    result: RunResult
    refusals: Sequence[str]
    files: str


def play(player: Player, task: str, said: Sequence[Said], desktop: Desktop, runs_dir: Path) -> Played:
    desktop.run(["find", ".", "-mindepth", "1", "-delete"])
    desktop.launch(SHOP)
    settings = Settings(server=desktop.server, runs_dir=str(runs_dir), max_steps=100, watch=False)
    with player.asked(said) as (server, planner), VncUseAgent(settings=settings, planner=planner) as agent:
        result = agent.run(task)
        files = desktop.run(["sh", "-c", 'grep "" *']).stdout
        return Played(result, tuple(server.refusals), files)


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
