"""Signs of life: requests for one pixel, each behind all that was sent before it, whose answers show what was heard."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from pytest_vnc_use.backends.rfb.reactor import reactor

_PAUSE_S = 0.03
_GOES_ON_S = 10.0


class Pulse:
    """Asks one question at a time. Lives on the reactor's thread; what it tells any thread may read.

    An answer is an update that holds the pixel asked for; one that was on its way anyway, and covers it, passes for it.
    While the effect of an action is awaited it beats by itself, so that who then wants to know waits for no round trip.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self.heard_s = -math.inf
        """All that was sent up to this moment the server has heard, and answered since; on the monotonic clock."""
        self.round_trip_s = 0.0
        """How long the last answer took."""
        self._ask = ask
        self._asked_s: float | None = None
        self._wanted_s = -math.inf
        self._until_s = -math.inf
        self._timer: Any = None

    @property
    def is_awaited(self) -> bool:
        """Whether a question is not answered yet."""
        return self._asked_s is not None

    def go_on(self) -> None:
        """An action was sent: beat from here on, for a while."""
        self._until_s = time.monotonic() + _GOES_ON_S
        self._wait()

    def rest(self) -> None:
        """Nobody waits any more."""
        self._until_s = -math.inf

    def want(self, moment_s: float) -> None:
        """Beat until `heard_s` has reached that moment."""
        self._wanted_s = moment_s
        if self._asked_s is None:
            self._beat()

    def answered(self) -> None:
        """The server has answered the question."""
        if self._asked_s is None:
            return
        now_s = time.monotonic()
        self.round_trip_s = now_s - self._asked_s
        self.heard_s, self._asked_s = self._asked_s, None
        if self.heard_s < self._wanted_s:
            self._beat()
        elif now_s < self._until_s:
            self._wait()

    def _wait(self) -> None:
        if self._timer is None and self._asked_s is None:
            self._timer = reactor.callLater(_PAUSE_S, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._asked_s is None and time.monotonic() < self._until_s:
            self._beat()

    def _beat(self) -> None:
        self._asked_s = time.monotonic()
        self._ask()
