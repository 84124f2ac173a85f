"""The agent of a test, and what it is made of: its planner, its judge, and the
recording that it replays or makes.
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
from pytest_vnc_use.plugin.reruns import reused_desktop_reason
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
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import (
    Desktop,
    Judge,
    Planner,
    RunObserver,
)

if TYPE_CHECKING:
    from pytest_vnc_use.plugin.ui import DeskPlugin

NOT_REDACTED = (
    "{} was recorded without redaction: where the program shows a typed secret, its"
    " screenshots show it, as do those of this run. Set vnc_show_secrets=true, or {}"
)
_UNRECORDED = "no judge is set, and there is no recording of this test"
NO_JUDGE_TO_CONTINUE = (
    "no judge is set (--vnc-judge=gemini), and what a model does is judged"
)
_STARTED = ("xvnc", "qt")
"""The servers that are started with the screen size of the settings."""
_REVIEWER = pytest.StashKey[Reviewer]()
"""The reviewer of the session, with the answers so far."""


def _mode(
    key: Key,
    settings: Settings,
    *,
    has_planner: bool,
) -> Mode:
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

    A test with a recording is only replayed if the key is missing. A test without a
    task needs no planner until it requests one.
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
        # reported to a reviewer who wants a model to continue
        if is_accepting:
            return NoPlanner(exc)
        if isinstance(exc, KeyMissing) or not settings.planner:
            mode = _mode(key, settings, has_planner=False)
            if key.path.exists() and mode == "replay":
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
    """Raise RecordingError if the recording to replay is not of the markers' tasks, if
    its screen has another size than that of the desktop to be started, or if a named
    one is missing. Raise SettingsError if a named one has another task or other claims.

    Tasks of a fixture or the body are compared when they begin.
    """
    state = state_of(item)
    if state.rehearsal or not state.marked.specs or settings.record == "off":
        return
    key = key_of(item, markers.declared_secrets(item))
    has_planner = bool(settings.planner)
    _check_named(item, settings)
    _check_vouched(item, settings, key)
    if _mode(key, settings, has_planner=has_planner) != "replay":
        return
    hide = secrets_of(item.config).hide
    kept = KeptRecording(key, load_of(key))
    if kept.recording is None:
        return
    recorded = [segment.task for segment in kept.segments]
    own = [spec for spec in state.marked.specs if not spec.recording]
    for number, spec in enumerate(own):
        task = hide(spec.task)
        is_asked = settings.record == "accept" and kept.reworded(task, number)
        if task not in recorded and not is_asked:
            raise RecordingError(kept.format_missing(task, number))
    if settings.server in _STARTED:
        kept.check_size(*settings.screen_size)


def _check_vouched(item: pytest.Item, settings: Settings, key: Key) -> None:
    """Raise SettingsError where the end of a task shows a value that neither a claim nor
    the test's body looks at.
    """
    specs = state_of(item).marked.specs
    has_values = any(spec.value_names for spec in specs)
    if settings.record in ALWAYS_WRITES or not has_values:
        return
    hide = secrets_of(item.config).hide
    has_body = not isinstance(item, TaskFileTest)
    named = _named(item, settings)
    own = KeptRecording(key, load_of(key))
    number = 0
    segments: Sequence[Segment]
    for spec in specs:
        if spec.recording:
            recording = named.load(named.key(spec.recording, item.path.resolve()))
            segments = recording.segments if recording else ()
        else:
            segments = own.segments[number:]
            number += 1
        if segments and segments[0].task == hide(spec.task):
            check_vouched(
                segments[0],
                spec.expect,
                body_checks=spec.body_checks,
                has_body=has_body,
            )


def _check_named(item: pytest.Item, settings: Settings) -> None:
    named = _named(item, settings)
    hide = secrets_of(item.config).hide
    for spec in state_of(item).marked.specs:
        if not spec.recording:
            continue
        key = named.key(spec.recording, item.path.resolve())
        recording = named.load(key)
        task = hide(spec.task)
        if recording and settings.record != "accept":
            claims = None if spec.body_checks else [*map(hide, spec.expect)]
            check_use(key, recording.segments[0], task, claims)
        elif recording is None and settings.record in ("replay", "accept"):
            raise RecordingError(KeptRecording(key, None).format_missing(task, 0))


def check_judge(
    item: pytest.Item,
    settings: Settings,
    judge: Judge | None,
) -> None:
    """Raise SettingsError if a task of the markers has no judge, so that no task is
    performed in vain.
    """
    state = state_of(item)
    judged = [spec for spec in state.marked.specs if not spec.body_checks]
    if not judged or state.rehearsal:
        return
    key = key_of(item, markers.declared_secrets(item))
    has_judge = judge is not None or bool(providers.judge_of(settings))
    mode = _mode(key, settings, has_planner=has_judge)
    recording = load_of(key) if mode in ("auto", "replay") else None
    if recording:
        if mode == "replay" and settings.record != "accept":
            _check_recorded_ends(item, recording)
        return
    if settings.record in ("replay", "accept"):
        return
    if not has_judge:
        problem = NO_JUDGE.format(judged[0].task, _UNRECORDED)
        hint = move_hint(item, key)
        raise SettingsError(f"{problem} {hint}" if hint else problem)
    if judge is None:
        providers.build_judge(settings)  # raises KeyMissing


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


def recorded_test_of(
    item: pytest.Item,
    settings: Settings,
    planner: Planner,
    judge: Judge | None,
    secrets: Mapping[str, str],
    desktop: Desktop,
) -> RecordedTest | None:
    """Return the test with its recording; None if it is neither replayed nor recorded.
    Raises RecordingError.

    `secrets` are those that the test declares. Without a judge nothing is healed,
    unless the user chose the mode and the test's body checks.
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
            named=_named(item, settings),
        )
    no_model = _why_no_model(item, key, settings, planner, judge)
    mode = _mode(key, settings, has_planner=not no_model)
    reviewed = None
    typed_secrets = {**secrets_of(item.config).from_options, **secrets}
    if settings.record == "accept":
        reviewed = _reviewed(item, settings, typed_secrets, desktop, no_model)
    show = None
    if mode == "manual":
        show = users.show_of(item, settings, typed_secrets, desktop)
    left_over = ""
    if settings.record != "off" and settings.record not in ALWAYS_WRITES:
        left_over = move_hint(item, key)
    if left_over and mode != "replay":
        warnings.warn(left_over, stacklevel=2)
    if mode == "off":
        return None
    remedy = RECORD_IT
    if state.marked.overruled == "off":
        remedy = TAKE_OUT + RECORD_IT
    recorded_test = RecordedTest(
        key,
        mode,
        show,
        reviewed=reviewed,
        redacts=redacts,
        circumstances=Circumstances(
            desktop,
            settings,
            state.follows,
            remedy=f"{remedy}. {left_over}" if left_over else remedy,
        ),
        named=_named(item, settings),
    )
    if redacts and not recorded_test.redacts:
        text = NOT_REDACTED.format(key.path, AGAIN)
        warnings.warn(text, stacklevel=2)
    return recorded_test


def _named(item: pytest.Item, settings: Settings) -> NamedRecordings:
    """Return where the test finds named recordings."""
    again = settings.rerecord
    if state_of(item).rehearsal:
        again = ()
    config = item.config
    return NamedRecordings(
        config.rootpath.resolve(), again, config.stash.get(costs.ACCOUNT, None)
    )


def _why_no_model(
    item: pytest.Item,
    key: Key,
    settings: Settings,
    planner: Planner,
    judge: Judge | None,
) -> str:
    """Return why no model can perform the tasks, or continue its replay; "" if one can.

    A judge is needed to continue a replay, unless the user chose the mode and the
    test's body checks.
    """
    if isinstance(planner, NoPlanner):
        return str(planner.why) if settings.planner else NO_MODEL
    is_judged = judge is not None or bool(providers.judge_of(settings))
    if is_judged or not key.path.exists():
        return ""
    specs = state_of(item).marked.specs
    all_by_body = bool(specs) and all(spec.body_checks for spec in specs)
    if settings.record and all_by_body:
        return ""
    return NO_JUDGE_TO_CONTINUE


def _reviewed(
    item: pytest.Item,
    settings: Settings,
    secrets: Mapping[str, str],
    desktop: Desktop,
    no_model: str,
) -> ReviewedTest:
    """Return the test with its reviewer for `--vnc-record=accept`, who may also
    continue by hand at the page. `no_model` is why no model can continue.
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
    no_undo = reused_desktop_reason(settings)
    user = users.UserInReplay(item, desk, page_user, no_undo)
    return ReviewedTest(reviewer, item.nodeid, refused=refused, user=user)


def agent_of_test(
    request: pytest.FixtureRequest,
    settings: Settings,
    desktop: Desktop,
    planner: Planner,
    judge: Judge | None,
    functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Yield the agent of the requesting test. Raises the error of the first check that
    failed outside the test's call.
    """
    # where no program was started that it could be imported beside
    leasing.import_engine()
    item = request.node
    config = item.config
    state = state_of(item)
    secrets = secrets_of(config)
    declared = markers.declared_secrets(item)
    settings = absolute_files(settings, config.invocation_params.dir)
    state.settings = settings
    state.recorded_test = recorded_test_of(
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
    observers: list[RunObserver] = [ItemObserver(item)]
    observers += terminal.open_line(item)
    is_replayed = state.recorded_test and state.recorded_test.mode == "replay"
    if is_replayed and not state.rehearsal:
        observers.append(config.stash[PRESTART])
    desk: DeskPlugin | None = config.pluginmanager.get_plugin("vnc_use_ui")
    watcher = None
    if desk and not state.rehearsal:
        watcher = desk.watcher_of(item)
        observers.append(watcher)
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
        # pytest keeps the item to the session's end, and with it the screens
        state.agent = None
        if watcher:
            watcher.close()
        terminal.close_line(config)
        agent.close()
    if failure := agent.unmet():
        raise failure  # of a check made outside the test's call
