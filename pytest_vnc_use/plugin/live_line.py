"""The line on the terminal that says where a test's run is.

The line is shown only if nothing else writes to the terminal: with pytest's own reporter, without -v, -q, -s and live
logs, and while pytest captures the output of the test. Other code that writes there while a test runs, such as a hook
or `capfd.disabled()`, first suspends the capture. That erases the line until the capture continues.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter  # `pytest.TerminalReporter` is newer than the oldest pytest that we take

from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS

if TYPE_CHECKING:
    from pytest_vnc_use.runs.progress import ShownProgress

_STDOUT = 1
PROGRESS: pytest.StashKey[ShownProgress] = pytest.StashKey()
"""The progress that the terminal shows, in the stash of the config."""
_RESTORE: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
_SUSPEND = "suspend_global_capture"


def open_line(item: pytest.Item) -> list[ShownProgress]:
    """Return the observer that shows the runs of a test on the terminal; none if the line is not shown."""
    config = item.config
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is None or not is_wanted(config):
        return []
    from pytest_vnc_use.runs.progress import Progress, ShownProgress
    from pytest_vnc_use.runs.terminal_line import can_show

    close_line(config)
    progress = Progress(item.name, secrets_of(config).hide)
    with capture.global_and_fixture_disabled():  # standard output is the terminal only here
        if can_show(_STDOUT):
            show_line(config, ShownProgress(progress, _STDOUT, is_free=lambda: not os.isatty(_STDOUT)))
    return [config.stash[PROGRESS]] if PROGRESS in config.stash else []


def show_line(config: pytest.Config, progress: ShownProgress) -> None:
    """Let the terminal show the progress, and erase it whenever the capture ends for a while."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    suspend = getattr(capture, _SUSPEND)

    def erase_and_suspend(in_: bool = False) -> None:
        with progress.line.interrupted():  # the thread that draws sees afterwards that somebody else may write
            suspend(in_)

    def restore() -> None:
        if getattr(capture, _SUSPEND) is erase_and_suspend:
            setattr(capture, _SUSPEND, suspend)

    config.stash[PROGRESS], config.stash[_RESTORE] = progress, restore
    setattr(capture, _SUSPEND, erase_and_suspend)  # pytest has no hook for that moment


def is_wanted(config: pytest.Config) -> bool:
    """Return whether a session shows the line, if standard output is a terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if type(terminal) is not TerminalReporter or not terminal.isatty or config.get_verbosity() != 0:
        return False
    if config.getoption("capture", "") != "fd" or config.stash[SETTINGS].record == "demonstrate":
        return False
    has_logs = config.pluginmanager.has_plugin("logging-plugin")
    return not (has_logs and (config.getini("log_cli") or config.getoption("log_cli_level", None)))


def close_line(config: pytest.Config) -> None:
    """Erase the line for good."""
    if PROGRESS in config.stash:
        config.stash[PROGRESS].line.close()
        config.stash[_RESTORE]()
        del config.stash[PROGRESS], config.stash[_RESTORE]


class Eraser:
    """The hooks that erase the line before others write on the terminal, for one session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        """Erase the line before a part of a test is reported, also if no event ended its run."""
        self._erase()

    def pytest_enter_pdb(self) -> None:
        """Leave the terminal to the debugger."""
        self._erase()

    def _erase(self) -> None:
        if PROGRESS in self._config.stash:
            self._config.stash[PROGRESS].line.hide()
