"""Rerun a test within its session: to rehearse its new recording, and each time that a
user undoes a step.

Each attempt runs a new item, created as the collected one was, so it finds nothing that
an earlier attempt, or another plugin, has left on one. pytest's protocol runs it, as in
pytest-rerunfailures. A rehearsal runs at the end of its test's teardown, so the test's
last report includes the results; the rehearsal itself is not reported.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pluggy
import pytest

# These names of pytest are private, and have no public counterpart:
# - `runtestprotocol` runs a test's phases. The hook `pytest_runtest_protocol` would
#   also call the plugins that report or rerun a test. pytest-rerunfailures uses it too.
# - `Function._fixtureinfo` has the values of the parameters, which are known only when
#   the test is collected. pytest-asyncio copies items with it too.
# - `failed_subtests_key` counts failed subtests by test id, which all attempts share:
#   pytest would fail the test for subtests of unreported attempts.
from _pytest.runner import runtestprotocol

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunDirectoryError, VncUseError
from pytest_vnc_use.plain_text import plain
from pytest_vnc_use.plugin import costs, terminal
from pytest_vnc_use.plugin.markers import authored_name
from pytest_vnc_use.plugin.state import (
    SETTINGS,
    STATE,
    ItemState,
    attached_to,
    needs_desktop,
    state_of,
)
from pytest_vnc_use.report.results import RehearsalFigures
from pytest_vnc_use.runs.directory import DRAFT_FILE, read_trace, to_json
from pytest_vnc_use.settings.settings import LOCAL_SERVERS, Settings

try:
    from _pytest.subtests import failed_subtests_key
except ImportError:  # pytest 8 has no subtests
    failed_subtests_key = pytest.StashKey()

if TYPE_CHECKING:
    from pytest_vnc_use.demonstrate.draft import DoneTask
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.types import Drift

UNDONE: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""Set once the user undoes steps: the tasks of this attempt without those steps, which
the next attempt repeats.
"""
REPEATED: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The tasks of the previous attempt that this one repeats."""
_RECORDED = pytest.StashKey[set[str]]()
"""The tests that the session has recorded, as `_authored_id` names them."""
_RESET_ADVICE = (
    "the test passed when it was recorded, but not the next time: reset what it leaves"
    " behind, in a fixture"
)
_REHEARSAL_ADVICE = (
    (
        "A replay types faster than a user: accept what the program shows then, or let"
        " the task wait for it."
    ),
    "If an earlier run caused it, reset it in a fixture.",
)
_VALUES_ADVICE = (
    "run the test with other values and --vnc-record=accept, and answer at each"
    " difference that it shows a value"
)
Timer = tuple[pytest.Item, Any]
"""A timer of pytest-timeout: its item, and its settings."""
_TIMER = pytest.StashKey[Timer]()
"""The running timer, in the stash of the config."""


class _AttemptItem(pytest.Function):
    """An item for one attempt at a test, whose reports no plugin receives."""

    reports: list[pytest.TestReport]
    """Its reports, and those of its subtests."""

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks of the test, but for its reports."""
        return cast("pluggy.HookRelay", _CollectingHooks(super().ihook, self.reports))


class _CollectingHooks:
    """The hooks of a test, except that its reports are only added to `reports`."""

    def __init__(
        self,
        hooks: pluggy.HookRelay,
        reports: list[pytest.TestReport],
    ) -> None:
        self._hooks = hooks
        self._reports = reports

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def pytest_runtest_logreport(self, *, report: pytest.TestReport) -> None:
        """Collect a report of the test, or of a subtest."""
        self._reports.append(report)


def _new_attempt(item: pytest.Function) -> _AttemptItem:
    """Return a new item for the test of `item`, as it was collected."""
    # The collected item may be of another plugin's class. In the mode `manual`, the item
    # to rehearse is an attempt already.
    kind: Any = type(item)
    if not isinstance(item, _AttemptItem):
        kind = type(_AttemptItem.__name__, (_AttemptItem, kind), {})
    arguments: dict[str, Any] = {
        "name": item.name,
        "callspec": getattr(item, "callspec", None),
        "fixtureinfo": item._fixtureinfo,
        "keywords": item.keywords,
        "originalname": item.originalname,
    }
    if item.cls is None:  # A method needs a new instance of its class.
        arguments["callobj"] = item.obj
    attempt: _AttemptItem = kind.from_parent(item.parent, **arguments)
    attempt.reports = []
    attempt.fixturenames = item.fixturenames
    attempt.own_markers[:] = item.own_markers
    attempt.stash[STATE] = ItemState(state_of(item).marked)
    return attempt


def _forget_subtests(attempt: _AttemptItem) -> None:
    """Make pytest forget the failed subtests of an unreported attempt."""
    failed_subtests: Any = attempt.config.stash.get(failed_subtests_key, {})
    key = getattr(attempt, "id", attempt.nodeid)
    failed_subtests.pop(key, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item,
    nextitem: pytest.Item | None,
) -> bool | None:
    """Rerun a test in which a user acts, each time that they undo steps.

    The next attempt repeats their other steps on a fresh desktop. Only the last attempt
    is reported. Run directories of earlier ones are removed, unless one has the draft.
    """
    mode = item.config.stash[SETTINGS].record
    has_page = item.config.pluginmanager.has_plugin("vnc_use_ui")
    may_undo = mode == "manual" or (mode == "accept" and has_page)
    if not may_undo or not needs_desktop(item):
        return None
    if not isinstance(item, pytest.Function):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    attempt = _new_attempt(item)
    undone_runs: list[Path] = []
    try:
        runtestprotocol(attempt, nextitem=nextitem)
        while UNDONE in attempt.stash and not item.session.shouldstop:
            undone = attempt.stash[UNDONE]
            _forget_subtests(attempt)
            undone_runs += state_of(attempt).runs or ()
            attempt = _new_attempt(item)
            attempt.stash[REPEATED] = undone
            runtestprotocol(attempt, nextitem=nextitem)
    finally:  # After Ctrl-C too, so that the summary names the interrupted test.
        for run in undone_runs:
            if not (run / DRAFT_FILE).exists():
                shutil.rmtree(run, ignore_errors=True)
        for report in attempt.reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def reused_desktop_reason(settings: Settings) -> str:
    """Return why a rerun would not get a fresh desktop; "" if it would."""
    if settings.scope != "test":
        return f"with --vnc-scope={settings.scope} no desktop is fresh"
    server = settings.server
    if server in LOCAL_SERVERS or server.startswith("container:"):
        return ""
    return "the desktop is not started here, so it is not fresh"


def note_recorded(item: pytest.Item) -> None:
    """Note that the session has recorded a test."""
    item.config.stash.setdefault(_RECORDED, set()).add(_authored_id(item))


def is_recorded_with_other_values(item: pytest.Item) -> bool:
    """Return whether the session has recorded the test with other values, which makes
    this set of values a replay.
    """
    specs = state_of(item).marked.specs
    has_values = any(spec.value_names for spec in specs)
    recorded = item.config.stash.get(_RECORDED, set())
    return has_values and _authored_id(item) in recorded


def _authored_id(item: pytest.Item) -> str:
    """Return the id that the test has with each set of values."""
    name, _ = authored_name(item)
    return f"{item.path}::{name}"


def rehearse(
    item: pytest.Function,
    nextitem: pytest.Item | None,
    paths: Sequence[Path],
) -> None:
    """Rehearse the recordings that the test has just written to `paths`, and add the
    results to the test's state.
    """
    state = state_of(item)
    settings = state.settings
    assert settings is not None
    figures: list[RehearsalFigures] = []
    reason = reused_desktop_reason(settings)
    is_rehearsed = bool(settings.rehearse) and not item.session.shouldstop
    if is_rehearsed and reason:
        state.add_note("rehearsal", f"not rehearsed: {reason}")
    elif is_rehearsed:
        try:
            _run_rehearsals(item, nextitem, paths, settings, figures)
        except (OSError, VncUseError) as exc:
            state.add_note("rehearsal", f"not rehearsed to the end: {plain(str(exc))}")
        except KeyboardInterrupt:
            # The test has passed, so it is reported before the session ends.
            item.session.shouldstop = "Ctrl-C in a rehearsal"
            state.add_note("rehearsal", "not rehearsed to the end: Ctrl-C")
    # The next parameter set may replay a manual recording, and then asks the user where
    # the screen shows the values.
    is_manual = settings.record == "manual"
    asks_next = is_manual and nextitem and is_recorded_with_other_values(nextitem)
    if not asks_next and all(rehearsal.repeated for rehearsal in figures):
        figures += _unlocated_values(paths)
    if figures:
        state.rehearsed.figures = to_json(figures)
        state.add_note("rehearsal", _summary(figures))


def _run_rehearsals(
    item: pytest.Function,
    nextitem: pytest.Item | None,
    paths: Sequence[Path],
    settings: Settings,
    figures: list[RehearsalFigures],
) -> None:
    """Replay the recordings as often as the settings state, or until one fails to
    repeat. Then write the learnt variants.

    The figures of each rehearsal are added to `figures`, so that those of earlier ones
    remain if one raises RecordingError, RunDirectoryUnwritable or OSError.
    """
    # These import numpy, as the test's agent has.
    from pytest_vnc_use.recordings.rehearse import FIRST_STAYS_S, Rehearsal
    from pytest_vnc_use.recordings.store import load, save

    rehearsed = state_of(item).rehearsed
    timer = item.config.stash.get(_TIMER, None)
    is_announced = settings.record == "manual" or item.config.get_verbosity() >= 1
    originals = {}
    for path in paths:
        original = load(path)
        assert original is not None
        originals[path] = original
    original_bytes = {path: path.read_bytes() for path in originals}
    recordings = originals
    lessons: list[str] = []
    number = 1
    while number <= settings.rehearse:
        if is_announced:
            text = (
                f"rehearsal {number} of {settings.rehearse}: the recording is replayed,"
                " to see that it repeats"
            )
            terminal.print_line(item.config, text)
        first_stays_s = FIRST_STAYS_S if number == 1 else 0.0
        rehearsal = Rehearsal(recordings.values(), first_stays_s)
        started_at = clock.monotonic()
        attempt = _new_attempt(item)
        state_of(attempt).rehearsal = rehearsal
        reports = _run_rehearsal(attempt, nextitem, timer)
        seconds = round(clock.monotonic() - started_at, 3)

        runs = _newest_runs(reports)
        for run in runs.values():
            rehearsed.runs.append({**run, "rehearsal": number})
        costs.add(rehearsed.costs, attached_to(reports[-1]))

        learnt = {
            path: rehearsal.learnt(recording) for path, recording in recordings.items()
        }
        lessons += rehearsal.lessons
        failed = _first_failure(attempt.reports, reports)
        if failed and rehearsal.is_unready:
            # The same rehearsal again, which now waits before the first step.
            recordings = learnt
            continue
        if failed:
            directories = [Path(run) for run in runs]
            figures.append(
                _failure_figures(number, seconds, failed, directories, rehearsal)
            )
            rehearsed.unrepeated_runs = directories
            break
        repeated = RehearsalFigures(
            number,
            repeated=True,
            learnt=tuple(lessons),
            seconds=seconds,
        )
        figures.append(repeated)
        recordings = learnt
        lessons = []
        number += 1

    for path, recording in recordings.items():
        # Another process may have recorded the test since.
        is_newest = path.read_bytes() == original_bytes[path]
        if recording is not originals[path] and is_newest:
            save(path, recording)


def _run_rehearsal(
    attempt: _AttemptItem,
    nextitem: pytest.Item | None,
    timer: Timer | None,
) -> list[pytest.TestReport]:
    """Run one rehearsal, and return the reports of its phases."""
    try:  # Ctrl-C may come at any time.
        with _time_limit(attempt, timer):
            return runtestprotocol(attempt, nextitem=nextitem)
    finally:
        _forget_subtests(attempt)


@contextmanager
def _time_limit(
    attempt: _AttemptItem,
    timer: Timer | None,
) -> Iterator[None]:
    """Replace the test's time limit, if pytest-timeout has set one, by a new one for
    the rehearsal.
    """
    if timer is None:
        yield
        return
    item, settings = timer
    hook = attempt.config.hook
    hook.pytest_timeout_cancel_timer(item=item)
    hook.pytest_timeout_set_timer(item=attempt, settings=settings)
    try:
        yield
    finally:
        hook.pytest_timeout_cancel_timer(item=attempt)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Store the timer, because each rehearsal gets a new one."""
    item.config.stash[_TIMER] = (item, settings)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Remove the timer, which ends."""
    if _TIMER in item.config.stash:
        del item.config.stash[_TIMER]


def _first_failure(
    all_reports: Sequence[pytest.TestReport],
    phase_reports: Sequence[pytest.TestReport],
) -> pytest.TestReport | None:
    """Return the first failure among all reports, or else the first report of a phase
    that is not a pass. So a subtest may be skipped, but no phase.
    """
    for report in all_reports:
        if report.failed:
            return report
    for report in phase_reports:
        if not report.passed or hasattr(report, "wasxfail"):
            return report
    return None


def _newest_runs(reports: Sequence[pytest.TestReport]) -> Mapping[str, dict[str, Any]]:
    """Return the newest figures of each run in the reports, by run directory."""
    runs = {}
    for report in reports:
        for run in attached_to(report)["runs"]:
            runs[run["directory"]] = run
    return runs


def _failure_figures(
    number: int,
    seconds: float,
    failed: pytest.TestReport,
    runs: Sequence[Path],
    rehearsal: Rehearsal,
) -> RehearsalFigures:
    """Return the figures of a rehearsal that did not repeat: its problem and remedies
    are those of its drift, if any, or else of the failed report.
    """
    for run in runs:
        drift = _last_drift(run)
        if drift is None:
            continue
        screens = run / "screens"
        return RehearsalFigures(
            number,
            repeated=False,
            problem=plain(drift.problem),
            advice="\n".join([*rehearsal.remedies, *_REHEARSAL_ADVICE]),
            recorded=str(screens / f"{drift.recorded.digest}.png"),
            seen=str(screens / f"{drift.seen.digest}.png"),
            seconds=seconds,
        )
    message = attached_to(failed)["message"]
    if not message:
        message = f"the test was {failed.outcome} in its {failed.when}"
    return RehearsalFigures(
        number,
        repeated=False,
        problem=plain(message),
        advice=_RESET_ADVICE,
        seconds=seconds,
    )


def _last_drift(run: Path) -> Drift | None:
    """Return the last drift of a run; None without one, or if it cannot be read."""
    with suppress(RunDirectoryError):
        drifts = read_trace(run).drifts
        return drifts[-1] if drifts else None
    return None


def _unlocated_values(paths: Sequence[Path]) -> list[RehearsalFigures]:
    """Return a problem if no user has stated where the screen shows some values of the
    recordings; else none. A rehearsal cannot find that out: its values are the same.
    """
    # These import numpy, as the test's agent has.
    from pytest_vnc_use.recordings.store import read_recording
    from pytest_vnc_use.recordings.values import places_unknown

    names: dict[str, None] = {}
    for path in paths:
        with suppress(OSError, VncUseError):  # Another process may have removed it.
            names |= dict.fromkeys(places_unknown(read_recording(path)))
    if not names:
        return []
    values = ", ".join(map(repr, names))
    problem = f"no user has stated yet where the screen shows the values {values}"
    return [RehearsalFigures(0, repeated=False, problem=problem, advice=_VALUES_ADVICE)]


def _summary(figures: Sequence[RehearsalFigures]) -> str:
    """Return the result of all rehearsals of a test as one line."""
    last = figures[-1]
    if not last.number:
        return f"did not repeat: {last.problem}"
    if not last.repeated:
        return f"did not repeat, in rehearsal {last.number}: {last.problem}"
    if last.number == 1:
        return "repeated in 1 rehearsal"
    return f"repeated in {last.number} rehearsals"
