"""One VNC connection, as the caller's thread uses it: it connects within a time, sends
events, and reports how it ended.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint
from vncdotool.const import Encoding

from pytest_vnc_use import clock
from pytest_vnc_use.backends.client import (
    DesktopFactory,
    DesktopProtocol,
    EncodingChoice,
    Outgoing,
)
from pytest_vnc_use.backends.quirks import ServerQuirks, quirks_of
from pytest_vnc_use.backends.reactor import reactor, start_reactor
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.backends.security import ServerFacts, context_of
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    DesktopSilent,
    SettingsError,
)
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.wire import Wire, host_and_port

_SEND_TIMEOUT_S = 10.0
_FRESH_S = 0.1
_MAX_FRESH_S = 1.0
"""How old the pulse's last question may be when its answer is accepted: `_FRESH_S` and
two round trips, at most `_MAX_FRESH_S`.
"""
ANSWER_S = 10.0
"""The maximum time for an answer of the server, and for a whole screen."""


class RfbConnection:
    """A connection that has received its first whole frame.

    Events are sent in the order of the calls. A call on a connection that ended raises
    the DesktopError that ended it.
    """

    def __init__(
        self,
        server: str,
        password: str | None,
        timeout_s: float,
        *,
        encoding: EncodingChoice | None = None,
        wire: Wire = Wire(),  # noqa: B008  # frozen
        tap: MessageTap | None = None,
        facts: ServerFacts | None = None,
        new_factory: Callable[..., DesktopFactory] = DesktopFactory,
    ) -> None:
        """Connect; `new_factory` takes the arguments of DesktopFactory.

        Raises SettingsError, DesktopRefused or AuthenticationFailed, within
        `timeout_s`.
        """
        self._path = ""
        self._host = ""
        self._port = 0
        self._start_websocket: Callable[[DesktopFactory, float], Any] | None = None
        self._set_endpoint(server, wire)
        if password is not None and not password.isascii() and not wire.user:
            raise SettingsError("the VNC password must contain only ASCII characters")
        start_reactor()
        self.server = without_query(server)
        self.outgoing = Outgoing(tap)
        self.facts = facts or ServerFacts()
        self._password = password
        self._new_factory = new_factory
        self._encoding: EncodingChoice = encoding or ("raw" if self._path else "tight")
        self._sent_at = math.inf
        """When an action was last sent; infinity once `answers` has asked for its
        effect.
        """
        self._dialled: Deferred[Any] | None = None
        deadline = Deadline(timeout_s)
        try:
            self._open(wire, deadline)
        except DesktopRefused:
            if not self._factory.takes_plain:
                raise
            self._open(replace(wire, tls="off"), deadline)

    def _set_endpoint(self, server: str, wire: Wire) -> None:
        """Set host and port, with the WebSocket's start if it is one, or the path of a
        unix socket.
        """
        scheme = server.partition("://")[0].lower() if "://" in server else ""
        if wire.requires_tls or scheme == "wss":
            context_of(wire)  # raises SettingsError
        if scheme in ("ws", "wss"):
            # importing websockets takes long, and only this needs it
            from pytest_vnc_use.backends import websocket

            url = websocket.parse_url(server, wire)
            self._host = url.host
            self._port = url.port
            self._start_websocket = partial(websocket.start, url)
        elif endpoint := host_and_port(server):
            self._host = endpoint[0] or "127.0.0.1"
            self._port = endpoint[1]
        elif os.path.exists(server):  # noqa: PTH110  # Path.exists raises for a directory that may not be looked into
            self._path = server
        else:
            raise DesktopRefused(f"there is no unix socket {server!r}")

    def _open(self, wire: Wire, deadline: Deadline) -> None:
        """Connect, and wait for the first whole frame. Raises DesktopError."""
        self.framebuffer = Framebuffer()
        self._factory = self._new_factory(
            self.framebuffer,
            self.server,
            self._password,
            wire=wire,
            encoding=self._encoding,
            outgoing=self.outgoing,
            facts=self.facts,
        )
        timeout_s = deadline.remaining_s
        started_at = clock.monotonic()
        reactor.callFromThread(self._dial, timeout_s)
        try:
            if not self.framebuffer.wait_complete(timeout_s):
                response = "answered nothing"
                if self._factory.opened:
                    response = "accepted the connection"
                problem = (
                    f"{self.server!r}: {response} and showed no screen within"
                    f" {clock.monotonic() - started_at:.1f} s; is it a VNC server?"
                )
                if not self._start_websocket:
                    problem += " noVNC and websockify need ws://host:port/websockify"
                raise DesktopRefused(problem)
        except BaseException:  # even a KeyboardInterrupt leaves no half-open connection
            self.drop()
            raise

    @property
    def protocol(self) -> DesktopProtocol:
        """The connected protocol; call it through `send` only."""
        self.framebuffer.raise_if_lost()
        assert self._factory.opened is not None
        return self._factory.opened

    @property
    def exposure(self) -> str:
        """What other users of the network can read of this connection; "" if it is
        protected.
        """
        if self.facts.protection:
            return ""
        exposure = "every user of the network can read all typed keys and all images"
        if "Vnc" in self.facts.security_used:
            exposure += ", and can guess the VNC password offline (its check is DES)"
        return exposure

    @property
    def quirks(self) -> ServerQuirks:
        """The input that the server supports."""
        protocol = self.protocol
        return quirks_of(
            self.facts.name,
            protocol.security_types,
            announces_clipboard=protocol.announces_clipboard,
            takes_scancodes=Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT
            in protocol.negotiated_encodings,
        )

    def send(self, method: Callable[..., object], *arguments: object) -> None:
        """Call a method of the protocol on the reactor's thread. Raises DesktopError if
        the connection ended.
        """
        pulse = self.protocol.pulse

        def perform() -> None:
            method(*arguments)
            self._sent_at = clock.monotonic()
            pulse.keep_beating()

        reactor.callFromThread(perform)

    def flush(self) -> None:
        """Wait until all messages are sent. Raises ConnectionLost if that takes too
        long.

        Twisted writes new data in the second round after this one: it polls, and then
        reads first.
        """
        self._wait_for(lambda done: reactor.callLater(0, reactor.callLater, 0, done))

    def _wait_until_performed(self) -> None:
        """Wait until the reactor's thread has performed all calls so far."""
        self._wait_for(lambda done: done())

    def _wait_for(self, call: Callable[[Callable[[], None]], object]) -> None:
        """Make `call` on the reactor's thread, and wait until it calls back."""
        done = threading.Event()
        reactor.callFromThread(call, done.set)
        if not done.wait(_SEND_TIMEOUT_S):
            self._give_up(f"not all input for {self.server!r} has been sent yet")

    def round_trip(self) -> None:
        """Wait until the server has answered and its screen is complete. Otherwise drop
        the connection and raise ConnectionLost.
        """
        if not self.answers(ANSWER_S):
            self._give_up(f"{self.server!r} did not answer within {ANSWER_S} s")
        self._wait_whole()

    def _wait_whole(self) -> None:
        if not self.framebuffer.wait_complete(ANSWER_S):
            self._give_up(
                f"{self.server!r} did not send its whole screen within {ANSWER_S} s"
            )

    def answers(self, timeout_s: float = 1.0) -> bool:
        """Return whether the server answers a question that is sent after all other
        messages. Raises DesktopError if the connection ended.

        The first call after an action also accepts the answer to a question that the
        pulse has sent since, so that no caller waits twice.
        """
        pulse = self.protocol.pulse
        self._wait_until_performed()
        now = clock.monotonic()
        fresh_s = min(_FRESH_S + 2 * pulse.round_trip_s, _MAX_FRESH_S)
        # when a question may have been sent at the earliest, for its answer to count
        asked_at = min(now, max(self._sent_at, now - fresh_s))
        self._sent_at = math.inf
        is_answered = pulse.answered_s >= asked_at
        if not is_answered:
            reactor.callFromThread(pulse.want, asked_at)
            is_answered = self.framebuffer.wait_until(
                lambda: pulse.answered_s >= asked_at, timeout_s
            )
        reactor.callFromThread(pulse.stop)
        return is_answered

    def rest(self) -> None:
        """Ask for no more updates until `refresh`; the connection stays."""
        self.protocol.is_paused = True

    def refresh(self) -> None:
        """Fetch the whole screen again. If it does not come, drop the connection and
        raise ConnectionLost.
        """
        self.framebuffer.forget()
        self.protocol.is_paused = False
        self.send(self.protocol.request)
        self._wait_whole()

    def close(self) -> None:
        """End the connection once all messages are sent, and drop its screen; a second
        call does nothing.

        First wait for an answer to the last message. Without that the message can be
        lost: websockify 0.10 drops data that arrives together with the end, and a
        socket that is closed while a server still writes resets it.
        """
        try:
            with suppress(DesktopError):
                self._wait_until_performed()
                if self._sent_at < math.inf:
                    self.answers()
        finally:  # also on a KeyboardInterrupt
            self._end()
            self.framebuffer.release()
            if self._factory.opened is not None:
                reactor.callFromThread(self._factory.opened.hang_up)

    def drop(self) -> None:
        """End the connection, or the attempt to connect, at once."""

        def abort() -> None:
            if self._dialled is not None:
                self._dialled.cancel()
            if self._factory.opened is not None:
                self._factory.opened.transport.abortConnection()

        self._end()
        reactor.callFromThread(abort)

    def _end(self) -> None:
        """Have every later call raise ConnectionLost."""
        self.framebuffer.fail(
            ConnectionLost(f"the VNC connection to {self.server!r} is closed")
        )

    def _dial(self, timeout_s: float) -> None:
        """Start to connect, on the reactor's thread."""
        factory = self._factory
        factory.host = self._host
        factory.port = self._port

        def connect() -> Any:
            if self._start_websocket:
                return self._start_websocket(factory, timeout_s)
            if self._path:
                return UNIXClientEndpoint(
                    reactor, self._path, timeout=timeout_s
                ).connect(factory)  # type: ignore[no-untyped-call]
            # pytest-socket's error is raised here, because it would get lost in the
            # thread that resolves names
            socket.socket().close()
            endpoint: Any = HostnameEndpoint(
                reactor, self._host, self._port, timeout=timeout_s
            )
            return endpoint.connect(factory)

        self._dialled = maybeDeferred(connect)
        self._dialled.addErrback(
            lambda reason: factory.clientConnectionFailed(None, reason)
        )

    def _give_up(self, problem: str) -> NoReturn:
        """Drop the connection, and raise DesktopSilent."""
        error = DesktopSilent(f"{problem}; the connection is closed")
        self.framebuffer.fail(error)
        self.drop()
        raise error
