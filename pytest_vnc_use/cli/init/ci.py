"""The files for CI: replay on every push, heal at night."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from pytest_vnc_use.cli.init.files import read_text
from pytest_vnc_use.cli.init.target import Kind, Target
from pytest_vnc_use.cli.init.templates import render

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

GITHUB, GITLAB = ".github/workflows/desktop-tests.yml", ".gitlab/desktop-tests.yml"
FILES = {
    "github": {GITHUB: "github"},
    "gitlab": {GITLAB: "gitlab", ".gitlab-ci.yml": "gitlab_root"},
    "jenkins": {"Jenkinsfile": "jenkins"},
    "none": {},
}
_QT_LIBRARIES = ("libegl1", "libgl1", "libglib2.0-0", "libxkbcommon0", "libfontconfig1", "libdbus-1-3")
_X_DESKTOP = ("tigervnc-standalone-server", "openbox", "fonts-dejavu-core")
PACKAGES: dict[Kind, tuple[str, ...]] = {
    "xvnc": _X_DESKTOP,
    "page": (*_X_DESKTOP, "chromium"),
    "qt": (*_QT_LIBRARIES, "fonts-dejavu-core"),
    "container": (),
    "address": (),
}
"""The Debian packages of each kind of desktop."""
IMAGE = "python:3.12-bookworm"
"""What the jobs run in, so that each run has the same fonts and libraries."""
_WORKFLOW = re.compile(r"^workflow:.*\n(?:(?:[ \t#-].*)?\n)*", re.MULTILINE)
"""The part of a GitLab file that says which pipelines there are."""
_DPKG_S = 10.0
_GIT_S = 10.0


def ci_files(ci: str, target: Target, folder: Path, shards: int = 1) -> dict[str, str]:
    """Return the files for a CI, by their path in the project; `shards` is how many jobs share the replays.

    In a folder of a larger repository, those that the CI would not read there are left out, except one to move.
    """
    numbers = range(1, shards + 1)
    place = place_in_repository(folder)
    rules = read_text(_top(folder, place) / ".gitlab-ci.yml") or ""
    is_moved = ci == "github" and bool(place) and is_read_there(ci, folder, place)
    return {
        path: render(
            template,
            kind=target.kind,
            packages=_packages(target),
            requirements=" ".join([*_requirements(target, folder), *(["pytest-split"] if shards > 1 else [])]),
            merge_requests="merge_request_event" in "".join(_WORKFLOW.findall(rules)),
            shards=shards,
            shard_folders=" ".join(f"shards/{number}" for number in numbers),
            shard_names=", ".join(f"'{number}'" for number in numbers),
            page=target.page if target.is_local_page else "",
            image=target.server.removeprefix("container:"),
        )
        for path, template in FILES[ci].items()
        if not is_moved and not (place and template == "gitlab_root")
    }


def place_in_repository(folder: Path) -> str:
    """Return the folder's path in its git repository, such as `web/app`; empty if it is the repository's own folder."""
    try:
        asked = ["git", "rev-parse", "--show-prefix"]
        done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, timeout=_GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().strip("/") if done.returncode == 0 else ""


def _top(folder: Path, place: str) -> Path:
    """Return the repository's own folder."""
    return folder.joinpath(*[".."] * len(place.split("/"))) if place else folder


def is_read_there(ci: str, folder: Path, place: str) -> bool:
    """Return whether the CI reads the file of a folder that lies at `place` in its repository."""
    top = _top(folder, place)
    here = rf"(\./)?{re.escape(place)}"
    needed = {
        "github": {top / GITHUB: rf"working-directory:\s*[\"']?{here}/?[\"']?\s*([}}#]|$)"},
        "gitlab": {top / ".gitlab-ci.yml": rf"{here}/{re.escape(GITLAB)}", folder / GITLAB: rf"\bcd [\"']?{here}\b"},
        "jenkins": {folder / "Jenkinsfile": rf"\bdir\(\s*[\"']{here}/?[\"']"},
    }[ci]
    return all(re.search(pattern, read_text(path) or "", re.MULTILINE) for path, pattern in needed.items())


def command_in_image(target: Target, folder: Path, command: str) -> str:
    """Return a command line that carries out `command` as the jobs do: in their image, with what they install.

    A server that it starts on localhost is reached from this machine.
    """
    engine = "podman" if shutil.which("podman") else "docker"
    lines = [
        "apt-get update -q",
        f"apt-get install -y -q --no-install-recommends {_packages(target)}",
        f"python -m pip install -q {' '.join(_requirements(target, folder))}",
        command + (" -o vnc_qt_open=true" if target.kind == "qt" else ""),  # a container makes no network namespace
    ]
    run = f'{engine} run --rm -it --network host -v "$PWD:/work" -w /work {IMAGE}'
    return f"{run} sh -c {shlex.quote(' && '.join(lines))}"


def _packages(target: Target) -> str:
    return " ".join(dict.fromkeys((*PACKAGES[target.kind], *_packages_of(target))))


def _requirements(target: Target, folder: Path) -> list[str]:
    """Return what pip installs: this plugin, and the project with its own requirements; without these its Qt."""
    own = ["-r requirements.txt"] if (folder / "requirements.txt").is_file() else []
    pyproject = tomllib.loads(read_text(folder / "pyproject.toml") or "")
    if "project" in pyproject or (folder / "setup.py").is_file():
        own.append("-e .")
    binding = [] if own else [*target.qt_bindings[:1]]
    if target.kind == "qt" and not own and binding in ([], ["PySide6"]):
        return ['"pytest-vnc-use[demo]"']
    plugin = '"pytest-vnc-use[container]"' if target.kind == "container" else "pytest-vnc-use"
    return [plugin, *own, *binding]


def _packages_of(target: Target) -> list[str]:
    """Return the Debian packages of the commands in a command line, as far as this machine knows them."""
    if target.kind not in ("xvnc", "qt") or not shutil.which("dpkg"):
        return []
    names = (Path(found).name for found in map(shutil.which, shlex.split(target.app)) if found)
    packages = map(_package_of, (name for name in names if not name.startswith("python")))
    return [package for package in packages if package]


def _package_of(command: str) -> str:
    try:
        asked = ["dpkg", "-S", f"*bin/{command}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_DPKG_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""  # then the user adds what the program needs
    found = [line.partition(": ") for line in done.stdout.splitlines()]
    return next((name for name, _, path in found if path.endswith(f"bin/{command}") and "," not in name), "")
