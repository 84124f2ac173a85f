"""Checks of a project that was just set up, as findings of `cua-vnc doctor`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_vnc_use.cli.doctor import Finding
from pytest_vnc_use.cli.init.target import Target
from pytest_vnc_use.plain_text import line

_COLLECTS_S = 60.0


def program_found(target: Target) -> Iterator[Finding]:
    """Check that the program under test is there, where it is started on this machine."""
    if target.kind not in ("xvnc", "qt", "page"):
        return
    program = shlex.split(target.app)[0]
    if found := shutil.which(program):
        yield Finding("ok", "program", found)
    else:
        yield Finding("FAIL", "program", f"{program!r} is no program on PATH; install it, or write its path")


def collected(test: str, folder: Path) -> Finding:
    """Check that pytest finds the test, with the project's own configuration."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", test]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COLLECTS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("FAIL", "test", f"pytest has not collected {test} within {_COLLECTS_S:g} s")
    if done.returncode == 0:
        return Finding("ok", "test", f"pytest finds {test}")
    lines = [each for each in (done.stdout + done.stderr).splitlines() if each.strip()]
    said = next((each for each in lines if each.startswith(("E  ", "ERROR"))), lines[-1] if lines else "nothing")
    return Finding("FAIL", "test", f"pytest does not find {test}: {line(said)}")
