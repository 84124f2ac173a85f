"""TLS by VeNCrypt and by WebSockets: certificates are checked, and a man in the middle
cannot take TLS out.
"""

from __future__ import annotations

import socketserver
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

import pytest
from websockets.sync.server import ServerConnection, serve

from pytest_vnc_use.agent.leasing import connect_to
from pytest_vnc_use.backends import security
from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    ConnectionLost,
    DesktopRefused,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Move, TypeText
from pytest_vnc_use.types.wire import Wire
from support import vnc_servers
from support.certificates import Authority, Certificate
from support.forked_python import run_python
from support.rfb_server import playing, serving
from support.vnc_servers import VncServer, wait_for, websockify
from support.witness_programs import xterm

BUSY_S = 60.0
"""How long a connection may take on a busy machine."""
VERSION = b"RFB 003.008\n"
VENCRYPT = VERSION + b"\x01\x13" + b"\0\2" + b"\0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def here(authority: Authority) -> Certificate:
    return authority.certificate("localhost", "127.0.0.1")


def secured(
    directory: Path, types: str, certificate: Certificate
) -> AbstractContextManager[VncServer]:
    """Return TigerVNC with the password `geheim`."""
    shown = ["-X509Cert", str(certificate.file), "-X509Key", str(certificate.key)]
    password = vnc_servers.password_file(directory, "geheim")
    return vnc_servers.tigervnc(
        password_file=password, options=["-SecurityTypes", types, *shown]
    )


@pytest.fixture(scope="module")
def x509(
    tmp_path_factory: pytest.TempPathFactory, here: Certificate
) -> Iterator[VncServer]:
    with secured(
        tmp_path_factory.mktemp("x509"), "X509Vnc,TLSVnc,VncAuth", here
    ) as server:
        yield server


@pytest.fixture(params=["authority", "fingerprint"])
def checking(
    request: pytest.FixtureRequest, authority: Authority, here: Certificate
) -> Wire:
    """A wire that checks the certificate, one way or the other."""
    if request.param == "authority":
        return Wire(tls_ca=str(authority.file))
    return Wire.of("", here.fingerprint.upper())


def used(address: str, wire: Wire) -> ServerFacts:
    """Connect, look at the screen, and return what was found out."""
    facts = ServerFacts()
    with closing(
        connect(address, "geheim", facts=facts, wire=wire, timeout_s=BUSY_S)
    ) as controller:
        assert controller.frame().ref.width == 1024
    return facts


def refused(
    address: str, message: str, wire: Wire, error: type[VncUseError] = DesktopRefused
) -> None:
    with pytest.raises(error, match=message):
        connect(
            address,
            "geheim",
            wire=wire,
            timeout_s=0.5 if "no screen" in message else BUSY_S,
        )


@pytest.mark.desktop
def test_certificate_is_checked_by_authority_or_fingerprint(
    x509: VncServer, checking: Wire
) -> None:
    facts = used(x509.address, checking)
    assert facts.security_used == "VeNCrypt X509Vnc"
    assert facts.subtypes == ("X509Vnc", "TLSVnc", "VncAuth")
    assert facts.protection == "TLS, with a certificate that was checked"


@pytest.mark.desktop
def test_certificate_of_unknown_authority_is_refused(x509: VncServer) -> None:
    refused(
        x509.address,
        "not accepted: unable to get local issuer certificate",
        Wire(tls="require"),
    )


@pytest.mark.desktop
def test_certificate_with_other_fingerprint_is_refused(
    x509: VncServer, here: Certificate
) -> None:
    refused(
        x509.address,
        f"its fingerprint is {here.fingerprint}, not sha256:0000",
        Wire(tls_fingerprint="sha256:" + 64 * "0"),
    )


@pytest.mark.desktop
def test_credentials_are_asked_for_before_tls(
    tmp_path: Path, authority: Authority
) -> None:
    """TigerVNC asks PAM, which knows no such user here: that it answers shows that name
    and password came.
    """
    ca = str(authority.file)
    with secured(tmp_path, "X509Plain", authority.certificate("127.0.0.1")) as server:
        refused(
            server.address,
            r"wants a user name \(X509Plain\).*vnc_username",
            Wire(tls_ca=ca),
            AuthenticationFailed,
        )
        refused(
            server.address,
            "refused the password",
            Wire(user="nobody-here", tls_ca=ca),
            AuthenticationFailed,
        )
    with secured(
        tmp_path, "X509None", authority.certificate("elsewhere.example")
    ) as server:
        refused(
            server.address,
            "not accepted: IP address mismatch, .* not valid for '127.0.0.1'",
            Wire(tls_ca=ca),
        )


def test_server_that_cheats_before_tls_is_refused() -> None:
    cheats: list[tuple[tuple[int, ...], bytes, str]] = [
        ((261,), b"\0", "then refused it"),
        ((261,), b"\1", "showed no screen within"),
        ((261,), b"\1RFB", "sent bytes before the TLS handshake"),
        (
            (256, 263),
            b"",
            "offers VeNCrypt with Plain, TLSSASL: make the server offer X509Vnc",
        ),
    ]
    for subtypes, then, message in cheats:
        block = bytes([len(subtypes)]) + struct.pack(f"!{len(subtypes)}I", *subtypes)
        with playing(VENCRYPT + block + then, then_silent=True) as address:
            refused(address, message, Wire(tls="require"))


@pytest.fixture
def _far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server counts as one on another machine."""
    monkeypatch.setattr(security, "is_local_connection", lambda _: False)


@pytest.mark.desktop
@pytest.mark.usefixtures("_far")
def test_across_network_certificate_is_preferred_and_checked(x509: VncServer) -> None:
    refused(
        x509.address, "not accepted: unable to get local issuer certificate", Wire()
    )
    assert used(x509.address, Wire(tls="off")).security_used == "VncAuth"


@pytest.mark.desktop
@pytest.mark.usefixtures("_far")
def test_tls_without_certificate_is_refused_or_warns_once(
    tmp_path: Path, here: Certificate, authority: Authority
) -> None:
    """Such a server offers TLS without a certificate first: it is asked again, for what
    it offers beside that.
    """
    exposed = (
        "is not encrypted: every user of the network can read all typed keys and all"
        " images, and can guess"
    )
    with secured(tmp_path, "TLSVnc,VncAuth", here) as server:
        problem = "offers VeNCrypt with TLSVnc.* without a certificate.*offer X509Vnc"
        refused(server.address, problem, Wire(tls_ca=str(authority.file)))
        settings = Settings(server=server.address)
        with pytest.warns(UserWarning, match=exposed):
            connect_to(settings, server.address, "geheim").close()
        # a second warning would be an error
        connect_to(settings, server.address, "geheim").close()


@pytest.mark.desktop
def test_screen_and_keys_by_ws(tmp_path: Path) -> None:
    password = vnc_servers.password_file(tmp_path, "geheim")
    typed = tmp_path / "typed"
    text = "a text of some length " * 50
    with (
        vnc_servers.tigervnc(password_file=password) as server,
        xterm(server, f"cat >{typed}"),
        websockify(server.address) as port,
    ):
        address = f"ws://localhost:{port}/websockify"
        with closing(connect(address, "geheim", timeout_s=BUSY_S)) as controller:
            assert controller.frame().ref.width == 1024
            controller.perform(Move(100, 100))
            controller.perform(TypeText(text, press_enter=True))
        wait_for(
            lambda: text in typed.read_text(),
            "the arrival of the last keys",
            BUSY_S,
        )


@pytest.fixture(scope="module")
def wss(tmp_path_factory: pytest.TempPathFactory, here: Certificate) -> Iterator[str]:
    """The URL of a desktop behind wss://, whose password is geheim."""
    password = vnc_servers.password_file(tmp_path_factory.mktemp("wss"), "geheim")
    tls = ["--cert", str(here.file), "--key", str(here.key), "--ssl-only"]
    with (
        vnc_servers.tigervnc(password_file=password) as server,
        websockify(server.address, *tls) as port,
    ):
        yield f"wss://localhost:{port}/websockify"


@pytest.mark.desktop
def test_screen_by_wss_is_protected(wss: str, checking: Wire) -> None:
    facts = used(wss, checking)
    assert facts.protection == "wss, with a certificate that was checked"


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        (Wire(), "unable to get local issuer certificate"),
        (
            Wire(tls_fingerprint="sha256:" + 64 * "0"),
            "its fingerprint is sha256:",
        ),
    ],
)
def test_unchecked_certificate_by_wss_is_refused(
    wss: str, wire: Wire, problem: str
) -> None:
    refused(wss, f"not accepted: {problem}", wire)


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
    reports = [
        "--html=report.html",
        "--self-contained-html",
        "--junitxml=junit.xml",
        "-l",
        "-p",
        "no:pytest-vnc",
    ]
    with xterm(tigervnc, "cat"), websockify(tigervnc.address) as port:
        address = f"ws://localhost:{port}/websockify"
        done = run_python(
            "pytest",
            f"--vnc-server={address}?token=s3cr3tTOKEN",
            *reports,
            cwd=tmp_path,
            timeout=140,
        )
    assert "1 failed" in done.stdout, done.stdout
    assert f"VncUseAgent at {address}?…" in done.stdout
    texts = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [path for path, text in texts.items() if b"s3cr3tTOKEN" in text] == []
    assert "s3cr3tTOKEN" not in done.stdout + done.stderr
    (trace,) = (tmp_path / "runs").glob("*/trace.jsonl")
    assert f'"server": "{address}?…"' in trace.read_text(encoding="utf-8").replace(
        '":"', '": "'
    )


@pytest.mark.parametrize(
    ("address", "wire", "message"),
    [
        ("ws://", Wire(), r"ws://HOST:PORT/PATH or wss://…, got 'ws://'"),
        ("ws://alice:secret@h/", Wire(), "because reports show it"),
        (
            "ws://h/path?…",
            Wire(),
            "the query of 'ws://h/path\\?…' is not stored.*Give the whole URL",
        ),
        ("ws://h:1/?a=s3cret", Wire(tls="require"), r"Use wss://, got 'ws://h:1/\?…'$"),
        ("ws://h/#s3cret", Wire(), r"or wss://…, got 'ws://h/\?…'$"),
        (
            "wss://h:1/",
            Wire(tls="off"),
            "wss:// always checks the certificate, but vnc_tls=off",
        ),
    ],
)
def test_address_without_sense_is_rejected(
    address: str, wire: Wire, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        connect(address, wire=wire)


def test_required_tls_taken_out_sends_nothing() -> None:
    greetings = (
        VERSION + b"\x01\x02" + bytes(16),
        VERSION + b"\x01\x01",
        b"RFB 003.003\n\0\0\0\2" + bytes(16),
    )
    for wire in (Wire(tls="require"), Wire(tls_fingerprint="sha256:" + 64 * "a")):
        for hello in greetings:
            with playing(hello, then_silent=True) as address:
                refused(address, f"{wire.demand} requires TLS. Nothing was sent", wire)


def test_invalid_rule_of_tls_raises_settings_error(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError,
        match="must be sha256: and 64 hexadecimal digits, got 'sha256:00'",
    ):
        Wire.of("", "sha256:00")
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(
        SettingsError,
        match=r"vnc_tls must be auto, .* or a readable file of certificates",
    ):
        connect("127.0.0.1::1", wire=Wire(tls_ca=str(tmp_path / "ca.pem")))


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (b"\x81\x05hello", "sends text through the WebSocket, but VNC is binary"),
        (
            b"\x82\x7f" + struct.pack("!Q", 1 << 32) + 1000 * b"x",
            "violated the WebSocket protocol.*4294967296",
        ),
    ],
    ids=["text", "too long"],
)
def test_websocket_without_vnc_is_refused(frames: bytes, message: str) -> None:
    def send(connection: ServerConnection) -> None:
        connection.socket.sendall(frames)
        connection.recv(timeout=30)

    with (
        serve(send, "127.0.0.1", 0, subprotocols=["binary"]) as server,  # type: ignore[list-item]
        ThreadPoolExecutor() as pool,
    ):
        pool.submit(server.serve_forever)
        port = server.socket.getsockname()[1]
        with pytest.raises((DesktopRefused, ConnectionLost), match=message):
            connect(f"ws://127.0.0.1:{port}/", timeout_s=BUSY_S)
        server.shutdown()


REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
NO_WEBSOCKET = {
    REDIRECT % b"wss://elsewhere.example/?token=s3cret": (
        r"redirects to 'wss://elsewhere.example/\?…' \(HTTP 302\)"
    ),
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n": (
        "HTTP 404. Check the path, such as /websockify"
    ),
    b"RFB 003.008\n" + 200 * b"x": (
        "opens no WebSocket: did not receive a valid HTTP response"
    ),
    b"HTTP/1.1 101": "showed no screen within 1",
}


@pytest.mark.parametrize(("answer", "message"), NO_WEBSOCKET.items())
def test_server_opening_no_websocket_is_refused(answer: bytes, message: str) -> None:
    class Server(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.recv(4096)
                self.request.sendall(answer)
                while self.request.recv(4096):
                    pass

    timeout_s = 1.0 if "no screen" in message else BUSY_S
    with serving(Server) as address, pytest.raises(DesktopRefused, match=message):
        connect(f"ws://{address.replace('::', ':')}/", timeout_s=timeout_s)
