"""The jobs of CI files in a clean Debian: with its own Python, this plugin's wheel, and nothing else of this machine.

A person records the test there first, by the command of docs/ci.md, on the page that it serves.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.cli.init import Project, read_target
from support.ci_jobs import Machine, run_action, run_github, run_gitlab, run_jenkins
from support.containers import BASE, ENGINE, desktop_image
from support.paths import EXAMPLES, ROOT
from support.person import Person, attend
from support.vnc_servers import require

pytestmark = [pytest.mark.container, pytest.mark.slow]

BUILD_S = 1_200
PREPARE = """
apt-get update -q
apt-get install -y -q --no-install-recommends python3-venv git gh \\
    tigervnc-standalone-server openbox fonts-dejavu-core xterm
python3 -m venv /venv
/venv/bin/pip install -q /wheels/*.whl
"""
"""Stands in for python:3.12-bookworm, with what the jobs install: they find it there, and need not fetch it each."""
LINE = "xterm -e cat"


@pytest.fixture
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Debian with the wheel of this tree, and what it needs from the package index."""
    require("git")
    desktop_image()  # has Debian's base image, or skips
    wheels = tmp_path_factory.mktemp("wheels")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)]
    subprocess.run(wheel, check=True, timeout=BUILD_S)
    name, clean = f"vnc-use-test-{os.getpid()}", f"localhost/vnc-use-test-clean:{os.getpid()}"
    prepare = ["run", "--name", name, "-v", f"{wheels}:/wheels:ro", "-e", "DEBIAN_FRONTEND=noninteractive"]
    try:
        engine(*prepare, *as_here(), BASE, "sh", "-ec", PREPARE)
        engine("commit", "-q", "-c", "ENV PATH=/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", name, clean)
        yield clean
    finally:
        engine("rm", "-f", name)
        subprocess.run([ENGINE, "rmi", "-f", clean], capture_output=True, check=False)


def engine(*words: str) -> None:
    done = subprocess.run([ENGINE, *words], capture_output=True, text=True, errors="replace", timeout=BUILD_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def as_here() -> list[str]:
    """The options with which a container reaches the package index as this machine does."""
    options = ["--network", "host"]
    if certificates := os.environ.get("PIP_CERT"):
        options += ["-v", f"{certificates}:/certificates.crt:ro", "-e", "PIP_CERT=/certificates.crt"]
    return options


@pytest.fixture
def recorded(image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of `cua-vnc init` for three CIs, and a recording that a person made in the image."""
    project = tmp_path_factory.mktemp("project")
    files = Project(project, read_target(LINE, "", project), "Type apples").plan(ci="github", policy=False)
    files[".gitlab/desktop-tests.yml"] = (EXAMPLES / "ci" / "gitlab.yml").read_text("utf-8")
    files["Jenkinsfile"] = (EXAMPLES / "ci" / "Jenkinsfile").read_text("utf-8")
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text or "")
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    environment = {**os.environ, "CI": ""}
    process = subprocess.Popen(recording(image, project), cwd=project, env=environment, text=True, **pipes)
    code, said = attend(process, type_apples)
    assert code == 0, said
    assert "1 recording written" in said
    git = ["git", "-c", "user.name=us", "-c", "user.email=us@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    return project


def recording(image: str, project: Path) -> list[str]:
    """The command that docs/ci.md has, for the image that is here, and without a terminal."""
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    (command,) = re.findall(r"^podman run .*$", page, re.MULTILINE)
    argv = shlex.split(command.replace("$PWD", str(project)))
    assert argv[1:6] == ["run", "--rm", "-it", "--network", "host"]
    at = argv.index("python:3.12-bookworm")
    return [ENGINE, "run", "--rm", "-i", *as_here(), *argv[6:at], image, *argv[at + 1 :]]


def type_apples(person: Person) -> None:
    person.type("apples")


@dataclass
class Container(Machine):
    """A machine that is a container of the image, with this clone at the same path, and without any fake server."""

    image: str = ""

    def __post_init__(self) -> None:
        self.directory.mkdir()
        subprocess.run(["git", "clone", "-q", str(self.origin), str(self.clone)], check=True)

    def run(self, shell: tuple[str, ...], script: str, variables: Mapping[str, str]) -> int:
        named = [word for name, value in {"CI": "true", **variables}.items() for word in ("-e", f"{name}={value}")]
        place = ["-v", f"{self.directory}:{self.directory}", "-w", str(self.clone)]
        command = [ENGINE, "run", "--rm", *as_here(), *place, *named, self.image, *shell, script]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=BUILD_S
        )
        self.said += done.stdout
        return done.returncode


JOBS: dict[str, Callable[[Machine], int]] = {
    "github": lambda job: run_github(job, ".github/workflows/desktop-tests.yml", "replay", {}),
    "gitlab": lambda job: run_gitlab(job, ".gitlab/desktop-tests.yml", "replay-desktop-tests", {}),
    "jenkins": lambda job: run_jenkins(job, "Jenkinsfile", "Replay", {}),
    "action": lambda job: run_action(
        job,
        ROOT / ".github" / "actions" / "replay" / "action.yml",
        {"packages": "tigervnc-standalone-server openbox fonts-dejavu-core xterm"},
    ),
}


def test_each_job_replays_in_clean_debian_what_person_recorded_there(
    tmp_path: Path, image: str, recorded: Path
) -> None:
    for name, job in JOBS.items():  # in one test: the image takes minutes to make
        machine = Container(tmp_path / name, recorded, image=image)
        assert job(machine) == 0, machine.said
        assert "1 run planned by recording" in machine.said
        assert (machine.clone / "report.html").exists()
        if name in ("github", "action"):
            assert "[The report](https://github.test/page)" in (machine.directory / "summary.md").read_text()
        if name == "github":
            assert (machine.clone / "replay.html").exists()
