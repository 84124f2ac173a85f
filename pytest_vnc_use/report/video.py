"""A run's video as its page shows it: the file, and when each step started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vnc_use.runs.directory import VIDEO_FILE, FinishedTest, Trace
from pytest_vnc_use.runs.json_lines import read_whole
from pytest_vnc_use.types import StepFinished, StepStarted


@dataclass(frozen=True)
class Video:
    """A video that is beside the page, or the problem for which there is none.

    `starts` has the second of the video in which each step started, by its number; `end_s`
    is when the last one ended.
    """

    problem: str = ""
    starts: Mapping[int, float] = field(default_factory=dict)
    end_s: float = 0.0
    address: str = VIDEO_FILE

    def copied(self, run: Path, added: dict[str, bytes]) -> Video:
        """Return the video, whose file is in `added` from now on, by its address."""
        if self.problem:
            return self
        try:
            added[self.address] = read_whole(run / self.address)
        except OSError as exc:
            return Video(f"it cannot be read: {exc}")
        return self


def video_of(trace: Trace, ended: FinishedTest | None) -> Video | None:
    """Return the video of a run; None if none was asked for."""
    if not (trace.path / VIDEO_FILE).is_file():
        problem = ended.video if ended else ""
        return Video(problem) if problem else None
    starts: dict[int, float] = {}
    end_s = 0.0
    for timed in trace.events:
        match timed.event:
            case StepStarted(number=number):
                starts[number] = timed.at_s
            case StepFinished():
                end_s = timed.at_s
    return Video("", starts, end_s)
