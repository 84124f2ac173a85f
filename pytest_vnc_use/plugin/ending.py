"""The end of a test, in the order in which it comes.

After its body, `end_call` watches the screen and checks the test once more. When its
fixtures are torn down, `end_agent` checks a run that one of them made. After all
phases, the recording of a test that passed is written, and rehearsed. Then
`note_recording` adds to its reports what the replay showed.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.errors import (
    ProgramCrashed,
    RecordingDrifted,
    RunDirectoryUnwritable,
    VncUseError,
)
from pytest_vnc_use.interactive import is_ci
from pytest_vnc_use.plain_text import line, plain
from pytest_vnc_use.plugin import reruns
from pytest_vnc_use.plugin.state import (
    SETTINGS,
    Call,
    ItemState,
    desktop_of,
    state_of,
)
from pytest_vnc_use.recordings import AGAIN, ALWAYS_WRITES
from pytest_vnc_use.runs.directory import RunDirectory, new_run_id
from pytest_vnc_use.triage import crash_of, format_program_end
from pytest_vnc_use.types import NO_FRAME, Outcome, RunEnded, RunStarted

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.recordings.record import RecordedTest

PROPOSED = (
    "proposed, as CI is set: accept what the model did with `cua-vnc ui --review {}`"
)
_NOT_RECORDED = (
    "nothing was recorded, as the test failed. Correct it, and record it again: with"
    " `pass` as its body the steps are recorded, and its assertions can be added later"
)
_KEPT = "nothing was recorded, as the test failed. {}"
_HEALED = "was healed (vnc_healed = fail)"
_TRANSIENT = "showed a transient that is not recorded (vnc_transients = fail)"
_ACCEPT_HEALS = f"if the change is intended, set vnc_healed = pass, or {AGAIN}"
_BUG = "if it is wrong, the product has a bug: the report shows it"
_MASK_TRANSIENT = (
    "if it is right, accept it with --vnc-record=accept, or from this run with"
    " `cua-vnc ui --review {}`, or mask it at the gate after its step:"
)
_DROPPED = (
    "not updated with what was accepted, as the test failed: accept it again once the"
    " test passes"
)


def end_call(item: pytest.Item) -> None:
    """End the call of a test whose body has passed. Raises the first failure.

    First, the screen is watched: it must still show the end of a replay. Then these
    fail the test, in this order: a task that failed although the body caught its error,
    a crash of the program, and a replay that was not as recorded, if the settings
    demand that.
    """
    state = state_of(item)
    if state.agent:
        state.agent.end_body()
        if state.agent.failed_task:
            raise state.agent.failed_task
    desktop = desktop_of(item)
    if desktop is not None:
        crash = crash_of(desktop, of_itself=True)
        if crash:
            raise ProgramCrashed(format_program_end(crash, " before the test did"))
    if state.recorded_test:
        _check_replay(item, state.recorded_test)


def _check_replay(item: pytest.Item, recorded_test: RecordedTest) -> None:
    """Fail a test that passed but was healed, or had a transient frame, if the settings
    demand it.
    """
    settings = item.config.stash[SETTINGS]
    if (
        recorded_test.healed
        and settings.healed == "fail"
        and not recorded_test.is_reviewed
    ):
        unkept = _keep_proposal(item, recorded_test)
        remedy = f"{_ACCEPT_HEALS}{unkept}"
        raise _unlike_recording(_HEALED, [*recorded_test.healed, remedy])
    # one in a named recording fails the replays, not the test that is recorded beside it
    is_strict = settings.transients == "fail" and not recorded_test.is_recorded_anew
    if is_strict:
        _check_transients(item, recorded_test)


def _check_transients(item: pytest.Item, recorded_test: RecordedTest) -> None:
    """Fail a test with a transient that neither its recording has nor its reviewer
    accepts.
    """
    transients = recorded_test.transients
    unasked = transients.review()
    if not transients.messages:
        return
    kept = _keep_accepted(item, recorded_test)
    mask = _MASK_TRANSIENT.format(item.config.stash[SETTINGS].runs_dir)
    commands = [f"  {command}" for command in transients.commands()]
    remedies = [_BUG, mask, *commands, f"or {AGAIN}"]
    told = [*transients.lines(), *unasked, *kept, *remedies]
    raise _unlike_recording(_TRANSIENT, told)


def _keep_accepted(item: pytest.Item, recorded_test: RecordedTest) -> list[str]:
    """Keep what a reviewer has accepted. Return a sentence about it; none if nothing
    was.
    """
    if state_of(item).reported.call is Call.FAILED:  # a subtest
        return []
    try:
        is_kept = recorded_test.keep_accepted()
    except (OSError, VncUseError) as exc:
        return [f"what was accepted could not be kept: {exc}"]
    return ["what was accepted is kept in the recording"] if is_kept else []


def _keep_proposal(item: pytest.Item, recorded_test: RecordedTest) -> str:
    """In CI, keep what the model did as a proposal. Return why that failed, or ""."""
    has_failed = state_of(item).reported.call is Call.FAILED  # a subtest
    if not is_ci() or has_failed:
        return ""
    try:
        if recorded_test.write(_proposal_directory(item, recorded_test)):
            _note_proposal(item)
    except (OSError, VncUseError) as exc:
        return f"; what the model did could not be kept for a review: {exc}"
    return ""


def _unlike_recording(problem: str, texts: Sequence[str]) -> RecordingDrifted:
    lines = [f"the test passed, but its replay {problem}", *texts]
    return RecordingDrifted("\n  ".join(lines))


def end_agent(state: ItemState, agent: VncUseAgent) -> None:
    """End the runs that fixtures made after the call, as their agent is torn down."""
    if state.reported.call is Call.PASSED:
        agent.end_body()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item,
    nextitem: pytest.Item | None,
) -> Generator[None, object, object]:
    """End the recording of a test once all phases are over, and rehearse a new one,
    before the last report is made.
    """
    has_passed = False
    written: Sequence[Path] = ()
    try:
        result = yield
        has_passed = state_of(item).reported.call is Call.PASSED
    finally:
        recorded_test = state_of(item).recorded_test
        if recorded_test:
            written = _finish(item, recorded_test, has_passed=has_passed)
    if has_passed and written and isinstance(item, pytest.Function):
        reruns.rehearse(item, nextitem, written)
    return result


def _finish(
    item: pytest.Item,
    recorded_test: RecordedTest,
    *,
    has_passed: bool,
) -> Sequence[Path]:
    """Write the recording of a test that has passed, and the named ones whose task is
    done, and release them. Return the files of new ones, which are rehearsed.
    """
    state = state_of(item)
    if reruns.UNDONE in item.stash:
        recorded_test.discard()
        return ()
    proposed_in = None
    if has_passed and recorded_test.healed and is_ci():
        try:
            proposed_in = _proposal_directory(item, recorded_test)
        except RunDirectoryUnwritable as exc:
            has_passed = False
            _note_unwritten(state, recorded_test, str(exc))
    finished = recorded_test.finish(proposed_in, has_passed=has_passed)
    if finished.saved:
        seconds, dollars = finished.saved
        state.notes["saved_s"] = round(seconds, 1)
        if dollars is not None:
            state.notes["saved_dollars"] = round(dollars, 6)
    if finished.unrecorded:
        reason = f"not written: {recorded_test.key.test}: {plain(finished.unrecorded)}"
        state.add_note("unrecorded", reason)
    if finished.dropped:
        state.add_note("unrecorded", _DROPPED)
    if finished.problem:
        _note_unwritten(state, recorded_test, finished.problem)
    elif has_passed and finished.written:
        # numpy, which the test's agent has imported
        from pytest_vnc_use.demonstrate import draft

        draft.remove(_runs_dir(state), item.nodeid)
    if finished.written and proposed_in:
        _note_proposal(item)
    elif finished.written:
        reruns.note_recorded(item)
        # The test may have left the working directory, or removed it.
        start = item.config.invocation_params.dir
        how = "written to"
        if recorded_test.is_reviewed:
            how = "updated with what was accepted in"
        for path in finished.written:
            directory = os.path.relpath(path.parent.parent, start)
            state.add_note("recording", f"{how} {directory}")
    return () if recorded_test.is_reviewed else finished.written


def _note_unwritten(
    state: ItemState, recorded_test: RecordedTest, problem: str
) -> None:
    if recorded_test.mode in ALWAYS_WRITES:
        how = f"not written, though --vnc-record={recorded_test.mode} asks for it"
        state.add_note("lost", f"{how}: {problem}")
    else:
        state.add_note("unrecorded", f"not written: {problem}")


def _note_proposal(item: pytest.Item) -> None:
    runs_dir = item.config.stash[SETTINGS].runs_dir
    state_of(item).add_note("recording", PROPOSED.format(runs_dir))


def _proposal_directory(item: pytest.Item, recorded_test: RecordedTest) -> Path:
    """Return the run directory in which a reviewer finds a healed recording. Raises
    RunDirectoryUnwritable.
    """
    if recorded_test.healed_in:
        return recorded_test.healed_in
    state = state_of(item)
    return state.runs[-1] if state.runs else _claims_directory(item)


def _claims_directory(item: pytest.Item) -> Path:
    """Make a run directory for a test that judged claims, but ran no task. Raises
    RunDirectoryUnwritable.
    """
    runs_dir = Path(item.config.stash[SETTINGS].runs_dir)
    directory = RunDirectory.create(runs_dir, new_run_id(), item.nodeid)
    started = RunStarted(
        run_id=directory.path.name,
        task="",
        started_at=clock.utc_now().isoformat(timespec="seconds"),
        planner="",
        screen=NO_FRAME,
        test_id=item.nodeid,
    )
    directory.append(started)
    directory.append(RunEnded(Outcome.DONE, "claims were judged without a task"))
    return directory.path


def note_call(state: ItemState, report: pytest.TestReport) -> None:
    """Note a report on a test's call: one on each subtest, then one on the test."""
    if report.failed or state.reported.call is Call.FAILED:
        state.reported.call = Call.FAILED
    elif report.passed and not hasattr(report, "wasxfail"):
        state.reported.call = Call.PASSED
    else:
        state.reported.call = Call.OTHER


def note_recording(state: ItemState, report: pytest.TestReport) -> None:
    """Note what the test's replay showed; after the last phase, forget it."""
    recorded_test = state.recorded_test
    if recorded_test is None:
        return
    call = state.reported.call
    name = recorded_test.drifted_in
    if report.failed and name and "drifted" not in state.notes:
        state.add_note("drifted", f"drifted in the recording {name!r}: accept it once")
    if report.when == "call":
        transients = recorded_test.transients
        if transients.messages:
            state.notes["transient"] = [line(text) for text in transients.messages]
            state.transient_regions = transients.regions
        if report.failed and recorded_test.mode in ALWAYS_WRITES:
            text = _format_unrecorded(state, recorded_test, report.nodeid)
            report.sections.append(("recording", text))
    # pytest-rerunfailures drops the report on the teardown of an attempt that failed
    is_last = report.when == "teardown" or call is Call.FAILED
    if recorded_test.healed and is_last:
        has_passed = report.passed and call is Call.PASSED
        name = "healed" if has_passed else "not_healed"
        state.notes[name] = [line(text) for text in recorded_test.healed]
    if report.when == "teardown":
        state.recorded_test = None


def _format_unrecorded(state: ItemState, recorded_test: RecordedTest, test: str) -> str:
    """Return how to record a test that failed."""
    if recorded_test.mode != "manual":
        return _NOT_RECORDED
    # numpy, which the test's agent has imported
    from pytest_vnc_use.demonstrate import draft

    kept = draft.format_kept(_runs_dir(state), test)
    return _KEPT.format(kept) if kept else _NOT_RECORDED


def _runs_dir(state: ItemState) -> Path:
    """Return the directory of the runs of a test that has an agent."""
    assert state.settings is not None
    return Path(state.settings.runs_dir)
