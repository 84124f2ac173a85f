"""A Twisted reactor in a separate thread, and the keep-alive pulse of a connection.

The reactor is started once per process and never stopped. It logs nothing but failures,
and does not delay the exit. It is not `twisted.internet.reactor`, which may belong to
pytest-twisted or to the program under test.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogBeginner

from pytest_vnc_use import clock
from pytest_vnc_use.errors import InfraError

try:
    from twisted.internet.epollreactor import EPollReactor as _Reactor
except ImportError:  # only Linux has epoll
    from twisted.internet.selectreactor import SelectReactor as _Reactor


class _PrivateReactor(_Reactor):
    # `isInIOThread` is about the thread of the other reactor
    _registerAsIOThread = False
    seconds = staticmethod(clock.monotonic)


reactor: Any = _PrivateReactor()  # type: ignore[no-untyped-call]  # mypy does not know zope's interfaces
_log = logging.getLogger(__name__)
_PAUSE_S = 0.03
_KEEP_BEATING_S = 10.0
_lock = threading.Lock()
_started_in: list[int] = []


def start_reactor() -> None:
    """Start the reactor in this process if it does not run. Raises InfraError in a
    forked process, which has no copy of its thread.
    """
    with _lock:
        if _started_in and _started_in != [os.getpid()]:
            raise InfraError(
                f"process {os.getpid()!r} cannot use VNC: process {_started_in[0]!r}"
                " used it, and then forked this one. Start processes with 'spawn'"
                " instead of 'fork'"
            )
        if reactor.running:
            return
        observers: Any = [_log_failures]
        showwarning = warnings.showwarning
        globalLogBeginner.beginLoggingTo(
            observers, discardBuffer=True, redirectStandardIO=False
        )
        # Twisted would log Python's warnings, and no user reads that log
        warnings.showwarning = showwarning
        running = threading.Event()
        reactor.callWhenRunning(running.set)
        # a daemon: exit does not wait for it, and the resolver threads it starts are
        # daemons too
        options = {"installSignalHandlers": False}
        threading.Thread(
            target=reactor.run, kwargs=options, name="vnc-reactor", daemon=True
        ).start()
        running.wait()
        _started_in[:] = [os.getpid()]


def _log_failures(event: LogEvent) -> None:
    if event["log_level"] is LogLevel.critical:
        _log.error("twisted: %s", formatEvent(event))


class Pulse:
    """Requests of one pixel, one at a time, which show that the server answers.

    An update that holds the requested pixel is the answer, even if the server sent it
    for another reason. After an action the pulse beats on its own for a while, so that a
    later call of `want` needs no round trip. Methods run on the reactor's thread; any
    thread may read the fields.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self.answered_s = -math.inf
        """The time on the monotonic clock up to which the server has received all
        messages.
        """
        self.round_trip_s = 0.0
        """The time that the last answer took."""
        self._ask = ask
        self._asked_s: float | None = None
        self._due_s = -math.inf
        self._until_s = -math.inf
        self._timer: Any = None

    def keep_beating(self) -> None:
        """Beat for a while, because an action was sent."""
        self._until_s = clock.monotonic() + _KEEP_BEATING_S
        self._wait()

    def stop(self) -> None:
        """Stop beating, because no caller waits any more."""
        self._until_s = -math.inf

    def want(self, time_s: float) -> None:
        """Beat until `answered_s` has reached that time."""
        self._due_s = time_s
        if self._asked_s is None:
            self._beat()

    def answered(self) -> None:
        """Note that the server has answered, if there is a question."""
        if self._asked_s is None:
            return
        now_s = clock.monotonic()
        self.round_trip_s = now_s - self._asked_s
        self.answered_s = self._asked_s
        self._asked_s = None
        if self.answered_s < self._due_s:
            self._beat()
        elif now_s < self._until_s:
            self._wait()

    def _wait(self) -> None:
        if self._timer is None and self._asked_s is None:
            self._timer = reactor.callLater(_PAUSE_S, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._asked_s is None and clock.monotonic() < self._until_s:
            self._beat()

    def _beat(self) -> None:
        self._asked_s = clock.monotonic()
        self._ask()
