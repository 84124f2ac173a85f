"""`vnc_start_ahead`: the next test's desktop starts while a test ends, serves that one only, and never stays."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.sharing.ahead import StartedAhead
from pytest_vnc_use.errors import DesktopError
from support import vnc_servers
from support.forked_python import ForkedPython
from support.leftovers import processes_naming
from support.paths import PAD_LINE
from support.qt_desktop import QtDesktop
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.desktop

QUIET = ("-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:pytest-vnc")
ON = "-ovnc_start_ahead=true"
CONFTEST = """
import os
import signal
import time
from pathlib import Path

import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click

LOG = Path({log!r})

def lines():
    return LOG.read_text().splitlines() if LOG.exists() else []

def note(line):
    with LOG.open("a") as file:
        file.write(line + "\\n")

def await_line(line):
    deadline = time.monotonic() + 30
    while line not in lines():
        assert time.monotonic() < deadline, f"{{line}} is not in {{lines()}}"
        time.sleep(0.01)

@pytest.fixture
def vnc_planner(request):
    if request.config.getoption("vnc_record") == "replay":
        return request.getfixturevalue("vnc_planner")
    return ScriptedPlanner([[Click(60, 60)]])
"""
TWO = """
import pytest
from conftest import await_line, note

@pytest.fixture(autouse=True)
def prepared(request):
    note(f"prepare {request.node.name}")

def test_one(vnc_desktop): note("body test_one")

def test_two(vnc_desktop): note("body test_two")
"""
"""Whose desktops' programs note that they start, for which test."""
AFTER = """
@pytest.fixture(autouse=True)
def later(prepared, request):
    yield
    if request.node.name == "test_one":
        await_line("start test_it.py::test_two (setup)")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """For all that a session leaves; short, for the sockets in it."""
    vnc_servers.require_pyside()
    with tempfile.TemporaryDirectory(prefix="ahead-") as name:
        (Path(name) / "t").mkdir()
        yield Path(name)


class Session:
    """A pytest of its own, whose tests and programs note what they do."""

    def __init__(
        self, folder: Path, tests: str, *options: str, app: str = f"exec {PAD_LINE}", server: str = "qt"
    ) -> None:
        self._log, self._temporary = folder / "log.txt", folder / "t"
        (folder / "conftest.py").write_text(CONFTEST.format(log=str(self._log)))
        (folder / "test_it.py").write_text(tests)
        starts = f'echo "start $PYTEST_CURRENT_TEST" >> {self._log}; {app}'
        words = shlex.join(["sh", "-c", starts])
        own = [f"--vnc-server={server}", f"--vnc-app={words}", f"--rootdir={folder}"]
        env = {**os.environ, "TMPDIR": str(self._temporary)}
        self._output = (folder / "output.txt").open("w+", encoding="utf-8")
        self.process = ForkedPython(
            "pytest", "test_it.py", *QUIET, *own, *options, cwd=folder, env=env, stdout=self._output
        )

    def end(self, timeout_s: float = 120.0) -> str:
        """End the session and return its output; assert that nothing that it started is left."""
        try:
            self.process.wait(timeout_s)
        finally:
            self.process.kill()
        wait_for(lambda: not self.left(), "the end of all processes and folders", timeout_s=20)
        with self._output as output:
            output.seek(0)
            return output.read()

    def left(self) -> list[str]:
        """Processes and folders of desktops."""
        folders = [f"{above}/{name}" for above, names, _ in os.walk(self._temporary) for name in names]
        desktops = [name for name in folders if "/vnc-use-" in name]
        return [*processes_naming(self._temporary).values(), *desktops]

    @property
    def noted(self) -> list[str]:
        """The notes, in order."""
        return self._log.read_text().splitlines() if self._log.exists() else []


def start_of(test: str) -> str:
    return f"start test_it.py::{test} (setup)"


def test_off_a_program_starts_once_the_tests_fixtures_have_prepared_what_it_needs(folder: Path) -> None:
    session = Session(folder, TWO)
    assert "2 passed" in session.end()
    assert session.noted == [
        *("prepare test_one", start_of("test_one"), "body test_one"),
        *("prepare test_two", start_of("test_two"), "body test_two"),
    ]


@pytest.mark.parametrize("server", ["qt", "xvnc"])
def test_on_it_starts_while_the_test_before_ends_and_knows_whose_it_is(folder: Path, server: str) -> None:
    if server == "xvnc":
        require("Xtigervnc")
        require("xterm")
    ends = TWO.replace("    note(f", "    yield note(f") + "\n" + AFTER
    session = Session(folder, ends, ON, server=server, app=f"exec {PAD_LINE}" if server == "qt" else "exec xterm")
    assert "2 passed" in session.end()
    assert session.noted == [
        *("prepare test_one", start_of("test_one"), "body test_one", start_of("test_two")),
        *("prepare test_two", "body test_two"),
    ]


@pytest.mark.parametrize(
    "other",
    {
        "an environment": 'monkeypatch.setenv("OTHER", "1")',
        "a folder": "monkeypatch.chdir(tmp_path)",
        "a program": 'app["app"] += " --background=red"',
        "no wish for it": 'app["start_ahead"] = False',
    }.items(),
    ids=lambda other: other[0],
)
def test_what_the_next_test_would_start_otherwise_is_started_anew(folder: Path, other: tuple[str, str]) -> None:
    tests = f"""
import dataclasses
import pytest
from conftest import await_line, note

@pytest.fixture
def app(vnc_settings): return dict(app=vnc_settings.app, start_ahead=True)

@pytest.fixture
def vnc_settings(vnc_settings, request, tmp_path, monkeypatch):
    app = dict(app=vnc_settings.app, start_ahead=True)
    if request.node.name == "test_two":
        await_line("start test_it.py::test_two (setup)")
        {other[1]}
    return dataclasses.replace(vnc_settings, **app)

def test_one(vnc_desktop): pass

def test_two(vnc_desktop):
    note("body " + vnc_desktop.run(["sh", "-c", 'echo "$OTHER"']).stdout.strip())
"""
    session = Session(folder, tests)
    assert "2 passed" in session.end()
    *starts, body = session.noted
    assert starts == [start_of("test_one"), start_of("test_two"), start_of("test_two")]
    assert body == ("body 1" if "environment" in other[0] else "body ")


def test_what_a_test_does_not_lease_ends_with_it(folder: Path) -> None:
    tests = """
import pytest
from conftest import await_line, note

def test_one(vnc_desktop): pass

@pytest.mark.skipif("True")
def test_skipped(vnc_desktop): pass

def test_without(): note("without")

def test_two(vnc_desktop): note("body test_two")
"""
    session = Session(folder, tests, ON)
    assert "3 passed, 1 skipped" in session.end()
    assert session.noted[-3:] == ["without", start_of("test_two"), "body test_two"]


@pytest.mark.slow
def test_a_program_that_ended_meanwhile_fails_the_test_that_gets_it_with_its_last_words(folder: Path) -> None:
    ends = "echo last words; exit 3"
    app = f'if grep -q "body test_one" {folder}/log.txt; then {ends}; else exec {PAD_LINE}; fi'
    told = {}
    for option in ("-ovnc_start_ahead=false", ON):
        (folder / "log.txt").unlink(missing_ok=True)
        output = Session(folder, TWO, option, app=app).end()
        assert "1 passed, 1 error" in output
        assert "ERROR test_it.py::test_two" in output
        told[option] = [line for line in output.splitlines() if "exited with 3" in line or "last words" in line]
    assert len(set(map(len, told.values()))) == 1
    assert told[ON]


def test_a_program_that_is_killed_after_it_came_up_is_told_with_its_output() -> None:
    vnc_servers.require_pyside()
    started = StartedAhead(QtDesktop, ["sh", "-c", f"echo first words; echo $$ > pid; exec {PAD_LINE}"])
    try:
        desktop = started.take()
        desktop.run(["sh", "-c", "kill -SEGV $(cat pid)"])
        wait_for(lambda: desktop.exit_code, "the end of the program")
        with pytest.raises(DesktopError, match=r"(?s)exited with -11 \(SIGSEGV\).*first words"):
            started.take()
    finally:
        started.drop()


def test_a_limit_of_desktops_holds(folder: Path) -> None:
    require("Xtigervnc")
    require("xterm")
    session = Session(folder, TWO, ON, "--vnc-desktops=1", server="xvnc", app="exec xterm")
    assert "2 passed" in session.end()
    assert [line.split()[0] for line in session.noted] == ["prepare", "start", "body"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("record", ["off", "replay"])
def test_a_task_done_is_when_it_starts_and_a_replay_begun(folder: Path, record: str) -> None:
    """A replay takes a few seconds; what a model does may take minutes, in which a started program would wait."""
    tests = """
import pytest
from conftest import await_line, note

@pytest.mark.vnc_task("Click it", expect=None)
def test_one(vnc_desktop):
    await_line("start test_it.py::test_two (setup)")
    assert "press" in vnc_desktop.read_file("events.txt")

@pytest.mark.vnc_task("Click it", expect=None)
def test_two(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")
"""
    if record == "replay":
        assert "2 passed" in Session(folder, tests, ON, "--vnc-record=rewrite").end()
    session = Session(folder, tests, ON, f"--vnc-record={record}")
    assert "2 passed" in session.end()


ENDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "raise KeyboardInterrupt",
    "exits": "pytest.exit('enough')",
    "fails": "assert 0",
}
LAST = """
import os, signal
import pytest
from conftest import await_line

@pytest.fixture
def ending(request):
    yield
    if request.node.name == "test_one":
        await_line("start test_it.py::test_two (setup)")
        {end}

def test_one(ending, vnc_desktop): pass

def test_two(ending, vnc_desktop): pass
"""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("shows", [True, False], ids=["a program that shows", "a program that never shows"])
def test_whatever_ends_the_session_nothing_is_left(folder: Path, end: str, shows: bool) -> None:
    never = f"if grep -q test_two {folder}/log.txt; then exec sleep 300; else exec {PAD_LINE}; fi"
    session = Session(folder, LAST.format(end=ENDS[end]), ON, "-x", app=f"exec {PAD_LINE}" if shows else never)
    session.end()


@pytest.mark.slow
def test_each_worker_starts_its_own(folder: Path) -> None:
    tests = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(vnc_desktop, number): pass
"""
    assert "6 passed" in Session(folder, tests, ON, "-n2").end()
