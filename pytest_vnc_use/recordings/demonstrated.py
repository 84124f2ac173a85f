"""A run that a person demonstrates, and the ports with which an agent repeats its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.pictures import frame_of
from pytest_vnc_use.types import Action, Decision, DesktopAction, Frame, Glance, Observation, Proposal, Settled, Wait
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import Controller

PERSON = "a person"
NOTHING_DONE = "the viewer was closed before anything was done there, so nothing is recorded"


@dataclass(frozen=True)
class DemonstratedStep:
    """An action that a person did, the screen before it, and the elements that it acted on, if they are known."""

    action: Action
    screen: Screen
    elements: Elements = ()


@dataclass(frozen=True)
class DemonstratedTask:
    """A demonstration without secrets: its steps, and the screen at its end."""

    steps: tuple[DemonstratedStep, ...]
    end: Screen


Show = Callable[[str, Controller, float], DemonstratedTask]
"""A function that has a person do a task. It takes the task, the desktop and a limit in seconds.

Raises DeadlineExceeded, DesktopError, and SettingsError where the demonstration cannot be recorded.
"""


class DemonstratedRun:
    """The ports Planner and Controller for a run that a person does in a single turn.

    The run then goes through the demonstrated steps one by one, with the screens as they were. Nothing is done again.
    """

    name = PERSON

    def __init__(self, show: Callable[[float], DemonstratedTask], desktop: Controller) -> None:
        self._show, self._desktop = show, desktop
        self._screens: tuple[Screen, ...] = ()
        """The screen before each step, then the screen at the end. Empty before the demonstration."""
        self._elements: tuple[Elements, ...] = ()
        self._next = 0

    def elements_of(self, action: Action) -> Elements:
        """Return the elements of the next step."""
        return self._elements[self._next]

    def screen(self) -> Screen:
        """Return the screen before the next step, or at the end. There is none before the demonstration."""
        return self._screens[self._next]

    # --- the port Planner ---

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Have the person do the task, and return all their actions as one decision. Raises as `Show` does.

        The next call ends the run.
        """
        if self._screens:
            return _end(observation)
        demonstration = self._show(timeout_s)
        if not demonstration.steps:
            return Decision("gave_up", NOTHING_DONE)
        self._screens = (*(step.screen for step in demonstration.steps), demonstration.end)
        self._elements = tuple(step.elements for step in demonstration.steps)
        actions = (step.action for step in demonstration.steps)
        proposals = (Proposal(action, as_proposed={"name": action.kind, "args": {}}) for action in actions)
        return Decision("act", proposals=tuple(proposals))

    # --- the port Controller ---

    def frame(self) -> Frame:
        """Return the screen now; after the demonstration, the screen as it was after the newest step."""
        return frame_of(self.screen().pixels()) if self._screens else self._desktop.frame()

    def perform(self, action: DesktopAction) -> None:
        """Count the step, and do nothing on the desktop."""
        if not isinstance(action, Wait):  # a person does no waits: this one is the delay after each step
            self._next += 1

    def settle(self, *, briefly: bool = False) -> Settled:
        """Return at once: the screens of a demonstration are known."""
        return Settled("settled", 0.0)

    def close(self) -> None:
        """Close the desktop."""
        self._desktop.close()

    def changed_since(self, moment: float) -> bool:
        """Return False: only the person acts on the desktop, and sees if it is gone."""
        return False

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        """Return False at once."""
        return False

    def glance(self) -> Glance:
        """Return the pixels of the screen that `frame` shows."""
        return Glance(self.screen().pixels()) if self._screens else self._desktop.glance()

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return no frames."""
        return ()


def _end(observation: Observation) -> Decision:
    """Return `finished`; `gave_up` if the policy refused a step that the person did. It would refuse a replay too."""
    steps = [step for turn in observation.turns for step in turn.steps]
    if refused := next((step for step in steps if step.error), None):
        return Decision("gave_up", f"step {refused.number} was shown, but must not be carried out: {refused.error}")
    return Decision("finished", f"{PERSON} did it, in {len(steps)} {'step' if len(steps) == 1 else 'steps'}")
