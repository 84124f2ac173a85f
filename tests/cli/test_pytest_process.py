"""pytest in a process of its own, stopped from outside."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_vnc_use.cli.pytest_process import Suite
from pytest_vnc_use.errors import SettingsError
from support.vnc_servers import wait_for

ENDLESS = """\
import os, time
from pathlib import Path
import pytest

@pytest.fixture
def desktop():
    yield
    Path("ended.txt").touch()

def test_endless(desktop):
    Path("pid.txt").write_text(str(os.getpid()))
    for _ in range(600):  # a signal just before one long sleep would be noticed after it
        time.sleep(0.1)
"""


@pytest.mark.slow
def test_stopped_suite_ends_fixtures_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS, encoding="utf-8")
    suite = Suite(tmp_path, tmp_path / "runs", [], "", {})
    pid = tmp_path / "pid.txt"
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(suite.run, 60.0)
        wait_for(
            lambda: pid.exists() and pid.read_text(), "the test's start", timeout_s=30
        )
        suite.stop()
        assert ended.exception(timeout=30) is not None
    assert (tmp_path / "ended.txt").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_suite_stopped_before_start_ends(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS, encoding="utf-8")
    suite = Suite(tmp_path, tmp_path / "runs", [], "", {})
    suite.stop()
    with ThreadPoolExecutor() as threads:
        assert threads.submit(suite.run, 60.0).exception(timeout=20) is not None
    assert not (tmp_path / "pid.txt").exists()


@pytest.mark.parametrize(
    "path",
    [
        "@args.txt",
        "-pevil",
        "--rootdir=/",
        "../test_it.py",
        "/etc/test_it.py::test",
        "a\0b.py",
    ],
)
def test_path_outside_directory_is_rejected(tmp_path: Path, path: str) -> None:
    (tmp_path / "args.txt").write_text("/etc/test_it.py\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="a test path must be in the directory"):
        Suite(tmp_path, tmp_path / "runs", [path], "", {})
