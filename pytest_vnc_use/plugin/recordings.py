"""The recordings of tests: which one a test uses, when one is written and rehearsed, and which tests were healed.

After a test with a new recording, pytest runs it again, to check that the recording repeats. These rehearsals run at
the end of the test's teardown, so its last report includes their results. They have no reports.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol  # pytest-rerunfailures runs a test again by it too

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import (
    KeyMissing,
    RecordingDrifted,
    RecordingError,
    RunDirectoryError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.plain_text import line, plain
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.plugin import costs, terminal
from pytest_vnc_use.plugin.markers import authored_name, declared_secrets
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS, STATE, attached_to, begin_attempt, is_ours, state_of
from pytest_vnc_use.recordings import AGAIN, ALWAYS_WRITES, Mode, mode_of
from pytest_vnc_use.report.results import RehearsalFigures
from pytest_vnc_use.runs.directory import read_trace, to_json
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    import pluggy

    from pytest_vnc_use.recordings.format import RecordedRun
    from pytest_vnc_use.recordings.manual import Show
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.recordings.rehearse import Rehearsal
    from pytest_vnc_use.recordings.store import Key
    from pytest_vnc_use.types import Drifted, Frame, Report, Verdict
    from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, Planner
    from pytest_vnc_use.ui.manual import DoneTask, PageUser

PROPOSED = "proposed, as CI=true: accept what the model did with `cua-vnc ui --review {}`"
_UNDONE: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The tasks that the user has done in this attempt, but for the step that they have undone."""
_REPEATED: pytest.StashKey[Sequence[DoneTask]] = pytest.StashKey()
"""The same of the attempt before, to be repeated."""
UNWRITTEN, LOST = "not written", "not written, though --vnc-record"
"""The beginnings of the result for a recording that cannot be written; the second if the session was for it."""

ONE_PERSON = (
    "--vnc-record=manual needs one process, as one user does one task after the other: leave out pytest-xdist's -n "
    "and --dist, or add -n 0 where addopts has them"
)

NO_PROGRAM = "no program is started on this desktop: name one by --vnc-app, or by app in the task's file"

NOT_REDACTED = (
    "{} was recorded without redaction: where the program shows a typed secret, its screenshots show it, as do those "
    "of this run. Set vnc_show_secrets=true, or {}"
)

LEFT_OVER = (
    "{!r} has the recording of {!r}, which is not there any more: if this test is that one under a new name, keep its "
    "recording by: {}"
)


TIMED = (
    "--vnc-record=accept waits for a reviewer, but pytest-timeout ends a test after {} s. Add --timeout=0 to have no "
    "such limit in this session"
)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse `--vnc-record=manual` with pytest-xdist, and `accept` with pytest-timeout. Raises UsageError."""
    if config.stash[SETTINGS].record == "accept" and config.pluginmanager.has_plugin("timeout"):
        given = config.getoption("timeout", None), os.environ.get("PYTEST_TIMEOUT"), config.getini("timeout")
        limit = next((str(value) for value in given if value not in (None, "")), "0")
        if limit.strip("0.") != "":
            raise pytest.UsageError(TIMED.format(limit))
    if config.stash[SETTINGS].record == "manual" and config.getoption("dist", "no") != "no":
        raise pytest.UsageError(ONE_PERSON)


def planner_of(item: pytest.Item, settings: Settings, make: Callable[[], Planner]) -> Planner:
    """Return the planner that `make` returns, or no planner if the test is only replayed or a person does the tasks.

    A test with a recording is only replayed if the key is missing. A test without a task needs no planner until it asks
    for one.
    """
    state, key = state_of(item), _key(item)
    if state.rehearsal:
        return NoPlanner()
    if settings.record != "accept" and _mode(key, settings, has_planner=bool(settings.planner)) in ("replay", "manual"):
        return NoPlanner()
    try:
        return make()
    except SettingsError as exc:
        if settings.record == "accept":  # a reviewer is told, who wants a model to continue
            return NoPlanner(exc)
        is_missing = isinstance(exc, KeyMissing) or not settings.planner
        if is_missing and key.path.exists() and _mode(key, settings, has_planner=False) == "replay":
            return NoPlanner()
        if is_missing and not state.specs:
            return NoPlanner(exc)
        if left_over := _left_over(item, key):
            raise type(exc)(f"{exc}. {left_over}") from exc
        raise


def recorded_test(
    item: pytest.Item,
    settings: Settings,
    planner: Planner,
    judge: Judge | None,
    secrets: Mapping[str, str],
    desktop: Desktop,
) -> RecordedTest | None:
    """Return the test with its recording; None if it is neither replayed nor recorded. Raises RecordingError.

    `secrets` are those that the test declares. Nothing is healed that nobody can judge.
    """
    from pytest_vnc_use.recordings.accept import NO_MODEL, NO_PAGE
    from pytest_vnc_use.recordings.gates import machine_of
    from pytest_vnc_use.recordings.record import RecordedTest

    state, key, redacts = state_of(item), _key(item, secrets), not settings.show_secrets
    state.settings = settings
    if state.rehearsal:
        state.recorded = RecordedTest(key, "replay", rehearsal=state.rehearsal, redacts=redacts)
        return state.recorded
    specs, has_planner = state.specs, not isinstance(planner, NoPlanner)
    if key.path.exists() and not (specs and all(spec.body_checks for spec in specs)):
        has_planner &= judge is not None or bool(build.judge_of(settings))
    mode = _mode(key, settings, has_planner=has_planner)
    review = terminal.review_of(item) if settings.record == "accept" else None
    if review:
        no_planner = str(getattr(planner, "why", None) or NO_MODEL) if isinstance(planner, NoPlanner) else ""
        no_model = "" if has_planner else no_planner or "no judge is set, and what a model does is judged"
        review.refused = {"model": no_model} if no_model else {}
        if desk := item.config.pluginmanager.get_plugin("vnc_use_ui"):
            user = _user(item, settings, secrets, desktop)
            review.hand = lambda task, controller: user.continue_by_hand(task, controller, desk.watcher)
            review.choose = partial(desk.choose, item.nodeid)
        else:
            review.refused["hand"] = NO_PAGE
    show = _show(item, settings, secrets, desktop) if mode == "manual" else None
    left_over = "" if settings.record in ("rewrite", "manual", "off") else _left_over(item, key)
    if left_over and mode != "replay":
        warnings.warn(left_over, stacklevel=2)
    if mode == "off":
        return None
    state.recorded = RecordedTest(
        key,
        mode,
        show,
        review=review,
        redacts=redacts,
        marked_off=state.overruled == "off",
        left_over=left_over,
        look_at_machine=lambda: machine_of(desktop, settings),
    )
    if not state.recorded.redacts and redacts:
        warnings.warn(NOT_REDACTED.format(key.path, AGAIN), stacklevel=2)
    return state.recorded


def _mode(key: Key, settings: Settings, *, has_planner: bool) -> Mode:
    return mode_of(settings.record, exists=key.path.exists(), ci=_is_ci(), has_planner=has_planner)


def _is_ci() -> bool:
    return os.environ.get("CI") == "true"


def _key(item: pytest.Item, secrets: Iterable[str] = ()) -> Key:
    """Return the key of the test's recording; all repetitions share one.

    Its test id begins with the file's name, so it is the same from whatever directory pytest is started. The recordings
    of a file that is a symbolic link lie beside the file that it leads to.
    """
    from pytest_vnc_use.recordings.store import Key

    module, (name, parameters) = item.path.resolve(), authored_name(item)
    test = f"{module.name}::{name}" if name else module.name
    return Key(module, test, tuple(sorted(parameters)), tuple(sorted(secrets)))


def _left_over(item: pytest.Item, key: Key) -> str:
    """Return how a test without a recording gets that of the test that it may have been before it was renamed.

    It is the only one with the same tasks whose test, or test file, is gone; "" if there is none.
    """
    if key.path.exists():
        return ""
    tasks = [spec.task for spec in state_of(item).specs]
    gone = {}
    for path in sorted(key.path.parent.parent.glob("*/*.json")):
        with suppress(OSError, UnicodeError, RecordingError):
            test, parameters, recorded = _recorded(path)
            former = replace(key, module=key.module.with_name(test.partition("::")[0]), test=test)
            # a recording at another path than its test's was moved to the test that uses it now
            if (recorded[: len(tasks)], parameters, path) == (tasks, key.parameters, former.path) and _is_gone(former):
                gone[path] = test
    old, *others = [path for path in gone if path.name == key.path.name] or [*gone] or [key.path]
    if others or old == key.path:
        return ""
    moves, now = [], old
    if old.parent != key.path.parent and not key.path.parent.exists():
        moves, now = [(old.parent, key.path.parent)], key.path.parent / old.name
    if now != key.path:
        moves += [(now, key.path), (now.with_suffix(""), key.path.with_suffix(""))]
    return LEFT_OVER.format(str(old), gone[old], " && ".join(shlex.join(["mv", *map(str, move)]) for move in moves))


@lru_cache(None)  # read once a session, however many tests have no recording
def _recorded(path: Path) -> tuple[str, tuple[str, ...], list[str]]:
    """Return the test of a recording, its parameters and its tasks. Raises OSError, UnicodeError, RecordingError."""
    from pytest_vnc_use.recordings.store import parse

    recording = parse(path.read_text(encoding="utf-8"), str(path))
    return recording.test, recording.parameters, [run.task for run in recording.runs]


def _is_gone(key: Key) -> bool:
    """Return whether there is no such test any more. Raises OSError, UnicodeError."""
    name = key.test.partition("[")[0].split("::")[-1]
    return not key.module.exists() or not re.search(rf"\b{re.escape(name)}\b", key.module.read_text(encoding="utf-8"))


def judge_of(item: pytest.Item, settings: Settings) -> Judge | None:
    """Return the user at the page if a user does the tasks and no judge is configured; else None."""
    state = state_of(item)
    if settings.record != "manual" or state.rehearsal or build.judge_of(settings):
        return None
    return _UserAsJudge(item)


class _UserAsJudge:
    """A Judge: the user who does the test's tasks."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Return the user's verdict. Raises Inconclusive for a no."""
        from pytest_vnc_use.plugin import ui

        user = ui.desk_of(self._item.config).user
        assert user is not None, "only what a user did by hand is judged by the user"
        return user.judge(claim, frame, timeout_s=timeout_s, report=report)


def check_judge(item: pytest.Item, settings: Settings, judge: Judge | None) -> None:
    """Raise SettingsError if nobody can judge a task of the markers. So no task is done in vain."""
    from pytest_vnc_use.agent.agent import NO_JUDGE
    from pytest_vnc_use.recordings.store import load_of

    state = state_of(item)
    judged = [spec for spec in state.specs if not spec.body_checks]
    if not judged or state.rehearsal:
        return
    key, has_judge = _key(item, declared_secrets(item)), judge is not None or bool(build.judge_of(settings))
    mode = _mode(key, settings, has_planner=has_judge)
    recording = load_of(key) if mode in ("auto", "replay") else None
    if recording is None:
        if not has_judge and settings.record not in ("replay", "accept"):
            problem = NO_JUDGE.format(judged[0].task, "no judge is set, and there is no recording of this test")
            raise SettingsError(" ".join(filter(None, [problem, _left_over(item, key)])))
        if judge is None and has_judge and settings.record not in ("replay", "accept"):
            build.build_judge(settings)  # raises KeyMissing
        return
    hide = secrets_of(item.config).hide
    specs = state.specs if mode == "replay" else ()
    for spec, run in zip(specs, recording.runs, strict=False):
        why = run.why_unjudged([hide(claim) for claim in spec.expect])
        if why and spec in judged and run.task == hide(spec.task):
            raise SettingsError(NO_JUDGE.format(spec.task, f"{why}, and a replay asks no judge"))


def _show(item: pytest.Item, settings: Settings, secrets: Mapping[str, str], desktop: Desktop) -> Show:
    """Return the function with which a user does tasks at the page. Raises SettingsError, UsageError without a page."""
    if hasattr(item.config, "workerinput"):
        raise SettingsError(ONE_PERSON)
    from pytest_vnc_use.plugin import ui

    desk = ui.desk_of(item.config)
    user = desk.user = _user(item, settings, secrets, desktop)
    is_asked = item.config.stash[SETTINGS].record == "manual"
    user.no_undo = _why_not_fresh(settings) if is_asked else "it needs --vnc-record=manual"
    user.repeats = item.stash.get(_REPEATED, ())

    def show(task: str, claims: Sequence[str], controller: Controller) -> RecordedRun | str:
        assert desk.watcher is not None, "the agent of the test has one"
        done = user.record(task, claims, controller, desk.watcher)
        if user.undone is not None:
            item.stash[_UNDONE] = user.undone
            pytest.skip("a step was undone, so the test is run again")
        if recorded := state_of(item).recorded:
            recorded.add_masks(user.masks)
        return done

    return show


def _user(item: pytest.Item, settings: Settings, secrets: Mapping[str, str], desktop: Desktop) -> PageUser:
    """Return the user at the page, for the desktop of a test."""
    from pytest_vnc_use.plugin import ui
    from pytest_vnc_use.ui.manual import PageUser

    logs = getattr(desktop, "logs", None)  # a user's own desktop may lack it
    has_program = settings.server != "xvnc" or not logs or "program" in logs()
    return PageUser(
        ui.desk_of(item.config).link,
        item.nodeid,
        secrets=secrets,
        ambient=build.ambient_secrets(settings, desktop.password),
        elements_of=build.elements_asker(settings, desktop),
        notice="" if has_program else NO_PROGRAM,
    )


def check_healed(item: pytest.Item) -> None:
    """Fail a test that passed but was healed, or had a transient frame, if the settings say so."""
    recorded, settings = state_of(item).recorded, item.config.stash[SETTINGS]
    if recorded is None:
        return
    if recorded.healed and settings.healed == "fail" and not recorded.is_reviewed:
        problem = "the test passed, but its replay was healed (vnc_healed = fail)"
        advice = f"if the change is intended, set vnc_healed = pass, or {AGAIN}"
        if _is_ci() and not state_of(item).has_failed:  # a subtest
            try:
                _propose(item, recorded)
            except (OSError, VncUseError) as exc:
                advice += f"; what the model did could not be kept for a review: {exc}"
        raise RecordingDrifted("\n  ".join([problem, *recorded.healed, advice]))
    if recorded.transients and settings.transients == "fail":
        problem = "the test passed, but its replay showed an unrecorded transient frame (--vnc-transients=fail)"
        advice = f"if that is intended, mask that part of the screen, or {AGAIN}"
        raise RecordingDrifted("\n  ".join([problem, *recorded.transients, advice]))


def write(item: pytest.Item) -> bool:
    """Write the recording of a test whose phases have all passed. Return whether there is a new one."""
    state = state_of(item)
    recorded = state.recorded if state.has_passed else None
    if recorded is None:
        return False
    if saved := recorded.saved():
        seconds, dollars = saved
        state.notes["saved_s"] = round(seconds, 1)
        if dollars is not None:
            state.notes["saved_dollars"] = round(dollars, 6)
    lines = []
    if recorded.unrecorded:
        lines.append(f"{UNWRITTEN}: {recorded.key.test}: {plain(recorded.unrecorded)}")
    is_new = False
    try:
        if recorded.healed and _is_ci():
            _propose(item, recorded)
        elif is_new := recorded.keep():
            how = "updated with what was accepted in" if recorded.is_reviewed else "written to"
            lines.append(f"{how} {os.path.relpath(recorded.key.path.parent)}")
    except (OSError, UnicodeError, VncUseError) as exc:  # UnicodeError: the name of the test's file is no text
        how = f"{LOST}={recorded.mode} asks for it" if recorded.mode in ALWAYS_WRITES else UNWRITTEN
        lines.append(f"{how}: {exc}")
    for text in lines:
        state.add_note("recording", text)
    return is_new and not recorded.is_reviewed


def _propose(item: pytest.Item, recorded: RecordedTest) -> None:
    """Put the healed recording into the run directory, for a reviewer, beside the text of the one that was replayed.

    Raises as `RecordedTest.keep` does.
    """
    from pytest_vnc_use.recordings.store import AFTER, BEFORE

    run_dir = recorded.healed_in or (state_of(item).runs or [Path()])[-1]
    if recorded.keep(run_dir / AFTER):
        (run_dir / BEFORE).write_bytes(recorded.key.path.read_bytes())
        state_of(item).add_note("recording", PROPOSED.format(item.config.stash[SETTINGS].runs_dir))


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
            report.sections.append(("recording", "nothing was recorded, as the test failed"))
    # pytest-rerunfailures drops the report on the teardown of an attempt that failed
    if recorded.healed and (call.when == "teardown" or state.has_failed):
        name = "healed" if report.passed and state.has_passed else "went_on"
        state.notes[name] = [line(text) for text in recorded.healed]
    if call.when == "teardown":
        recorded.release()
        state.recorded = None


_STATE = "the test passed when it was recorded, but not the next time: reset what it leaves behind, in a fixture"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Serve the page before the first desktop starts, where a user does the tasks: they may open it meanwhile."""
    config = session.config
    is_manual = config.stash[SETTINGS].record == "manual" and config.getoption("dist", "no") == "no"
    if is_manual and any(map(is_ours, session.items)) and not (config.option.collectonly or os.environ.get("CI")):
        with suppress(SettingsError):  # without the extra, the test reports that
            from pytest_vnc_use.plugin import ui

            ui.desk_of(config).pytest_collection_finish(session)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note the time limit of pytest-timeout, because each rehearsal gets the same."""
    state_of(item).timeout = settings


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Write the test's recording once all phases have passed, and rehearse it, before the last report is made."""
    result = yield
    if is_ours(item) and write(item):
        _rehearse(item, nextitem)
    return result


def _why_not_fresh(settings: Settings) -> str:
    """Return why a test that is run again has no fresh desktop; "" if it has one."""
    if settings.scope != "test":
        return f"with --vnc-scope={settings.scope} no desktop is fresh"
    is_started = settings.server in ("qt", "xvnc") or settings.server.startswith("container:")
    return "" if is_started else "the desktop is not started here, so it is not fresh"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """With --vnc-record=manual, run a test again on a fresh desktop each time that its user undoes a step.

    The user's other steps are repeated. Only the last attempt is reported, and leaves run directories.
    """
    if item.config.stash[SETTINGS].record != "manual" or not is_ours(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    while True:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if _UNDONE not in item.stash or item.session.shouldstop:
            break
        for run in state_of(item).runs or ():
            shutil.rmtree(run, ignore_errors=True)
        item.stash[_REPEATED] = item.stash[_UNDONE]
        del item.stash[_UNDONE]
        state_of(item).decided = None  # else the next attempt would be a second one
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _rehearse(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Rehearse the recording that the test has just written, and note the results on the test."""
    state = state_of(item)
    settings = state.settings
    assert settings is not None
    if not settings.rehearse or not isinstance(item, pytest.Function) or item.session.shouldstop:
        return
    if reason := _why_not_fresh(settings):
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
            terminal.print_line(item.config, text)
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
        item.stash[STATE] = state
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
