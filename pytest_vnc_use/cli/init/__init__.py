"""`cua-vnc init`: asks at most four questions, writes a first test, and checks what it needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plain_text import plain

if TYPE_CHECKING:
    from pytest_vnc_use.cli.finding import Finding
    from pytest_vnc_use.cli.init.project import Plan
    from pytest_vnc_use.cli.init.questions import Answers
    from pytest_vnc_use.settings.settings import Settings

DESCRIPTION = """\
Write a first test into the project in this folder: its settings, the test, a policy, what git ignores, and a CI file.
Nothing is overwritten: existing files are kept and named. Missing answers are asked for. Without a terminal,
PROGRAM and --task must be given; --record is then hand, and --ci none.
"""
EXIT_CODES = """\
PROGRAM is one of
    mousepad                    a command: a desktop of TigerVNC is started for it
    "python app.py"             the same; a script that imports Qt is shown on Qt's own VNC platform
    http://localhost:8000       a web address: Chromium shows it, on the whole screen of a TigerVNC desktop
    "container:IMAGE COMMAND"   an image with a VNC server, and a command in it
    winbox::5900                the address of a VNC server, host::port or host:display

exit code: 0 if all is written and works, 1 if a line says FAIL, 2 for wrong usage, 130 for Ctrl-C; after 2
nothing was written
"""
FAILED, CTRL_C = 1, 130


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    init = commands.add_parser(
        "init",
        help="write a first test into the project in this folder",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument("program", nargs="?", metavar="PROGRAM", help="the program to test; see below")
    init.add_argument(
        "--vnc", default="", metavar="WHERE", help="the desktop for a command, if not what PROGRAM says: xvnc, qt, …"
    )
    init.add_argument("--task", help="what the first test does, as a sentence")
    init.add_argument(
        "--record", metavar="HOW", help="who records it: hand (you, in a VNC viewer) or model (needs a key)"
    )
    init.add_argument("--ci", metavar="WHICH", help="the CI file to write: none, github, gitlab or jenkins")
    init.add_argument("--shards", metavar="N", help="how many jobs of the CI share the replays (default: 1)")
    init.set_defaults(command=_init)


def _init(arguments: argparse.Namespace) -> int:
    from pytest_vnc_use.cli.init.questions import asked, given, with_shards

    try:
        folder = Path.cwd()
    except FileNotFoundError as exc:
        raise SettingsError("this folder is gone: change into your project, and run it again") from exc
    words = (arguments.program, arguments.vnc, arguments.task, arguments.record, arguments.ci)
    try:
        at_terminal = sys.stdin is not None and sys.stdin.isatty()
        answers = with_shards((asked if at_terminal else given)(*words, folder), arguments.shards)
    except (KeyboardInterrupt, EOFError):
        return _leave()
    return _carried_out(answers, folder)


def _carried_out(answers: Answers, folder: Path) -> int:
    from pytest_vnc_use.agent import build
    from pytest_vnc_use.cli.init.files import write_all
    from pytest_vnc_use.cli.init.project import Project, plan

    planned = plan(answers, Project.read(folder))
    starts = {"server": planned.starts.server, "app": planned.starts.app}
    planner = "gemini" if answers.record == "model" else ""
    settings = build.settings_of({**planned.kept, **starts, "planner": planner})
    try:
        write_all([file for file in planned.files if file.text is not None], folder)
    except KeyboardInterrupt:
        return _leave()
    try:
        for file in planned.files:
            print(plain(str(file)))
        for hint in planned.hints:
            print(plain(f"note   {hint}"))
        failed = _check(settings, answers, planned, folder)
    except KeyboardInterrupt:
        print("interrupted; the files are written", file=sys.stderr)
        return CTRL_C
    print()
    print(f"does not work yet: {', '.join(failed)}; mend that, then:" if failed else "next:")
    print(f"    {planned.next_command}")
    return FAILED if failed else 0


def _leave() -> int:
    print("\ninterrupted: nothing is written", file=sys.stderr)
    return CTRL_C


def _check(settings: Settings, answers: Answers, planned: Plan, folder: Path) -> list[str]:
    """Print what works of what was asked for, and return the names of what does not."""
    failed = []
    for finding in _findings(settings, answers, planned, folder):
        print(plain(str(finding)), flush=True)
        failed += [finding.about] if finding.word == "FAIL" else []
    return failed


def _findings(settings: Settings, answers: Answers, planned: Plan, folder: Path) -> Iterator[Finding]:
    """Check everything; start the program only where nothing speaks against it."""
    from pytest_vnc_use.cli.doctor import diagnose_asked
    from pytest_vnc_use.cli.init import checks

    can_start = True
    for finding in chain(
        checks.program_found(planned.starts, folder),
        checks.kept_program_fits(answers.target, planned.starts.app, planned.app_from, folder),
        checks.kept_server_fits(settings, answers.target),
        diagnose_asked(settings),
    ):
        can_start = can_start and (finding.word != "FAIL" or finding.about == "model")
        yield finding
    if can_start:
        yield from checks.program_starts(settings, folder)
    yield checks.collected(planned.test, folder, planned.chosen_by)
    yield from checks.ci_looks_there(answers.ci, folder)
