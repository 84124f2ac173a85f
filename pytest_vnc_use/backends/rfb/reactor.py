"""A reactor of Twisted in its own thread: started once per process, never stopped, silent, and no obstacle to exit.

It is not `twisted.internet.reactor`: that one may belong to pytest-twisted, or to the program under test.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogBeginner
from zope import interface

from pytest_vnc_use import clock
from pytest_vnc_use.errors import InfraError

try:
    from twisted.internet.epollreactor import EPollReactor as _Reactor
except ImportError:  # only Linux has epoll
    from twisted.internet.selectreactor import SelectReactor as _Reactor


class _OwnReactor(_Reactor):
    _registerAsIOThread = False  # `isInIOThread` is about the thread of the other reactor
    seconds = staticmethod(clock.monotonic)


reactor: Any = _OwnReactor()  # type: ignore[no-untyped-call]  # mypy does not know zope's interfaces
implementer: Any = interface.implementer  # type: ignore[attr-defined]
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_started_in: list[int] = []


def start_reactor() -> None:
    """Start the reactor in this process if it does not run. Raises InfraError after a fork, which leaves it behind."""
    with _lock:
        if _started_in and _started_in != [os.getpid()]:
            raise InfraError(
                f"process {os.getpid()!r} cannot use VNC: process {_started_in[0]!r} used it, and then forked "
                "this one; start processes with 'spawn' instead of 'fork'"
            )
        if not reactor.running:
            _start()
            _started_in[:] = [os.getpid()]


def _start() -> None:
    observers: Any = [_log_failures]
    globalLogBeginner.beginLoggingTo(observers, discardBuffer=True, redirectStandardIO=False)
    running = threading.Event()
    reactor.callWhenRunning(running.set)
    # a daemon: exit does not wait for it, and the resolver threads it starts are daemons too
    threading.Thread(
        target=reactor.run, kwargs={"installSignalHandlers": False}, name="vnc-reactor", daemon=True
    ).start()
    running.wait()


def _log_failures(event: LogEvent) -> None:
    if event["log_level"] is LogLevel.critical:
        _log.error("twisted: %s", formatEvent(event))
