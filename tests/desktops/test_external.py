"""A desktop known by its address: used as it is, leased by one test at a time; with a command there, more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.external import ExternalDesktop, lease, lock_directory
from pytest_vnc_use.desktops.remote import RemoteExec
from pytest_vnc_use.errors import DesktopError, DesktopRefused
from pytest_vnc_use.types.protocols import Desktop
from support.leftovers import is_running
from support.vnc_servers import VncServer, require, wait_for


@pytest.fixture
def desktop(tigervnc: VncServer, tmp_path: Path) -> Iterator[ExternalDesktop]:
    """A TigerVNC desktop, and a directory, that another user has."""
    require("xterm")
    reach = RemoteExec(["env", "-C", str(tmp_path), f"DISPLAY={tigervnc.display}"])
    desktop = ExternalDesktop(tigervnc.address, reach, connect)
    yield desktop
    desktop.stop()


def screen_of(server: VncServer) -> bytes:
    with closing(connect(server.address)) as controller:
        controller.move(0, 0)
        controller.settle()
        return controller.frame().png


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


SERVERS = ["host::5901", "host::5902", "host::5903"]
HOLDER = """
import multiprocessing, signal, sys
from pathlib import Path
from pytest_vnc_use.desktops.external import lease

held = lease(["host::1"], "it", timeout_s=30, directory=Path(sys.argv[1]))
child = multiprocessing.get_context("fork").Process(target=signal.pause)
child.start()
print(child.pid, flush=True)
signal.pause()
"""


def test_lease_dies_with_its_owner_despite_child(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            with pytest.raises(DesktopRefused, match=rf"for 0.2 s. In use: 'host::1' by it \(process {process.pid}\)"):
                lease(["host::1"], "me", timeout_s=0.2, directory=tmp_path)
            process.kill()
            process.wait(timeout=10)
            lease(["host::1"], "me", timeout_s=30, directory=tmp_path).release()
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_address_is_one_desktop_in_all_its_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no form depends on the directory
    here = ("127.0.0.1::5901", ":1", "vnc://localhost:5901", f"{socket.gethostname()}:1")
    for server, other in (
        *(("localhost:1", form) for form in here),
        ("ws://testbox:6080/a", "WS://TestBox:6080/a"),
    ):
        held = lease([server], "one", timeout_s=0, directory=tmp_path)
        with pytest.raises(DesktopRefused, match="by one"):
            lease([other], "two", timeout_s=0, directory=tmp_path)
        held.release()


def test_lock_directory_none_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "no/such/name")
    assert lock_directory() == Path(tempfile.gettempdir(), f"pytest-vnc-use-{os.getuid()}")
    (file := tmp_path / "file").touch()
    (link := tmp_path / "link").symlink_to(tmp_path)
    others = Path("/")
    if os.getuid() == 0:
        (others := tmp_path / "others").mkdir()
        os.chown(others, 54321, -1)
    for path in (file, link, others):
        with pytest.raises(DesktopError, match=rf"'{path}' is not a directory of the current user. Remove"):
            lease(["host::1"], "me", timeout_s=30, directory=path)
        assert not list(path.glob("*.lock"))


def test_free_server_is_leased_until_release_or_stop(tmp_path: Path) -> None:
    first = lease(SERVERS, "one", timeout_s=30, directory=tmp_path)
    second = lease(SERVERS, "two", timeout_s=30, directory=tmp_path)
    assert (first.server, second.server) == ("host::5901", "host::5902")
    desktop = ExternalDesktop(first.server, lease=first)
    desktop.stop()
    desktop.stop()
    assert lease(SERVERS, "three", timeout_s=30, directory=tmp_path).server == "host::5901"
    second.release()
    servers = ["ws://desk/?token=s3cret"]
    held = lease(servers, "one", timeout_s=0, directory=tmp_path)
    with pytest.raises(DesktopRefused, match=r"In use: 'ws://desk/\?…' by one \(") as refused:
        lease(servers, "two", timeout_s=0, directory=tmp_path)
    assert "s3cret" not in str(refused.value) + "".join(file.read_text() for file in tmp_path.iterdir())
    held.release()


def test_desktop_by_address_alone_names_remedy() -> None:
    desktop: Desktop = ExternalDesktop("lab-7:1")
    assert (desktop.server, desktop.password, desktop.program_fault(), desktop.logs()) == ("lab-7:1", None, "", {})
    with pytest.raises(DesktopError, match=r"cannot read the file 'orders.csv': only VNC reaches"):
        desktop.read_file("orders.csv")
    with pytest.raises(DesktopError, match=r"cannot launch 'xterm': only VNC reaches .* 'lab-7:1'.*--vnc-exec='docker"):
        desktop.launch(["xterm"])
