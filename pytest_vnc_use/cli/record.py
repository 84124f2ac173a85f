"""`cua-vnc record`: a user does a task on the page, and a test is written with its
recording.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vnc_use.agent import build, credentials, leasing
from pytest_vnc_use.cli import CTRL_C, Commands
from pytest_vnc_use.cli.ini_file import IniFile
from pytest_vnc_use.cli.options import add_options
from pytest_vnc_use.demonstrate.codegen import CodegenRequest, write
from pytest_vnc_use.errors import InfraError, SettingsError, VncUseError
from pytest_vnc_use.interactive import check_user
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.recordings.drift import machine_of
from pytest_vnc_use.recordings.format import Segment
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.settings.layers import absolute_desktop, merge
from pytest_vnc_use.settings.settings import FIELDS, Settings, argument
from pytest_vnc_use.settings.variables import VARIABLE, VARIABLES, use_env_file
from pytest_vnc_use.triage import sanitize

if TYPE_CHECKING:
    from pytest_vnc_use.ui.link import Link
    from pytest_vnc_use.ui.page_user import PageUser

OPTIONS = {
    "--vnc": "server",
    "--app": "app",
    "--password-env": "password_env",
    "--exec": "exec",
    "--cdp": "cdp",
    "--elements": "elements",
}
ABOUT = {
    "server": (
        "VNC desktop: host::port, unix socket, xvnc, container:IMAGE, qt (default: the"
        " project's vnc_server)"
    ),
    "app": "Command of the program to start on the desktop, for the test too",
    "cdp": (
        "Chrome's DevTools on the desktop, host:port, to name in the recording what you"
        " click"
    ),
    "elements": (
        "Name what you click in the recording, from the accessibility tree: on (see"
        " vnc_elements)"
    ),
    "password_env": "Environment variable that holds the VNC password",
}
DESCRIPTION = """\
Record a test: do its task on a VNC desktop, on a page in your browser. When you press Done, the test is written, with
a recording that replays your actions without a model. Open the printed URL; it works once. Options that you omit are
taken from the project's pytest configuration. Nothing is rehearsed: run the printed command afterwards.

Keys become text; presses and moves become clicks and drags. Each action starts once the screen is stable, so work
slowly. The desktop's pointer moves with your actions, and to a point where your pointer rests for half a second. A rest
is recorded only if you use what it made appear. The clipboard is not shared.
"""
EXIT_CODES = """\
exit code: 0 if a test was written, 1 if nothing was done or it was discarded, 2 for wrong usage, 9 if the desktop
could not be used, 130 for Ctrl-C
"""
NOTHING_DONE = 1
INFRA = 9


def add(commands: Commands) -> None:
    """Register `cua-vnc record` and its options."""
    record = commands.add_parser(
        "record",
        help="Write a test from a task that you do on a page",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument("--task", required=True, help="Task that you will do")
    record.add_argument(
        "--out",
        required=True,
        metavar="TEST.py",
        help="Test file to write; it must not exist",
    )
    record.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="CLAIM",
        help="Claim about the end; repeatable (default: the page asks for claims)",
    )
    record.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help="Environment variable whose value you will type; repeatable",
    )
    add_options(record, OPTIONS, ABOUT, needs_server=False)
    record.set_defaults(command=_record)


def _record(arguments: argparse.Namespace) -> int:
    check_user("cua-vnc record needs", "Record where you have a browser")
    ini = IniFile.find(Path.cwd()).options
    if not os.environ.get(VARIABLE):  # else that file has been read
        use_env_file(ini.get("vnc_env_file"), Path.cwd())
    project = {name: ini[f"vnc_{name}"] for name in FIELDS if f"vnc_{name}" in ini}
    values = {field: getattr(arguments, field) for field in OPTIONS.values()}
    settings = build.settings_of(values, (project, _ini_name))
    if not settings.server:
        raise SettingsError(
            "cua-vnc record needs a desktop. Give --vnc, or set vnc_server in pytest's"
            " configuration"
        )
    # A test gets its project's automatically.
    app = "" if settings.app == project.get("app") else settings.app
    names = tuple(dict.fromkeys(arguments.secret))
    request = CodegenRequest(
        arguments.task, Path(arguments.out), tuple(arguments.expect), names, app
    )
    request.check()
    secrets = {name: VARIABLES.get(name, "") for name in names}
    hide = Redactor(secrets).hide
    if hide(app) != app:
        raise SettingsError(
            "--app contains a secret, which the test would contain too. Let the program"
            " read it elsewhere"
        )
    try:
        with _page(request) as (link, url):
            done, user, machine = _recorded(request, settings, secrets, link, url)
            if not isinstance(done, str) and not done.steps:
                done = "nothing was done, so nothing is written"
            if isinstance(done, str):
                print(done)
                link.finish(done)
                return NOTHING_DONE
            claims = tuple(map(hide, request.expect or user.claims))
            request = replace(
                request,
                task=hide(request.task),
                expect=claims,
                redacts=not settings.show_secrets,
            )
            write(replace(request, machine=machine, masks=user.masks), done)
            link.finish(
                f"The recording is written: {request.out} and {request.key.path}, with"
                " its images."
            )
    except InfraError as exc:
        message = f"infra: {type(exc).__name__}: {exc}; nothing is written"
        print(sanitize(message, hide=without_query), file=sys.stderr)
        return INFRA
    except KeyboardInterrupt:
        print("interrupted: nothing is written", file=sys.stderr)
        return CTRL_C
    if not claims:
        print(
            "no claim was given, so one is proposed: the screen ends as it did now."
            " Write a better one"
        )
    print(f"wrote {request.out} and {request.key.path}, with its images")
    command = _replay_command(request.out, settings, merge((project, _ini_name)))
    advice = f"replay it: {command}"
    if not settings.app:
        advice = f"bring the program back to where it was at the start, then {advice}"
    print(advice)
    return 0


def _ini_name(field: str) -> str:
    return f"ini option vnc_{field}"


@contextmanager
def _page(request: CodegenRequest) -> Iterator[tuple[Link, str]]:
    """Serve the page, and yield the connection to it and its URL.

    After an error, the page shows why nothing is written.
    """
    from pytest_vnc_use.ui.link import Link
    from pytest_vnc_use.ui.server import Desk, DeskServer

    desk = Desk()
    server = DeskServer(desk)
    threading.Thread(target=server.run, daemon=True, name="vnc-use desk").start()
    try:
        link = Link(
            server.session_url,
            desk.session_token,
            lambda: os.kill(os.getpid(), signal.SIGINT),
        )
        link.send(type="collected", tests=[request.key.test], recorded=[])
        try:
            yield link, server.url
        except VncUseError as exc:
            link.finish(sanitize(f"Nothing is written: {exc}", hide=without_query))
            raise
        finally:
            link.close()
    finally:
        server.end()


def _recorded(
    request: CodegenRequest,
    settings: Settings,
    secrets: Mapping[str, str],
    link: Link,
    url: str,
) -> tuple[Segment | str, PageUser, Mapping[str, str]]:
    """Return what the user did on the desktop of the settings (or why there is
    nothing), the user, and the software that draws on that desktop.

    Raises DesktopError, RunDirectoryError.
    """
    # These bring twisted, and need an optional library.
    from pytest_vnc_use.backends.typed_secrets import RedactingController
    from pytest_vnc_use.ui.link import Watcher
    from pytest_vnc_use.ui.page_user import PageUser

    test = request.key.test
    hide = Redactor(secrets).hide
    desktop = leasing.lease_desktop(
        absolute_desktop(settings, Path.cwd()), "cua-vnc record", test
    )
    try:
        password = desktop.password or credentials.desktop_password(settings)
        at_desktop = leasing.settings_at(settings, desktop.server)
        with closing(
            leasing.connect_to(at_desktop, at_desktop.server, password)
        ) as controller:
            user = PageUser(
                link,
                test,
                secrets=secrets,
                ambient=Redactor(credentials.ambient_secrets(settings, password)),
                elements_of=build.elements_asker(settings, desktop),
                asks_claims=not request.expect,
            )
            watcher = Watcher(link, test, hide)
            watcher.start()
            print(f"do the task at {url}", flush=True)
            hides = bool(secrets) and not settings.show_secrets
            shown = RedactingController(controller, hide) if hides else controller
            try:
                done = user.record(request.task, request.expect, shown, watcher)
            finally:
                watcher.close()
            return done, user, machine_of(desktop, settings)
    finally:
        desktop.stop()


def _replay_command(test: Path, settings: Settings, project: Settings) -> str:
    """Return the command that replays the test, with options for the settings that
    differ from the project's.
    """
    values = {
        "server": without_query(settings.server),
        "exec": settings.exec,
        "password_env": settings.password_env,
        "screen_size": "x".join(map(str, settings.screen_size)),
    }
    options = [
        argument(name, text)
        for name, text in values.items()
        if getattr(settings, name) != getattr(project, name)
    ]
    return shlex.join(["pytest", str(test), *options])
