"""Tests that run again in one session: with a new recording, to rehearse it; and by
hand, each time that a user undoes a step.

Each attempt has an item of its own, made as the collected one was, so nothing is left
on an item that a later attempt, or another plugin, would find there. pytest's own
protocol runs it, as pytest-rerunfailures does. A rehearsal runs at the end of the
teardown of its test, so the test's last report includes its results; it has no reports
of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pluggy
import pytest

# What is private in pytest, and has no public name:
# - `runtestprotocol` runs a test's phases. The hook `pytest_runtest_protocol` would also
#   call the plugins that report or rerun a test. pytest-rerunfailures uses it too.
# - `Function._fixtureinfo` knows the parameters' values, which are found only where the
#   test is collected. pytest-asyncio makes an item of another with it too.
# - `failed_subtests_key` counts failures by the test's id, which all attempts share:
#   pytest would fail the test for those of attempts that are not reported.
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
from pytest_vnc_use.settings.settings import Settings

try:
    from _pytest.subtests import failed_subtests_key
except ImportError:  # pytest 8 has no subtests
    failed_subtests_key = pytest.StashKey()

if TYPE_CHECKING:
    from pytest_vnc_use.demonstrate.draft import DoneTask
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.types import Drift, Region

_FRESH_SERVERS = ("qt", "xvnc")
"""The servers that are started here, beside containers."""
UNDONE: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The tasks that the user has performed in this attempt, without the steps that they
have undone.
"""
REPEATED: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The tasks of the previous attempt, to be repeated."""
RECORDED = pytest.StashKey[set[str]]()
"""The tests that the session has recorded, without parameters that are values."""
_RESET_STATE = (
    "the test passed when it was recorded, but not the next time: reset what it leaves"
    " behind, in a fixture"
)
_IN_REHEARSAL = (
    (
        "A replay types faster than a user: accept what the program shows then, or let"
        " the task wait for it."
    ),
    "If an earlier run caused it, reset it in a fixture.",
)
_SAY_PLACES = (
    "run the test with other values and --vnc-record=accept, and answer at each"
    " difference that it shows a value"
)
Timer = tuple[pytest.Item, Any]
"""A timer of pytest-timeout: its item, and its settings."""
_TIMER = pytest.StashKey[Timer]()
"""The timer that runs now, in the stash of the config."""


class _AttemptItem(pytest.Function):
    """An item for one more attempt at a test. Its reports, and those of its subtests,
    are in `reports`, and reach no plugin.
    """

    reports: list[pytest.TestReport]

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks of the test."""
        return cast("pluggy.HookRelay", _Hooks(super().ihook, self.reports))


class _Hooks:
    """The hooks of a test, except that its reports go only to `reports`."""

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
        """Keep the report of the test, or of a subtest."""
        self._reports.append(report)


def _attempt_at(item: pytest.Function) -> _AttemptItem:
    """Return a new item for the test of another, as it was collected."""
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
    if item.cls is None:  # each test has a separate instance of the class
        arguments["callobj"] = item.obj
    attempt: _AttemptItem = kind.from_parent(item.parent, **arguments)
    attempt.reports = []
    attempt.fixturenames = item.fixturenames
    attempt.own_markers[:] = item.own_markers
    attempt.stash[STATE] = ItemState(state_of(item).marked)
    return attempt


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item,
    nextitem: pytest.Item | None,
) -> bool | None:
    """Where a user acts at the page, rerun a test on a fresh desktop each time that
    they undo steps.

    The user's other steps are repeated. Only the last attempt is reported, and leaves
    run directories, but for one that has the draft.
    """
    mode = item.config.stash[SETTINGS].record
    has_page = item.config.pluginmanager.has_plugin("vnc_use_ui")
    may_undo = mode == "manual" or (mode == "accept" and has_page)
    if not may_undo or not needs_desktop(item):
        return None
    if not isinstance(item, pytest.Function):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    attempt = _attempt_at(item)
    undone_runs: list[Path] = []
    try:
        runtestprotocol(attempt, nextitem=nextitem)
        while UNDONE in attempt.stash and not item.session.shouldstop:
            undone = attempt.stash[UNDONE]
            _forget_subtests(attempt)
            undone_runs += state_of(attempt).runs or ()
            attempt = _attempt_at(item)
            attempt.stash[REPEATED] = undone
            runtestprotocol(attempt, nextitem=nextitem)
    finally:  # after Ctrl-C too: the summary then says which test did not end
        for run in undone_runs:
            if not (run / DRAFT_FILE).exists():
                shutil.rmtree(run, ignore_errors=True)
        for report in attempt.reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def reused_desktop_reason(settings: Settings) -> str:
    """Return why a rerun of a test would get no fresh desktop; "" if it gets one."""
    if settings.scope != "test":
        return f"with --vnc-scope={settings.scope} no desktop is fresh"
    server = settings.server
    if server in _FRESH_SERVERS or server.startswith("container:"):
        return ""
    return "the desktop is not started here, so it is not fresh"


def note_recorded(item: pytest.Item) -> None:
    """Note that the session has recorded a test."""
    item.config.stash.setdefault(RECORDED, set()).add(_shared_test(item))


def is_recorded(item: pytest.Item) -> bool:
    """Return whether the session has recorded the test with other values, so that this
    recording is replayed and not made again.
    """
    specs = state_of(item).marked.specs
    has_values = any(spec.value_names for spec in specs)
    recorded = item.config.stash.get(RECORDED, set())
    return has_values and _shared_test(item) in recorded


def _shared_test(item: pytest.Item) -> str:
    name, _ = authored_name(item)
    return f"{item.path}::{name}"


def rehearse(
    item: pytest.Function,
    nextitem: pytest.Item | None,
    paths: Sequence[Path],
) -> None:
    """Rehearse the recordings that the test has just written to `paths`, and note the
    results on the test.
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
            _replay(item, nextitem, paths, settings, figures)
        except (OSError, VncUseError) as exc:
            state.add_note("rehearsal", f"not rehearsed to the end: {plain(str(exc))}")
        except KeyboardInterrupt:
            # the test has passed, and is reported; then the session ends
            item.session.shouldstop = "Ctrl-C in a rehearsal"
            state.add_note("rehearsal", "not rehearsed to the end: Ctrl-C")
    # Where one is recorded by hand, the next set is asked about its places.
    is_asked = settings.record == "manual" and nextitem and is_recorded(nextitem)
    if not is_asked and all(rehearsal.repeated for rehearsal in figures):
        figures += _unknown_places(paths)
    if figures:
        state.rehearsed.figures = to_json(figures)
        state.add_note("rehearsal", _summary(figures))


def _unknown_places(paths: Sequence[Path]) -> list[RehearsalFigures]:
    """Return what is left to do where a recording has values of which no user has
    stated where they show: a rehearsal has the recorded ones.
    """
    # numpy, which the test's agent has imported
    from pytest_vnc_use.recordings.store import read_recording
    from pytest_vnc_use.recordings.values import places_unknown

    names: dict[str, None] = {}
    for path in paths:
        with suppress(OSError, VncUseError):  # another process may have removed it
            names |= dict.fromkeys(places_unknown(read_recording(path)))
    if not names:
        return []
    values = ", ".join(map(repr, names))
    problem = f"no user has stated yet where the screen shows the values {values}"
    return [RehearsalFigures(0, repeated=False, problem=problem, advice=_SAY_PLACES)]


def _summary(figures: Sequence[RehearsalFigures]) -> str:
    """Return the note on all rehearsals of a test."""
    last = figures[-1]
    if not last.number:
        return f"did not repeat: {last.problem}"
    if not last.repeated:
        return f"did not repeat, in rehearsal {last.number}: {last.problem}"
    if last.number == 1:
        return "repeated in 1 rehearsal"
    return f"repeated in {last.number} rehearsals"


def _replay(
    item: pytest.Function,
    nextitem: pytest.Item | None,
    paths: Sequence[Path],
    settings: Settings,
    figures: list[RehearsalFigures],
) -> None:
    """Replay the recordings as often as the settings say, or until one does not repeat;
    write the learnt variants.

    Raises RecordingError, RunDirectoryUnwritable, OSError.
    """
    # numpy, which the test's agent has imported
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.recordings.store import load, save

    rehearsed = state_of(item).rehearsed
    timer = item.config.stash.get(_TIMER, None)
    is_shown = settings.record == "manual" or item.config.get_verbosity() >= 1
    originals = {}
    for path in paths:
        original = load(path)
        assert original is not None
        originals[path] = original
    written = {path: path.read_bytes() for path in originals}
    recordings = originals
    for number in range(1, settings.rehearse + 1):
        if is_shown:
            text = (
                f"rehearsal {number} of {settings.rehearse}: the recording is replayed,"
                " to see that it repeats"
            )
            terminal.print_line(item.config, text)
        rehearsal = Rehearsal(recordings.values())
        started_at = clock.monotonic()
        attempt = _attempt_at(item)
        state_of(attempt).rehearsal = rehearsal
        reports = _run(attempt, nextitem, timer)
        failed = _first_failure(attempt.reports, reports)
        seconds = round(clock.monotonic() - started_at, 3)
        runs = _runs_in(reports)
        for run in runs.values():
            rehearsed.runs.append({**run, "rehearsal": number})
        costs.add(rehearsed.costs, attached_to(reports[-1]))
        directories = [Path(run) for run in runs]
        if failed:
            problem = _problem(number, seconds, failed, directories, rehearsal)
            figures.append(problem)
            rehearsed.unrepeated_runs = directories
            break
        repeated = RehearsalFigures(
            number,
            repeated=True,
            learnt=tuple(map(_corners, rehearsal.regions)),
            seconds=seconds,
        )
        figures.append(repeated)
        recordings = {
            path: rehearsal.learnt(recording) for path, recording in recordings.items()
        }
    for path, recording in recordings.items():
        # another process may have recorded it since
        is_newest = path.read_bytes() == written[path]
        if recording is not originals[path] and is_newest:
            save(path, recording)


def _run(
    attempt: _AttemptItem,
    nextitem: pytest.Item | None,
    timer: Timer | None,
) -> list[pytest.TestReport]:
    """Run a rehearsal, and return the reports on its phases."""
    try:  # Ctrl-C may come at any time
        with _time_limit(attempt, timer):
            return runtestprotocol(attempt, nextitem=nextitem)
    finally:
        _forget_subtests(attempt)


def _forget_subtests(attempt: _AttemptItem) -> None:
    """Forget the failed subtests of an attempt that is not reported."""
    failed_subtests: Any = attempt.config.stash.get(failed_subtests_key, {})
    key = getattr(attempt, "id", attempt.nodeid)
    failed_subtests.pop(key, None)


@contextmanager
def _time_limit(
    attempt: _AttemptItem,
    timer: Timer | None,
) -> Iterator[None]:
    """End the time limit of the test, if pytest-timeout has set one, and give the
    rehearsal a new one.
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
    """Note the timer that starts, because each rehearsal gets its own."""
    item.config.stash[_TIMER] = (item, settings)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Note that the timer ends."""
    if _TIMER in item.config.stash:
        del item.config.stash[_TIMER]


def _first_failure(
    all_reports: Sequence[pytest.TestReport],
    reports: Sequence[pytest.TestReport],
) -> pytest.TestReport | None:
    """Return the first report on a phase of a rehearsal that is not a pass. A subtest
    may be skipped.
    """
    failed = [report for report in all_reports if report.failed]
    if failed:
        return failed[0]
    for report in reports:
        if not report.passed or hasattr(report, "wasxfail"):
            return report
    return None


def _runs_in(reports: Sequence[pytest.TestReport]) -> Mapping[str, dict[str, Any]]:
    """Return the figures of the runs of a test by their directories, the newest."""
    runs = {}
    for report in reports:
        for run in attached_to(report)["runs"]:
            runs[run["directory"]] = run
    return runs


def _corners(region: Region) -> str:
    return f"({region.left}, {region.top}) to ({region.right}, {region.bottom})"


def _problem(
    number: int,
    seconds: float,
    failed: pytest.TestReport,
    runs: Sequence[Path],
    rehearsal: Rehearsal,
) -> RehearsalFigures:
    """Return why a rehearsal failed, and the remedies, from its drift or from the report
    that is not a pass.
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
            advice="\n".join([*rehearsal.remedies, *_IN_REHEARSAL]),
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
        advice=_RESET_STATE,
        seconds=seconds,
    )


def _last_drift(run: Path) -> Drift | None:
    """Return the last drift of a run; None without one, or if it cannot be read."""
    with suppress(RunDirectoryError):
        drifts = read_trace(run).drifts
        return drifts[-1] if drifts else None
    return None
