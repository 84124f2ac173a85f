"""The proof of a test's last task. If nothing independent shows that the task is done, a judge is asked.

A plugin, registered by on_demand.py. It notes which fixtures are set up, and when the body begins, as a task may run
before the body, in it, or after it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin.stash import (
    BEFORE_BODY,
    BEFORE_TEARDOWN,
    CHANGED,
    FOLLOWED,
    HAS_PASSED,
    RUNS,
    desktop_of,
    is_ours,
)

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.agent.claims import LastTask
    from pytest_vnc_use.body_checks.sights import Sights
    from pytest_vnc_use.body_checks.sources import Sources
    from pytest_vnc_use.types import RunEvent

_SETS_UP = frozenset({"setUp", "asyncSetUp"})
"""Methods that unittest calls as a part of the test, before its body."""


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    """Note each function-scoped fixture, with the number of runs before it."""
    if fixturedef.scope == "function":
        item = request.node
        item.stash.setdefault(FOLLOWED, []).append((fixturedef.func, len(item.stash.get(RUNS, ()))))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note when the body begins; fail a test whose program crashed."""
    item.stash[BEFORE_BODY] = len(item.stash.get(RUNS, ()))
    result = yield
    _check_program(item)
    return result


def _check_program(item: pytest.Item) -> None:
    """Raise ProgramCrashed if the program has crashed by the end of the test."""
    desktop = desktop_of(item) if is_ours(item) else None
    if desktop is None:
        return
    from pytest_vnc_use.errors import ProgramCrashed
    from pytest_vnc_use.triage.failure_text import crash_of, format_program_end

    try:
        crash = crash_of(desktop, of_itself=True)
    except Exception:  # noqa: BLE001  # a user's own desktop may raise anything, and the test does not depend on it
        return
    if crash:
        raise ProgramCrashed(format_program_end(crash, " before the test did"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note, after the test's call, the number of runs and whether the call passed."""
    report = yield
    if call.when == "call":
        item.stash[BEFORE_TEARDOWN] = len(item.stash.get(RUNS, ()))
        item.stash[HAS_PASSED] = report.passed and not hasattr(report, "wasxfail")
    return report


class Follower:
    """An observer of a test that notes what the test looks at, and which of its objects change during a task."""

    def __init__(self, item: pytest.Item) -> None:
        from pytest_vnc_use.body_checks.sightings import SIGHTINGS

        self._item, self._sightings, self._before = item, SIGHTINGS, dict[str, object]()
        SIGHTINGS.follow()

    def observe(self, event: RunEvent) -> None:
        """Compare the objects that the test holds before and after each task."""
        from pytest_vnc_use.types import RunEnded, RunStarted

        if isinstance(event, RunStarted):
            self._sightings.begin_task()
            self._before = self._state()
        elif isinstance(event, RunEnded) and self._before != self._state():
            self._item.stash[CHANGED] = True

    def close(self) -> None:
        """Stop following the test's looks."""
        self._sightings.rest()

    def _state(self) -> dict[str, object]:
        from pytest_vnc_use.body_checks.live_state import globals_of, state_of

        held = {name: thing for name, thing in _values(self._item).items() if not name.startswith("vnc_")}
        module = getattr(getattr(self._item, "module", None), "__dict__", {})
        try:
            return state_of({**globals_of(module), **held})
        except RuntimeError:  # it is changing right now
            return {"changes": object()}


def body_asserts(item: pytest.Function, sources: Sources | None = None, *, trusts_outcome: bool = False) -> bool:
    """Return whether the test's body asserts something about the product on all paths without a run of its own."""
    from pytest_vnc_use.body_checks.whole_functions import function_asserts

    try:
        from pytest_vnc_use.body_checks.sources import Sources

        return function_asserts(_body_of(item), _values(item), sources or Sources(), trusts_outcome=trusts_outcome)
    except Exception:  # noqa: BLE001  # as below
        return False


def judge_after_call(item: pytest.Item, agent: VncUseAgent) -> None:
    """Have the last task judged after the body, if nothing else proves it. Raises TaskFailed, InfraError."""
    from pytest_vnc_use.plugin.tasks import judge_last_task

    judge_last_task(agent, partial(_is_proven, item))


def judge_after_teardown(item: pytest.Item, agent: VncUseAgent) -> None:
    """Do the same for runs after the body, or for tests without a function, if the test has passed so far."""
    if item.stash.get(HAS_PASSED, False):
        judge_after_call(item, agent)
        agent.end_body()


def _is_proven(item: pytest.Item, last: LastTask) -> bool:
    try:
        return _asserts_after(item, last)
    except Exception:  # noqa: BLE001  # reading the test's code may fail in any way; in doubt, the judge is asked
        return False


def _asserts_after(item: pytest.Item, last: LastTask) -> bool:
    from pytest_vnc_use.body_checks.sights import Sights
    from pytest_vnc_use.body_checks.sources import Sources
    from pytest_vnc_use.body_checks.whole_functions import asserts_after_yield
    from pytest_vnc_use.types import Outcome

    trusts = last.result is None or last.result.outcome not in (Outcome.DONE, Outcome.GAVE_UP)
    sources = Sources(sights=Sights() if trusts else _sights(item, last))
    if _has_asserted(item, last, sources, trusts_outcome=trusts) and (trusts or _has_looked(item, last, sources)):
        return True
    if last.number > item.stash.get(BEFORE_TEARDOWN, last.number):
        return False
    for function, _ in item.stash.get(FOLLOWED, []):  # fixtures whose teardown is still to come
        sources = Sources()
        if asserts_after_yield(function, _values(item), sources) and (sources.desktop or _has_evidence(sources)):
            return True
    return False


def _has_asserted(item: pytest.Item, last: LastTask, sources: Sources, *, trusts_outcome: bool) -> bool:
    """Return whether the code that ran since the task surely asserts something that depends on a look."""
    from pytest_vnc_use.body_checks.whole_functions import asserts_after, function_asserts, looked_at

    values = _values(item)
    if asserts_after(last.places, values, sources, trusts_outcome=trusts_outcome):
        return True
    later = [function for function, runs in item.stash.get(FOLLOWED, []) if runs >= last.number]
    if any(function_asserts(function, values, sources) for function in later):
        return True
    is_set_up = bool(last.places) and last.places[-1].code.co_name in _SETS_UP
    if not is_set_up and last.number > item.stash.get(BEFORE_BODY, 0):  # the task ran in the body
        return False
    known = looked_at(last.places, values, sources)
    return function_asserts(_body_of(item), values, sources, trusts_outcome=trusts_outcome, looked_at=known)


def _has_looked(item: pytest.Item, last: LastTask, sources: Sources) -> bool:
    """Return whether the test can have learnt anything of the product since the task."""
    from pytest_vnc_use.body_checks.sightings import SIGHTINGS

    return len(SIGHTINGS.seen) > last.looks or item.stash.get(CHANGED, False) or _has_evidence(sources)


def _sights(item: pytest.Item, last: LastTask) -> Sights:
    from pytest_vnc_use.body_checks.sightings import SIGHTINGS
    from pytest_vnc_use.body_checks.sights import Sights

    return Sights(
        frozenset(SIGHTINGS.seen[last.looks :]),
        has_changed=item.stash.get(CHANGED, False),
        is_unsure=last.is_unsure,
        has_base=not SIGHTINGS.bases or bool(SIGHTINGS.bases - {":memory:", ""}),
        is_fresh=SIGHTINGS.is_fresh,
        has_written=SIGHTINGS.has_written,
    )


def _has_evidence(sources: Sources) -> bool:
    from pytest_vnc_use.body_checks.sightings import SIGHTINGS

    return sources.connection or any(map(SIGHTINGS.is_fresh, sources.files))


def _values(item: pytest.Item) -> Mapping[str, object]:
    values: Mapping[str, object] = getattr(item, "funcargs", {})
    return values


def _body_of(item: pytest.Item) -> object:
    """Return the test's function; pytest removes it from the item of a unittest once that has ended."""
    body = getattr(item, "obj", None)
    return body or getattr(getattr(item, "cls", None), getattr(item, "originalname", item.name), None)
