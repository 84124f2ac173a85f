"""VNC through a WebSocket: a real websockify before TigerVNC, and servers that do what they should not."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, SettingsError
from pytest_vnc_use.types import Move, TypeText
from pytest_vnc_use.types.wire import Wire
from support import vnc_servers
from support.certificates import Authority
from support.forked_python import run_python
from support.rfb_server import greeting
from support.vnc_servers import VncServer, wait_for, websockify
from support.witness_programs import xterm


@pytest.mark.desktop
def test_screen_and_keys_by_ws_and_by_wss(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.certificate("localhost", "127.0.0.1")
    tls = ("--cert", str(shown.file), "--key", str(shown.key), "--ssl-only")
    password = vnc_servers.password_file(tmp_path, "geheim")
    with vnc_servers.tigervnc(password_file=password) as server:
        with (
            websockify(server.address) as port,
            closing(connect(f"ws://localhost:{port}/websockify", "geheim")) as eyes,
        ):
            eyes.perform(TypeText("a text of some length " * 50))
            assert eyes.frame().ref.width == 1024
        with websockify(server.address, *tls) as port:
            address = f"wss://localhost:{port}/websockify"
            for wire in (Wire(tls_ca=str(authority.file)), Wire(tls_fingerprint=shown.fingerprint)):
                facts = ServerFacts()
                with closing(connect(address, "geheim", facts=facts, wire=wire)) as eyes:
                    assert eyes.frame().ref.width == 1024
                assert facts.protection == "wss, with a certificate that was checked"
            with pytest.raises(DesktopRefused, match="not accepted: unable to get local issuer certificate"):
                connect(address, "geheim")
            with pytest.raises(DesktopRefused, match="not accepted: its fingerprint is sha256:"):
                connect(address, "geheim", wire=Wire(tls_fingerprint="sha256:" + 64 * "0"))


def test_what_was_typed_last_arrives_before_end(tigervnc: VncServer, tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    with xterm(tigervnc, f"cat >{typed}"), websockify(tigervnc.address) as port:
        for number in range(3):
            with closing(connect(f"ws://localhost:{port}/websockify")) as hands:
                hands.perform(Move(100, 100))
                hands.perform(TypeText(f"text {number}", press_enter=True))
            wait_for(lambda wanted=f"text {number}\n": wanted in typed.read_text(), f"the arrival of text {number}", 5)


@contextmanager
def raw(answer: bytes) -> Iterator[str]:
    """Yield the address of a server that answers any request so, and listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            client, _ = server.accept()
            with client, suppress(OSError):
                client.recv(4096)
                client.sendall(answer)
                while client.recv(4096):
                    pass

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{server.getsockname()[1]}/"
        thread.join(timeout=10)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: ws://elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
            r"redirects to 'ws://elsewhere.example/' \(HTTP 302\). Redirects are not followed: give that address",
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: wss://elsewhere.example/?token=s3cret\r\nContent-Length: 0\r\n\r\n",
            r"redirects to 'wss://elsewhere.example/\?…' \(HTTP 302\)",
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404; is the path right, such as /websockify"),
        (b"RFB 003.008\n" + 200 * b"x", "opens no WebSocket: did not receive a valid HTTP response"),
        (
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            "opens no WebSocket: invalid Sec-WebSocket-Accept",
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + 100_000 * b"x", "opens no WebSocket"),
        (b"HTTP/1.1 101", "showed no screen within 2"),
    ],
    ids=["redirect", "redirect with a token", "404", "no HTTP", "wrong key", "long header", "stops"],
)
def test_who_opens_no_websocket(answer: bytes, message: str) -> None:
    started_s = time.monotonic()
    with raw(answer) as address, pytest.raises(DesktopRefused, match=message):
        connect(address, timeout_s=2.0)
    assert time.monotonic() - started_s < 6.0


@contextmanager
def sending(frames: bytes) -> Iterator[str]:
    """Yield the address of a server that opens a WebSocket and then sends these bytes below it."""

    def send(connection: ServerConnection) -> None:
        connection.socket.sendall(frames)
        try:
            for _ in connection:
                pass
        except ConnectionClosed:
            pass

    with serve(send, "127.0.0.1", 0, subprotocols=["binary"], compression=None) as server:  # type: ignore[list-item]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        server.shutdown()
        thread.join()


BINARY_4_GB = b"\x82\x7f" + struct.pack("!Q", 1 << 32)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (b"\x81\x05hello", "sends text through the WebSocket, but VNC is binary"),
        (BINARY_4_GB + 1000 * b"x", "violated the WebSocket protocol.*4294967296"),
        (b"\x00\x01x", "violated the WebSocket protocol: unexpected continuation"),
        (b"\x82\x85abcdhello", "violated the WebSocket protocol: incorrect masking"),
        (b"\x88\x02\x03\xe8", "closed the connection before it showed a screen|was lost"),
    ],
    ids=["text", "4 GB", "continuation", "masked", "close"],
)
def test_who_sends_what_is_no_vnc(frames: bytes, message: str) -> None:
    with sending(frames) as address, pytest.raises((DesktopRefused, ConnectionLost), match=message):
        connect(address, timeout_s=3.0)


TOKEN_TEST = """
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Move

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner([Move(5, 5)])

def test_it(vnc_settings, vnc_agent):
    vnc_agent.run("Look", expect=None)
    raise ValueError(vnc_agent.server)
"""


def test_query_of_address_is_shown_nowhere(tigervnc: VncServer, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TOKEN_TEST, encoding="utf-8")
    reports = ["--html=report.html", "--self-contained-html", "--junitxml=junit.xml", "-l", "-p", "no:pytest-vnc"]
    with xterm(tigervnc, "cat"), websockify(tigervnc.address) as port:
        address = f"ws://localhost:{port}/websockify"
        done = run_python("pytest", f"--vnc-server={address}?token=s3cr3tTOKEN", *reports, cwd=tmp_path, timeout=140)
    assert "1 failed" in done.stdout, done.stdout
    assert f"VncUseAgent at {address}?…" in done.stdout
    texts = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [path for path, text in texts.items() if b"s3cr3tTOKEN" in text] == []
    assert "s3cr3tTOKEN" not in done.stdout + done.stderr
    (trace,) = (tmp_path / "runs").glob("*/trace.jsonl")
    assert f'"server": "{address}?…"' in trace.read_text(encoding="utf-8").replace('":"', '": "')


def test_stream_in_pieces_and_ping() -> None:
    """What VNC sends may be cut anywhere, and a ping may come between."""
    said = greeting(64, 48)
    pieces = b"".join(b"\x82\x01" + bytes([byte]) for byte in said[:40]) + b"\x89\x01x"
    rest = said[40:]
    parts = b"\x02\x03" + rest[:3] + b"\x80" + bytes([len(rest) - 3]) + rest[3:]
    with sending(pieces + parts) as address, pytest.raises(DesktopRefused, match="showed no screen within"):
        connect(address, timeout_s=1.0)


def test_addresses_that_make_no_sense() -> None:
    for address, wire, message in (
        ("ws://", Wire(), r"ws://HOST:PORT/PATH or wss://…, got 'ws://'"),
        ("ws://alice:secret@h/", Wire(), "because reports show it"),
        ("ws://h/path?…", Wire(), "the query of 'ws://h/path\\?…' is stored nowhere.*give the whole URL"),
        ("ws://h:1/?a=s3cret", Wire(tls="require"), r"give wss://, got 'ws://h:1/\?…'$"),
        ("ws://h:x/?a=s3cret", Wire(), r"or wss://…, got 'ws://h:x/\?…'$"),
        ("ws://h/#s3cret", Wire(), r"or wss://…, got 'ws://h/\?…'$"),
        ("ws://h:1/", Wire(tls="require"), "vnc_tls=require requires TLS, but ws:// has none: give wss://"),
        ("wss://h:1/", Wire(tls="off"), "wss:// always checks the certificate, but vnc_tls=off"),
    ):
        with pytest.raises(SettingsError, match=message):
            connect(address, wire=wire)


def test_import_loads_neither_websockets_nor_reactor() -> None:
    """`twisted.internet.reactor` is the process's own: whoever imports it first decides which one it is."""
    names = {"websockets", "twisted.internet.reactor"}
    code = f"import sys; from pytest_vnc_use.backends import vnc; print({names} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
