"""A connection through ssh, by a real sshd: its end is the connection's, and hosts are checked as ssh checks them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.inspection import ServerFacts, inspect
from pytest_vnc_use.backends.rfb.place import Place
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, SettingsError
from pytest_vnc_use.types import Move, TypeText
from pytest_vnc_use.types.wire import Wire
from support import vnc_servers
from support.ssh_server import ssh_server
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import xterm

WRAPPER = """#!/bin/sh
echo $$ >>{folder}/started
exec {ssh} -F {folder}/ssh_config "$@"
"""


@pytest.fixture
def tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """The address of an sshd. `ssh` is the real one, and has a configuration of the test's own."""
    with ssh_server(tmp_path) as command:
        port = command.split()[-2]
        (tmp_path / "bin").mkdir()
        ssh = tmp_path / "bin" / "ssh"
        ssh.write_text(WRAPPER.format(folder=tmp_path, ssh=shutil.which("ssh")))
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        yield Wire(tunnel=f"ssh://desktop-host:{port}")


@pytest.fixture(scope="module")
def server() -> Iterator[VncServer]:
    with vnc_servers.tigervnc() as server:
        yield server


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "started").read_text().split()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.desktop
def test_a_screen_through_ssh_and_its_end(server: VncServer, tunnel: Wire, tmp_path: Path) -> None:
    facts = ServerFacts()
    with closing(inspect(server.address, None, facts, wire=tunnel)) as eyes:
        assert eyes.frame().ref.width == 1024
        (pid,) = pids(tmp_path)
        said = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert b"BatchMode=yes" in said
        assert eyes.exposure == ""
    assert facts.protection == f"the tunnel {tunnel.tunnel}"
    wait_for(lambda: gone(pid), "the end of ssh", timeout_s=10)


@pytest.mark.desktop
def test_what_was_typed_last_arrives_before_the_end(server: VncServer, tunnel: Wire, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with xterm(server, f"cat >{typed}"):
        for number in range(3):
            with closing(connect(server.address, wire=tunnel)) as hands:
                hands.perform(Move(100, 100))
                hands.perform(TypeText(f"text {number}", press_enter=True))
            wait_for(lambda wanted=f"text {number}\n": wanted in typed.read_text(), f"the arrival of text {number}", 5)


@pytest.mark.desktop
def test_ssh_ends_with_a_process_that_is_killed(server: VncServer, tunnel: Wire, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pytest_vnc_use.backends.vnc import connect; "
        "from pytest_vnc_use.types.wire import Wire; "
        "connect(sys.argv[1], wire=Wire(tunnel=sys.argv[2])); print('there', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, server.address, tunnel.tunnel]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"there\n"
        process.send_signal(signal.SIGKILL)
    (pid,) = pids(tmp_path)
    wait_for(lambda: gone(pid), "the end of ssh", timeout_s=10)


@pytest.mark.desktop
def test_the_end_of_ssh_is_the_end_of_the_connection(server: VncServer, tunnel: Wire, tmp_path: Path) -> None:
    with closing(connect(server.address, wire=tunnel)) as eyes:
        os.kill(pids(tmp_path)[0], signal.SIGKILL)
        with pytest.raises(ConnectionLost, match=r"was lost|closed"):
            eyes.wait(10.0)


def test_errors_say_what_ssh_said(tunnel: Wire, tmp_path: Path) -> None:
    with pytest.raises(DesktopRefused, match=r"no tunnel to '127.0.0.1::1' by `ssh -W .*forwarding failed"):
        connect("127.0.0.1::1", wire=tunnel)
    host_key = (tmp_path / "host.pub").read_text().split()[1]
    (tmp_path / "known").write_text((tmp_path / "known").read_text().replace(host_key, _other_key(tmp_path)))
    with pytest.raises(DesktopRefused, match="Host key verification failed"):
        connect("127.0.0.1::1", wire=tunnel)


def _other_key(folder: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "other"], check=True)
    return (folder / "other.pub").read_text().split()[1]


def test_what_cannot_be_tunnelled(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--vnc-tunnel needs host::port or host:display, got the socket"):
        connect(str(tmp_path), wire=Wire(tunnel="ssh://host"))


@pytest.mark.parametrize("host", ["${HOME}", "%h", "-oProxyCommand=id", "a b", "$(id)", "[fe80::1%eth0]"])
@pytest.mark.parametrize("address", ["{}::5901", "ws://{}:5901"])
def test_ssh_gets_no_host_that_it_could_expand_or_take_for_an_option(host: str, address: str) -> None:
    with pytest.raises(SettingsError, match=r"must be an IP address, or a name of ASCII|the address must be ws:"):
        Place.of(address.format(host), Wire(tunnel="ssh://testbox"))


@pytest.mark.parametrize("host", ["localhost", "10.0.0.5", "my_app", "desk-1.example", "[::1]", "[fe80::1]"])
def test_ssh_gets_a_plain_host(host: str) -> None:
    assert Place.of(f"{host}::5901", Wire(tunnel="ssh://testbox")).port == 5901


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "${HOME}", "%h", "a@-b", "a b", "$(id)", "host\n"])
def test_a_tunnel_to_no_plain_host(host: str) -> None:
    with pytest.raises(SettingsError, match="--vnc-tunnel must be ssh://HOST"):
        Wire(tunnel=f"ssh://{host}")
