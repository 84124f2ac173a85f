"""The turns of a run so far, in memory as in the run folder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.types import Decision, Step, Turn


@dataclass
class History:
    """The turns and steps of a run. `open_step` is the number of a step that was unfinished at a crash."""

    turns: list[Turn] = field(default_factory=list)
    open_step: int | None = None

    @classmethod
    def of(cls, trace: Trace) -> History:
        """Return the history of a run folder."""
        return cls(list(trace.turns), trace.open_step.number if trace.open_step else None)

    @property
    def steps(self) -> list[Step]:
        """The steps of all turns, in order."""
        return [step for turn in self.turns for step in turn.steps]

    def decided(self, number: int, decision: Decision) -> None:
        """Note the decision of turn `number`. It replaces one from before a crash that was not carried out."""
        del self.turns[number - 1 :]
        self.turns.append(Turn(decision))

    def add(self, step: Step) -> None:
        """Add a step to the newest turn."""
        turn = self.turns[-1]
        self.turns[-1] = dataclasses.replace(turn, steps=(*turn.steps, step))

    def finished(self, number: int) -> Step | None:
        """Return the step of that number; None if it was not finished."""
        return next((step for step in self.steps if step.number == number), None)
