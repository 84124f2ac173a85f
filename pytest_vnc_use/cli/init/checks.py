"""Checks of a project that was just set up, as findings of `cua-vnc doctor`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_vnc_use import clock
from pytest_vnc_use.agent import build
from pytest_vnc_use.cli.finding import Finding
from pytest_vnc_use.cli.init.ci import GITHUB, GITLAB, is_read_there, place_in_repository
from pytest_vnc_use.cli.init.target import Target, beginning, starts_the_same
from pytest_vnc_use.errors import DesktopRefused, VncUseError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.settings.paths import absolute_desktop
from pytest_vnc_use.settings.settings import Settings

_COLLECTS_S = 120.0
_NOTHING_COLLECTED = 5
_STARTS_S = 20.0
_FINDS_S = 20.0
_NONE_FOUND = 3
_FINDS_ONE = (
    "import sys; from importlib.util import find_spec; "
    f"sys.exit(0 if any(map(find_spec, sys.argv[1:])) else {_NONE_FOUND})"
)
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_IMPORTS_GI = re.compile(r"^(?:import|from)\s+gi\b", re.MULTILINE)
"""An import that is not indented: one in a `try` is often optional."""
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby)[\d.]*|(ba|da|k|z)?sh|node|deno|bun")
_IN_A_FOLDER = "docs/ci.md of pytest-vnc-use, In a folder of a repository"
_NO_SCRIPT = re.compile(r"-|--(eval|print)\b.*|-[A-Za-z]*[ceEmps]")
"""Options that no file follows: the program is a text, a module, or read from stdin."""


def program_found(target: Target, folder: Path) -> Iterator[Finding]:
    """Check that the program under test is there, its script, and the toolkit that this imports, if it starts here."""
    if target.kind not in ("xvnc", "qt", "page") or not target.app.strip():
        return
    program, *words = shlex.split(target.app)
    found, script = shutil.which(program), _script(Path(program).name, words)
    if not found:
        yield Finding("FAIL", "program", f"{program!r} is no program on PATH; install it, or write its path")
    elif script and not (folder / script).exists():
        yield Finding("FAIL", "program", f"{script!r} is no file here; write the path from this folder to the script")
    elif missing := _missing_module(found, target.qt_bindings, folder):
        text = f"its script imports {missing!r}, which {program} does not have: {program} -m pip install {missing}"
        yield Finding("FAIL", "program", text)
    elif script and _IMPORTS_GI.search(beginning(folder / script)) and _missing_module(found, ("gi",), folder):
        text = (
            f"its script imports 'gi', which {program} does not have: apt-get install python3-gi, and start it as "
            f"{shlex.join(['/usr/bin/python3', *words])!r}, or make the venv with --system-site-packages"
        )
        yield Finding("FAIL", "program", text)
    else:
        yield Finding("ok", "program", found)


def kept_program_fits(asked: Target, app: str, app_from: str, folder: Path) -> Iterator[Finding]:
    """Check that the first test starts the program that was asked for, if `app_from`, a kept file, names one."""
    if not asked.app or starts_the_same(asked, app, folder):
        return
    if app_from.endswith(".py"):
        remedy = f"write app={asked.app!r} into its vnc_task"
    else:
        remedy = f"write vnc_app = {asked.app} there, or app={asked.app!r} into the vnc_task of the test"
    text = f"{app_from} keeps {app!r}, so the first test starts that and not {asked.app!r}; {remedy}"
    yield Finding("FAIL", "vnc_app", text)


def kept_server_fits(settings: Settings, target: Target) -> Iterator[Finding]:
    """Check that a server which the project keeps shows the program.

    Qt's own platform shows Qt programs only. On a desktop that runs already a program is started by vnc_exec.
    """
    kept = settings.server
    if target.app and build.is_given(settings) and not settings.exec:
        text = (
            f"the project keeps vnc_server = {kept!r}, a desktop that runs already, where {target.app!r} cannot be "
            f"started; say with vnc_exec how a command runs there, or write vnc_server = {target.server}"
        )
        yield Finding("FAIL", "vnc_server", text)
    if kept == "qt" and target.kind != "qt":
        text = (
            f"the project keeps vnc_server = {kept!r}, which shows Qt programs only; "
            f"write vnc_server = {target.server} there, or give --vnc qt if the program uses Qt"
        )
        yield Finding("FAIL", "vnc_server", text)


def ci_looks_there(ci: str, folder: Path) -> Iterator[Finding]:
    """Check that the CI finds its file, if this folder is only a part of a git repository."""
    place = place_in_repository(folder)
    if not place or ci == "none":
        return
    if is_read_there(ci, folder, place):
        yield Finding("ok", "ci", f"it reads the file for {place!r}")
        return
    up = "../" * (place.count("/") + 1)
    what_to_do = {
        "github": f"GitHub looks for it in the repository's own folder only: move it to {up + GITHUB!r}, and write "
        f"`defaults: {{run: {{working-directory: {place}}}}}` in its jobs",
        "gitlab": f"GitLab reads the repository's own .gitlab-ci.yml only: write there `include: {{local: "
        f"{place}/{GITLAB}}}`, and `- cd {place}` first in the file's before_script",
        "jenkins": f"Jenkins starts in the repository's own folder: give the job the script path "
        f"{place + '/Jenkinsfile'!r}, and write `dir('{place}') {{ … }}` around its steps",
    }[ci]
    paths = f"write {place}/ before the paths of its artifacts; " if ci != "jenkins" else ""
    yield Finding("FAIL", "ci", f"this folder is {place!r} of a repository. {what_to_do}; {paths}see {_IN_A_FOLDER}")


def program_starts(settings: Settings, folder: Path) -> Iterator[Finding]:
    """Start the program on a desktop of its own, as the first test will, and check that it shows something."""
    if settings.server not in ("xvnc", "qt") or not settings.app.strip():
        return
    began = clock.monotonic()
    try:
        build.lease_desktop(replace(absolute_desktop(settings, folder), start_seconds=_STARTS_S)).stop()
    except DesktopRefused as exc:  # a slow program may still come
        yield Finding("--", "start", line(str(exc)))
    except VncUseError as exc:
        yield Finding("FAIL", "start", line(str(exc)))
    else:
        yield Finding("ok", "start", f"the program was started, shown and ended in {clock.monotonic() - began:.1f} s")


def _missing_module(interpreter: str, modules: Sequence[str], folder: Path) -> str:
    """Return the first module if a Python finds none of them; empty if it finds one, or it is no Python."""
    if not modules or not _PYTHON.fullmatch(Path(interpreter).name):
        return ""
    command = [interpreter, "-c", _FINDS_ONE, *modules]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_FINDS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return modules[0] if done.returncode == _NONE_FOUND else ""


def _script(interpreter: str, words: Sequence[str]) -> str:
    """Return the file that an interpreter will run; empty if there is none, or it is unclear which word it is."""
    if not _INTERPRETER.fullmatch(interpreter):
        return ""
    for number, word in enumerate(words):
        if _NO_SCRIPT.fullmatch(word):
            return ""
        if not word.startswith("-"):  # after an option, a plain word may be its value
            return word if number == 0 or "/" in word or "." in word else ""
    return ""


def collected(test: str, folder: Path, chosen_by: str) -> Finding:
    """Check that a plain run of pytest collects the test, and all others, with the project's own configuration."""
    try:
        done = _collection(folder)
    except subprocess.TimeoutExpired:
        return Finding("FAIL", "test", f"python -m pytest has not collected the tests within {_COLLECTS_S:g} s")
    return _verdict(test, done, chosen_by)


def _collection(folder: Path) -> subprocess.CompletedProcess[str]:
    """Let pytest list all tests, one a line whatever `addopts` says, and leave nothing behind."""
    with TemporaryDirectory() as cache:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "--verbosity=-1", "-o", f"cache_dir={cache}"],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COLLECTS_S,
            check=False,
        )


def _verdict(test: str, done: subprocess.CompletedProcess[str], chosen_by: str) -> Finding:
    lines = [each for each in (done.stdout + done.stderr).splitlines() if each.strip()]
    is_found = any(each.startswith(f"{test}::") for each in lines)
    if is_found and done.returncode == 0:
        return Finding("ok", "test", f"pytest finds {test}")
    if "import file mismatch" in done.stdout:
        return Finding(
            "FAIL",
            "test",
            f"python -m pytest ends with an import file mismatch: two files of tests, of which {test} may be one, have "
            "one name; rename one, or add --import-mode=importlib to addopts",
        )
    if done.returncode not in (0, _NOTHING_COLLECTED):
        error = next((each for each in lines if each.startswith(("E  ", "ERROR"))), lines[-1] if lines else "nothing")
        how = f"finds {test}, but ends with an error" if is_found else f"does not find {test}"
        return Finding("FAIL", "test", f"pytest {how}: {line(error)}")
    why = f"{chosen_by}; change that, or the test's name or place" if chosen_by else "look at your conftest.py"
    return Finding("FAIL", "test", f"python -m pytest does not collect {test}: {line(why)}")
