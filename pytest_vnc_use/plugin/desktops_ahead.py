"""`vnc_start_ahead`: while a test ends, the desktop of the test that comes next starts already.

A plugin, registered by on_demand.py. What a test that has begun its last replay, or has done its tasks, or is
over, leaves to the machine serves the next one; whether that may use what was started is for `sharing` to say.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin.stash import DESKTOPS, SPECS
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.types import RunEvent

NEXT = pytest.StashKey[pytest.Item]()
WANTED = pytest.StashKey[Settings]()
"""What the test's own desktop was leased by."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Note which test comes next: before a test ends, that is told nowhere else."""
    if nextitem is not None and "vnc_desktop" in getattr(nextitem, "fixturenames", ()):
        item.stash[NEXT] = nextitem
    try:
        return (yield)
    finally:
        if NEXT in item.stash:
            del item.stash[NEXT]  # pytest keeps items to the session's end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """What was started for this test, and not used by it, ends with it."""
    try:
        return (yield)
    finally:
        if DESKTOPS in item.config.stash:
            item.config.stash[DESKTOPS].drop_ahead(item.nodeid)


def start(item: pytest.Item) -> None:
    """Start the next test's desktop, unless there is one already, or the session is to stop after this test."""
    session, settings = item.session, item.stash.get(WANTED, None)
    if settings and NEXT in item.stash and not (session.shouldstop or session.shouldfail):
        item.config.stash[DESKTOPS].start_ahead(settings, item.stash[NEXT].nodeid)


class LastRun:
    """The port RunObserver for a test: its last run is when the next test's desktop is started.

    A replay takes a few seconds, so as soon as it begins; a model may take minutes, so once it has ended.
    """

    def __init__(self, item: pytest.Item, *, replays: bool) -> None:
        self._item = item
        self._replays = replays
        self._left = max(1, len(item.stash.get(SPECS, ())))

    def observe(self, event: RunEvent) -> None:
        from pytest_vnc_use.types import RunEnded, RunStarted

        if isinstance(event, RunStarted if self._replays else RunEnded):
            self._left -= 1
            if self._left == 0:
                start(self._item)
