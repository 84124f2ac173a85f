"""What the plugin costs at the start of a session, and where no bytecode is kept.

    python tests/bench/run.py session [--rounds 9]
    python tests/bench/run.py session --repeat 30 --load 8

The plugin is installed, not editable, so that pytest rewrites its modules. A replay's
start is the time from the process's to that of the test's call; its ratio is to pytest
without the plugin, whose fixture starts the same program. Bytecode is kept; or none of
the plugin, as in an image in which it cannot be written; or none at all.

With --repeat so many sessions of one replay run without bytecode, with `-n 2`, beside a
load of busy processes; it fails where one of them did. They look for garbage often, and
let other threads run then: were modules parsed in two threads, most sessions would end
in CPython 3.11's SystemError.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from ratios import head, machine, row

from support.paths import ROOT
from support.till_project import project_in
from support.tills import TILL

COMMAND = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
LOADED = {"html", "html_fixtures", "metadata", "xdist", "xdist.looponfail", "vnc_use"}
"""The entry points that are loaded: this plugin and what it needs, and pytest-xdist."""
OTHERS = [
    f"-pno:{plugin.name}"
    for plugin in entry_points(group="pytest11")
    if plugin.name not in LOADED
]
APP = shlex.join([sys.executable, str(TILL)])
DESKTOP = ("--vnc-server=qt", f"--vnc-app={APP}", "--vnc-screen-size=800x400")
REPLAY = (*DESKTOP, "--vnc-record=replay")
UNWRITTEN = {"PYTHONDONTWRITEBYTECODE": "1"}
CALLED = """
import pathlib, time

def pytest_runtest_call():
    pathlib.Path("called.txt").write_text(str(time.monotonic()))
"""
COLLECTING = """
import gc, sys, time

sys.setswitchinterval(1e-5)
gc.set_threshold(300, 5, 5)
gc.callbacks.append(lambda phase, info: time.sleep(0))
"""
PLAIN = f"""
import os, socket, subprocess, time
import pytest

@pytest.fixture
def till(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    platform = f"vnc:size=800x400:port={{address[1]}}"
    environment = {{**os.environ, "QT_QPA_PLATFORM": platform}}
    process = subprocess.Popen({shlex.split(APP)!r}, cwd=tmp_path, env=environment)
    while True:
        try:
            with socket.create_connection(address) as connection:
                assert connection.recv(4) == b"RFB "
                break
        except ConnectionRefusedError:
            time.sleep(0.02)
    yield
    process.kill()
    process.wait()

def test_till(till): pass
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--load", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="session-") as made:
        directory = Path(made)
        install(directory / "installed")
        project = directory / "project"
        project.mkdir()
        project_in(project)
        session_s(directory, "project", UNWRITTEN, *DESKTOP, "--vnc-record=auto")
        (project / "conftest.py").write_text(CALLED)
        plain = directory / "plain"
        plain.mkdir()
        (plain / "pytest.ini").touch()
        (plain / "conftest.py").write_text(CALLED)
        (plain / "test_till.py").write_text(PLAIN)
        if given.repeat:
            (project / "conftest.py").write_text(COLLECTING)
            with load(given.load):
                return repeat(directory, given.repeat)
        measure(directory, given.rounds)
    return 0


def install(directory: Path) -> None:
    """Install the plugin as a wheel does, without bytecode."""
    no_bytecode = shutil.ignore_patterns("__pycache__")
    package = directory / "pytest_vnc_use"
    shutil.copytree(ROOT / package.name, package, ignore=no_bytecode)
    info = directory / "pytest_vnc_use-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: pytest-vnc-use\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[pytest11]\nvnc_use = pytest_vnc_use.plugin\n"
    )
    files = [file.relative_to(directory) for file in package.rglob("*.py")]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def measure(directory: Path, rounds: int) -> None:
    collected = directory / "collected"
    collected.mkdir()
    (collected / "pytest.ini").touch()
    for number in range(10):
        tests = (f"def test_{test}(): pass\n" for test in range(10))
        (collected / f"test_{number}.py").write_text("\n".join(tests))
    print(f"{machine()}, {rounds} rounds, medians\n")
    print(head("session", "bytecode", "s", "without the plugin, s", "ratio"))
    nowhere = {**UNWRITTEN, "PYTHONPYCACHEPREFIX": str(directory / "nothing")}
    for bytecode, environment in (
        ("none of the plugin", UNWRITTEN),
        ("none at all", nowhere),
        ("kept", {}),
    ):
        if bytecode == "kept":
            session_s(directory, "project", environment, *REPLAY)
        pairs = []
        for _ in range(rounds):
            ours_s = start_s(directory, "project", environment, *REPLAY)
            plain_s = start_s(directory, "plain", environment, "-pno:vnc_use")
            pairs.append((ours_s, plain_s))
        print_medians("start of a replay", bytecode, pairs)
    pairs = []
    for _ in range(rounds):
        ours_s = session_s(directory, "collected", {}, "--collect-only")
        plain_s = session_s(
            directory, "collected", {}, "--collect-only", "-pno:vnc_use"
        )
        pairs.append((ours_s, plain_s))
    print_medians("`--collect-only` of 100 tests", "kept", pairs)


def print_medians(what: str, bytecode: str, pairs: list[tuple[float, float]]) -> None:
    ours_s, plain_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(ours / plain for ours, plain in pairs)
    cells = (f"{ours_s:.2f}", f"{plain_s:.2f}", f"{ratio:.2f}")
    print(row(what, bytecode, *cells), flush=True)


def start_s(
    directory: Path, name: str, environment: Mapping[str, str], *options: str
) -> float:
    """Return the seconds from a session's start to the call of its only test."""
    started_at = time.monotonic()
    session_s(directory, name, environment, *options)
    return float((directory / name / "called.txt").read_text()) - started_at


def session_s(
    directory: Path, name: str, environment: Mapping[str, str], *options: str
) -> float:
    """Return the seconds that a session takes."""
    started_at = time.monotonic()
    done = run(directory, name, environment, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - started_at


def run(
    directory: Path, name: str, environment: Mapping[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    env = {key: text for key, text in os.environ.items() if "PYTHON" not in key}
    env |= {
        "PYTHONPATH": str(directory / "installed"),
        "CI": "",
        "VNC_USE_REHEARSE": "0",
    }
    env |= environment
    return subprocess.run(
        [*COMMAND, *OTHERS, *options],
        cwd=directory / name,
        env=env,
        capture_output=True,
        text=True,
    )


@contextmanager
def load(number: int) -> Iterator[None]:
    """Keep so many processes busy."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(number)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def repeat(directory: Path, times: int) -> int:
    """Return how many of the sessions failed."""
    failed = 0
    for number in range(1, times + 1):
        done = run(directory, "project", UNWRITTEN, "-n2", *REPLAY)
        if done.returncode:
            failed += 1
            print(f"session {number}:", done.stdout, sep="\n", flush=True)
    print(f"{machine()}: {failed} of {times} sessions failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
