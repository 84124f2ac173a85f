"""A desktop in memory for tests of the loop, repainted by each action, and a planner
that reads a list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from PIL import Image

from pytest_vnc_use.errors import ActionError, ConnectionLost
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.types import (
    Action,
    Decision,
    DesktopAction,
    Frame,
    KeyCombo,
    Observation,
    Proposal,
    RawFrame,
    Settled,
    TakeScreenshot,
    TypeText,
)
from support.images import frame_of

SIZE = (320, 200)


class PaintedController:
    """The port Controller without a wire. `performed` are the actions performed; an
    unknown key is an ActionError.
    """

    def __init__(self, *, repaint: bool = True) -> None:
        self.performed: list[DesktopAction] = []
        self.closed = False
        self.hang = threading.Event()
        self.hang.set()
        self.changed_at = 0.0
        self.other_than_painted = 0
        self._repaint = repaint

    def _require_open(self) -> None:
        if self.closed:
            raise ConnectionLost("the painted desktop is closed")

    def frame(self) -> Frame:
        self._require_open()
        return painted(self.shade)

    @property
    def shade(self) -> int:
        return self.other_than_painted or (len(self.performed) if self._repaint else 0)

    @property
    def typed(self) -> str:
        return "".join(
            action.text for action in self.performed if isinstance(action, TypeText)
        )

    def perform(self, action: DesktopAction) -> None:
        self._require_open()
        self.hang.wait()
        if isinstance(action, KeyCombo) and "nosuchkey" in action.keys:
            raise ActionError("unknown key 'nosuchkey'")
        if not isinstance(action, TakeScreenshot):
            self.performed.append(action)

    def settle(self, *, briefly: bool = False) -> Settled:
        return Settled("settled", 0.0)

    def changed_since(self, timestamp: float) -> bool:
        self._require_open()
        return self.changed_at > timestamp

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        return self.changed_since(timestamp)

    def raw_frame(self) -> RawFrame:
        return RawFrame(pixels_in(self.frame()))

    def transient_frames(self) -> tuple[Frame, ...]:
        return ()

    def close(self) -> None:
        self.closed = True
        self.hang.set()


def painted(shade: int) -> Frame:
    return frame_of(Image.new("RGB", SIZE, (shade % 256, shade // 256, 90)))


def replayed(replay: Replay) -> list[Action]:
    """Return the actions of a replay, as a run goes through them."""
    actions: list[Action] = []
    while True:
        frame = replay.frame()
        pngs = {frame.ref: frame.png}
        seen = Observation("Click", frame.ref, frame.ref, (), pngs.__getitem__)
        decision = replay.decide(seen, timeout_s=1.0)
        if decision.kind == "finished":
            return actions
        action = decision.proposals[0].action
        actions.append(action)
        replay.perform(action)  # type: ignore[arg-type]  # it is one of a desktop
        replay.settle()


class ListPlanner:
    """The port Planner: turn n gets decision n. `seen` keeps the observations."""

    name = "list"

    def __init__(self, decisions: Sequence[Decision | Callable[[], Decision]]) -> None:
        self._decisions = decisions
        self.seen: list[Observation] = []

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        self.seen.append(observation)
        decision = self._decisions[len(observation.turns)]
        return decision if isinstance(decision, Decision) else decision()


def act(*proposals: Proposal, text: str = "") -> Decision:
    return Decision("act", text, proposals)


def finished(text: str = "all done") -> Decision:
    return Decision("finished", text)
