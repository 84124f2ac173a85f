"""A task that a person shows in a VNC viewer becomes a test with its recording, or the recording of a test."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from pytest_vnc_use import assembly
from pytest_vnc_use.backends import vnc
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.demonstrate.codegen import CodegenRequest, write
from pytest_vnc_use.demonstrate.viewer_session import Say, Showing, ViewerSession
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.demonstrated import Shown
from pytest_vnc_use.runs.logger import Redactor
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.settings.settings import Settings, argument
from pytest_vnc_use.types.protocols import Controller

_SOONER_S = 1.0
"""So much before a run's limit the viewer is sent away, so that nothing is done or said after it."""


# --- a test that exists ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownTasks:
    """Has the tasks of a test shown, each on the connection that its run has: a `Show` of recordings/demonstrated.py.

    `secrets` are those that the test declares; `password` is the desktop's.
    """

    settings: Settings
    secrets: Mapping[str, str]
    password: str | None
    say: Say

    def __call__(self, task: str, controller: Controller, limit_s: float) -> Shown:
        desktop, deadline = assembly.vnc_behind(controller), Deadline(limit_s)

        def say(line: str) -> None:
            if deadline.remaining_s:  # else the run has gone on, and the terminal is another's
                self.say(line)

        showing = Showing(
            say,
            f"\n{plain(task)}\ndo the task in a VNC viewer within {limit_s:.0f} s, then close it",
            Redactor(self.secrets),
            Redactor(assembly.ambient_secrets(self.settings, self.password)),
            password=assembly.given_password(self.settings),
        )
        return showing.of(desktop, limit_s - _SOONER_S)


# --- a test that is written ------------------------------------------------------------------------------------------


def demonstrate(
    wanted: CodegenRequest, settings: Settings, listen: str, say: Say, ask: Callable[[], Sequence[str]]
) -> bool:
    """Have a task shown through a viewer that connects to `listen`, and write the test; False where nothing was done.

    `ask` is asked for claims where none were given. Raises SettingsError, DesktopError, RunFolderError.
    """
    wanted.check()
    redactor = Redactor({name: os.environ.get(name, "") for name in wanted.secrets})
    if redactor.hide(settings.app) != settings.app:
        raise SettingsError("--app holds a secret, and the test would tell it: let the program read it elsewhere")
    shown = _shown(settings, redactor, listen, say)
    if not shown.steps:
        say("nothing was done, so nothing is written")
        return False
    claims = tuple(wanted.expect or ask())
    wanted = replace(wanted, task=redactor.hide(wanted.task), expect=tuple(map(redactor.hide, claims)))
    write(wanted, shown)
    _tell(wanted, settings, say)
    return True


def _shown(settings: Settings, redactor: Redactor, listen: str, say: Say) -> Shown:
    """What a person does with the desktop that the settings name."""
    asked_for = assembly.given_password(settings)
    desktop = assembly.lease_desktop(settings, "cua-vnc record")
    try:
        password = desktop.password or asked_for
        ambient = Redactor(assembly.ambient_secrets(settings, password))
        invitation = "do the task in a VNC viewer, then close it, or press Ctrl-C here"
        showing = Showing(say, invitation, redactor, ambient, listen, asked_for)
        rules, by = assembly.settle_rules(settings), settings.typing
        with closing(
            vnc.connect(desktop.server, password, settle_rules=rules, type_by=by, encoding=settings.encoding)
        ) as eyes:
            return showing.of(eyes, until=_ends)
    finally:
        desktop.stop()


@contextmanager
def _ends(session: ViewerSession) -> Iterator[None]:
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


def _tell(wanted: CodegenRequest, settings: Settings, say: Say) -> None:
    if not wanted.expect:
        say("no claim was given: the one that is proposed holds where the screen ends as it did now; say it better")
    say(f"wrote {wanted.out} and {wanted.key.path}, with its pictures")
    default, (width, height) = Settings(), settings.screen_size
    shown = {
        "server": settings.server,
        "exec": settings.exec,
        "password_env": settings.password_env if settings.password_env != default.password_env else "",
        "screen_size": f"{width}x{height}" if settings.screen_size != default.screen_size else "",
    }
    replay = shlex.join(["pytest", str(wanted.out), *(argument(name, value) for name, value in shown.items() if value)])
    started = "" if settings.app else "bring the program back to where it was at the start, then "
    say(f"{started}replay it: {replay}")
