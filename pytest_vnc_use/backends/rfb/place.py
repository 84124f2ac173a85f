"""The place of a VNC server, read from its address, and the way there: a socket, TCP, a tunnel, a WebSocket."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import succeed
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint

from pytest_vnc_use.backends.rfb.handshake import ConnectionFactory
from pytest_vnc_use.backends.rfb.reactor import reactor
from pytest_vnc_use.backends.rfb.tls import ClientTls, check_rules
from pytest_vnc_use.backends.rfb.tunnel import Tunnel
from pytest_vnc_use.errors import DesktopRefused, SettingsError
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.types.wire import Wire, host_and_port

_WEBSOCKETS = ("ws://", "wss://")
_TUNNELLED = re.compile(r"[A-Za-z0-9_][\w.-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", re.ASCII)
"""The hosts that may be given to ssh: nothing that it could read as an option, a variable or a token."""


@dataclass(frozen=True)
class Place:
    """The path of a unix socket, or a host and a port, perhaps with the address of a WebSocket there."""

    path: str = ""
    host: str = ""
    port: int = 0
    url: Any = None  # a WebSocketURI; websockets is imported where it is needed

    @staticmethod
    def of(server: str, wire: Wire) -> Place:
        """Return the place at an address as `vnc.connect` takes it.

        Raises SettingsError if the address is invalid or contradicts the rules; DesktopRefused if there is no socket.
        """
        place = Place._read(server, wire)
        if wire.tunnel and not _TUNNELLED.fullmatch(place.host):
            raise SettingsError(
                "through --vnc-tunnel the host must be an IP address, or a name of ASCII letters, digits, '.', '-' and "
                f"'_', got {place.host!r}"
            )
        return place

    @staticmethod
    def _read(server: str, wire: Wire) -> Place:
        scheme = server.partition("://")[0].lower() + "://"
        if wire.requires_tls or scheme == "wss://":
            check_rules(wire)
        if scheme in _WEBSOCKETS:
            return _websocket(server, wire)
        found = host_and_port(server)
        return Place(host=found[0] or "127.0.0.1", port=found[1]) if found else _socket(server, wire)

    @property
    def is_socket(self) -> bool:
        """Return whether it is a unix socket."""
        return bool(self.path)

    def dial(self, factory: ConnectionFactory, timeout_s: float) -> Any:
        """Begin to connect the factory's protocol; return a Deferred. Raises DesktopRefused, SettingsError."""
        wire = factory.wire
        factory.host, factory.port = self.host, self.port
        inner: Any = factory
        if self.url is not None:
            from pytest_vnc_use.backends.rfb.websocket import WebSocketFactory

            factory.is_websocket = True
            inner = WebSocketFactory(factory, self.url, ClientTls(self.host, wire) if self.url.secure else None)
        if wire.tunnel and not self.is_socket:
            factory.tunnel = Tunnel(wire.tunnel, self.host, self.port, timeout_s)
            factory.tunnel.connect(inner)
            return succeed(None)
        if self.is_socket:
            return UNIXClientEndpoint(reactor, self.path, timeout=timeout_s).connect(inner)  # type: ignore[no-untyped-call]
        socket.socket().close()  # raises what pytest-socket would raise where names are resolved, which nothing reports
        return HostnameEndpoint(reactor, self.host, self.port, timeout=timeout_s).connect(inner)


def _websocket(server: str, wire: Wire) -> Place:
    from pytest_vnc_use.backends.rfb.websocket import parse_url

    url = parse_url(server)
    if wire.requires_tls and not url.secure:
        raise SettingsError(
            f"{wire.demand} requires TLS, but ws:// has none: give wss://, got {without_query(server)!r}"
        )
    if url.secure and wire.tls in ("anonymous", "off"):
        raise SettingsError(
            f"wss:// always checks the certificate, but vnc_tls={wire.tls} switches the check off. Remove "
            "vnc_tls. For a self-signed certificate set vnc_tls_fingerprint"
        )
    return Place(host=url.host, port=url.port, url=url)


def _socket(path: str, wire: Wire) -> Place:
    if wire.tunnel:
        raise SettingsError(f"--vnc-tunnel needs host::port or host:display, got the socket {path!r}")
    if not os.path.exists(path):  # noqa: PTH110  # Path.exists raises for a folder that may not be looked into
        raise DesktopRefused(f"there is no unix socket {path!r}")
    return Place(path=path)
