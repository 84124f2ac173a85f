"""How long a replay's end is watched, by a clock that a desktop in memory moves on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pytest_vnc_use.recordings import patient_eyes
from pytest_vnc_use.recordings.patient_eyes import PatientEyes
from pytest_vnc_use.types import Frame, FrameRef, Glance

QUIET_S = 1.2
BANNER = 9


class Watched:
    """A desktop whose screen changes at these moments, and a replay at its end, as PatientEyes asks for them."""

    gate = SimpleNamespace(caret=None, blinking=False)
    quiet_s = QUIET_S

    def __init__(self, changes: dict[float, int]) -> None:
        self.now_s = 0.0
        self._changes = changes

    def monotonic(self) -> float:
        return self.now_s

    def shown(self) -> np.ndarray[Any, Any]:
        shade = [shade for at_s, shade in self._changes.items() if at_s <= self.now_s][-1:]
        return np.full((2, 2), *(shade or [0]))

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        due_s = min((at_s for at_s in self._changes if at_s > moment), default=float("inf"))
        is_due = due_s <= self.now_s + timeout_s
        self.now_s = max(self.now_s, due_s) if is_due else self.now_s + timeout_s
        return is_due

    def glance(self) -> Glance:
        return Glance(self.shown(), self.now_s)

    def frame(self) -> Frame:
        return Frame(FrameRef("0" * 64, 2, 2), b"", self.now_s, pixels=self.shown())

    def look(self, seen: np.ndarray[Any, Any]) -> str | None:
        return "a banner" if (seen == BANNER).all() else None

    def mismatch(self, _: FrameRef, shown: Callable[[], np.ndarray[Any, Any]]) -> str | None:
        return self.look(shown())

    def look_anew(self) -> None: ...


@pytest.mark.parametrize(
    ("changes", "watched_s"),
    [
        ({}, QUIET_S),
        ({0.5: 1, 1.1: 0, 1.7: 1, 2.3: 0}, QUIET_S),  # a caret, not yet known as one
        ({0.5: BANNER, 0.9: 0}, 0.9 + QUIET_S),
    ],
)
def test_the_end_is_watched_anew_where_it_was_other_and_not_where_a_caret_blinked(
    changes: dict[float, int], watched_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(changes)
    monkeypatch.setattr(patient_eyes, "clock", watched)
    eyes = PatientEyes(cast(Any, watched), cast(Any, watched), limit_s=10)
    assert eyes.watch_end() is None
    assert watched.now_s == pytest.approx(watched_s)
