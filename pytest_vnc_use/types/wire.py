"""The connection between this process and a VNC server: its address, its encryption,
and the user's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from pytest_vnc_use.errors import SettingsError

TlsChoice = Literal["auto", "require", "off"]
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")
_FIRST_PORT = 5900
"""The port of display 0."""
_FIRST_TO_BE_A_PORT = 100
"""The first number behind one colon that is a port and no display, as in TigerVNC's
viewer.
"""
_ENDPOINT = re.compile(r"(\[[^\]]*\]|[^:/@\[\]]*)(?:(::?)([0-9]{1,5}))?")


def host_and_port(address: str) -> tuple[str, int] | None:
    """Return host ("" if there is none) and port of `host::port`, `host:display`,
    `host:port` or `vnc://host:port`.

    Return None for a WebSocket and the path of a unix socket. Raises SettingsError.
    """
    visible = re.split(r"[?#]", address)[0]
    scheme, separator, remainder = visible.partition("://")
    kind = scheme.lower() if separator else ""
    if kind in ("ws", "wss") or (not kind and "/" in address):
        return None
    if "@" in remainder:
        raise SettingsError(
            "the URL must not contain a user name or a password, because reports"
            " show it"
        )
    if kind in ("http", "https"):
        authority = remainder.partition("/")[0]
        socket = f"{kind.replace('http', 'ws')}://{authority}/websockify"
        raise SettingsError(
            "a VNC server must be given by its own address, got the web page"
            f" {visible!r}. If that is noVNC, write {socket!r}, or the path that its"
            " settings name"
        )
    endpoint = _ENDPOINT.fullmatch(remainder.rstrip("/") if kind == "vnc" else visible)
    host, colons, number = endpoint.groups() if endpoint else ("", "", "")
    port = int(number or 0)
    if colons != "::" and port < _FIRST_TO_BE_A_PORT:
        port += _FIRST_PORT
    if not endpoint or port > 65535 or host.isdecimal():
        remedy = ""
        if host.isdecimal():
            remedy = f". For a port of this machine write 'localhost::{host}'"
        raise SettingsError(
            "a VNC server must be 'host::port', 'host:display', 'vnc://host:port',"
            f" 'ws://…', 'wss://…' or a socket's path, got {visible!r}{remedy}"
        )
    return host.strip("[]"), port


@dataclass(frozen=True)
class Wire:
    """The rules for one connection. `of` makes them from settings."""

    user: str = ""
    """The name for servers that ask for one."""
    tls: TlsChoice = "auto"
    """"auto" uses TLS if a server across a network offers a certificate, "require"
    requires it, "off" uses none.
    """
    tls_ca: str = ""
    """A file of authorities instead of the system's; requires TLS."""
    tls_fingerprint: str = ""
    """The fingerprint of the only accepted certificate; requires TLS."""
    password_env: str = "VNC_USE_PASSWORD"
    """The variable that errors name if a server wants a password."""

    @classmethod
    def of(cls, user: str, tls: str) -> Wire:
        """Return the rules that `vnc_tls` names: a choice, a fingerprint, or a file.
        Raises SettingsError.
        """
        if tls in get_args(TlsChoice):
            return cls(user, cast(TlsChoice, tls))
        fingerprint = _canonical(tls) if tls.lower().startswith("sha256:") else ""
        return cls(user, tls_ca="" if fingerprint else tls, tls_fingerprint=fingerprint)

    @property
    def requires_tls(self) -> bool:
        """Whether a connection without TLS must be rejected."""
        return self.tls == "require" or bool(self.tls_ca or self.tls_fingerprint)

    @property
    def demand(self) -> str:
        """The setting that requires TLS, as it is written; "" if none does."""
        if not self.requires_tls:
            return ""
        return f"vnc_tls={self.tls_ca or self.tls_fingerprint or self.tls}"


def _canonical(fingerprint: str) -> str:
    """Return the fingerprint in lower case and without colons between its bytes."""
    name, _, number = fingerprint.strip().lower().partition(":")
    canonical = f"{name}:{number.replace(':', '')}"
    if not _FINGERPRINT.fullmatch(canonical):
        raise SettingsError(
            f"vnc_tls must be sha256: and 64 hexadecimal digits, got {fingerprint!r}"
        )
    return canonical
