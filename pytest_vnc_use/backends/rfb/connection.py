"""One VNC connection for the caller's thread: connect within a time, send events, find out how it ends."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint
from vncdotool.command import parse_server

from pytest_vnc_use.backends.rfb.keepalive import Pulse
from pytest_vnc_use.backends.rfb.protocol import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.rfb.reactor import reactor, start_reactor
from pytest_vnc_use.backends.rfb.server_quirks import ServerQuirks, quirks_of
from pytest_vnc_use.backends.screen.capture import Capture
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, DesktopSilent, SettingsError
from pytest_vnc_use.types import EncodingChoice

_TAKEN_WITHIN_S = 10.0
_FRESH_S = 0.1
_FRESH_AT_MOST_S = 1.0


class Connection:
    """A connection that has received its first whole frame.

    Events are sent in the order of the calls. A call on a connection that ended raises the DesktopError that ended it.
    """

    def __init__(
        self,
        server: str,
        password: str | None,
        timeout_s: float,
        *,
        encoding: EncodingChoice = "auto",
        new_factory: Callable[[Framebuffer, str, str | None], DesktopFactory] = DesktopFactory,
    ) -> None:
        """Connect. Through a unix socket `auto` means `raw`.

        Raises SettingsError, DesktopRefused or AuthenticationFailed, within `timeout_s`.
        """
        endpoint = _endpoint(server, timeout_s)
        _check_password(password)
        start_reactor()
        self.server = server
        self.framebuffer = Framebuffer()
        self._factory = new_factory(self.framebuffer, server, password)
        self._factory.encoding = "raw" if encoding == "auto" and "/" in server else encoding
        self._sent_s = math.inf
        """The moment when an action was last sent; infinity once `answers` has asked for its effect."""
        self._dialled: Deferred[Any] | None = None
        reactor.callFromThread(self._dial, endpoint)
        try:
            self._wait_first_frame(timeout_s)
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
    def name(self) -> str:
        """The name that the server gives its desktop."""
        return bytes(self.protocol.name).decode("utf-8", "replace")

    @property
    def quirks(self) -> ServerQuirks:
        """Return the input that the server is known to take."""
        protocol = self.protocol
        return quirks_of(
            self.name,
            protocol.security_types,
            announces_clipboard=protocol.announces_clipboard,
            takes_scancodes=protocol.takes_scancodes,
        )

    def send(self, method: Callable[..., object], *arguments: object) -> None:
        """Call a method of the protocol on the reactor's thread. Raises DesktopError where the connection ended."""
        reactor.callFromThread(self._carry_out, self.protocol.pulse, method, arguments)

    def _carry_out(self, pulse: Pulse, method: Callable[..., object], arguments: tuple[object, ...]) -> None:
        method(*arguments)
        self._sent_s = time.monotonic()
        pulse.go_on()

    def flush(self) -> None:
        """Wait until all messages are on their way. Raises ConnectionLost where they are not in time.

        Twisted writes new data after its next poll, and after it has read what that poll brought: two rounds later.
        """
        self._wait_for(lambda done: reactor.callLater(0, reactor.callLater, 0, done))

    def _wait_for(self, call: Callable[[Callable[[], None]], object]) -> None:
        """Wait until `call`, made on the reactor's thread, has called back."""
        done = threading.Event()
        reactor.callFromThread(call, done.set)
        if not done.wait(_TAKEN_WITHIN_S):
            self._give_up(f"the input for {self.server!r} has not been sent yet")

    def round_trip(self, timeout_s: float) -> None:
        """Wait until the server `answers`. Without an answer, drop the connection and raise ConnectionLost."""
        if not self.answers(timeout_s):
            self._give_up(f"{self.server!r} has not answered for {timeout_s} s")

    def answers(self, timeout_s: float) -> bool:
        """Return whether the server has answered a question that was sent after all other messages.

        The first call after an action also accepts the answer to a recent question, asked while the action's effect was
        awaited. So nobody waits twice. Raises DesktopError where the connection ended.
        """
        pulse = self.protocol.pulse
        self._wait_for(lambda done: done())
        now_s = time.monotonic()
        fresh_s = min(_FRESH_S + 2 * pulse.round_trip_s, _FRESH_AT_MOST_S)
        wanted_s = min(now_s, max(self._sent_s, now_s - fresh_s))
        self._sent_s = math.inf
        heard = pulse.heard_s >= wanted_s
        if not heard:
            reactor.callFromThread(pulse.want, wanted_s)
            heard = self.framebuffer.wait_until(lambda: pulse.heard_s >= wanted_s, timeout_s)
        reactor.callFromThread(pulse.rest)
        return heard

    def capture(self, timeout_s: float) -> Capture:
        """Return the whole screen. Without one, drop the connection and raise ConnectionLost."""
        captured = self.framebuffer.capture(timeout_s)
        if captured is None:
            self._give_up(_not_whole(self.server, timeout_s))
        return captured

    def refresh(self, timeout_s: float) -> None:
        """Have the whole screen sent anew. Without it, drop the connection and raise ConnectionLost."""
        self.framebuffer.forget()
        self.send(self.protocol.framebufferUpdateRequest)
        if not self.framebuffer.wait_complete(timeout_s):
            self._give_up(_not_whole(self.server, timeout_s))

    def close(self) -> None:
        """End the connection once all messages are on their way; a second call does nothing."""
        self._end()
        if self._factory.opened is not None:
            reactor.callFromThread(self._factory.opened.transport.loseConnection)

    def drop(self) -> None:
        """End the connection at once, or the attempt to get one."""
        self._end()
        reactor.callFromThread(self._drop)

    def _end(self) -> None:
        self.framebuffer.fail(ConnectionLost(f"the VNC connection to {self.server!r} is closed"))

    def _dial(self, endpoint: Any) -> None:
        dialled: Deferred[Any] = endpoint.connect(self._factory)
        dialled.addErrback(lambda reason: self._factory.clientConnectionFailed(None, reason))
        self._dialled = dialled

    def _drop(self) -> None:
        if self._dialled is not None:
            self._dialled.cancel()
        if self._factory.opened is not None:
            self._factory.opened.transport.abortConnection()

    def _wait_first_frame(self, timeout_s: float) -> None:
        started_s = time.monotonic()
        if not self.framebuffer.wait_complete(timeout_s):
            seen = "accepted the connection and" if self._factory.opened else "answered nothing and"
            waited_s = time.monotonic() - started_s
            raise DesktopRefused(
                f"{self.server!r}: {seen} showed no screen within {waited_s:.1f} s; is it a VNC server?"
            )

    def _give_up(self, problem: str) -> NoReturn:
        error = DesktopSilent(f"{problem}; the connection is dropped")
        self.framebuffer.fail(error)
        self.drop()
        raise error


def _not_whole(server: str, timeout_s: float) -> str:
    return f"{server!r} has not sent its whole screen within {timeout_s} s"


def _endpoint(server: str, timeout_s: float) -> Any:  # mypy does not know zope's interfaces
    """Return the endpoint of `host::port`, `host:display`, `[IPv6]::port`, or the path of a unix socket."""
    if "/" in server:
        return _socket_endpoint(server, timeout_s)
    try:
        _, host, port = parse_server(server)
    except ValueError as exc:
        raise SettingsError(
            f"a VNC server must be 'host::port', 'host:display' or a socket's path, got {server!r}"
        ) from exc
    return HostnameEndpoint(reactor, host, port, timeout=timeout_s)


def _socket_endpoint(path: str, timeout_s: float) -> Any:
    if not os.path.exists(path):  # noqa: PTH110  # Path.exists raises for a folder that may not be looked into
        raise DesktopRefused(f"there is no unix socket {path!r}")
    return UNIXClientEndpoint(reactor, path, timeout=timeout_s)  # type: ignore[no-untyped-call]


def _check_password(password: str | None) -> None:
    if password is not None and not password.isascii():
        raise SettingsError("a VNC password must hold ASCII characters only, and this one holds others")
