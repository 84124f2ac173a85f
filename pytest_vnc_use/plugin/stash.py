"""What is noted of a test while it runs, for the reports on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.body_checks.code_places import Lines
    from pytest_vnc_use.costs.budget import Budget
    from pytest_vnc_use.plugin.desktops import Desktops
    from pytest_vnc_use.plugin.task_spec import TaskSpec
    from pytest_vnc_use.report.results import RunFigures
    from pytest_vnc_use.triage.rules import RunEnd
    from pytest_vnc_use.types import Verdict

SPECS: pytest.StashKey[tuple[TaskSpec, ...]] = pytest.StashKey()
"""What the test's markers say."""
RUNS = pytest.StashKey[list[Path]]()
AGENT: pytest.StashKey[VncUseAgent] = pytest.StashKey()
ENDS: pytest.StashKey[list[RunEnd]] = pytest.StashKey()
PLACE = pytest.StashKey[str]()
"""Where a run that has not ended is: "at step 3"."""
HIDE = pytest.StashKey[Callable[[str], str]]()
VERDICTS: pytest.StashKey[tuple[tuple[Verdict, Lines], ...]] = pytest.StashKey()
"""What was judged so far, and where the test stood then."""
FOLLOWED: pytest.StashKey[list[tuple[Callable[..., object], int]]] = pytest.StashKey()
"""The fixtures of the test alone, as they are set up, each with how many runs there were before it."""
BEFORE_BODY = pytest.StashKey[int]()
"""How many runs there were when the test's body began."""
BEFORE_TEARDOWN = pytest.StashKey[int]()
"""How many runs there were when the test's call had ended."""
CHANGED = pytest.StashKey[bool]()
"""Whether something that the test holds has changed while a task was carried out."""
HAS_PASSED = pytest.StashKey[bool]()
"""Whether the test's call has passed."""
FIXTURES = frozenset({"vnc_settings", "vnc_desktop", "vnc_planner", "vnc_agent"})
PROPERTIES = "vnc_"
"""How the names of the properties begin that this plugin gives a test, in JUnit's XML too."""


class Found(NamedTuple):
    """What a failure of a test turned out to be.

    `triage` is one of `triage.TRIAGES`, or `triage.SETTINGS`; `rule` says which rule decided; `message` is a line.
    """

    triage: str
    rule: str
    message: str


FOUND = pytest.StashKey[Found]()
TOLD: pytest.StashKey[dict[str, RunFigures]] = pytest.StashKey()
"""What reports have told of the test's runs so far, by run folder."""
TOLD_DOLLARS = pytest.StashKey[float]()
"""What reports have told so far of what the test cost."""
BUDGET: pytest.StashKey[Budget] = pytest.StashKey()
DESKTOPS: pytest.StashKey[Desktops] = pytest.StashKey()
"""Those of this process, in the stash of its config."""
SETTINGS = pytest.StashKey[Settings]()
"""Of the whole session, in the stash of its config, as soon as something is set or a test has to do with a desktop."""


def is_ours(item: pytest.Item) -> bool:
    """Whether the test has to do with a desktop: by its fixtures or marker, or as it fetched an agent while it ran."""
    if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    return RUNS in item.stash or item.get_closest_marker("vnc_task") is not None


def forget(item: pytest.Item) -> None:
    """Forget what was noted of an earlier attempt, as pytest-rerunfailures makes several."""
    of_runs: tuple[pytest.StashKey[Any], ...] = (RUNS, ENDS, PLACE, HIDE, VERDICTS, FOUND, TOLD, TOLD_DOLLARS, BUDGET)
    keys = (*of_runs, AGENT, FOLLOWED, BEFORE_BODY, BEFORE_TEARDOWN, CHANGED, HAS_PASSED)
    for key in keys:
        if key in item.stash:
            del item.stash[key]
    item.user_properties[:] = [each for each in item.user_properties if not each[0].startswith(PROPERTIES)]


def desktop_of(item: pytest.Item) -> Any:
    """The test's desktop, which may be a user's own; None where it has none, or not yet."""
    return getattr(item, "funcargs", {}).get("vnc_desktop")
