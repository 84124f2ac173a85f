"""The connection of this process to the desk: of `--vnc-ui`, `--vnc-record=manual`, and
what `cua-vnc ui` starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.errors import SettingsError, install_hint
from pytest_vnc_use.interactive import check_user
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.renamed import key_of
from pytest_vnc_use.plugin.state import attached_to, result_of, state_of, workerinput_of
from pytest_vnc_use.plugin.terminal import print_line
from pytest_vnc_use.triage import sanitize

try:
    from pytest_vnc_use.ui.approve import PageApprover
    from pytest_vnc_use.ui.link import REOPEN, Link, Watcher
except ImportError as exc:
    raise SettingsError(
        f"the page needs a library ({exc}). {install_hint('ui')}"
    ) from exc
from pytest_vnc_use.ui.runner import VARIABLE

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.recordings.question import Answer, Question
    from pytest_vnc_use.types import FrameRef
    from pytest_vnc_use.ui.page_user import PageUser

_START_TIMEOUT_S = 20.0
NAME = "vnc_use_ui"


def desk_of(config: pytest.Config) -> DeskPlugin:
    """Return the connection to the desk; if there is none, start one and print its
    page's URL. Raises UsageError.
    """
    desk: DeskPlugin | None = config.pluginmanager.get_plugin(NAME)
    if desk is None:
        desk = DeskPlugin(config)
        config.pluginmanager.register(desk, NAME)
        print_line(config, f"vnc-use: do the task at {desk.page}")
    return desk


class DeskPlugin:
    """Reports the tests of this process to the desk. With pytest-xdist each worker
    reports its tests.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.page = ""
        """The page's URL, if this process has started the desk."""
        connection = _handed_down(config)
        if connection is None:
            self.page, *connection = _start_desk()
        self._url, self._token = connection
        # as a shell has it for what it starts in the background
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # the page's Stop needs it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        worker = workerinput_of(config).get("workerid", "")
        is_distributed = config.getoption("dist", "no") != "no"
        # the controller of pytest-xdist runs no tests
        self._runs_tests = worker or config.option.collectonly or not is_distributed
        try:
            self.link = Link(self._url, self._token, _interrupt)
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
        self.link.on_unseen = self._announce
        self.watcher: Watcher | None = None
        """The observer of the newest test's runs."""
        self.user: PageUser | None = None
        """The user who performs the newest test's tasks manually."""
        self._allowed: dict[str, set[str]] = {}
        """The actions that the user has allowed, by test, for its rehearsals."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Hand the connection to a worker of pytest-xdist, past its command line and
        environment.
        """
        spec = node.gateway.spec  # type: ignore[attr-defined]  # pytest-xdist has no types
        if not spec.popen:
            raise pytest.UsageError(
                "--vnc-ui shows tests of this machine only, but a worker is on"
                f" {spec!r}"
            )
        node.workerinput["vnc_ui"] = [self._url, self._token]  # type: ignore[attr-defined]

    def pytest_sessionstart(self) -> None:
        """Print the URL, past capturing."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self.page and reporter:
            reporter.write_line(f"vnc-use: watch the tests at {self.page}")

    def _announce(self) -> None:
        """Print where a question waits that no user sees."""
        if self.page:
            print_line(self._config, f"vnc-use: a question waits at {self.page}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """List the tests."""
        if self._runs_tests:
            tests = [item.nodeid for item in session.items]
            recorded = [
                item.nodeid for item in session.items if key_of(item).path.exists()
            ]
            self.link.send(type="collected", tests=tests, recorded=recorded)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test starts."""
        if self._runs_tests:
            self.link.send(type="test", test=nodeid, state="running")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report the result of a test, as far as it is known."""
        # of a worker that has crashed, pytest-xdist's controller sends this report
        has_crashed = str(report.when) == "???"
        if not self._runs_tests and not has_crashed:
            return
        if report.passed and report.when != "call":
            return
        attached = attached_to(report)
        message = str(attached["message"])
        if report.failed and not message:
            message = report.longreprtext
        hide = secrets_of(self._config).hide
        if report.passed:  # its recording is written, so it has no draft any more
            self.link.send(type="test", test=report.nodeid, draft="")
        self.link.send(
            type="test",
            test=report.nodeid,
            state=result_of(report),
            seconds=round(report.duration, 2),
            triage=str(attached.get("triage", "")),
            message=sanitize(message, hide),
        )

    def pytest_unconfigure(self) -> None:
        """End the connection; the page shows the results as long as it is open."""
        self.link.close()

    def watcher_of(self, item: pytest.Item) -> Watcher:
        """Return the observer of a test's runs."""
        hide = secrets_of(item.config).hide
        self.watcher = Watcher(self.link, item.nodeid, hide)
        return self.watcher

    def watch(self, watcher: Watcher, agent: VncUseAgent) -> None:
        """Show the live screen of the test's agent."""

        def stored(ref: FrameRef) -> bytes | None:
            if not agent.runs:
                return None
            path = agent.runs[-1] / "screens" / f"{ref.digest}.png"
            try:
                return path.read_bytes()
            except OSError:  # its run keeps no images
                return None

        watcher.screen = lambda: agent.live_screen
        watcher.stored = stored
        watcher.start()

    def approver_of(self, item: pytest.Item) -> PageApprover:
        """Return the approver of the actions of a test."""
        allowed = self._allowed.setdefault(item.nodeid, set())
        is_rehearsal = state_of(item).rehearsal is not None

        def run_dir() -> Path:
            runs = state_of(item).runs
            assert runs, "a run asks, so it has a directory"
            return runs[-1]

        return PageApprover(self.link, run_dir, allowed, is_rehearsal=is_rehearsal)

    def ask(self, question: Question) -> Answer:
        """Put a question of `--vnc-record=accept` to the user at the page."""
        hide = secrets_of(self._config).hide
        return self.link.ask(question, hide)


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _handed_down(config: pytest.Config) -> list[str] | None:
    """Return the URL for sessions and the token of the desk that the controller of this
    worker, or what started this process, has named; None if this one starts a desk.
    Raises UsageError.
    """
    connection: list[str] | None = workerinput_of(config).get("vnc_ui")
    file = os.environ.pop(VARIABLE, "")
    if connection is None and file:
        try:
            connection = json.loads(Path(file).read_text("utf-8"))
        except OSError as exc:
            raise pytest.UsageError(
                f"`cua-vnc ui` has ended ({exc}). {REOPEN}"
            ) from exc
    return connection


def _start_desk() -> list[str]:
    """Start the desk, which ends with this process. Return the page's URL, the URL for
    sessions, and the token. Raises UsageError.
    """
    try:
        check_user("--vnc-ui and --vnc-record=manual need", "Remove them in CI")
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from exc
    command = [sys.executable, "-m", "pytest_vnc_use.ui"]
    # its other end stays open as long as this process: then the desk knows that it has
    # ended
    stdin, _ = os.pipe()
    desk = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(stdin)
    assert desk.stdout is not None
    with desk.stdout as lines:
        first = lines.readline()
    if not first:
        code = desk.wait(_START_TIMEOUT_S)
        raise pytest.UsageError(f"the page's server exited with code {code}")
    addresses: list[str] = json.loads(first)
    return addresses
