"""The state of a test while it runs, in one object, and the state of the session."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.options import layers_of
from pytest_vnc_use.plugin.tasks import TaskSpec
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import Region

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.agent.budget import Budget
    from pytest_vnc_use.plugin.video import VideoOfTest
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.report.results import RunFigures

FIXTURES = frozenset({"vnc_settings", "vnc_desktop", "vnc_planner", "vnc_agent"})
"""The fixtures that mark a test as one with a desktop."""
ATTACHED = "vnc"
"""The attribute of this plugin on pytest's reports: the notes and more, in JSON's
types.

pytest documents that "reports can contain arbitrary extra attributes", and sends them
from a worker of pytest-xdist to the controller. So no other channel between the
processes is needed, and `user_properties` are only for JUnit's XML.
"""
SCREENSHOTS = "vnc_screenshots"
"""The attribute for screenshots, as bytes."""
Notes = Mapping[str, Any]
"""What is attached to a report."""
_NO_DATA: Notes = {
    "runs": (),
    "dollars_since": None,
    "message": "",
    "rehearsals": (),
    "attempt": 1,
}
SETTINGS = pytest.StashKey[Settings]()
"""The settings of the session, in the stash of its config.

They are stored as soon as a setting is set or a test uses a desktop.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings of the session. Raises UsageError if one of them is wrong."""
    try:
        settings = merge(*layers_of(config))
        if settings.policy:
            load_policy(settings.policy)
    except SettingsError as exc:
        raise pytest.UsageError(sanitize(str(exc), str)) from exc
    config.stash[SETTINGS] = settings


COLLECTED = pytest.StashKey[tuple[pytest.Item, ...]]()
"""All tests of the session, also those that an option deselects."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session,
    items: list[pytest.Item],
) -> None:
    """Note the tests before any is deselected: their recordings are in use."""
    session.stash[COLLECTED] = tuple(items)


class FailureTriage(NamedTuple):
    """The triage of a test's failure.

    `triage` is one of `types.TRIAGES`, or `triage.SETTINGS`; `rule` names the rule that
    decided; `message` is one line.
    """

    triage: str
    rule: str
    message: str


class Call(Enum):
    """The result of a test's call, as far as it is known."""

    PASSED = "passed"
    FAILED = "failed"
    """It failed, or a part of it did: a test continues after a failed subtest."""
    OTHER = "other"
    """It has not ended, was skipped, or was expected to fail."""


@dataclass
class Marked:
    """The content of a test's markers, the same in each attempt."""

    specs: tuple[TaskSpec, ...] = ()
    """The tasks."""
    problem: str = ""
    """What is wrong with the markers, on a worker of pytest-xdist; elsewhere a problem
    ends the session.
    """
    overruled: str = ""
    """Their `record`, if the command line overrides it."""


@dataclass
class Rehearsed:
    """What the rehearsals of a test's new recording showed."""

    figures: list[Any] = field(default_factory=list)
    """The figures of each, in JSON's types."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    """The figures of their runs."""
    unrepeated_runs: list[Path] = field(default_factory=list)
    """The run directories of the one that did not repeat, to be shown with the test."""
    costs: dict[str, Any] = field(default_factory=dict)
    """Their cost, in notes."""


@dataclass
class Reported:
    """What the reports on an attempt contain so far."""

    call: Call = Call.OTHER
    failure: FailureTriage | None = None
    """The triage of its failure, if it has failed."""
    decided: pytest.TestReport | None = None
    """The report that decides: the first that is not a pass, or else the one on the
    call.
    """
    duration_s: float = 0.0
    runs: dict[str, RunFigures] = field(default_factory=dict)
    """The figures of its runs, by run directory."""
    dollars: float = 0.0
    """The share of its cost."""


@dataclass
class ItemState:
    """The state of one test: its markers, and the progress of one attempt at it."""

    marked: Marked = field(default_factory=Marked)
    attempt: int = 1
    """The number of this attempt: pytest-rerunfailures makes several."""
    rehearsal: Rehearsal | None = None
    """The rehearsal, if the test is run again to rehearse its recording."""

    follows: str = ""
    """The test that used the same desktop before; "" on a new desktop."""
    settings: Settings | None = None
    """The settings that its recording is made with."""
    recorded_test: RecordedTest | None = None
    """The test with its recording; None if it is neither replayed nor recorded."""
    agent: VncUseAgent | None = None
    """The agent, while it lives."""
    runs: list[Path] | None = None
    """The run directories of its runs; None if the test has not had an agent yet."""
    budget: Budget | None = None
    video: VideoOfTest | None = None
    """What records the video, if one is asked for, until the last report."""

    location: str = ""
    """The location of a run that has not ended, such as "at step 3"."""
    playwright_calls: list[str] = field(default_factory=list)
    """The calls of pytest-playwright's `page`, a line for each."""
    notes: dict[str, Any] = field(default_factory=dict)
    """The facts of this attempt for its reports, by name: text, a number, or a list of
    texts.
    """

    transient_regions: Sequence[Region] = ()
    """The region of each text of the note `transient`."""

    rehearsed: Rehearsed = field(default_factory=Rehearsed)
    reported: Reported = field(default_factory=Reported)

    def add_note(self, name: str, text: str) -> None:
        """Append a text to the list under `name`."""
        self.notes.setdefault(name, []).append(text)


STATE = pytest.StashKey[ItemState]()
"""The state of a test, in the stash of its item."""


def state_of(item: pytest.Item) -> ItemState:
    """Return the state of a test."""
    return item.stash.setdefault(STATE, ItemState())


def begin_attempt(item: pytest.Item) -> None:
    """Replace the test's state by that of a new attempt, and forget the notes of an
    earlier one.
    """
    previous = state_of(item)
    state = ItemState(previous.marked, rehearsal=previous.rehearsal)
    if previous.reported.decided:
        state.attempt = previous.attempt + 1
    item.stash[STATE] = state
    item.user_properties[:] = without_notes(item.user_properties, previous)


def notes_as_properties(state: ItemState) -> list[tuple[str, Any]]:
    """Return the notes on a test as JUnit's XML shows them: properties such as
    `vnc_triage`.
    """
    properties = []
    for name, values in state.notes.items():
        if not isinstance(values, list):
            values = [values]
        properties += [(f"vnc_{name}", value) for value in values]
    return properties


def without_notes(
    properties: Iterable[tuple[str, object]],
    state: ItemState,
) -> list[tuple[str, object]]:
    """Return the properties of a test that are not of its notes."""
    names = {f"vnc_{name}" for name in state.notes}
    return [(name, value) for name, value in properties if name not in names]


def attached_to(report: object) -> Notes:
    """Return what was attached to a report; empty data for the report on a test without
    a desktop.
    """
    attached: Notes = getattr(report, ATTACHED, _NO_DATA)
    return attached


def result_of(report: Any) -> str:
    """Return the result of a report by pytest's name."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    return str(report.outcome)


def needs_desktop(item: pytest.Item) -> bool:
    """Return whether the test needs a desktop: by a fixture, a marker, or an agent that
    it fetched as it ran.
    """
    fixtures = getattr(item, "fixturenames", ())
    if not FIXTURES.isdisjoint(fixtures):
        return True
    if item.get_closest_marker("vnc_task"):
        return True
    return state_of(item).runs is not None


def workerinput_of(config: pytest.Config) -> Mapping[str, Any]:
    """Return what this worker of pytest-xdist got from its controller; nothing in
    another process.
    """
    workerinput: Mapping[str, Any] = getattr(config, "workerinput", {})
    return workerinput


def machine_of(config: pytest.Config) -> str:
    """Return the name of this machine on a worker of pytest-xdist, as the reader may be
    on another machine; else "".
    """
    return platform.node() if hasattr(config, "workerinput") else ""


def desktop_of(item: pytest.Item) -> Any:
    """Return the test's desktop, which may be custom; None if it has none, or not
    yet.
    """
    return getattr(item, "funcargs", {}).get("vnc_desktop")
