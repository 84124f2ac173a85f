"""What a desktop's programs inherit from the tests, who may keep it alive, and what cannot be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.processes.session import Session, remove_leftovers
from pytest_vnc_use.errors import DesktopError
from support.leftovers import is_running, processes_naming
from support.vnc_servers import wait_for


def test_the_tests_own_secrets_are_kept_from_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "VNC_USE_PASSWORD", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "not for the program")
    monkeypatch.setenv("SHOP_MODE", "test")
    session = Session({"SHOP_SIZE": "3"})
    session.stop()
    assert "not for the program" not in session.environment.values()
    assert (session.environment["SHOP_MODE"], session.environment["SHOP_SIZE"]) == ("test", "3")


COMING_AND_GOING = """
import os
while not os.path.exists("end"):
    for change in (os.mkdir, os.rmdir):
        for number in range(200):
            change(f"pytest-vnc-use-{number}")
"""


def test_a_folder_of_locks_may_go_while_leftovers_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", COMING_AND_GOING], cwd=tmp_path):
        try:
            wait_for(lambda: any(tmp_path.iterdir()), "no folder came")
            for _ in range(200):
                remove_leftovers()
        finally:
            (tmp_path / "end").touch()


def test_no_link_leads_to_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write there could plant one that leads to another folder of this user."""
    kept = tmp_path / "home" / "project" / "vnc-use-kept"
    kept.mkdir(parents=True)
    (kept / "lock").touch()
    (kept / "data").write_text("precious")
    temporary = tmp_path / "temporary"
    (temporary / "pytest-vnc-use-1").mkdir(parents=True)
    (temporary / "pytest-vnc-use-evil").symlink_to(tmp_path / "home")
    (temporary / "pytest-vnc-use-1" / "evil").symlink_to(kept.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_leftovers()
    assert (kept / "data").read_text() == "precious"


@pytest.mark.slow
def test_a_guard_that_is_stopped_holds_nobody_up() -> None:
    session = Session({})
    guards: list[int] = []
    # a process has its command line a moment after it was started
    wait_for(lambda: guards.extend(processes_naming(session.folder)) or guards, "no guard came")
    (guard,) = guards
    os.kill(guard, signal.SIGSTOP)
    session.stop()
    assert not is_running(guard)


# --- a child that a test forks ---------------------------------------------------------------------------------------

FORKING = """
import multiprocessing, os, signal, sys
from pytest_vnc_use.desktops.processes.session import Session

session = Session({{}})
session.start("program", ["sleep", "300"])

def act_in_child():
    {in_child}
    os.write(1, b"%d\\n" % os.getpid())
    signal.pause()

multiprocessing.get_context("fork").Process(target=act_in_child, daemon=True).start()
os.write(1, os.fsencode(session.folder) + b"\\n")
sys.stdin.readline()
{end}
"""


@contextmanager
def forked(end: str, in_child: str = "pass") -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A process with a session and a forked child, which outlives it; the child's id, the session's folder."""
    program = FORKING.format(end=end, in_child=in_child)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = sorted(process.stdout.readline().strip() for _ in range(2))
        child, folder = int(told[1]), Path(told[0])
        try:
            yield process, child, folder
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "session.stop(); os._exit(0)"], ids=str)
def test_a_forked_child_keeps_nothing_alive(end: str) -> None:
    with forked(end) as (process, child, folder):
        assert "sleep" in processes_naming(folder).values()
        assert process.stdin is not None
        print("go on", file=process.stdin, flush=True)
        process.wait(timeout=10)
        wait_for(lambda: not folder.exists() and not processes_naming(folder), "the end of the session")
        os.kill(child, 0)


def test_a_forked_child_ends_nothing() -> None:
    """As one does that leaves a test by an exception, and goes on as if it were pytest."""
    with forked("pass", in_child="session.start('child\\'s', ['sleep', '300']); session.stop()") as (_, _, folder):
        assert sorted(processes_naming(folder).values()) == ["sh", "sleep", "sleep"]


# --- what cannot be ended --------------------------------------------------------------------------------------------

WITH_ANOTHER_USERS_PROGRAM = """
import os
from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.session import Session
from pytest_vnc_use.errors import DesktopError

cleanup.GRACE_S = 0.3
os.setresuid(54321, 54321, 0)
session = Session({})
own = session.start("viewer", ["sleep", "300"])
os.setresuid(0, 0, 0)
others = session.start("program", ["sleep", "300"])  # as sudo does
os.setresuid(54321, 54321, 54321)
print(others.popen.pid, flush=True)
for wish in (lambda: session.end(others), session.reset, session.stop, session.stop):
    try:
        wish()
        print("done")
    except DesktopError as error:
        print(error)
print(own.exit_code, others.exit_code, session.folder.exists())
"""


def test_another_users_process_is_named_and_nothing_else_stays() -> None:
    if os.getuid() != 0:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs root, to be two users")
    command = [sys.executable, "-c", WITH_ANOTHER_USERS_PROGRAM]
    pid, *told = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30).stdout.splitlines()
    os.kill(int(pid), signal.SIGKILL)
    problem = (
        f"cannot end process {pid} ('sleep'): it belongs to another user, or it hangs; end it with: sudo kill -9 {pid}"
    )
    assert told == [problem, problem, problem, "done", "-15 None False"]


# --- the folder of the logs, which is the program's to remove --------------------------------------------------------


@pytest.fixture
def session() -> Iterator[Session]:
    """One without processes, stopped after the test."""
    session = Session({})
    yield session
    session.stop()


def test_a_program_that_removes_everything_is_followed_by_another(session: Session) -> None:
    session.run(["sh", "-c", "rm -rf *"], timeout_s=10)
    process = session.start("program", ["echo", "hello"])
    process.popen.wait(timeout=10)
    assert session.logs() == {"program": "hello\n"}


@pytest.mark.parametrize("removal", ["rm -r logs; touch logs", "rm -r $PWD"])
def test_where_no_log_can_be_kept_that_is_told(session: Session, removal: str) -> None:
    session.start("program", ["echo", "hello"]).popen.wait(timeout=10)
    session.run(["sh", "-c", removal], timeout_s=10)
    assert session.logs() == {"program": ""}
    with pytest.raises(DesktopError, match=r"^cannot keep the output in '.*/logs/shop.txt': .*; leave 'logs' in"):
        session.start("shop", ["echo", "hello"])
