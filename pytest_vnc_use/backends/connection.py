"""One VNC connection as the caller's thread sees it: connect within a time, send events, see how it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint
from vncdotool.command import parse_server

from pytest_vnc_use.backends.abilities import Abilities, abilities_of
from pytest_vnc_use.backends.framebuffer import Framebuffer
from pytest_vnc_use.backends.protocol import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.reactor import reactor, start_reactor
from pytest_vnc_use.errors import ConnectionLost, DesktopRefused, SettingsError


class Connection:
    """A connection that has seen its first whole frame.

    Events are sent in the order of the calls. A call on a connection that ended raises the DesktopError that ended it.
    """

    def __init__(self, server: str, password: str | None, timeout_s: float) -> None:
        """Connect. Raises SettingsError, DesktopRefused or AuthenticationFailed, within `timeout_s`."""
        endpoint = _endpoint(server, timeout_s)
        _check_password(password)
        start_reactor()
        self.server = server
        self.framebuffer = Framebuffer()
        self._factory = DesktopFactory(self.framebuffer, server, password)
        self._dialled: Deferred[Any] | None = None
        reactor.callFromThread(self._dial, endpoint)
        try:
            self._wait_first_frame(timeout_s)
        except BaseException:  # also a KeyboardInterrupt leaves no half-open connection
            self.drop()
            raise

    @property
    def protocol(self) -> DesktopProtocol:
        """The connected protocol; to be called through `send` only."""
        self.framebuffer.raise_if_lost()
        assert self._factory.opened is not None
        return self._factory.opened

    @property
    def abilities(self) -> Abilities:
        """What the server is known to take."""
        protocol = self.protocol
        name = bytes(protocol.name).decode("utf-8", "replace")
        return abilities_of(name, protocol.security_types, announces_clipboard=protocol.announces_clipboard)

    def send(self, method: Callable[..., object], *arguments: object) -> None:
        """Call a method of the protocol on the reactor's thread. Raises DesktopError where the connection ended."""
        self.framebuffer.raise_if_lost()
        reactor.callFromThread(method, *arguments)

    def round_trip(self, timeout_s: float) -> None:
        """Wait for one more answer of the server's. Without it raises ConnectionLost and drops the connection."""
        before = self.framebuffer.updates
        self.send(self.protocol.framebufferUpdateRequest, 0, 0, 1, 1)
        if not self.framebuffer.wait_until(lambda: self.framebuffer.updates > before, timeout_s):
            self._give_up(f"{self.server!r} has not answered for {timeout_s} s")

    def pixels(self, timeout_s: float) -> npt.NDArray[np.uint8]:
        """The whole screen, of shape (height, width, 3). Raises ConnectionLost and drops the connection without it."""
        rgb = self.framebuffer.rgb(timeout_s)
        if rgb is None:
            self._give_up(f"{self.server!r} has not sent its whole screen within {timeout_s} s")
        return rgb

    def close(self) -> None:
        """End the connection once all that was sent is on its way; a second call does nothing."""
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
        error = ConnectionLost(f"{problem}; the connection is dropped")
        self.framebuffer.fail(error)
        self.drop()
        raise error


def _endpoint(server: str, timeout_s: float) -> Any:  # mypy does not know zope's interfaces
    """Where to connect to: `host::port`, `host:display`, `[IPv6]::port`, or the path of a unix socket."""
    if "/" in server:
        return _socket_endpoint(server, timeout_s)
    try:
        _, host, port = parse_server(server)
    except ValueError as exc:
        raise SettingsError(f"a VNC server is 'host::port', 'host:display' or a socket's path, got {server!r}") from exc
    return HostnameEndpoint(reactor, host, port, timeout=timeout_s)


def _socket_endpoint(path: str, timeout_s: float) -> Any:
    if not os.path.exists(path):
        raise DesktopRefused(f"there is no unix socket {path!r}")
    return UNIXClientEndpoint(reactor, path, timeout=timeout_s)  # type: ignore[no-untyped-call]


def _check_password(password: str | None) -> None:
    if password is not None and not password.isascii():
        raise SettingsError("a VNC password holds ASCII characters only, and this one holds others")
