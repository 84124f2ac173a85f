"""The terminal while a test runs: printed lines, and the live line.

The live line shows how far a test's run is. It is shown only if nothing else writes to
the terminal: with pytest's reporter, without -v, -q, -s and live logs, and while pytest
captures the output of the test. It is erased when the run ends, and before pytest
prints. A hook or a planner of a user that prints with the capture disabled may leave a
part of it on the screen.
"""

from __future__ import annotations

import os

import pytest

# `pytest.TerminalReporter` is newer than the oldest pytest that we take
from _pytest.terminal import TerminalReporter

from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS
from pytest_vnc_use.runs.progress import LiveLine, can_show

_STDOUT = 1
_LINE: pytest.StashKey[LiveLine] = pytest.StashKey()


def print_line(config: pytest.Config, text: str) -> None:
    """Print a line in pytest's output while a test runs."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal and capture:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"  {text}")
            terminal.flush()


def open_line(item: pytest.Item) -> list[LiveLine]:
    """Return the observer that shows the runs of a test on the terminal; none if the
    line is not shown.
    """
    config = item.config
    close_line(config)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is None or not _is_wanted(config):
        return []
    # standard output is the terminal only here
    with capture.global_and_fixture_disabled():
        if not can_show(_STDOUT):
            return []
        live_line = LiveLine(
            _STDOUT,
            item.name,
            secrets_of(config).hide,
            # while pytest does not capture, it may write there itself
            is_busy=lambda: os.isatty(_STDOUT),
        )
    config.stash[_LINE] = live_line
    return [live_line]


def _is_wanted(config: pytest.Config) -> bool:
    """Return whether a session shows the line, if standard output is a terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if type(terminal) is not TerminalReporter or not terminal.isatty:
        return False
    if config.get_verbosity() != 0:
        return False
    if config.getoption("capture", "") != "fd":
        return False
    if config.stash[SETTINGS].record == "manual":
        return False
    if config.getoption("log_cli_level", None):
        return False
    has_logging = config.pluginmanager.has_plugin("logging-plugin")
    return not (has_logging and config.getini("log_cli"))


def close_line(config: pytest.Config) -> None:
    """Erase the line for good."""
    if _LINE in config.stash:
        config.stash[_LINE].close()
        del config.stash[_LINE]


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(config: pytest.Config) -> None:
    """Erase the line before the terminal reports a phase of a test, even if no event
    ended its run.
    """
    if _LINE in config.stash:
        config.stash[_LINE].erase()


pytest_enter_pdb = pytest_report_teststatus
"""Leave the terminal to the debugger."""
