"""The files that `cua-vnc init` writes into a project: a test, its settings, and what
CI needs.
"""

from __future__ import annotations

import ast
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from itertools import chain, count
from pathlib import Path

from pytest_vnc_use.agent import build
from pytest_vnc_use.cli.doctor import (
    ABOUT_LANGSMITH,
    LANGSMITH,
    LEAVE_OUT,
    QT_LIBRARIES,
)
from pytest_vnc_use.cli.ini_file import IniFile, read_text, tomllib
from pytest_vnc_use.cli.target import Kind, Target, split_command
from pytest_vnc_use.settings.layers import absolute_command
from pytest_vnc_use.settings.settings import LOCAL_SERVERS, Settings

POLICY = "vnc-policy.toml"
WORKFLOW = "desktop-tests"
ASKS_S = 10.0
"""The time that git and dpkg may take to answer."""

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
"""The line of the test that reads the saved data of a program which does not run on the
desktop.
"""
_MAX_NAME_WORDS = 8
_LITTLE_WORDS = frozenset(
    "a an the and or of to in into on onto at as by for from with that".split()
)
"""Words with which no name of a test ends."""
_WORKERS = re.compile(r"-n.*|--numprocesses(=.*)?|-d|--dist(=.*)?")
"""Options of pytest-xdist that start workers; a recording by hand needs one process."""
_FROM_GITHUB = (
    '"pytest-vnc-use{} @ git+https://github.com/pytest-vnc-use/pytest-vnc-use"'
)
"""What pip installs in CI, with an extra or none: PyPI has no release yet."""
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

_TEMPLATES = Path(__file__).with_name("templates")


class Project:
    """A project, and one test to add to it. Raises SettingsError if its pytest
    configuration is malformed.
    """

    def __init__(self, directory: Path, target: Target, task: str) -> None:
        self.directory = directory
        self.target = target
        self._task = task
        self._ini = IniFile.find(directory)
        self._tests = self._tests_dir()
        self.test = self._test_path()
        kept = str(self._ini.options.get("vnc_app", target.app))
        if target.page:  # the browser may have other options
            self._starts_other = target.page not in split_command(kept)
        else:
            argv = [
                split_command(absolute_command(app, directory))
                for app in (kept, target.app)
            ]
            self._starts_other = bool(target.app) and argv[0] != argv[1]

    def _tests_dir(self) -> Path:
        """Return the directory of tests: the first that `testpaths` leads to, or
        `tests`.
        """
        named = self._ini.values("testpaths")
        fallback = next((name for name in named if not glob.has_magic(name)), "tests")
        directory = next(self._directories_of(named), fallback)
        return Path(os.path.relpath(self.directory / directory, self.directory))

    def _directories_of(self, patterns: Iterable[str]) -> Iterator[str]:
        for pattern in patterns:
            # pathlib rejects absolute patterns
            paths = glob.glob(pattern, root_dir=self.directory, recursive=True)  # noqa: PTH207
            for path in sorted(paths):
                if (self.directory / path).is_dir():
                    yield path

    def _test_path(self) -> Path:
        """Return the file of the test: one that has this task already, or a new one
        that `python_files` matches.
        """
        patterns = self._ini.values("python_files") or ["test_*.py"]
        slug = _slug_of(self._task)
        numbered = (f"{slug}_{number}" for number in count(2))
        stems = chain(["first", slug], numbered)
        names = (_name_for(stem, patterns) for stem in stems)
        return next(filter(None, map(self._free, names)))

    def _free(self, name: str) -> Path | None:
        """Return the path of a file with this name if there is none yet, or it has this
        task; else None.
        """
        path = self._tests / name
        text = read_text(self.directory / path)
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
        values = {"server": self.target.server, "app": self.target.app}
        for name in ("server", "exec", "qt_host_network", "home"):
            kept = self._ini.options.get(f"vnc_{name}")
            if kept is not None:
                values[name] = kept
        return build.settings_of(values)

    def _new(self, path: Path, text: str) -> str | None:
        return text if read_text(self.directory / path) is None else None

    def _changed_ini(self, *, policy: bool) -> str | None:
        target = self.target
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
        arguments = json.dumps(self._task, ensure_ascii=False)
        if self._starts_other:
            arguments += f", app={json.dumps(self.target.app, ensure_ascii=False)}"
        return _TEST.format(
            arguments=arguments,
            name=f"test_{self.test.stem.removeprefix('test_')}",
            fixture="vnc_agent" if self.target.kind == "address" else "vnc_desktop",
            check=_CHECKS.get(self.target.kind, _OF_PROGRAM),
        )

    def _changed_gitignore(self) -> str | None:
        text = read_text(self.directory / ".gitignore") or ""
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
        """Return the path of vnc_home within this directory; empty if it is not set, is
        elsewhere, or is committed.
        """
        home = str(self._ini.options.get("vnc_home", ""))
        path = os.path.relpath(self.directory / home, self.directory)
        if path == "." or path.startswith(".."):
            return ""
        is_committed = _output(["git", "ls-files", "--", path], self.directory)
        return "" if is_committed else Path(path).as_posix()

    def _subdirectory(self) -> str:
        """Return the project's path in its git repository, such as `web/app`; empty at
        the top or without git.
        """
        prefix = _output(["git", "rev-parse", "--show-prefix"], self.directory)
        return prefix.strip().strip("/")

    def _workflow_path(self) -> Path:
        """Return the path of the workflow, which GitHub reads in the repository's top
        directory only.
        """
        parts = Path(self._subdirectory()).parts
        up = Path(*[".."] * len(parts))
        name = "-".join([WORKFLOW, *parts])
        return up / ".github" / "workflows" / f"{name}.yml"

    def _workflow(self) -> str:
        from jinja2 import Environment, StrictUndefined

        target = self.target
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
            # a container has no network namespace
            open_qt=" -o vnc_qt_host_network=true" if target.kind == "qt" else "",
            subdirectory=subdirectory,
            prefix=f"{subdirectory}/" if subdirectory else "",
        )

    def packages(self) -> list[str]:
        """Return the Debian packages of the desktop, and of the program as far as dpkg
        knows them.
        """
        packages = dict.fromkeys(PACKAGES[self.target.kind])
        if self.target.kind in LOCAL_SERVERS:
            for path in filter(None, map(shutil.which, split_command(self.target.app))):
                command = Path(path).name
                if not command.startswith("python"):
                    packages[_package_of(command)] = None
        return list(filter(None, packages))

    def _requirements(self) -> list[str]:
        """Return what pip installs: this plugin, the project and its requirements; if
        there are none, the Qt that the program imports.
        """
        project = []
        if (self.directory / "requirements.txt").is_file():
            project.append("-r requirements.txt")
        pyproject = tomllib.loads(read_text(self.directory / "pyproject.toml") or "")
        if "project" in pyproject or (self.directory / "setup.py").is_file():
            project.append("-e .")
        binding = self.target.qt_binding if not project else ""
        if self.target.kind == "qt" and not project and binding in ("", "PySide6"):
            return [_FROM_GITHUB.format("[demo]")]
        extra = "[container]" if self.target.kind == "container" else ""
        plugin = _FROM_GITHUB.format(extra)
        return [plugin, *project, *filter(None, [binding])]

    @property
    def next_command(self) -> str:
        """The command that records the test, or replays it if it has a recording."""
        command = f"python -m pytest {shlex.quote(self.test.as_posix())}"
        recordings = self.directory / self.test.parent / "__vnc_recordings__"
        if (recordings / self.test.stem).exists():
            return command
        command += " --vnc-record=manual"
        if any(map(_WORKERS.fullmatch, self._ini.values("addopts"))):
            command += " -n 0"
        return command

    def notes(self) -> Iterator[str]:
        """Yield what the user must know about the program, the desktop, and the files
        that were kept.
        """
        target = self.target
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
        if _output(["git", "check-ignore", *files], self.directory):
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
            text = read_text(self.directory / name) or ""
            lacking = [
                package for package in self.packages() if package not in text.split()
            ]
            if "--vnc-record=replay" in text and lacking:
                yield (
                    f"{name} does not install {' '.join(lacking)}: add that to its"
                    " apt-get line"
                )


def _slug_of(task: str) -> str:
    """Return the words of a task for a name: all, or if there are many, the first
    ones.
    """
    words = re.findall(r"[a-z0-9]+", task.lower())
    if len(words) > _MAX_NAME_WORDS:
        words = words[:_MAX_NAME_WORDS]
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
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # pytest cannot read it either
        return False
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[ast.Constant(value=sentence), *_]):
                is_mark = ast.unparse(function).endswith("vnc_task")
                if is_mark and str(sentence).strip() == task:
                    return True
    return False


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
    found = _output(["dpkg", "-S", f"*bin/{command}"], Path.cwd())
    for entry in found.splitlines():
        package, _, path = entry.partition(": ")
        if path.endswith(f"bin/{command}") and "," not in package:
            break
    else:
        return ""
    query = ["dpkg-query", "-W", "-f", "${Priority}", package]
    is_everywhere = _output(query, Path.cwd()) == "required"
    return "" if is_everywhere else package
