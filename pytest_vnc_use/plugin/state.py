"""What this plugin keeps on a test while it runs, in one object, and what it keeps on the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.options import layers_of
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import sanitize

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.agent.budget import Budget
    from pytest_vnc_use.plugin.markers import TaskSpec
    from pytest_vnc_use.plugin.redaction import SessionSecrets
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.report.results import RunFigures

FIXTURES = frozenset({"vnc_settings", "vnc_desktop", "vnc_planner", "vnc_agent"})
"""The fixtures that mark a test as one with a desktop."""
ATTACHED, SCREENSHOTS = "vnc", "vnc_screenshots"
"""The attributes of this plugin on pytest's reports: the notes and more, in JSON's types, and screenshots as bytes.

pytest documents that "reports can contain arbitrary extra attributes", and sends them from a worker of pytest-xdist to
the controller. So no other channel between the processes is needed, and `user_properties` are only for JUnit's XML.
"""
_NO_DATA: Mapping[str, Any] = {"runs": (), "dollars_since": None, "message": "", "rehearsals": (), "attempt": 1}
SETTINGS = pytest.StashKey[Settings]()
"""The settings of the session, in the stash of its config.

They are stored as soon as a setting is set or a test uses a desktop.
"""
SECRETS: pytest.StashKey[SessionSecrets] = pytest.StashKey()
"""The secrets of the session, in the stash of its config."""


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings of the session. Raises UsageError if one of them is wrong."""
    try:
        settings = merge(*layers_of(config))
        if settings.policy:
            load_policy(settings.policy)
    except SettingsError as exc:
        raise pytest.UsageError(sanitize(str(exc), str)) from exc
    return settings


class FailureTriage(NamedTuple):
    """The triage of a test's failure.

    `triage` is one of `types.TRIAGES`, or `triage.SETTINGS`; `rule` names the rule that decided; `message` is one
    line.
    """

    triage: str
    rule: str
    message: str


@dataclass
class ItemState:
    """The state of one test: its markers, and the progress of one attempt at it."""

    specs: tuple[TaskSpec, ...] = ()
    """The tasks of its markers."""
    problem: str = ""
    """What is wrong with its markers, on a worker of pytest-xdist; otherwise that ends the session."""
    overruled: str = ""
    """The `record` of its markers, if the command line overrides it."""
    follows: str = ""
    """The test before it on a desktop that tests share; "" on a desktop that no other test had."""

    timeout: Any = None
    """The time limit of pytest-timeout, if there is one."""

    attempt: int = 1
    """The number of this attempt: pytest-rerunfailures makes several."""
    agent: VncUseAgent | None = None
    """The agent, while it lives."""
    runs: list[Path] | None = None
    """The run directories of its runs; None if the test has not had an agent yet."""
    location: str = ""
    """The location of a run that has not ended, such as "at step 3"."""
    budget: Budget | None = None
    playwright_calls: list[str] = field(default_factory=list)
    """The calls of pytest-playwright's `page`, a line for each."""

    settings: Settings | None = None
    """The settings that its recording is made with."""
    recorded: RecordedTest | None = None
    """The test with its recording; None if it is neither replayed nor recorded."""
    rehearsal: Rehearsal | None = None
    """The rehearsal, while the test is run again to rehearse its recording."""

    notes: dict[str, Any] = field(default_factory=dict)
    """The facts of this attempt for its reports, by name: text, a number, or a list of texts."""
    rehearsals: list[Any] = field(default_factory=list)
    """The figures of its rehearsals, in JSON's types."""
    rehearsed_runs: list[dict[str, Any]] = field(default_factory=list)
    """The figures of the runs of its rehearsals."""
    unrepeated_runs: list[Path] = field(default_factory=list)
    """The run directories of the rehearsal that did not repeat, to be shown with the test."""
    rehearsed_costs: dict[str, Any] = field(default_factory=dict)
    """The cost of its rehearsals, in notes."""
    failure: FailureTriage | None = None
    """The triage of its failure, if it has failed."""
    raised: pytest.ExceptionInfo[BaseException] | None = None
    """The exception that the test raised, while another one replaces it for pytest-rerunfailures."""
    has_passed: bool = False
    """True if its call has passed."""
    has_failed: bool = False
    """True if its call has failed in part, as a subtest may while the test continues."""
    duration_s: float = 0.0
    decided: pytest.TestReport | None = None
    """The report that decides: the first that is bad, or else the one on the call."""
    reported_runs: dict[str, RunFigures] = field(default_factory=dict)
    """The figures of its runs that reports already contain, by run directory."""
    reported_dollars: float = 0.0
    """The share of its cost that reports already contain."""

    def add_note(self, name: str, text: str) -> None:
        """Append a text to the list under `name`."""
        self.notes.setdefault(name, []).append(text)


STATE = pytest.StashKey[ItemState]()
"""The state of a test, in the stash of its item."""


def state_of(item: pytest.Item) -> ItemState:
    """Return the state of a test."""
    return item.stash.setdefault(STATE, ItemState())


def begin_attempt(item: pytest.Item, *, rehearsal: Rehearsal | None = None) -> None:
    """Replace the test's state by that of a new attempt, and forget the notes of an earlier one."""
    previous = state_of(item)
    number = previous.attempt + 1 if previous.decided and not rehearsal else 1
    kept_fields = previous.specs, previous.problem, previous.overruled, previous.follows, previous.timeout
    item.stash[STATE] = ItemState(*kept_fields, number, rehearsal=rehearsal)
    item.user_properties[:] = without_notes(item.user_properties, previous)


def notes_as_properties(state: ItemState) -> list[tuple[str, Any]]:
    """Return the notes on a test as JUnit's XML shows them: properties such as `vnc_triage`."""
    notes = ((name, value if isinstance(value, list) else [value]) for name, value in state.notes.items())
    return [(f"vnc_{name}", value) for name, values in notes for value in values]


def without_notes(properties: Iterable[tuple[str, object]], state: ItemState) -> list[tuple[str, object]]:
    """Return the properties of a test that are not of its notes."""
    names = {f"vnc_{name}" for name in state.notes}
    return [(name, value) for name, value in properties if name not in names]


def attached_to(report: object) -> Mapping[str, Any]:
    """Return what was attached to a report; empty data for the report on a test without a desktop."""
    attached: Mapping[str, Any] = getattr(report, ATTACHED, _NO_DATA)
    return attached


def needs_desktop(item: pytest.Item) -> bool:
    """Return whether the test needs a desktop: by a fixture, a marker, or an agent that it fetched as it ran."""
    if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    return state_of(item).runs is not None or item.get_closest_marker("vnc_task") is not None


def desktop_of(item: pytest.Item) -> Any:
    """Return the test's desktop, which may be custom; None if it has none, or not yet."""
    return getattr(item, "funcargs", {}).get("vnc_desktop")
