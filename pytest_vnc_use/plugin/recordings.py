"""The recordings of tests: which recording a test uses, when a recording is written, and which tests were healed."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.errors import KeyMissing, RecordingDrifted, RecordingError, SettingsError, VncUseError
from pytest_vnc_use.plain_text import line, plain
from pytest_vnc_use.plugin import terminal
from pytest_vnc_use.plugin.markers import authored_name, declared_secrets
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS, state_of
from pytest_vnc_use.recordings import AGAIN, ALWAYS_WRITES, Mode, mode_of
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.recordings.format import RecordedRun
    from pytest_vnc_use.recordings.manual import Show
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.recordings.store import Key
    from pytest_vnc_use.types import Frame, Report, Verdict
    from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, Planner

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
    from pytest_vnc_use.recordings.machine import machine_of
    from pytest_vnc_use.recordings.record import RecordedTest

    state, key, redacts = state_of(item), _key(item, secrets), not settings.show_secrets
    state.settings = settings
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
    state.recorded = RecordedTest(
        key,
        mode,
        show,
        review=terminal.review_of(item) if settings.record == "accept" else None,
        redacts=redacts,
        marked_off=state.overruled == "off",
        left_over=left_over,
        look_at_machine=lambda: machine_of(desktop, settings),
    )
    if not state.recorded.redacts and redacts:
        warnings.warn(NOT_REDACTED.format(key.path, AGAIN), stacklevel=2)
    return state.recorded


def _mode(key: Key, settings: Settings, *, has_planner: bool) -> Mode:
    ci = os.environ.get("CI") == "true"
    return mode_of(settings.record, exists=key.path.exists(), ci=ci, has_planner=has_planner)


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
    from pytest_vnc_use.agent import build

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
    from pytest_vnc_use.agent import build
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
    from pytest_vnc_use.agent import build
    from pytest_vnc_use.plugin import ui
    from pytest_vnc_use.ui.manual import PageUser

    desk = ui.desk_of(item.config)
    logs = getattr(desktop, "logs", None)  # a user's own desktop may lack it
    has_program = settings.server != "xvnc" or not logs or "program" in logs()
    user = desk.user = PageUser(
        desk.link,
        item.nodeid,
        secrets=secrets,
        ambient=build.ambient_secrets(settings, desktop.password),
        elements_of=build.elements_asker(settings, desktop),
        notice="" if has_program else NO_PROGRAM,
    )

    def show(task: str, claims: Sequence[str], controller: Controller) -> RecordedRun | str:
        assert desk.watcher is not None, "the agent of the test has one"
        done = user.record(task, claims, controller, desk.watcher)
        if recorded := state_of(item).recorded:
            recorded.add_masks(user.masks)
        return done

    return show


def check_healed(item: pytest.Item) -> None:
    """Fail a test that passed but was healed, or had a transient frame, if the settings say so."""
    recorded, settings = state_of(item).recorded, item.config.stash[SETTINGS]
    if recorded is None:
        return
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
    lines = []
    if recorded.unrecorded:
        lines.append(f"{UNWRITTEN}: {recorded.key.test}: {plain(recorded.unrecorded)}")
    is_new = False
    try:
        if is_new := recorded.keep():
            lines.append("updated with what was accepted" if recorded.is_reviewed else "written")
    except (OSError, UnicodeError, VncUseError) as exc:  # UnicodeError: the name of the test's file is no text
        how = f"{LOST}={recorded.mode} asks for it" if recorded.mode in ALWAYS_WRITES else UNWRITTEN
        lines.append(f"{how}: {exc}")
    if lines:
        state.notes["recording"] = lines
    return is_new and not recorded.is_reviewed


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
