"""The line on the terminal that says where a test's run is.

The line is shown only if nothing else writes to the terminal: with pytest's own reporter, without -v, -q, -s and live
logs, and while pytest captures the output of the test. It is erased when the run ends, and before pytest prints. A hook
or a planner of a user that prints with the capture disabled may leave a part of it on the screen.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter  # `pytest.TerminalReporter` is newer than the oldest pytest that we take

from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS

if TYPE_CHECKING:
    from pytest_vnc_use.runs.progress import ShownProgress

_STDOUT = 1
_PROGRESS: pytest.StashKey[ShownProgress] = pytest.StashKey()
"""The progress that the terminal shows, in the stash of the config."""


def open_line(item: pytest.Item) -> list[ShownProgress]:
    """Return the observer that shows the runs of a test on the terminal; none if the line is not shown."""
    config = item.config
    close_line(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is None or not is_wanted(config):
        return []
    from pytest_vnc_use.runs.progress import Progress, ShownProgress, can_show

    with capture.global_and_fixture_disabled():  # standard output is the terminal only here
        if not can_show(_STDOUT):
            return []
        progress = Progress(item.name, secrets_of(config).hide)
        config.stash[_PROGRESS] = ShownProgress(progress, _STDOUT, is_free=lambda: not os.isatty(_STDOUT))
    return [config.stash[_PROGRESS]]


def is_wanted(config: pytest.Config) -> bool:
    """Return whether a session shows the line, if standard output is a terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if type(terminal) is not TerminalReporter or not terminal.isatty or config.get_verbosity() != 0:
        return False
    if config.getoption("capture", "") != "fd" or config.stash[SETTINGS].record == "manual":
        return False
    has_logs = config.pluginmanager.has_plugin("logging-plugin")
    return not (has_logs and (config.getini("log_cli") or config.getoption("log_cli_level", None)))


def close_line(config: pytest.Config) -> None:
    """Erase the line for good."""
    if _PROGRESS in config.stash:
        config.stash[_PROGRESS].line.close()
        del config.stash[_PROGRESS]


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(config: pytest.Config) -> None:
    """Erase the line before the terminal reports a part of a test, also if no event ended its run."""
    if _PROGRESS in config.stash:
        config.stash[_PROGRESS].line.hide()


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Leave the terminal to the debugger."""
    if _PROGRESS in config.stash:
        config.stash[_PROGRESS].line.hide()
