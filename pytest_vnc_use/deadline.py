"""Time limits that also work if foreign code hangs."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_vnc_use import clock

if TYPE_CHECKING:
    from filelock import BaseFileLock

Result = TypeVar("Result")
T = TypeVar("T")

_POLL_S = 1.0
_LOCK_POLL_S = 0.05


class DeadlineExceeded(Exception):
    """The time was up before the work was done."""


class _Uncounted:
    """The seconds in which this process waited for its user."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        seconds = self._total_s
        if self._since is not None:
            seconds += clock.monotonic() - self._since
        return seconds

    @contextmanager
    def counted(self) -> Iterator[None]:
        self._since = clock.monotonic()
        try:
            yield
        finally:
            self._total_s = self.seconds
            self._since = None


_waits = _Uncounted()


def uncounted() -> AbstractContextManager[None]:
    """Stop all time limits of this process while its user is asked."""
    return _waits.counted()


class Deadline:
    """A time limit of `limit_s` from now, less `spent_s` that were used before. Time
    that is `uncounted` is free.
    """

    def __init__(self, limit_s: float, spent_s: float = 0.0) -> None:
        self._started = clock.monotonic() - _waits.seconds - spent_s
        self._limit_s = limit_s

    @property
    def spent_s(self) -> float:
        """Seconds used so far."""
        return clock.monotonic() - _waits.seconds - self._started

    @property
    def remaining_s(self) -> float:
        """Seconds left; never below zero."""
        return max(0.0, self._limit_s - self.spent_s)

    def call(
        self, work: Callable[[], Result], meanwhile: Callable[[], None] = lambda: None
    ) -> Result:
        """Return `work()`, which runs in a daemon thread.

        Raises DeadlineExceeded if it is late, and leaves the thread behind. The
        separate thread keeps the limit: a model's server may send a byte a minute, and
        a user's function may never return. While the work runs, `meanwhile` is called
        every second, and what it raises is raised at once.
        """
        if not self.remaining_s:
            raise DeadlineExceeded
        answer: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = (
            queue.SimpleQueue()
        )

        def report() -> None:
            try:
                answer.put((work(), None))
            except BaseException as error:  # noqa: BLE001  # handed to the caller's thread, which raises it
                answer.put((None, error))

        threading.Thread(target=report, daemon=True, name="vnc-use deadline").start()
        result, error = self._await_result(answer, meanwhile)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # without an error it is what work returned

    def _await_result(
        self, answer: queue.SimpleQueue[T], meanwhile: Callable[[], None]
    ) -> T:
        while True:
            try:
                return answer.get(timeout=min(self.remaining_s, _POLL_S))
            except queue.Empty:
                if not self.remaining_s:
                    raise DeadlineExceeded from None
                meanwhile()


def acquire(lock: BaseFileLock, limit_s: float) -> AbstractContextManager[Any]:
    """Take a lock within `limit_s`, which filelock measures on a clock that a test may
    stop. Raises its Timeout.
    """
    deadline = Deadline(limit_s)
    while True:
        try:
            return lock.acquire(timeout=0)
        except TimeoutError:
            if not deadline.remaining_s:
                raise
            time.sleep(_LOCK_POLL_S)
