"""The recording that a test uses, the review of `--vnc-record=accept`, and the rehearsals of a new recording.

After a test with a new recording, pytest reruns it, to check that the recording repeats. These rehearsals run at
the end of the test's teardown, so its last report includes their results. They have no reports.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy
import pytest
from _pytest.runner import runtestprotocol  # pytest-rerunfailures reruns a test by it too

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.agent import NO_JUDGE
from pytest_vnc_use.errors import KeyMissing, RecordingError, RunDirectoryError, SettingsError, VncUseError
from pytest_vnc_use.plain_text import plain
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.plugin import costs, terminal
from pytest_vnc_use.plugin.markers import authored_name, declared_secrets
from pytest_vnc_use.plugin.recordings import ONE_USER, REPEATED, UNDONE, is_ci
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS, STATE, attached_to, begin_attempt, state_of
from pytest_vnc_use.recordings import AGAIN, Mode, mode_of
from pytest_vnc_use.recordings.accept import NO, NO_MODEL, NO_PAGE, Answer, Question, Review, Reviewer
from pytest_vnc_use.recordings.drift import cell_around, is_maskable, machine_of, mask_command
from pytest_vnc_use.recordings.format import RecordedRun
from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.manual import Show
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.store import Key, load, load_of, parse, save
from pytest_vnc_use.report.results import RehearsalFigures
from pytest_vnc_use.runs.directory import read_trace, to_json
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import Drift, Frame, Report, Verdict
from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, Planner

try:
    from _pytest.subtests import failed_subtests_key
except ImportError:  # pytest 8 has no subtests
    failed_subtests_key = pytest.StashKey()

if TYPE_CHECKING:
    from pytest_vnc_use.ui.manual import PageUser

NO_PROGRAM = "no program is started on this desktop. Set --vnc-app, or app in the task's file"

NOT_REDACTED = (
    "{} was recorded without redaction: where the program shows a typed secret, its screenshots show it, as do those "
    "of this run. Set vnc_show_secrets=true, or {}"
)

LEFT_OVER = (
    "{!r} has the recording of {!r}, which is not there any more: if this test is that one under a new name, keep its "
    "recording by: {}"
)

_REVIEWER = pytest.StashKey[Reviewer]()
"""The reviewer of the session, with the answers so far."""


def planner_of(item: pytest.Item, settings: Settings, functions: Sequence[Callable[..., object]]) -> Planner:
    """Return the planner that the settings name, or none if the test is only replayed or a user performs the tasks.

    A test with a recording is only replayed if the key is missing. A test without a task needs no planner until it
    requests one.
    """
    state, key = state_of(item), _key(item)
    mode = _mode(key, settings, has_planner=bool(settings.planner))
    if state.rehearsal or (settings.record != "accept" and mode in ("replay", "manual")):
        return NoPlanner()
    try:
        return build.build_planner(settings, functions)
    except SettingsError as exc:
        if settings.record == "accept":  # reported to a reviewer who wants a model to continue
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

    `secrets` are those that the test declares. Nothing is healed without a judge, unless a mode was asked for and
    the body checks.
    """
    state, key, redacts = state_of(item), _key(item, secrets), not settings.show_secrets
    state.settings = settings
    if state.rehearsal:
        state.recorded = RecordedTest(key, "replay", rehearsal=state.rehearsal, redacts=redacts)
        return state.recorded
    specs, has_planner = state.specs, not isinstance(planner, NoPlanner)
    body_may_vouch = settings.record and specs and all(spec.body_checks for spec in specs)
    if key.path.exists() and not body_may_vouch:
        has_planner &= judge is not None or bool(build.judge_of(settings))
    mode = _mode(key, settings, has_planner=has_planner)
    review = None
    if settings.record == "accept":
        reviewer = item.config.stash.setdefault(_REVIEWER, Reviewer(partial(_answer, item.config)))
        review = Review(reviewer, item.nodeid)
        no_planner = str(getattr(planner, "why", None) or NO_MODEL) if isinstance(planner, NoPlanner) else ""
        no_model = "" if has_planner else no_planner or "no judge is set, and what a model does is judged"
        review.refused = {"model": no_model} if no_model else {}
        if desk := item.config.pluginmanager.get_plugin("vnc_use_ui"):
            user = _user(item, settings, secrets, desktop)
            review.hand = lambda task, due, controller: user.continue_by_hand(task, due, controller, desk.watcher)
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
        follows=state.follows,
        describe_machine=lambda: machine_of(desktop, settings),
    )
    if not state.recorded.redacts and redacts:
        warnings.warn(NOT_REDACTED.format(key.path, AGAIN), stacklevel=2)
    return state.recorded


def _mode(key: Key, settings: Settings, *, has_planner: bool) -> Mode:
    return mode_of(settings.record, exists=key.path.exists(), ci=is_ci(), has_planner=has_planner)


def _key(item: pytest.Item, secrets: Iterable[str] = ()) -> Key:
    """Return the key of the test's recording; all repetitions share one.

    Its test id begins with the file's name, so it is the same from whatever directory pytest is started. The recordings
    of a file that is a symbolic link are beside the file that it leads to.
    """
    module, (name, parameters) = item.path.resolve(), authored_name(item)
    test = f"{module.name}::{name}" if name else module.name
    return Key(module, test, tuple(sorted(parameters)), tuple(sorted(secrets)))


def _left_over(item: pytest.Item, key: Key) -> str:
    """Return the commands that give a renamed test its former recording; "" if there is none.

    That is the only recording with the same tasks whose test, or test file, is gone.
    """
    if key.path.exists():
        return ""
    tasks = [spec.task for spec in state_of(item).specs]
    missing = {}
    for path in sorted(key.path.parent.parent.glob("*/*.json")):
        with suppress(OSError, UnicodeError, RecordingError):
            test, parameters, recorded = _recorded(path)
            former = replace(key, module=key.module.with_name(test.partition("::")[0]), test=test)
            # a recording at another path than its test's was moved to the test that uses it now
            if (recorded[: len(tasks)], parameters, path) == (tasks, key.parameters, former.path):
                name = re.escape(test.partition("[")[0].split("::")[-1])
                if not former.module.exists() or not re.search(rf"\b{name}\b", former.module.read_text("utf-8")):
                    missing[path] = test
    old, *others = [path for path in missing if path.name == key.path.name] or [*missing] or [key.path]
    if others or old == key.path:
        return ""
    moves, current = [], old
    if old.parent != key.path.parent and not key.path.parent.exists():
        moves, current = [(old.parent, key.path.parent)], key.path.parent / old.name
    if current != key.path:
        moves += [(current, key.path), (current.with_suffix(""), key.path.with_suffix(""))]
    return LEFT_OVER.format(str(old), missing[old], " && ".join(shlex.join(["mv", *map(str, move)]) for move in moves))


@lru_cache(None)  # read once a session, however many tests have no recording
def _recorded(path: Path) -> tuple[str, tuple[str, ...], list[str]]:
    """Return the test of a recording, its parameters and its tasks. Raises OSError, UnicodeError, RecordingError."""
    recording = parse(path.read_text(encoding="utf-8"), str(path))
    return recording.test, recording.parameters, [run.task for run in recording.runs]


def judge_of(item: pytest.Item, settings: Settings) -> Judge | None:
    """Return the user at the page if a user performs the tasks and no judge is configured; else None."""
    if settings.record != "manual" or state_of(item).rehearsal or build.judge_of(settings):
        return None
    return _UserJudge(item.config)


class _UserJudge:
    """A Judge: the user who performs the test's tasks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Return the user's verdict. Raises Inconclusive for a denial."""
        from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`

        user = ui.desk_of(self._config).user
        assert user is not None, "only what a user did by hand is judged by the user"
        return user.judge(claim, frame, timeout_s=timeout_s, report=report)


def check_judge(item: pytest.Item, settings: Settings, judge: Judge | None) -> None:
    """Raise SettingsError if a task of the markers has no judge, so that no task is performed in vain."""
    state = state_of(item)
    judged = [spec for spec in state.specs if not spec.body_checks]
    if not judged or state.rehearsal:
        return
    key, has_judge = _key(item, declared_secrets(item)), judge is not None or bool(build.judge_of(settings))
    mode = _mode(key, settings, has_planner=has_judge)
    recording = load_of(key) if mode in ("auto", "replay") else None
    if recording is None:
        if settings.record in ("replay", "accept"):
            return
        if not has_judge:
            problem = NO_JUDGE.format(judged[0].task, "no judge is set, and there is no recording of this test")
            raise SettingsError(" ".join(filter(None, [_left_over(item, key), problem])))
        if judge is None:
            build.build_judge(settings)  # raises KeyMissing
        return
    hide = secrets_of(item.config).hide
    specs = state.specs if mode == "replay" else ()
    for spec, run in zip(specs, recording.runs, strict=False):
        problem_of_run = run.why_unjudged([hide(claim) for claim in spec.expect])
        if problem_of_run and spec in judged and run.task == hide(spec.task):
            raise SettingsError(NO_JUDGE.format(spec.task, f"{problem_of_run}, and a replay asks no judge"))


def _show(item: pytest.Item, settings: Settings, secrets: Mapping[str, str], desktop: Desktop) -> Show:
    """Return the function by which a user performs tasks at the page. Raises SettingsError, UsageError."""
    if hasattr(item.config, "workerinput"):
        raise SettingsError(ONE_USER)
    from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`

    desk = ui.desk_of(item.config)
    user = desk.user = _user(item, settings, secrets, desktop)
    is_asked = item.config.stash[SETTINGS].record == "manual"
    user.no_undo = _reused_desktop_reason(settings) if is_asked else "it needs --vnc-record=manual"
    user.repeats = item.stash.get(REPEATED, ())

    def show(task: str, claims: Sequence[str], controller: Controller) -> RecordedRun | str:
        assert desk.watcher is not None, "the agent of the test has one"
        done = user.record(task, claims, controller, desk.watcher)
        if user.undone is not None:
            item.stash[UNDONE] = user.undone
            pytest.skip("a step was undone, so the test is run again")
        if recorded := state_of(item).recorded:
            recorded.add_masks(user.masks)
        return done

    return show


def _user(item: pytest.Item, settings: Settings, secrets: Mapping[str, str], desktop: Desktop) -> PageUser:
    """Return the user at the page, for the desktop of a test."""
    from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`
    from pytest_vnc_use.ui.manual import PageUser

    logs = getattr(desktop, "logs", None)  # a custom desktop may lack it
    has_program = settings.server != "xvnc" or not logs or "program" in logs()
    return PageUser(
        ui.desk_of(item.config).link,
        item.nodeid,
        secrets=secrets,
        ambient=build.ambient_secrets(settings, desktop.password),
        elements_of=build.elements_asker(settings, desktop),
        notice="" if has_program else NO_PROGRAM,
    )


def _answer(config: pytest.Config, question: Question) -> Answer:
    """Return the user's answer. With `--vnc-ui` the page asks; without a terminal the answer is no."""
    if desk := config.pluginmanager.get_plugin("vnc_use_ui"):
        answer: Answer = desk.ask(question)
        return answer
    if hasattr(config, "workerinput"):
        return Answer("no", "a worker of pytest-xdist has no terminal, so run the test with -n 0 to answer")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture:  # not with -p no:capture
        capture.suspend(in_=True)
    try:
        if sys.stdin is None or not sys.stdin.isatty():
            return Answer("no", "stdin is no terminal, so run pytest at one to answer")
        try:  # Ctrl-C may come as soon as the question can be read
            sys.stdout.writelines(f"{sanitize(line, str)}\n" for line in _lines(question))
            sys.stdout.flush()
            key = input("> ").strip().lower()
            if key == "b":
                return Answer("bug", input("What is wrong? > ").strip())
        except (EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")
            return NO
        return {"y": Answer("accept"), "m": Answer("mask"), "c": Answer("model")}.get(key, NO)
    finally:
        if capture:
            capture.resume()


def _lines(question: Question) -> Iterator[str]:
    """Yield the question, and the keys that answer it."""
    yield f"\n\n{question.test}"
    yield question.problem
    for name, image in zip(("recorded", "now", "difference"), question.images, strict=True):
        yield f"  {name:<10} {image}"
    if question.claim:
        yield f"Does this hold on the screen now: {question.claim!r}?"
        yield "  y  it holds    b  it is a bug    anything else: no"
        return
    for act in question.acts:
        yield f"  The recording acts there: {act}"
    for target in question.moved:
        yield f"  Record the test again: {target}"
    keys = [] if question.moved else ["y  this screen is right, continue"]
    keys += [f"m  mask its {question.masked_px:,} px"] if question.masks else []
    keys += [] if "model" in question.refused else ["c  let the model continue"]
    yield "  " + "    ".join([*keys, "b  it is a bug", "anything else: no"])


def _reused_desktop_reason(settings: Settings) -> str:
    """Return why a test that is rerun has no fresh desktop; "" if it has one."""
    if settings.scope != "test":
        return f"with --vnc-scope={settings.scope} no desktop is fresh"
    is_started = settings.server in ("qt", "xvnc") or settings.server.startswith("container:")
    return "" if is_started else "the desktop is not started here, so it is not fresh"


def rehearse(item: pytest.Function, nextitem: pytest.Item | None, path: Path) -> None:
    """Rehearse the recording that the test has just written to `path`, and note the results on the test."""
    state = state_of(item)
    settings = state.settings
    assert settings is not None
    if not settings.rehearse or item.session.shouldstop:
        return
    if reason := _reused_desktop_reason(settings):
        state.add_note("rehearsal", f"not rehearsed: {reason}")
        return
    figures: list[RehearsalFigures] = []
    try:
        _replay(item, nextitem, path, settings, figures)
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
    item: pytest.Function,
    nextitem: pytest.Item | None,
    path: Path,
    settings: Settings,
    figures: list[RehearsalFigures],
) -> None:
    """Replay the recording as often as the settings say, or until it does not repeat; write the learnt variants.

    Raises RecordingError, RunDirectoryUnwritable, OSError.
    """
    state = state_of(item)
    assert state.recorded is not None
    key = state.recorded.key
    original, written = load(path), path.read_bytes()
    recording = original
    for number in range(1, settings.rehearse + 1):
        if recording is None:
            break
        if settings.record == "manual" or item.config.get_verbosity() >= 1:
            text = f"rehearsal {number} of {settings.rehearse}: the recording is replayed, to see that it repeats"
            terminal.print_line(item.config, text)
        rehearsal, started_s = Rehearsal(recording), clock.monotonic()
        reports, failed = _rerun(item, nextitem, rehearsal)
        attached = {run["directory"]: run for report in reports for run in attached_to(report)["runs"]}
        state.rehearsed_runs += [{**run, "rehearsal": number} for run in attached.values()]
        costs.add(state.rehearsed_costs, attached_to(reports[-1]))
        runs, seconds = [Path(run) for run in attached], round(clock.monotonic() - started_s, 3)
        figures.append(replace(_figures(number, rehearsal, failed, runs, key), seconds=seconds))
        if failed:
            state.unrepeated_runs = runs
            break
        recording = rehearsal.learnt()
    is_newest = path.read_bytes() == written  # another process may have recorded it since
    if recording and recording is not original and is_newest:
        save(path, recording)


def _rerun(
    item: pytest.Function, nextitem: pytest.Item | None, rehearsal: Rehearsal
) -> tuple[list[pytest.TestReport], pytest.TestReport | None]:
    """Rerun the test as it was collected, with fresh fixtures. Return its reports, and the first that is bad, if any.

    No plugin receives the reports. What the test and other plugins store on the item is restored afterwards. With
    pytest-timeout the test's time limit ends, and the rehearsal gets a new one.
    """
    state, saved_state, subtests = state_of(item), dict(vars(item)), list[pytest.TestReport]()
    hook, hooks_of = item.config.hook, item.session.gethookproxy
    is_timed = state.timeout is not None and not getattr(state.timeout, "func_only", False)
    try:  # Ctrl-C may come at any time
        item.user_properties, item._report_sections, item._request = [], [], False  # type: ignore[assignment]
        vars(item).pop("execution_count", None)  # pytest-rerunfailures reads it from tests that it may try again
        if item.cls:  # each test has a separate instance of the class
            for name in ("_instance", "_obj"):
                vars(item).pop(name, None)
        begin_attempt(item, rehearsal=rehearsal)
        if is_timed:
            hook.pytest_timeout_cancel_timer(item=item)
            hook.pytest_timeout_set_timer(item=item, settings=state.timeout)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(item.session, "gethookproxy", lambda path: _Hooks(hooks_of(path), subtests))
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
    finally:
        if is_timed:
            hook.pytest_timeout_cancel_timer(item=item)
        vars(item).clear()
        vars(item).update(saved_state)
        item.stash[STATE] = state
        failed_subtests: Any = item.config.stash.get(failed_subtests_key, {})
        failed_subtests.pop(getattr(item, "id", item.nodeid), None)  # pytest-rerunfailures counts them
    bad = [report for report in subtests if report.failed]
    bad += [report for report in reports if not report.passed or hasattr(report, "wasxfail")]
    return reports, bad[0] if bad else None


class _Hooks:
    """The hooks of a test, except that the reports of its subtests go only to `subtests`."""

    def __init__(self, hooks: pluggy.HookRelay, subtests: list[pytest.TestReport]) -> None:
        self._hooks, self._subtests = hooks, subtests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def pytest_runtest_logreport(self, *, report: pytest.TestReport) -> None:
        """Keep the report of a subtest."""
        self._subtests.append(report)


_STATE = "the test passed when it was recorded, but not the next time: reset what it leaves behind, in a fixture"


def _figures(
    number: int, rehearsal: Rehearsal, failed: pytest.TestReport | None, runs: list[Path], key: Key
) -> RehearsalFigures:
    """Return the result of one rehearsal: what it has learnt, or why it failed and the remedy."""
    if failed is None:
        learnt = [f"({region.left}, {region.top}) to ({region.right}, {region.bottom})" for region in rehearsal.regions]
        return RehearsalFigures(number, repeated=True, learnt=tuple(learnt))
    for run in runs:
        with suppress(RunDirectoryError):
            trace = read_trace(run)
            for drift in trace.drifts[-1:]:
                recorded, seen = (run / "screens" / f"{ref.digest}.png" for ref in (drift.recorded, drift.seen))
                advice = _advice(drift, key, recorded, seen, is_first=not trace.steps)
                return RehearsalFigures(number, False, plain(drift.problem), advice, str(recorded), str(seen))
    message = attached_to(failed)["message"] or f"the test was {failed.outcome} in its {failed.when}"
    return RehearsalFigures(number, repeated=False, problem=plain(message), advice=_STATE)


def _advice(drift: Drift, key: Key, recorded: Path, seen: Path, *, is_first: bool) -> str:
    """Return the remedy. For a first screen no mask is proposed: it would hide what appears there later."""
    mask = "if the part changes on its own, mask it; "
    if drift.region and not is_first:
        try:
            cell = cell_around(drift.region, pixels_of(recorded.read_bytes()), pixels_of(seen.read_bytes()))
        except OSError:  # the images were not kept
            cell = drift.region
        masked_px = (cell.right - cell.left) * (cell.bottom - cell.top)
        is_small = is_maskable((cell,), (drift.seen.height, drift.seen.width))
        command = f"mask it ({masked_px:,} px): `{mask_command(key.node_id, (cell,))}`"
        mask = f"if the part changes on its own, {command}; " if is_small else ""
    return (
        f"{mask}if it appears late, let the task wait for it, or raise "
        "vnc_gate_seconds; if an earlier run caused it, reset it in a fixture; then record the test again"
    )
