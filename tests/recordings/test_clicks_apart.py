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
from pytest_vnc_use.types import Click
from pytest_vnc_use.types.protocols import Controller
from support import vnc_servers
from support.paths import PAD
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

Clicked = Callable[..., list[str]]


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
