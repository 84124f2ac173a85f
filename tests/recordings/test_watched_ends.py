"""How long a replay waits for its first screen and watches its end, by a clock that a desktop in memory moves on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from pytest_vnc_use import deadline
from pytest_vnc_use.recordings import replay
from pytest_vnc_use.recordings.format import RecordedRun, Screen
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.types import Frame, FrameRef, Glance

QUIET_S = 1.2
END = Screen(quiet_s=QUIET_S, pixels=lambda: np.zeros((2, 2), np.uint32))
BANNER = 9


class Watched:
    """A desktop whose screen changes at these moments, as a replay asks for it, and its clock."""

    def __init__(self, changes: dict[float, int]) -> None:
        self.now_s = 0.0
        self._changes = changes

    def monotonic(self) -> float:
        return self.now_s

    def shown(self) -> np.ndarray[Any, Any]:
        shade = [shade for at_s, shade in self._changes.items() if at_s <= self.now_s][-1:]
        return np.full((2, 2), *(shade or [0]), np.uint32)

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        due_s = min((at_s for at_s in self._changes if at_s > moment), default=float("inf"))
        is_due = due_s <= self.now_s + timeout_s
        self.now_s = max(self.now_s, due_s) if is_due else self.now_s + timeout_s
        return is_due

    def changed_since(self, moment: float) -> bool:
        return any(moment < at_s <= self.now_s for at_s in self._changes)

    def glance(self) -> Glance:
        return Glance(self.shown(), self.now_s)

    def frame(self) -> Frame:
        return Frame(FrameRef("0" * 64, 2, 2), b"", self.now_s, pixels=self.shown())


@pytest.mark.parametrize(
    ("changes", "watched_s"),
    [
        ({}, QUIET_S),
        ({0.5: 1, 1.1: 0, 1.7: 1, 2.3: 0}, QUIET_S),  # a caret, not yet known as one
        ({0.5: BANNER, 0.9: 0}, 0.9 + QUIET_S),
    ],
)
def test_watch_restarts_after_change_not_caret(
    changes: dict[float, int], watched_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(changes)
    monkeypatch.setattr(replay, "clock", watched)
    assert Replay(cast(Any, watched), RecordedRun(task="Watch", end=END), limit_s=10).watch_end() is None
    assert watched.now_s == pytest.approx(watched_s)


@pytest.mark.parametrize(("quiet_s", "setting_s", "watched_s"), [(QUIET_S, 5.0, 5.0), (5.0, 0.4, 0.4), (0.0, 5.0, 0.0)])
def test_watch_lasts_as_set_if_recorded_stable(
    quiet_s: float, setting_s: float, watched_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched({})
    monkeypatch.setattr(replay, "clock", watched)
    run = RecordedRun(task="Watch", end=END.model_copy(update={"quiet_s": quiet_s}))
    assert Replay(cast(Any, watched), run, limit_s=10, watch_s=setting_s).watch_end() is None
    assert watched.now_s == pytest.approx(watched_s)


@pytest.mark.parametrize(
    ("first_s", "changes", "closed_s"),
    [
        (0.6, {0.0: BANNER}, 3.5),
        (None, {0.0: BANNER}, 10.0),  # nothing is known of how long it takes
        (0.9, {0.0: BANNER}, 4.5),
        (3.0, {0.0: BANNER}, 10.0),  # a program that takes long to start
        (0.6, {0.0: BANNER, 2.0: BANNER + 9}, 5.0),  # it is still starting
    ],
)
def test_gate_to_other_first_screen_closes_early(
    first_s: float | None, changes: dict[float, int], closed_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(changes)
    for module in (replay, deadline):
        monkeypatch.setattr(module, "clock", watched)
    Replay(cast(Any, watched), RecordedRun(task="Start", end=END, first_s=first_s), limit_s=10).frame()
    assert watched.now_s == pytest.approx(closed_s, abs=0.3)
