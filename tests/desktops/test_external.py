"""A desktop known by its address: a server to connect to; with a command that leads there, files and programs too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.external import ExternalDesktop, lease
from pytest_vnc_use.desktops.remote import RemoteExec
from pytest_vnc_use.errors import DesktopError, DesktopRefused
from pytest_vnc_use.types.protocols import Desktop
from support.leftovers import is_running
from support.vnc_servers import VncServer, require, wait_for


@pytest.fixture
def desktop(tigervnc: VncServer, tmp_path: Path) -> Iterator[ExternalDesktop]:
    """A TigerVNC desktop, and a directory, that another user has."""
    require("xterm")
    desktop = ExternalDesktop(tigervnc.address, reach_of(tigervnc, tmp_path), connect)
    yield desktop
    desktop.stop()


def reach_of(server: VncServer, directory: Path) -> RemoteExec:
    return RemoteExec(["env", "-C", str(directory), f"DISPLAY={server.display}"])


def screen_of(server: VncServer) -> bytes:
    with closing(connect(server.address)) as controller:
        controller.move(0, 0)
        controller.settle()
        return controller.frame().png


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda desktop: desktop.read_file("orders.csv"), "read the file 'orders.csv'"),
        (lambda desktop: desktop.write_file("notes.txt", "hello"), "write the file 'notes.txt'"),
        (lambda desktop: desktop.run(["ls", "-l"]), "run 'ls -l'"),
        (lambda desktop: desktop.launch(["xterm"]), "launch 'xterm'"),
    ],
)
def test_desktop_by_address_alone_names_remedy(use: Callable[[Desktop], object], told: str) -> None:
    desktop: Desktop = ExternalDesktop("lab-7:1")
    assert (desktop.server, desktop.password, desktop.program_fault(), desktop.logs()) == ("lab-7:1", None, "", {})
    with pytest.raises(DesktopError, match=rf"cannot {told}: only VNC reaches .* 'lab-7:1'.*--vnc-exec='docker exec"):
        use(desktop)


@pytest.mark.desktop
def test_program_ending_with_its_server_is_no_fault(desktop: ExternalDesktop, tigervnc: VncServer) -> None:
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
def test_stop_ends_programs_and_leaves_files(desktop: ExternalDesktop, tigervnc: VncServer, tmp_path: Path) -> None:
    (tmp_path / "theirs.txt").touch()
    first = screen_of(tigervnc)
    with pytest.raises(DesktopError, match=r"exited with 255 and had not shown a window"):  # as ssh does that fails
        desktop.launch(["sh", "-c", "exit 255"])
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


def test_lease_ends_with_stop(tmp_path: Path) -> None:
    desktop = ExternalDesktop("lab-7:1", lease=lease(["lab-7:1"], "one", timeout_s=1, directory=tmp_path))
    with pytest.raises(DesktopRefused, match="by one"):
        lease(["lab-7:1"], "two", timeout_s=0, directory=tmp_path)
    desktop.stop()
    desktop.stop()
    lease(["lab-7:1"], "two", timeout_s=0, directory=tmp_path).release()
