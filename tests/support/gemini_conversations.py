"""Observations made by hand, as an agent would give them to a planner; the model is the server of `gemini_server`."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, TypeVar

from PIL import Image

from pytest_vnc_use.planners.common.http import Backoff
from pytest_vnc_use.types import (
    Decision,
    Frame,
    FrameRef,
    ModelExchange,
    Observation,
    Report,
    Ruling,
    Step,
    Turn,
    report_to_nobody,
)
from pytest_vnc_use.types.protocols import Planner
from support.exchanges import into
from support.gemini_server import GeminiServer

Server = TypeVar("Server")
ALLOWED = Ruling("allow", "rule 1")
QUICK = Backoff(first_wait_s=0.01, longest_wait_s=0.02)


@cache
def frame_of(colour: int, width: int = 1440, height: int = 900) -> Frame:
    """Return a screen of one colour, as a real PNG."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), (colour % 256, colour // 256, 0)).save(file, "PNG")
    png = file.getvalue()
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), width, height), png)


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

    def observation(self, report: Report = report_to_nobody) -> Observation:
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
    """A planner, the service that it asks, and the exchanges that it reported."""

    server: Server
    planner: Planner
    exchanges: list[ModelExchange] = field(default_factory=list)
    history: History = field(default_factory=History)

    def decide(self, timeout_s: float = 20.0) -> Decision:
        return self.planner.decide(self.history.observation(into(self.exchanges)), timeout_s=timeout_s)

    def act(self, **changes: Any) -> Decision:
        """Perform one turn and return it; `changes` are fields of its steps."""
        decision = self.decide()
        self.history.carry_out(decision, **changes)
        return decision


Conversation = Talk[GeminiServer]
