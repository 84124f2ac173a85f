"""How long the end of a session takes: from its last test to pytest's exit; and all of
the session, as each test writes the page of its run.

    python tests/bench/run.py report [TESTS]

TESTS (500 by default) have a run each, like that of an example, with pixels of its own.
The ratios are to pytest-html's report of as many tests without runs and this plugin.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from ratios import head, machine, row, session

from pytest_vnc_use.backends.pixels import encode_png
from support.forked_python import WITHOUT_LARGE_PLUGINS
from support.paths import EXAMPLES, ROOT

QUIET = ("-q", "-pno:cacheprovider", "-pno:pytest-vnc", *WITHOUT_LARGE_PLUGINS.split())
CONFTEST = """
import pathlib, time
import pytest
from pytest_vnc_use.plugin.state import state_of

RUNS = sorted(path.parent for path in pathlib.Path("runs").glob("*/trace.jsonl"))

@pytest.fixture
def run(request):
    state_of(request.node).runs = [RUNS[request.param]]

def pytest_runtest_logfinish():
    pathlib.Path("ended.txt").write_text(str(time.monotonic()))
"""
SESSIONS = {
    "without runs, pytest-html's report": (
        "test_plain.py --html=report.html -pno:vnc_use"
    ),
    "with runs, their pages": "test_runs.py --vnc-runs-dir=runs",
    "the same with two workers": "test_runs.py --vnc-runs-dir=runs -n2",
    "both": "test_runs.py --vnc-runs-dir=runs --html=report.html",
}
TESTS = """
import pytest

@pytest.mark.parametrize("run", range({}), indirect={})
def test_it(run): pass
"""


def main(count: int = 500) -> None:
    with tempfile.TemporaryDirectory(prefix="report-") as made:
        example = replayed(Path(made, "example"))
        project = Path(made, "project")
        project.mkdir()
        for number in range(count):
            copy_run(example, project / "runs", number)
        (project / "pytest.ini").touch()
        (project / "conftest.py").write_text(CONFTEST)
        (project / "test_runs.py").write_text(TESTS.format(count, True))
        (project / "test_plain.py").write_text(TESTS.format(count, False))
        print(f"{machine()}\n")
        print(head(f"a session of {count} tests", "end, s", "ratio", "all, s", "ratio"))
        base_s: list[float] = []
        for name, options in SESSIONS.items():
            times_s = session_s(project, *shlex.split(options))
            base_s = base_s or times_s
            cells = []
            for time_s, base in zip(times_s, base_s, strict=True):
                cells += [f"{time_s:.2f}", f"{time_s / base:.1f}"]
            print(row(name, *cells))


def replayed(directory: Path) -> Path:
    """Replay an example; return the directory of its run."""
    shutil.copytree(EXAMPLES, directory / "examples")
    session(directory, "examples", *QUIET, "-k", "order_is_placed", path=ROOT)
    runs = [trace.parent for trace in directory.glob("runs/*/trace.jsonl")]
    return max(runs, key=lambda run: len([*run.glob("screens/*.png")]))


def copy_run(example: Path, runs_dir: Path, number: int) -> None:
    """Copy the run, with another tint and so with other images."""
    run = runs_dir / f"{example.name}-{number:04}"
    shutil.copytree(example, run, ignore=shutil.ignore_patterns("*.html", "page"))
    trace = run / "trace.jsonl"
    text = trace.read_text("utf-8").replace(example.name, run.name)
    for file in [*run.glob("screens/*.png")]:
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("RGBX")).view(np.uint32)[..., 0]
        png = encode_png(pixels ^ np.uint32(number))
        digest = hashlib.sha256(png).hexdigest()
        file.unlink()
        file.with_stem(digest).write_bytes(png)
        text = text.replace(file.stem, digest)
    trace.write_text(text, "utf-8")


def session_s(project: Path, *options: str) -> list[float]:
    """Return the seconds from the end of the last test to that of pytest, and those of
    the whole session.
    """
    command = [sys.executable, "-m", "pytest", *QUIET, *options]
    started_at = time.monotonic()
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    exited_at = time.monotonic()
    assert done.returncode == 0, done.stdout + done.stderr
    ended_at = float((project / "ended.txt").read_text())
    return [exited_at - ended_at, exited_at - started_at]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
