"""The connection of this process to the desk: of `--vnc-ui`, `--vnc-record=manual`, and what `cua-vnc ui` starts."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.errors import SettingsError, install_hint
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.results import result_of
from pytest_vnc_use.plugin.state import attached_to, state_of
from pytest_vnc_use.plugin.terminal import print_line
from pytest_vnc_use.triage import sanitize

try:
    from pytest_vnc_use.ui.approve import PageApprover
    from pytest_vnc_use.ui.link import Link, Watcher
except ImportError as exc:
    raise SettingsError(f"the page needs a library ({exc}). {install_hint('ui')}") from exc
from pytest_vnc_use.ui.runner import VARIABLE

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.recordings.accept import Answer, Question
    from pytest_vnc_use.recordings.format import Screen
    from pytest_vnc_use.ui.manual import PageUser

_START_TIMEOUT_S = 20.0
NAME = "vnc_use_ui"


def desk_of(config: pytest.Config) -> DeskPlugin:
    """Return the connection to the desk; if there is none, start one and print its page's URL. Raises UsageError."""
    desk: DeskPlugin | None = config.pluginmanager.get_plugin(NAME)
    if desk is None:
        desk = DeskPlugin(config)
        config.pluginmanager.register(desk, NAME)
        print_line(config, f"vnc-use: do the task at {desk.page}")
    return desk


class DeskPlugin:
    """Reports the tests of this process to the desk. With pytest-xdist each worker reports its tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._url, self._token, self.page = _desk_of(config)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it starts in the background
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the page's Stop needs it
        worker = getattr(config, "workerinput", {}).get("workerid", "")
        self._runs_tests = bool(worker) or config.getoption("dist", "no") == "no" or config.option.collectonly
        self.link = Link(self._url, self._token, worker, lambda: os.kill(os.getpid(), signal.SIGINT))
        self.link.on_unseen = self._announce
        self.watcher: Watcher | None = None
        """The observer of the newest test's runs."""
        self.user: PageUser | None = None
        """The user who performs the newest test's tasks manually."""
        self._allowed: dict[str, set[str]] = {}
        """The actions that the user has allowed, by test, for its rehearsals."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Hand the connection to a worker of pytest-xdist, past its command line and environment."""
        spec = node.gateway.spec  # type: ignore[attr-defined]  # pytest-xdist has no types
        if not spec.popen:
            raise pytest.UsageError(f"--vnc-ui shows tests of this machine only, but a worker is on {spec!r}")
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
            self.link.send(type="collected", tests=[item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test starts."""
        if self._runs_tests:
            self.link.send(type="test", test=nodeid, state="running")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report the result of a test, as far as it is known."""
        has_crashed = str(report.when) == "???"  # then pytest-xdist reports it in place of its worker
        if not (self._runs_tests or has_crashed) or (report.passed and report.when != "call"):
            return
        attached = attached_to(report)
        hide = secrets_of(self._config).hide
        message = str(attached.get("message", "")) or (report.longreprtext if report.failed else "")
        facts = {"triage": str(attached.get("triage", "")), "message": sanitize(message, hide)}
        self.link.send(
            type="test", test=report.nodeid, state=result_of(report), seconds=round(report.duration, 2), **facts
        )

    def pytest_unconfigure(self) -> None:
        """End the connection; the page shows the results as long as it is open."""
        self.link.close()

    def watcher_of(self, item: pytest.Item) -> Watcher:
        """Return the observer of a test's runs."""
        self.watcher = Watcher(self.link, item.nodeid, secrets_of(item.config).hide)
        return self.watcher

    def watch(self, watcher: Watcher, agent: VncUseAgent) -> None:
        """Show the live screen of the test's agent."""
        watcher.screen = lambda: agent.live_screen
        watcher.stored = lambda ref: _read(agent.runs[-1] / "screens" / f"{ref.digest}.png") if agent.runs else None
        watcher.start()

    def approver_of(self, item: pytest.Item) -> PageApprover:
        """Return the approver of the actions of a test."""
        allowed = self._allowed.setdefault(item.nodeid, set())

        def run_dir() -> Path:
            runs = state_of(item).runs
            assert runs, "a run asks, so it has a directory"
            return runs[-1]

        return PageApprover(self.link, run_dir, allowed, is_rehearsal=bool(state_of(item).rehearsal))

    def ask(self, question: Question) -> Answer:
        """Put a question of `--vnc-record=accept` to the user at the page."""
        return self.link.ask(question, secrets_of(self._config).hide)

    def choose(self, test: str, title: str, choices: Mapping[int, tuple[str, Screen]]) -> int | None:
        """Have the user choose where a recording continues; return the number of the choice, None for none."""
        hide = secrets_of(self._config).hide
        facts = [
            (number, hide(text), base64.b64encode(encode_png(screen.pixels())).decode())
            for number, (text, screen) in choices.items()
        ]
        with uncounted():
            kind, _ = self.link.put_question(about="choice", test=test, title=title, choices=facts)
        return int(kind) if kind.isdecimal() else None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:  # its run keeps no images
        return None


def _desk_of(config: pytest.Config) -> tuple[str, str, str]:
    """Return the URL for sessions, the token, and the page's URL if this process has started the desk."""
    if connection := getattr(config, "workerinput", {}).get("vnc_ui"):
        return connection[0], connection[1], ""
    if file := os.environ.pop(VARIABLE, ""):
        url, token = json.loads(Path(file).read_text("utf-8"))
        return url, token, ""
    if os.environ.get("CI"):
        raise pytest.UsageError(
            "--vnc-ui and --vnc-record=manual need a user at a browser, but CI is set. Remove them in CI"
        )
    command = [sys.executable, "-m", "pytest_vnc_use.ui"]
    stdin, _ = os.pipe()  # its other end stays open as long as this process: then the desk knows that it has ended
    desk = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, start_new_session=True)
    os.close(stdin)
    assert desk.stdout is not None
    with desk.stdout as lines:
        first = lines.readline()
    if not first:
        raise pytest.UsageError(f"the page's server exited with code {desk.wait(_START_TIMEOUT_S)}")
    page, url, token = json.loads(first)
    return url, token, page
