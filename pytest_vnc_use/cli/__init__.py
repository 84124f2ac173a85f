"""`cua-vnc`: run a task without pytest, answer a run that waits, resume one, read policy files, and check what works.

`cua-vnc init` writes a first test into your project. `cua-vnc record` writes a test from what you do on its page.
`cua-vnc report` writes the pages of runs for a reviewer, and merges the results of several jobs.
`cua-vnc ui` serves a page to run and watch the tests.
`cua-vnc mask` excludes a region of the screen from a test's comparisons.
`cua-vnc recordings log` prints who accepted which changes of recordings.
`cua-vnc screenshots` writes the screenshots of a harness agent's run from its recording.
`cua-vnc mcp` gives a coding agent tools for tasks, tests and runs, over the Model Context Protocol.

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

The last printed line names the outcome, or `infra`, `defect` or `interrupted`, and the run directory. approve, deny and
resume use the run's claims and limits. Give its planner, policy, desktop and secrets again: a run directory may come
from another user, so none of these is read from it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from typing import Any

from pytest_vnc_use.cli import doctor, init, policy, record, recordings, report, run, screenshots, ui
from pytest_vnc_use.cli.options import (
    DESKTOP_OPTIONS,
    RUN_OPTIONS,
    add_options,
    add_secret,
    option_values,
    secrets_of,
    settings_of,
)
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.plain_text import cut, without_query
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.variables import use_named_env_file
from pytest_vnc_use.triage import MAX_ERROR, sanitize

USAGE, CLOSED_PIPE = 2, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal with few characters must not end a command in the middle
    try:
        try:
            return _run(argv)
        finally:
            if sys.stdout and not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe; nothing more can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes stdout at its end
        return CLOSED_PIPE


def _run(argv: Sequence[str] | None) -> int:
    try:
        use_named_env_file()
        arguments, unknown = (root := parser()).parse_known_args(argv)
        if "sentence" in arguments and bool(arguments.sentence) == bool(arguments.task):
            if not arguments.task and not unknown:
                root.error("the following arguments are required: TASK")
            unknown += [arguments.sentence or ""]
        if unknown:
            root.error(_unknown(unknown))
        return int(arguments.command(arguments))
    except VncUseError as exc:
        print(cut(sanitize(f"error: {exc}", hide=without_query), MAX_ERROR), file=sys.stderr)
        return USAGE


def _unknown(argv: Sequence[str]) -> str:
    """Return the error for unknown options, without their values: a terminal may be a log, and a value a password."""
    options = [arg.partition("=")[0] if arg.startswith("--") else arg[:2] for arg in argv if arg.startswith("-")]
    hint = "; a password is given by its variable: --password-env NAME" if "--password" in options else ""
    return f"unrecognized arguments: {' '.join(options) or f'{len(argv)} more than the command has'}{hint}"


class _Parser(argparse.ArgumentParser):
    """A parser that, with those of its commands, knows no abbreviated options: --password is not --password-env."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    root: argparse.ArgumentParser = _Parser(
        prog="cua-vnc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    plugin_version = f"pytest-vnc-use {version('pytest-vnc-use')}"
    root.add_argument("--version", action="version", version=plugin_version, help="Print the version")
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    for module in (run, record, report, ui, recordings, screenshots, init, policy, doctor):
        module.add(commands)
    mcp = commands.add_parser(
        "mcp",
        help="Serve a coding agent over the Model Context Protocol",
        description="Speak MCP on stdin and stdout until stdin is closed: tools to run a task or the tests, to read "
        "runs and their screenshots, and to propose a test.",
    )
    mcp.add_argument("--answer-seconds", default="300", help="Maximum seconds for a user to confirm (default: 300)")
    add_options(mcp, {**DESKTOP_OPTIONS, **RUN_OPTIONS}, needs_server=False)
    add_secret(mcp)
    mcp.set_defaults(command=_mcp)
    return root


def _mcp(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.mcp_server import serve  # its library is optional

    options = option_values(arguments, (DESKTOP_OPTIONS, RUN_OPTIONS))
    answer_within_s = read_value("max_seconds", arguments.answer_seconds, "--answer-seconds")
    serve(
        settings_of(arguments),
        {field: value for field, value in options.items() if value is not None},
        answer_within_s=answer_within_s,
        secrets=secrets_of(arguments.secret),
    )
    return 0
