"""A run that a user does by hand, so that it is recorded: the ports Planner and Controller for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from pytest_vnc_use.recordings.format import MANUAL, RecordedRun, Screen
from pytest_vnc_use.recordings.images import frame_of
from pytest_vnc_use.types import Action, Decision, DesktopAction, Frame, Observation, RawFrame, Settled, Wait
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import Controller, ForwardingController

NOTHING_DONE = "nothing was done, so nothing is recorded"

Show = Callable[[str, Sequence[str], Controller], Union[RecordedRun, str]]
"""A function that has a user do a task. It takes the task, the claims that will be judged, and the desktop.

It returns the steps and the end, without secrets, or why nothing is recorded. Raises DesktopError, and SettingsError
where what was done cannot be recorded.
"""


class ManualRun(ForwardingController):
    """The ports Planner and Controller for a run that a user does in a single turn.

    The run then goes through the user's steps one by one, with the screens as they were. Nothing is done again.
    """

    name = MANUAL

    def __init__(self, show: Callable[[], RecordedRun | str], desktop: Controller) -> None:
        super().__init__(desktop)
        self._show = show
        self._done: RecordedRun | None = None
        self._next = 0

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Have the user do the task, and return all their actions as one decision. Raises as `Show` does.

        The next call ends the run. It gives up if the policy refused a step: it would refuse a replay too.
        """
        if self._done:
            steps = [step for turn in observation.turns for step in turn.steps]
            if refused := next((step for step in steps if step.error), None):
                why = f"step {refused.number} was shown, but must not be performed: {refused.error}"
                return Decision("gave_up", why)
            return Decision("finished", f"recorded by hand in {len(steps)} {'step' if len(steps) == 1 else 'steps'}")
        done = self._show()
        if isinstance(done, str) or not done.steps:
            return Decision("gave_up", done if isinstance(done, str) else NOTHING_DONE)
        self._done = done
        return Decision("act", proposals=tuple(step.proposal for step in done.steps))

    def elements_of(self, action: Action) -> Elements:
        """Return the elements of the next step."""
        return self._done.steps[self._next].elements if self._done else ()

    def screen(self) -> Screen:
        """Return the screen before the next step, or at the end, once the user has done the task."""
        assert self._done
        return self._done.steps[self._next].screen if self._next < len(self._done.steps) else self._done.end

    def frame(self) -> Frame:
        """Return the screen now; after the user's part, the screen as it was after the newest step."""
        return frame_of(self.screen().pixels()) if self._done else self.desktop.frame()

    def raw_frame(self) -> RawFrame:
        """Return the pixels of the screen that `frame` shows."""
        return RawFrame(self.screen().pixels()) if self._done else self.desktop.raw_frame()

    def perform(self, action: DesktopAction) -> None:
        """Count the step, and do nothing on the desktop."""
        if not isinstance(action, Wait):  # a user does no waits: this one is the delay after each step
            self._next += 1

    def settle(self, *, briefly: bool = False) -> Settled:
        """Return at once: the screens are known."""
        return Settled("settled", 0.0)

    def changed_since(self, timestamp: float) -> bool:
        """Return False: only the user acts on the desktop, and sees if it is gone."""
        return False

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        """Return False at once."""
        return False

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return no frames."""
        return ()
