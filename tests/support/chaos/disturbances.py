"""What is done to a session, and when: a plan that a seed determines, and the triages that each explains."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
EXPLAINS: dict[str, frozenset[str]] = {
    "kill program": frozenset({"product", "inconclusive"}),
    "stop program": frozenset({"product", "inconclusive", "agent", "budget", "infra"}),
    "kill X server": frozenset({"infra", "inconclusive"}),
    "kill window manager": frozenset({"infra"}),
    "kill worker": frozenset({"infra"}),
    "stop worker": frozenset({"infra", "budget", "inconclusive"}),
    "kill supervisor": frozenset({"infra", "product", "inconclusive"}),
    "stop supervisor": frozenset({"infra"}),
    "kill model": frozenset({"infra", "budget"}),
    "fill disk": frozenset({"infra"}),
}
"""Each disturbance, and what a test on a sound program may then be reported as, if it did not pass.

Only the program's own end or standstill may read as `product`: nobody can tell those from a crash.
"""
OF_ALL = frozenset({"kill model", "fill disk", "kill worker", "stop worker"})
"""Disturbances that any test of the session may notice; the others hit one desktop."""
_WEIGHTS = {"kill program": 3, "stop program": 2, "kill worker": 3, "kill X server": 2, "fill disk": 2}
"""How often a disturbance comes, against 1 for the others."""
_FOR_EVER = ("stop program", "stop supervisor")
"""What may be stopped for good. Against a stopped worker no test has a limit."""
_TAKES_S, _LINGERS_S = 2.0, 1.0
"""How long a disturbance may take until it is noted as done, and how long it is felt after it was undone."""


@dataclass(frozen=True)
class Action:
    """A disturbance at a moment of a session; `pick`, from 0 to 1, chooses its target.

    It lasts for `for_s`; for None it is never undone.
    """

    at_s: float
    kind: str
    pick: float
    for_s: float | None

    def picked(self, targets: Sequence[T]) -> T:
        return targets[int(self.pick * len(targets))]


def plan(seed: str, seconds: float, every_s: float) -> list[Action]:
    chance, actions, kinds = random.Random(seed), [], list(EXPLAINS)
    at_s = chance.uniform(0.5, every_s)
    while at_s < seconds:
        kind = chance.choices(kinds, [_WEIGHTS.get(kind, 1) for kind in kinds])[0]
        for_s, never = round(chance.uniform(0.5, 8.0), 3), chance.random() < 0.3
        actions.append(Action(round(at_s, 3), kind, chance.random(), None if never and kind in _FOR_EVER else for_s))
        at_s += chance.uniform(0.3, 2 * every_s - 0.3)
    return actions


@dataclass(frozen=True)
class Done:
    """A disturbance that happened to `target`, at `done_s` on the monotonic clock.

    `test` is the number of the test whose desktop was hit; None if it was one of all tests, or no test's program was
    there.
    """

    action: Action
    target: str
    test: int | None
    done_s: float = field(default_factory=time.monotonic)

    def touches(self, number: int, times: Sequence[tuple[float, float]]) -> bool:
        """Return whether a test that ran at these times, from and to, may have noticed it; none are known if empty.

        What hit a desktop without a program may show in the next test there.
        """
        if self.test is not None:
            return self.test == number
        from_s = self.done_s - _TAKES_S
        to_s = self.done_s + (self.action.for_s or 0.0) + _LINGERS_S if self.action.kind in OF_ALL else math.inf
        return not times or any(started_s <= to_s and from_s <= ended_s for started_s, ended_s in times)


def explained(done: Sequence[Done], number: int, times: Sequence[tuple[float, float]] = ()) -> set[str]:
    return {triage for hit in done if hit.touches(number, times) for triage in EXPLAINS[hit.action.kind]}
