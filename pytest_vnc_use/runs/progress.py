"""The progress of a run on a terminal: one line below its output, which is rewritten,
and erased completely.

The cursor stays at the end of the earlier output, so the next output continues there.
For that, a line is drawn one row below: the cursor moves down a row (the terminal
scrolls if it must), saves its position, writes, returns, moves up.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from pytest_vnc_use import clock
from pytest_vnc_use.interactive import is_ci
from pytest_vnc_use.plain_text import columns_of, fit, plain
from pytest_vnc_use.runs.transcript import format_action
from pytest_vnc_use.types import (
    ApprovalRequest,
    GateAwaited,
    ModelExchange,
    ModelRequest,
    Proposal,
    RecordingAwaited,
    RunEnded,
    RunEvent,
    RunStarted,
    StepFinished,
    StepStarted,
    Usage,
)

_INTERVAL_S = 0.25
_DOWN_AND_NOTE = "\x1bD\x1b7\r"
_UP = "\x1b8\x1b[A"
_UNWRAPPED = "\x1b[?7l"
_WRAPPED = "\x1b[?7h"
_ERASED = "\x1b[J"


def can_show(number: int) -> bool:
    """Return whether a file descriptor is a terminal on which a line can be rewritten,
    with a user before it.
    """
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return os.isatty(number) and not is_ci()


class LiveLine:
    """An observer of runs that shows on a terminal where they are: test, step,
    activity, seconds and cents.

    A thread draws the line four times a second while a run is active or a model is
    asked, unless `is_busy` says that another output may be there. `hide` takes secrets
    out of a text.
    """

    def __init__(
        self,
        number: int,
        test: str,
        hide: Callable[[str], str],
        is_busy: Callable[[], bool] = bool,
    ) -> None:
        self._number = os.dup(number)
        self._test = test
        self._hide = hide
        self._is_busy = is_busy
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._is_shown = False
        self._is_drawn = False
        self._runs = False
        self._asks = False
        self._started_s = clock.monotonic()
        self._dollars = 0.0
        self._gate_until_s = 0.0
        self._recorded = ""
        self._step = 0
        self._limit = ""
        self._planner = ""
        self._activity = "looks at the screen"
        self._last = ""
        threading.Thread(target=self._draw, daemon=True).start()

    def observe(self, event: RunEvent) -> None:
        """Note where the run is, and show or erase the line. Any thread may call
        this.
        """
        self._gate_until_s = 0.0
        match event:
            case RunStarted():
                self._runs = True
                self._step = 0
                self._limit = f" of {event.limits.steps}"
                self._planner = event.planner
                self._activity = f"waits for {event.planner}"
                self._last = ""
            case GateAwaited():
                self._runs = True
                self._gate_until_s = clock.monotonic() + event.remaining_s
                self._recorded = ""
                if event.recorded_s:
                    self._recorded = f", {event.recorded_s:.0f} s when recorded"
            case RecordingAwaited():
                self._runs = True
                self._activity = f"waits for who records {event.name!r}"
            case ModelRequest():
                self._asks = True
                asked = "the judge" if event.purpose == "judge" else event.model
                self._activity = f"asks {asked}{self._last}"
            case ModelExchange(retry_in_s=retry_in_s):
                self._asks = retry_in_s is not None
                if retry_in_s is not None:
                    self._activity = (
                        f"asks {event.model} again in {retry_in_s:.0f} s: {event.error}"
                    )
                if event.dollars is not None:
                    self._dollars += event.dollars
                elif event.uncounted or event.usage != Usage():
                    self._dollars = math.nan  # a sum of NaN is not shown
            case StepStarted():
                self._runs = True
                self._step = event.number
                self._activity = _format(event.proposal)
            case StepFinished(step):
                self._step = step.number
                self._last = f", last: {_format(step.proposal)}"
                self._activity = f"waits for {self._planner}{self._last}"
            case ApprovalRequest() | RunEnded():
                self._runs = False
                self._asks = False
        self._is_shown = self._runs or self._asks
        if not self._is_shown:
            self.erase()

    def text(self, columns: int) -> str:
        """Return the line, which takes at most `columns` on a terminal; nothing in it
        can do harm there.
        """
        start = ""
        if self._test:
            start += f"{fit(self._safe(self._test), columns // 3)}: "
        if self._limit or self._step:
            start += f"step {self._step}{self._limit}: "
        activity = self._activity
        if self._gate_until_s:
            left_s = max(0, math.ceil(self._gate_until_s - clock.monotonic()))
            activity = f"waits for the recorded screen, {left_s} s left{self._recorded}"
        end = f" ({clock.monotonic() - self._started_s:.0f} s"
        if self._dollars > 0:
            digits = 1 if self._dollars >= 0.01 else 2
            end += f", {self._dollars * 100:.{digits}f} cents"
        end += ")"
        room = columns - columns_of(start + end)
        return fit(start + fit(self._safe(activity), room) + end, columns)

    def _safe(self, text: str) -> str:
        # again, as control characters may have split a secret
        return self._hide(plain(self._hide(text)))

    def _draw(self) -> None:
        while not self._closed.wait(_INTERVAL_S):
            with self._lock, suppress(OSError):  # the terminal may be gone
                if self._is_shown and not self._closed.is_set() and not self._is_busy():
                    text = self.text(os.get_terminal_size(self._number).columns - 1)
                    self._write(f"{_UNWRAPPED}{text}{_ERASED}{_WRAPPED}")

    def _write(self, line: str) -> None:
        self._is_drawn = line != _ERASED
        encoding = os.device_encoding(self._number) or "ascii"
        text = f"{_DOWN_AND_NOTE}{line}{_UP}"
        os.write(self._number, text.encode(encoding, errors="replace"))

    def erase(self) -> None:
        """Erase the line, until an event shows it again."""
        with self._lock, suppress(OSError):
            self._is_shown = False
            if self._is_drawn:
                self._write(_ERASED)

    def close(self) -> None:
        """Erase the line, and release the terminal; a second call does nothing."""
        with self._lock:
            self.erase()
            if not self._closed.is_set():
                self._closed.set()
                os.close(self._number)


def _format(proposal: Proposal) -> str:
    return proposal.intent or format_action(proposal.action)
