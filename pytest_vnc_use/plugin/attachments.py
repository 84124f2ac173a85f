"""The data that this plugin attaches to pytest's reports, and the only file that does so.

pytest documents that "reports can contain arbitrary extra attributes". It sends them from a worker of pytest-xdist to
the controller, and pytest-html reads `extras`. So the data needs no other way between the processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

FIGURES, PICTURES = "vnc_told", "vnc_pictures"
"""The attributes. `FIGURES` has JSON's own types, as files of pytest-reportlog show it; pictures are bytes."""
_EXTRAS = "extras"
"""The attribute that pytest-html shows."""
_NOTHING: Mapping[str, Any] = {"runs": (), "dollars": None, "message": "", "rehearsals": ()}


def attach(report: pytest.TestReport, runs: Sequence[object], dollars: float | None, message: str) -> None:
    """Mark the report as one of a test with a desktop.

    `runs` are the figures, in JSON's own types, of the runs that no earlier report contains, or only in an older state;
    `dollars` is the cost since the last report, None if nobody counts it.
    """
    _set(report, FIGURES, {"runs": runs, "dollars": dollars, "message": message, "rehearsals": []})


def attach_rehearsals(
    report: pytest.TestReport, rehearsals: Sequence[object], runs: Sequence[object], dollars: float | None
) -> None:
    """Add the rehearsals of the test's recording, in JSON's own types, their runs and dollars to the attached data."""
    before = attached_to(report)
    spent = before["dollars"] if dollars is None else (before["dollars"] or 0.0) + dollars
    more = {"runs": [*before["runs"], *runs], "dollars": spent, "rehearsals": rehearsals}
    _set(report, FIGURES, {**before, **more})


def attach_html(
    report: pytest.TestReport, extras: Sequence[Mapping[str, Any]], pictures: Sequence[tuple[str, str, bytes]]
) -> None:
    """Add blocks for pytest-html, and the pictures that they show: each with its run, its name and its PNG."""
    _set(report, _EXTRAS, [*extras_of(report), *extras])
    _set(report, PICTURES, [*pictures_of(report), *pictures])


def is_of_desktop(report: object) -> bool:
    """Return whether the report is one of a test with a desktop."""
    return hasattr(report, FIGURES)


def attached_to(report: object) -> Mapping[str, Any]:
    """Return the data that was attached to a report; empty data for other reports."""
    attached: Mapping[str, Any] = getattr(report, FIGURES, _NOTHING)
    return attached


def runs_attached_to(report: object) -> Sequence[Mapping[str, Any]]:
    """Return the figures of the runs that were attached to a report; none for other reports."""
    runs: Sequence[Mapping[str, Any]] = attached_to(report)["runs"]
    return runs


def extras_of(report: object) -> Sequence[Any]:
    """Return the blocks for pytest-html; other plugins may have added some of them."""
    extras: Sequence[Any] = getattr(report, _EXTRAS, ())
    return extras


def pictures_of(report: object) -> Sequence[tuple[str, str, bytes]]:
    """Return the pictures that the report carries."""
    pictures: Sequence[tuple[str, str, bytes]] = getattr(report, PICTURES, ())
    return pictures


def take_pictures(report: object) -> Sequence[tuple[str, str, bytes]]:
    """Return the pictures that the report carries, and remove them from it, because pytest keeps all reports."""
    pictures: Sequence[tuple[str, str, bytes]] = vars(report).pop(PICTURES, ())
    return pictures


def _set(report: pytest.TestReport, name: str, value: object) -> None:
    setattr(report, name, value)
