"""The review of proposals by a policy. It knows all earlier typing, in all runs of an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pytest_vnc_use.safety.rules import Policy, ReviewContext, deny_unasked
from pytest_vnc_use.types import Proposal, Ruling, RunEvent, Step, StepFinished
from pytest_vnc_use.types.protocols import Controller, TellsUrl


class Reviewer:
    """The reviewer. It remembers the actions that were carried out. Without `hitl_mode` it denies instead of asking."""

    def __init__(self, *, hitl_mode: bool) -> None:
        self._hitl_mode = hitl_mode
        self._context = ReviewContext()
        self._page_url: Callable[[], str] = str
        self._runs: set[str] = set()

    def begin(self, run_id: str, controller: Controller, before: Iterable[Step]) -> None:
        """Note that a run begins or continues; `controller` acts in it, `before` are its steps so far."""
        self._page_url = controller.page_url if isinstance(controller, TellsUrl) else str
        if run_id not in self._runs:  # it has observed the other steps
            for step in before:
                self._context = self._context.after(step)
        self._runs.add(run_id)

    def observe(self, event: RunEvent) -> None:
        """Note a step that is over."""
        if isinstance(event, StepFinished):
            self._context = self._context.after(event.step)

    def review(self, policy: Policy, context: ReviewContext, proposal: Proposal, *, after_yes: bool = False) -> Ruling:
        """Rule on a proposal; with `after_yes`, on one that a person has said yes to."""
        typed, held = self._context.typed, self._context.held
        ruling = policy.review(proposal, replace(context, typed=typed, held=held, page_url=self._page_url))
        return ruling if self._hitl_mode or after_yes or ruling.kind != "ask" else deny_unasked(ruling)
