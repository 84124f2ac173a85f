"""`cua-vnc ui`: the desk for the tests of this directory."""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.cli import CTRL_C, Commands
from pytest_vnc_use.cli.ini_file import IniFile
from pytest_vnc_use.cli.options import settings_of
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.interactive import check_user
from pytest_vnc_use.report.results import RESULTS, read_results
from pytest_vnc_use.settings.settings import Settings, variable_of
from pytest_vnc_use.settings.variables import VARIABLES

if TYPE_CHECKING:
    from pytest_vnc_use.ui.approve import WaitingRuns
    from pytest_vnc_use.ui.runner import PytestRunner
    from pytest_vnc_use.ui.server import Desk, DeskServer

DESCRIPTION = """\
Serve a page that lists the tests and runs one test, a file, the failed tests or all. It shows the live screen and the
steps of each running test, pauses before each step, and asks the questions of --vnc-record=accept. With
--approve-options it also shows the actions of runs that wait for approval; with --review the drifts of a CI job, in
groups, and what a model proposes, or what a commit changes in recordings. Open the printed URL; it works once.
"""


def add(commands: Commands) -> None:
    """Register `cua-vnc ui` and its options."""
    ui = commands.add_parser(
        "ui",
        help="Serve a page to run and watch the tests",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ui.add_argument(
        "path",
        nargs="*",
        metavar="PATH",
        help="Test files or directories (default: as pytest finds)",
    )
    ui.add_argument(
        "--options",
        default="",
        metavar="TEXT",
        help="Options for pytest: --options='--vnc-record=accept'",
    )
    ui.add_argument(
        "--approve-options",
        metavar="TEXT",
        help=(
            "Options of `cua-vnc approve` for waiting runs, such as '--policy"
            " policy.toml'"
        ),
    )
    ui.add_argument(
        "--review",
        nargs="?",
        const="",
        metavar="RUNS|REVISIONS",
        help=(
            "Run directories of a CI job, or a zip of them: accept drifts and heals. Or"
            " what commits change: main..HEAD (default: the working tree)"
        ),
    )
    ui.add_argument(
        "--host",
        default="127.0.0.1",
        help="Address to listen on (default: 127.0.0.1); others need TLS",
    )
    ui.add_argument("--port", type=int, default=0, help="Port (default: any free one)")
    ui.add_argument(
        "--cert", default="", metavar="FILE", help="TLS certificate, for --host"
    )
    ui.add_argument(
        "--key", default="", metavar="FILE", help="Private key of the certificate"
    )
    ui.set_defaults(command=_ui)


def _last_results() -> dict[str, dict[str, Any]]:
    """Return the results of the last session in this directory, by node ID; none
    without a file that can be read.
    """
    in_file = IniFile.find(Path.cwd()).options.get("vnc_runs_dir")
    runs_dir = VARIABLES.get(variable_of("runs_dir")) or in_file or Settings().runs_dir
    runs = Path(str(runs_dir))
    try:
        tests = read_results(runs / RESULTS).tests
    except RunDirectoryError:
        return {}
    return {
        test.test: {
            "state": test.result,
            "triage": test.triage or "",
            "message": test.message,
        }
        for test in tests
    }


def _waiting_runs(options: str) -> WaitingRuns:
    """Return the runs that wait in the directory that the options of `cua-vnc approve`
    name.
    """
    from pytest_vnc_use.cli import parser
    from pytest_vnc_use.ui.approve import WaitingRuns

    argv = shlex.split(options)
    settings = settings_of(parser("approve").parse_args(["approve", "RUN", *argv]))
    return WaitingRuns(Path(settings.runs_dir), argv, settings.policy)


def _handle_signals() -> None:
    """End the desk by SIGTERM, or as its terminal is closed, as by Ctrl-C. Its sessions
    are none of the terminal's, so they are interrupted by the desk alone.
    """
    for name in ("SIGHUP", "SIGTERM"):
        ending = getattr(signal, name, None)  # Windows has no SIGHUP
        # nohup ignores it
        if ending and signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, signal.default_int_handler)


def _ui(arguments: argparse.Namespace) -> int:
    check_user("cua-vnc ui needs", "Use pytest in CI")
    from pytest_vnc_use.ui.commits import CommitReview
    from pytest_vnc_use.ui.review import CiReview
    from pytest_vnc_use.ui.runner import PytestRunner
    from pytest_vnc_use.ui.server import Desk

    waiting: WaitingRuns | None = None
    if arguments.approve_options is not None:
        waiting = _waiting_runs(arguments.approve_options)
    review: CiReview | CommitReview | None = None
    if arguments.review and Path(arguments.review).exists():
        review = CiReview(Path(arguments.review))
    elif arguments.review is not None:
        review = CommitReview(arguments.review)
    runner = PytestRunner(arguments.path, shlex.split(arguments.options))
    desk = Desk(runner)
    desk.last_results = _last_results()
    desk.waiting_runs = waiting
    desk.review = review
    address = arguments.host, arguments.port, arguments.cert, arguments.key

    def begin(server: DeskServer) -> None:
        print(f"open {server.url}", flush=True)
        runner.collect()

    try:
        return _serve(desk, runner, begin, *address)
    finally:
        if desk.waiting_runs:
            desk.waiting_runs.close()
        if desk.review:
            desk.review.close()


def serve_edit(test: str, gate: str, options: Sequence[str]) -> int:
    """Serve the page on which a user acts at a gate of a test that is replayed, until
    that ends and the page is closed; return pytest's exit code.
    """
    check_user("cua-vnc recordings edit needs", "Edit where you have a browser")
    from pytest_vnc_use.ui.runner import PytestRunner
    from pytest_vnc_use.ui.server import Desk

    runner = PytestRunner([test], options)
    desk = Desk(runner)

    def begin(server: DeskServer) -> None:
        print(f"act at {server.url}", flush=True)
        server.end_when_idle()
        desk.edit(test, gate)

    return _serve(desk, runner, begin) or runner.exit_code


def _serve(
    desk: Desk,
    runner: PytestRunner,
    begin: Callable[[DeskServer], None],
    *address: Any,
) -> int:
    """Serve a desk at an address, which is that of `DeskServer`, until it ends; return
    the exit code. `begin` is called once sessions can connect.
    """
    from pytest_vnc_use.ui.server import DeskServer

    try:
        _handle_signals()
        server = DeskServer(desk, *address)
        runner.connect(server.session_url, desk.session_token)
        begin(server)
        server.run()
    except KeyboardInterrupt:
        print("ended")
        return CTRL_C
    finally:
        runner.close()
    return 0
