"""`cua-vnc init`: write a first test into a project, or one more, and check what it
needs.
"""

from __future__ import annotations

import argparse
import ast
import glob
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build, leasing
from pytest_vnc_use.cli import Commands
from pytest_vnc_use.cli.doctor import (
    ABOUT_LANGSMITH,
    LANGSMITH,
    LEAVE_OUT,
    QT_LIBRARIES,
    Finding,
    diagnose,
)
from pytest_vnc_use.cli.ini_file import IniFile, read_text, tomllib
from pytest_vnc_use.errors import DesktopRefused, SettingsError, VncUseError
from pytest_vnc_use.interactive import has_user
from pytest_vnc_use.plain_text import line, plain
from pytest_vnc_use.settings.layers import absolute_command, absolute_desktop
from pytest_vnc_use.settings.settings import Settings

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
POLICY = "vnc-policy.toml"
WORKFLOW = "desktop-tests"
FAILED = 1
CTRL_C = 130
COLLECTS_S = 120.0
"""The time that pytest may take to collect the test."""
STARTS_S = 20.0
"""The time that the program may take to show a window."""
ASKS_S = 10.0
"""The time that git and dpkg may take to answer."""

T = TypeVar("T")
Kind = Literal["xvnc", "qt", "container", "address", "page"]
_X_DESKTOP = ("tigervnc-standalone-server", "openbox", "fonts-dejavu-core")
PACKAGES: Mapping[Kind, tuple[str, ...]] = {
    "xvnc": _X_DESKTOP,
    "page": (*_X_DESKTOP, "chromium"),
    "qt": (*QT_LIBRARIES, "fonts-dejavu-core"),
    "container": (),
    "address": (),
}
"""The Debian packages of each kind of desktop."""
_ABOUT_SERVER: Mapping[Kind, str] = {
    "container": (
        "each test gets its own container; the image has a VNC server on port 5901"
    ),
    "address": (
        "the VNC server of the desktop; its password is read from the variable"
        " VNC_USE_PASSWORD"
    ),
}
_ABOUT_PAGE = (
    "the browser has no sandbox, as root and in most containers it needs that: show"
    " only your own pages"
)
_ABOUT_APP = (
    "the program under test; it starts in its own directory, so write files of this"
    " project with a slash"
)
_ABOUT_HOME = (
    "# tokens of programs that are signed in; without any, comment this out and commit"
    " it"
)
_OF_PROGRAM = 'assert vnc_desktop.read_file("orders.csv") == "apples;2"'
_OF_SERVER = (
    'assert "apples;2" in open("orders.csv").read()  # or ask its server, or database'
)
_CHECKS: Mapping[Kind, str] = {"page": _OF_SERVER, "address": _OF_SERVER}
"""What reads the saved data of a program that does not run on the desktop."""
_MAX_NAME_WORDS = 8
_LITTLE_WORDS = frozenset(
    "a an the and or of to in into on onto at as by for from with that".split()
)
"""Words with which no name of a test ends."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SHOWS_PAGE = (
    "--kiosk --no-sandbox --test-type --no-first-run --disable-gpu"
    " --disable-dev-shm-usage --disable-sync --disable-background-networking"
    " --disable-component-update --disable-extensions --password-store=basic"
    " --force-device-scale-factor=1"
)
"""Options for the same pixels each time: no questions, no updates, no scale of the
machine.
"""
PREFERENCES = '{"credentials_enable_service":false}'
"""A profile's `Default/Preferences` with which a browser offers to save no password. No
option does that: with --guest it asks where to save each download, with
--enable-automation it shows a bar, and with --incognito a second command opens another
session.
"""


def browser_command(browser: str = "chromium", profile: str = "profile") -> str:
    """Return the command of a browser that shows only the page whose URL follows, with
    a new profile in the working directory.
    """
    preferences = PREFERENCES.replace('"', '\\"')
    return (
        f"sh -c 'mkdir -p {profile}/Default"
        f""" && echo "{preferences}" >{profile}/Default/Preferences"""
        f""" && exec "$@"' sh {browser} {_SHOWS_PAGE}"""
        f" --user-data-dir={profile} --remote-debugging-port=0"
    )


_HOST = r"(?:[\w.-]+|\[[0-9a-fA-F:.%]+\])"
_ADDRESS = re.compile(
    rf"(?:{_HOST}(?:::\d{{1,5}}|:\d{{1,2}})|vnc://{_HOST}(?::\d{{1,5}})?)\Z"
)
_UNCLEAR = re.compile(r"(?P<host>[\w.-]+):(?P<port>\d{3,5})(?P<path>/\S*)?\Z")
_IMPORTS_QT = re.compile(
    r"^\s*(?:import|from)\s+(PySide6|PyQt6|PySide2|PyQt5)\b", re.MULTILINE
)
_WORKERS = re.compile(r"-n.*|--numprocesses(=.*)?|-d|--dist(=.*)?")
"""Options of pytest-xdist that start workers; a recording by hand needs one process."""
_TEST = '''\
"""A test over VNC, written by `cua-vnc init`.

The task is recorded once. From then on each run replays it without a model. Where the screen has changed, the
test fails, unless a planner and a judge are set: they continue.
"""

import pytest


@pytest.mark.vnc_task({arguments})
def {name}({fixture}):
    # The screen at the end of the task is compared. Assert here what the program has saved or sent, such as:
    # {check}
    pass
'''


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
        for finding in project.check(settings):
            print(plain(str(finding)), flush=True)
            failed += [finding.about] if finding.word == "FAIL" else []
    except KeyboardInterrupt:
        print("interrupted; the files are written", file=sys.stderr)
        return CTRL_C
    failures = (
        f"does not work yet: {', '.join(failed)}; fix that, then" if failed else "next"
    )
    model = (
        " (by a model: --vnc-record=auto --vnc-planner=gemini)"
        if "--vnc-record" in project.next_command
        else ""
    )
    print(f"\n{failures}{model}:")
    print(f"    {project.next_command}")
    return FAILED if failed else 0


def _answers(arguments: argparse.Namespace, directory: Path) -> tuple[Target, str]:
    """Return the program and the task; ask for a missing one at a terminal. Raises
    SettingsError.
    """
    program = arguments.program
    task = arguments.task
    if (program is None or task is None) and not has_user(sys.stdin):
        missing = " and ".join(
            name
            for name, value in (("PROGRAM", program), ("--task", task))
            if value is None
        )
        example = 'cua-vnc init mousepad --task "Type Hello into the document"'
        raise SettingsError(
            f"no user at a terminal to ask for {missing}. Give both: {example}"
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
    return text.strip()


@dataclass(frozen=True)
class Target:
    """A program and its desktop, as settings; `page` is the URL that a browser
    shows.
    """

    kind: Kind
    server: str
    app: str = ""
    page: str = ""
    qt_binding: str = ""

    @property
    def is_local_page(self) -> bool:
        """Whether it is a page of this machine, whose server must be started before the
        tests.
        """
        return bool(re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])\b", self.page))


def read_target(program: str, where: str, directory: Path) -> Target:
    """Read PROGRAM; `where` is the desktop if it was named, else empty. Raises
    SettingsError if it is unclear.
    """
    program = program.strip()
    where = where.strip()
    if not program or not program.isprintable() or not where.isprintable():
        raise SettingsError(
            "PROGRAM must be one line of printable characters, got"
            f" {program or where!r}"
        )
    if program.startswith(("http://", "https://", "file://")):
        return _page(program, where)
    if program.startswith("container:"):
        server, _, command = program.partition(" ")
        return _on(where or server, command.strip(), directory)
    if not where and _is_server(program):
        return Target("address", program)
    if not where and (unclear := _UNCLEAR.match(program)):
        host = unclear["host"]
        port = unclear["port"]
        path = unclear["path"] or ""
        raise SettingsError(
            f"PROGRAM must be a URL, http://{host}:{port}{path}, or a VNC server's"
            f" address, {host}::{port}, got {program!r}"
        )
    return _on(
        where or ("qt" if _qt_binding(_argv(program), directory) else "xvnc"),
        program,
        directory,
    )


def _page(url: str, where: str) -> Target:
    try:
        parts = urlsplit(url)
        has_location = bool(parts.hostname or (parts.scheme == "file" and parts.path))
        has_user = "@" in parts.netloc
    except ValueError:  # such as a bracket that is not closed
        has_location = False
        has_user = False
    if has_user:
        raise SettingsError(
            "a URL must not contain a user name or a password, because project files"
            " show it. Let the task sign in with <secret:NAME>"
        )
    if " " in url or not has_location:
        raise SettingsError(
            "a URL must be like http://localhost:8000/ or file:///srv/shop.html, got"
            f" {url!r}"
        )
    if where not in ("", "xvnc"):
        raise SettingsError(
            f"a URL needs --vnc=xvnc, got --vnc={where!r}. Remove --vnc"
        )
    browser = next(filter(shutil.which, _BROWSERS), _BROWSERS[0])
    app = f"{browser_command(browser)} {shlex.quote(url)}"
    return Target("page", "xvnc", app, url)


def _on(server: str, command: str, directory: Path) -> Target:
    if server.startswith("container:") and server != "container:":
        return Target("container", server, command)
    if _is_server(server):
        return Target("address", server, command)
    if server not in ("xvnc", "qt"):
        raise SettingsError(
            "--vnc must be xvnc, qt, container:IMAGE, host::port or host:display, got"
            f" {server!r}"
        )
    # The program starts in another directory, where a file of this one needs a slash.
    argv = _argv(command)
    names = {
        arg
        for arg in argv
        if "/" not in arg and _is_kind(directory / arg, stat.S_ISREG)
    }
    paths = [
        f"./{arg}" if arg in names and not shutil.which(arg) else arg for arg in argv
    ]
    app = command if paths == argv else shlex.join(paths)
    return Target(
        "qt" if server == "qt" else "xvnc",
        server,
        app,
        qt_binding=_qt_binding(argv, directory),
    )


def _is_server(text: str) -> bool:
    return all(
        _ADDRESS.match(name) or _is_kind(Path(name), stat.S_ISSOCK)
        for name in map(str.strip, text.split(","))
    )


def _is_kind(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except (OSError, ValueError):  # there is no such file; no file can have that name
        return False


def _argv(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as exc:
        raise SettingsError(
            f"PROGRAM must be a command line that a shell can split ({exc}), got"
            f" {command!r}"
        ) from exc


def _qt_binding(argv: list[str], directory: Path) -> str:
    """Return the first Qt library that a Python file in the command line imports; empty
    without one.
    """
    paths = (directory / arg for arg in argv if arg.endswith((".py", ".pyw")))
    scripts = (
        path.read_text("utf-8", "replace")
        for path in paths
        if _is_kind(path, stat.S_ISREG)
    )
    return next(
        (name for script in scripts for name in _IMPORTS_QT.findall(script)), ""
    )


class Project:
    """A project, and one test to add to it. Raises SettingsError if its pytest
    configuration is malformed.
    """

    def __init__(self, directory: Path, target: Target, task: str) -> None:
        self._directory = directory
        self._target = target
        self._task = task
        self._ini = IniFile.find(directory)
        self._tests = self._tests_dir()
        self.test = self._test_path()
        kept = str(self._ini.options.get("vnc_app", target.app))
        if target.page:  # the browser may have other options
            self._starts_other = target.page not in _argv(kept)
        else:
            argv = [
                _argv(absolute_command(app, directory)) for app in (kept, target.app)
            ]
            self._starts_other = bool(target.app) and argv[0] != argv[1]

    def _tests_dir(self) -> Path:
        """Return the directory of tests: the first that `testpaths` leads to, or
        `tests`.
        """
        named = self._ini.values("testpaths")
        # pathlib rejects absolute patterns
        find = partial(glob.glob, root_dir=self._directory, recursive=True)
        paths = (path for pattern in named for path in sorted(find(pattern)))
        directories = (path for path in paths if (self._directory / path).is_dir())
        fallback = next((name for name in named if not glob.has_magic(name)), "tests")
        return Path(
            os.path.relpath(
                self._directory / next(directories, fallback), self._directory
            )
        )

    def _test_path(self) -> Path:
        """Return the file of the test: one that has this task already, or a new one
        that `python_files` matches.
        """
        patterns = self._ini.values("python_files") or ["test_*.py"]
        slug = _slug_of(self._task)
        for stem in ("first", slug):
            if (path := self._free(_name_for(stem, patterns))) is not None:
                return path
        return next(
            filter(
                None,
                (
                    self._free(_name_for(f"{slug}_{number}", patterns))
                    for number in count(2)
                ),
            )
        )

    def _free(self, name: str) -> Path | None:
        """Return the path of a file with this name if there is none yet, or it has this
        task; else None.
        """
        path = self._tests / name
        text = read_text(self._directory / path)
        return path if text is None or _has_task(text, self._task) else None

    def plan(self, *, ci: str, policy: bool) -> dict[str, str | None]:
        """Return the files and their new texts; None keeps a file. Raises SettingsError
        if one cannot be changed.
        """
        files: dict[str, str | None] = {
            self._ini.name: self._changed_ini(policy=policy)
        }
        files[self.test.as_posix()] = self._new(self.test, self._source())
        if policy:
            files[POLICY] = self._new(
                Path(POLICY), (_TEMPLATES / "policy.toml").read_text("utf-8")
            )
        files[".gitignore"] = self._changed_gitignore()
        if ci == "github":
            workflow = self._workflow_path()
            files[workflow.as_posix()] = self._new(workflow, self._workflow())
        return files

    def settings(self) -> Settings:
        """Return the settings with which the test starts. Raises SettingsError for an
        invalid variable.
        """
        kept = {
            name: self._ini.options.get(f"vnc_{name}")
            for name in ("server", "exec", "qt_host_network", "home")
        }
        target = {"server": self._target.server, "app": self._target.app}
        return build.settings_of(
            {
                **target,
                **{name: value for name, value in kept.items() if value is not None},
            }
        )

    def _new(self, path: Path, text: str) -> str | None:
        return text if read_text(self._directory / path) is None else None

    def _changed_ini(self, *, policy: bool) -> str | None:
        target = self._target
        about = _ABOUT_SERVER.get(target.kind, "each test gets its own desktop")
        options = {"vnc_server": (target.server, f"{about} (pytest-vnc-use)")}
        if target.app:
            options["vnc_app"] = (
                target.app,
                _ABOUT_PAGE if target.page else _ABOUT_APP,
            )
        if target.kind == "page":
            options["vnc_cdp"] = (
                "profile/DevToolsActivePort",
                "tests can read the page: vnc_desktop.browser.text()",
            )
        # the settings are those of an earlier test
        if "vnc_server" in self._ini.options:
            options = {}
        if policy:
            options["vnc_policy"] = (
                POLICY,
                "what a run may do where no user can confirm it",
            )
        options["addopts"] = (LEAVE_OUT, ABOUT_LANGSMITH)
        missing = {
            name: value
            for name, value in options.items()
            if name not in self._ini.options
        }
        return self._ini.with_options(missing) if missing else None

    def _source(self) -> str:
        """Return the test. Its marker names the program where the settings name another
        one.
        """
        app = (
            f", app={json.dumps(self._target.app, ensure_ascii=False)}"
            if self._starts_other
            else ""
        )
        return _TEST.format(
            arguments=json.dumps(self._task, ensure_ascii=False) + app,
            name=(
                self.test.stem
                if self.test.stem.startswith("test_")
                else f"test_{self.test.stem}"
            ),
            fixture="vnc_agent" if self._target.kind == "address" else "vnc_desktop",
            check=_CHECKS.get(self._target.kind, _OF_PROGRAM),
        )

    def _changed_gitignore(self) -> str | None:
        text = read_text(self._directory / ".gitignore") or ""
        # A user who commits a home turns its line into a comment.
        present = {entry.strip("/# \t") for entry in text.splitlines()}
        added = []
        outputs = [
            entry
            for entry in ("runs/", "report.html")
            if entry.strip("/") not in present
        ]
        if outputs:
            added += ["# runs and reports of pytest-vnc-use", *outputs]
        home = self._home_in_project()
        if home and home not in present:
            added += [_ABOUT_HOME, f"/{home}/"]
        if not added:
            return None
        end = "\r\n" if "\r\n" in text else "\n"
        gap = end if text and not text.endswith("\n") else ""
        return text + gap + "".join(f"{line}{end}" for line in added)

    def _home_in_project(self) -> str:
        """Return the path of vnc_home in this directory; empty without one, for one
        elsewhere, or one that is committed.
        """
        home = str(self._ini.options.get("vnc_home", ""))
        path = os.path.relpath(self._directory / home, self._directory)
        if path == "." or path.startswith(".."):
            return ""
        is_committed = _output(["git", "ls-files", "--", path], self._directory)
        return "" if is_committed else Path(path).as_posix()

    def _subdirectory(self) -> str:
        """Return the project's path in its git repository, such as `web/app`; empty at
        the top or without git.
        """
        return (
            _output(["git", "rev-parse", "--show-prefix"], self._directory)
            .strip()
            .strip("/")
        )

    def _workflow_path(self) -> Path:
        """Return the path of the workflow, which GitHub reads in the repository's top
        directory only.
        """
        subdirectory = self._subdirectory()
        up = Path(*[".."] * len(Path(subdirectory).parts)) if subdirectory else Path()
        return (
            up
            / ".github"
            / "workflows"
            / f"{'-'.join([WORKFLOW, *Path(subdirectory).parts])}.yml"
        )

    def _workflow(self) -> str:
        from jinja2 import Environment, StrictUndefined

        target = self._target
        subdirectory = self._subdirectory()
        environment = Environment(
            block_start_string="<%",
            block_end_string="%>",
            variable_start_string="<{",
            variable_end_string="}>",
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            undefined=StrictUndefined,
        )
        return environment.from_string(
            (_TEMPLATES / "github.yml.j2").read_text("utf-8")
        ).render(
            kind=target.kind,
            packages=" ".join(self.packages()),
            requirements=" ".join(self._requirements()),
            page=target.page if target.is_local_page else "",
            image=target.server.removeprefix("container:"),
            open_qt=(
                " -o vnc_qt_host_network=true" if target.kind == "qt" else ""
            ),  # a container has no network namespace
            subdirectory=subdirectory,
            prefix=f"{subdirectory}/" if subdirectory else "",
        )

    def packages(self) -> list[str]:
        """Return the Debian packages that the desktop needs, and those of the program
        as far as dpkg knows it.
        """
        packages = []
        if self._target.kind in ("xvnc", "qt"):
            commands = filter(None, map(shutil.which, _argv(self._target.app)))
            packages = [
                _package_of(Path(path).name)
                for path in commands
                if not Path(path).name.startswith("python")
            ]
        return list(
            dict.fromkeys([*PACKAGES[self._target.kind], *filter(None, packages)])
        )

    def _requirements(self) -> list[str]:
        """Return what pip installs: this plugin, and the project with its requirements;
        without these its Qt.
        """
        project = (
            ["-r requirements.txt"]
            if (self._directory / "requirements.txt").is_file()
            else []
        )
        pyproject = tomllib.loads(read_text(self._directory / "pyproject.toml") or "")
        if "project" in pyproject or (self._directory / "setup.py").is_file():
            project.append("-e .")
        binding = self._target.qt_binding if not project else ""
        if self._target.kind == "qt" and not project and binding in ("", "PySide6"):
            return ['"pytest-vnc-use[demo]"']
        plugin = (
            '"pytest-vnc-use[container]"'
            if self._target.kind == "container"
            else "pytest-vnc-use"
        )
        return [plugin, *project, *filter(None, [binding])]

    @property
    def next_command(self) -> str:
        """The command that records the test, or replays it if it has a recording."""
        command = f"python -m pytest {shlex.quote(self.test.as_posix())}"
        if (
            self._directory / self.test.parent / "__vnc_recordings__" / self.test.stem
        ).exists():
            return command
        one_process = (
            " -n 0" if any(map(_WORKERS.fullmatch, self._ini.values("addopts"))) else ""
        )
        return f"{command} --vnc-record=manual{one_process}"

    def notes(self) -> Iterator[str]:
        """Yield what a user must know of this program, this desktop, and files that are
        kept.
        """
        target = self._target
        ini = self._ini
        if self._starts_other:
            yield (
                f"{ini.name} keeps vnc_app = {ini.options['vnc_app']!r}; {self.test}"
                " starts its own program by app="
            )
        if "addopts" in ini.options and f"no:{LANGSMITH}" not in " ".join(
            ini.values("addopts")
        ):
            yield f"add '{LEAVE_OUT}' to addopts in {ini.name}: {ABOUT_LANGSMITH}"
        if (
            target.kind == "page"
            and "vnc_server" in ini.options
            and "vnc_cdp" not in ini.options
        ):
            yield (
                "to read the page in tests, add vnc_cdp = profile/DevToolsActivePort"
                f" to {ini.name}"
            )
        if target.is_local_page:
            yield (
                f"start the server of {target.page} before the tests, or in a fixture"
                f" of {self._tests}/conftest.py"
            )
        if target.kind == "address":
            yield (
                "nothing resets an external desktop: let the test, or a fixture, leave"
                " the screen as it was before"
            )
        if target.kind == "address" and target.app:
            yield (
                "to start a program there, set how a command is run: vnc_exec = ssh"
                " HOST"
            )
        recordings = self._tests / "__vnc_recordings__"
        recorded = recordings / self.test.stem / self.test.stem
        files = [(recorded / name).as_posix() for name in ("recording.json", "s1.webp")]
        if _output(["git", "check-ignore", *files], self._directory):
            yield (
                f"git ignores {recordings}, or files there: commit the recordings, so"
                " remove that rule"
            )
        for name in (
            self._workflow_path().as_posix(),
            ".gitlab-ci.yml",
            ".gitlab/desktop-tests.yml",
            "Jenkinsfile",
        ):
            text = read_text(self._directory / name) or ""
            lacking = [
                package for package in self.packages() if package not in text.split()
            ]
            if "--vnc-record=replay" in text and lacking:
                yield (
                    f"{name} does not install {' '.join(lacking)}: add that to its"
                    " apt-get line"
                )

    def check(self, settings: Settings) -> Iterator[Finding]:
        """Yield what works and what does not; start the program only if nothing else
        fails.
        """
        can_start = True
        for finding in (
            *self._check_server(settings),
            *diagnose(settings, typing=False, only_asked=True),
        ):
            can_start = can_start and finding.word != "FAIL"
            yield finding
        if can_start and settings.server in ("xvnc", "qt") and self._target.app:
            started = replace(settings, app=self._target.app, start_seconds=STARTS_S)
            yield _start(absolute_desktop(started, self._directory))
        yield _collect(self.test.as_posix(), self._directory)

    def _check_server(self, settings: Settings) -> Iterator[Finding]:
        """Check that the desktop which the project has set already can show the
        program.
        """
        kept = settings.server
        target = self._target
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
                f"the project has vnc_server = {kept!r}, a running desktop, which"
                f" {text}",
            )


_TEMPLATES = Path(__file__).with_name("templates")


def _slug_of(task: str) -> str:
    """Return the words of a task for a name: all, or if there are many, the first ones
    that end at a phrase.
    """
    words = re.findall(r"[a-z0-9]+", task.lower())
    if len(words) > _MAX_NAME_WORDS:
        clause = re.findall(r"[a-z0-9]+", re.split(r"[,;:.]\s", task.lower())[0])
        words = clause if 1 < len(clause) < _MAX_NAME_WORDS else words[:_MAX_NAME_WORDS]
        while len(words) > 1 and words[-1] in _LITTLE_WORDS:
            words.pop()
    return "_".join(words) or "task"


def _name_for(stem: str, patterns: list[str]) -> str:
    """Return the name of a test file that one of pytest's `python_files` matches."""
    default = f"test_{stem}.py"
    for pattern in patterns:
        name = default if fnmatch(default, pattern) else pattern.replace("*", stem)
        if fnmatch(name, pattern) and re.fullmatch(r"\w+\.py", name) and stem in name:
            return name
    return default


def _has_task(source: str, task: str) -> bool:
    """Return whether a Python file marks a test with `vnc_task` and this sentence."""
    try:
        calls = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and node.args
        ]
    except (SyntaxError, ValueError):  # pytest cannot read it either
        return False
    marks = (
        call.args[0] for call in calls if ast.unparse(call.func).endswith("vnc_task")
    )
    return any(
        isinstance(arg, ast.Constant) and str(arg.value).strip() == task
        for arg in marks
    )


def _output(command: list[str], directory: Path) -> str:
    """Return what a command prints; empty if it fails, is not installed or hangs."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=ASKS_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _package_of(command: str) -> str:
    """Return the Debian package of a command; empty for one that each Debian has, or
    that dpkg does not know.
    """
    owners = [
        entry.partition(": ")
        for entry in _output(["dpkg", "-S", f"*bin/{command}"], Path.cwd()).splitlines()
    ]
    package = next(
        (
            name
            for name, _, path in owners
            if path.endswith(f"bin/{command}") and "," not in name
        ),
        "",
    )
    priority = (
        _output(["dpkg-query", "-W", "-f", "${Priority}", package], Path.cwd())
        if package
        else ""
    )
    return "" if priority == "required" else package


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
