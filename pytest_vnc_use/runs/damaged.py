"""Reading of a run folder that may be damaged: what is left of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.json_lines import JsonLines
from pytest_vnc_use.runs.seal import are_sealed
from pytest_vnc_use.runs.trace import TimedEvent, Trace, event_of, header_of, is_event, trace_lines, trace_of
from pytest_vnc_use.types import ModelExchange

_MOST_DOLLARS = 1e9
_MOST = 20
"""The most damaged lines that are reported one by one."""


def read_what_is_left(path: Path) -> tuple[Trace, list[str]]:
    """Return the content of a run folder without its damaged lines, and what is damaged.

    Raises RunFolderError if there is no trace, if its header is damaged or newer, or if the run never saw a screen.
    """
    file, written = trace_lines(path)
    header = header_of(file.path, next(file.parsed(written[:1]), {}))
    events: list[TimedEvent] = []
    damage: list[str] = []
    for number, line in enumerate(written[1:], start=2):
        _add(file, number, line, events, damage)
    if file.path.stat().st_size > sum(len(line) + 1 for line in written):
        damage.append(f"{file.path.name} ends in the middle of line {len(written) + 1}: that line is left out")
    if damage[_MOST:]:
        damage[_MOST:] = [f"and {len(damage) - _MOST} more damaged lines"]
    is_own = not damage and are_sealed(written) and header.run_id == path.name
    return trace_of(path, header, events, is_own=is_own), damage


def _add(file: JsonLines, number: int, line: bytes, events: list[TimedEvent], damage: list[str]) -> None:
    try:
        for parsed in file.parsed([line]):
            if is_event(parsed):
                events.append(_with_possible_cost(event_of(file.path, parsed)))
    except RunFolderError:
        damage.append(f"line {number} of {file.path.name} is damaged: it is left out")


def _with_possible_cost(timed: TimedEvent) -> TimedEvent:
    """Return the event; an impossible cost, such as nan, counts as unknown."""
    event = timed.event
    if isinstance(event, ModelExchange) and event.dollars is not None and not 0 <= event.dollars < _MOST_DOLLARS:
        return replace(timed, event=replace(event, dollars=None))
    return timed
