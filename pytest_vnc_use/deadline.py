"""A wall-clock limit on a monotonic clock, that also holds while somebody else's code hangs."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from pytest_vnc_use.errors import ModelUnavailable

Result = TypeVar("Result")
T = TypeVar("T")

_MEANWHILE_S = 1.0
_LATE_S = 2.0


class DeadlineExceeded(Exception):
    """The time was up before the work was done."""


def within(work: Callable[[float], Result], deadline: Deadline, what: str) -> Result:
    """`work(seconds)`, as long as the deadline and a little longer; somebody else's code may never return.

    Who keeps to the seconds says itself what went wrong. Raises ModelUnavailable: who does `what` hangs.
    """
    left_s = deadline.remaining_s
    try:
        return Deadline(left_s + _LATE_S).call(lambda: work(left_s))
    except DeadlineExceeded as exc:
        raise ModelUnavailable(f"who {what} has not answered within {left_s:g} s") from exc


class Deadline:
    """`seconds` from now, less `spent_s` that were used before."""

    def __init__(self, seconds: float, spent_s: float = 0.0) -> None:
        self._started = time.monotonic() - spent_s
        self._seconds = seconds

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self._started

    @property
    def remaining_s(self) -> float:
        """Seconds left; never below zero."""
        return max(0.0, self._seconds - self.spent_s)

    def call(self, work: Callable[[], Result], meanwhile: Callable[[], None] = lambda: None) -> Result:
        """`work()`, in a daemon thread that is left behind where it outlasts the deadline; then DeadlineExceeded.

        A thread of its own is what keeps the limit against a model's server that sends a byte a minute, or a user's
        function that never returns: no time-out of theirs is relied on. While it works, `meanwhile` is called now and
        then; what that raises is raised at once.
        """
        if not self.remaining_s:
            raise DeadlineExceeded
        answer: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()

        def report() -> None:
            try:
                answer.put((work(), None))
            except BaseException as error:  # noqa: BLE001  # handed to the caller's thread, which raises it
                answer.put((None, error))

        threading.Thread(target=report, daemon=True, name="vnc-use deadline").start()
        result, error = self._awaited(answer, meanwhile)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # without an error it is what work returned

    def _awaited(self, answer: queue.SimpleQueue[T], meanwhile: Callable[[], None]) -> T:
        while True:
            try:
                return answer.get(timeout=min(self.remaining_s, _MEANWHILE_S))
            except queue.Empty:
                if not self.remaining_s:
                    raise DeadlineExceeded from None
                meanwhile()
