"""The setting `vnc_start_ahead`: while a test ends, the desktop of the next test already starts.

A plugin, registered by on_demand.py. The start comes when a test begins its last replay, has done its tasks, or is
over. `sharing` decides whether the next test may use the desktop.
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
"""The next test, while a test with a desktop runs before it."""
LEASE_SETTINGS = pytest.StashKey[Settings]()
"""The settings of the lease of the test's own desktop."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Note the next test: no other hook names it before the teardown."""
    if nextitem is not None and "vnc_desktop" in getattr(nextitem, "fixturenames", ()):
        item.stash[NEXT] = nextitem
    try:
        return (yield)
    finally:
        if NEXT in item.stash:
            del item.stash[NEXT]  # pytest keeps items to the session's end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End the desktop that was started ahead for this test, if the test did not use it."""
    try:
        return (yield)
    finally:
        if DESKTOPS in item.config.stash:
            item.config.stash[DESKTOPS].drop_ahead(item.nodeid)


def start(item: pytest.Item) -> None:
    """Start the next test's desktop, unless there is one already, or the session is to stop after this test."""
    session, settings = item.session, item.stash.get(LEASE_SETTINGS, None)
    if settings and NEXT in item.stash and not (session.shouldstop or session.shouldfail):
        item.config.stash[DESKTOPS].start_ahead(settings, item.stash[NEXT].nodeid)


class LastRun:
    """An observer of a test that starts the next test's desktop during the last run.

    A replay takes a few seconds, so the start is as soon as it begins. A model may take minutes, so the start is when
    its run has ended.
    """

    def __init__(self, item: pytest.Item, *, replays: bool) -> None:
        self._item = item
        self._replays = replays
        self._left = max(1, len(item.stash.get(SPECS, ())))

    def observe(self, event: RunEvent) -> None:
        """Start the next test's desktop if the event begins the last replay or ends the last run."""
        from pytest_vnc_use.types import RunEnded, RunStarted

        if isinstance(event, RunStarted if self._replays else RunEnded):
            self._left -= 1
            if self._left == 0:
                start(self._item)
