"""Demonstration of a task in a VNC viewer: it becomes a new test with its recording, or the recording of a test."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.act import ElementsOf, no_elements
from pytest_vnc_use.backends.redaction import RedactingController
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.demonstrate.codegen import CodegenRequest, write
from pytest_vnc_use.demonstrate.viewer_session import Say, Showing, ViewerSession
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.recordings.format import RecordedRun
from pytest_vnc_use.recordings.gates import machine_of
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.settings.settings import Settings, argument
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types.protocols import Controller

_SOONER_S = 1.0
"""The time before a run's limit at which the viewer is disconnected.

So nothing is done or printed after the limit.
"""


@dataclass(frozen=True)
class ViewerTasks:
    """A `Show` (see recordings/manual.py): a person does a test's tasks, each on its run's connection.

    `secrets` are those that the test declares; `password` is the desktop's. `elements_of` finds the elements of an
    action.
    """

    settings: Settings
    secrets: Mapping[str, str]
    password: str | None
    say: Say
    elements_of: ElementsOf = no_elements

    def __call__(self, task: str, controller: Controller, limit_s: float) -> RecordedRun:
        """Let a person do the task in a viewer within `limit_s` seconds; return what they did."""
        desktop, deadline = build.vnc_behind(controller), Deadline(limit_s)

        def say(line: str) -> None:
            if deadline.remaining_s:  # later the run continues, and others write to the terminal
                self.say(line)

        showing = Showing(
            say,
            f"\n{plain(task)}\ndo the task in a VNC viewer within {limit_s:.0f} s, then close it",
            Redactor(self.secrets),
            Redactor(build.ambient_secrets(self.settings, self.password)),
            password=build.given_password(self.settings),
            elements_of=self.elements_of,
        )
        eyes = controller.over(desktop) if isinstance(controller, RedactingController) else None
        return showing.of(desktop, limit_s - _SOONER_S, eyes=eyes)


def demonstrate(
    request: CodegenRequest, settings: Settings, listen: str, say: Say, ask: Callable[[], Sequence[str]]
) -> bool:
    """Let a person do a task in a viewer that connects to `listen`, and write the test.

    Return False if nothing was done. `ask` asks for claims if `request` has none. Raises SettingsError, DesktopError,
    RunDirectoryError.
    """
    request.check()
    redactor = Redactor({name: VARIABLES.get(name, "") for name in request.secrets})
    if redactor.hide(settings.app) != settings.app:
        raise SettingsError(
            "--app contains a secret, and the test would contain it too: let the program read it elsewhere"
        )
    demonstration, machine = _demonstration(request, settings, redactor, listen, say)
    if not demonstration.steps:
        say("nothing was done, so nothing is written")
        return False
    claims = tuple(request.expect or ask())
    request = replace(request, task=redactor.hide(request.task), expect=tuple(map(redactor.hide, claims)))
    request = replace(request, redacts=not settings.show_secrets, machine=machine)
    write(request, demonstration)
    _tell(request, settings, say)
    return True


def _demonstration(
    request: CodegenRequest, settings: Settings, redactor: Redactor, listen: str, say: Say
) -> tuple[RecordedRun, Mapping[str, str]]:
    """Return a person's demonstration on the desktop that the settings name, and what draws there."""
    asked_for = build.given_password(settings)
    desktop = build.lease_desktop(settings, "cua-vnc record", request.key.test)
    try:
        password = desktop.password or asked_for
        ambient = Redactor(build.ambient_secrets(settings, password))
        invitation = "do the task in a VNC viewer, then close it, or press Ctrl-C here"
        ask = build.elements_asker(settings, desktop)
        showing = Showing(say, invitation, redactor, ambient, listen, asked_for, ask)
        there = build.settings_at(settings, desktop.server)
        with closing(build.connect_to(there, there.server, password)) as eyes:
            hide, machine = request.secrets and not settings.show_secrets, machine_of(desktop, settings)
            hidden = RedactingController(eyes, redactor.hide) if hide else None
            return showing.of(eyes, until=_ends, eyes=hidden), machine
    finally:
        desktop.stop()


@contextmanager
def _ends(session: ViewerSession) -> Iterator[None]:
    """End the session at Ctrl-C, after everything that was done before it; at a second Ctrl-C, keep nothing."""
    before = signal.getsignal(signal.SIGINT)

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        session.hear(None, clock.monotonic())

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _tell(request: CodegenRequest, settings: Settings, say: Say) -> None:
    if not request.expect:
        say("no claim was given, so one is proposed: the screen ends as it did now. Write a better one")
    say(f"wrote {request.out} and {request.key.path}, with its images")
    default, (width, height) = Settings(), settings.screen_size
    options = {
        "server": without_query(settings.server),
        "exec": settings.exec,
        "password_env": settings.password_env if settings.password_env != default.password_env else "",
        "screen_size": f"{width}x{height}" if settings.screen_size != default.screen_size else "",
    }
    replay = shlex.join(
        ["pytest", str(request.out), *(argument(name, value) for name, value in options.items() if value)]
    )
    started = "" if settings.app else "bring the program back to where it was at the start, then "
    say(f"{started}replay it: {replay}")
