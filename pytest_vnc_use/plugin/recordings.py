"""The recordings of tests: which recording a test uses, when a recording is written, and which tests were healed."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import KeyMissing, RecordingDrifted, RecordingError, SettingsError, VncUseError
from pytest_vnc_use.plugin.markers import authored_name, declared_secrets
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS, attached_to, state_of
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.recordings import Mode
    from pytest_vnc_use.recordings.format import RecordedRun
    from pytest_vnc_use.recordings.manual import Show
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.recordings.store import Key
    from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, Planner

UNWRITTEN, LOST = "not written", "not written, though --vnc-record"
"""The beginnings of the result for a recording that cannot be written; the second if the session was for it."""

ONE_PERSON = (
    "--vnc-record=manual needs one process, as there is one person at one terminal: leave out pytest-xdist's -n "
    "and --dist, or add -n 0 where addopts has them"
)

NO_TERMINAL = (
    "--vnc-record=manual asks at the terminal whether what must be seen is there, but stdin is no terminal, got "
    "{!r}: run the test at a terminal, or name a judge, such as --vnc-judge=gemini, with its key"
)

NO_PROGRAM = "no program is started on this desktop: name one by --vnc-app, or by app in the task's file"

NOT_REDACTED = (
    "{} was recorded without redaction: where the program shows a typed secret, its pictures show it, as do those "
    "of this run. Set vnc_show_secrets=true, or {}"
)

LEFT_OVER = (
    "{!r} has the recording of {!r}, which is not there any more: if this test is that one under a new name, keep its "
    "recording by: {}"
)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse `--vnc-record=manual` together with pytest-xdist. Raises UsageError."""
    if config.stash[SETTINGS].record == "manual" and config.getoption("dist", "no") != "no":
        raise pytest.UsageError(ONE_PERSON)


def planner_of(item: pytest.Item, settings: Settings, make: Callable[[], Planner]) -> Planner:
    """Return the planner that `make` returns, or no planner if the test is only replayed or a person does the tasks.

    A test with a recording is only replayed if the key is missing. A test without a task needs no planner until it asks
    for one.
    """
    from pytest_vnc_use.agent import build

    state, key = state_of(item), _key(item)
    if state.rehearsal:
        return build.no_planner()
    if _mode(key, settings, has_planner=bool(settings.planner)) in ("replay", "manual"):
        return build.no_planner()
    try:
        return make()
    except SettingsError as exc:
        is_missing = isinstance(exc, KeyMissing) or not settings.planner
        if is_missing and key.path.exists() and _mode(key, settings, has_planner=False) == "replay":
            return build.no_planner()
        if is_missing and not state.specs:
            return build.no_planner(exc)
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
    from pytest_vnc_use.agent import build
    from pytest_vnc_use.recordings import AGAIN
    from pytest_vnc_use.recordings.machine import machine_of
    from pytest_vnc_use.recordings.record import RecordedTest

    state, key, redacts = state_of(item), _key(item, secrets), not settings.show_secrets
    state.key, state.settings = key, settings
    if state.rehearsal:
        state.recorded = RecordedTest(key, "replay", rehearsal=state.rehearsal, redacts=redacts)
        return state.recorded
    specs, has_planner = state.specs, not build.is_no_planner(planner)
    if key.path.exists() and not (specs and all(spec.body_checks for spec in specs)):
        has_planner &= judge is not None or bool(build.judge_of(settings))
    mode = _mode(key, settings, has_planner=has_planner)
    show = _show(item, settings, secrets, desktop) if mode == "manual" else None
    left_over = "" if settings.record in ("rewrite", "manual", "off") else _left_over(item, key)
    if left_over and mode != "replay":
        warnings.warn(left_over, stacklevel=2)
    if mode == "off":
        return None
    review = None
    if settings.record == "accept":
        from pytest_vnc_use.plugin import accepting

        review = accepting.review_of(item, _at_the_terminal)
    is_off = state.overruled == "off"
    state.recorded = RecordedTest(
        key,
        mode,
        show,
        review=review,
        redacts=redacts,
        marked_off=is_off,
        left_over=left_over,
        look_at_machine=lambda: machine_of(desktop, settings),
    )
    if not state.recorded.redacts and redacts:
        warnings.warn(NOT_REDACTED.format(key.path, AGAIN), stacklevel=2)
    return state.recorded


def _mode(key: Key, settings: Settings, *, has_planner: bool) -> Mode:
    from pytest_vnc_use.recordings import mode_of

    ci = os.environ.get("CI") == "true"
    return mode_of(settings.record, exists=key.path.exists(), ci=ci, has_planner=has_planner)


def _key(item: pytest.Item, secrets: Iterable[str] = ()) -> Key:
    """Return the key of the test's recording; all repetitions share one.

    Its test id begins with the file's name, so it is the same from whatever folder pytest is started. The recordings of
    a file that is a symbolic link lie beside the file that it leads to.
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
    found = {}
    for path in sorted(key.path.parent.parent.glob("*/*.json")):
        with suppress(OSError, UnicodeError, RecordingError):
            test, parameters, recorded = _recorded(path)
            if recorded[: len(tasks)] == tasks and parameters == key.parameters and _is_gone(item, key, test, path):
                found[path] = test
    same_name = [path for path in found if path.name == key.path.name]
    left = same_name or [*found]
    return LEFT_OVER.format(str(left[0]), found[left[0]], _moves(left[0], key.path)) if len(left) == 1 else ""


@lru_cache(None)  # read once a session, however many tests have no recording
def _recorded(path: Path) -> tuple[str, tuple[str, ...], list[str]]:
    """Return the test of a recording, its parameters and its tasks. Raises OSError, UnicodeError, RecordingError."""
    from pytest_vnc_use.recordings.store import parse

    recording = parse(path.read_text(encoding="utf-8"), str(path))
    return recording.test, recording.parameters, [run.task for run in recording.runs]


def _is_gone(item: pytest.Item, key: Key, test: str, path: Path) -> bool:
    """Return whether the recording at `path` was written there for a test that is not there any more."""
    name, _, test_name = test.partition("::")
    if replace(key, module=key.module.with_name(name), test=test).path != path:
        return False  # it was moved to the test that uses it now
    if name != key.module.name:
        return not key.module.with_name(name).exists()
    found: object = getattr(item, "module", None)
    parts = test_name.partition("[")[0].split("::")
    for part in parts:
        found = getattr(found, part, None)
    return found is None and not re.search(rf"\b{re.escape(parts[-1])}\b", key.module.read_text(encoding="utf-8"))


def _moves(old: Path, new: Path) -> str:
    """Return the command that moves a recording, its JSON file and its pictures; all of its file if that is gone."""
    moves, folder = [], old.parent.name
    if old.parent != new.parent and not new.parent.exists():
        moves, folder = [(folder, new.parent.name)], new.parent.name
    if (folder, old.name) != (new.parent.name, new.name):
        moves += [(f"{folder}/{old.stem}{end}", f"{new.parent.name}/{new.stem}{end}") for end in (".json", "")]
    cd = shlex.join(["cd", str(new.parent.parent)])
    return " && ".join([cd, *(shlex.join(["mv", *each]) for each in moves)])


# --- by demonstration ------------------------------------------------------------------------------------------------


def judge_of(item: pytest.Item, settings: Settings) -> Judge | None:
    """Return the person at the terminal if a person does the tasks and no judge is configured; else None."""
    from pytest_vnc_use.agent import build

    state = state_of(item)
    state.user_judges = settings.record == "manual" and not state.rehearsal and not build.judge_of(settings)
    if not state.user_judges:
        return None

    from pytest_vnc_use.planners.local.person_judge import InputEnded

    def ask(question: str) -> str:
        with _at_the_terminal(item.config):
            try:
                return input(f"{question}> ")
            except EOFError:
                if sys.stdin and sys.stdin.isatty():
                    raise InputEnded from None
                raise

    return build.person_as_judge(ask)


def check_judge(item: pytest.Item, settings: Settings, judge: Judge | None) -> None:
    """Raise SettingsError if nobody can judge a task of the markers. So no task is done in vain."""
    from pytest_vnc_use.agent import build
    from pytest_vnc_use.agent.agent import NO_JUDGE
    from pytest_vnc_use.recordings.store import load_of

    state = state_of(item)
    judged = [spec for spec in state.specs if not spec.body_checks]
    if not judged or state.rehearsal:
        return
    if state.user_judges:
        _check_keyboard(item)
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


def _check_keyboard(item: pytest.Item) -> None:
    """Raise SettingsError where the person at the terminal is to judge, and stdin cannot answer, such as /dev/null.

    A pipe may answer.
    """
    with _at_the_terminal(item.config):
        if sys.stdin is None:
            raise SettingsError(NO_TERMINAL.format(None))
        with suppress(OSError, ValueError):  # it is no file, but may answer
            number = sys.stdin.fileno()
            if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
                raise SettingsError(NO_TERMINAL.format(os.devnull))


def _show(item: pytest.Item, settings: Settings, secrets: Mapping[str, str], desktop: Desktop) -> Show:
    """Return the function with which a person does tasks. Raises SettingsError without a terminal for instructions."""
    if hasattr(item.config, "workerinput"):
        raise SettingsError(ONE_PERSON)
    from pytest_vnc_use.agent import build
    from pytest_vnc_use.demonstrate.demonstrate import ViewerTasks
    from pytest_vnc_use.triage.failure_text import sanitize

    def say(line: str) -> None:
        with _at_the_terminal(item.config):
            sys.stdout.write(f"{sanitize(line, str)}\n")
            sys.stdout.flush()

    tasks = ViewerTasks(settings, secrets, desktop.password, say, build.elements_asker(settings, desktop))

    def show(task: str, controller: Controller, limit_s: float) -> RecordedRun:
        logs = getattr(desktop, "logs", None)  # a user's own desktop may lack it
        if settings.server == "xvnc" and logs and "program" not in logs():
            say(f"\n{NO_PROGRAM}")
        return tasks(task, controller, limit_s)

    return show


@contextmanager
def _at_the_terminal(config: pytest.Config) -> Iterator[None]:
    """Suspend pytest's capturing, also of the keyboard."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    if capturing is None:  # with -p no:capture
        yield
        return
    capturing.suspend(in_=True)
    try:
        yield
    finally:
        capturing.resume()


# --- a test's end ----------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that passed but was healed, or had a transient frame, if the settings say so."""
    result = yield
    if recorded := state_of(item).recorded:
        _check_settings(recorded, item.config.stash[SETTINGS])
    return result


def _check_settings(recorded: RecordedTest, settings: Settings) -> None:
    from pytest_vnc_use.recordings import AGAIN

    if recorded.healed and settings.healed == "fail":
        problem = "the test passed, but its replay was healed (vnc_healed = fail)"
        advice = f"if the change is intended, set vnc_healed = pass, or {AGAIN}"
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
    lines = [*_write(recorded)]
    if lines:
        state.notes["recording"] = lines
    return "written" in lines


def note_result(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Note whether the test has passed, and what its replay showed."""
    from pytest_vnc_use.plain_text import cut
    from pytest_vnc_use.recordings import ALWAYS_WRITES

    state = state_of(item)
    if call.when == "call":  # once for each subtest, then for the test
        state.has_failed |= report.failed
        state.has_passed = report.passed and not hasattr(report, "wasxfail") and not state.has_failed
    recorded = state.recorded
    if recorded is None:
        return
    if call.when == "call":
        if recorded.transients:
            state.notes["transient"] = [cut(plain(each)) for each in recorded.transients]
        if report.failed and recorded.mode in ALWAYS_WRITES:
            report.sections.append(("recording", "nothing was recorded, as the test failed"))
    # pytest-rerunfailures drops the report on the teardown of an attempt that failed
    if recorded.healed and (call.when == "teardown" or state.has_failed):
        name = "healed" if report.passed and state.has_passed else "went_on"
        state.notes[name] = [cut(plain(each)) for each in recorded.healed]
    if call.when == "teardown":
        recorded.release()
        state.recorded = None


def _write(recorded: RecordedTest) -> Iterator[str]:
    from pytest_vnc_use.recordings import ALWAYS_WRITES

    if recorded.unrecorded:
        yield f"{UNWRITTEN}: {recorded.key.test}: {plain(recorded.unrecorded)}"
    try:
        if recorded.keep():
            yield "updated with what was accepted" if recorded.is_reviewed else "written"
    except (OSError, UnicodeError, VncUseError) as exc:  # UnicodeError: the name of the test's file is no text
        how = f"{LOST}={recorded.mode} asks for it" if recorded.mode in ALWAYS_WRITES else UNWRITTEN
        yield f"{how}: {exc}"


# --- the session's end -----------------------------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that drifted and went on, or had transient frames, because they are not unchanged."""
    from pytest_vnc_use.plain_text import line

    _list(terminalreporter, "healed", "healed; check that each change is intended")
    _list(terminalreporter, "went_on", "not healed: a model went on after a drift, and the test did not pass")
    _list(terminalreporter, "transient", "with an unrecorded transient frame")
    attached = [attached_to(report) for report in _reports(terminalreporter, "teardown")]
    written = [text for each in attached for text in each.get("recording", ())]
    for text in sorted(set(written)):
        number = written.count(text)
        shown = line(f"vnc-use: {number} {'recording' if number == 1 else 'recordings'} {text}")
        terminalreporter.write_line(shown, red=text.startswith(UNWRITTEN))
    seconds = [each["saved_s"] for each in attached if "saved_s" in each]
    dollars = [each["saved_dollars"] for each in attached if "saved_dollars" in each]
    if sum(seconds) > 0:
        count = f"{len(seconds)} replayed {'test' if len(seconds) == 1 else 'tests'}"
        text = f"vnc-use: {count} saved {sum(seconds):,.1f} s compared with the recorded runs"
        if dollars:
            unknown = len(seconds) - len(dollars)
            rest = f", without {unknown} of unknown cost" if unknown else ""
            text += f", and ${sum(dollars):.4f} at the prices of the time of recording{rest}"
        terminalreporter.write_line(text)


def _list(terminalreporter: pytest.TerminalReporter, name: str, title: str) -> None:
    from pytest_vnc_use.plain_text import line

    reports = [*_reports(terminalreporter, "call"), *_reports(terminalreporter, "teardown")]
    of_last_attempts = {(each.nodeid, each.when): each for each in sorted(reports, key=lambda report: report.stop)}
    lines = dict.fromkeys(
        (report.nodeid, text) for report in of_last_attempts.values() for text in attached_to(report).get(name, ())
    )
    if lines:
        terminalreporter.section(f"{len({nodeid for nodeid, _ in lines})} {title}", yellow=True)
    for nodeid, text in lines:
        terminalreporter.write_line(line(f"{name.replace('_', ' ').upper()} {nodeid}: {text}"), yellow=True)


def _reports(terminalreporter: pytest.TerminalReporter, when: str) -> Iterator[Any]:
    for reports in terminalreporter.stats.values():
        yield from (report for report in reports if getattr(report, "when", None) == when)
