"""The progress of a run on a terminal: one line below its output, which is rewritten, and erased completely.

The cursor stays at the end of the earlier output, so the next output continues there. For that, a line is drawn one row
below: the cursor moves down a row (the terminal scrolls if it must), notes its place, writes, returns, moves up.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pytest_vnc_use import clock
from pytest_vnc_use.plain_text import columns_of, fit, plain
from pytest_vnc_use.runs.transcript import format_action
from pytest_vnc_use.types import (
    ApprovalAsked,
    GateAwaited,
    ModelAsked,
    ModelExchange,
    Proposal,
    RunEnded,
    RunEvent,
    RunStarted,
    StepFinished,
    StepStarted,
    Usage,
)

_EVERY_S = 0.25
_MIN_COLUMNS = 20
_DOWN_AND_NOTE, _UP = "\x1bD\x1b7\r", "\x1b8\x1b[A"
_UNWRAPPED, _WRAPPED, _ERASED = "\x1b[?7l", "\x1b[?7h", "\x1b[J"


def can_show(number: int) -> bool:
    """Return whether a file descriptor is a terminal on which a line can be rewritten, with a user before it."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return os.isatty(number) and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


class LiveLine:
    """An observer of runs that shows on the terminal behind a file descriptor where they are.

    The line has the name of the `test`, if any, the step, the activity, seconds and cents. A thread draws it, four
    times a second, while a run is active or a model is asked, and `is_free` says that nobody else writes there. `hide`
    takes secrets out of a text. A terminal that is gone breaks nothing.
    """

    def __init__(
        self, number: int, test: str, hide: Callable[[str], str], is_free: Callable[[], bool] = lambda: True
    ) -> None:
        self._number, self._test, self._hide, self._is_free = os.dup(number), test, hide, is_free
        self._lock = threading.RLock()
        self._stopped: threading.Event | None = None
        self._is_drawn = self._is_closed = self._runs = self._asks = False
        self._started_s = clock.monotonic()
        self._dollars: float | None = 0.0
        """The cost so far; None once a price is unknown."""
        self._step, self._limit, self._planner = 0, 0, ""
        self._activity, self._last = "looks at the screen", ""
        self._gate_until_s: float | None = None

    def observe(self, event: RunEvent) -> None:
        """Note what the event says of the run's place, and draw or erase the line. Any thread may call this."""
        self._gate_until_s = None
        match event:
            case RunStarted():
                self._runs, self._step, self._limit = True, 0, event.limits.steps
                self._planner, self._activity, self._last = event.planner, f"waits for {event.planner}", ""
            case GateAwaited():
                self._runs, self._gate_until_s = True, clock.monotonic() + event.remaining_s
            case ModelAsked():
                whom = "the judge" if event.purpose == "judge" else event.model
                self._asks, self._activity = True, f"asks {whom}{self._last}"
            case ModelExchange(retry_in_s=again_s):
                self._asks = again_s is not None
                if again_s is not None:
                    self._activity = f"asks {event.model} again in {again_s:.0f} s: {event.error}"
                if event.dollars is not None and self._dollars is not None:
                    self._dollars += event.dollars
                elif event.uncounted or event.usage != Usage():
                    self._dollars = None
            case StepStarted():
                self._runs, self._step, self._activity = True, event.number, _format(event.proposal)
            case StepFinished():
                self._last = f", last: {_format(event.step.proposal)}"
                self._step, self._activity = event.step.number, f"waits for {self._planner}{self._last}"
            case ApprovalAsked() | RunEnded():
                self._runs = self._asks = False
            case _:
                pass  # what is judged, read or drifted is in the reports
        if self._runs or self._asks:
            self._show()
        else:
            self.erase()

    def text(self, columns: int) -> str:
        """Return the line, which takes at most `columns` on a terminal; nothing in it can do harm there."""
        figures = [f"{clock.monotonic() - self._started_s:.0f} s"]
        if self._dollars is None:
            figures.append("price unknown")
        elif self._dollars:
            figures.append(f"{self._dollars * 100:.{1 if self._dollars >= 0.01 else 2}f} cents")
        end = f" ({', '.join(figures)})"
        test = f"{fit(self._safe(self._test), columns // 3)}: " if self._test else ""
        limit = f" of {self._limit}" if self._limit else ""  # not known where a run continues in another process
        step = f"step {self._step}{limit}: " if limit or self._step else ""
        activity = self._activity
        if self._gate_until_s is not None:
            left_s = max(0, math.ceil(self._gate_until_s - clock.monotonic()))
            activity = f"waits for the recorded screen, {left_s} s left"
        activity = fit(self._safe(activity), columns - columns_of(test + step + end))
        return fit(f"{test}{step}{activity}{end}", columns)

    def _safe(self, text: str) -> str:
        return self._hide(plain(self._hide(text)))  # again, as control characters may have split a secret

    def _show(self) -> None:
        with self._lock:
            if self._stopped is None and not self._is_closed:
                self._stopped = threading.Event()
                threading.Thread(target=self._draw, args=(self._stopped,), daemon=True).start()

    def _draw(self, stopped: threading.Event) -> None:
        while not stopped.wait(_EVERY_S):  # first, so that a short run does not make the line flicker
            with self._lock, suppress(OSError):
                if not stopped.is_set() and self._is_free():
                    columns = os.get_terminal_size(self._number).columns
                    self._write(self.text(columns - 1) if columns >= _MIN_COLUMNS else "")

    def _write(self, text: str) -> None:
        """Draw the text; erase the line if it is empty."""
        line = f"{_UNWRAPPED}{text}{_ERASED}{_WRAPPED}" if text else _ERASED
        if text or self._is_drawn:
            self._is_drawn = bool(text)
            with suppress(OSError):
                encoding = os.device_encoding(self._number) or "ascii"
                os.write(self._number, f"{_DOWN_AND_NOTE}{line}{_UP}".encode(encoding, errors="replace"))

    def erase(self) -> None:
        """Erase the line, until an event shows it again."""
        with self._lock:
            if self._stopped:
                self._stopped.set()
                self._stopped = None
            self._write("")

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Erase the line while the caller writes on the terminal."""
        with self._lock:
            self._write("")
            yield

    def close(self) -> None:
        """Erase the line, and release the terminal; a second call does nothing."""
        with self._lock:
            self.erase()
            if not self._is_closed:
                self._is_closed = True
                os.close(self._number)


def _format(proposal: Proposal) -> str:
    return proposal.intent or format_action(proposal.action)
