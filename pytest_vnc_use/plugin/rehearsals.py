"""Rehearsals: a test with a new recording is carried out again, to check that the recording repeats.

They run after the test's teardown and before its last report, which includes their results. They have no reports of
their own.

A plugin, registered by on_demand.py.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import new_class
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunFolderError, VncUseError
from pytest_vnc_use.plugin import attachments, costs
from pytest_vnc_use.plugin.recordings import RECORDING, REHEARSAL, WRITTEN
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    import pluggy

    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.report.results import RehearsalFigures
    from pytest_vnc_use.types import Drifted

REHEARSED = "vnc_rehearsal"
"""The property of a test that holds the result of its rehearsals."""
_NEXT = pytest.StashKey["pytest.Item | None"]()
_TIMEOUT = pytest.StashKey[Any]()
_STATE = "the test passed when it was recorded, but not the next time: reset what it leaves behind, in a fixture"


@dataclass
class _Again:
    """The result of carrying out a test once more."""

    reports: list[pytest.TestReport]
    subtests: list[pytest.TestReport]
    duration_s: float
    rehearsal: Rehearsal

    @property
    def bad(self) -> list[pytest.TestReport]:
        """The reports, also of subtests, that keep the rehearsal from passing."""
        failed = [report for report in self.subtests if report.failed]
        return [*failed, *(report for report in self.reports if not report.passed or hasattr(report, "wasxfail"))]

    @property
    def passed(self) -> bool:
        """Return whether every report passed."""
        return not self.bad

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Return the figures of its runs, from the newest report on each."""
        runs = {run["folder"]: run for report in self.reports for run in attachments.runs_attached_to(report)}
        return [dict(run) for run in runs.values()]

    @property
    def dollars(self) -> float | None:
        """Return the cost of all reports; None if none counted any."""
        spent = [attachments.attached_to(report)["dollars"] for report in self.reports]
        counted = [each for each in spent if each is not None]
        return sum(counted) if counted else None


# --- when ------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Note the next test, whose shared fixtures a rehearsal must keep."""
    item.stash[_NEXT] = nextitem


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note the time limit of pytest-timeout, because each rehearsal gets the same."""
    item.stash[_TIMEOUT] = settings


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Rehearse a recording that was just written, before the last report goes out."""
    report = yield
    if call.when == "teardown" and (WRITTEN, "written") in report.user_properties:
        _rehearse(item, report)
    return report


def _rehearse(item: pytest.Item, report: pytest.TestReport) -> None:
    _, settings = item.stash[RECORDING]
    if not settings.rehearse or not isinstance(item, pytest.Function) or item.session.shouldstop:
        return
    if reason := _why_not(settings):
        _note(item, report, f"not rehearsed: {reason}")
        return
    done: list[_Again] = []
    try:
        _carry_out(item, done)
    except (OSError, VncUseError) as exc:
        _note(item, report, f"not rehearsed to the end: {plain(str(exc))}")
    except KeyboardInterrupt:  # the test has passed, and is reported; then the session ends
        item.session.shouldstop = "Ctrl-C in a rehearsal"
        _note(item, report, "not rehearsed to the end: Ctrl-C")
    _tell(item, report, done)


def _why_not(settings: Settings) -> str:
    """Return why there is no rehearsal, or "". It needs a fresh desktop."""
    if settings.scope != "test":
        return f"with --vnc-scope={settings.scope} no desktop is fresh"
    if settings.server not in ("qt", "xvnc") and not settings.server.startswith("container:"):
        return "the desktop is not started here, so it is not fresh"
    return ""


def _carry_out(item: pytest.Function, done: list[_Again]) -> None:
    """Replay the recording as often as the settings say, or until it does not repeat; write the learnt looks.

    Raises RecordingError, RunFolderUnwritable, OSError.
    """
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.recordings.store import load, save

    key, settings = item.stash[RECORDING]
    made, written, nextitem = load(key.path), key.path.read_bytes(), item.stash[_NEXT]
    recording = made
    for number in range(1, settings.rehearse + 1):
        if recording is None or not all(again.passed for again in done):
            break
        if settings.record == "demonstrate" or item.config.get_verbosity() >= 1:
            _say(item, f"rehearsal {number} of {settings.rehearse}: the recording is replayed, to see that it repeats")
        done.append(_again(item, nextitem, Rehearsal(recording)))
        recording = done[-1].rehearsal.learnt() if done[-1].passed else recording
    is_newest = key.path.read_bytes() == written  # another process may have recorded it since
    if recording and recording is not made and is_newest:
        save(key.path, recording)


def _say(item: pytest.Item, line: str) -> None:
    """Print the line."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    capture = item.config.pluginmanager.get_plugin("capturemanager")
    if terminal and capture:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"  {line}")


# --- once more -------------------------------------------------------------------------------------------------------


def _again(item: pytest.Function, nextitem: pytest.Item | None, rehearsal: Rehearsal) -> _Again:
    """Carry out the test with fresh fixtures, as pytest does, but keep its reports from other plugins."""
    started_s, subtests = clock.monotonic(), list[pytest.TestReport]()
    fresh = _fresh(item, _Hooks(item.ihook, subtests))
    fresh.stash[REHEARSAL] = rehearsal
    try:
        with _timed(item, fresh):
            reports = [_phase(fresh, "setup")]
            if reports[0].passed:
                reports.append(_phase(fresh, "call"))
            reports.append(_phase(fresh, "teardown", nextitem=nextitem))
    finally:
        del fresh.stash[REHEARSAL]
    return _Again(reports, subtests, clock.monotonic() - started_s, rehearsal)


class _Hooks:
    """The hooks of a test, except that the reports of its subtests go only to `subtests`."""

    def __init__(self, hooks: pluggy.HookRelay, subtests: list[pytest.TestReport]) -> None:
        self._hooks = hooks
        self._subtests = subtests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def pytest_runtest_logreport(self, *, report: pytest.TestReport) -> None:
        """Keep the report of a subtest."""
        self._subtests.append(report)


def _fresh(item: pytest.Function, hooks: _Hooks) -> pytest.Function:
    """Return the test as it was collected; a copy, as other plugins keep their results on the item."""
    fresh, kind = copy.copy(item), type(item)
    # `ihook` is a property, which cannot be set
    fresh.__class__ = new_class(kind.__name__, (kind,), exec_body=lambda body: body.update(ihook=hooks))
    fresh.user_properties, fresh._report_sections = [], []
    vars(fresh).pop("execution_count", None)  # pytest-rerunfailures reads it from tests that it may try again
    if item.cls:  # each test has its own instance of the class
        for name in ("_instance", "_obj"):
            vars(fresh).pop(name, None)
    fresh._initrequest()
    return fresh


def _phase(item: pytest.Item, when: Any, **more: Any) -> pytest.TestReport:
    carry_out = getattr(item.ihook, f"pytest_runtest_{when}")
    reraise = (KeyboardInterrupt, pytest.exit.Exception)
    call = pytest.CallInfo.from_call(lambda: carry_out(item=item, **more), when=when, reraise=reraise)
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report


@contextmanager
def _timed(item: pytest.Item, fresh: pytest.Item) -> Iterator[None]:
    """Give the rehearsal a time-out of its own, with pytest-timeout, and end the test's."""
    settings, hook = item.stash.get(_TIMEOUT, None), item.config.hook
    if settings is None or getattr(settings, "func_only", False):
        yield
        return
    hook.pytest_timeout_cancel_timer(item=item)
    hook.pytest_timeout_set_timer(item=fresh, settings=settings)
    try:
        yield
    finally:
        hook.pytest_timeout_cancel_timer(item=fresh)


# --- results ---------------------------------------------------------------------------------------------------------


def _tell(item: pytest.Item, report: pytest.TestReport, done: list[_Again]) -> None:
    """Add the rehearsals to the test's last report; their cost counts as the test's."""
    from pytest_vnc_use.runs.folder import to_json

    if not done:
        return
    figures = [_figures(number, again, item) for number, again in enumerate(done, 1)]
    runs = [{**run, "rehearsal": number} for number, again in enumerate(done, 1) for run in again.runs]
    dollars = [again.dollars for again in done if again.dollars is not None]
    attachments.attach_rehearsals(report, to_json(figures), runs, sum(dollars) if dollars else None)
    for again in done:
        costs.add(item, report, again.reports[-1].user_properties)
    _note(item, report, _in_words(figures))
    if not done[-1].passed:
        _add_extras(report, done[-1])


def _in_words(figures: list[RehearsalFigures]) -> str:
    last = figures[-1]
    if not last.repeated:
        return f"did not repeat, in rehearsal {last.number}: {last.problem}"
    return f"repeated in {'1 rehearsal' if len(figures) == 1 else f'{len(figures)} rehearsals'}"


def _figures(number: int, again: _Again, item: pytest.Item) -> RehearsalFigures:
    from pytest_vnc_use.report.results import RehearsalFigures

    regions = again.rehearsal.regions if again.passed else []
    learnt = tuple(f"({part.left}, {part.top}) to ({part.right}, {part.bottom})" for part in regions)
    figures = RehearsalFigures(number, again.passed, learnt=learnt, seconds=round(again.duration_s, 3))
    if again.passed:
        return figures
    bad = again.bad[0]
    found = _drift_in(again.runs)
    if found is None:
        message = attachments.attached_to(bad)["message"] or f"the test was {bad.outcome} in its {bad.when}"
        return replace(figures, problem=plain(message), advice=_STATE)
    drift, folder = found
    recorded, seen = (str(folder / "screens" / f"{ref.digest}.png") for ref in (drift.recorded, drift.seen))
    return replace(figures, problem=plain(drift.problem), advice=_advice(drift, item), recorded=recorded, seen=seen)


def _drift_in(runs: list[dict[str, Any]]) -> tuple[Drifted, Path] | None:
    from pytest_vnc_use.runs.folder import read_trace

    for folder in (Path(run["folder"]) for run in runs):
        try:
            drifts = read_trace(folder).drifts
        except RunFolderError:
            continue
        if drifts:
            return drifts[-1], folder
    return None


def _advice(drift: Drifted, item: pytest.Item) -> str:
    from pytest_vnc_use.recordings.gates import is_maskable, mask_command

    key, _ = item.stash[RECORDING]
    mask = "if the part changes by itself, mask it; "
    if drift.region and is_maskable((drift.region,), (drift.seen.height, drift.seen.width)):
        mask = f"if the part changes by itself, mask it: `{mask_command(key.node_id, (drift.region,))}`; "
    elif drift.region:
        mask = ""
    return (
        f"{mask}if it appears late, let the task wait for it, or raise "
        "vnc_gate_seconds; if an earlier run caused it, reset it in a fixture; then record the test again"
    )


def _note(item: pytest.Item, report: pytest.TestReport, line: str) -> None:
    item.user_properties.append((REHEARSED, line))
    report.user_properties.append((REHEARSED, line))


def _add_extras(report: pytest.TestReport, again: _Again) -> None:
    """Add the pictures of the rehearsal that did not repeat to the report of the test."""
    extras = [extra for each in again.reports for extra in attachments.extras_of(each)]
    pictures = [picture for each in again.reports for picture in attachments.pictures_of(each)]
    if extras:
        attachments.attach_html(report, extras, pictures)


# --- the session's end -----------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the recordings that did not repeat, with both pictures and advice; then the learnt looks, and a count."""
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    rehearsed = [(report.nodeid, each) for report in reports for each in attachments.attached_to(report)["rehearsals"]]
    unrepeated = [(nodeid, each) for nodeid, each in rehearsed if not each["repeated"]]
    if unrepeated:
        terminalreporter.section(f"{len(unrepeated)} recorded, but did not repeat", yellow=True)
    for nodeid, each in unrepeated:
        for line in _lines_about(nodeid, each):
            terminalreporter.write_line(line, yellow=True)
    for nodeid, each in rehearsed:
        for place in each["learnt"]:
            terminalreporter.write_line(f"LEARNT {nodeid}: another look in rehearsal {each['number']}, from {place}")
    _count(terminalreporter, reports)


def _lines_about(nodeid: str, outcome: dict[str, Any]) -> Iterator[str]:
    yield f"NOT REPEATED {nodeid}: in rehearsal {outcome['number']}: {outcome['problem']}"
    if outcome["recorded"]:
        yield f"  as recorded: {outcome['recorded']}"
        yield f"  now: {outcome['seen']}"
    yield f"  what to do: {outcome['advice']}"


def _count(terminalreporter: pytest.TerminalReporter, reports: list[Any]) -> None:
    properties = [each for report in reports for each in getattr(report, "user_properties", ())]
    lines = [str(line) for name, line in properties if name == REHEARSED and not str(line).startswith("did not")]
    for line in sorted(set(lines)):
        count = lines.count(line)
        terminalreporter.write_line(f"vnc-use: {count} {'recording' if count == 1 else 'recordings'} {line}")
