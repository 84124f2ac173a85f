"""The port Desktop: what every desktop does, however it came to be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.desktops.remote import RemoteExec
from pytest_vnc_use.desktops.started import check_argv
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import (
    CommandMissing,
    DesktopError,
    ProgramCrashed,
    ProgramMissing,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.types.protocols import Desktop
from support.containers import desktop_image, started_container
from support.leftovers import OneFile, is_running, processes_naming
from support.qt_desktop import WHY_OPEN, QtDesktop
from support.vnc_servers import require, tigervnc, wait_for

pytestmark = [pytest.mark.container, pytest.mark.desktop]

KINDS = ("qt", "xvnc", "container", "external")
PARENT = """
import sys
from test_desktop_contract import desktop_of
kind, given, *program = sys.argv[1:]
desktop = desktop_of(kind, given)
desktop.launch(program)
print(desktop.read_file("pids"), flush=True)
sys.stdin.read()
"""


def desktop_of(kind: str, given: str = "") -> Desktop:
    """Return a desktop without a program; `given` is the address, display and directory
    of an external one.
    """
    match kind:
        case "qt":
            return QtDesktop()
        case "container":
            return started_container()
        case "xvnc":
            return XvncDesktop()
    address, display, directory = given.split()
    return ExternalDesktop(
        address, RemoteExec(["env", "-C", directory, f"DISPLAY={display}"]), connect
    )


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of desktop that can run here."""
    if request.param == "qt":
        request.getfixturevalue("qt_program")
    elif request.param == "container":
        desktop_image()
    else:
        require("Xtigervnc")
        require("xterm")
    return str(request.param)


@contextmanager
def external_server(kind: str, directory: Path) -> Iterator[str]:
    """What `desktop_of` needs to know; for an external desktop, start its server."""
    if kind != "external":
        yield ""
        return
    with tigervnc() as server:
        yield f"{server.address} {server.display} {directory}"


@pytest.fixture(scope="module")
def given(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What `desktop_of` needs to know, for all tests."""
    with external_server(kind, tmp_path_factory.mktemp("external")) as known:
        yield known


@pytest.fixture
def given_once(kind: str, tmp_path: Path) -> Iterator[str]:
    """What `desktop_of` needs to know, for one test: its screen shows no window."""
    with external_server(kind, tmp_path) as known:
        yield known


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """The temporary directory of desktops that start without a umask; its path leaves
    room for a socket's.
    """
    with (
        tempfile.TemporaryDirectory(prefix="t") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(tempfile, "tempdir", directory)
        before = os.umask(0)
        yield Path(directory)
        os.umask(before)


@pytest.fixture(scope="module")
def desktop(kind: str, given: str, temporary: Path) -> Iterator[Desktop]:
    """Each desktop; the tests launch a program each."""
    desktop = desktop_of(kind, given)
    yield desktop
    desktop.stop()


@pytest.fixture
def desktop_to_stop(kind: str, given_once: str, temporary: Path) -> Iterator[Desktop]:
    """A desktop of one test, which may stop it: workers take tests in any order."""
    desktop = desktop_of(kind, given_once)
    yield desktop
    desktop.stop()


@pytest.fixture(scope="module")
def shows(kind: str, request: pytest.FixtureRequest) -> str:
    """The end of a shell script: a program that shows a window."""
    return (
        f"exec {' '.join(request.getfixturevalue('qt_program'))}"
        if kind == "qt"
        else "exec xterm"
    )


def test_files_and_commands_share_one_directory(desktop: Desktop) -> None:
    desktop.write_file("list.txt", "Äpfel\r\n")
    script = "cat list.txt; printf 'plums\\r\\n' > more.txt; echo no >&2; exit 7"
    ran = desktop.run(["sh", "-c", script])
    assert (ran.exit_code, ran.stdout, ran.stderr) == (7, "Äpfel\r\n", "no\n")
    assert desktop.read_file("more.txt") == "plums\r\n"
    with pytest.raises(
        FileNotFoundError, match=r"has no file 'orders.csv'; it has .*'more.txt'"
    ):
        desktop.read_file("orders.csv", timeout_s=0)


def test_late_file_is_waited_for(desktop: Desktop) -> None:
    desktop.run(["sh", "-c", "(sleep 0.5; echo pears > late.txt) >/dev/null 2>&1 &"])
    assert desktop.read_file("late.txt") == "pears\n"


def test_file_that_is_still_empty_is_waited_for(desktop: Desktop) -> None:
    script = "> late.txt; (sleep 0.2; echo pears >> late.txt) >/dev/null 2>&1 &"
    desktop.run(["sh", "-c", script])
    assert desktop.read_file("late.txt") == "pears\n"


def test_empty_file_is_read(desktop: Desktop) -> None:
    desktop.write_file("empty.txt", "")
    assert desktop.read_file("empty.txt") == ""


def test_command_killed_missing_or_late_is_named(desktop: Desktop) -> None:
    assert desktop.run(["sh", "-c", "kill -9 $$"]).exit_code == -9
    with pytest.raises(CommandMissing, match="cannot start 'no-such-command'"):
        desktop.run(["no-such-command"])
    with pytest.raises(
        DesktopError,
        match=r"'sleep 60' did not end within 0.1 s. Increase its timeout_s",
    ):
        desktop.run(["sleep", "60"], timeout_s=0.1)


@pytest.mark.parametrize("argv", ["ls -l", []])
def test_command_not_list_of_arguments_is_rejected(argv: str | list[str]) -> None:
    with pytest.raises(
        SettingsError,
        match=r'must be a list of arguments, such as \["ls", "-l"\], got ',
    ):
        check_argv(argv)


def test_second_program_replaces_first(desktop: Desktop, shows: str) -> None:
    desktop.launch(["sh", "-c", f"echo first; sleep 300 & echo $$ $! >pids; {shows}"])
    assert (desktop.program_exit_reason(), desktop.exit_reason()) == ("", "")
    stays = desktop.run(
        ["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"]
    ).stdout
    first = desktop.read_file("pids")
    desktop.launch(["sh", "-c", f"echo second; {shows}"])
    alive = (
        "for pid in $0; do [ -d /proc/$pid ] && ! grep -q 'State:.Z' /proc/$pid/status"
        " && echo $pid; done; true"
    )
    assert desktop.run(["sh", "-c", alive, f"{first} {stays}"]).stdout == stays
    assert desktop.program_exit_reason() == ""
    assert desktop.logs()["program"].startswith("second\n")


def test_started_desktop_is_private(
    desktop: Desktop, temporary: Path, kind: str, shows: str
) -> None:
    if kind == "external" or (kind == "qt" and WHY_OPEN):
        pytest.skip(
            f"no network namespace is allowed here: {WHY_OPEN}"
            if WHY_OPEN
            else "it is another user's"
        )
    desktop.launch(["sh", "-c", shows])
    assert listeners(temporary) == []
    if "/" in desktop.server:
        assert Path(desktop.server).stat().st_mode & 0o777 == 0o600
    else:
        host, _, port = desktop.server.partition("::")
        ss = ["ss", "-ltnH", f"sport = :{port}"]
        listening = subprocess.run(
            ss, capture_output=True, text=True, check=True
        ).stdout
        assert host == "127.0.0.1"
        assert {line.split()[3] for line in listening.splitlines()} <= {
            f"127.0.0.1:{port}"
        }
    assert kind == "qt" or re.fullmatch(r"\S{8}", desktop.password or "")
    desktop.write_file("list.txt", "apples")
    paths = [
        path
        for path in temporary.rglob("*")
        if not is_of_a_program(path.relative_to(temporary).parts[1:])
    ]
    modes = {path: path.lstat().st_mode & 0o777 for path in paths}
    assert len(modes) >= 4
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def listeners(directory: Path) -> list[str]:
    """Return the addresses at which processes of a desktop in this directory listen."""
    require("ss")
    found = []
    for line in subprocess.run(
        ["ss", "-ltnpH"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        for pid in re.findall(r"pid=(\d+)", line):
            with suppress(OSError):  # it has ended, or is another user's
                if (
                    f"HOME={directory}".encode()
                    in Path(f"/proc/{pid}/environ").read_bytes()
                ):
                    found.append(line.split()[3])
    return found


def is_of_a_program(parts: tuple[str, ...]) -> bool:
    """Return whether a program wrote a file: the window manager, or the one under test
    in its working directory.
    """
    return parts[:1] == ("openbox",) or (
        parts[:1] == ("Home",) and parts[1:2] not in ((), ("list.txt",))
    )


NO_PLATFORM = "qt.qpa.plugin: Could not find the Qt platform plugin"
FAILING: list[tuple[str, type[VncUseError], str]] = [
    (
        "echo no such database; exit 3",
        ProgramCrashed,
        r"exited with 3 and had not shown a .*\nno such database",
    ),
    (
        "kill -SEGV $$",
        ProgramCrashed,
        r"exited with -11 \(SIGSEGV\) and had not shown a ",
    ),
    ("exec no-such-program", ProgramMissing, r"exited with 127 and had not shown a "),
    (
        "exit 0",
        DesktopError,
        r"exited with 0 and had not shown a .*; it must stay in the foreground",
    ),
    ("touch plain; exec ./plain", ProgramMissing, "exited with 126"),
    (f"echo '{NO_PLATFORM}'; kill -ABRT $$", DesktopError, "exited with -6"),
]
FAILING_LOCALLY: list[tuple[list[str], type[VncUseError], str]] = [
    ([sys.executable, "-c", "{}['basket']"], ProgramCrashed, "exited with 1"),
    ([sys.executable, "-c", "import no_such_module"], ProgramCrashed, "exited with 1"),
    ([sys.executable, "no_such_script.py"], ProgramMissing, "exited with 2"),
    (["./no/such/program"], ProgramMissing, "cannot start"),
]


def test_missing_program_is_named_at_start(desktop: Desktop) -> None:
    with pytest.raises(ProgramMissing, match="cannot start 'no-such-program'"):
        desktop.launch(["no-such-program"])


@pytest.fixture
def failing_programs(
    kind: str, tmp_path: Path
) -> list[tuple[list[str], type[VncUseError], str]]:
    """Programs that fail at their start, how, and the message; but on Xvnc only one, as
    elsewhere each start takes longer, such as `podman exec`.
    """
    scripts = [
        (["sh", "-c", script], error, message) for script, error, message in FAILING
    ]
    if kind != "xvnc":
        return scripts[:1]
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n", encoding="utf-8")
    plain.chmod(0o644)
    no_format = tmp_path / "no_format"
    no_format.write_text("\0\1 no program", encoding="utf-8")
    no_format.chmod(0o755)
    return [
        *scripts,
        *FAILING_LOCALLY,
        ([str(plain)], ProgramMissing, "Permission denied"),
        ([str(no_format)], ProgramMissing, "Exec format error"),
    ]


def test_program_failing_at_start_is_named(
    desktop: Desktop,
    shows: str,
    failing_programs: list[tuple[list[str], type[VncUseError], str]],
) -> None:
    wrong = []
    for argv, error, message in failing_programs:
        with pytest.raises(VncUseError) as caught:
            desktop.launch(argv)
        is_named = re.search(message, str(caught.value))
        if type(caught.value) is not error or not is_named:
            wrong.append((argv, caught.value))
    assert wrong == []
    desktop.launch(["sh", "-c", shows])
    assert desktop.program_exit_reason() == ""


def test_crashed_program_is_named_until_after_stop(
    desktop_to_stop: Desktop, shows: str
) -> None:
    desktop = desktop_to_stop
    desktop.launch(["sh", "-c", f"echo $$ >pid; echo about to open orders; {shows}"])
    assert desktop.server
    assert desktop.password is None or len(desktop.password) == 8
    desktop.run(["sh", "-c", "kill -SEGV $(cat pid)"])
    wait_for(desktop.program_exit_reason, "the crash")
    headline, *output = desktop.program_exit_reason().splitlines()
    assert re.match(
        r"the program .*about to open orders;.*exited with -11 \(SIGSEGV\)", headline
    )
    assert output[0] == "about to open orders"
    assert desktop.read_file("pid")
    desktop.stop()
    desktop.stop()
    assert desktop.program_exit_reason().splitlines() == [headline, *output]
    assert desktop.exit_reason() == ""
    assert desktop.logs()["program"].splitlines() == output
    if isinstance(desktop, ExternalDesktop):
        return
    with pytest.raises(DesktopError, match=r"cannot read .*: the desktop is stopped"):
        desktop.read_file("list.txt")
    with pytest.raises(DesktopError, match=r"cannot launch .*: the desktop is stopped"):
        desktop.launch(["xterm"])


def test_killed_parent_leaves_nothing(kind: str, given_once: str, shows: str) -> None:
    script = f"setsid sleep 300 & echo $$ $! $DISPLAY >pids; {shows}"
    command = [sys.executable, "-c", PARENT, kind, given_once, "sh", "-c", script]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    with tempfile.TemporaryDirectory(prefix="t") as temporary:
        environment["TMPDIR"] = temporary
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as parent:
            assert parent.stdout is not None
            *pids, display = f"{parent.stdout.readline().strip()} ".split(" ")[:3]
            assert len(pids) == 2
            socket = OneFile(Path(f"/tmp/.X11-unix/X{display.removeprefix(':')}"))
            paths = [*Path(temporary).glob("vnc-use-*")]
            directories = [path for path in paths if path.is_dir()]
            parent.kill()
        wait_for(
            lambda: not any(directory.exists() for directory in directories),
            "the end of the directories",
        )
        wait_for(lambda: not processes_naming(temporary), "the end of all processes")
    if kind != "container":
        wait_for(
            lambda: not any(map(is_running, pids)),
            "the end of the program and its child",
        )
    left = {path.name: processes_naming(path.name) for path in directories}
    assert [name for name, processes in left.items() if processes] == []
    assert kind != "xvnc" or not socket.exists()
