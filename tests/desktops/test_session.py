"""What a desktop's programs inherit from the tests, who may keep it alive, and what cannot be ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.session import Session, remove_leftovers
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


def test_script_longer_than_file_name_is_argument() -> None:
    session = Session()
    script = f": {'x' * 300}; echo a/b"
    try:
        assert session.run(["sh", "-c", script], 30).stdout == "a/b\n"
        assert session.start("program", ["sh", "-c", script]).wait(30) == 0
    finally:
        session.stop()


def test_no_link_leads_to_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write there could plant one that leads to another folder of this user."""
    kept = tmp_path / "home" / "project" / "vnc-use-kept"
    kept.mkdir(parents=True)
    (kept / "lock").touch()
    (kept / "data").write_text("precious")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (temporary / "vnc-use-evil").symlink_to(kept)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_leftovers()
    assert (kept / "data").read_text() == "precious"


@pytest.mark.slow
def test_stopped_supervisor_holds_nobody_up() -> None:
    session = Session()
    session.run(["true"], timeout_s=30)
    program = session.start("program", ["sleep", "300"])
    (supervisor,) = (pid for pid, name in processes_naming(session.directory).items() if name == "vnc-supervisor")
    os.kill(supervisor, signal.SIGSTOP)
    session.stop()
    assert not is_running(supervisor)
    assert not is_running(program.pid)


# --- a child that a test forks ---------------------------------------------------------------------------------------

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
    with forked("pass", in_child="session.stop()") as (_, _, folder):
        assert sorted(processes_naming(folder).values()) == ["sleep", "vnc-supervisor"]


# --- what cannot be ended --------------------------------------------------------------------------------------------

AS_ROOT = "import os; os.setresuid(0, 0, 0); print('up', flush=True); os.execvp('sleep', ['sleep', '300'])"
WITH_ANOTHER_USERS_PROGRAM = """
import os, sys
from pytest_vnc_use.desktops import session, supervisor
from pytest_vnc_use.errors import DesktopError

python, setuid_python, code = sys.argv[1:]
supervisor.COMMAND = (python, *supervisor.COMMAND[1:])
os.setresuid(54321, 54321, 54321)
session = session.Session()
program = session.start("program", [setuid_python, "-I", "-c", code])  # it becomes root, as sudo does
while not program.output:
    pass
print(program.pid, flush=True)
for wish in (session.stop, session.stop):
    try:
        wish()
        print("done")
    except DesktopError as error:
        print(error)
print(session.directory.exists())
"""


@pytest.mark.slow
def test_another_users_process_is_named_and_nothing_else_stays() -> None:
    python = Path("/usr/bin/python3")
    if os.getuid() != 0 or not python.exists():
        pytest.skip("needs root, to be two users, and python3, which the other may run")
    with tempfile.TemporaryDirectory() as name:
        setuid = Path(name, "python")
        shutil.copy(python.resolve(), setuid)
        setuid.chmod(0o4755)
        Path(name).chmod(0o755)
        _check_another_users_process(str(python), str(setuid))


def _check_another_users_process(python: str, setuid_python: str) -> None:
    command = [sys.executable, "-c", WITH_ANOTHER_USERS_PROGRAM, python, setuid_python, AS_ROOT]
    pid, *told = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30).stdout.splitlines()
    os.kill(int(pid), signal.SIGKILL)
    problem = (
        f"cannot end process {pid} sleep: it belongs to another user, or it hangs; end it with: sudo kill -9 {pid}"
    )
    assert told == [problem, "done", "False"]
