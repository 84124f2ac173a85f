"""A policy tried on recorded runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_vnc_use.runs.folder import read_trace
from pytest_vnc_use.safety.rules import Policy, ReviewContext, combination, keys_of
from pytest_vnc_use.types import Proposal, Ruling, Step

MOST_KEYS = 20
"""The most combinations of keys that are listed for one step."""


@dataclass(frozen=True)
class ReplayedStep:
    """A recorded step: its ruling `then`, and the policy's ruling `now`. As text, one line for a person.

    `keys` are the combinations that it presses: each time the keys that are down together.
    """

    run: Path
    number: int
    proposal: Proposal
    then: Ruling
    now: Ruling
    keys: tuple[frozenset[str], ...] = ()

    @property
    def differs(self) -> bool:
        """Return whether the rulings differ. A person's answer at that time is equal to asking now."""
        return self.now.kind != ("ask" if self.then.by == "person" else self.then.kind)

    def __str__(self) -> str:
        was = f"   <-- was {self.then.kind} ({self.then.rule})" if self.differs else ""
        step = f"{self.run.name} step {self.number} {self.proposal.action.kind} {self.proposal.intent!r}"
        return f"{step}{self._pressing}: {self.now.kind} ({self.now.rule}){was}"

    @property
    def _pressing(self) -> str:
        if not self.keys:
            return ""
        more = len(self.keys) - MOST_KEYS
        named = [combination(keys) for keys in self.keys[:MOST_KEYS]]
        return f" pressing {', '.join(named)}{f' and {more} more' if more > 0 else ''}"


def replay(policy: Policy, run_folders: Iterable[Path]) -> Iterator[ReplayedStep]:
    """Yield the policy's ruling on every step of recorded runs, and on the step that waits for an answer.

    Raises RunFolderError where a folder cannot be read.
    """
    for run in run_folders:
        trace = read_trace(run)
        context = ReviewContext(trace.started.test_id, trace.started.task)
        for step in (*trace.steps, *([trace.asked] if trace.asked else ())):
            now = policy.review(step.proposal, context)
            keys = keys_of(step.proposal.action, context.held)
            yield ReplayedStep(run, step.number, step.proposal, step.ruling, now, keys)
            if isinstance(step, Step):
                context = replace(context.after(step), page_url=partial(str, step.url))


def replay_rulings(policy: Policy, run_folders: Iterable[Path]) -> str:
    """Return the lines of `replay`, one for each step, and the number of rulings that differ. Raises RunFolderError."""
    steps = list(replay(policy, run_folders))
    changed = sum(step.differs for step in steps)
    return "\n".join([*map(str, steps), f"{changed} of {len(steps)} steps are ruled otherwise than they were"])
