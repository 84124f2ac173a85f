"""A replay's clicks one after the other are no double click, and wait no longer than the program's kind needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.recordings.format import RecordedRun, Screen
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, DesktopAction, Wait
from pytest_vnc_use.types.protocols import Controller
from support import vnc_servers
from support.paths import PAD
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

Clicked = Callable[..., list[str]]
ELSEWHERE = [(100 + 60 * number, 100) for number in range(8)]


@pytest.fixture
def clicked() -> Iterator[Clicked]:
    """Yield the pad's events of left clicks at some points, `through` the hands of a replay or the desktop's own."""
    vnc_servers.require_pyside()
    with ExitStack() as stack:

        def click(
            points: Sequence[tuple[int, int]], through: Callable[[Controller], Any], **environment: str
        ) -> list[str]:
            desktop = QtDesktop(PAD, environment=environment)
            stack.callback(desktop.stop)
            hands = stack.enter_context(closing(build.connect(Settings(server=desktop.server))))
            for point in points:
                through(hands).perform(Click(*point))
            hands.frame()
            told = desktop.read_file("events.txt").splitlines()
            return [line.split()[0] for line in told if not line.startswith("release")]

        yield click


def replaying() -> Callable[[Controller], Replay]:
    """The hands of one replay."""
    made: list[Replay] = []

    def hands_of(desktop: Controller) -> Replay:
        made.append(made[0] if made else Replay(desktop, RecordedRun(task="Click", end=Screen())))
        return made[0]

    return hands_of


def directly(desktop: Controller) -> Controller:
    return desktop


@pytest.mark.parametrize(("points", "scale"), [([(300, 300), (305, 300)], "1"), ([(300, 300), (310, 300)], "2")])
def test_click_near_one_before_waits(clicked: Clicked, points: list[tuple[int, int]], scale: str) -> None:
    found = (clicked(points, directly, QT_SCALE_FACTOR=scale) for _ in range(5))
    assert ["press", "double"] in found  # beside much else the second may come too late
    assert clicked(points, replaying(), QT_SCALE_FACTOR=scale) == ["press", "press"]


class Noted:
    """The port Controller: the desktop's, with a note of how long it was told to wait."""

    def __init__(self, desktop: Any, *, doubles_only_near: bool) -> None:
        self._desktop = desktop
        self.doubles_only_near = doubles_only_near
        self.waits: list[float] = []

    def perform(self, action: DesktopAction) -> None:
        if isinstance(action, Wait):
            self.waits.append(action.duration_s)
        self._desktop.perform(action)


@pytest.mark.parametrize("all_are_qts", [True, False])
def test_click_elsewhere_on_qt_waits_for_nothing(clicked: Clicked, all_are_qts: bool) -> None:
    hands = replaying()
    noted: list[Noted] = []

    def noting(desktop: Any) -> Replay:
        assert desktop.doubles_only_near
        noted.append(noted[0] if noted else Noted(desktop, doubles_only_near=all_are_qts))
        return hands(noted[0])  # type: ignore[arg-type]  # it only acts

    assert clicked(ELSEWHERE, noting) == ["press"] * len(ELSEWHERE)
    assert bool(noted[0].waits) != all_are_qts
