"""The X server and the window manager of the next test, started while the end of a
replay is watched: that time is idle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_vnc_use.agent import leasing
from pytest_vnc_use.plugin.markers import authored_name
from pytest_vnc_use.plugin.state import needs_desktop, workerinput_of
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import RunEnded, RunEvent

if TYPE_CHECKING:
    from pytest_vnc_use.desktops.xvnc import XvncDesktop

_CURRENT_TEST = "PYTEST_CURRENT_TEST"
_FIRST_WORKER = "gw0"
"""The only worker of pytest-xdist that prestarts: a session has at most one server more
than workers.
"""


class _Start(NamedTuple):
    """The start of a desktop, in a thread, for the test of this name; the settings and
    variables that its test must have.
    """

    name: str
    settings: Settings
    variables: Mapping[str, str]
    desktop: Future[XvncDesktop]


class Prestart:
    """The start of the next test's desktop, without the program, as a fixture may still
    prepare what that shows.

    The next test is expected to have the settings and variables of the current one. If
    it has others, it gets a new desktop, and the prestarted one ends.
    """

    def __init__(self) -> None:
        self.settings: Settings | None = None
        """The settings of the newest desktop."""
        self._item: pytest.Item | None = None
        self._next: pytest.Item | None = None
        self._start: _Start | None = None
        """The newest start, until its desktop is taken or ended."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> None:
        """Note which test runs, and which is the next."""
        if self._start and desktop_name(item) != self._start.name:
            self.end()  # its test has not taken it
        self._item = item
        self._next = nextitem

    def observe(self, event: RunEvent) -> None:
        """Start the next desktop once a replay has ended. Then the test only watches the
        screen, and stops its own desktop.
        """
        if isinstance(event, RunEnded) and not self._start:
            self._begin()

    def _begin(self) -> None:
        settings = self.settings
        if not settings or not self._item or not self._next:
            return
        if not needs_desktop(self._next):
            return
        has_server = settings.server == "xvnc" and settings.scope == "test"
        # a fixture may prepare the home, and what a desktop without a program has
        if not has_server or settings.home or not settings.app:
            return
        worker = workerinput_of(self._item.config).get("workerid", _FIRST_WORKER)
        name = desktop_name(self._next)
        # of two desktops with one name the second has its home at another path
        is_free = name != desktop_name(self._item)
        if worker == _FIRST_WORKER and is_free:
            # copied here: the test may change them while the desktop starts
            variables = _variables()
            next_test = {_CURRENT_TEST: f"{self._next.nodeid} (setup)"}
            executor = ThreadPoolExecutor(1)
            desktop = executor.submit(
                leasing.prestart_desktop, settings, name, {**variables, **next_test}
            )
            executor.shutdown(wait=False)
            self._start = _Start(name, settings, variables, desktop)

    def take(self, settings: Settings, name: str) -> XvncDesktop | None:
        """Return the desktop that was started for a test, without a program; None if
        there is none, or none that fits.
        """
        start = self._start
        if not start:
            return None
        fits = settings.app and leasing.starts_alike(start.settings, settings)
        if fits and name == start.name and _variables() == start.variables:
            # what kept it from starting is raised by the start of a new one
            with suppress(Exception):
                desktop = start.desktop.result()
                desktop.connect()
                self._start = None
                return desktop
        self.end()
        return None

    def end(self) -> None:
        """End the desktop that no test has taken, if there is one."""
        if self._start:
            with suppress(Exception):
                self._start.desktop.result().stop()
            self._start = None

    def pytest_sessionfinish(self) -> None:
        """End the desktop of a test that did not run."""
        self.end()


PRESTART = pytest.StashKey[Prestart]()
"""The one of the session, in the stash of its config."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that prestarts desktops."""
    prestart = Prestart()
    config.stash[PRESTART] = prestart
    config.pluginmanager.register(prestart, "vnc_use_prestarts")


def _variables() -> Mapping[str, str]:
    """Return the variables of this process that do not change with each test."""
    variables = dict(os.environ)
    variables.pop(_CURRENT_TEST, None)
    return variables


def desktop_name(item: pytest.Item) -> str:
    """Return the name of a test's desktop, from which the path of its home follows."""
    name, _ = authored_name(item)
    return f"{item.path.name}::{name}"
