"""`cua-vnc mcp`: serve a coding agent. The tools are in mcp_server.py, whose library is
optional.
"""

from __future__ import annotations

import argparse

from pytest_vnc_use.cli import Commands
from pytest_vnc_use.cli.options import (
    RUN_OPTIONS,
    add_options,
    add_secret,
    option_values,
    secrets_of,
    settings_of,
)
from pytest_vnc_use.settings.layers import read_value


def add(commands: Commands) -> None:
    """Register `cua-vnc mcp` and its options."""
    mcp = commands.add_parser(
        "mcp",
        help="Serve a coding agent over the Model Context Protocol",
        description=(
            "Speak MCP on stdin and stdout until stdin is closed: tools to run a task"
            " or the tests, to read runs and their screenshots, and to propose a test."
        ),
    )
    mcp.add_argument(
        "--answer-seconds",
        default="300",
        help="Maximum seconds for a user to confirm (default: 300)",
    )
    add_options(mcp, RUN_OPTIONS, needs_server=False)
    add_secret(mcp)
    mcp.set_defaults(command=_mcp)


def _mcp(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.mcp_server import serve

    options = option_values(arguments, RUN_OPTIONS)
    answer_within_s = read_value(
        "max_seconds", arguments.answer_seconds, "--answer-seconds"
    )
    serve(
        settings_of(arguments),
        {field: value for field, value in options.items() if value is not None},
        answer_within_s=answer_within_s,
        secrets=secrets_of(arguments.secret),
    )
    return 0
