"""Fixtures for all tests: real VNC servers, programs on them, and pytest run as a user
runs it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import IO, Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import WorkStealingScheduling
from xdist.workermanage import WorkerController

from pytest_vnc_use.backends.vnc import VNCController

# pytester forgets what a session imports
from pytest_vnc_use.plugin import markers as markers, runtest as runtest
from support import vnc_servers
from support.forked_python import (
    WITHOUT_LARGE_PLUGINS,
    ForkedPython,
    start_server,
    use_server,
)
from support.gemini_server import GeminiServer
from support.paths import PAD, PAD_LINE, TESTS
from support.playwright_browser import chromium
from support.qt_desktop import QtDesktop
from support.vnc_servers import VncServer

DESKTOPS = frozenset({"pad", "tigervnc", "x11vnc", "recorded_once"})
"""The fixtures, for tests of several directories, that start a desktop."""
MAX_TEST_S = 600
"""Nothing takes so long but what hangs, also on a machine with much else to do."""


def pytest_configure(config: pytest.Config) -> None:
    """Let the sessions that tests start leave Qt's server open where it cannot be
    closed, as the examples do.

    Let programs that tests start hear Ctrl-C, also if pytest was started in the
    background, which ignores it.
    """
    os.environ["VNC_USE_QT_HOST_NETWORK"] = "true"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        use_server(config.workerinput["fork_server"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Let all workers fork the sessions that tests start from one process."""
    node.workerinput["fork_server"] = start_server()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Producer
) -> WorkStealingScheduling | None:
    """Give each worker whole directories with `-n` alone too, whose tests share what is
    made once.
    """
    return (
        WorkStealingScheduling(config, log)
        if config.getoption("dist") == "load"
        else None
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while thousands of tests are collected, which leave none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test a time limit: none hangs. Mark those whose fixtures start a
    desktop, before -m selects.
    """
    for item in items:
        item.add_marker(pytest.mark.timeout(MAX_TEST_S))
        if not DESKTOPS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.desktop)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for garbage once, for the warnings of what was left open. Pytest would look
    five times, and Python again.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Give skips with the same reason the same place, for which the summary has one
    line.
    """
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(TESTS), None, report.longrepr[2])
    return report


@pytest.fixture(scope="session", autouse=True)
def _once() -> Iterator[None]:
    """Throw no answer of a fake server away, as they come in order; make a recording
    once; no width but a terminal's own; no large plugin in the sessions that a test
    starts, which import them for two seconds.

    A test of one of these things switches it on.
    """
    others = ("allure_pytest", "anyio", "pytest-vnc", "recording", "socket", "syrupy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTEST_ADDOPTS",
            f"{WITHOUT_LARGE_PLUGINS} {' '.join(f'-p no:{name}' for name in others)}",
        )
        patch.setenv("VNC_USE_WATCH", "false")
        patch.setenv("VNC_USE_REHEARSE", "0")
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="module")
def pad() -> Iterator[QtDesktop]:
    """Yield a desktop with a pad, which writes down its input."""
    desktop = QtDesktop(PAD)
    yield desktop
    desktop.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield Chromium under Playwright, of which a process can have one at a time."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def tigervnc() -> Iterator[VncServer]:
    """Yield an empty TigerVNC desktop of 1024 x 768 pixels, without a password."""
    with vnc_servers.tigervnc() as server:
        yield server


@pytest.fixture
def x11vnc() -> Iterator[VncServer]:
    """Yield the same of x11vnc, before an Xvfb."""
    with vnc_servers.x11vnc() as server:
        yield server


@pytest.fixture
def connected() -> Iterator[Callable[..., VNCController]]:
    """Connect to a server, as `backends.vnc.connect` does, and close the connection
    after the test.
    """
    from pytest_vnc_use.backends.vnc import connect

    with contextlib.ExitStack() as stack:
        yield lambda server, *args, **options: stack.enter_context(
            closing(connect(server.address, *args, **options))
        )


@pytest.fixture
def model() -> Iterator[Callable[..., GeminiServer]]:
    """Start a fake server that answers with these replies, in order."""
    with contextlib.ExitStack() as stack:
        yield lambda *replies: stack.enter_context(GeminiServer(replies))


@pytest.fixture
def pytester(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.Pytester]:
    """Let `runpytest_subprocess` fork its sessions from a process that has imported the
    libraries.

    A session within this process collects garbage many times: without what is there
    already. It must not import the plugin of hypothesis, which warns if hypothesis is
    in use; `pytester` lets it know nothing of PYTEST_ADDOPTS.
    """
    monkeypatch.setenv("PYTEST_ADDOPTS", WITHOUT_LARGE_PLUGINS)
    start = pytester.popen

    def popen(
        command: Sequence[str], stdout: IO[str], stderr: IO[str], **options: Any
    ) -> Any:
        if tuple(command[:2]) != (sys.executable, "-mpytest"):
            return start(command, stdout, stderr, **options)
        return ForkedPython("pytest", *command[2:], stdout=stdout, stderr=stderr)

    monkeypatch.setattr(pytester, "popen", popen)
    gc.freeze()
    yield pytester
    gc.unfreeze()


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Run pytest on the pad with the model at `server`."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")

    def run_pytest(server: GeminiServer, *options: str) -> pytest.RunResult:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        desktop = ["--vnc-server=qt", f"--vnc-app={PAD_LINE}", "--vnc-planner=gemini"]
        return pytester.runpytest_subprocess(*desktop, *options, timeout=400)

    return run_pytest
