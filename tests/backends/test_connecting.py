"""Connecting: by every spelling of a server, and each way it can go wrong is a clear error within its time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_socket
from freezegun import freeze_time

from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, SettingsError, VncUseError
from support import vnc_servers
from support.vnc_servers import VncServer

Connect = Callable[..., VNCController]


@contextmanager
def listener(greeting: bytes = b"") -> Iterator[str]:
    """A server that accepts, says `greeting` and nothing more; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            connection, _ = server.accept()
            connection.sendall(greeting)
            accepted.append(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1::{server.getsockname()[1]}"
        thread.join(timeout=30)
        for connection in accepted:
            connection.close()


def assert_refused(address: str, error: type[VncUseError], message: str, **options: object) -> None:
    started_s = time.monotonic()
    with pytest.raises(error, match=message):
        connect(address, **options)  # type: ignore[arg-type]
    assert time.monotonic() - started_s < 15.0


def test_by_port_display_and_name(tigervnc: VncServer) -> None:
    port = int(tigervnc.address.rpartition(":")[2])
    for address in (
        *(f"127.0.0.1::{port}", f"127.0.0.1:{port - 5900}", f"localhost::{port}", f"localhost:{port - 5900}"),
        *(f"localhost:{port}", f"vnc://localhost:{port}", f"VNC://127.0.0.1:{port}/", f"vnc://localhost:{port - 5900}"),
    ):
        hands = connect(address)
        assert hands.size == (1024, 768)
        hands.close()


@pytest.mark.desktop
def test_by_ipv6() -> None:
    with vnc_servers.tigervnc(interface="::1") as server:
        hands = connect(f"[::1]::{server.address.rpartition(':')[2]}")
        assert hands.size == (1024, 768)
        hands.close()


@pytest.mark.desktop
@pytest.mark.parametrize("types", ["VncAuth,None", "None,VncAuth"])
def test_none_beside_password_used_without_password(tmp_path: Path, types: str) -> None:
    file = vnc_servers.password_file(tmp_path, "geheim")
    with vnc_servers.tigervnc(password_file=file, options=["-SecurityTypes", types]) as server:
        for password, used in ((None, "None"), ("geheim", "VncAuth")):
            facts = ServerFacts()
            connect(server.address, password, facts=facts).close()
            assert (sorted(facts.security_types), facts.security_used) == (["None", "VncAuth"], used)


def test_refused_port() -> None:
    port = vnc_servers.free_port()
    for address in (f"127.0.0.1::{port}", f"127.0.0.1:{port}", f"vnc://127.0.0.1:{port}"):
        reason = f"no VNC connection to '{address}', host '127.0.0.1', port {port}: .*refused"
        assert_refused(address, DesktopRefused, reason)


GREETINGS = {
    b"": "showed no screen within 0.5 s",
    b"RFB 003.008\n": "showed no screen within 0.5 s",
    b"SSH-2.0-OpenSSH_9.2\r\n": "does not speak VNC",
}
REFUSED: list[tuple[str, type[VncUseError], str, dict[str, object]]] = [
    ("/nonexistent/socket", DesktopRefused, "there is no unix socket '/nonexistent/socket'", {}),
    ("198.51.100.1::5900", DesktopRefused, "no", {"timeout_s": 0.5}),  # it swallows packets
    ("127.0.0.1::5900", SettingsError, "ASCII", {"password": "geheimß"}),
    *(
        (f"{host}::5901", SettingsError, r"must be an IP address or a host name", {})
        for host in ("a..b", "x" * 64, "my_app", "a b", "b\u200bc", "\ud800", "xn--a")
    ),
]


@pytest.mark.parametrize(("greeting", "message"), GREETINGS.items())
def test_server_without_screen_is_refused_in_time(greeting: bytes, message: str) -> None:
    with listener(greeting) as address:
        assert_refused(address, DesktopRefused, message, timeout_s=0.5)


@pytest.mark.parametrize(("address", "error", "message", "options"), REFUSED)
def test_server_out_of_reach_is_refused(
    address: str, error: type[VncUseError], message: str, options: dict[str, object]
) -> None:
    assert_refused(address, error, message, **options)


def test_connect_frozen_clock_is_refused_in_time() -> None:
    with listener() as address, freeze_time("2030-01-02"):
        assert_refused(address, DesktopRefused, "showed no screen within 0.5 s", timeout_s=0.5)


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_connect_sockets_blocked_names_what_to_allow(host: str) -> None:
    pytest_socket.disable_socket(allow_unix_socket=True)
    try:
        assert_refused(f"{host}::5900", DesktopRefused, "pytest-socket blocks sockets. .* --allow-hosts=HOST")
    finally:
        pytest_socket.enable_socket()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        *(
            (address, f"a VNC server must be 'host::port'.*got {address!r}$")
            for address in ("localhost:one", "a:1:2:3")
        ),
        ("[::1:5", "a VNC server must be 'host::port'"),
        ("localhost::65536", "a VNC server must be"),
        ("5999", "got '5999'. For a port of this machine write 'localhost::5999'$"),
        ("vnc://desk/websockify", "got 'vnc://desk/websockify'"),
        ("rdp://desk:3389", "a VNC server must be .*got 'rdp://desk:3389'"),
        ("http://desk:6080/vnc.html?password=geheim", "got the web page 'http://desk:6080/vnc.html'.*'ws://desk:6080/"),
        ("https://desk/vnc.html#x", "If that is noVNC, write 'wss://desk/websockify', or the path"),
        ("vnc://alice:geheim@desk:5900", "must not contain a user name or a password"),
    ],
)
def test_invalid_address_raises_settings_error(address: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as refused:
        connect(address)
    assert "geheim" not in str(refused.value)


def test_after_failure_next_connection_works(tigervnc: VncServer, connected: Connect) -> None:
    with listener(b"nonsense, no VNC") as address, pytest.raises(DesktopRefused):
        connect(address, timeout_s=0.5)
    assert connected(tigervnc).size == (1024, 768)


def test_everything_on_closed_connection_says_so(tigervnc: VncServer) -> None:
    hands = connect(tigervnc.address)
    hands.close()
    hands.close()
    for call in (hands.frame, hands.settle, lambda: hands.click(1, 1), lambda: hands.key_combo("a")):
        with pytest.raises(ConnectionLost, match="is closed"):
            call()
