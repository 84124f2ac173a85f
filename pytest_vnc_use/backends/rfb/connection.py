"""One VNC connection for the caller's thread: connect within a time, send events, report how it ended."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from twisted.internet.defer import Deferred, maybeDeferred

from pytest_vnc_use import clock
from pytest_vnc_use.backends.rfb.keepalive import Pulse
from pytest_vnc_use.backends.rfb.outgoing import Outgoing
from pytest_vnc_use.backends.rfb.place import Place
from pytest_vnc_use.backends.rfb.protocol import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.rfb.reactor import reactor, start_reactor
from pytest_vnc_use.backends.rfb.server_quirks import ServerQuirks, quirks_of
from pytest_vnc_use.backends.screen.capture import Capture
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ConnectionLost, DesktopError, DesktopRefused, DesktopSilent, SettingsError
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.types import EncodingChoice
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.wire import Wire

_TAKEN_WITHIN_S = 10.0
_FRESH_S = 0.1
_FRESH_AT_MOST_S = 1.0
_LAST_ANSWER_S = 1.0


class RfbConnection:
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
        wire: Wire = Wire(),  # noqa: B008  # frozen
        new_factory: Callable[..., DesktopFactory] = DesktopFactory,
        tap: MessageTap | None = None,
    ) -> None:
        """Connect. Through a unix socket the encoding `auto` means `raw`, unless the screen is very large.

        Raises SettingsError, DesktopRefused or AuthenticationFailed, within `timeout_s`.
        """
        place = Place.of(server, wire)
        if password is not None and not password.isascii() and not wire.user:
            raise SettingsError("the VNC password must contain only ASCII characters")
        start_reactor()
        self.server = without_query(server)
        self.outgoing = Outgoing(tap)
        self._new_factory = partial(new_factory, server=self.server, password=password)
        self._encoding = encoding
        self._sent_s = math.inf
        """The moment when an action was last sent; infinity once `answers` has asked for its effect."""
        self._dialled: Deferred[Any] | None = None
        deadline = Deadline(timeout_s)
        try:
            self._open(place, wire, deadline)
        except DesktopRefused:
            if not self._factory.takes_plain:
                raise
            self._open(place, replace(wire, tls="off"), deadline)

    def _open(self, place: Place, wire: Wire, deadline: Deadline) -> None:
        self.framebuffer = Framebuffer()
        self._factory = self._new_factory(self.framebuffer)
        self._factory.wire, self._factory.encoding = wire, self._encoding
        self._factory.outgoing, self._factory.is_near = self.outgoing, place.is_socket
        reactor.callFromThread(self._dial, place, deadline.remaining_s)
        try:
            self._wait_first_frame(deadline.remaining_s)
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
    def protection(self) -> str:
        """Return what keeps others from reading along, in words; "" if nothing does."""
        return self.protocol.protection

    @property
    def has_password(self) -> bool:
        """Return whether the server checked a password."""
        return "Vnc" in self.protocol.security_used

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
        """Call a method of the protocol on the reactor's thread. Raises DesktopError if the connection ended."""
        reactor.callFromThread(self._carry_out, self.protocol.pulse, method, arguments)

    def _carry_out(self, pulse: Pulse, method: Callable[..., object], arguments: tuple[object, ...]) -> None:
        method(*arguments)
        self._sent_s = clock.monotonic()
        pulse.go_on()

    def flush(self) -> None:
        """Wait until all messages are on their way. Raises ConnectionLost if they are not in time.

        Twisted writes new data after its next poll, and after it has read what that poll brought: two rounds later.
        """
        self._wait_for(lambda done: reactor.callLater(0, reactor.callLater, 0, done))

    def _wait_for(self, call: Callable[[Callable[[], None]], object]) -> None:
        """Wait until `call`, made on the reactor's thread, has called back."""
        done = threading.Event()
        reactor.callFromThread(call, done.set)
        if not done.wait(_TAKEN_WITHIN_S):
            self._give_up(f"not all input for {self.server!r} has been sent yet")

    def round_trip(self, timeout_s: float) -> None:
        """Wait until the server `answers`. Without an answer, drop the connection and raise ConnectionLost."""
        if not self.answers(timeout_s):
            self._give_up(f"{self.server!r} did not answer within {timeout_s} s")

    def answers(self, timeout_s: float) -> bool:
        """Return whether the server has answered a question that was sent after all other messages.

        The first call after an action also accepts the answer to a recent question, which was sent to wait for the
        action's effect. So nobody waits twice. Raises DesktopError if the connection ended.
        """
        pulse = self.protocol.pulse
        self._wait_for(lambda done: done())
        now_s = clock.monotonic()
        fresh_s = min(_FRESH_S + 2 * pulse.round_trip_s, _FRESH_AT_MOST_S)
        due_s = min(now_s, max(self._sent_s, now_s - fresh_s))
        self._sent_s = math.inf
        answered = pulse.answered_s >= due_s
        if not answered:
            reactor.callFromThread(pulse.want, due_s)
            answered = self.framebuffer.wait_until(lambda: pulse.answered_s >= due_s, timeout_s)
        reactor.callFromThread(pulse.rest)
        return answered

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
        """End the connection once all messages are on their way; a second call does nothing.

        First wait for an answer to the last message. Without that the message can be lost: websockify 0.10 drops data
        that arrives together with the end, and a socket that is closed while a server still writes resets it.
        """
        try:
            with suppress(DesktopError):
                self._wait_for(lambda done: done())
                if self._sent_s < math.inf:
                    self.answers(_LAST_ANSWER_S)
        finally:  # also on a KeyboardInterrupt
            self._end()
            if self._factory.opened is not None:
                reactor.callFromThread(self._factory.opened.hang_up)

    def drop(self) -> None:
        """End the connection, or the attempt to connect, at once."""
        self._end()
        reactor.callFromThread(self._drop)

    def _end(self) -> None:
        self.framebuffer.fail(ConnectionLost(f"the VNC connection to {self.server!r} is closed"))

    def _dial(self, place: Place, timeout_s: float) -> None:
        factory = self._factory
        self._dialled = maybeDeferred(place.dial, factory, timeout_s)
        self._dialled.addErrback(lambda reason: factory.clientConnectionFailed(None, reason))

    def _drop(self) -> None:
        if self._dialled is not None:
            self._dialled.cancel()
        if self._factory.lowest is not None:
            self._factory.lowest.abortConnection()

    def _wait_first_frame(self, timeout_s: float) -> None:
        started_s = clock.monotonic()
        if not self.framebuffer.wait_complete(timeout_s):
            seen = "accepted the connection and" if self._factory.opened else "answered nothing and"
            waited_s = clock.monotonic() - started_s
            raise DesktopRefused(
                f"{self.server!r}: {seen} showed no screen within {waited_s:.1f} s; is it a VNC server?"
            )

    def _give_up(self, problem: str) -> NoReturn:
        error = DesktopSilent(f"{problem}; the connection is closed")
        self.framebuffer.fail(error)
        self.drop()
        raise error


def _not_whole(server: str, timeout_s: float) -> str:
    return f"{server!r} did not send its whole screen within {timeout_s} s"
