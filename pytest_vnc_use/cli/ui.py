"""`cua-vnc ui`: the desk for the tests of this directory."""

from __future__ import annotations

import argparse
import os
import shlex

from pytest_vnc_use.errors import SettingsError

DESCRIPTION = """\
Serve a page that lists the tests, runs one, a file, what failed or all, shows the live screen of each running test with
its steps, pauses before each step, and puts the questions of --vnc-record=accept. Open the printed URL;
it works once.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    ui = commands.add_parser(
        "ui",
        help="serve a page to run and watch the tests",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ui.add_argument("path", nargs="*", metavar="PATH", help="files or directories of tests (default: as pytest finds)")
    ui.add_argument(
        "--options", default="", metavar="TEXT", help="options for pytest, such as '-n 2 --vnc-record=accept'"
    )
    ui.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1); others need TLS")
    ui.add_argument("--port", type=int, default=0, help="port (default: any free one)")
    ui.add_argument("--cert", default="", metavar="FILE", help="TLS certificate, for --host")
    ui.add_argument("--key", default="", metavar="FILE", help="key of the certificate")
    ui.set_defaults(command=_ui)


def _ui(arguments: argparse.Namespace) -> int:
    if os.environ.get("CI"):
        raise SettingsError("cua-vnc ui needs a user at a browser, but CI is set. Use pytest in CI")
    from pytest_vnc_use.ui.runner import PytestRunner
    from pytest_vnc_use.ui.server import Desk, DeskServer

    runner = PytestRunner(arguments.path, shlex.split(arguments.options))
    desk = Desk(runner)
    try:
        server = DeskServer(desk, arguments.host, arguments.port, arguments.cert, arguments.key)
        runner.connect(server.session_url, desk.session_token)
        print(f"open {server.url}", flush=True)
        runner.collect()
        server.run()
    except KeyboardInterrupt:
        print("ended")
    finally:
        runner.close()
    return 0
