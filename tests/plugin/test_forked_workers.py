"""`vnc_fork_workers`: the workers of pytest-xdist share what they import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.plugin import worker_launcher

IMPORTED_AHEAD = """
import os, sys, threading
import pytest


@pytest.mark.parametrize("number", range(2))
def test_it(number):
    assert "pytest_vnc_use.loop.graph" in sys.modules
    assert "twisted.internet.reactor" not in sys.modules  # its epoll would be shared
    assert "pytest_vnc_use.backends.rfb.reactor" not in sys.modules  # likewise
    assert "numpy.random" not in sys.modules  # its numbers would be the same in all workers
    assert threading.active_count() == 1
    print(f"in {os.getpid()}, of {os.getppid()}.")
"""
CRASHES = """
import os


def test_before():
    assert os.environ["PYTEST_XDIST_WORKER"] == "gw0"


def test_crash():
    os._exit(3)


def test_after():
    assert os.environ["PYTEST_XDIST_WORKER"] == "gw1"
"""


WITHOUT_LANGGRAPH = """
import sys


def test_it():
    assert "pytest_vnc_use.loop.runner" in sys.modules
    assert "langgraph" not in sys.modules
"""
AS_USUAL = """
import sys


def test_it():
    assert "pytest_vnc_use.loop.runner" not in sys.modules
"""


def session(
    folder: Path, text: str, *options: str, server: str = "127.0.0.1::1", **env: str
) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text(f"[pytest]\nvnc_server = {server}\naddopts = -p no:pytest-vnc\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, **env}
    del environment["VNC_USE_FORK_WORKERS"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_workers_are_forked_from_one_process_and_nothing_is_left(tmp_path: Path) -> None:
    temporary = tmp_path / "t"
    temporary.mkdir()
    ended = session(tmp_path, IMPORTED_AHEAD, "-n2", "--dist=each", TMPDIR=str(temporary), CI="")
    told = [line.split() for line in ended.stdout.splitlines() if line.startswith("in ")]
    assert "4 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "warning" not in ended.stdout
    assert len({words[1] for words in told}) == 2
    servers = {words[3].rstrip(".") for words in told}
    assert len(servers) == 1
    assert not Path("/proc", *servers).exists()
    assert not list(temporary.glob("vnc-use-*"))


@pytest.mark.slow
def test_a_worker_that_crashed_is_forked_anew(tmp_path: Path) -> None:
    ended = session(tmp_path, CRASHES, "-n1")
    assert "worker 'gw0' crashed" in ended.stdout, ended.stdout + ended.stderr
    assert "1 failed, 2 passed" in ended.stdout


@pytest.mark.slow
def test_where_no_model_is_asked_workers_do_not_import_langgraph(tmp_path: Path) -> None:
    ended = session(tmp_path, WITHOUT_LANGGRAPH, "-n1", "--vnc-record=replay", "-pno:langsmith_plugin")
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.slow
def test_without_a_server_in_the_settings_workers_start_as_usual(tmp_path: Path) -> None:
    ended = session(tmp_path, AS_USUAL, "-n1", "-pno:langsmith_plugin", server="")
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


CHANGED_LATE = """
import os


def pytest_xdist_setupnodes(config, specs):
    os.environ["SET_LATE"] = "yes"
    os.makedirs("elsewhere")
    os.chdir("elsewhere")
"""
SEES_IT = """
import os
import sys


def test_it():
    assert "pytest_vnc_use.loop.runner" in sys.modules
    assert os.environ["SET_LATE"] == "yes"
"""


@pytest.mark.slow
def test_what_a_conftest_sets_late_reaches_forked_workers_too(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CHANGED_LATE)
    ended = session(tmp_path, SEES_IT, "-n1", str(tmp_path / "test_it.py"))
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_without_a_server_the_launcher_becomes_the_worker(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", worker_launcher.__file__, "nobody", "-u", "-c"]
    code = "import os, signal; print(os.getpid(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    with subprocess.Popen([*command, code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.communicate()[0].split() == [str(worker.pid), "True"]


def test_the_worker_dies_with_its_launcher() -> None:
    from pytest_vnc_use.plugin.forked_workers import _end, _start_server

    name = f"vnc-use-{os.getpid()}"
    server = _start_server(name, "pytest_vnc_use.loop.runner")
    command = [sys.executable, "-I", "-S", worker_launcher.__file__, name, "-u", "-c"]
    code = "import signal; print('runs', flush=True); signal.pause()"
    with subprocess.Popen([*command, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        assert worker.stdout.readline() == "runs\n"
        worker.send_signal(signal.SIGKILL)
        assert worker.stdout.read() == ""
    _end(server)
    assert server.returncode == 0


def test_a_server_that_was_stopped_does_not_hold_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_vnc_use.plugin import forked_workers

    monkeypatch.setattr(forked_workers, "LONGEST_END_S", 0.1)
    server = forked_workers._start_server(f"vnc-use-stopped-{os.getpid()}", "pytest_vnc_use.loop.runner")
    server.send_signal(signal.SIGSTOP)
    forked_workers._end(server)
    assert server.returncode == -signal.SIGKILL
