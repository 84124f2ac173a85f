"""No desktop is ever used by two at once: threads, processes, kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.pool import lease
from pytest_vnc_use.errors import DesktopRefused

SERVERS = ["host::5901", "host::5902", "host::5903"]

WORKER = """
import os, sys, random
from pathlib import Path
from pytest_vnc_use.desktops.pool import lease

folder, count = Path(sys.argv[1]), int(sys.argv[2])
for number in range(count):
    held = lease({servers}, f"worker {{os.getpid()}}", timeout_s=60, folder=folder / "locks")
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


def test_eight_processes_and_200_leases_with_kills_in_between(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    workers = [worker(tmp_path, 25) for _ in range(8)]
    doomed = [worker(tmp_path, 1000) for _ in range(3)]
    for process in doomed:
        assert process.stdout is not None
        for _ in range(random.randint(1, 5)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    told = [process.communicate(timeout=100)[0].splitlines() for process in workers]
    assert [process.wait() for process in workers] == [0] * 8
    for process in doomed:
        process.communicate(timeout=10)
    assert [line for lines in told for line in lines if line != "leased"] == []
    assert sum(map(len, told)) == 200


def test_a_lease_dies_with_its_owner(tmp_path: Path) -> None:
    program = "from pytest_vnc_use.desktops.pool import lease; from pathlib import Path; import signal\n"
    program += (
        f"held = lease(['host::1'], 'it', timeout_s=1, folder=Path({str(tmp_path)!r})); print('held', flush=True)\n"
    )
    program += "signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(DesktopRefused, match=rf"'host::1' by it \(process {process.pid}\)"):
        lease(["host::1"], "me", timeout_s=0.2, folder=tmp_path)
    process.kill()
    process.communicate(timeout=10)
    lease(["host::1"], "me", timeout_s=5, folder=tmp_path).release()


def test_the_second_of_a_pool_is_taken_while_the_first_is_used(tmp_path: Path) -> None:
    first = lease(SERVERS, "one", timeout_s=1, folder=tmp_path)
    second = lease(SERVERS, "two", timeout_s=1, folder=tmp_path)
    assert (first.server, second.server) == ("host::5901", "host::5902")
    first.release()
    first.release()
    assert lease(SERVERS, "three", timeout_s=1, folder=tmp_path).server == "host::5901"
    second.release()


def test_an_address_is_one_desktop_however_it_is_spelled(tmp_path: Path) -> None:
    held = lease(["localhost:1"], "one", timeout_s=1, folder=tmp_path)
    for spelling in ("localhost::5901", "127.0.0.1::5901", "127.0.0.1:1", ":1"):
        with pytest.raises(DesktopRefused):
            lease([spelling], "two", timeout_s=0, folder=tmp_path)
    held.release()


def test_who_holds_what_is_told(tmp_path: Path) -> None:
    held = lease(["host::1"], "test_basket", timeout_s=1, folder=tmp_path)
    with pytest.raises(
        DesktopRefused, match=rf"no desktop .* 0.1 s; held: 'host::1' by test_basket \(process {os.getpid()}\)"
    ):
        lease(["host::1"], "me", timeout_s=0.1, folder=tmp_path)
    held.release()
