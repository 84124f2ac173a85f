"""What a user does by hand: steps of a replay, or a whole run, whose planner proposes
what the user has just done.

In a run by hand, the user does the whole task while the first decision is awaited, and
all their steps then pass the graph at once, each with the policy's ruling. A step does
not pass as soon as it is done, because it is not finished then: a hover still comes
before it, a text still grows, *undo* drops it, and only with what follows can a piece
of a secret be recognised, which must be in no run directory. The segment is built once,
of the steps as they were done, and none of them is performed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, Union

from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.recordings.build import SegmentBuilder
from pytest_vnc_use.recordings.format import MANUAL, Screen, Segment
from pytest_vnc_use.recordings.images import frame_of
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.types import (
    Action,
    Decision,
    DesktopAction,
    Frame,
    Observation,
    Settled,
    Wait,
)
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import Controller, ForwardingController

NOTHING_DONE = "nothing was done, so nothing is recorded"

PerformByHand = Callable[
    [str, Sequence[str], Mapping[str, str], Controller], Union[Segment, str]
]
"""A function that has a user do a task. It takes the task, the claims that will be
judged, the values of both, and the desktop.

It returns the segment, without secrets, or why nothing is recorded. Raises
DesktopError, and SettingsError where what was done cannot be recorded.
"""

Locations = Mapping[int, tuple[str, Screen]]
"""Where a replay can continue, by the number of steps before: its name, as `before step 3:
click "Pay" (button)`, and the recorded screen.
"""


class ByHand(NamedTuple):
    """What a user at the page did by hand: the steps, and the number of the location
    with which they want the replay to continue; None for the one whose screen is shown.
    """

    done: Segment
    until: int | None = None


class ReplayUser(Protocol):
    """A user at the page, who may act by hand in a replay."""

    def show(self, key: Key, segment: Segment) -> None:
        """Show what is replayed from now on."""

    def stops_before(self, screen: Screen) -> bool:
        """Return whether they want to act once this recorded screen is shown; they are
        asked once.
        """

    def take_over(self, task: str, due: Locations, desktop: Controller) -> ByHand | str:
        """Have them act, with the locations that are left, the next one first; return
        what they did, or why they did nothing. Raises DesktopError, SettingsError.
        """

    def choose(self, title: str, now: Frame, choices: Locations) -> int | None:
        """Have them choose where to continue from the screen now; return the number of
        the choice, None for none.
        """


class ManualRun(ForwardingController):
    """The ports Planner and Controller for a run that a user does in a single turn.

    `builder` gets the segment that `show` returns. Then the controller shows the
    screens of its steps, one after the other.
    """

    name = MANUAL

    def __init__(
        self,
        show: Callable[[], Segment | str],
        desktop: Controller,
        builder: SegmentBuilder,
    ) -> None:
        super().__init__(desktop)
        self._show = show
        self._builder = builder
        self._done: Segment | None = None
        self._next = 0
        """The number of steps that have passed the graph."""

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Have the user do the task, and propose all that they did. Raises what
        `PerformByHand` does.

        The next call ends the run. It gives up if the policy denied a step: it would
        deny it in a replay too.
        """
        if self._done:
            return _end_of(observation)
        done = self._show()
        if isinstance(done, str):
            return Decision("gave_up", done)
        if not done.steps:
            return Decision("gave_up", NOTHING_DONE)
        self._done = done
        self._builder.take(done)
        proposals = [step.proposal for step in done.steps]
        return Decision("act", proposals=tuple(proposals))

    def elements_of(self, action: Action) -> Elements:
        """Return the elements of the next step."""
        if self._done is None:
            return ()
        step = self._done.steps[self._next]
        return step.elements

    def frame(self) -> Frame:
        """Return the screen now; once the user has done the task, the screen as it was
        before the next step, or at the end.
        """
        if self._done is None:
            return self.desktop.frame()
        screen = self._done.screens[self._next]
        return frame_of(screen.pixels())

    def perform(self, action: DesktopAction) -> None:
        """Pass on to the next screen: the user has performed the step."""
        # No recorded step is a wait: this one is the delay after each step.
        if not isinstance(action, Wait):
            self._next += 1

    def settle(self, *, briefly: bool = False) -> Settled:
        """Return at once: the screen was stable when the user acted on it."""
        return Settled("settled", 0.0)

    def changed_since(self, timestamp: float) -> bool:
        """Return False, as the graph asks it while the user's session has the desktop,
        which finds out itself if that is gone.
        """
        return False

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return no frames: the user saw what passed."""
        return ()


def _end_of(observation: Observation) -> Decision:
    """Return the decision that ends a run whose steps have passed the graph."""
    turn = observation.turns[0]
    for step in turn.steps:
        if step.error:
            why = f"step {step.number} was shown, but must not be performed: "
            return Decision("gave_up", why + step.error)
    count = count_of(len(turn.steps), "step")
    return Decision("finished", f"recorded by hand in {count}")
