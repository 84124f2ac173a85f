"""A clean machine for the shell steps of CI files: a fresh clone, home and
environment.

A virtual environment of its own sees the tests' packages. `apt-get`, `gh` and pip only
write down what they were asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
