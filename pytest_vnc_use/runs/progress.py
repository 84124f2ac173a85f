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
_TO_ROW_BELOW = "\x1bD\x1b7\r"
_BACK = "\x1b8\x1b[A"
_WRAP_OFF = "\x1b[?7l"
_WRAP_ON = "\x1b[?7h"
_ERASE = "\x1b[J"
"""What a terminal does: move down a row and save the cursor there, move back, cut long
lines off or wrap them, erase all that follows the cursor.
"""


def can_show(descriptor: int) -> bool:
    """Return whether a file descriptor is a terminal on which a line can be rewritten,
    with a user before it.
    """
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return os.isatty(descriptor) and not is_ci()


class LiveLine:
    """An observer of runs that shows on a terminal where they are: test, step,
    activity, seconds and cents.

    A thread draws the line four times a second while a run is active or a model is
    asked, but not while `is_busy()`: then other output may be written. `hide` takes
    secrets out of a text.
    """

    def __init__(
        self,
        descriptor: int,
        test: str,
        hide: Callable[[str], str],
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._terminal = os.dup(descriptor)
        self._test = test
        self._hide = hide
        self._is_busy = is_busy
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._is_shown = False
        self._is_drawn = False
        self._is_running = False
        self._is_asking = False
        self._started_at = clock.monotonic()
        self._dollars = 0.0
        self._gate_ends_at = 0.0
        self._recorded_wait = ""
        self._step = 0
        self._of_limit = ""
        self._planner = ""
        self._activity = "looks at the screen"
        self._last_step = ""
        threading.Thread(target=self._draw, daemon=True).start()

    def observe(self, event: RunEvent) -> None:
        """Note where the run is, and show or erase the line. Any thread may call
        this.
        """
        self._gate_ends_at = 0.0
        match event:
            case RunStarted():
                self._is_running = True
                self._step = 0
                self._of_limit = f" of {event.limits.steps}"
                self._planner = event.planner
                self._activity = f"waits for {event.planner}"
                self._last_step = ""
            case GateAwaited():
                self._is_running = True
                self._gate_ends_at = clock.monotonic() + event.remaining_s
                self._recorded_wait = ""
                if event.recorded_s:
                    self._recorded_wait = f", {event.recorded_s:.0f} s when recorded"
            case RecordingAwaited():
                self._is_running = True
                self._activity = f"waits for the recording of {event.name!r}"
            case ModelRequest():
                self._is_asking = True
                asked = "the judge" if event.purpose == "judge" else event.model
                self._activity = f"asks {asked}{self._last_step}"
            case ModelExchange():
                self._is_asking = event.retry_in_s is not None
                if event.retry_in_s is not None:
                    when = f"again in {event.retry_in_s:.0f} s"
                    self._activity = f"asks {event.model} {when}: {event.error}"
                if event.dollars is not None:
                    self._dollars += event.dollars
                elif event.uncounted or event.usage != Usage():
                    self._dollars = math.nan  # a sum of NaN is not shown
            case StepStarted():
                self._is_running = True
                self._step = event.number
                self._activity = _format(event.proposal)
            case StepFinished():
                self._step = event.step.number
                self._last_step = f", last: {_format(event.step.proposal)}"
                self._activity = f"waits for {self._planner}{self._last_step}"
            case ApprovalRequest() | RunEnded():
                self._is_running = False
                self._is_asking = False
        self._is_shown = self._is_running or self._is_asking
        if not self._is_shown:
            self.erase()

    def text(self, columns: int) -> str:
        """Return the line, at most `columns` wide, without secrets and without control
        characters.
        """
        start = ""
        if self._test:
            start += f"{fit(self._safe(self._test), columns // 3)}: "
        if self._of_limit or self._step:
            start += f"step {self._step}{self._of_limit}: "
        activity = self._activity
        if self._gate_ends_at:
            left_s = max(0, math.ceil(self._gate_ends_at - clock.monotonic()))
            activity = (
                f"waits for the recorded screen, {left_s} s left{self._recorded_wait}"
            )
        end = f" ({clock.monotonic() - self._started_at:.0f} s"
        if self._dollars > 0:
            digits = 1 if self._dollars >= 0.01 else 2
            end += f", {self._dollars * 100:.{digits}f} cents"
        end += ")"
        room = columns - columns_of(start + end)
        return fit(start + fit(self._safe(activity), room) + end, columns)

    def erase(self) -> None:
        """Erase the line, until an event shows it again."""
        with self._lock, suppress(OSError):
            self._is_shown = False
            if self._is_drawn:
                self._write(_ERASE)

    def close(self) -> None:
        """Erase the line, and release the terminal; a second call does nothing."""
        with self._lock:
            self.erase()
            if not self._closed.is_set():
                self._closed.set()
                os.close(self._terminal)

    def _safe(self, text: str) -> str:
        # twice, as control characters may have split a secret
        return self._hide(plain(self._hide(text)))

    def _draw(self) -> None:
        while not self._closed.wait(_INTERVAL_S):
            with self._lock, suppress(OSError):  # the terminal may be gone
                if self._is_shown and not self._closed.is_set() and not self._is_busy():
                    text = self.text(os.get_terminal_size(self._terminal).columns - 1)
                    self._write(f"{_WRAP_OFF}{text}{_ERASE}{_WRAP_ON}")

    def _write(self, line: str) -> None:
        self._is_drawn = line != _ERASE
        encoding = os.device_encoding(self._terminal) or "ascii"
        text = f"{_TO_ROW_BELOW}{line}{_BACK}"
        os.write(self._terminal, text.encode(encoding, errors="replace"))


def _format(proposal: Proposal) -> str:
    return proposal.intent or format_action(proposal.action)
