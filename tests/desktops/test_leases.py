"""No desktop is ever used by two at once: threads, processes, kills."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.external import lease, lock_directory
from pytest_vnc_use.errors import DesktopError, DesktopRefused

SERVERS = ["host::5901", "host::5902", "host::5903"]

WORKER = """
import os, sys, random
from pathlib import Path
from pytest_vnc_use.desktops.external import lease

folder, count = Path(sys.argv[1]), int(sys.argv[2])
for number in range(count):
    held = lease({servers}, f"worker {{os.getpid()}}", timeout_s=60, directory=folder / "locks")
    using = folder / ("using-" + held.server.replace(":", "_"))
    # a user that dies leaves its file behind, and its lease goes: only a living other user is a fault
    other = int(using.read_text() or 0) if using.exists() else 0
    if other and Path(f"/proc/{{other}}").exists() and Path(f"/proc/{{other}}/stat").read_text().split()[2] != "Z":
        print(f"{{held.server}} is used by {{other}} too")
    using.write_text(str(os.getpid()))
    print("leased", flush=True)
    using.unlink()
    held.release()
"""


def worker(folder: Path, count: int) -> subprocess.Popen[str]:
    program = WORKER.format(servers=SERVERS)
    return subprocess.Popen([sys.executable, "-c", program, str(folder), str(count)], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_eight_processes_and_200_leases_with_kills_in_between(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    workers = [worker(tmp_path, 25) for _ in range(8)]
    doomed = [worker(tmp_path, 1000) for _ in range(3)]
    for process in doomed:
        assert process.stdout is not None
        for _ in range(random.randint(1, 5)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    told = [process.communicate(timeout=400)[0].splitlines() for process in workers]
    assert [process.wait() for process in workers] == [0] * 8
    for process in doomed:
        process.communicate(timeout=10)
    assert [line for lines in told for line in lines if line != "leased"] == []
    assert sum(map(len, told)) == 200


def test_a_lease_dies_with_its_owner(tmp_path: Path) -> None:
    program = "from pytest_vnc_use.desktops.external import lease; from pathlib import Path; import signal\n"
    program += (
        f"held = lease(['host::1'], 'it', timeout_s=30, directory=Path({str(tmp_path)!r})); print('held', flush=True)\n"
    )
    program += "signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(DesktopRefused, match=rf"'host::1' by it \(process {process.pid}\)"):
        lease(["host::1"], "me", timeout_s=0.2, directory=tmp_path)
    process.kill()
    process.communicate(timeout=10)
    lease(["host::1"], "me", timeout_s=30, directory=tmp_path).release()


def test_the_second_of_a_pool_is_taken_while_the_first_is_used(tmp_path: Path) -> None:
    first = lease(SERVERS, "one", timeout_s=30, directory=tmp_path)
    second = lease(SERVERS, "two", timeout_s=30, directory=tmp_path)
    assert (first.server, second.server) == ("host::5901", "host::5902")
    first.release()
    first.release()
    assert lease(SERVERS, "three", timeout_s=30, directory=tmp_path).server == "host::5901"
    second.release()


def test_an_address_is_one_desktop_however_it_is_spelled(tmp_path: Path) -> None:
    held = lease(["localhost:1"], "one", timeout_s=30, directory=tmp_path)
    for spelling in (
        "localhost::5901",
        "127.0.0.1::5901",
        "127.0.0.1:1",
        ":1",
        "vnc://localhost:5901",
        "localhost:5901",
        f"{socket.gethostname()}:1",
    ):
        with pytest.raises(DesktopRefused):
            lease([spelling], "two", timeout_s=0, directory=tmp_path)
    held.release()


@pytest.mark.parametrize(
    ("server", "other", "is_same"),
    [
        ("desk::5901", "desk:1", True),
        ("ws://testbox:6080/a", "WS://TestBox:6080/a", True),
        ("ws://host/a", "ws://host/b", False),
    ],
)
def test_lease_of_another_spelling(server: str, other: str, is_same: bool, tmp_path: Path) -> None:
    held = lease([server], "one", timeout_s=0, directory=tmp_path)
    if is_same:
        with pytest.raises(DesktopRefused, match="by one"):
            lease([other], "two", timeout_s=0, directory=tmp_path)
    else:
        lease([other], "two", timeout_s=0, directory=tmp_path).release()
    held.release()


def test_a_websocket_is_one_desktop_from_each_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = lease(["wss://desk/websockify"], "one", timeout_s=0, directory=tmp_path / "locks")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DesktopRefused, match="by one"):
        lease(["wss://desk/websockify"], "two", timeout_s=0, directory=tmp_path / "locks")
    held.release()


def test_refused_lease_shows_no_query(tmp_path: Path) -> None:
    servers = ["ws://desk/?token=s3cret"]
    held = lease(servers, "one", timeout_s=0, directory=tmp_path)
    with pytest.raises(DesktopRefused, match=r"In use: 'ws://desk/\?…' by one \(") as refused:
        lease(servers, "two", timeout_s=0, directory=tmp_path)
    assert "s3cret" not in str(refused.value) + "".join(file.read_text() for file in tmp_path.iterdir())
    held.release()


def test_who_holds_what_is_told(tmp_path: Path) -> None:
    held = lease(["host::1"], "test_basket", timeout_s=30, directory=tmp_path)
    with pytest.raises(
        DesktopRefused, match=rf"in use for 0.1 s. In use: 'host::1' by test_basket \(process {os.getpid()}\)"
    ):
        lease(["host::1"], "me", timeout_s=0.1, directory=tmp_path)
    held.release()


FORKING = """
import multiprocessing, os, signal, sys
from pathlib import Path
from pytest_vnc_use.desktops.external import lease

held = lease(["host::1"], "it", timeout_s=30, directory=Path(sys.argv[1]))
child = multiprocessing.get_context("fork").Process(target=signal.pause)
child.start()
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lease_does_not_live_on_in_a_forked_child(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", FORKING, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.wait(timeout=10)
        lease(["host::1"], "me", timeout_s=30, directory=tmp_path).release()
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate(timeout=10)


# --- the folder of the locks -----------------------------------------------------------------------------------------


def test_a_user_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "no/such/name")
    assert lock_directory() == Path(tempfile.gettempdir(), f"pytest-vnc-use-{os.getuid()}")


def test_what_is_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    (link := tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "poetry.lock").touch()
    missing = tmp_path / "missing" / "locks"
    with pytest.raises(DesktopError, match=rf"^Cannot make lock directory '{missing}': .*\. Remove .* TMPDIR.*$"):
        lease(["host::1"], "me", timeout_s=30, directory=missing)
    for place in (file, link):
        with pytest.raises(
            DesktopError, match=rf"^Lock directory '{place}' is not a directory of the current user. Remove"
        ):
            lease(["host::1"], "me", timeout_s=30, directory=place)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link", "poetry.lock"}


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.getuid() == 0:
        os.chown(tmp_path, 54321, -1)
    others = tmp_path if os.getuid() == 0 else Path("/")
    with pytest.raises(DesktopError, match=rf"'{others}' is not a directory of the current user"):
        lease(["host::1"], "me", timeout_s=30, directory=others)
    assert not list(others.glob("*.lock"))
