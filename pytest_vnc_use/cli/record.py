"""The arguments of `cua-vnc record`, and its exit code."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from pytest_vnc_use.agent import build
from pytest_vnc_use.cli.options import add_options
from pytest_vnc_use.errors import InfraError
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.triage import sanitize

OPTIONS = {
    "--vnc": "server",
    "--app": "app",
    "--password-env": "password_env",
    "--exec": "exec",
    "--cdp": "cdp",
    "--elements": "elements",
}
ABOUT = {
    "server": "the VNC desktop: host::port, host:display or a unix socket; or xvnc, container:IMAGE, or qt with --app",
    "app": "command line of the program to start on the desktop; the test starts it too",
    "cdp": "Chrome's DevTools on the desktop (host:port): the recording then names what you clicked",
    "elements": "on: the recording names what you clicked, from the accessibility tree (see vnc_elements)",
    "password_env": "environment variable that holds the VNC password, which your viewer is asked for too",
}
DESCRIPTION = """\
Connect to a VNC desktop and let you do the task there, in any VNC viewer, through the address that is printed. When
you close the viewer, or press Ctrl-C, a test is written, with a recording that replays your actions without a model.

Keys become text; presses and moves become clicks and drags. Each action begins once the screen is stable, so work
slowly. Your actions move the pointer on the desktop; it also moves once it has rested in a place for half a second.
Such a rest is recorded only if you use what it made appear. The clipboard is not shared.
"""
EXIT_CODES = """\
exit code: 0 if a test was written, 1 if nothing was done, 2 for wrong usage, 9 if the desktop could not be
used, 130 for Ctrl-C pressed twice
"""
NOTHING_DONE, INFRA, CTRL_C = 1, 9, 130


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    record = commands.add_parser(
        "record",
        help="watch you do a task in a VNC viewer, and write a test of it with its recording",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument("--task", required=True, help="the task that you will do, as a sentence")
    record.add_argument("--out", required=True, metavar="TEST.py", help="the test to write; it must not exist")
    record.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="CLAIM",
        help="what the screen shows at the end; repeatable; without it you are asked at the terminal",
    )
    record.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help="environment variable whose value you will type: only its name is written; repeatable",
    )
    record.add_argument(
        "--listen",
        default="localhost::0",
        metavar="HOST::PORT",
        help="where your viewer connects to (default: any free port of localhost; elsewhere only with a password)",
    )
    add_options(record, OPTIONS, ABOUT)
    record.set_defaults(command=_record)


def _record(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.demonstrate.codegen import CodegenRequest
    from pytest_vnc_use.demonstrate.demonstrate import demonstrate

    settings = build.settings_of({field: getattr(arguments, field) for field in OPTIONS.values()})
    names = tuple(dict.fromkeys(arguments.secret))
    request = CodegenRequest(arguments.task, Path(arguments.out), tuple(arguments.expect), names, settings.app)
    try:
        done = demonstrate(request, settings, arguments.listen, partial(print, flush=True), _ask)
    except InfraError as exc:
        print(sanitize(f"infra: {type(exc).__name__}: {exc}; nothing is written", hide=without_query), file=sys.stderr)
        return INFRA
    except KeyboardInterrupt:
        print("interrupted: nothing is written", file=sys.stderr)
        return CTRL_C
    return 0 if done else NOTHING_DONE


def _ask() -> list[str]:
    """Return claims that the person at the terminal types; none if there is no terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        return []
    print("what does the screen show now that it must show each time? a sentence a line, an empty line ends")
    claims: list[str] = []
    try:
        while claim := input("> ").strip():
            claims.append(claim)
    except EOFError:  # Ctrl-D
        pass
    return claims
