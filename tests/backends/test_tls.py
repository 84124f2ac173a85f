"""VeNCrypt: TLS to a real TigerVNC; the certificate is checked; nobody between can take TLS out."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vnc_use.agent.build import connect_to
from pytest_vnc_use.backends import security
from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.cli.doctor import diagnose
from pytest_vnc_use.errors import AuthenticationFailed, DesktopRefused, SettingsError, VncUseError
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.wire import Wire
from support import vnc_servers
from support.certificates import Authority, Certificate
from support.rfb_server import playing
from support.stages.qt import sway
from support.vnc_servers import VncServer

VERSION = b"RFB 003.008\n"
VENCRYPT = VERSION + b"\x01\x13" + b"\0\2" + b"\0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def here(authority: Authority) -> Certificate:
    return authority.certificate("localhost", "127.0.0.1")


def secured(directory: Path, types: str, certificate: Certificate) -> AbstractContextManager[VncServer]:
    """Return TigerVNC with the password `geheim`."""
    shown = ["-X509Cert", str(certificate.file), "-X509Key", str(certificate.key)]
    password = vnc_servers.password_file(directory, "geheim")
    return vnc_servers.tigervnc(password_file=password, options=["-SecurityTypes", types, *shown])


@pytest.fixture
def x509(tmp_path: Path, here: Certificate) -> Iterator[VncServer]:
    with secured(tmp_path, "X509Vnc,TLSVnc,VncAuth", here) as server:
        yield server


def used(server: VncServer, wire: Wire, password: str | None = "geheim") -> ServerFacts:
    """Connect, look at the screen, and return what was found out."""
    facts = ServerFacts()
    with closing(connect(server.address, password, facts=facts, wire=wire)) as eyes:
        assert eyes.frame().ref.width == 1024
    return facts


def refused(
    address: str, message: str, wire: Wire, error: type[VncUseError] = DesktopRefused, timeout_s: float = 3.0
) -> None:
    started_s = time.monotonic()
    with pytest.raises(error, match=message):
        connect(address, "geheim", wire=wire, timeout_s=timeout_s)
    assert time.monotonic() - started_s < 8.0


@pytest.mark.desktop
def test_certificate_is_checked_by_authority_or_fingerprint(
    x509: VncServer, authority: Authority, here: Certificate
) -> None:
    for wire in (Wire(tls_ca=str(authority.file)), Wire.of("", here.fingerprint.upper())):
        facts = used(x509, wire)
        assert (facts.security_used, facts.subtypes) == ("VeNCrypt X509Vnc", ("X509Vnc", "TLSVnc", "VncAuth"))
        assert facts.protection == "TLS, with a certificate that was checked"
    refused(x509.address, "not accepted: unable to get local issuer certificate", Wire(tls="require"))
    other = Wire(tls_fingerprint="sha256:" + 64 * "0")
    refused(x509.address, f"its fingerprint is {here.fingerprint}, not sha256:0000", other)


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("types", "names", "days", "problem"),
    [
        ("X509Vnc", ("elsewhere.example",), 2, "not accepted: IP address mismatch, .* not valid for '127.0.0.1'"),
        ("X509Vnc", ("127.0.0.1",), -1, "not accepted: certificate has expired"),
        ("TLSVnc", ("127.0.0.1",), 2, "offers VeNCrypt with TLSVnc, all without a certificate.*offer X509Vnc"),
    ],
)
def test_invalid_certificate_is_refused(
    tmp_path: Path, authority: Authority, types: str, names: tuple[str, ...], days: int, problem: str
) -> None:
    with secured(tmp_path, types, authority.certificate(*names, days=days)) as server:
        refused(server.address, problem, Wire(tls_ca=str(authority.file)))


@pytest.mark.desktop
def test_credentials_are_asked_for_before_tls(tmp_path: Path, here: Certificate, authority: Authority) -> None:
    """TigerVNC asks PAM, which knows no such user here: that it answers shows that name and password came."""
    ca = str(authority.file)
    with secured(tmp_path, "X509Vnc,X509None", here) as server:
        assert used(server, Wire(tls_ca=ca), None).security_used == "VeNCrypt X509None"
        with pytest.raises(AuthenticationFailed, match="refused the password"):
            connect(server.address, "falsch", wire=Wire(tls_ca=ca))
    with secured(tmp_path, "X509Plain", here) as server:
        refused(server.address, r"wants a user name \(X509Plain\).*vnc_username", Wire(tls_ca=ca), AuthenticationFailed)
        refused(server.address, "refused the password", Wire(user="nobody-here", tls_ca=ca), AuthenticationFailed)


DEMANDS = [Wire(tls="require"), Wire(tls_fingerprint="sha256:" + 64 * "a")]


@pytest.mark.parametrize("wire", DEMANDS, ids=["require", "fingerprint"])
@pytest.mark.parametrize(
    "greeting",
    [VERSION + b"\x01\x02" + bytes(16), VERSION + b"\x01\x01", b"RFB 003.003\n\0\0\0\2" + bytes(16)],
    ids=["VncAuth", "None", "3.3"],
)
def test_who_takes_tls_out_gets_nothing(wire: Wire, greeting: bytes) -> None:
    with playing(greeting, then_silent=True) as address:
        refused(address, f"{wire.demand} requires TLS. Nothing was sent", wire)


@pytest.mark.parametrize(
    ("subtypes", "then", "message", "timeout_s"),
    [
        ((261,), b"", "showed no screen within", 0.5),
        ((261,), b"\0", "then refused it", 3.0),
        ((261,), b"\1", "showed no screen within", 0.5),
        ((261,), b"\1RFB", "sent bytes before the TLS handshake", 3.0),
        ((256, 263), b"", "offers VeNCrypt with Plain, TLSSASL: make the server offer X509Vnc", 3.0),
        ((), b"", "offered no VeNCrypt sub-type", 3.0),
    ],
)
def test_server_that_cheats_before_tls_is_refused(
    subtypes: tuple[int, ...], then: bytes, message: str, timeout_s: float
) -> None:
    block = bytes([len(subtypes)]) + struct.pack(f"!{len(subtypes)}I", *subtypes)
    with playing(VENCRYPT + block + then, then_silent=True) as address:
        refused(address, message, Wire(tls="require"), timeout_s=timeout_s)


def test_wire_of_malformed_fingerprint_raises() -> None:
    with pytest.raises(SettingsError, match="must be sha256: and 64 hexadecimal digits, got 'sha256:00'"):
        Wire.of("", "sha256:00")


def test_file_of_authorities_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(SettingsError, match=r"vnc_tls must be auto, .* or a readable file of certificates"):
            connect("127.0.0.1::1", wire=Wire(tls_ca=str(tmp_path / name)))


@pytest.fixture
def _far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server counts as one on another machine."""
    monkeypatch.setattr(security, "stays_here", lambda _: False)


@pytest.mark.desktop
@pytest.mark.usefixtures("_far")
def test_across_network_certificate_is_preferred_and_checked(x509: VncServer) -> None:
    refused(x509.address, "not accepted: unable to get local issuer certificate", Wire())
    assert used(x509, Wire(tls="off")).security_used == "VncAuth"


@pytest.mark.desktop
@pytest.mark.usefixtures("_far")
def test_unencrypted_connection_warns_once(tmp_path: Path, here: Certificate) -> None:
    """Such a server offers TLS without a certificate first: it is asked again, for what it offers beside that."""
    exposed = "is not encrypted: every user of the network can read all typed keys and all images, and can guess"
    with secured(tmp_path, "TLSVnc,VncAuth", here) as server:
        settings = Settings(server=server.address)
        with pytest.warns(UserWarning, match=exposed):
            connect_to(settings, server.address, "geheim").close()
        connect_to(settings, server.address, "geheim").close()  # a second warning would be an error


@pytest.mark.desktop
@pytest.mark.usefixtures("_far")
def test_doctor_says_that_others_can_read_along() -> None:
    with vnc_servers.tigervnc() as server:
        (found,) = [
            each
            for each in diagnose(Settings(server=server.address), typing=False, only_asked=True)
            if each.about == "security"
        ]
    assert found.word == "--"
    assert "used here: None, nothing is encrypted: every user of the network can read all typed keys" in found.text
    assert "guess" not in found.text


@pytest.mark.desktop
def test_wayvnc_with_user_name(tmp_path: Path, here: Certificate, authority: Authority) -> None:
    """It takes nothing but VeNCrypt, and the right name with the right password.

    wayvnc 0.5 tells another name that it is right, then sends bytes of its memory.
    """
    vnc_servers.require("wayvnc")
    with sway((640, 480)) as wayland:
        directory = Path(wayland["XDG_RUNTIME_DIR"])
        config, key, certificate = (directory / name for name in ("config", "key.pem", "certificate.pem"))
        key.write_bytes(here.key.read_bytes())
        certificate.write_bytes(here.file.read_bytes())
        config.write_text(
            f"enable_auth=true\nusername=alice\npassword=geheim\nprivate_key_file={key}\ncertificate_file={certificate}\n"
        )

        def start(port: int) -> AbstractContextManager[subprocess.Popen[bytes]]:
            return vnc_servers.running("wayvnc", "-C", str(config), "127.0.0.1", str(port), environment=wayland)

        wire = Wire(user="alice", tls_ca=str(authority.file))
        with vnc_servers.on_free_port(start) as server:
            facts = ServerFacts()
            with closing(connect(server.address, "geheim", facts=facts, wire=wire)) as eyes:
                assert eyes.frame().ref.width in (640, 1280)  # sway changes its size a moment after it started
            assert facts.security_used == "VeNCrypt X509Plain"
            assert (facts.security_types, facts.subtypes) == (("VeNCrypt",), ("X509Plain",))
        with vnc_servers.on_free_port(start) as server:
            refused(server.address, "does not speak VNC as expected|closed the connection", replace(wire, user="bob"))
