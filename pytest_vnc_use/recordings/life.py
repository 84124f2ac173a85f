"""The life of a segment in one session: its states, its legal moves, and what happens
on the way.

`Life.move` alone changes a state. It refuses a move that `MOVES` does not list, and
announces each other one. Whatever else happens to the segment is announced in the same
way, so that a run directory, a report, a page or a rehearsal listens to one thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol, Union

from pytest_vnc_use.errors import InfraError
from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.gates import Gate, Mismatch
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import FrameRef, GateAwaited
from pytest_vnc_use.types.actions import Point


class State(Enum):
    """Where a segment is. The value says what that means."""

    RECORDING = "a planner or a user does the task, and each step is recorded"
    READY = "the segment is recorded, and its replay has not looked at the screen yet"
    WAITING = "the gate before the next step, or at the end, is waited for"
    ACTING = "the gate was open, and the step is performed"
    AT_END = "all steps were performed, and the screen is the recorded end"
    WATCHING = "the end must stay on the screen for its time"
    FINISHED = "the task is done: it is judged, and the test's body runs"
    MOVED_ON = "the test acts without the plugin, so the end is compared no more"
    PASSED = "nothing of it is left to check"
    DRIFTED = "a gate stayed closed, and no user has accepted the screen"
    ACCEPTED = "a reviewer accepts the screen, or masks what differs"
    BY_USER = "a user at the page acts by hand, and their steps are recorded"
    BY_MODEL = "a planner continues, and its steps are recorded"
    BUG = "a reviewer says that the product has a bug"
    REPORTED = "an error reports the drift, or how the run ended otherwise"
    REHEARSED = "a rehearsal passed, and its recording has what it learned"
    KEPT = "the recording is written"
    NOT_RECORDED = "the test passed, but a replay could not repeat it"

    @property
    def title(self) -> str:
        """The name as words, such as `at end`."""
        return self.name.lower().replace("_", " ")


FIRST = (State.RECORDING, State.READY)
"""The states in which a life begins: without a recording, and with one."""

MOVES: Mapping[State, tuple[State, ...]] = {
    State.RECORDING: (State.FINISHED, State.REPORTED),
    State.READY: (State.WAITING, State.REPORTED),
    State.WAITING: (
        State.ACTING,
        State.AT_END,
        State.DRIFTED,
        # A user at the page wants it to stop at this gate, which is open.
        State.BY_USER,
        State.REPORTED,
    ),
    State.ACTING: (State.WAITING, State.REPORTED),
    # The end is watched before the run ends, or while the test's body runs.
    State.AT_END: (State.WATCHING, State.FINISHED, State.DRIFTED, State.REPORTED),
    State.WATCHING: (State.FINISHED, State.DRIFTED, State.REPORTED),
    State.FINISHED: (
        State.WATCHING,
        State.MOVED_ON,
        State.PASSED,
        State.DRIFTED,
        State.REPORTED,
    ),
    State.MOVED_ON: (State.PASSED, State.REPORTED),
    State.PASSED: (State.REHEARSED, State.KEPT, State.NOT_RECORDED),
    State.DRIFTED: (
        State.ACCEPTED,
        State.BY_USER,
        State.BY_MODEL,
        State.BUG,
        # The test's body may catch the error: then the end is looked at once more.
        State.WATCHING,
        State.REPORTED,
    ),
    State.ACCEPTED: (State.WAITING, State.WATCHING),
    State.BY_USER: (State.WAITING, State.WATCHING),
    State.BY_MODEL: (State.FINISHED, State.REPORTED),
    State.BUG: (State.WATCHING, State.REPORTED),
    State.REPORTED: (),
    State.REHEARSED: (),
    State.KEPT: (),
    State.NOT_RECORDED: (),
}
"""The legal moves from each state."""

CLOSED = (State.DRIFTED, State.BUG)
"""The states at a closed gate that no user has accepted."""
LAST = (
    State.PASSED,
    State.REPORTED,
    State.REHEARSED,
    State.KEPT,
    State.NOT_RECORDED,
)
"""The states after which nothing is replayed, recorded or compared."""


class IllegalMove(InfraError):
    """A move that the table does not list: an error in this package."""


@dataclass(frozen=True)
class Moved:
    """A segment's state has changed."""

    before: State
    after: State


@dataclass(frozen=True, eq=False)
class GateOpened:
    """The gate to a recorded `screen` was open to what was `seen`; the next step acts
    at the points `due_at`.
    """

    screen: Screen
    gate: Gate
    seen: Pixels
    due_at: tuple[Point, ...] = ()


@dataclass(frozen=True, eq=False)
class GateClosed:
    """A gate, or a claim's evidence, does not fit the frame `seen`. It is healed where a
    model or a judge continues.
    """

    gate: Gate
    mismatch: Mismatch
    problem: str
    seen: FrameRef
    is_healed: bool = False
    claim: str = ""


AnswerKind = Literal[
    "accept", "mask", "mask_gate", "value", "bug", "model", "hand", "no"
]
"""What a reviewer may answer at a closed gate: "mask" on each screen of the test,
"mask_gate" at this gate alone; "value" if the screen shows a value there. "no" is also
the answer if no user could be asked.
"""


@dataclass(frozen=True)
class ReviewerAnswered:
    """A reviewer has answered at a closed gate: with the text about a bug, or why no
    user could be asked. `steps` says what takes the place of recorded steps.
    """

    kind: AnswerKind
    text: str = ""
    steps: str = ""


SegmentEvent = Union[Moved, GateAwaited, GateOpened, GateClosed, ReviewerAnswered]
"""What happens to a segment."""


class Listener(Protocol):
    """Receives what happens to a segment."""

    def notice(self, event: SegmentEvent) -> None:
        """Take in an event."""


class Life:
    """The state of one segment in one session, from a first state on."""

    def __init__(self, first: State, *listeners: Listener) -> None:
        self.state = first
        self._been = {first}
        self._listeners = listeners

    def has_been(self, state: State) -> bool:
        """Return whether the segment is, or was, in a state."""
        return state in self._been

    def move(self, after: State) -> None:
        """Change the state, and announce that. Raises IllegalMove."""
        before = self.state
        if after not in MOVES[before]:
            legal = ", ".join(state.title for state in MOVES[before])
            raise IllegalMove(
                f"A segment cannot go from {before.title!r} to {after.title!r}. Legal"
                f" from there: {legal or 'nothing'}."
            )
        self.state = after
        self._been.add(after)
        self.announce(Moved(before, after))

    def end(self) -> None:
        """Announce nothing from now on."""
        self._listeners = ()

    def announce(self, event: SegmentEvent) -> None:
        """Pass an event on to each listener."""
        for listener in self._listeners:
            listener.notice(event)
