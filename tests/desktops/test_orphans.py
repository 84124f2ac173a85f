"""Whatever ends pytest, nothing stays of the desktops it had started: no process, no directory, no display."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.leftovers import OneFile, processes_naming
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.desktop

TESTS = """
import os
import time
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_it(vnc_desktop, number):
    display = vnc_desktop.run(["sh", "-c", "setsid sleep 300 & echo $DISPLAY"]).stdout
    note = Path({notes!r}, f"{{number}}.new")
    note.write_text(f"{{os.getpid()}} {{display[1:]}}")
    note.rename(note.with_suffix(".txt"))
    time.sleep(300)
"""


@pytest.fixture(autouse=True)
def _needs_tigervnc_and_xterm() -> None:
    for program in ("Xtigervnc", "openbox", "xterm"):
        require(program)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, for the sockets in it: a unix socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="orphans-") as name:
        yield Path(name)


class Running:
    """A pytest whose desktops live in a temporary directory of their own."""

    def __init__(self, directory: Path, process: subprocess.Popen[str]) -> None:
        self._notes = directory / "notes"
        self.temporary = directory / "t"
        self.process = process

    def desktops(self, count: int) -> tuple[list[int], list[OneFile]]:
        """Once so many tests have a desktop: the processes that run them, and their displays."""
        wait_for(lambda: self._noted() == count or self.process.poll() is not None, f"{count} desktops", timeout_s=300)
        assert self._noted() == count
        told = [note.read_text().split() for note in sorted(self._notes.glob("*.txt"))]
        return [int(pid) for pid, _ in told], [OneFile(Path(f"/tmp/.X11-unix/X{display}")) for _, display in told]

    def _noted(self) -> int:
        return len(list(self._notes.glob("*.txt")))

    def left(self) -> list[str]:
        """Return the remains of the desktops: processes, and files in the temporary directory."""
        inside = os.walk(self.temporary)  # which bears that directories go while it looks
        directories = [f"{above}/{name}" for above, names, _ in inside for name in names if name.startswith("vnc-use-")]
        return [*processes_naming(self.temporary).values(), *directories]


@contextmanager
def running_pytest(directory: Path, *options: str, count: int) -> Iterator[Running]:
    for name in ("t", "notes"):
        (directory / name).mkdir()
    (directory / "test_it.py").write_text(TESTS.format(count=count, notes=str(directory / "notes")))
    own = ["--vnc-server=xvnc", "--vnc-app=xterm", "-p", "no:cacheprovider", f"--rootdir={directory}", "-c", os.devnull]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "test_it.py", *own, *options],
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory / "t")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Running(directory, process)
        finally:
            process.kill()


def expect_nothing_left(run: Running, displays: list[OneFile]) -> None:
    wait_for(lambda: not run.left(), "the end of all processes and directories", timeout_s=60)
    assert [display for display in displays if display.exists()] == []


def test_killed_pytest_leaves_nothing(directory: Path) -> None:
    with running_pytest(directory, count=1) as run:
        displays = run.desktops(1)[1]
        processes = {"Xtigervnc", "openbox", "xterm", "sleep"}
        wait_for(lambda: processes <= set(run.left()), "all processes of a desktop")
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate(timeout=400)
        expect_nothing_left(run, displays)


@pytest.mark.slow
def test_worker_or_pytest_killed_leaves_nothing(directory: Path) -> None:
    with running_pytest(directory, "-n2", count=2) as run:
        workers, displays = run.desktops(2)
        os.kill(workers[0], signal.SIGKILL)
        wait_for(lambda: not displays[0].exists(), "the end of the killed worker's desktop")
        assert displays[1].exists()
        run.process.kill()  # the first process only: the other worker sees its channel close
        run.process.communicate(timeout=400)
        expect_nothing_left(run, displays)
