"""A planner that tries several planners in order, cheap ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.planners.common.prompts import earlier_in_words
from pytest_vnc_use.types import (
    FOLLOWED,
    HANDED_OVER,
    STALLED,
    Decision,
    Observation,
    Proposal,
    TakeScreenshot,
    Turn,
)
from pytest_vnc_use.types.protocols import EndsRun, Planner

_LONGEST_REASON = 1000
_AGAIN = STALLED.partition("{")[0]
_HANDOVER = "Another model tried this before you, and {reason}. The screen shows what it left."


@dataclass(frozen=True)
class Cascade:
    """A Planner that tries several planners in order.

    The next one continues if the current one gives up, repeats itself, or says done while a claim fails. The last one
    is not checked. A change is a turn of its own: it looks at the screen, and its words give the reason. The turns show
    which planner is current, so another process can continue the run. `failed_claim` returns the claim that fails, ""
    if none does.
    """

    planners: tuple[Planner, ...]
    failed_claim: Callable[[Observation], str] = lambda _: ""

    @property
    def name(self) -> str:
        """The names of all planners, in order."""
        return ", then ".join(planner.name for planner in self.planners)

    def checked_by(self, failed_claim: Callable[[Observation], str]) -> Cascade:
        """Return the cascade with this check for `done`."""
        return replace(self, failed_claim=failed_claim)

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the decision of the planner whose turn it is, or the change to the next. Raises PlannerError."""
        changes = [
            number for number, turn in enumerate(observation.turns) if HANDED_OVER in turn.decision.provider_details
        ]
        place = min(len(changes), len(self.planners) - 1)
        own = observation.turns[changes[-1] + 1 :] if changes else observation.turns
        is_last = place == len(self.planners) - 1
        if not is_last and _circles(own):
            return self._handed_over(place, "kept repeating the same action on the same screen", Decision("gave_up"))
        decision = self.planners[place].decide(_seen(observation, changes), timeout_s=timeout_s)
        if is_last:
            return decision
        if decision.kind == "act":
            return replace(decision, provider_details={**decision.provider_details, FOLLOWED: True})
        if decision.kind == "gave_up":
            return self._handed_over(place, f"gave up: {decision.words}", decision)
        failed = self.failed_claim(observation)
        return self._handed_over(place, f"took it for done, but {failed}", decision) if failed else decision

    def end_run(self) -> None:
        """Close what the planners keep open."""
        for planner in self.planners:
            if isinstance(planner, EndsRun):
                planner.end_run()

    def _handed_over(self, place: int, reason: str, decision: Decision) -> Decision:
        before, after = self.planners[place], self.planners[place + 1]
        words = f"{after.name} goes on, as {before.name} {reason}"
        proposal = Proposal(TakeScreenshot(), words)
        details = {HANDED_OVER: reason}
        return replace(decision, kind="act", words=words, proposals=(proposal,), provider_details=details, params={})


def is_change(turn: Turn) -> bool:
    """Return whether another planner took over in this turn."""
    return HANDED_OVER in turn.decision.provider_details


def _circles(turns: Sequence[Turn]) -> bool:
    """Return whether the newest turn repeated earlier turns as often as the limits allow."""
    return bool(turns) and any(step.note.startswith(_AGAIN) for step in turns[-1].steps)


def _seen(observation: Observation, changes: Sequence[int]) -> Observation:
    """Return the observation for the current planner; turns of earlier planners are summarised in the task."""
    if not changes:
        return observation
    change = observation.turns[changes[-1]]
    handover = _HANDOVER.format(reason=cut(change.decision.provider_details[HANDED_OVER], _LONGEST_REASON))
    before = [turn for turn in observation.turns[: changes[-1]] if not is_change(turn)]
    return replace(
        observation,
        task="\n\n".join(filter(None, [observation.task, handover, earlier_in_words(before)])),
        first_frame=change.steps[-1].frame_after if change.steps else observation.frame,
        turns=observation.turns[changes[-1] + 1 :],
    )
