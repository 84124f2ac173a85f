"""The requirements of the modes of `--vnc-record`: some options must not be set, and
the page is served before the first desktop starts.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.interactive import is_ci
from pytest_vnc_use.plugin.state import SETTINGS, needs_desktop

ONE_USER = (
    "--vnc-record=manual needs one process, as one user does one task after the other."
    " Leave out pytest-xdist's -n and --dist, or add -n 0 where addopts has them"
)
TIMED = (
    "--vnc-record=accept waits for a reviewer, but pytest-timeout ends a test after {}"
    " s. Add --timeout=0 to have no such limit in this session"
)


def pytest_configure(config: pytest.Config) -> None:
    """Reject `manual` with pytest-xdist, and `accept` with pytest-timeout. Raises
    UsageError.
    """
    mode = config.stash[SETTINGS].record
    if mode == "manual" and _is_distributed(config):
        raise pytest.UsageError(ONE_USER)
    if mode == "accept" and config.pluginmanager.has_plugin("timeout"):
        limit = _time_limit(config)
        if limit.strip("0."):
            raise pytest.UsageError(TIMED.format(limit))


def _is_distributed(config: pytest.Config) -> bool:
    return bool(config.getoption("dist", "no") != "no")


def _time_limit(config: pytest.Config) -> str:
    """Return the time limit of pytest-timeout, from its strongest source."""
    limits = (
        config.getoption("timeout", None),
        os.environ.get("PYTEST_TIMEOUT"),
        config.getini("timeout"),
    )
    for limit in limits:
        if limit not in (None, ""):
            return str(limit)
    return "0"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Serve the page on which a user performs the tasks before the first desktop
    starts: they may open it meanwhile.
    """
    config = session.config
    if config.stash[SETTINGS].record != "manual" or _is_distributed(config):
        return
    if config.option.collectonly or is_ci():
        return
    if any(map(needs_desktop, session.items)):
        with suppress(SettingsError):  # without the extra, the test reports that
            from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`

            ui.desk_of(config).pytest_collection_finish(session)
