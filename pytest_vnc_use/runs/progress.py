"""The progress of a run, as a line on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable

from pytest_vnc_use import clock
from pytest_vnc_use.plain_text import columns_of, fit, plain
from pytest_vnc_use.runs.terminal_line import TerminalLine
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
            case ModelExchange():
                self._hear(event)
            case StepStarted():
                self._runs, self._step, self._what = True, event.number, _format(event.proposal)
            case StepFinished():
                self._last = f", last: {_format(event.step.proposal)}"
                self._step, self._what = event.step.number, f"waits for {self._planner}{self._last}"
            case ApprovalAsked() | RunEnded():
                self._runs = self._asks = False
            case _:
                pass  # what is judged, read or drifted stands in the reports

    def _hear(self, exchange: ModelExchange) -> None:
        again_s = exchange.retry_in_s
        self._asks = again_s is not None
        if again_s is not None:
            self._what = f"asks {exchange.model} again in {again_s:.0f} s: {exchange.error}"
        if exchange.dollars is not None and self._dollars is not None:
            self._dollars += exchange.dollars
        elif exchange.uncounted or exchange.usage != Usage():
            self._dollars = None

    def text(self, columns: int) -> str:
        """Return the line, which takes at most `columns` on a terminal; nothing in it can do harm there."""
        end = f" ({', '.join(self._figures())})"
        test = f"{fit(self._safe(self._test), columns // 3)}: " if self._test else ""
        limit = f" of {self._limit}" if self._limit else ""  # not known where a run goes on in another process
        step = f"step {self._step}{limit}: " if limit or self._step else ""
        what = fit(self._safe(self._now()), columns - columns_of(test + step + end))
        return fit(f"{test}{step}{what}{end}", columns)

    def _now(self) -> str:
        until_s = self._gate_until_s
        if until_s is None:
            return self._what
        return f"waits for the recorded screen, {max(0, math.ceil(until_s - clock.monotonic()))} s left"

    def _figures(self) -> list[str]:
        seconds = f"{clock.monotonic() - self._began_s:.0f} s"
        if self._dollars is None:
            return [seconds, "price unknown"]
        digits = 1 if self._dollars >= 0.01 else 2
        return [seconds, f"{self._dollars * 100:.{digits}f} cents"] if self._dollars else [seconds]

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
