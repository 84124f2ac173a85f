"""VNC through a WebSocket, as with websockify and noVNC: each binary frame is a piece of the stream."""

from __future__ import annotations

import logging
import re
from typing import Any

from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import WebSocketURI, parse_uri

from pytest_vnc_use.backends.rfb.reactor import implementer
from pytest_vnc_use.backends.rfb.tls import ClientTls
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, SettingsError
from pytest_vnc_use.plain_text import HIDDEN_QUERY, line, without_query

_MOST_MESSAGE_BYTES = 1 << 24
"""Longer messages are refused at their header; websockify and QEMU send 64 KiB at most."""
_SILENT = logging.Logger("vnc-websocket", logging.CRITICAL)  # DEBUG would log the keys that are typed


def parse_url(url: str) -> WebSocketURI:
    """Return the parts of `ws://HOST:PORT/PATH` or `wss://…`. Raises SettingsError."""
    if url.endswith(HIDDEN_QUERY):
        raise SettingsError(f"the query of {url!r} is stored nowhere, as it may let others in: give the whole address")
    try:
        parts = parse_uri(url)
    except (InvalidURI, ValueError) as exc:
        safe_url = re.sub(r"//.*@", "//…@", without_query(url))  # it may contain a name and a password
        raise SettingsError(f"the address must be ws://HOST:PORT/PATH or wss://…, got {safe_url!r}") from (
            None if safe_url != url else exc
        )
    if parts.user_info:
        raise SettingsError("the address must not contain a user name or a password, because reports show it")
    return parts


class WebSocketFactory(ClientFactory):
    """A factory that puts a WebSocket, with TLS or without, below the protocol of a connection's factory."""

    noisy = False

    def __init__(self, inner: Any, url: WebSocketURI, tls: ClientTls | None) -> None:
        self._inner, self._url, self._tls = inner, url, tls

    def buildProtocol(self, address: object) -> Protocol:
        """Return a WebSocket around a new protocol."""
        return WebSocket(self._inner, self._inner.buildProtocol(address), self._url, self._tls)


@implementer(IHandshakeListener)
class WebSocket(Protocol):
    """The client's side of a WebSocket. It is the transport of the VNC protocol, which begins once it is open."""

    transport: Any
    disconnecting = False

    def __init__(self, factory: Any, inner: Any, url: WebSocketURI, tls: ClientTls | None) -> None:
        self._factory, self._inner, self._tls = factory, inner, tls
        self._talk = ClientProtocol(url, subprotocols=["binary"], max_size=_MOST_MESSAGE_BYTES, logger=_SILENT)  # type: ignore[list-item]
        self._is_open = False

    def connectionMade(self) -> None:
        """Start TLS, or ask for the WebSocket at once."""
        self._factory.lowest = self.transport
        if self._tls:
            self._factory.tls = self._tls
            self._tls.start(self)
        else:
            self._ask()

    def handshakeCompleted(self) -> None:
        """Check the certificate, before anything is sent."""
        assert self._tls
        if problem := self._tls.check(self.transport.getHandle()):
            self._tls.problem = problem
            self.abortConnection()
        else:
            self._ask()

    def _ask(self) -> None:
        self._talk.send_request(self._talk.connect())
        self._flush()

    def dataReceived(self, data: bytes) -> None:
        """Pass on the content of binary frames; end the connection at anything else."""
        self._talk.receive_data(data)
        for event in self._talk.events_received():
            self._handle(event)
        if self._talk.handshake_exc:
            self._refuse(_in_words(self._talk.handshake_exc))
        elif self._talk.parser_exc:
            self._refuse(f"broke the WebSocket protocol: {line(self._talk.parser_exc)}")
        else:
            self._flush()

    def _handle(self, event: object) -> None:
        match event:
            case Response() if not self._talk.handshake_exc:
                self._is_open = True
                self._inner.makeConnection(self)
            case Frame(Opcode.TEXT):
                self._refuse("sends text through the WebSocket, but VNC is binary: is this a VNC server's address?")
            case Frame(Opcode.BINARY | Opcode.CONT, data) if self._is_open and not self._factory.is_over:
                self._inner.dataReceived(bytes(data))

    def _refuse(self, what: str) -> None:
        kind = ConnectionLost if self._is_open else DesktopRefused
        self._factory.fail(kind(f"{self._factory.server!r} {what}"))
        self.abortConnection()

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Report the end to the protocol, or, before that began, to the factory."""
        if self._is_open:
            self._inner.connectionLost(reason)
        else:
            self._factory.clientConnectionLost(None, reason)

    # --- the transport of the VNC protocol ---

    def write(self, data: bytes) -> None:
        """Send bytes; once the WebSocket is closing they are dropped."""
        if self._talk.state is State.OPEN:
            self._talk.send_binary(data)
            self._flush()

    def getPeer(self) -> Any:
        """Return the address at the other end."""
        return self.transport.getPeer()

    def getHost(self) -> Any:
        """Return the address at this end."""
        return self.transport.getHost()

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Make the VNC protocol stop reading while the server does not read what is written."""
        self.transport.registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        """Undo `registerProducer`."""
        self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        """Stop reading."""
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Read on."""
        self.transport.resumeProducing()

    def loseConnection(self) -> None:
        """End the connection once all is sent."""
        self.transport.loseConnection()

    def abortConnection(self) -> None:
        """End the connection at once."""
        self.disconnecting = True
        self.transport.abortConnection()

    def _flush(self) -> None:
        for piece in self._talk.data_to_send():
            if piece:
                self.transport.write(piece)
            else:  # the end of what is sent
                self.transport.loseConnection()


def _in_words(error: Exception) -> str:
    if not isinstance(error, InvalidStatus):
        return f"opens no WebSocket: {line(error)}"
    response = error.response
    place = line(without_query(response.headers.get("Location", "")))
    if 300 <= response.status_code < 400 and place:
        return (
            f"redirects to {place!r} (HTTP {response.status_code}). Redirects are not followed: give that address "
            "yourself"
        )
    return f"opens no WebSocket: HTTP {response.status_code}; is the path right, such as /websockify?"
