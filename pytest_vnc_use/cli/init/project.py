"""The plan of what `cua-vnc init` writes into a project; this module writes nothing."""

from __future__ import annotations

import ast
import glob
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from pytest_vnc_use.cli.init.ci import ci_files, command_in_image
from pytest_vnc_use.cli.init.files import PlannedFile, read_text
from pytest_vnc_use.cli.init.ini_files import IniFile
from pytest_vnc_use.cli.init.questions import Answers
from pytest_vnc_use.cli.init.target import Kind, Target, started_target
from pytest_vnc_use.cli.init.templates import render
from pytest_vnc_use.cli.other_plugins import ABOUT_LANGSMITH, LANGSMITH, LEAVE_OUT
from pytest_vnc_use.desktops.qt import why_not_closable

_GIT_S = 10.0
_CHOOSE = ("testpaths", "python_files", "python_functions", "norecursedirs", "addopts")
_CHECKED = ("exec", "qt_open")
"""Settings besides the server and the program that decide whether the first test can start."""
_NOT_SEARCHED = ("build", "dist", "node_modules", "venv")
"""Folders that pytest does not search, besides hidden ones."""
_WORKERS = re.compile(r"-n.*|--numprocesses(=.*)?|-d|--dist(=.*)?")
"""Options of pytest-xdist that start workers; a person at a terminal records in one process only."""
POLICY = "vnc-policy.toml"
_STARTED_HERE = (
    "the program under test; it starts in an empty folder, so files of this project are written with a slash"
)
ABOUT_APP: dict[Kind, str] = {
    "xvnc": _STARTED_HERE,
    "qt": _STARTED_HERE,
    "page": "as root, and in most containers, a browser starts only without its sandbox: show your own pages only",
    "container": "the program under test, in the container",
}
IGNORED = ("what runs and reports leave behind", ("runs/", "report.html"))
ATTRIBUTES = (
    "recordings of pytest-vnc-use: pictures are binary, and a recording is never merged line by line",
    ("**/__vnc_recordings__/**/*.webp binary", "**/__vnc_recordings__/**/*.json text eol=lf -merge"),
)


@dataclass(frozen=True)
class Project:
    """The state of a project so far: its folder, and the file in which it configures pytest."""

    folder: Path
    ini: IniFile

    @classmethod
    def read(cls, folder: Path) -> Project:
        """Read a project. Raises SettingsError if its configuration of pytest is broken."""
        return cls(folder, IniFile.find(folder))

    @property
    def tests(self) -> Path:
        """Return the folder of tests: the first that `testpaths` leads to, or `tests`."""
        named = self.ini.words("testpaths")
        # they may be absolute, which pathlib's glob does not accept
        found = (name for each in named for name in sorted(glob.glob(each, root_dir=self.folder, recursive=True)))  # noqa: PTH207
        folders = (name for name in found if (self.folder / name).is_dir())
        plain = [name for name in named if not glob.has_magic(name)]
        return Path(os.path.relpath(self.folder / next(folders, (*plain, "tests")[0]), self.folder))

    def test_of(self, task: str) -> Path:
        """Return the file of the first test: with a name that pytest looks for, and that no other module has.

        A file that is there already is returned only if it has a test with this task.
        """
        names = self._names()
        while not self._has_or_takes(name := next(names), task):
            pass
        return self.tests / name

    @property
    def first_name(self) -> str:
        """Return the name that the file of the first test has if nothing is in the way."""
        patterns = self.ini.words("python_files") or ["test_*.py"]
        return next(filter(None, (_name_for(pattern) for pattern in patterns)), "test_first.py")

    def _names(self) -> Iterator[str]:
        yield self.first_name
        yield self.first_name.replace("first", "first_vnc")
        yield from (self.first_name.replace("first", f"first_vnc_{number}") for number in itertools.count(2))

    def _has_or_takes(self, name: str, task: str) -> bool:
        """Return whether the file has a test with this task, or is still free."""
        there = read_text(self.folder / self.tests / name)
        return not self._clashes(name) if there is None else has_task(there, task)

    def _clashes(self, name: str) -> bool:
        """Return whether pytest would import another file under the same name as a module of its own."""
        if "importlib" in " ".join(self.ini.words("addopts")) or (self.folder / self.tests / "__init__.py").exists():
            return False
        for _, folders, files in os.walk(self.folder):
            folders[:] = [each for each in folders if each[0] != "." and each not in _NOT_SEARCHED]
            if name in files and "__init__.py" not in files:
                return True
        return False


@dataclass(frozen=True)
class Plan:
    """The files to write or keep in the project, hints for the user, the test's name, and what that test starts.

    `app_from` is the file that names the program of the test. `kept` are settings of the project's own that the checks
    need. `next_command` is the command that comes next, `chosen_by` tells the project's own options that choose tests.
    """

    files: tuple[PlannedFile, ...]
    hints: tuple[str, ...]
    test: str
    starts: Target
    app_from: str
    kept: Mapping[str, object]
    next_command: str
    chosen_by: str


def has_task(source: str, task: str) -> bool:
    """Return whether a Python file marks a test with `vnc_task` and this sentence."""
    return _marker(source, task) is not None


def _marker(source: str, task: str) -> ast.Call | None:
    """Return the first `vnc_task` with this sentence in a Python file, None if there is none."""
    if "vnc_task" not in source:
        return None
    try:
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # pytest cannot read it either
        return None
    marks = (call for call in calls if call.args and ast.unparse(call.func).endswith("vnc_task"))
    return next((mark for mark in marks if _text(mark.args[0]).strip() == task), None)


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _app(answers: Answers, project: Project, test: Path) -> tuple[str, str]:
    """Return the program that the first test starts, and the file that names it: the test's marker comes first."""
    mark = _marker(read_text(project.folder / test) or "", answers.task)
    if mark and (own := next((_text(each.value) for each in mark.keywords if each.arg == "app"), "")):
        return own, test.as_posix()
    return str(project.ini.options.get("vnc_app", answers.target.app)), project.ini.name


def _name_for(pattern: str) -> str:
    """Return the name of a first test that a pattern of `python_files` matches; "" for any other pattern."""
    name = "test_first.py" if fnmatch("test_first.py", pattern) else pattern.replace("*", "first")
    return name if fnmatch(name, pattern) and re.fullmatch(r"\w*first\w*\.py", name) else ""


def plan(answers: Answers, project: Project) -> Plan:
    """Return the files to write. Raises SettingsError if something is in the way."""
    test = project.test_of(answers.task)
    options = project.ini.options
    config, hints = _config(_settings(answers.target), project)
    files = [config, _whole(project, test, _test(answers)), _whole(project, Path(POLICY), render("policy"))]
    files += [_lines(project, ".gitignore", *IGNORED), _lines(project, ".gitattributes", *ATTRIBUTES)]
    for path, text in ci_files(answers.ci, answers.target, project.folder, answers.shards).items():
        files.append(_whole(project, Path(path), text))
    hints += tuple(_hints(answers, project, test))
    app, app_from = _app(answers, project, test)
    server = str(options.get("vnc_server", answers.target.server))
    starts = started_target(answers.target, server, app, project.folder)
    kept = {name: options[f"vnc_{name}"] for name in _CHECKED if f"vnc_{name}" in options}
    chosen_by = ", ".join(f"{name} = {options[name]!r}" for name in _CHOOSE if name in options)
    chosen_by = f"{project.ini.name} has {chosen_by}" if chosen_by else ""
    next_command = _next_command(answers, project, test)
    return Plan(tuple(files), hints, test.as_posix(), starts, app_from, kept, next_command, chosen_by)


def _next_command(answers: Answers, project: Project, test: Path) -> str:
    command = f"python -m pytest {shlex.quote(test.as_posix())}"
    if (project.folder / test.parent / "__vnc_recordings__" / test.stem).exists():
        return command
    if answers.record == "hand":
        one_process = " -n 0" if any(map(_WORKERS.fullmatch, project.ini.words("addopts"))) else ""
        return f"{command} --vnc-record=demonstrate{one_process}"
    key = "" if os.environ.get("GOOGLE_API_KEY") else "GOOGLE_API_KEY=… "
    return f"{key}{command} --vnc-record=auto --vnc-planner=gemini"


def _settings(target: Target) -> dict[str, tuple[str, str]]:
    """Return the options for pytest, each with a comment."""
    about = {
        "xvnc": "each test has a desktop of TigerVNC of its own",
        "page": "each test has a desktop of TigerVNC of its own",
        "qt": "each test has the program of its own, on Qt's own VNC platform",
        "container": "each test has a container of its own; the image has a VNC server on port 5901",
        "address": "the desktop's VNC server; its password is read from the variable VNC_USE_PASSWORD",
    }[target.kind]
    settings = {"vnc_server": (target.server, f"{about} (pytest-vnc-use)")}
    if target.app:
        settings["vnc_app"] = (target.app, ABOUT_APP.get(target.kind, "the program under test"))
    if target.kind == "page":
        settings["vnc_cdp"] = ("profile/DevToolsActivePort", "the page can be read: vnc_desktop.browser.text()")
    settings["vnc_policy"] = (POLICY, "what may be done with nobody at the keyboard")
    settings["addopts"] = (LEAVE_OUT, ABOUT_LANGSMITH)
    return settings


def _config(options: Mapping[str, tuple[str, str]], project: Project) -> tuple[PlannedFile, tuple[str, ...]]:
    ini = project.ini
    missing = {name: value for name, value in options.items() if name not in ini.options}
    kept = tuple(
        f"{ini.name} has {name} = {ini.options[name]!r}, which is kept; for the first test it would be {value!r}"
        for name, (value, _) in options.items()
        if name != "addopts" and ini.options.get(name, value) != value
    )
    if "addopts" not in missing and f"no:{LANGSMITH}" not in " ".join(ini.words("addopts")):
        kept += (f"add '{LEAVE_OUT}' to addopts in {ini.name}: {ABOUT_LANGSMITH}",)
    if not missing:
        return PlannedFile(Path(ini.name), "keep"), kept
    did = "write" if ini.text is None else "add"
    return PlannedFile(Path(ini.name), did, ini.with_options(missing)), kept


def _test(answers: Answers) -> str:
    looks = {
        "page": 'assert "saved" in vnc_desktop.browser.text()',
        "address": 'assert vnc_agent.verify("the status bar says Saved")',
    }.get(answers.target.kind, 'assert vnc_desktop.read_file("orders.csv") == "apples;2"')
    fixture = "vnc_agent" if answers.target.kind == "address" else "vnc_desktop"
    return render("test_first", task=json.dumps(answers.task, ensure_ascii=False), looks=looks, fixture=fixture)


def _whole(project: Project, path: Path, text: str) -> PlannedFile:
    """Plan a file of ours; an existing one is kept as it is."""
    there = read_text(project.folder / path)
    return PlannedFile(path, "write", text) if there is None else PlannedFile(path, "keep")


def _lines(project: Project, name: str, comment: str, lines: tuple[str, ...]) -> PlannedFile:
    """Plan a file with these lines at its end, except those that it has already."""
    text = read_text(project.folder / name)
    there = {line.strip().strip("/") for line in (text or "").splitlines()}
    missing = [line for line in lines if line.strip("/") not in there]
    if not missing:
        return PlannedFile(Path(name), "keep")
    end = "\r\n" if "\r\n" in (text or "") else "\n"
    gap = end if text and not text.endswith("\n") else ""
    added = "".join(f"{line}{end}" for line in (f"# {comment}", *missing))
    return PlannedFile(Path(name), "add" if text else "write", f"{text or ''}{gap}{added}")


def _is_ignored(folder: Path, path: Path) -> bool:
    try:
        command = ["git", "check-ignore", "-q", path.as_posix()]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _hints(answers: Answers, project: Project, test: Path) -> Iterator[str]:
    target = answers.target
    first = project.tests / project.first_name
    if test != first and (project.folder / first).exists():
        yield f"{first} is kept and has no vnc_task with this sentence, so the test with it is in {test}"
    if target.kind == "qt" and sys.platform == "linux" and not why_not_closable():
        yield "the program has a network of its own; if it needs another one: vnc_qt_open = always, and a firewall"
    if target.kind == "page" and target.is_local_page:
        yield f"start the server of {target.page} before the tests, or in a fixture of {project.tests}/conftest.py"
    if target.kind == "address":
        yield "nobody resets a given desktop: let the test, or a fixture, leave the screen as it was before"
    if target.kind == "address" and target.app:
        yield "to start a program there, say how a command is run: vnc_exec = ssh HOST"
    if _is_ignored(project.folder, project.tests / "__vnc_recordings__" / f"{test.stem}.json"):
        yield f"git ignores {project.tests}/__vnc_recordings__; recordings belong into git, so let it through"
    if answers.ci != "none" and target.kind in ("xvnc", "page", "qt"):
        yield "replays compare pixels: CI needs the fonts that the recording was made with; record in CI's image"
        if answers.record == "hand":
            record = command_in_image(target, project.folder, _next_command(answers, project, test))
            yield f"to record there, with your viewer on this machine: {record}"
    if answers.ci == "gitlab" and "desktop-tests.yml" not in (
        read_text(project.folder / ".gitlab-ci.yml") or "desktop-tests.yml"
    ):
        yield "add to .gitlab-ci.yml: include: {local: .gitlab/desktop-tests.yml}"
    if answers.ci == "jenkins" and "--vnc-record=replay" not in (
        read_text(project.folder / "Jenkinsfile") or "--vnc-record=replay"
    ):
        yield "Jenkinsfile is kept; docs/ci.md of pytest-vnc-use shows the stages to add"
