"""The recordings of tests in pytest's hooks: what is rejected, when one is written, what a replay showed.

`recorded.py` finds the recording of a test and rehearses it. That takes numpy, which only a test with an agent imports.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol  # pytest-rerunfailures reruns a test by it too

from pytest_vnc_use.errors import RecordingDrifted, SettingsError, VncUseError
from pytest_vnc_use.plain_text import line, plain
from pytest_vnc_use.plugin.state import SETTINGS, needs_desktop, state_of
from pytest_vnc_use.recordings import AGAIN, ALWAYS_WRITES

if TYPE_CHECKING:
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.ui.manual import DoneTask

PROPOSED = "proposed, as CI=true: accept what the model did with `cua-vnc ui --review {}`"
_REPORTS: pytest.StashKey[list[pytest.TestReport]] = pytest.StashKey()
"""The reports of a test's attempt, until it is the last."""
UNDONE: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The tasks that the user has performed in this attempt, without the step that they have undone."""
REPEATED: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The same of the previous attempt, to be repeated."""
_NOT_RECORDED = (
    "nothing was recorded, as the test failed. Correct it, and record it again: with `pass` as its body the steps are "
    "recorded, and its assertions can be added later"
)
UNWRITTEN, LOST = "not written", "not written, though --vnc-record"
"""The prefixes of the result for a recording that cannot be written; the second if the session should write it."""

ONE_USER = (
    "--vnc-record=manual needs one process, as one user does one task after the other. Leave out pytest-xdist's -n "
    "and --dist, or add -n 0 where addopts has them"
)

TIMED = (
    "--vnc-record=accept waits for a reviewer, but pytest-timeout ends a test after {} s. Add --timeout=0 to have no "
    "such limit in this session"
)


def pytest_configure(config: pytest.Config) -> None:
    """Reject `--vnc-record=manual` with pytest-xdist, and `accept` with pytest-timeout. Raises UsageError."""
    mode = config.stash[SETTINGS].record
    if mode == "accept" and config.pluginmanager.has_plugin("timeout"):
        limits = config.getoption("timeout", None), os.environ.get("PYTEST_TIMEOUT"), config.getini("timeout")
        limit = next((str(value) for value in limits if value not in (None, "")), "0")
        if limit.strip("0.") != "":
            raise pytest.UsageError(TIMED.format(limit))
    if mode == "manual" and config.getoption("dist", "no") != "no":
        raise pytest.UsageError(ONE_USER)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Serve the page on which a user performs the tasks before the first desktop starts: they may open it meanwhile."""
    config = session.config
    is_manual = config.stash[SETTINGS].record == "manual" and config.getoption("dist", "no") == "no"
    if is_manual and any(map(needs_desktop, session.items)) and not (config.option.collectonly or os.environ.get("CI")):
        with suppress(SettingsError):  # without the extra, the test reports that
            from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`

            ui.desk_of(config).pytest_collection_finish(session)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note the time limit of pytest-timeout, because each rehearsal gets the same."""
    state_of(item).timeout = settings


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """With --vnc-record=manual, rerun a test on a fresh desktop each time that its user undoes a step.

    The user's other steps are repeated. Only the last attempt is reported, and leaves run directories.
    """
    if item.config.stash[SETTINGS].record != "manual" or not needs_desktop(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = item.stash[_REPORTS] = []
    try:
        runtestprotocol(item, log=False, nextitem=nextitem)
        while UNDONE in item.stash and not item.session.shouldstop:
            reports.clear()
            for run in state_of(item).runs or ():
                shutil.rmtree(run, ignore_errors=True)
            item.stash[REPEATED] = item.stash[UNDONE]
            del item.stash[UNDONE]
            state_of(item).decided = None  # else the next attempt would be a second one
            runtestprotocol(item, log=False, nextitem=nextitem)
    finally:  # after Ctrl-C too: the summary then says which test did not end
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hold back the reports of a test that a user may still undo."""
    report = yield
    if _REPORTS in item.stash and not state_of(item).rehearsal:
        item.stash[_REPORTS].append(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Write the test's recording once all phases have passed, and rehearse it, before the last report is made."""
    result = yield
    if needs_desktop(item) and (written := _write(item)) and isinstance(item, pytest.Function):
        from pytest_vnc_use.plugin import recorded  # the test's agent has imported it

        recorded.rehearse(item, nextitem, written)
    return result


def _write(item: pytest.Item) -> Path | None:
    """Write the recording of a test whose phases have all passed. Return the file of a new one, which is rehearsed."""
    state, lines = state_of(item), list[str]()
    recorded, written = state.recorded if state.has_passed else None, None
    if recorded is None:
        return None
    if saved := recorded.saved():
        seconds, dollars = saved
        state.notes["saved_s"] = round(seconds, 1)
        if dollars is not None:
            state.notes["saved_dollars"] = round(dollars, 6)
    if recorded.unrecorded:
        lines.append(f"{UNWRITTEN}: {recorded.key.test}: {plain(recorded.unrecorded)}")
    try:
        if recorded.healed and is_ci():
            written = _propose(item, recorded)
        elif recorded.keep():
            written = recorded.key.path
            how = "updated with what was accepted in" if recorded.is_reviewed else "written to"
            lines.append(f"{how} {os.path.relpath(recorded.key.path.parent)}")
    except (OSError, UnicodeError, VncUseError) as exc:  # UnicodeError: the name of the test's file is not text
        how = f"{LOST}={recorded.mode} asks for it" if recorded.mode in ALWAYS_WRITES else UNWRITTEN
        lines.append(f"{how}: {exc}")
    for text in lines:
        state.add_note("recording", text)
    return None if recorded.is_reviewed else written


def _propose(item: pytest.Item, recorded: RecordedTest) -> Path | None:
    """Put the healed recording into the run directory, for a reviewer, beside the text of the one that was replayed.

    Return its file; None if there is nothing to propose. Raises as `RecordedTest.keep` does.
    """
    from pytest_vnc_use.recordings.store import AFTER, BEFORE  # numpy, which a healed test has imported

    run_dir = recorded.healed_in or (state_of(item).runs or [Path()])[-1]
    if not recorded.keep(run_dir / AFTER):
        return None
    (run_dir / BEFORE).write_bytes(recorded.key.path.read_bytes())
    state_of(item).add_note("recording", PROPOSED.format(item.config.stash[SETTINGS].runs_dir))
    return run_dir / AFTER


def is_ci() -> bool:
    """Return whether a CI job runs the session."""
    return os.environ.get("CI") == "true"


def note_result(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Note whether the test has passed, and what its replay showed."""
    state = state_of(item)
    if call.when == "call":  # once for each subtest, then for the test
        state.has_failed |= report.failed
        state.has_passed = report.passed and not hasattr(report, "wasxfail") and not state.has_failed
    recorded = state.recorded
    if recorded is None:
        return
    if call.when == "call":
        if recorded.transients:
            state.notes["transient"] = [line(text) for text in recorded.transients]
        if report.failed and recorded.mode in ALWAYS_WRITES:
            report.sections.append(("recording", _NOT_RECORDED))
    # pytest-rerunfailures drops the report on the teardown of an attempt that failed
    if recorded.healed and (call.when == "teardown" or state.has_failed):
        name = "healed" if report.passed and state.has_passed else "not_healed"
        state.notes[name] = [line(text) for text in recorded.healed]
    if call.when == "teardown":
        recorded.release()
        state.recorded = None


def check_replay(item: pytest.Item) -> None:
    """Fail a test that passed but was healed, or had a transient frame, if the settings demand it."""
    recorded, settings = state_of(item).recorded, item.config.stash[SETTINGS]
    failure = ""
    if recorded and recorded.healed and settings.healed == "fail" and not recorded.is_reviewed:
        texts, problem = recorded.healed, "was healed (vnc_healed = fail)"
        advice = "the change is intended, set vnc_healed = pass"
        if is_ci() and not state_of(item).has_failed:  # a subtest
            try:
                _propose(item, recorded)
            except (OSError, VncUseError) as exc:
                failure = f"; what the model did could not be kept for a review: {exc}"
    elif recorded and recorded.transients and settings.transients == "fail":
        texts, problem = recorded.transients, "showed an unrecorded transient frame (--vnc-transients=fail)"
        advice = "that is intended, mask that part of the screen"
    else:
        return
    lines = [f"the test passed, but its replay {problem}", *texts, f"if {advice}, or {AGAIN}{failure}"]
    raise RecordingDrifted("\n  ".join(lines))
