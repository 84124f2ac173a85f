"""The shell steps of CI files, taken out and run as a CI runs them: a fresh clone, home
and environment.

A virtual environment of its own sees the tests' packages. `apt-get`, `gh` and pip only
write down what they were asked for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TIMEOUT_S = 140
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
SH = ("sh", "-e", "-c")
CUA_VNC = '#!/bin/sh\nexec python -m pytest_vnc_use.cli "$@"\n'
PIP = """\
import os, sys

with open(os.environ["CALLS"], "a") as calls:
    print("pip", *sys.argv[1:], file=calls)
"""
STUB = (
    '#!/bin/sh\necho "$(basename "$0") $*" >>"$CALLS"\ncase "$*" in "pr list"*) echo 0'
    " ;; esac\n"
)


@dataclass
class Machine:
    """A clean machine for one job on a branch: `clone` is the project, `said` all that
    its steps printed.
    """

    directory: Path
    origin: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    branch: str = "main"
    said: str = ""

    def __post_init__(self) -> None:
        for name in ("home", "bin"):
            (self.directory / name).mkdir(parents=True)
        for name, script in (("apt-get", STUB), ("gh", STUB), ("cua-vnc", CUA_VNC)):
            program = self.directory / "bin" / name
            program.write_text(script)
            program.chmod(0o755)
        subprocess.run(
            ["git", "clone", "-q", "--branch", self.branch, self.origin, self.clone],
            check=True,
        )
        venv.create(self.directory / "venv", symlinks=True, with_pip=False)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = self.directory / "venv" / "lib" / version / "site-packages"
        (packages / "pip.py").write_text(PIP)
        (packages / "tests.pth").write_text(
            "import site; site.addsitedir({!r})\n".format(
                sysconfig.get_paths()["purelib"]
            )
        )

    @property
    def clone(self) -> Path:
        return self.directory / "clone"

    @property
    def calls(self) -> list[str]:
        calls = self.directory / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def run(
        self, shell: tuple[str, ...], script: str, variables: Mapping[str, str]
    ) -> int:
        path = (
            f"{self.directory / 'bin'}:{self.directory / 'venv' / 'bin'}:/usr/bin:/bin"
        )
        known = {
            "PATH": path,
            "HOME": str(self.directory / "home"),
            "CI": "true",
            "CALLS": str(self.directory / "calls"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "VNC_USE_WATCH": "false",
            "VNC_USE_REHEARSE": "0",
            **{
                name: os.environ[name]
                for name in ("PYTEST_ADDOPTS", "PYTHONPYCACHEPREFIX")
                if name in os.environ
            },
        }
        done = subprocess.run(
            [*shell, script],
            cwd=self.clone,
            env={**known, **self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self.said += done.stdout
        return done.returncode


def empty_machine(directory: Path) -> Machine:
    origin = directory / "origin"
    subprocess.run(["git", "init", "-q", "-b", "main", str(origin)], check=True)
    identity = ["-c", "user.name=us", "-c", "user.email=us@example.com"]
    subprocess.run(
        ["git", *identity, "commit", "-q", "--allow-empty", "-m", "1"],
        cwd=origin,
        check=True,
    )
    return Machine(directory / "machine", origin)


def run_github(
    machine: Machine, file: str, job: str, secrets: Mapping[str, str]
) -> int:
    """Run the `run:` steps of a job, until one fails; then those that run always."""

    def value(text: object) -> str:
        known = {
            **{
                f"${{{{ secrets.{name} }}}}": secret for name, secret in secrets.items()
            },
            "${{ github.token }}": "token",
            "${{ steps.report.outputs.artifact-url }}": "URL",
            "${{ steps.page.outputs.artifact-url }}": "https://github.test/page",
            "${{ steps.page.outputs.artifact-url || steps.report.outputs.artifact-url }}": (
                "https://github.test/page"
            ),
            "${{ github.ref_name }}": machine.branch,
        }
        return known.get(str(text), "" if "secrets." in str(text) else str(text))

    workflow = yaml.safe_load((machine.clone / file).read_text())
    outcomes: dict[str, int] = {}
    failed = 0
    for step in workflow["jobs"][job]["steps"]:
        text = step.get("if", "")
        condition = re.fullmatch(r"steps\.(\w+)\.outcome == 'failure'", text)
        has_no_runs = (
            "hashFiles('**/runs/vnc-results.json')" in text
            and not (machine.clone / "runs").is_dir()
        )
        is_skipped = failed and "always()" not in text
        if (
            is_skipped
            or "run" not in step
            or has_no_runs
            or (condition and not outcomes[condition[1]])
        ):
            continue
        variables = {name: value(text) for name, text in step.get("env", {}).items()}
        variables |= {
            "GITHUB_STEP_SUMMARY": str(machine.directory / "summary.md"),
            "GITHUB_WORKSPACE": str(machine.clone),
        }
        code = machine.run(
            BASH if step.get("shell") == "bash" else SH, step["run"], variables
        )
        outcomes[step.get("id", "")] = code
        if not step.get("continue-on-error"):
            failed = failed or code
    return failed


def run_gitlab(
    machine: Machine, file: str, job: str, secrets: Mapping[str, str]
) -> int:
    """Run a job, and what it extends, as the runner does: all lines are one script."""
    jobs: dict[str, Any] = yaml.safe_load((machine.clone / file).read_text())
    whole = {"before_script": [], **jobs.get(jobs[job].get("extends"), {}), **jobs[job]}
    variables = {
        "CI_SERVER_HOST": "gitlab.test",
        "CI_PROJECT_PATH": "team/shop",
        "CI_COMMIT_REF_NAME": machine.branch,
        "CI_JOB_URL": "https://gitlab.test/team/shop/-/jobs/1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{machine.origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": (
            f"https://heal:{secrets.get('HEAL_TOKEN', '')}@gitlab.test/team/shop.git"
        ),
    }
    return machine.run(
        BASH,
        "\n".join([*whole["before_script"], *whole["script"]]),
        {**variables, **secrets},
    )


def run_jenkins(
    machine: Machine, file: str, stage: str, secrets: Mapping[str, str]
) -> int:
    """Run the scripts of the stage Install, and of another one; a missing credential
    fails its stage.
    """
    source = (machine.clone / file).read_text()
    stages = dict(
        zip(*[iter(re.split(r"stage\('([^']+)'\)", source)[1:])] * 2, strict=True)
    )
    known: dict[str, str] = {"BRANCH_NAME": machine.branch, "BUILD_URL": "URL"}
    for name in ("Install", stage):
        bound = re.findall(r"credentialsId: '(\w+)', variable: '(\w+)'", stages[name])
        if missing := [key for key, _ in bound if key not in secrets]:
            machine.said += (
                f"ERROR: Could not find credentials entry with ID '{missing[0]}'\n"
            )
            return 1
        variables = {**known, **{variable: secrets[key] for key, variable in bound}}
        for script in re.findall(r"sh '''\n(.*?)'''", stages[name], re.DOTALL):
            code = machine.run(
                SH, textwrap.dedent(script).replace("\\\\", "\\"), variables
            )
            if code and "catchError" not in stages[name]:
                return code
    return 0


Runner = Callable[[Machine, str, str, Mapping[str, str]], int]
