"""At most so many desktops over all processes, none used by two, none left: real processes, kills in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop
from pytest_vnc_use.desktops.processes.ports import greets_at
from pytest_vnc_use.desktops.sharing.pool import ManagedDesktops
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError
from support.leftovers import processes_naming
from support.qt_desktop import QtDesktop
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.desktop

COUNT = 3

WORKER = """
import os, sys
from pathlib import Path
from pytest_vnc_use.desktops.sharing.pool import ManagedDesktops
from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop

folder = Path(sys.argv[1])
desktops = ManagedDesktops(3, lambda place: XvncDesktop(place=place, size=(320, 240)), folder)
for number in range(int(sys.argv[2])):
    desktop = desktops.lease(f"worker {os.getpid()}", timeout_s=100)
    using = Path(desktop.server).parent / "using"
    # a desktop that was leased while another lives that uses it would show that one's file
    if using.exists():
        print(f"{desktop.server} is used by {using.read_text()} too")
    using.write_text(str(os.getpid()))
    if desktop.run(["sh", "-c", "cat left.txt; echo apples > left.txt"]).stdout:
        print("the working folder was not empty")
    print(f"leased in {using.parent.parent}", flush=True)
    using.unlink()
    desktop.stop()
desktops.close()
"""

Managed = Callable[..., ManagedDesktops]


@pytest.fixture(autouse=True)
def _needs_tigervnc() -> None:
    require("Xtigervnc")


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[Managed]:
    """`ManagedDesktops` of the folder `tmp_path`, small ones, closed after the test."""
    made: list[ManagedDesktops] = []

    def making(count: int = 1, width: int = 320) -> ManagedDesktops:
        made.append(ManagedDesktops(count, lambda place: XvncDesktop(place=place, size=(width, 240)), tmp_path))
        return made[-1]

    yield making
    for desktops in made:
        desktops.close()
    assert processes_naming(tmp_path) == {}


def servers_alive(folder: Path) -> int:
    """A server's child, about to become xkbcomp, is in its session and still has its name."""
    return len({session_of(pid) for pid, name in processes_naming(folder).items() if name == "Xtigervnc"} - {None})


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


# --- many processes --------------------------------------------------------------------------------------------------


def worker(folder: Path, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(folder), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_eight_processes_and_200_leases_with_kills_in_between(tmp_path: Path) -> None:
    workers = [worker(tmp_path, 25) for _ in range(8)]
    doomed = [worker(tmp_path, 1000) for _ in range(3)]
    most, over = [0], threading.Event()
    watching = threading.Thread(target=lambda: watch(tmp_path, most, over))
    watching.start()
    for process in doomed:
        assert process.stdout is not None
        for _ in range(random.randint(1, 5)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)
    told = [line for process in workers for line in process.communicate(timeout=400)[0].splitlines()]
    over.set()
    watching.join()
    assert [process.returncode for process in workers] == [0] * 8
    assert [line for line in told if not line.startswith("leased")] == []
    assert len(told) == 200
    assert len(set(told)) == COUNT
    assert 1 <= most[0] <= COUNT
    wait_for(lambda: not processes_naming(tmp_path), "the end of all processes")
    assert [left for left in tmp_path.rglob("vnc-use-*") if left.exists()] == []


def watch(folder: Path, most: list[int], over: threading.Event) -> None:
    while not over.wait(0.01):
        most[0] = max(most[0], servers_alive(folder))


def test_a_lease_and_its_desktop_die_with_their_process(tmp_path: Path, managed: Managed) -> None:
    process = worker(tmp_path, 1000)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=10)
    desktop = managed().lease("me", timeout_s=10)
    assert servers_alive(tmp_path / "managed-1") == 1
    desktop.stop()


# --- one process -----------------------------------------------------------------------------------------------------


def test_a_desktop_given_back_is_kept_warm_and_reset(managed: Managed) -> None:
    require("xterm")
    desktops = managed(2)
    first = desktops.lease("one", timeout_s=60)
    first.launch(["xterm"])
    first.write_file("left.txt", "apples")
    server, logs = first.server, first.logs()
    first.stop()
    first.stop()
    second = desktops.lease("two", timeout_s=60)
    assert second.server == server
    with pytest.raises(FileNotFoundError):
        second.read_file("left.txt")
    assert first.logs() == logs
    assert first.program_fault() == ""
    second.stop()


def test_a_desktop_given_back_is_out_of_reach(managed: Managed) -> None:
    desktop = managed().lease("one", timeout_s=60)
    desktop.stop()
    for wish in (lambda: desktop.server, lambda: desktop.run(["true"]), desktop.reset, lambda: desktop.read_file("x")):
        with pytest.raises(DesktopError, match="was already returned to the pool"):
            wish()


def test_who_holds_what_is_told(managed: Managed) -> None:
    desktop = managed().lease("test_basket", timeout_s=60)
    with pytest.raises(DesktopRefused, match=rf"In use: 'managed 1' by test_basket \(process {os.getpid()}\)"):
        managed().lease("me", timeout_s=0.1)
    desktop.stop()


def test_the_warm_one_of_others_is_ended_for_who_needs_the_place_and_started_anew_by_its_owner(
    tmp_path: Path, managed: Managed
) -> None:
    mine, yours = managed(1, 320), managed(1, 640)
    mine.lease("me", timeout_s=60).stop()
    desktop = yours.lease("you", timeout_s=60)
    assert servers_alive(tmp_path) == 1
    desktop.stop()
    again = mine.lease("me", timeout_s=60)
    assert servers_alive(tmp_path) == 1
    assert again.run(["true"]).exit_code == 0
    again.stop()


def test_an_empty_place_is_taken_before_the_warm_one_of_others(tmp_path: Path, managed: Managed) -> None:
    mine, yours = managed(2), managed(2)
    mine.lease("me", timeout_s=60).stop()
    yours.lease("you", timeout_s=60).stop()
    assert servers_alive(tmp_path) == 2


@pytest.mark.parametrize("harm", ["kill -9 $(xprop -root _OPENBOX_PID | cut -d= -f2)", "xset r off"])
def test_a_desktop_that_cannot_be_put_back_is_replaced(tmp_path: Path, managed: Managed, harm: str) -> None:
    for program in ("openbox", "xprop", "xset"):
        require(program)
    desktops = managed()
    desktop = desktops.lease("one", timeout_s=60)
    server = desktop.server
    desktop.run(["sh", "-c", harm])
    desktop.stop()
    assert servers_alive(tmp_path) == 0
    other = desktops.lease("two", timeout_s=60)
    assert other.server != server
    other.stop()


def test_a_warm_desktop_that_died_is_replaced(tmp_path: Path, managed: Managed) -> None:
    desktops = managed()
    desktops.lease("one", timeout_s=60).stop()
    for pid, name in processes_naming(tmp_path).items():
        if name == "Xtigervnc":
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: servers_alive(tmp_path) == 0, "the end of the server")
    desktop = desktops.lease("two", timeout_s=60)
    assert desktop.run(["true"]).exit_code == 0
    desktop.stop()


def test_a_start_that_fails_frees_its_place(tmp_path: Path) -> None:
    desktops = ManagedDesktops(1, lambda place: XvncDesktop(place=place, start_timeout_s=0.001), tmp_path)
    for _ in range(2):
        with pytest.raises(DesktopError, match="had not taken connections"):
            desktops.lease("me", timeout_s=0.1)
    assert processes_naming(tmp_path) == {}


def test_a_qt_program_leaves_its_place_to_the_next_one(tmp_path: Path, qt_program: list[str]) -> None:
    desktops = ManagedDesktops(1, lambda place: QtDesktop(place=place, size=(320, 240)), tmp_path)
    for _ in range(2):
        desktop = desktops.lease("me", timeout_s=60)
        desktop.launch(qt_program)
        assert greets_at(desktop.server, 5.0)
        desktop.stop()
    assert qt_program[1] not in str(processes_naming(tmp_path))
    desktops.close()
    assert processes_naming(tmp_path) == {}


@pytest.mark.parametrize(("count", "told"), [(0, "at least 1, got 0"), (10**9, r"at most \d+, .*, got 1000000000")])
def test_a_count_of_nonsense_is_told(count: int, told: str) -> None:
    with pytest.raises(SettingsError, match=f"the number of desktops must be {told}"):
        ManagedDesktops(count, lambda place: XvncDesktop(place=place))
