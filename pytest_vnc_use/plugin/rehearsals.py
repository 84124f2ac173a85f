"""Rehearsals: after a test with a new recording, pytest runs it again, to check that the recording repeats.

They run at the end of the test's teardown, so its last report includes their results. They have no reports.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol  # pytest-rerunfailures runs a test again by it too

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunDirectoryError, VncUseError
from pytest_vnc_use.plain_text import plain
from pytest_vnc_use.plugin import costs, recordings
from pytest_vnc_use.plugin.state import attached_to, begin_attempt, is_ours, put_back, state_of
from pytest_vnc_use.plugin.terminal import print_line
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    import pluggy

    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.recordings.store import Key
    from pytest_vnc_use.report.results import RehearsalFigures
    from pytest_vnc_use.types import Drifted

_STATE = "the test passed when it was recorded, but not the next time: reset what it leaves behind, in a fixture"


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note the time limit of pytest-timeout, because each rehearsal gets the same."""
    state_of(item).timeout = settings


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Write the test's recording once all phases have passed, and rehearse it, before the last report is made."""
    result = yield
    if is_ours(item) and recordings.write(item):
        _rehearse(item, nextitem)
    return result


def _rehearse(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Rehearse the recording that the test has just written, and note the results on the test."""
    state = state_of(item)
    settings = state.settings
    assert settings is not None
    if not settings.rehearse or not isinstance(item, pytest.Function) or item.session.shouldstop:
        return
    is_started = settings.server in ("qt", "xvnc") or settings.server.startswith("container:")
    if settings.scope != "test" or not is_started:  # a rehearsal needs a fresh desktop
        of_scope = f"with --vnc-scope={settings.scope} no desktop is fresh"
        reason = "the desktop is not started here, so it is not fresh" if settings.scope == "test" else of_scope
        state.add_note("rehearsal", f"not rehearsed: {reason}")
        return
    figures: list[RehearsalFigures] = []
    try:
        _replay(item, nextitem, settings, figures)
    except (OSError, VncUseError) as exc:
        state.add_note("rehearsal", f"not rehearsed to the end: {plain(str(exc))}")
    except KeyboardInterrupt:  # the test has passed, and is reported; then the session ends
        item.session.shouldstop = "Ctrl-C in a rehearsal"
        state.add_note("rehearsal", "not rehearsed to the end: Ctrl-C")
    if figures:
        from pytest_vnc_use.runs.directory import to_json

        state.rehearsals = to_json(figures)
        last, count = figures[-1], len(figures)
        repeated = f"repeated in {'1 rehearsal' if count == 1 else f'{count} rehearsals'}"
        unrepeated = f"did not repeat, in rehearsal {last.number}: {last.problem}"
        state.add_note("rehearsal", repeated if last.repeated else unrepeated)


def _replay(
    item: pytest.Function, nextitem: pytest.Item | None, settings: Settings, figures: list[RehearsalFigures]
) -> None:
    """Replay the recording as often as the settings say, or until it does not repeat; write the learnt looks.

    Raises RecordingError, RunDirectoryUnwritable, OSError.
    """
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.recordings.store import load, save

    state = state_of(item)
    assert state.recorded is not None
    key = state.recorded.key
    made, written = load(key.path), key.path.read_bytes()
    recording = made
    for number in range(1, settings.rehearse + 1):
        if recording is None:
            break
        if settings.record == "manual" or item.config.get_verbosity() >= 1:
            text = f"rehearsal {number} of {settings.rehearse}: the recording is replayed, to see that it repeats"
            print_line(item.config, text)
        rehearsal, started_s = Rehearsal(recording), clock.monotonic()
        reports, failed = _run_again(item, nextitem, rehearsal)
        attached = {run["directory"]: run for report in reports for run in attached_to(report)["runs"]}
        state.rehearsed_runs += [{**run, "rehearsal": number} for run in attached.values()]
        costs.add(state.rehearsed_costs, attached_to(reports[-1]))
        runs, seconds = [Path(run) for run in attached], round(clock.monotonic() - started_s, 3)
        figures.append(_figures(number, seconds, rehearsal, failed, runs, key))
        if failed:
            state.unrepeated_runs = runs
            break
        recording = rehearsal.learnt()
    is_newest = key.path.read_bytes() == written  # another process may have recorded it since
    if recording and recording is not made and is_newest:
        save(key.path, recording)


def _run_again(
    item: pytest.Function, nextitem: pytest.Item | None, rehearsal: Rehearsal
) -> tuple[list[pytest.TestReport], pytest.TestReport | None]:
    """Run the test as it was collected, with fresh fixtures. Return its reports, and the first that is bad, if any.

    Nobody receives the reports. What the test and other plugins keep on the item is put back afterwards.
    """
    state, kept, subtests = state_of(item), dict(vars(item)), list[pytest.TestReport]()
    item.user_properties, item._report_sections, item._request = [], [], False  # type: ignore[assignment]
    vars(item).pop("execution_count", None)  # pytest-rerunfailures reads it from tests that it may try again
    if item.cls:  # each test has its own instance of the class
        for name in ("_instance", "_obj"):
            vars(item).pop(name, None)
    begin_attempt(item, rehearsal=rehearsal)
    hooks_of = item.session.gethookproxy
    try:
        with pytest.MonkeyPatch.context() as patch, _timed(item):
            patch.setattr(item.session, "gethookproxy", lambda path: _Hooks(hooks_of(path), subtests))
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
    finally:
        vars(item).clear()
        vars(item).update(kept)
        put_back(item, state)
    bad = [report for report in subtests if report.failed]
    bad += [report for report in reports if not report.passed or hasattr(report, "wasxfail")]
    return reports, bad[0] if bad else None


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


@contextmanager
def _timed(item: pytest.Item) -> Iterator[None]:
    """Give the rehearsal a time-out of its own, with pytest-timeout, and end the test's."""
    settings, hook = state_of(item).timeout, item.config.hook
    if settings is None or getattr(settings, "func_only", False):
        yield
        return
    hook.pytest_timeout_cancel_timer(item=item)
    hook.pytest_timeout_set_timer(item=item, settings=settings)
    try:
        yield
    finally:
        hook.pytest_timeout_cancel_timer(item=item)


def _figures(
    number: int, seconds: float, rehearsal: Rehearsal, failed: pytest.TestReport | None, runs: list[Path], key: Key
) -> RehearsalFigures:
    from pytest_vnc_use.report.results import RehearsalFigures
    from pytest_vnc_use.runs.directory import read_trace

    if failed is None:
        learnt = [f"({part.left}, {part.top}) to ({part.right}, {part.bottom})" for part in rehearsal.regions]
        return RehearsalFigures(number, repeated=True, learnt=tuple(learnt), seconds=seconds)
    for run in runs:
        with suppress(RunDirectoryError):
            for drift in read_trace(run).drifts[-1:]:
                recorded, seen = (run / "screens" / f"{ref.digest}.png" for ref in (drift.recorded, drift.seen))
                advice = _advice(drift, key, recorded, seen)
                return RehearsalFigures(
                    number, False, plain(drift.problem), advice, str(recorded), str(seen), seconds=seconds
                )
    message = attached_to(failed)["message"] or f"the test was {failed.outcome} in its {failed.when}"
    return RehearsalFigures(number, repeated=False, problem=plain(message), advice=_STATE, seconds=seconds)


def _advice(drift: Drifted, key: Key, recorded: Path, seen: Path) -> str:
    from pytest_vnc_use.recordings.accept import cell_around
    from pytest_vnc_use.recordings.gates import is_maskable, mask_command
    from pytest_vnc_use.recordings.images import pixels_of

    mask = "if the part changes on its own, mask it; "
    if drift.region:
        try:
            cell = cell_around(drift.region, pixels_of(recorded.read_bytes()), pixels_of(seen.read_bytes()))
        except OSError:  # the images were not kept
            cell = drift.region
        is_small = is_maskable((cell,), (drift.seen.height, drift.seen.width))
        mask = f"if the part changes on its own, mask it: `{mask_command(key.node_id, (cell,))}`; " if is_small else ""
    return (
        f"{mask}if it appears late, let the task wait for it, or raise "
        "vnc_gate_seconds; if an earlier run caused it, reset it in a fixture; then record the test again"
    )
