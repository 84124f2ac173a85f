"""VNC through a WebSocket, as with websockify and noVNC: the binary messages are chunks
of VNC's stream.

The library's client blocks, so two threads copy the bytes between it and one end of a
pair of sockets. The VNC protocol has the other end.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

from twisted.internet.defer import succeed
from twisted.python.failure import Failure
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
)
from websockets.sync.client import ClientConnection, connect
from websockets.uri import WebSocketURI, parse_uri

from pytest_vnc_use.backends.client import DesktopFactory
from pytest_vnc_use.backends.reactor import reactor
from pytest_vnc_use.backends.security import (
    check_fingerprint,
    context_of,
    format_tls_error,
)
from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopRefused,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.plain_text import HIDDEN_QUERY, line, without_query
from pytest_vnc_use.types.wire import Wire

_MAX_MESSAGE_BYTES = 1 << 24
"""Longer messages are rejected at their header; websockify and QEMU send 64 KiB at
most.
"""
_PIECE_BYTES = 1 << 16
_VIOLATION_CODES = frozenset({1002, 1007, 1009})
"""The codes by which the library ends a connection that breaks the protocol (RFC 6455,
7.4.1).
"""
# DEBUG would log the keys that are typed
_SILENT = logging.Logger("vnc-websocket", logging.CRITICAL)


def parse_url(url: str, wire: Wire) -> WebSocketURI:
    """Return the parsed `ws://HOST:PORT/PATH` or `wss://…`. Raises SettingsError, also
    if the rules contradict it.
    """
    if url.endswith(HIDDEN_QUERY):
        raise SettingsError(
            f"the query of {url!r} is not stored, because it may grant access. Give the"
            " whole URL"
        )
    try:
        parsed = parse_uri(url)
    except (InvalidURI, ValueError) as exc:
        # it may contain a name and a password
        safe_url = re.sub(r"//.*@", "//…@", without_query(url))
        raise SettingsError(
            f"the URL must be ws://HOST:PORT/PATH or wss://…, got {safe_url!r}"
        ) from (None if safe_url != url else exc)
    if parsed.user_info:
        raise SettingsError(
            "the URL must not contain a user name or a password, because reports"
            " show it"
        )
    if wire.requires_tls and not parsed.secure:
        raise SettingsError(
            f"{wire.demand} requires TLS, but ws:// has none. Use wss://, got"
            f" {without_query(url)!r}"
        )
    if parsed.secure and wire.tls == "off":
        raise SettingsError(
            "wss:// always checks the certificate, but vnc_tls=off switches the check"
            " off. Remove vnc_tls. For a self-signed certificate set vnc_tls=sha256:…"
        )
    return parsed


def start(url: WebSocketURI, factory: DesktopFactory, timeout_s: float) -> Any:
    """Begin to connect the factory's protocol, in a separate thread. Call it on the
    reactor's thread.
    """
    factory.websocket = "wss" if url.secure else "ws"
    threading.Thread(
        target=_run, args=(factory, url, timeout_s), name="vnc-websocket", daemon=True
    ).start()
    return succeed(None)


def _run(factory: DesktopFactory, url: WebSocketURI, timeout_s: float) -> None:
    host = f"[{url.host}]" if ":" in url.host else url.host
    try:
        with (
            _open(factory, url, timeout_s) as connection,
            connect(
                f"ws://{host}:{url.port}{url.resource_name}",
                sock=connection,
                subprotocols=["binary"],  # type: ignore[list-item]
                compression=None,
                open_timeout=timeout_s,
                ping_interval=None,
                max_size=_MAX_MESSAGE_BYTES,
                logger=_SILENT,
            ) as websocket,
        ):
            _pump(factory, websocket)
    except ssl.SSLError as exc:
        factory.framebuffer.fail(DesktopRefused(format_tls_error(factory.server, exc)))
    except TimeoutError:
        pass  # the caller that waits for the screen has the same timeout
    except Exception as exc:  # noqa: BLE001  # each must reach the waiting caller
        # the cause is a redirect that was not followed
        error = exc.__cause__ if isinstance(exc.__cause__, InvalidStatus) else exc
        # the last two: with websockets 15, the server closes amid the handshake
        if isinstance(
            error, (InvalidHandshake, EOFError, ConnectionClosed, AssertionError)
        ):
            factory.framebuffer.fail(
                DesktopRefused(f"{factory.server!r} {_format_handshake_error(error)}")
            )
        else:
            factory.clientConnectionFailed(None, Failure(exc))  # type: ignore[no-untyped-call]


def _open(
    factory: DesktopFactory, url: WebSocketURI, timeout_s: float
) -> socket.socket:
    """Return a connected socket. The certificate is checked before anything is sent,
    such as a token in the query.
    """
    connection = socket.create_connection((url.host, url.port), timeout_s)
    try:
        factory.peers = connection.getpeername()[0], connection.getsockname()[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if url.secure:
            connection = context_of(factory.wire).wrap_socket(
                connection, server_hostname=url.host
            )
            check_fingerprint(connection, factory.wire)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def _pump(factory: DesktopFactory, websocket: ClientConnection) -> None:
    """Pump bytes in both directions until an end closes."""
    local, remote = socket.socketpair()

    def adopt() -> None:
        with local, suppress(VncUseError):
            factory.framebuffer.raise_if_lost()  # the caller has given up
            local.setblocking(False)
            reactor.adoptStreamConnection(local.fileno(), local.family, factory)

    reactor.callFromThread(adopt)
    threading.Thread(
        target=_send, args=(websocket, remote), name="vnc-websocket", daemon=True
    ).start()
    try:
        while not isinstance(message := websocket.recv(), str):
            remote.sendall(message)
        _break_off(
            factory,
            "sends text through the WebSocket, but VNC is binary: is this a VNC"
            " server's address?",
        )
    except ConnectionClosed as exc:
        if exc.sent and exc.sent.code in _VIOLATION_CODES:
            _break_off(
                factory, f"violated the WebSocket protocol: {line(exc.sent.reason)}"
            )
    except OSError:
        pass  # the VNC protocol has ended
    with suppress(OSError):
        remote.shutdown(socket.SHUT_RDWR)


def _send(websocket: ClientConnection, remote: socket.socket) -> None:
    with remote, suppress(ConnectionClosed, OSError):
        while data := remote.recv(_PIECE_BYTES):
            websocket.send(data)
    websocket.close()


def _break_off(factory: DesktopFactory, problem: str) -> None:
    is_open = factory.opened is not None and factory.opened.handshaken
    factory.framebuffer.fail(
        (ConnectionLost if is_open else DesktopRefused)(f"{factory.server!r} {problem}")
    )


def _format_handshake_error(error: Exception) -> str:
    if not isinstance(error, InvalidStatus):
        reason = line(error) or "the server closed the connection"
        return (
            f"opens no WebSocket: {reason}; the address of a plain VNC server is"
            " host::port, without ws://"
        )
    response = error.response
    location = line(without_query(response.headers.get("Location", "")))
    if 300 <= response.status_code < 400 and location:
        return (
            f"redirects to {location!r} (HTTP {response.status_code}). Redirects are"
            " not followed. Use that URL "
        )
    return (
        f"opens no WebSocket: HTTP {response.status_code}. Check the path, such as"
        " /websockify"
    )
