"""The agent of a test, with its planner, its judge, and the recording that it replays
or makes.
"""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.agent import build, credentials, leasing, providers
from pytest_vnc_use.agent.agent import NO_JUDGE, VncUseAgent
from pytest_vnc_use.agent.budget import Ledger
from pytest_vnc_use.agent.connection import Connection
from pytest_vnc_use.agent.models import Models
from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.errors import KeyMissing, RecordingError, SettingsError
from pytest_vnc_use.interactive import is_ci
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.plugin import costs, ending, markers, terminal, users
from pytest_vnc_use.plugin.observer import ItemObserver
from pytest_vnc_use.plugin.prestart import PRESTART
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.renamed import key_of, move_hint
from pytest_vnc_use.plugin.state import state_of
from pytest_vnc_use.plugin.toml import TaskFileTest
from pytest_vnc_use.plugin.video import video_of
from pytest_vnc_use.recordings import (
    AGAIN,
    ALWAYS_WRITES,
    ANSWER_IT,
    RECORD_IT,
    TAKE_OUT,
    Mode,
    mode_of,
)
from pytest_vnc_use.recordings.closed import Circumstances
from pytest_vnc_use.recordings.format import Recording, Segment
from pytest_vnc_use.recordings.keeping import KeptRecording
from pytest_vnc_use.recordings.named import NamedRecordings, check_use
from pytest_vnc_use.recordings.question import NO_MODEL, NO_PAGE
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.reviewer import ReviewedTest, Reviewer
from pytest_vnc_use.recordings.store import Key, load_of
from pytest_vnc_use.recordings.values import check_vouched
from pytest_vnc_use.settings.layers import absolute_files
from pytest_vnc_use.settings.settings import LOCAL_SERVERS, Settings
from pytest_vnc_use.types.protocols import Desktop, Judge, Planner, RunObserver

if TYPE_CHECKING:
    from pytest_vnc_use.plugin.ui import DeskPlugin

_NOT_REDACTED = (
    "{} was recorded without redaction: where the program shows a typed secret, its"
    " screenshots show it, as do those of this run. Set vnc_show_secrets=true, or {}"
)
_UNRECORDED = "no judge is set, and there is no recording of this test"
_NO_JUDGE_TO_CONTINUE = (
    "no judge is set (--vnc-judge=gemini), and what a model does is judged"
)
_REVIEWER = pytest.StashKey[Reviewer]()
"""The reviewer of the session, with the answers so far."""


def _mode(key: Key, settings: Settings, *, has_planner: bool) -> Mode:
    """Return what happens with the recording of a test."""
    return mode_of(
        settings.record,
        exists=key.path.exists(),
        ci=is_ci(),
        has_planner=has_planner,
    )


def planner_of(
    item: pytest.Item,
    settings: Settings,
    functions: Sequence[Callable[..., object]],
) -> Planner:
    """Return the planner that the settings name, or NoPlanner if the test is only
    replayed or a user performs the tasks.

    If the service's API key is missing, a test with a recording is only replayed. A
    test whose markers have no task fails only if it asks the planner.
    """
    state = state_of(item)
    if state.rehearsal:
        return NoPlanner()
    key = key_of(item)
    is_accepting = settings.record == "accept"
    mode = _mode(key, settings, has_planner=bool(settings.planner))
    if mode in ("replay", "manual") and not is_accepting:
        return NoPlanner()
    try:
        return providers.build_planner(settings, functions)
    except SettingsError as exc:
        if is_accepting:
            # A reviewer who wants a model to continue is shown the error.
            return NoPlanner(exc)
        if isinstance(exc, KeyMissing) or not settings.planner:
            mode_without = _mode(key, settings, has_planner=False)
            if key.path.exists() and mode_without == "replay":
                return NoPlanner()
            if not state.marked.specs:
                return NoPlanner(exc)
        if hint := move_hint(item, key):
            raise type(exc)(f"{exc}. {hint}") from exc
        raise


def user_judge_of(item: pytest.Item, settings: Settings) -> Judge | None:
    """Return the user at the page if a user performs the tasks and no judge is
    configured; else None.
    """
    is_manual = settings.record == "manual" and not state_of(item).rehearsal
    if not is_manual or providers.judge_of(settings):
        return None
    return users.UserJudge(item.config)


def check_recording(item: pytest.Item, settings: Settings) -> None:
    """Check the recordings of the markers' tasks before a desktop is started.

    Those of other tasks, of a fixture or the body, are checked when the task begins.

    Raises:
        RecordingError: The recording to replay lacks a task, or has another screen size
            than the desktop to be started; or a named recording is missing.
        SettingsError: A named recording has another task or other claims, or a value at
            the end of a task is checked by nothing.
    """
    state = state_of(item)
    if state.rehearsal or not state.marked.specs or settings.record == "off":
        return
    key = key_of(item, markers.declared_secrets(item))
    _check_named_recordings(item, settings)
    _check_values(item, settings, key)
    if _mode(key, settings, has_planner=bool(settings.planner)) != "replay":
        return
    kept = KeptRecording(key, load_of(key))
    if kept.recording is None:
        return
    hide = secrets_of(item.config).hide
    recorded_tasks = [segment.task for segment in kept.segments]
    unnamed_specs = [spec for spec in state.marked.specs if not spec.recording]
    for number, spec in enumerate(unnamed_specs):
        task = hide(spec.task)
        if task in recorded_tasks:
            continue
        # A reviewer is asked whether another text is the same task.
        is_asked = settings.record == "accept" and kept.reworded(task, number)
        if not is_asked:
            raise RecordingError(kept.format_missing(task, number))
    if settings.server in LOCAL_SERVERS:
        kept.check_size(*settings.screen_size)


def _check_values(item: pytest.Item, settings: Settings, key: Key) -> None:
    """Raise SettingsError if the end of a task shows a value that neither a claim nor
    the test's body checks.
    """
    specs = state_of(item).marked.specs
    has_values = any(spec.value_names for spec in specs)
    if settings.record in ALWAYS_WRITES or not has_values:
        return
    hide = secrets_of(item.config).hide
    named = _named_recordings(item, settings)
    test_recording = load_of(key)
    unnamed_segments = test_recording.segments if test_recording else ()
    number = 0
    segments: Sequence[Segment]
    for spec in specs:
        if spec.recording:
            recording = named.load(named.key(spec.recording, item.path.resolve()))
            segments = recording.segments if recording else ()
        else:
            segments = unnamed_segments[number:]
            number += 1
        if segments and segments[0].task == hide(spec.task):
            check_vouched(
                segments[0],
                spec.expect,
                body_checks=spec.body_checks,
                has_body=not isinstance(item, TaskFileTest),
            )


def _check_named_recordings(item: pytest.Item, settings: Settings) -> None:
    """Raise RecordingError if a named recording is missing, SettingsError if it has
    another task or other claims.
    """
    named = _named_recordings(item, settings)
    hide = secrets_of(item.config).hide
    for spec in state_of(item).marked.specs:
        if not spec.recording:
            continue
        key = named.key(spec.recording, item.path.resolve())
        recording = named.load(key)
        task = hide(spec.task)
        if recording and settings.record != "accept":
            claims = None
            if not spec.body_checks:
                claims = [hide(claim) for claim in spec.expect]
            check_use(key, recording.segments[0], task, claims)
        elif recording is None and settings.record in ("replay", "accept"):
            raise RecordingError(KeptRecording(key, None).format_missing(task, 0))


def check_judge(
    item: pytest.Item,
    settings: Settings,
    judge: Judge | None,
) -> None:
    """Raise SettingsError if a task of the markers has no judge, before it is run."""
    state = state_of(item)
    judged_specs = [spec for spec in state.marked.specs if not spec.body_checks]
    if not judged_specs or state.rehearsal:
        return
    key = key_of(item, markers.declared_secrets(item))
    has_judge = judge is not None or bool(providers.judge_of(settings))
    # Without a judge, no model continues a replay, so a planner does not count.
    mode = _mode(key, settings, has_planner=has_judge)
    recording = load_of(key) if mode in ("auto", "replay") else None
    if recording:
        if mode == "replay" and settings.record != "accept":
            _check_recorded_ends(item, recording)
        return
    if settings.record in ("replay", "accept"):
        return  # The first run reports that the recording is missing.
    if not has_judge:
        problem = NO_JUDGE.format(judged_specs[0].task, _UNRECORDED)
        hint = move_hint(item, key)
        raise SettingsError(f"{problem} {hint}" if hint else problem)
    if judge is None:
        providers.build_judge(settings)  # Raises KeyMissing.


def _check_recorded_ends(item: pytest.Item, recording: Recording) -> None:
    """Raise SettingsError for a task whose claims its recording cannot confirm."""
    hide = secrets_of(item.config).hide
    specs = [spec for spec in state_of(item).marked.specs if not spec.recording]
    for spec, segment in zip(specs, recording.segments, strict=False):
        if spec.body_checks or segment.task != hide(spec.task):
            continue
        claims = [hide(claim) for claim in spec.expect]
        if problem := segment.why_unjudged(claims):
            problem = f"{problem}, and a replay asks no judge: {ANSWER_IT}"
            raise SettingsError(NO_JUDGE.format(spec.task, problem))


def _recorded_test(
    item: pytest.Item,
    settings: Settings,
    planner: Planner,
    judge: Judge | None,
    secrets: Mapping[str, str],
    desktop: Desktop,
) -> RecordedTest | None:
    """Return the test with its recording; None if it is neither replayed nor recorded.

    `secrets` are those that the test declares. Raises RecordingError.
    """
    state = state_of(item)
    key = key_of(item, secrets)
    redacts = not settings.show_secrets
    if state.rehearsal:
        return RecordedTest(
            key,
            "replay",
            rehearsal=state.rehearsal,
            redacts=redacts,
            circumstances=Circumstances(desktop),
            named=_named_recordings(item, settings),
        )

    no_model = _why_no_model(item, key, settings, planner, judge)
    mode = _mode(key, settings, has_planner=not no_model)
    typed_secrets = {**secrets_of(item.config).from_options, **secrets}
    reviewed = None
    if settings.record == "accept":
        reviewed = _reviewed_test(item, settings, typed_secrets, desktop, no_model)
    show = None
    if mode == "manual":
        show = users.show_of(item, settings, typed_secrets, desktop)

    hint = ""
    if settings.record != "off" and settings.record not in ALWAYS_WRITES:
        hint = move_hint(item, key)
    if hint and mode != "replay":
        warnings.warn(hint, stacklevel=2)
    if mode == "off":
        return None

    remedy = RECORD_IT
    if state.marked.overruled == "off":
        remedy = TAKE_OUT + RECORD_IT
    if hint:
        remedy = f"{remedy}. {hint}"
    recorded_test = RecordedTest(
        key,
        mode,
        show,
        reviewed=reviewed,
        redacts=redacts,
        circumstances=Circumstances(desktop, settings, state.follows, remedy=remedy),
        named=_named_recordings(item, settings),
    )
    if redacts and not recorded_test.redacts:
        text = _NOT_REDACTED.format(key.path, AGAIN)
        warnings.warn(text, stacklevel=2)
    return recorded_test


def _named_recordings(item: pytest.Item, settings: Settings) -> NamedRecordings:
    """Return the named recordings that the test finds."""
    config = item.config
    return NamedRecordings(
        config.rootpath.resolve(),
        again=() if state_of(item).rehearsal else settings.rerecord,
        session_dir=config.stash.get(costs.ACCOUNT, None),
    )


def _why_no_model(
    item: pytest.Item,
    key: Key,
    settings: Settings,
    planner: Planner,
    judge: Judge | None,
) -> str:
    """Return why no model can perform the tasks, or continue their replay; "" if one
    can.

    To continue a replay, a judge is needed too, unless the user has set the mode and
    all tasks have `expect=None`.
    """
    if isinstance(planner, NoPlanner):
        return str(planner.why) if settings.planner else NO_MODEL
    has_judge = judge is not None or bool(providers.judge_of(settings))
    if has_judge or not key.path.exists():
        return ""
    specs = state_of(item).marked.specs
    body_checks_all = bool(specs) and all(spec.body_checks for spec in specs)
    if settings.record and body_checks_all:
        return ""
    return _NO_JUDGE_TO_CONTINUE


def _reviewed_test(
    item: pytest.Item,
    settings: Settings,
    secrets: Mapping[str, str],
    desktop: Desktop,
    no_model: str,
) -> ReviewedTest:
    """Return the test with its reviewer for `--vnc-record=accept`.

    At the page, the reviewer may also continue by hand. `no_model` is the reason why no
    model can continue, if any.
    """
    reviewer = item.config.stash.get(_REVIEWER, None)
    if reviewer is None:
        reviewer = Reviewer(partial(users.answer, item.config))
        item.config.stash[_REVIEWER] = reviewer
    refused = {"model": no_model} if no_model else {}
    desk: DeskPlugin | None = item.config.pluginmanager.get_plugin("vnc_use_ui")
    if desk is None:
        refused["hand"] = NO_PAGE
        return ReviewedTest(reviewer, item.nodeid, refused=refused)
    page_user = users.user_of(item, settings, secrets, desktop)
    user = users.UserInReplay(item, desk, page_user, settings)
    return ReviewedTest(reviewer, item.nodeid, refused=refused, user=user)


def agent_of_test(
    request: pytest.FixtureRequest,
    settings: Settings,
    desktop: Desktop,
    planner: Planner,
    judge: Judge | None,
    functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Yield the agent of the requesting test.

    Raises ProductFailed or Inconclusive for soft checks that were not met outside the
    test's call, such as in a fixture.
    """
    # A desktop with a program has imported it while the program started.
    leasing.import_engine()
    item = request.node
    config = item.config
    state = state_of(item)
    secrets = secrets_of(config)
    declared = markers.declared_secrets(item)

    settings = absolute_files(settings, config.invocation_params.dir)
    state.settings = settings
    state.recorded_test = _recorded_test(
        item,
        settings,
        planner,
        judge,
        declared,
        desktop,
    )
    if state.recorded_test:
        settings = replace(settings, show_secrets=not state.recorded_test.redacts)
    account = config.stash.get(costs.ACCOUNT, None)
    ledger = Ledger(account) if account else None
    state.budget = build.build_budget(settings, ledger)
    settings = leasing.settings_at(settings, desktop.server)

    all_secrets = credentials.build_secrets(
        settings,
        {**secrets.from_options, **declared},
        desktop.password,
        others=secrets.declared,
    )
    connection = Connection(
        settings,
        all_secrets,
        password=desktop.password,
        desktop=desktop,
        recorded_test=state.recorded_test,
    )

    observers: list[RunObserver] = [ItemObserver(item), *terminal.open_line(item)]
    is_replayed = state.recorded_test and state.recorded_test.mode == "replay"
    if is_replayed and not state.rehearsal:
        observers.append(config.stash[PRESTART])
    desk: DeskPlugin | None = config.pluginmanager.get_plugin("vnc_use_ui")
    watcher = None
    if desk and not state.rehearsal:
        watcher = desk.watcher_of(item)
        observers.append(watcher)
    state.video = video_of(settings, state.attempt, connection)
    if state.video:
        observers.append(state.video)

    session = Session(
        settings,
        all_secrets,
        connection,
        Models(planner, judge),
        functions=functions,
        observers=observers,
        budget=state.budget,
        can_ask=desk is not None,
        approver=desk.approver_of(item) if desk else None,
        test_id=item.nodeid,
        recorded_test=state.recorded_test,
    )
    callspec = getattr(item, "callspec", None)
    session.of_test = ChainMap(item.funcargs, callspec.params if callspec else {})
    agent = VncUseAgent.of(session)
    state.agent = agent
    state.runs = agent.runs
    secrets.add(credentials.ambient_secrets(settings, desktop.password))
    if desk and watcher:
        desk.watch(watcher, agent)

    yield agent

    try:
        ending.end_agent(state, agent)
    finally:
        # pytest keeps the item until the session ends, and the agent has screens.
        state.agent = None
        if watcher:
            watcher.close()
        terminal.close_line(config)
        agent.close()
    if failure := agent.unmet():
        raise failure
