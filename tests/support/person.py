"""A person who records tests by demonstration: reads what pytest asks for, works in a viewer, and answers yes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

from pytest_vnc_use.backends.vnc import VNCController, connect

TIMEOUT_S = 120


def demonstrate(directory: Path, show: Callable[[VNCController], None], *arguments: str) -> tuple[int, str]:
    """Return pytest's exit code and output; `show` does each task."""
    return attend([sys.executable, "-m", "pytest", "--vnc-record=manual", *arguments], directory, show)


def attend(command: Sequence[str], directory: Path, show: Callable[[VNCController], None]) -> tuple[int, str]:
    """Return the exit code and output of a command that runs pytest; `show` does each task."""
    with subprocess.Popen(
        command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            said = _attend(process.stdout, process.stdin, show)
        except BaseException:
            process.kill()
            raise
        return process.wait(TIMEOUT_S), said


def _attend(told: IO[str], keyboard: IO[str], show: Callable[[VNCController], None]) -> str:
    lines = []
    for line in told:
        lines.append(line)
        if "vncviewer" in line:
            with closing(connect(line.split()[-1])) as viewer:
                viewer.settle()
                show(viewer)
                viewer.settle()
        elif line.startswith("The screen shows that"):
            keyboard.write("yes\n")
            keyboard.flush()
    return "".join(lines)
