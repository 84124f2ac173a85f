"""Keys of the notes that are kept on a test while it runs, for the reports on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.agent.budget import Budget
    from pytest_vnc_use.plugin.desktops import Desktops
    from pytest_vnc_use.plugin.redaction import SessionSecrets
    from pytest_vnc_use.plugin.task_spec import TaskSpec
    from pytest_vnc_use.report.results import RunFigures

SPECS: pytest.StashKey[tuple[TaskSpec, ...]] = pytest.StashKey()
"""The task specs that the test's markers give."""
OVERRULED = pytest.StashKey[str]()
"""The `record` of the test's markers, if the command line overrules it."""
RUNS = pytest.StashKey[list[Path]]()
"""The run folders of the test's runs."""
AGENT: pytest.StashKey[VncUseAgent] = pytest.StashKey()
"""The agent of the test, while it lives."""
PLACE = pytest.StashKey[str]()
"""The place of a run that has not ended, such as "at step 3"."""
FIXTURES = frozenset({"vnc_settings", "vnc_desktop", "vnc_planner", "vnc_agent"})
"""The fixtures that mark a test as one with a desktop."""
PROPERTIES = "vnc_"
"""The prefix of the properties that this plugin gives a test, also in JUnit's XML."""


class FailureTriage(NamedTuple):
    """The triage of a test's failure.

    `triage` is one of `types.TRIAGES`, or `triage.SETTINGS`; `rule` names the rule that decided; `message` is one
    line.
    """

    triage: str
    rule: str
    message: str


TRIAGE_OF_FAILURE = pytest.StashKey[FailureTriage]()
"""The triage of the test's failure, if it has failed."""
REPORTED_RUNS: pytest.StashKey[dict[str, RunFigures]] = pytest.StashKey()
"""The figures of the test's runs that reports already contain, by run folder."""
REPORTED_DOLLARS = pytest.StashKey[float]()
"""The part of the test's cost that reports already contain, in dollars."""
BUDGET: pytest.StashKey[Budget] = pytest.StashKey()
"""The budget of the test."""
PLAYWRIGHT_CALLS = pytest.StashKey[list[str]]()
"""The calls of Playwright in the test, a line for each, with `vnc_playwright`."""
DESKTOPS: pytest.StashKey[Desktops] = pytest.StashKey()
"""The desktops of this process, in the stash of its config."""
SECRETS: pytest.StashKey[SessionSecrets] = pytest.StashKey()
"""The secrets of the session, in the stash of its config."""
SETTINGS = pytest.StashKey[Settings]()
"""The settings of the session, in the stash of its config.

They are there as soon as a setting is given or a test has to do with a desktop.
"""


def is_ours(item: pytest.Item) -> bool:
    """Return whether the test needs a desktop: by a fixture, a marker, or an agent that it fetched as it ran."""
    if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    return RUNS in item.stash or item.get_closest_marker("vnc_task") is not None


def forget(item: pytest.Item) -> None:
    """Forget the notes on an earlier attempt; pytest-rerunfailures makes several."""
    of_runs: tuple[pytest.StashKey[Any], ...] = (
        RUNS,
        PLACE,
        TRIAGE_OF_FAILURE,
        REPORTED_RUNS,
        REPORTED_DOLLARS,
        BUDGET,
    )
    for key in (*of_runs, AGENT, PLAYWRIGHT_CALLS):
        if key in item.stash:
            del item.stash[key]
    item.user_properties[:] = [each for each in item.user_properties if not each[0].startswith(PROPERTIES)]


def desktop_of(item: pytest.Item) -> Any:
    """Return the test's desktop, which may be a user's own; None if it has none, or not yet."""
    return getattr(item, "funcargs", {}).get("vnc_desktop")
