"""A person shows a task in a VNC viewer, and a test of it with its recording is written: `cua-vnc record`."""

from __future__ import annotations

import os
import queue
import shlex
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

from pytest_vnc_use import assembly
from pytest_vnc_use.backends import vnc
from pytest_vnc_use.backends.viewer import Stage
from pytest_vnc_use.errors import ActionError, SettingsError
from pytest_vnc_use.logging_utils import Redactor
from pytest_vnc_use.recordings.demonstration import Deed, Demonstrated, Demonstration, Motion, near
from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.hovering import Rest, differing, needed, restored
from pytest_vnc_use.recordings.pictures import pixels_of
from pytest_vnc_use.recordings.record import moving_parts, screen_at_rest
from pytest_vnc_use.recordings.shown_test import ShownStep, Wanted, write
from pytest_vnc_use.safety import points
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.transcript import told_action
from pytest_vnc_use.types import Action, DesktopAction, Frame, KeyDown, KeyUp, Move, Scroll, TypeText

Say = Callable[[str], None]
HOVER_S = 0.5
"""A pointer that has not moved for so long rests, and is moved there on the desktop."""
_LOOK_AGAIN_S = 0.25
_LOOKS = 8
"""So often the screen is looked at while nothing is done, and so many of the last looks are kept."""


class Session:
    """Carries out on a desktop what a viewer does, and keeps what it comes to."""

    def __init__(self, desktop: vnc.VNCController, say: Say) -> None:
        self.shown = Demonstration()
        self._desktop, self._say = desktop, say
        self._size = desktop.size
        self._motions: queue.SimpleQueue[tuple[Motion | None, float]] = queue.SimpleQueue()
        self._down: set[str] = set()
        self._looks: deque[Frame] = deque(maxlen=_LOOKS)
        self._at: tuple[int, int] | None = None
        """Where the pointer is on the desktop, but for where it rests."""
        self._rests: list[Rest] = []
        self._hovers: tuple[tuple[int, int], float] | None = None
        """Where the viewer's pointer is, and since when."""

    def hear(self, motion: Motion | None, at_s: float) -> None:
        """Something happened, or with None nothing more will; for any thread."""
        self._motions.put((motion, at_s))

    def run(self) -> Screen:
        """Until nothing more will happen; returns the screen at the end. Raises DesktopError, SettingsError."""
        while motion := self._next():
            self._take(*motion)
        self._do(self.shown.end(time.monotonic()))
        screen = self._look(None, partial(screen_at_rest, self._desktop))
        self._check_size()
        return screen

    def _next(self) -> tuple[Motion, float] | None:
        while True:
            try:
                motion, at_s = self._motions.get(timeout=_LOOK_AGAIN_S)
            except queue.Empty:
                self._looks.append(self._desktop.frame())
                self._rest()
            else:
                return (motion, at_s) if motion else None

    def _take(self, motion: Motion, at_s: float) -> None:
        if isinstance(motion, Move):
            self._hovers = (motion.x, motion.y), at_s
        if isinstance(motion, Scroll) and not self._desktop.abilities.wheel:
            self._say("not done: this VNC server has no wheel; scroll with the keys")
        elif not self._is_late_repetition(motion):
            self._do(self.shown.deeds(motion, at_s))

    def _is_late_repetition(self, motion: Motion) -> bool:
        """Whether a key that is held down has repeated itself while there was still something else to do."""
        repeated = isinstance(motion, KeyDown) and motion.key in self._down
        if isinstance(motion, KeyDown):
            self._down.add(motion.key)
        elif isinstance(motion, KeyUp):
            self._down.discard(motion.key)
        return repeated and not self._motions.empty()

    def _do(self, deeds: Iterable[Deed]) -> None:
        for deed in deeds:
            if deed.begins:
                deed.begins.screen = self._look(deed.action, self._screen)
            try:
                self._perform(deed.action)
            except ActionError as exc:
                self._say(f"not done: {exc}")
                self.shown.take_back()

    def _perform(self, action: DesktopAction) -> None:
        self._desktop.perform(action)
        self._looks.clear()
        self._at = next(iter(points(action)[-1:]), self._at)

    # --- hovering ---

    def _rest(self) -> None:
        """Move the pointer to where it rests, so that whatever is opened by hovering opens."""
        if self._hovers is None or self._at is None or not self.shown.may_rest:
            return
        place, since_s = self._hovers
        is_there = near(place, self._rests[-1].at if self._rests else self._at)
        if not is_there and time.monotonic() - since_s >= HOVER_S:
            self._rests.append(Rest(place, self._screen()))
            self._desktop.perform(Move(*place))
            self._looks.clear()

    def _look(self, action: Action | None, look: Callable[[], Screen]) -> Screen:
        """What a replay has before an action, or at the end: the pointer rested nowhere but where that matters."""
        rests, self._rests = self._rests, []
        if not rests:
            return look()
        resting = self._screen()
        kept = needed(rests, action, resting) if action else []
        self.shown.insert([Demonstrated(Move(*rest.at), 0.0, rest.screen) for rest in kept])
        left_out = rests[rests.index(kept[-1]) + 1 :] if kept else rests
        self._at = kept[-1].at if kept else self._at
        if not left_out or self._at is None or not differing(left_out[0].screen, resting).any():
            return resting
        self._perform(Move(*self._at))
        return restored(left_out[0].screen, resting, look())

    def _screen(self) -> Screen:
        """What whoever acts now has before them, once it is at rest."""
        self._desktop.settle()
        frame = self._desktop.frame()
        self._check_size()
        moving = moving_parts(frame, self._looks, unseen=True) if frame.moving else ()
        return Screen(volatile=tuple(moving), pixels=partial(pixels_of, frame.png))

    def _check_size(self) -> None:
        if self._desktop.size != self._size:
            raise SettingsError(
                f"the desktop's size was {self._size} and is {self._desktop.size} now: a recording has one size"
            )


def demonstrate(wanted: Wanted, settings: Settings, listen: str, say: Say, ask: Callable[[], Sequence[str]]) -> bool:
    """Have a task shown through a viewer that connects to `listen`, and write the test; False where nothing was done.

    `ask` is asked for claims where none were given. Raises SettingsError, DesktopError, RunFolderError.
    """
    wanted.check()
    redactor = Redactor({name: os.environ.get(name, "") for name in wanted.secrets})
    if redactor.hide(settings.app) != settings.app:
        raise SettingsError("--app holds a secret, and the test would tell it: let the program read it elsewhere")
    desktop = assembly.lease_desktop(settings, "cua-vnc record")
    try:
        password = desktop.password or assembly.given_password(settings)
        reached = replace(settings, server=desktop.server)
        shown, end = _shown(reached, password, assembly.given_password(settings), listen, say)
    finally:
        desktop.stop()
    ambient = Redactor(assembly.ambient_secrets(settings, password))
    steps = [
        ShownStep(_hidden(number, step.action, redactor, ambient), step.screen)
        for number, step in enumerate(shown.steps, 1)
        if step.screen is not None
    ]
    if not steps:
        say("nothing was done, so nothing is written")
        return False
    _check_pieces(steps, redactor)
    claims = tuple(wanted.expect or ask())
    wanted = replace(wanted, task=redactor.hide(wanted.task), expect=tuple(map(redactor.hide, claims)))
    write(wanted, steps, end)
    _tell(wanted, settings, steps, shown.inexact, say)
    return True


def _shown(
    settings: Settings, password: str | None, asked_for: str | None, listen: str, say: Say
) -> tuple[Demonstration, Screen]:
    """What a person does with the desktop at the settings' address, and the screen at the end of it."""
    rules = assembly.settle_rules(settings)
    with closing(
        vnc.connect(settings.server, password, settle_rules=rules, type_by=settings.typing, encoding=settings.encoding)
    ) as desktop:
        session = Session(desktop, say)
        screen_at_rest(desktop)  # what moves by itself is known from the start
        with closing(Stage(desktop.screen, desktop.name, listen, asked_for, session.hear)) as stage, _ends(session):
            say(f"do the task in a VNC viewer, then close it, or press Ctrl-C here: vncviewer {stage.address}")
            return session.shown, session.run()


@contextmanager
def _ends(session: Session) -> Iterator[None]:
    """Ctrl-C ends the session, after what was done before; once more, and nothing is kept."""
    before = signal.getsignal(signal.SIGINT)

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        session.hear(None, time.monotonic())

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- secrets ---------------------------------------------------------------------------------------------------------


def _hidden(number: int, action: Action, redactor: Redactor, ambient: Redactor) -> Action:
    """The action without secrets. Raises SettingsError where it holds one that nobody named."""
    if not isinstance(action, TypeText):
        return action
    text = redactor.hide(action.text)
    if (found := ambient.hide(text)) != text:
        name = found.partition("<secret:")[2].partition(">")[0]
        raise SettingsError(
            f"step {number} types what stands in {name!r}, so nothing is written: name it with --secret {name}"
        )
    return replace(action, text=text)


def _check_pieces(steps: Sequence[ShownStep], redactor: Redactor) -> None:
    """Raises SettingsError where a secret was typed in several goes, of which none is known as one."""
    typed = "".join(step.action.text for step in steps if isinstance(step.action, TypeText))
    if redactor.hide(typed) != typed:
        raise SettingsError("a secret was typed in several pieces, so nothing is written: type it in one go")


# --- what is said ----------------------------------------------------------------------------------------------------


def _tell(wanted: Wanted, settings: Settings, steps: Sequence[ShownStep], inexact: Sequence[int], say: Say) -> None:
    for number, step in enumerate(steps, 1):
        say(f"{number} {told_action(step.action)}")
        if number in inexact:
            say("  which was not straight, or came with a click, and is recorded as a plain drag: look at its replay")
    if not wanted.expect:
        say("no claim was given: the one that is proposed holds where the screen ends as it did now; say it better")
    say(f"wrote {wanted.out} and {wanted.key.path}, with its pictures")
    default, (width, height) = Settings(), settings.screen_size
    shown = {
        "--vnc-server": settings.server,
        "--vnc-exec": settings.exec,
        "--vnc-password-env": settings.password_env if settings.password_env != default.password_env else "",
        "--vnc-screen-size": f"{width}x{height}" if settings.screen_size != default.screen_size else "",
    }
    replay = shlex.join(["pytest", str(wanted.out), *(f"{name}={value}" for name, value in shown.items() if value)])
    started = "" if settings.app else "bring the program back to where it was at the start, then "
    say(f"{started}replay it: {replay}")
