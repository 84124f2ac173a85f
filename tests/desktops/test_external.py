"""A desktop known by its address: a server to connect to; with a command that leads there, files and programs too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.external import ExternalDesktop, lease
from pytest_vnc_use.desktops.remote import RemoteExec
from pytest_vnc_use.errors import DesktopError, DesktopRefused, ProgramCrashed, ProgramMissing, VncUseError
from pytest_vnc_use.types.protocols import Desktop
from support.leftovers import is_running
from support.vnc_servers import VncServer, require, wait_for

WISHES: dict[str, tuple[Callable[[Desktop], object], str]] = {
    "read": (lambda desktop: desktop.read_file("orders.csv"), "read the file 'orders.csv'"),
    "write": (lambda desktop: desktop.write_file("notes.txt", "hello"), "write the file 'notes.txt'"),
    "run": (lambda desktop: desktop.run(["ls", "-l"]), "run 'ls -l'"),
    "launch": (lambda desktop: desktop.launch(["xterm"]), "launch 'xterm'"),
}

PARENT = """
import sys
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.desktops.external import ExternalDesktop, lease
from pytest_vnc_use.desktops.remote import RemoteExec
server, display, folder = sys.argv[1:]
desktop = ExternalDesktop(server, RemoteExec(["env", "-C", folder, f"DISPLAY={display}"]), connect)
desktop.launch(["sh", "-c", "setsid sleep 300 & echo $$ $! >pids; exec xterm"])
print(desktop.read_file("pids"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def desktop(tigervnc: VncServer, tmp_path: Path) -> Iterator[ExternalDesktop]:
    """A TigerVNC desktop, and a folder, that somebody else has."""
    require("xterm")
    desktop = ExternalDesktop(tigervnc.address, reach_of(tigervnc, tmp_path), connect)
    yield desktop
    desktop.stop()


def reach_of(server: VncServer, folder: Path) -> RemoteExec:
    return RemoteExec(["env", "-C", str(folder), f"DISPLAY={server.display}"])


def screen_of(server: VncServer) -> bytes:
    with closing(connect(server.address)) as controller:
        controller.move(0, 0)
        controller.settle()
        return controller.frame().png


# --- an address alone ------------------------------------------------------------------------------------------------


def test_an_address_is_handed_on_as_it_was_given() -> None:
    desktop: Desktop = ExternalDesktop("lab-7:1")
    assert (desktop.server, desktop.password) == ("lab-7:1", None)
    assert (desktop.program_fault(), desktop.logs()) == ("", {})


@pytest.mark.parametrize(("wish", "told"), WISHES.values(), ids=WISHES.keys())
def test_what_is_out_of_reach_is_told_with_what_would_not_be(wish: Callable[[Desktop], object], told: str) -> None:
    with pytest.raises(DesktopError) as caught:
        wish(ExternalDesktop("lab-7:1"))
    assert str(caught.value).startswith(f"cannot {told}: only VNC reaches the desktop at 'lab-7:1'")
    assert "--vnc-exec='docker exec -i NAME'" in str(caught.value)
    assert "--vnc-server=xvnc" in str(caught.value)


def test_stopping_leaves_the_server_alone() -> None:
    desktop = ExternalDesktop("lab-7:1")
    desktop.stop()
    desktop.stop()
    assert desktop.server == "lab-7:1"


# --- with a command that leads there ---------------------------------------------------------------------------------


@pytest.mark.desktop
def test_files_and_commands_meet_in_the_folder_there(desktop: ExternalDesktop, tmp_path: Path) -> None:
    desktop.write_file("list.txt", "apples\n")
    assert desktop.run(["cat", "list.txt"]).stdout == (tmp_path / "list.txt").read_text() == "apples\n"
    (tmp_path / "more.txt").write_text("plums")
    assert desktop.read_file("more.txt") == "plums"


@pytest.mark.desktop
def test_a_program_shows_when_it_is_launched_and_its_end_is_told(desktop: ExternalDesktop, tigervnc: VncServer) -> None:
    empty = screen_of(tigervnc)
    desktop.launch(["sh", "-c", "echo opening; echo $$ >pid; exec xterm"])
    assert screen_of(tigervnc) != empty
    assert desktop.program_fault() == ""
    os.kill(int(desktop.read_file("pid")), signal.SIGSEGV)
    wait_for(desktop.program_fault, "the crash")
    headline, *output = desktop.program_fault().splitlines()
    assert headline == "the program \"sh -c 'echo opening; echo $$ >pid; exec xterm'\" exited with -11 (SIGSEGV)"
    assert "opening" in output
    desktop.stop()
    assert desktop.program_fault().splitlines()[0] == headline
    assert desktop.logs()["program"].splitlines() == output


@pytest.mark.desktop
def test_a_program_that_ends_with_its_server_is_not_to_blame(desktop: ExternalDesktop, tigervnc: VncServer) -> None:
    desktop.launch(["xterm"])
    assert (desktop.program_fault(), desktop.fault()) == ("", "")
    tigervnc.kill()
    wait_for(desktop.fault, "the end of the program")
    told = desktop.fault()
    assert told.startswith(f"the server at '{tigervnc.address}' cannot be reached, and the program ended: ")
    assert desktop.program_fault() == ""
    desktop.stop()
    assert (desktop.program_fault(), desktop.fault()) == ("", told)


@pytest.mark.desktop
def test_a_second_launch_ends_the_first_program(desktop: ExternalDesktop) -> None:
    desktop.launch(["sh", "-c", "echo $$ >pid; exec xterm"])
    first = desktop.read_file("pid").strip()
    desktop.launch(["xterm", "-geometry", "40x10+300+300"])
    assert not is_running(first)
    assert desktop.program_fault() == ""


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        (["no-such-program"], ProgramMissing, r"cannot start 'no-such-program'"),
        (["sh", "-c", "echo no such database; exit 3"], ProgramCrashed, r"with 3 and .* a window\nno such database"),
        (["sh", "-c", "kill -SEGV $$"], ProgramCrashed, r"exited with -11 \(SIGSEGV\) and had not shown a window"),
        (["sh", "-c", "exec no-such-program"], ProgramMissing, r"exited with 127 and had not shown a window"),
        (["sh", "-c", "echo lost the way; exit 255"], DesktopError, r"exited with 255 and had not shown a window"),
        (["true"], DesktopError, r"'true' exited with 0 and had not shown a window; it must stay in the foreground"),
    ],
)
def test_a_program_that_does_not_show_is_told(
    desktop: ExternalDesktop, command: list[str], kind: type[VncUseError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        desktop.launch(command)
    assert desktop.program_fault() == ""


@pytest.mark.desktop
def test_stopping_ends_what_was_started_and_leaves_the_files(
    desktop: ExternalDesktop, tigervnc: VncServer, tmp_path: Path
) -> None:
    (tmp_path / "theirs.txt").touch()
    first = screen_of(tigervnc)
    desktop.launch(["sh", "-c", "setsid sleep 300 & echo $! >pid; exec xterm"])
    helper = desktop.run(["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"]).stdout.strip()
    desktop.stop()
    wait_for(lambda: screen_of(tigervnc) == first, "the first screen")
    assert not is_running(helper)
    assert not is_running((tmp_path / "pid").read_text().strip())
    assert (tmp_path / "theirs.txt").exists()


def test_launch_without_connection_is_told(tmp_path: Path) -> None:
    desktop = ExternalDesktop("lab-7:1", RemoteExec(["env", "-C", str(tmp_path)]))
    desktop.write_file("list.txt", "apples")
    with pytest.raises(DesktopError, match=r"has no VNC connection to look at its screen; give `connect`"):
        desktop.launch(["xterm"])


@pytest.mark.desktop
def test_nothing_outlives_the_process_that_launched_it(tigervnc: VncServer, tmp_path: Path) -> None:
    require("xterm")
    command = [sys.executable, "-c", PARENT, tigervnc.address, tigervnc.display, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.readline().split()
        assert [is_running(pid) for pid in pids] == [True, True]
        parent.kill()
    wait_for(lambda: not any(map(is_running, pids)), "the end of the program and its child")


def test_lease_ends_with_stop(tmp_path: Path) -> None:
    desktop = ExternalDesktop("lab-7:1", lease=lease(["lab-7:1"], "one", timeout_s=1, directory=tmp_path))
    with pytest.raises(DesktopRefused, match="by one"):
        lease(["lab-7:1"], "two", timeout_s=0, directory=tmp_path)
    desktop.stop()
    desktop.stop()
    lease(["lab-7:1"], "two", timeout_s=0, directory=tmp_path).release()
