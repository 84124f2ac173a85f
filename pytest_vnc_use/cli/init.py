"""`cua-vnc init`: write a first test into a project, or one more, and check what it
needs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pytest_vnc_use import clock
from pytest_vnc_use.agent import leasing
from pytest_vnc_use.cli import CTRL_C, Commands
from pytest_vnc_use.cli.doctor import Finding, diagnose
from pytest_vnc_use.cli.project import POLICY, Project
from pytest_vnc_use.cli.target import Target, read_target
from pytest_vnc_use.errors import DesktopRefused, SettingsError, VncUseError
from pytest_vnc_use.interactive import has_user
from pytest_vnc_use.plain_text import line, plain
from pytest_vnc_use.settings.layers import absolute_desktop
from pytest_vnc_use.settings.settings import LOCAL_SERVERS, Settings
from pytest_vnc_use.types.values import value_mark, value_names

DESCRIPTION = """\
Write a first test into the project in this directory: the test, its settings, entries in .gitignore and, if requested,
a policy and a workflow for GitHub. Existing files are kept and named. To add a test, run it again with another PROGRAM
or task. At a terminal, it asks for PROGRAM and --task if they are missing.
"""
EPILOG = """\
PROGRAM is one of
    mousepad                    a command, which runs on a new TigerVNC desktop
    "python app.py"             the same; a script that imports Qt runs on Qt's own VNC platform
    http://localhost:8000       a URL, which Chromium shows in full screen on a TigerVNC desktop
    "container:IMAGE COMMAND"   an image with a VNC server, and a command in it
    winbox::5900                the address of a VNC server, host::port or host:display

exit code: 0 if all is written and works, 1 if a line says FAIL, 2 for wrong usage (nothing was written), 130 for
Ctrl-C
"""
PROGRAM = """\
Which program do you test?
  a command            mousepad
  a URL                http://localhost:8000
  an image             container:IMAGE COMMAND
  a VNC server         winbox::5900
"""
TASK = "What does the test do? One sentence, such as: Type Hello into the document\n"
FAILED = 1
COLLECTS_S = 120.0
"""The time that pytest may take to collect the test."""
STARTS_S = 20.0
"""The time that the program may take to show a window."""
T = TypeVar("T")


def add(commands: Commands) -> None:
    """Register `cua-vnc init` and its options."""
    init = commands.add_parser(
        "init",
        help="Write a first test, or one more, into this directory's project",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument(
        "program", nargs="?", metavar="PROGRAM", help="Program to test; see below"
    )
    init.add_argument(
        "--vnc",
        default="",
        metavar="TARGET",
        help="Desktop, if PROGRAM does not imply it: xvnc, qt, …",
    )
    init.add_argument("--task", help="Task of the test")
    init.add_argument(
        "--ci",
        choices=("none", "github"),
        default="none",
        help="Write a workflow: none, github (default: none)",
    )
    init.add_argument(
        "--policy",
        action="store_true",
        help=f"Write {POLICY}, with rules to start from",
    )
    init.set_defaults(command=_init)


def _init(arguments: argparse.Namespace) -> int:
    try:
        directory = Path.cwd()
    except FileNotFoundError as exc:
        raise SettingsError(
            "the current directory was deleted. Change into your project"
        ) from exc
    try:
        target, task = _answers(arguments, directory)
        project = Project(directory, target, task)
        files = project.plan(ci=arguments.ci, policy=arguments.policy)
        settings = project.settings()
        for name, text in files.items():
            if text is not None:
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_bytes(text.encode())
    except OSError as exc:  # a second `init` keeps what the first one wrote
        raise SettingsError(
            f"{exc.filename!r} cannot be written: {exc.strerror}. Fix that and run it"
            " again"
        ) from exc
    except (KeyboardInterrupt, EOFError):
        print("\ninterrupted: nothing is written", file=sys.stderr)
        return CTRL_C
    failed = []
    try:
        for path, text in files.items():
            print(plain(f"{'keep' if text is None else 'write':<5}  {path}"))
        for note in project.notes():
            print(plain(f"note   {note}"))
        for finding in check(project, settings):
            print(plain(str(finding)), flush=True)
            if finding.word == "FAIL":
                failed.append(finding.about)
    except KeyboardInterrupt:
        print("interrupted; the files are written", file=sys.stderr)
        return CTRL_C
    title = "next"
    if failed:
        title = f"does not work yet: {', '.join(failed)}; fix that, then"
    if "--vnc-record" in project.next_command:
        title += " (by a model: --vnc-record=auto --vnc-planner=gemini)"
    print(f"\n{title}:")
    print(f"    {project.next_command}")
    return FAILED if failed else 0


def _answers(arguments: argparse.Namespace, directory: Path) -> tuple[Target, str]:
    """Return the program and the task; ask for a missing one at a terminal. Raises
    SettingsError.
    """
    program = arguments.program
    task = arguments.task
    values = {"PROGRAM": program, "--task": task}
    missing = [name for name, value in values.items() if value is None]
    if missing and not has_user(sys.stdin):
        example = 'cua-vnc init mousepad --task "Type Hello into the document"'
        raise SettingsError(
            f"no user at a terminal to ask for {' and '.join(missing)}. Give both:"
            f" {example}"
        )
    target = _answer(
        PROGRAM, program, lambda text: read_target(text, arguments.vnc, directory)
    )
    return target, _answer(TASK, task, _parse_task)


def _answer(question: str, option: str | None, read: Callable[[str], T]) -> T:
    if option is not None:
        return read(option)
    print(question, end="")
    while True:
        try:
            return read(input("> ").strip())
        except SettingsError as exc:
            print(exc)


def _parse_task(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise SettingsError(f"the task must be text in UTF-8, got {text!r}") from exc
    if not text.strip():
        raise SettingsError(f"the task must be non-empty text, got {text!r}")
    if names := value_names(text):
        mark = value_mark(names[0])
        raise SettingsError(
            f"the task must have no values, got {mark}. Write the text of one, and"
            f" replace it by {mark} in the test: docs/own-a-suite.md"
        )
    return text.strip()


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """Yield what works and what does not; start the program only if nothing else
    fails.
    """
    can_start = True
    for finding in (
        *_check_server(project, settings),
        *diagnose(settings, typing=False, only_asked=True),
    ):
        can_start = can_start and finding.word != "FAIL"
        yield finding
    if can_start and settings.server in LOCAL_SERVERS and project.target.app:
        started = replace(settings, app=project.target.app, start_seconds=STARTS_S)
        yield _start(absolute_desktop(started, project.directory))
    yield _collect(project.test.as_posix(), project.directory)


def _check_server(project: Project, settings: Settings) -> Iterator[Finding]:
    """Check that the desktop which the project has set already can show the
    program.
    """
    kept = settings.server
    target = project.target
    if kept == "qt" and target.kind != "qt":
        text = (
            f"shows Qt programs only; set vnc_server = {target.server}, or pass"
            " --vnc qt if the program uses Qt"
        )
        yield Finding(
            "FAIL",
            "vnc_server",
            f"the project has vnc_server = {kept!r}, which {text}",
        )
    elif target.app and leasing.is_external(settings) and not settings.exec:
        text = (
            "starts no program; set vnc_exec to how a command runs there, or"
            f" vnc_server = {target.server}"
        )
        yield Finding(
            "FAIL",
            "vnc_server",
            f"the project has vnc_server = {kept!r}, a running desktop, which {text}",
        )


def _start(settings: Settings) -> Finding:
    """Start the program as the test will, and check that it shows something."""
    started_at = clock.monotonic()
    try:
        leasing.lease_desktop(settings).stop()
    except DesktopRefused as exc:  # a slow program may still come
        return Finding("--", "start", line(str(exc)))
    except VncUseError as exc:
        return Finding("FAIL", "start", line(str(exc)))
    return Finding(
        "ok",
        "start",
        "the program was started, shown and ended in"
        f" {clock.monotonic() - started_at:.1f} s",
    )


def _collect(test: str, directory: Path) -> Finding:
    """Check that a plain run of pytest collects the test, and all others, and leave
    nothing behind.
    """
    with TemporaryDirectory() as cache:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "--verbosity=-1",
            "-o",
            f"cache_dir={cache}",
        ]
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COLLECTS_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Finding(
                "FAIL",
                "test",
                f"python -m pytest has not collected the tests within {COLLECTS_S:g} s",
            )
    lines = [text for text in (done.stdout + done.stderr).splitlines() if text.strip()]
    is_found = any(text.startswith(f"{test}::") for text in lines)
    reason = next(
        (text for text in lines if text.startswith("E ")),
        next(reversed(lines), "no output"),
    ).strip()
    if done.returncode == 0 and is_found:
        return Finding("ok", "test", f"pytest finds {test}")
    if is_found:
        # the next command names this one file
        errors = [text for text in lines if text.startswith("ERROR ")]
        problem = "; ".join([*errors[:1], reason])
        return Finding(
            "--", "test", f"pytest finds {test}, but not all other tests: {problem}"
        )
    return Finding(
        "FAIL", "test", f"python -m pytest does not collect {test}: {reason}"
    )
