"""A desktop known by its address: leased by one test at a time; its files and commands,
by `env -C` or a real ssh.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.external import ExternalDesktop, lease, lock_directory
from pytest_vnc_use.desktops.remote import RemoteExec, remote_exec_of
from pytest_vnc_use.desktops.started import WorkingDirectory
from pytest_vnc_use.errors import (
    DesktopError,
    DesktopRefused,
    FileUnreadable,
    SettingsError,
)
from pytest_vnc_use.types.protocols import Desktop
from support.leftovers import is_running
from support.vnc_servers import (
    VncServer,
    free_port,
    missing,
    require,
    running,
    wait_for,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="env -C and /proc")


@pytest.fixture
def desktop(tigervnc: VncServer, tmp_path: Path) -> Iterator[ExternalDesktop]:
    """A TigerVNC desktop, and a directory, that another user has."""
    require("xterm")
    reach = RemoteExec(["env", "-C", str(tmp_path), f"DISPLAY={tigervnc.display}"])
    desktop = ExternalDesktop(tigervnc.address, reach, connect)
    yield desktop
    desktop.stop()


def screen_of(server: VncServer) -> bytes:
    with closing(connect(server.address)) as controller:
        controller.move(0, 0)
        controller.settle()
        return controller.frame().png


def test_program_ending_with_its_server_is_no_fault(
    desktop: ExternalDesktop, tigervnc: VncServer
) -> None:
    desktop.launch(["xterm"])
    assert (desktop.program_exit_reason(), desktop.exit_reason()) == ("", "")
    tigervnc.kill()
    wait_for(desktop.exit_reason, "the end of the program")
    cause = desktop.exit_reason()
    assert cause.startswith(
        f"the server at '{tigervnc.address}' cannot be reached, and the program ended: "
    )
    assert desktop.program_exit_reason() == ""
    desktop.stop()
    assert (desktop.program_exit_reason(), desktop.exit_reason()) == ("", cause)


def test_stop_ends_programs_and_leaves_files(
    desktop: ExternalDesktop, tigervnc: VncServer, tmp_path: Path
) -> None:
    (tmp_path / "theirs.txt").touch()
    first = screen_of(tigervnc)
    # as ssh does that fails
    with pytest.raises(
        DesktopError, match=r"exited with 255 and had not shown a window"
    ):
        desktop.launch(["sh", "-c", "exit 255"])
    desktop.launch(["sh", "-c", "setsid sleep 300 & echo $! >pid; exec xterm"])
    helper = desktop.run(
        ["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"]
    ).stdout.strip()
    desktop.stop()
    wait_for(lambda: screen_of(tigervnc) == first, "the first screen")
    assert not is_running(helper)
    assert not is_running((tmp_path / "pid").read_text().strip())
    assert (tmp_path / "theirs.txt").exists()


SERVERS = ["host::5901", "host::5902", "host::5903"]
HOLDER = """
import multiprocessing, signal, sys
from pathlib import Path
from pytest_vnc_use.desktops.external import lease

held = lease(["host::1"], "it", timeout_s=30, directory=Path(sys.argv[1]))
child = multiprocessing.get_context("fork").Process(target=signal.pause)
child.start()
print(child.pid, flush=True)
signal.pause()
"""


def test_lease_dies_with_its_owner_despite_child(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            with pytest.raises(
                DesktopRefused,
                match=rf"for 0.2 s. In use: 'host::1' by it \(process {process.pid}\)",
            ):
                lease(["host::1"], "me", timeout_s=0.2, directory=tmp_path)
            process.kill()
            process.wait(timeout=10)
            lease(["host::1"], "me", timeout_s=30, directory=tmp_path).release()
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("server", "other"),
    [
        ("localhost:1", "127.0.0.1::5901"),
        ("localhost:1", ":1"),
        ("localhost:1", "vnc://localhost:5901"),
        pytest.param("localhost:1", f"{socket.gethostname()}:1", id="host name"),
        ("ws://testbox:6080/a", "WS://TestBox:6080/a"),
    ],
)
def test_address_forms_lease_one_desktop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, other: str
) -> None:
    monkeypatch.chdir(tmp_path)  # no form depends on the directory
    held = lease([server], "one", timeout_s=0, directory=tmp_path)
    with pytest.raises(DesktopRefused, match="by one"):
        lease([other], "two", timeout_s=0, directory=tmp_path)
    held.release()


def test_lock_directory_is_of_user_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "no/such/name")
    name = f"pytest-vnc-use-{os.getuid()}"
    assert lock_directory() == Path(tempfile.gettempdir(), name)


@pytest.fixture(params=["file", "link", "of another user"])
def no_lock_directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What is no directory of this user."""
    path = tmp_path / "locks"
    if request.param == "file":
        path.touch()
    elif request.param == "link":
        path.symlink_to(tmp_path)
    elif os.getuid() == 0:
        path.mkdir()
        os.chown(path, 54321, -1)
    else:
        return Path("/")
    return path


def test_lock_directory_none_is_rejected(no_lock_directory: Path) -> None:
    path = no_lock_directory
    with pytest.raises(
        DesktopError,
        match=rf"'{path}' is not a directory owned by the current user. Remove",
    ):
        lease(["host::1"], "me", timeout_s=30, directory=path)
    assert not list(path.glob("*.lock"))


def test_free_server_is_leased_until_release_or_stop(tmp_path: Path) -> None:
    first = lease(SERVERS, "one", timeout_s=30, directory=tmp_path)
    second = lease(SERVERS, "two", timeout_s=30, directory=tmp_path)
    assert (first.server, second.server) == ("host::5901", "host::5902")
    desktop = ExternalDesktop(first.server, lease=first)
    desktop.stop()
    desktop.stop()
    assert (
        lease(SERVERS, "three", timeout_s=30, directory=tmp_path).server == "host::5901"
    )
    second.release()
    servers = ["ws://desk/?token=s3cret"]
    held = lease(servers, "one", timeout_s=0, directory=tmp_path)
    with pytest.raises(
        DesktopRefused, match=r"In use: 'ws://desk/\?…' by one \("
    ) as refused:
        lease(servers, "two", timeout_s=0, directory=tmp_path)
    assert "s3cret" not in str(refused.value) + "".join(
        file.read_text() for file in tmp_path.iterdir()
    )
    held.release()


def test_desktop_by_address_alone_names_remedy() -> None:
    desktop: Desktop = ExternalDesktop("lab-7:1")
    assert desktop.server == "lab-7:1"
    assert desktop.password is None
    assert desktop.program_exit_reason() == ""
    assert desktop.logs() == {}
    with pytest.raises(
        DesktopError, match=r"cannot read the file 'orders.csv': only VNC reaches"
    ):
        desktop.read_file("orders.csv")
    with pytest.raises(
        DesktopError,
        match=(
            r"cannot launch 'xterm': only VNC reaches .* 'lab-7:1'.*--vnc-exec='docker"
        ),
    ):
        desktop.launch(["xterm"])


Files = WorkingDirectory | RemoteExec


SSHD_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host
AuthorizedKeysFile {directory}/user.pub
PidFile {directory}/pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
SetEnv HOME={directory}
"""
SSH_CONFIG = """
Host desktop-host
  HostName 127.0.0.1
  User {user}
  IdentityFile {directory}/user
  UserKnownHostsFile {directory}/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
"""


@contextmanager
def ssh_server(directory: Path) -> Iterator[str]:
    """Run a real sshd on loopback, which accepts this test's key, and whose home
    directory has no startup files.

    Yield the command line to it, with {port} to be filled in, and with it the
    address of a desktop there.
    """
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        missing("sshd", "apt-get install openssh-server")
    require("ssh")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name],
            check=True,
        )
    port = free_port()
    (directory / "sshd_config").write_text(
        SSHD_CONFIG.format(port=port, directory=directory)
    )
    (directory / "ssh_config").write_text(
        SSH_CONFIG.format(user=getpass.getuser(), directory=directory)
    )
    if os.getuid() == 0:
        # where sshd, as root, wants to shut itself in
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with running(str(sshd), "-D", "-f", str(directory / "sshd_config")):
        wait_for((directory / "pid").exists, "the start of sshd")
        yield f"ssh -F {directory}/ssh_config -p {port} desktop-host"


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command of a real ssh to a server on this machine."""
    with ssh_server(tmp_path_factory.mktemp("ssh")) as command:
        yield command


@pytest.fixture(params=["a directory", "ssh"])
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteExec:
    """Each way of a command, into an empty directory."""
    if request.param == "a directory":
        return RemoteExec(["env", "-C", str(tmp_path)])
    return remote_exec_of(
        f"{request.getfixturevalue('ssh')} env -C {tmp_path}", "desktop-host:1"
    )


@pytest.fixture(params=["here", "there"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """The files in `tmp_path`, reached both ways."""
    return (
        WorkingDirectory(tmp_path)
        if request.param == "here"
        else RemoteExec(["env", "-C", str(tmp_path)])
    )


FILE_NAMES = ["list.txt", "a directory/deep/it's.csv", "-n", "a/../b.txt"]


@pytest.mark.parametrize("name", FILE_NAMES)
def test_file_is_read_as_written(files: Files, name: str) -> None:
    text = "Äpfel;2\nno end of line \0 $HOME"
    files.write(name, text)
    assert files.read(name) == text


def test_missing_file_lists_files(files: Files) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"no file 'orders.csv'; it has no files"
    ):
        files.read("orders.csv")
    for name in FILE_NAMES:
        files.write(name, "text")
    with pytest.raises(
        FileNotFoundError,
        match=r"it has '-n', \"a directory/deep/it's.csv\", 'b.txt', 'list.txt'$",
    ):
        files.read("orders.csv")


@pytest.mark.parametrize("name", ["/etc/hostname", "a/../../secret"])
def test_file_out_of_directory_is_rejected(files: Files, name: str) -> None:
    problem = f"must lie in the program's working directory, got '{name}'"
    with pytest.raises(DesktopError, match=problem):
        files.read(name)
    with pytest.raises(DesktopError, match=problem):
        files.write(name, "text")


@pytest.fixture
def no_texts(files: Files, tmp_path: Path) -> Files:
    """A directory with what is no text file."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 70 << 20)
    return files


@pytest.mark.parametrize("name", ["directory", "loop", "pipe", "image.png", "large"])
def test_file_no_text_is_rejected(no_texts: Files, name: str) -> None:
    with pytest.raises(FileUnreadable, match=rf"cannot read '{name}' "):
        no_texts.read(name)


def test_file_too_large_names_limit(no_texts: Files) -> None:
    with pytest.raises(
        FileUnreadable,
        match=r"at most 67108864 bytes, it has 73400320; look at it there",
    ):
        no_texts.read("large")


def test_file_that_is_pipe_is_not_written(no_texts: Files) -> None:
    with pytest.raises(DesktopError, match="cannot write 'pipe' "):
        no_texts.write("pipe", "text")


# The program made the links.
@pytest.mark.parametrize("name", ["link/secret.txt", "orders.csv"])
def test_link_out_of_directory_is_rejected(tmp_path: Path, name: str) -> None:
    files = WorkingDirectory(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path.parent)
    (tmp_path / "orders.csv").symlink_to("/etc/hostname")
    problem = "a link leads out of that directory, to '/"
    with pytest.raises(FileUnreadable, match=f"cannot read '{name}' .*: {problem}"):
        files.read(name)
    with pytest.raises(DesktopError, match=f"cannot write '{name}' .*: {problem}"):
        files.write(name, "overwritten")


def sleeping(duration: str) -> list[str]:
    """Ids of the processes that sleep for so long."""
    ids = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has exited
            ids += (
                [file.parent.name]
                if file.read_bytes() == f"sleep\0{duration}\0".encode()
                else []
            )
    return ids


def test_command_arrives_word_by_word(reach: RemoteExec) -> None:
    words = ["two words", "", "it's", '"$HOME"', "*", "a\nb", "-n", "Äpfel"]
    printed = reach.run(["printf", "[%s]", *words], 30).stdout
    assert printed == "".join(f"[{word}]" for word in words)


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo here; echo no >&2; exit 7", (7, "here\n", "no\n")),
        ("exit 127", (127, "", "")),  # its own, not that of a missing command
        ("sh -c 'kill -SEGV $$' 2>/dev/null; exit $?", (-11, "", "")),
    ],
)
def test_command_answers(
    reach: RemoteExec, script: str, answer: tuple[int, str, str]
) -> None:
    ran = reach.run(["sh", "-c", script], 30)
    assert (ran.exit_code, ran.stdout, ran.stderr) == answer


def test_missing_command_is_named(reach: RemoteExec) -> None:
    with pytest.raises(DesktopError, match="cannot start 'no-such-command'"):
        reach.run(["no-such-command"], 30)
    assert not reach.has("no-such-command")
    assert reach.has("sh")


def test_command_out_of_time_is_killed_there(reach: RemoteExec) -> None:
    mine = f"3{os.getpid()}"
    its_childs = f"4{os.getpid()}"
    script = f"setsid sleep {its_childs} & exec sleep {mine}"
    with pytest.raises(
        DesktopError,
        match=r"'?sh -c .* did not end within 0.5 s. Increase its timeout_s",
    ):
        reach.run(["sh", "-c", script], 0.5)
    wait_for(lambda: not sleeping(mine) and not sleeping(its_childs), "the end of both")


def test_command_without_input_is_named(tmp_path: Path) -> None:
    deaf = RemoteExec(["sh", "-c", 'cd "$0" && exec "$@" </dev/null', str(tmp_path)])
    with pytest.raises(
        DesktopError,
        match=r"cannot write 'list.txt': 0 of 6 bytes arrived; .* 'docker exec -i'",
    ):
        deaf.write("list.txt", "apples")


NOWHERE = [
    (
        ["ssh", "no-such-host.invalid"],
        (
            r"'ssh no-such-host.invalid' does not lead to the desktop: .*resolve.*"
            r" \(exit code 255\). Try it in a shell"
        ),
    ),
    (
        ["echo", "hello"],
        r"'echo hello' does not lead to the desktop: it printed nothing",
    ),
]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda reach: reach.run(["true"], 30), id="run"),
        pytest.param(lambda reach: reach.read("a"), id="read"),
        pytest.param(lambda reach: reach.has("sh"), id="has"),
        pytest.param(RemoteExec.end, id="end"),
    ],
)
@pytest.mark.parametrize(("command", "message"), NOWHERE)
def test_command_that_leads_nowhere_is_named(
    command: list[str], message: str, use: Callable[[RemoteExec], object]
) -> None:
    require("ssh")
    with pytest.raises(DesktopError, match=message):
        use(RemoteExec(command))


def test_refused_ssh_asks_for_no_password(ssh: str, tmp_path: Path) -> None:
    config = Path(ssh.split()[2]).read_text().replace("IdentityFile", "#")
    (tmp_path / "config").write_text(config)
    stranger = RemoteExec(["ssh", "-F", str(tmp_path / "config"), *ssh.split()[3:]])
    with pytest.raises(
        DesktopError,
        match=r"does not lead to the desktop: .*Permission denied \(publickey",
    ):
        stranger.run(["true"], 30)


LINES = [
    ("ssh -p 2222 {host}", "lab-7:1", ("ssh", "-p", "2222", "lab-7")),
    ("reach {host} {port}", "[::1]::5901", ("reach", "::1", "5901")),
    ("docker exec -i 'my desk'", "/run/vnc", ("docker", "exec", "-i", "my desk")),
]
INVALID_LINES = [
    (
        "ssh {host}",
        "/run/vnc",
        r"contains '{host}', but the address '/run/vnc' has neither host nor port",
    ),
    (
        "ssh 'lab",
        "lab-7:1",
        r"must be a command line, got \"ssh 'lab\": No closing quotation",
    ),
]


@pytest.mark.parametrize(("line", "server", "command"), LINES)
def test_command_line_gets_host_and_port(
    line: str, server: str, command: tuple[str, ...]
) -> None:
    assert remote_exec_of(line, server).command == command


@pytest.mark.parametrize(("line", "server", "problem"), INVALID_LINES)
def test_invalid_command_line_is_rejected(line: str, server: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        remote_exec_of(line, server)
