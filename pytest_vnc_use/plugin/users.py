"""The user who performs and judges the tasks of `--vnc-record=manual`, and who answers
the questions of `--vnc-record=accept`: at the page, or on the terminal.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.agent import build, credentials
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.interactive import has_user
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.plugin.mode_requirements import ONE_USER
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.reruns import REPEATED, UNDONE, reused_desktop_reason
from pytest_vnc_use.plugin.state import SETTINGS, state_of
from pytest_vnc_use.recordings.format import Screen, Segment
from pytest_vnc_use.recordings.manual import ByHand, Locations, PerformByHand
from pytest_vnc_use.recordings.question import NO, Answer, Question
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import sanitize
from pytest_vnc_use.types import Frame, Report, Verdict
from pytest_vnc_use.types.protocols import Controller, Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.demonstrate.draft import Draft
    from pytest_vnc_use.plugin.ui import DeskPlugin
    from pytest_vnc_use.ui.page_user import PageUser

NO_PROGRAM = (
    "no program is started on this desktop. Set --vnc-app, or app in the task's file"
)
_NO_WORKER = (
    "a worker of pytest-xdist has no terminal, so run the test with -n 0 to answer"
)
_NO_TERMINAL = "stdin is no terminal, or CI is set: run pytest at one to answer"
_ANSWERS = {
    "y": Answer("accept"),
    "m": Answer("mask"),
    "g": Answer("mask_gate"),
    "c": Answer("model"),
}
_CONTINUE = "Continue it: its steps are repeated"
_IMAGES = ("recorded", "now", "difference")


def user_of(
    item: pytest.Item,
    settings: Settings,
    secrets: Mapping[str, str],
    desktop: Desktop,
) -> PageUser:
    """Return the user at the page, for the desktop of a test."""
    from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`
    from pytest_vnc_use.ui.page_user import PageUser

    logs = getattr(desktop, "logs", None)  # a custom desktop may lack it
    ambient = credentials.ambient_secrets(settings, desktop.password)
    others = secrets_of(item.config).declared
    has_program = settings.server != "xvnc" or not logs or "program" in logs()
    return PageUser(
        ui.desk_of(item.config).link,
        item.nodeid,
        secrets=secrets,
        ambient=Redactor(ambient, others=others),
        elements_of=build.elements_asker(settings, desktop),
        notice="" if has_program else NO_PROGRAM,
    )


def show_of(
    item: pytest.Item,
    settings: Settings,
    secrets: Mapping[str, str],
    desktop: Desktop,
) -> PerformByHand:
    """Return the function by which a user performs tasks at the page. Raises
    SettingsError, UsageError.
    """
    if hasattr(item.config, "workerinput"):
        raise SettingsError(ONE_USER)
    from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`
    from pytest_vnc_use.ui.corrections import Corrections

    desk = ui.desk_of(item.config)
    user = user_of(item, settings, secrets, desktop)
    desk.user = user
    user.corrections = Corrections(item.path, item.nodeid.partition("::")[0])
    draft = user.keep_draft(Path(settings.runs_dir))
    if item.config.stash[SETTINGS].record == "manual":
        user.no_undo = reused_desktop_reason(settings)
    else:
        user.no_undo = "it needs --vnc-record=manual"
    draft.repeat(item.stash.get(REPEATED, ()))
    is_offered = REPEATED not in item.stash

    def show(
        task: str,
        claims: Sequence[str],
        values: Mapping[str, str],
        controller: Controller,
    ) -> Segment | str:
        nonlocal is_offered
        assert desk.watcher is not None, "the agent of the test has one"
        runs = state_of(item).runs
        assert runs, "the task has begun"
        draft.begin(runs[-1], len(runs))
        if is_offered:
            is_offered = False
            _offer(desk, item, draft)
        done = user.record(task, claims, controller, desk.watcher, values)
        if user.undone is not None:
            item.stash[UNDONE] = user.undone
            pytest.skip("a step was undone, so the test is run again")
        recorded_test = state_of(item).recorded_test
        if recorded_test:
            recorded_test.add_masks(user.masks)
        return done

    return show


class UserInReplay:
    """A `ReplayUser`: the user at the page, in one attempt at a test. If the user
    undoes steps, the test is run again.
    """

    def __init__(
        self,
        item: pytest.Item,
        desk: DeskPlugin,
        user: PageUser,
        settings: Settings,
    ) -> None:
        user.no_undo = reused_desktop_reason(settings)
        runs_dir = Path(settings.runs_dir)
        self._draft = user.keep_draft(runs_dir, in_replay=True)
        self._draft.repeat(item.stash.get(REPEATED, ()))
        self._is_offered = REPEATED not in item.stash
        self._item = item
        self._desk = desk
        self._user = user

    def show(self, key: Key, segment: Segment) -> None:
        """Show what is replayed from now on."""
        self._user.show(key, segment)

    def stops_before(self, screen: Screen) -> bool:
        """Return whether the user wants to act once a recorded screen is shown."""
        return self._user.stops_before(screen)

    def choose(self, title: str, now: Frame, choices: Locations) -> int | None:
        """Have the user choose where the recording continues."""
        return self._user.choose(title, now, choices)

    def take_over(self, task: str, due: Locations, desktop: Controller) -> ByHand | str:
        """Have the user act, as `PageUser.take_over` says."""
        assert self._desk.watcher is not None, "the agent of the test has one"
        if self._is_offered:
            self._is_offered = False
            _offer(self._desk, self._item, self._draft)
        _, screen = next(iter(due.values()))
        runs = state_of(self._item).runs
        assert runs, "the task has begun"
        self._draft.begin_at(runs[-1], self._user.gate_name(screen))
        done = self._user.take_over(task, due, desktop, self._desk.watcher)
        if self._user.undone is not None:
            self._item.stash[UNDONE] = self._user.undone
            pytest.skip("a step was undone, so the test is run again")
        return done


def _offer(desk: DeskPlugin, item: pytest.Item, draft: Draft) -> None:
    """If an earlier session has left a draft, let the user choose to continue it or to
    start again.
    """
    found = draft.find()
    if found is None:
        return
    at = datetime.fromtimestamp(found.kept_at).astimezone()
    steps = count_of(found.steps, "step")
    where = secrets_of(item.config).hide(found.tasks[-1].task)
    title = "This recording was interrupted"
    if draft.in_replay:
        title = "Steps of an earlier edit are kept"
        where = f"the last ones before {where}"
    image = base64.b64encode(found.png).decode()
    with uncounted():
        answer = desk.link.put_question(
            about="choice",
            test=item.nodeid,
            title=title,
            text=f"It ended on {at:%Y-%m-%d at %H:%M}, after {steps}: {where}",
            choices=[{"number": "continue", "text": _CONTINUE, "image": image}],
            none="Start again",
        )
    if answer["kind"] == "continue":
        draft.repeat(found.tasks, found.problem)


class UserJudge:
    """A Judge: the user who performs the test's tasks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def judge(
        self,
        claim: str,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
    ) -> Verdict:
        """Return the user's verdict. Raises ProductFailed for a denial."""
        from pytest_vnc_use.plugin import ui  # the libraries of the extra `ui`

        user = ui.desk_of(self._config).user
        assert user is not None, "only what a user did by hand is judged by the user"
        return user.judge(claim, frame, timeout_s=timeout_s, report=report)


def answer(config: pytest.Config, question: Question) -> Answer:
    """Return the user's answer. With `--vnc-ui` the page asks; without a terminal the
    answer is no.
    """
    desk: DeskPlugin | None = config.pluginmanager.get_plugin("vnc_use_ui")
    if desk:
        return desk.ask(question)
    if hasattr(config, "workerinput"):
        return Answer("no", _NO_WORKER)
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is None:  # with -p no:capture
        return _answer_at_terminal(question)
    capture.suspend(in_=True)
    try:
        return _answer_at_terminal(question)
    finally:
        capture.resume()


def _answer_at_terminal(question: Question) -> Answer:
    if not has_user(sys.stdin):
        return Answer("no", _NO_TERMINAL)
    try:  # Ctrl-C may come as soon as the question can be read
        for line in _lines(question):
            sys.stdout.write(f"{sanitize(line, str)}\n")
        sys.stdout.flush()
        key = input("> ").strip().lower()
        if key == "b":
            return Answer("bug", input("What is wrong? > ").strip())
        if key == "v":
            return _value_answer([*question.offer.values])
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return NO
    return _ANSWERS.get(key, NO)


def _value_answer(names: list[str]) -> Answer:
    """Return which of the values the screen shows; no if the user names none."""
    if len(names) < 2:
        return Answer("value", names[0]) if names else NO
    prompt = f"Which one ({', '.join(names)})? > "
    while (name := input(prompt).strip()) and name not in names:
        sys.stdout.write(sanitize(f"No value {name!r} is offered.\n", str))
    return Answer("value", name) if name else NO


def _lines(question: Question) -> Iterator[str]:
    """Yield the question, and the keys that answer it."""
    yield f"\n\n{question.test}"
    yield question.problem
    if question.is_new_claim:
        yield f"  {'now':<10} {question.images[0]}"
        yield f"Does this hold on the screen now: {question.claim!r}?"
        yield "  y  it holds    b  it does not hold    anything else: no"
        return
    for name, image in zip(_IMAGES, question.images, strict=True):
        yield f"  {name:<10} {image}"
    if question.claim:
        yield f"Does this hold on the screen now: {question.claim!r}?"
        yield "  y  it holds    b  it is a bug    anything else: no"
        return
    for act in question.acts:
        yield f"  The recording acts there: {act}"
    for target in question.offer.moved:
        yield f"  Record the test again: {target}"
    keys = []
    if question.is_transient:
        keys.append("y  it may show")
    elif question.offers("accept"):
        keys.append("y  this screen is right, continue")
    if question.offer.masks:
        keys.append(f"m  mask its {question.offer.masked_px:,} px in the test")
        keys.append("g  mask it at this gate alone")
    if question.offers("value"):
        values = question.offer.values.items()
        what = ", ".join(f"{name} ({text})" for name, text in values)
        keys.append(f"v  it shows a value: {what}")
    if question.offers("model"):
        keys.append("c  let the model continue")
    keys += ["b  it is a bug", "anything else: no"]
    yield from (f"  {key}" for key in keys)
