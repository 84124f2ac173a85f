"""Conversations of a planner with the fake server for its service, and a run that is performed by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from PIL import Image

from pytest_vnc_use.planners.common.http import Backoff
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
class Talk:
    server: Any
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
