"""The progress of a run on a terminal: one line below its output, which is rewritten, and erased completely.

The cursor stays at the end of the earlier output, so the next output continues there. For that, a line is drawn one row
below: the cursor moves down a row (the terminal scrolls if it must), notes its place, writes, returns, moves up.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
_LEAST_COLUMNS = 20
_DOWN_AND_NOTE, _UP = "\x1bD\x1b7\r", "\x1b8\x1b[A"
_UNWRAPPED, _WRAPPED, _ERASED = "\x1b[?7l", "\x1b[?7h", "\x1b[J"
_NAMES_IN_CI = ("CI", "BUILD_NUMBER")


def can_show(number: int) -> bool:
    """Return whether a file descriptor is a terminal on which a line can be rewritten, with a person before it."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return os.isatty(number) and not any(os.environ.get(name) for name in _NAMES_IN_CI)


class TerminalLine:
    """A line on the terminal behind a file descriptor. A thread draws it, four times a second, while it is shown.

    `text` returns the line for a number of columns; "" for none. It must be safe for a terminal, and is called from the
    thread. `is_free` says whether nobody else writes on the terminal now.
    """

    def __init__(self, number: int, text: Callable[[int], str], is_free: Callable[[], bool] = lambda: True) -> None:
        self._number = os.dup(number)
        self._text, self._is_free = text, is_free
        self._lock = threading.RLock()
        self._is_shown = self._is_drawn = self._is_closed = False
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self) -> None:
        """Draw the line from now on, after a short delay, so that a short run does not make it flicker."""
        with self._lock:
            if self._is_shown or self._is_closed:
                return
            self._is_shown = True
            self._changed = threading.Event()
            self._thread = threading.Thread(target=self._draw_often, args=(self._changed,), daemon=True)
            self._thread.start()

    def hide(self) -> None:
        """Erase the line, and stop drawing it."""
        with self._lock:
            self._is_shown = False
            self._changed.set()
            self._erase()

    def close(self) -> None:
        """Erase the line, and release the terminal; a second call does nothing."""
        self.hide()
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._number)

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Erase the line while the caller writes on the terminal."""
        with self._lock:
            self._erase()
            yield

    def _draw_often(self, changed: threading.Event) -> None:
        while not changed.wait(_EVERY_S):
            with self._lock:
                if changed.is_set():
                    return
                if self._is_free():
                    self._draw()

    def _draw(self) -> None:
        try:
            columns = os.get_terminal_size(self._number).columns
        except OSError:  # the terminal is gone
            return
        if text := self._text(columns - 1) if columns >= _LEAST_COLUMNS else "":
            self._is_drawn = True
            self._write(f"{_DOWN_AND_NOTE}{_UNWRAPPED}{text}{_ERASED}{_WRAPPED}{_UP}")
        else:
            self._erase()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(f"{_DOWN_AND_NOTE}{_ERASED}{_UP}")

    def _write(self, text: str) -> None:
        try:
            os.write(self._number, text.encode(os.device_encoding(self._number) or "ascii", errors="replace"))
        except OSError:  # the terminal is gone, and its line with it
            self._is_shown = False
            self._changed.set()


class Progress:
    """An observer of a test's runs that has their progress as text: test, step, activity, seconds, cents.

    `test` is the test's name, "" without one. `hide` takes secrets out of a text.
    """

    def __init__(self, test: str, hide: Callable[[str], str]) -> None:
        self._test, self._hide = test, hide
        self._began_s = clock.monotonic()
        self._dollars: float | None = 0.0
        """The cost so far; None once a price is unknown."""
        self._step, self._limit, self._planner = 0, 0, ""
        self._what, self._last = "looks at the screen", ""
        self._gate_until_s: float | None = None
        self._runs = self._asks = False

    @property
    def goes_on(self) -> bool:
        """Return whether a run is active, or a model is asked; false while a person is asked."""
        return self._runs or self._asks

    def observe(self, event: RunEvent) -> None:
        """Note what the event says of the run's place. Any thread may call this."""
        self._gate_until_s = None
        match event:
            case RunStarted():
                self._runs, self._step, self._limit = True, 0, event.limits.steps
                self._planner, self._what, self._last = event.planner, f"waits for {event.planner}", ""
            case GateAwaited():
                self._runs, self._gate_until_s = True, clock.monotonic() + event.remaining_s
            case ModelAsked():
                whom = "the judge" if event.purpose == "judge" else event.model
                self._asks, self._what = True, f"asks {whom}{self._last}"
            case ModelExchange(retry_in_s=again_s):
                self._asks = again_s is not None
                if again_s is not None:
                    self._what = f"asks {event.model} again in {again_s:.0f} s: {event.error}"
                if event.dollars is not None and self._dollars is not None:
                    self._dollars += event.dollars
                elif event.uncounted or event.usage != Usage():
                    self._dollars = None
            case StepStarted():
                self._runs, self._step, self._what = True, event.number, _format(event.proposal)
            case StepFinished():
                self._last = f", last: {_format(event.step.proposal)}"
                self._step, self._what = event.step.number, f"waits for {self._planner}{self._last}"
            case ApprovalAsked() | RunEnded():
                self._runs = self._asks = False
            case _:
                pass  # what is judged, read or drifted stands in the reports

    def text(self, columns: int) -> str:
        """Return the line, which takes at most `columns` on a terminal; nothing in it can do harm there."""
        figures = [f"{clock.monotonic() - self._began_s:.0f} s"]
        if self._dollars is None:
            figures.append("price unknown")
        elif self._dollars:
            figures.append(f"{self._dollars * 100:.{1 if self._dollars >= 0.01 else 2}f} cents")
        end = f" ({', '.join(figures)})"
        test = f"{fit(self._safe(self._test), columns // 3)}: " if self._test else ""
        limit = f" of {self._limit}" if self._limit else ""  # not known where a run continues in another process
        step = f"step {self._step}{limit}: " if limit or self._step else ""
        now = self._what
        if self._gate_until_s is not None:
            left_s = max(0, math.ceil(self._gate_until_s - clock.monotonic()))
            now = f"waits for the recorded screen, {left_s} s left"
        what = fit(self._safe(now), columns - columns_of(test + step + end))
        return fit(f"{test}{step}{what}{end}", columns)

    def _safe(self, text: str) -> str:
        return self._hide(plain(self._hide(text)))  # again, as control characters may have split a secret


def _format(proposal: Proposal) -> str:
    return proposal.intent or format_action(proposal.action)


class ShownProgress:
    """An observer that shows the progress of runs on a terminal."""

    def __init__(self, progress: Progress, number: int, is_free: Callable[[], bool] = lambda: True) -> None:
        """Show it on the terminal behind a file descriptor, while `is_free` says that nobody else writes there."""
        self._progress = progress
        self.line = TerminalLine(number, progress.text, is_free)

    def observe(self, event: RunEvent) -> None:
        """Note the event, and draw or erase the line."""
        self._progress.observe(event)
        if self._progress.goes_on:
            self.line.show()
        else:
            self.line.hide()
