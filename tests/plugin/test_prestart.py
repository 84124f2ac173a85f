"""The desktop of the next test, which is started while the end of a replay is watched."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.leftovers import processes_naming
from support.pad_sessions import QUIET, scripted_conftest
from support.vnc_servers import require, wait_for

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

DESKTOP = (
    *QUIET,
    "--vnc-server=xvnc",
    "--vnc-app=xterm -e cat",
    "--vnc-screen-size=640x400",
)
REPLAY = (*DESKTOP, "--vnc-record=replay")
CONFTEST = """
import os, select, signal, subprocess, time

class Server:
    def __init__(self, named):
        found = subprocess.check_output(["pgrep", "-f", f"^[^ ]*X[^ ]*vnc .*{named}"])
        self.pid = int(found)

    def kill(self):
        ended = os.pidfd_open(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        select.select([ended], [], [])
        os.close(ended)

    @property
    def started_at(self):
        with open(f"/proc/{self.pid}/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        return ticks / os.sysconf("SC_CLK_TCK")

def boot_time():
    return time.clock_gettime(time.CLOCK_BOOTTIME)

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.set_up_at = boot_time()

@pytest.fixture
def note(request, vnc_desktop):
    server = Server(vnc_desktop.server)
    how = "before" if server.started_at < request.node.set_up_at else "new"
    worker = getattr(request.config, "workerinput", {}).get("workerid", "alone")
    with open("noted.txt", "a") as file:
        file.write(f"{request.node.name} {how} {worker}\\n")
"""
TESTS = """
import os
import pytest
from dataclasses import replace
from conftest import Server

pytestmark = pytest.mark.vnc_task("Type it", expect=None, recording="typed")

@pytest.fixture(autouse=True)
def prepared(monkeypatch, request):
    if request.node.name == "test_after_its_end":
        Server(os.environ["TMPDIR"]).kill()
    if request.node.name == "test_variable":
        monkeypatch.setenv("WHICH", "this")

def printed(desktop, name):
    return desktop.run(["printenv", name]).stdout.strip()

def test_first(note): ...

def test_same(note, vnc_desktop):
    assert printed(vnc_desktop, "PYTEST_CURRENT_TEST") == "test_it.py::test_same (setup)"

def test_after_its_end(note): ...

class TestOther:
    @pytest.fixture
    def vnc_settings(self, vnc_settings):
        return replace(vnc_settings, start_seconds=19)

    def test_other(self, note): ...

def test_after_other(note): ...

def test_variable(note, vnc_desktop):
    assert printed(vnc_desktop, "WHICH") == "this"

def test_last(note): ...
"""
ENDING = """
import os, signal
from pathlib import Path
import pytest

pytestmark = pytest.mark.vnc_task("Type it", expect=None, recording="typed")

def test_first(): ...

@pytest.fixture(autouse=True)
def prepared(request):
    if request.node.name == "test_ends":
        assert [*Path(os.environ["TMPDIR"]).glob("*/lock")]
        {statement}

def test_ends(): ...

def test_last(): ...
"""
BODY = """
from test_it import printed

def test_first(vnc_agent, monkeypatch):
    vnc_agent.run("Type it", expect=None, recording="typed")
    monkeypatch.setenv("WHICH", "first")

def test_second(note, vnc_desktop):
    assert not printed(vnc_desktop, "WHICH")
"""
SHARED = """
import os
from dataclasses import replace
from pathlib import Path
import pytest

task = pytest.mark.vnc_task("Type it", expect=None, recording="typed")

@task
def test_alone(): ...

class TestShared:
    @pytest.fixture
    def vnc_settings(self, vnc_settings):
        return replace(vnc_settings, scope="module")

    def test_first(self, vnc_desktop): ...

    @task
    def test_second(self): ...

    def test_third(self, vnc_desktop):
        assert len([*Path(os.environ["TMPDIR"]).glob("*/lock")]) == 1
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have desktops in a directory of their own, whose path is short enough."""
    directory = tempfile.mkdtemp(prefix="pre-", dir="/tmp")
    monkeypatch.setenv("TMPDIR", directory)
    yield Path(directory)
    shutil.rmtree(directory)


@pytest.fixture
def recorded(pytester: pytest.Pytester, temporary: Path) -> None:
    require("Xtigervnc")
    require("xterm")
    pytester.makeconftest(scripted_conftest('[TypeText("it")]') + CONFTEST)
    pytester.makepyfile(test_it=TESTS)
    options = ("--vnc-record=rewrite", "-k", "test_first")
    pytester.runpytest_subprocess(*DESKTOP, *options).assert_outcomes(passed=1)
    (pytester.path / "noted.txt").unlink()


def left_in(temporary: Path) -> list[object]:
    """Return the directories and the processes of desktops."""
    processes = processes_naming(f"{temporary}/vnc-use-")
    return [*temporary.glob("*/lock"), *processes.values()]


def noted(pytester: pytest.Pytester) -> list[list[str]]:
    text = (pytester.path / "noted.txt").read_text()
    return [line.split() for line in text.splitlines()]


def test_next_desktop_is_started_before_its_test(
    recorded: None, pytester: pytest.Pytester, temporary: Path
) -> None:
    pytester.runpytest_subprocess(*REPLAY).assert_outcomes(passed=7)
    assert noted(pytester) == [
        ["test_first", "new", "alone"],
        ["test_same", "before", "alone"],
        ["test_after_its_end", "new", "alone"],
        ["test_other", "new", "alone"],
        ["test_after_other", "new", "alone"],
        ["test_variable", "new", "alone"],
        ["test_last", "new", "alone"],
    ]
    assert not left_in(temporary)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("raise KeyboardInterrupt", pytest.ExitCode.INTERRUPTED),
        ("pytest.exit('enough', 3)", 3),
        ("assert False", pytest.ExitCode.TESTS_FAILED),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
def test_prestarted_desktop_ends_with_session(
    recorded: None,
    pytester: pytest.Pytester,
    temporary: Path,
    statement: str,
    code: int,
) -> None:
    pytester.makepyfile(test_it=ENDING.format(statement=statement))
    assert pytester.runpytest_subprocess(*REPLAY, "-x").ret == code
    # a supervisor whose session was killed reports nothing
    wait_for(lambda: not left_in(temporary), "the end of the desktop")


def test_only_first_worker_prestarts(recorded: None, pytester: pytest.Pytester) -> None:
    options = ("-n2", "--dist=each", "-k", "first or same")
    pytester.runpytest_subprocess(*REPLAY, *options).assert_outcomes(passed=4)
    assert sorted(noted(pytester)) == [
        ["test_first", "new", "gw0"],
        ["test_first", "new", "gw1"],
        ["test_same", "before", "gw0"],
        ["test_same", "new", "gw1"],
    ]


def test_prestarted_desktop_has_no_variable_of_body(
    recorded: None, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_body=BODY)
    pytester.runpytest_subprocess(*REPLAY, "test_body.py").assert_outcomes(passed=2)
    assert noted(pytester) == [["test_second", "before", "alone"]]


def test_no_desktop_is_prestarted_beside_shared(
    recorded: None, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_shared=SHARED)
    pytester.runpytest_subprocess(*REPLAY, "test_shared.py").assert_outcomes(passed=4)
