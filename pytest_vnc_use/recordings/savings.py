"""The seconds and dollars of runs, and what replays save of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pytest_vnc_use import clock
from pytest_vnc_use.recordings.format import Live
from pytest_vnc_use.types import ModelExchange, Usage


@dataclass
class Meter:
    """The seconds and dollars of one run. `dollars` is None if they are not known."""

    began_s: float = field(default_factory=clock.monotonic)
    seconds: float = 0.0
    dollars: float | None = 0.0
    calls: int = 0

    def hear(self, exchange: ModelExchange) -> None:
        """Count a call of a model."""
        self.calls += 1
        if exchange.uncounted or (exchange.dollars is None and exchange.usage != Usage()):
            self.dollars = None
        elif self.dollars is not None:
            self.dollars += exchange.dollars or 0.0

    def end(self) -> None:
        """Note that the run is over; judges may be asked after that."""
        self.seconds = clock.monotonic() - self.began_s

    def live(self) -> Live:
        """Return the figures for the recording."""
        dollars = None if self.dollars is None or not self.calls else round(self.dollars, 6)
        return Live(seconds=round(self.seconds, 1), dollars=dollars)


class ReplayedRun(Protocol):
    """A run that was replayed."""

    @property
    def meter(self) -> Meter:
        """The time and tokens of the replay."""

    @property
    def live(self) -> Live | None:
        """The time and dollars of the recorded run, if its recording has them."""


@dataclass(frozen=True)
class Savings:
    """The savings of the replayed runs of a test. `dollars` is None if they are not known for each of the runs."""

    seconds: float
    dollars: float | None


def saved_by(runs: Iterable[ReplayedRun]) -> Savings | None:
    """Return what replayed runs saved; None for no run, or if a recording has no figures."""
    pairs = [(run.live, run.meter) for run in runs]
    seconds, dollars = 0.0, 0.0 if pairs else None
    for live, meter in pairs:
        if live is None:
            return None
        seconds += live.seconds - meter.seconds
        if live.dollars is None or meter.dollars is None or dollars is None:
            dollars = None
        else:
            dollars += live.dollars - meter.dollars
    return Savings(seconds, dollars) if pairs else None
