"""What a desktop's program starts and prints: none of it outlives the desktop, none of it fills the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vnc_use.desktops import supervisor
from pytest_vnc_use.desktops.session import Session, remove_leftovers
from pytest_vnc_use.errors import DesktopError
from support.leftovers import is_running, processes_naming
from support.vnc_servers import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="desktops are started on Linux only")

ESCAPE = "env -i setsid sh -c 'echo $$ > escaped; exec sleep 1000'"
"""Leaves its session and its environment behind; its parent ends at once."""
SHELL = "exec 2>&1; {escape} & wait_for_it() {{ while [ ! -s escaped ]; do sleep 0.02; done; }}; wait_for_it; "


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session()
    yield session
    session.stop()


def escaped(session: Session) -> int:
    file = session.home / "escaped"
    wait_for(lambda: file.exists() and file.read_text().strip(), "it")
    return int(file.read_text())


@pytest.mark.parametrize("script", ["exit 0", "exec sleep 1000"], ids=["ended program", "running program"])
@pytest.mark.parametrize("end", ["stop", "end_program"])
def test_escaped_process_ends_with_program(session: Session, script: str, end: str) -> None:
    session.start("program", ["sh", "-c", SHELL.format(escape=ESCAPE) + script])
    pid = escaped(session)
    assert is_running(pid)
    getattr(session, end)()
    assert not is_running(pid)


@pytest.mark.slow
def test_process_deaf_to_sigterm_is_killed(session: Session) -> None:
    deaf = "env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > escaped; while :; do sleep 0.1; done' & "
    session.start("program", ["sh", "-c", deaf + "trap '' TERM; while :; do sleep 0.1; done"])
    pid = escaped(session)
    session.stop()
    assert not is_running(pid)


def test_program_leads_its_own_session(session: Session) -> None:
    code = "import os, sys; print(os.getsid(0) == os.getpgrp() == os.getpid()); sys.exit(7)"
    program = session.start("program", [sys.executable, "-c", code])
    wait_for(lambda: program.exit_code is not None, "it")
    assert (program.end, program.output) == ("exited with 7", "True\n")


def test_command_that_cannot_start_is_named(session: Session) -> None:
    for argv in (["no-such-program"], ["/etc/passwd"], ["/"]):
        with pytest.raises(DesktopError, match="cannot start"):
            session.start("program", argv)
        with pytest.raises(DesktopError, match="cannot start"):
            session.run(argv, timeout_s=10)
    script = f": {'x' * 300}; echo a/b"  # longer than a file's name may be
    assert session.run(["sh", "-c", script], 30).stdout == "a/b\n"


def test_endless_log_fills_no_disk(session: Session) -> None:
    program = session.start("program", ["sh", "-c", "echo first; yes; "])
    wait_for(lambda: "bytes are left out here" in program.output, "it")
    file = session.directory / "logs" / "program.txt"
    for _ in range(20):
        assert file.stat().st_size < 2_200_000
        time.sleep(0.02)
    assert program.output.startswith("first\ny\n")
    assert len(program.output) < 1_100_000


def test_long_output_keeps_beginning_and_end(session: Session) -> None:
    script = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"
    ran = session.run(["sh", "-c", script], timeout_s=60)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("first\nxxx")
    assert ran.stdout.endswith("xxx\nlast\n")
    assert f"(... {30_000_012 - supervisor.HEAD - supervisor.TAIL} bytes are left out here)" in ran.stdout
    assert len(ran.stdout) < supervisor.HEAD + supervisor.TAIL + 100


def test_command_that_prints_forever_ends_in_time(session: Session) -> None:
    started = time.monotonic()
    with pytest.raises(DesktopError, match="did not end within 1 s"):
        session.run(["sh", "-c", "trap '' TERM; yes & yes >&2"], timeout_s=1)
    assert time.monotonic() - started < 15


def test_background_process_may_print_after_its_command(session: Session) -> None:
    script = "(while :; do echo more; sleep 0.05; echo x >> still; done) & echo done"
    assert "done\n" in session.run(["sh", "-c", script], timeout_s=30).stdout
    still = session.home / "still"
    wait_for(lambda: still.exists() and len(still.read_text()) > 8, "it")


def test_no_descriptor_is_left_open(session: Session) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        session.run(["true"], timeout_s=30)
        program = session.start("program", ["true"])
        wait_for(lambda: program.exit_code is not None, "it")  # noqa: B023  # waited for at once
        session.end_program()
    assert len([*Path("/proc/self/fd").iterdir()]) <= before


def test_secrets_of_tests_stay_from_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "VNC_USE_PASSWORD", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "not for the program")
    monkeypatch.setenv("SHOP_MODE", "test")
    session = Session({"SHOP_SIZE": "3"})
    session.stop()
    assert "not for the program" not in session.environment.values()
    assert (session.environment["SHOP_MODE"], session.environment["SHOP_SIZE"]) == ("test", "3")


def test_leftovers_of_killed_session_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write there could plant a link that leads to another directory of this user: it is not followed."""
    kept, temporary = tmp_path / "project" / "vnc-use-kept", tmp_path / "temporary"
    for directory in (kept, temporary / "vnc-use-left"):
        directory.mkdir(parents=True)
        (directory / "lock").touch()
    (temporary / "vnc-use-evil").symlink_to(kept)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_leftovers()
    assert (kept / "lock").exists()
    assert not (temporary / "vnc-use-left").exists()


@pytest.mark.slow
def test_stopped_supervisor_holds_nothing_up() -> None:
    session = Session()
    session.run(["true"], timeout_s=30)
    program = session.start("program", ["sleep", "300"])
    (supervisor,) = (pid for pid, name in processes_naming(session.directory).items() if name == "vnc-supervisor")
    os.kill(supervisor, signal.SIGSTOP)
    session.stop()
    assert not is_running(supervisor)
    assert not is_running(program.pid)


FORKING = """
import multiprocessing, os, signal, sys
from pytest_vnc_use.desktops.session import Session

session = Session({{}})
session.start("program", ["sleep", "300"])

def act_in_child():
    {in_child}
    os.write(1, b"%d\\n" % os.getpid())
    signal.pause()

multiprocessing.get_context("fork").Process(target=act_in_child, daemon=True).start()
os.write(1, os.fsencode(session.directory) + b"\\n")
sys.stdin.readline()
{end}
"""


@contextmanager
def forked(end: str, in_child: str = "pass") -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A process with a session and a forked child, which outlives it; the child's id, the session's directory."""
    program = FORKING.format(end=end, in_child=in_child)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = sorted(process.stdout.readline().strip() for _ in range(2))
        child, directory = int(lines[1]), Path(lines[0])
        try:
            yield process, child, directory
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "session.stop(); os._exit(0)"], ids=str)
def test_forked_child_keeps_nothing_alive(end: str) -> None:
    with forked(end) as (process, child, directory):
        assert "sleep" in processes_naming(directory).values()
        assert process.stdin is not None
        print("continue", file=process.stdin, flush=True)
        process.wait(timeout=10)
        wait_for(lambda: not directory.exists() and not processes_naming(directory), "the end of the session")
        os.kill(child, 0)


def test_forked_child_that_stops_ends_nothing() -> None:
    """As one does that leaves a test by an exception, and continues as if it were pytest."""
    with forked("pass", in_child="session.stop()") as (_, _, directory):
        assert sorted(processes_naming(directory).values()) == ["sleep", "vnc-supervisor"]
