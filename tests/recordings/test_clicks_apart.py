"""A replay's clicks one after the other are no double click, and wait no longer than the program's kind needs."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import vnc_servers

from pytest_vnc_use import assembly
from pytest_vnc_use.desktops.qt import QtDesktop
from pytest_vnc_use.ports import Controller
from pytest_vnc_use.recordings.replay import PatientEyes
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.types import Click

Clicked = Callable[..., list[str]]
PAD = [sys.executable, str(Path(__file__).parents[1] / "programs" / "pad.py")]
ELSEWHERE = [(100 + 60 * number, 100) for number in range(8)]


@pytest.fixture
def clicked() -> Iterator[Clicked]:
    """What the pad was told of left clicks at some points, `through` the hands of a replay or the desktop's own."""
    vnc_servers.require_pyside()
    with ExitStack() as stack:

        def click(
            points: Sequence[tuple[int, int]], through: Callable[[Controller], Any], **environment: str
        ) -> list[str]:
            desktop = QtDesktop(PAD, environment=environment)
            stack.callback(desktop.stop)
            hands = stack.enter_context(closing(assembly.connect(Settings(server=desktop.server))))
            for point in points:
                through(hands).perform(Click(*point))
            hands.frame()
            told = desktop.read_file("events.txt").splitlines()
            return [line.split()[0] for line in told if not line.startswith("release")]

        yield click


def replaying() -> Callable[[Controller], PatientEyes]:
    """The hands of one replay."""
    made: list[PatientEyes] = []

    def hands_of(desktop: Controller) -> PatientEyes:
        made.append(made[0] if made else PatientEyes(desktop, replay=None, limit_s=0))  # type: ignore[arg-type]
        return made[0]

    return hands_of


def directly(desktop: Controller) -> Controller:
    return desktop


@pytest.mark.parametrize(("points", "scale"), [([(300, 300), (305, 300)], "1"), ([(300, 300), (310, 300)], "2")])
def test_a_click_near_the_one_before_waits(clicked: Clicked, points: list[tuple[int, int]], scale: str) -> None:
    assert clicked(points, directly, QT_SCALE_FACTOR=scale) == ["press", "double"]
    assert clicked(points, replaying(), QT_SCALE_FACTOR=scale) == ["press", "press"]


def test_where_all_programs_are_of_qt_a_click_elsewhere_waits_for_nothing(clicked: Clicked) -> None:
    hands, times = replaying(), []

    def timed(desktop: Controller) -> PatientEyes:
        times.append(time.monotonic())
        return hands(desktop)

    assert clicked(ELSEWHERE, timed) == ["press"] * len(ELSEWHERE)
    assert statistics.median(late - soon for soon, late in pairwise(times)) < 0.2
