"""`cua-vnc`: run a task without pytest, answer a run that waits, resume one, read
policy files, and check what works.

`cua-vnc init` writes a first test into your project.
`cua-vnc record` writes a test from what you do on its page.
`cua-vnc report` writes the pages of runs, and merges the results of several jobs.
`cua-vnc ui` serves a page to run and watch the tests.
`cua-vnc mask` excludes a region of the screen from a test's comparisons.
`cua-vnc recordings log` prints who accepted which changes of recordings.
`cua-vnc screenshots` writes the screenshots of a harness agent's run.
`cua-vnc mcp` gives a coding agent tools, over the Model Context Protocol.

Exit codes of run, approve, deny, resume and reenact:

    0   done, and every --expect claim holds
    1   done, but a claim fails, or the judge is unsure
    2   wrong usage: an option, a setting or a policy file
    3   gave_up                 4   step_limit or time_limit
    5   denied                  6   blocked
    7   waiting_for_approval    8   budget
    9   infra: the desktop, the model or a custom planner could not be used
    70  a defect of this program
    130 Ctrl-C

The last printed line names the outcome, or `infra`, `defect` or `interrupted`, and the
run directory. approve, deny and resume use the run's settings, claims and limits;
options replace settings. They read its secrets again, by default from variables of the
same names. A run directory that was copied, or belongs to another user, gives no
settings: then give its desktop, planner, policy and secrets again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from typing import Any, Protocol

from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.plain_text import cut, without_query
from pytest_vnc_use.settings.variables import use_named_env_file
from pytest_vnc_use.triage import MAX_ERROR, sanitize

USAGE = 2
CTRL_C = 130
CLOSED_PIPE = 141
_COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "approve", "deny", "resume", "reenact"),
    "record": ("record",),
    "report": ("report",),
    "ui": ("ui",),
    "recordings": ("mask", "recordings"),
    "screenshots": ("screenshots",),
    "init": ("init",),
    "policy": ("policy",),
    "doctor": ("doctor",),
    "mcp": ("mcp",),
}
"""The commands of each module here."""


class Commands(Protocol):
    """The subparsers of argparse, whose class has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command, and return its parser."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # a terminal with few characters must not end a command in the middle
            stream.reconfigure(errors="replace")
    try:
        try:
            return _run(argv)
        finally:
            if sys.stdout and not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        # the reader, such as `head`, has closed the pipe; nothing more can be printed
        # the interpreter flushes stdout at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE


def _run(argv: Sequence[str] | None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    try:
        use_named_env_file()
        root = parser(argv[0] if argv else "")
        arguments, unknown = root.parse_known_args(argv)
        if "sentence" in arguments and bool(arguments.sentence) == bool(arguments.task):
            if not arguments.task and not unknown:
                root.error("the following arguments are required: TASK")
            unknown += [arguments.sentence or ""]
        if unknown:
            root.error(_unknown(unknown))
        return int(arguments.command(arguments))
    except VncUseError as exc:
        print(
            cut(sanitize(f"error: {exc}", hide=without_query), MAX_ERROR),
            file=sys.stderr,
        )
        return USAGE


def _unknown(argv: Sequence[str]) -> str:
    """Return the error for unknown options, without their values: a terminal may be a
    log, and a value a password.
    """
    options = []
    for arg in argv:
        if arg.startswith("--"):
            options.append(arg.partition("=")[0])
        elif arg.startswith("-"):
            options.append(arg[:2])
    shown = " ".join(options) or f"{len(argv)} more than the command has"
    if "--password" in options:
        shown += "; a password is given by its variable: --password-env NAME"
    return f"unrecognized arguments: {shown}"


class _Parser(argparse.ArgumentParser):
    """A parser without abbreviated options, also in its commands: --password is not
    --password-env.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)


def parser(command: str = "") -> argparse.ArgumentParser:
    """Return the parser of one command, or of all of them. Importing all takes a
    second.
    """
    root: argparse.ArgumentParser = _Parser(
        prog="cua-vnc",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plugin_version = f"pytest-vnc-use {version('pytest-vnc-use')}"
    root.add_argument(
        "--version", action="version", version=plugin_version, help="Print the version"
    )
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    modules = [name for name, names in _COMMANDS.items() if command in names]
    for module in modules or _COMMANDS:
        import_module(f"pytest_vnc_use.cli.{module}").add(commands)
    return root
