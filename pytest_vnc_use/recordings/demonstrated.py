"""What a person showed, and a run of a test that is told from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.pictures import frame_of
from pytest_vnc_use.types import Action, Decision, DesktopAction, Frame, Glance, Observation, Proposal, Settled, Wait
from pytest_vnc_use.types.protocols import Controller

PERSON = "a person"
NOTHING_DONE = "the viewer was closed, and nothing was done there, so nothing is recorded"


@dataclass(frozen=True)
class ShownStep:
    """An action that was shown, and the screen before it."""

    action: Action
    screen: Screen


@dataclass(frozen=True)
class Shown:
    """All that was shown, without secrets, and the screen at the end of it."""

    steps: tuple[ShownStep, ...]
    end: Screen


Show = Callable[[str, Controller, float], Shown]
"""Has a task done by a person, on that desktop, within so many seconds.

Raises DeadlineExceeded, DesktopError, and SettingsError where what was done cannot be recorded.
"""


class ShownRun:
    """The ports Planner and Controller for a run that a person does: all of it in its one turn.

    The run then goes through what was done, step by step, with the screens as they were; nothing is done again.
    """

    name = PERSON

    def __init__(self, show: Callable[[float], Shown], desktop: Controller) -> None:
        self._show, self._desktop = show, desktop
        self._screens: tuple[Screen, ...] = ()
        """Before each step, and at the end."""
        self._told = 0

    def screen(self) -> Screen:
        """The screen before the step that comes next, or at the end, once it was shown."""
        return self._screens[self._told]

    # --- the port Planner ---

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """What the person did; raises as `Show` does."""
        if self._screens:
            return _ended(observation)
        shown = self._show(timeout_s)
        if not shown.steps:
            return Decision("gave_up", NOTHING_DONE)
        self._screens = (*(step.screen for step in shown.steps), shown.end)
        return Decision("act", proposals=tuple(_proposal(step.action) for step in shown.steps))

    # --- the port Controller ---

    def frame(self) -> Frame:
        """The screen now; once it was shown, as it was after the step that was told last."""
        return frame_of(self.screen().pixels()) if self._screens else self._desktop.frame()

    def perform(self, action: DesktopAction) -> None:
        if not isinstance(action, Wait):  # which no person does, and which stands for a delay after each step
            self._told += 1

    def settle(self, *, briefly: bool = False) -> Settled:
        return Settled("settled", 0.0)

    def close(self) -> None:
        self._desktop.close()

    def changed_since(self, moment_s: float) -> bool:
        """Whoever shows the task has the desktop to themselves, and sees it themselves where that is gone."""
        return False

    def wait_changed(self, moment_s: float, timeout_s: float) -> bool:
        return False

    def glance(self) -> Glance:
        return Glance(self.screen().pixels()) if self._screens else self._desktop.glance()

    def transient_frames(self) -> tuple[Frame, ...]:
        return ()


def _proposal(action: Action) -> Proposal:
    return Proposal(action, as_proposed={"name": action.kind, "args": {}})


def _ended(observation: Observation) -> Decision:
    """Finished, but where the policy refused a step, though it was done: no replay would be allowed it."""
    steps = [step for turn in observation.turns for step in turn.steps]
    if refused := next((step for step in steps if step.error), None):
        return Decision("gave_up", f"step {refused.number} was shown, and must not be carried out: {refused.error}")
    return Decision("finished", f"{PERSON} did it, in {len(steps)} {'step' if len(steps) == 1 else 'steps'}")
