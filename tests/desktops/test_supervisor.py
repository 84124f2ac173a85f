"""What a desktop's program starts and prints: none of it outlives the desktop, none of it fills the disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.desktops import supervisor
from pytest_vnc_use.desktops.session import Session
from pytest_vnc_use.errors import DesktopError
from support.leftovers import is_running
from support.vnc_servers import wait_for

ESCAPE = "env -i setsid sh -c 'echo $$ > escaped; exec sleep 1000'"
"""Leaves its session and the mark behind; its parent ends at once."""
SHELL = "exec 2>&1; {escape} & wait_for_it() {{ while [ ! -s escaped ]; do sleep 0.02; done; }}; wait_for_it; "

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="desktops are started on Linux only")
pytestmark = linux_only


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session()
    yield session
    session.stop()


def shell(script: str) -> list[str]:
    return ["sh", "-c", SHELL.format(escape=ESCAPE) + script]


def escaped(session: Session) -> int:
    file = session.home / "escaped"
    wait_for(lambda: file.exists() and file.read_text().strip(), "it")
    return int(file.read_text())


@pytest.mark.parametrize("script", ["exit 0", "exec sleep 1000"], ids=["its program ended first", "its program runs"])
@pytest.mark.parametrize("end", ["stop", "end_program"])
def test_what_left_its_session_and_its_mark_ends_with_the_desktop(session: Session, script: str, end: str) -> None:
    session.start("program", shell(script))
    pid = escaped(session)
    assert is_running(pid)
    getattr(session, end)()
    assert not is_running(pid)


def test_what_a_command_left_behind_ends_with_the_desktop(session: Session) -> None:
    assert session.run(shell("echo said; exit 3"), timeout_s=30).exit_code == 3
    pid = escaped(session)
    assert is_running(pid)
    session.stop()
    assert not is_running(pid)


@pytest.mark.slow
def test_what_ignores_every_request_to_end_is_killed(session: Session) -> None:
    deaf = "env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > escaped; while :; do sleep 0.1; done' & "
    session.start("program", ["sh", "-c", deaf + "trap '' TERM; while :; do sleep 0.1; done"])
    pid = escaped(session)
    session.stop()
    assert not is_running(pid)


def test_a_program_is_the_leader_of_its_session_as_if_it_had_no_supervisor(session: Session) -> None:
    code = "import os, sys; print(os.getsid(0) == os.getpgrp() == os.getpid()); sys.exit(7)"
    program = session.start("program", [sys.executable, "-c", code])
    wait_for(lambda: program.exit_code is not None, "it")
    assert (program.exit_code, program.output) == (7, "True\n")
    assert program.end == "exited with 7"


def test_how_a_signal_ended_a_program_is_known(session: Session) -> None:
    program = session.start("program", ["sh", "-c", "kill -SEGV $$"])
    wait_for(lambda: program.exit_code is not None, "it")
    assert program.end == "exited with -11 (SIGSEGV)"


@pytest.mark.parametrize("command", [["no-such-program"], ["/etc/passwd"], ["/"]])
def test_what_cannot_be_started_is_told(session: Session, command: list[str]) -> None:
    with pytest.raises(DesktopError, match="cannot start"):
        session.start("program", command)
    with pytest.raises(DesktopError, match="cannot start"):
        session.run(command, timeout_s=10)


# --- output ----------------------------------------------------------------------------------------------------------


def test_an_endless_log_fills_no_disk(session: Session) -> None:
    program = session.start("program", ["sh", "-c", "echo first; yes; "])
    wait_for(lambda: "bytes are left out here" in program.output, "it")
    file = session.directory / "logs" / "program.txt"
    for _ in range(20):
        assert file.stat().st_size < 2_200_000
        time.sleep(0.02)
    assert program.output.startswith("first\ny\n")
    assert len(program.output) < 1_100_000


def test_of_a_long_output_beginning_and_end_are_kept_and_told(session: Session) -> None:
    ran = session.run(
        ["sh", "-c", "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"], timeout_s=60
    )
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("first\nxxx")
    assert ran.stdout.endswith("xxx\nlast\n")
    assert f"(... {30_000_012 - supervisor.HEAD - supervisor.TAIL} bytes are left out here)" in ran.stdout
    assert len(ran.stdout) < supervisor.HEAD + supervisor.TAIL + 100


def test_a_command_that_prints_forever_ends_in_its_time(session: Session) -> None:
    started = time.monotonic()
    with pytest.raises(DesktopError, match="did not end within 1 s"):
        session.run(["sh", "-c", "trap '' TERM; yes & yes >&2"], timeout_s=1)
    assert time.monotonic() - started < 15


def test_short_outputs_are_whole_and_apart(session: Session) -> None:
    for _ in range(5):
        ran = session.run(["sh", "-c", "printf out; printf err >&2; exit 4"], timeout_s=30)
        assert (ran.exit_code, ran.stdout, ran.stderr) == (4, "out", "err")


def test_what_stays_in_the_background_may_go_on_printing(session: Session) -> None:
    ran = session.run(
        ["sh", "-c", "(while :; do echo more; sleep 0.05; echo x >> still; done) & echo done"], timeout_s=30
    )
    assert "done\n" in ran.stdout
    still = session.home / "still"
    wait_for(lambda: still.exists() and len(still.read_text()) > 8, "it")


def test_nothing_is_left_open(session: Session) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        session.run(["true"], timeout_s=30)
        program = session.start("program", ["true"])
        wait_for(lambda: program.exit_code is not None, "it")  # noqa: B023  # waited for at once
        session.end_program()
    assert len([*Path("/proc/self/fd").iterdir()]) <= before
