"""Files and commands of a desktop: in a directory here, by `env -C`, and on a machine by a real ssh."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.remote import RemoteExec, remote_exec_of
from pytest_vnc_use.desktops.started import WorkingDirectory
from pytest_vnc_use.errors import DesktopError, FileUnreadable, SettingsError
from support.ssh_server import ssh_server
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="env -C and /proc")

Files = WorkingDirectory | RemoteExec


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
    return remote_exec_of(f"{request.getfixturevalue('ssh')} env -C {tmp_path}", "desktop-host:1")


@pytest.fixture(params=["here", "there"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """The files in `tmp_path`, reached both ways."""
    return WorkingDirectory(tmp_path) if request.param == "here" else RemoteExec(["env", "-C", str(tmp_path)])


def test_files_are_written_read_and_listed(files: Files) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file 'orders.csv'; it has no files"):
        files.read("orders.csv")
    text = "Äpfel;2\nno end of line \0 $HOME"
    for name in ("list.txt", "a directory/deep/it's.csv", "-n", "a/../b.txt"):
        files.write(name, text)
        assert files.read(name) == text
    with pytest.raises(FileNotFoundError, match=r"it has '-n', \"a directory/deep/it's.csv\", 'b.txt', 'list.txt'$"):
        files.read("orders.csv")
    for name in ("/etc/hostname", "a/../../secret"):
        for use in (files.read, lambda name: files.write(name, "text")):
            with pytest.raises(DesktopError, match=f"must lie in the program's working directory, got '{name}'"):
                use(name)


def test_file_no_text_is_rejected(files: Files, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 70 << 20)
    for name in ("directory", "loop", "pipe", "image.png", "large"):
        with pytest.raises(FileUnreadable, match=rf"cannot read '{name}' "):
            files.read(name)
    with pytest.raises(FileUnreadable, match=r"at most 67108864 bytes, it has 73400320; look at it there"):
        files.read("large")
    with pytest.raises(DesktopError, match="cannot write 'pipe' "):
        files.write("pipe", "text")


def test_link_out_of_directory_is_rejected(tmp_path: Path) -> None:
    files = WorkingDirectory(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path.parent)
    (tmp_path / "orders.csv").symlink_to("/etc/hostname")
    for name in ("link/secret.txt", "orders.csv"):  # the program made the link
        with pytest.raises(FileUnreadable, match=f"cannot read '{name}' .*: a link leads out of that directory, to '/"):
            files.read(name)
        with pytest.raises(DesktopError, match=f"cannot write '{name}' .*: a link leads out of that directory, to '/"):
            files.write(name, "overwritten")


def sleeping(duration: str) -> list[str]:
    """Ids of the processes that sleep for so long."""
    ids = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has exited
            ids += [file.parent.name] if file.read_bytes() == f"sleep\0{duration}\0".encode() else []
    return ids


def test_command_arrives_word_by_word_and_answers(reach: RemoteExec) -> None:
    words = ["two words", "", "it's", '"$HOME"', "*", "a\nb", "-n", "Äpfel"]
    assert reach.run(["printf", "[%s]", *words], 30).stdout == "".join(f"[{word}]" for word in words)
    for script, answer in (
        ("echo here; echo no >&2; exit 7", (7, "here\n", "no\n")),
        ("exit 127", (127, "", "")),  # its own, not that of a missing command
        ("sh -c 'kill -SEGV $$' 2>/dev/null; exit $?", (-11, "", "")),
    ):
        ran = reach.run(["sh", "-c", script], 30)
        assert (ran.exit_code, ran.stdout, ran.stderr) == answer
    with pytest.raises(DesktopError, match="cannot start 'no-such-command'"):
        reach.run(["no-such-command"], 30)
    assert (reach.has("no-such-command"), reach.has("sh")) == (False, True)


def test_command_out_of_time_is_killed_there(reach: RemoteExec) -> None:
    mine, its_childs = f"3{os.getpid()}", f"4{os.getpid()}"
    script = f"setsid sleep {its_childs} & exec sleep {mine}"
    with pytest.raises(DesktopError, match=r"'?sh -c .* did not end within 0.5 s. Increase its timeout_s"):
        reach.run(["sh", "-c", script], 0.5)
    wait_for(lambda: not sleeping(mine) and not sleeping(its_childs), "the end of both")


def test_command_without_input_is_named(tmp_path: Path) -> None:
    deaf = RemoteExec(["sh", "-c", 'cd "$0" && exec "$@" </dev/null', str(tmp_path)])
    with pytest.raises(DesktopError, match=r"cannot write 'list.txt': 0 of 6 bytes arrived; .* 'docker exec -i'"):
        deaf.write("list.txt", "apples")


NOWHERE = [
    (
        ["ssh", "no-such-host.invalid"],
        r"'ssh no-such-host.invalid' does not lead to the desktop: .*resolve.* \(exit code 255\). Try it in a shell",
    ),
    (["echo", "hello"], r"'echo hello' does not lead to the desktop: it printed nothing"),
]


def test_command_that_leads_nowhere_is_named() -> None:
    require("ssh")
    for command, message in NOWHERE:
        reach = RemoteExec(command)
        for use in (lambda: reach.run(["true"], 30), lambda: reach.read("a"), lambda: reach.has("sh"), reach.end):  # noqa: B023
            with pytest.raises(DesktopError, match=message):
                use()


def test_refused_ssh_asks_for_no_password(ssh: str, tmp_path: Path) -> None:
    config = Path(ssh.split()[2]).read_text().replace("IdentityFile", "#")
    (tmp_path / "config").write_text(config)
    stranger = RemoteExec(["ssh", "-F", str(tmp_path / "config"), *ssh.split()[3:]])
    with pytest.raises(DesktopError, match=r"does not lead to the desktop: .*Permission denied \(publickey"):
        stranger.run(["true"], 30)


LINES: list[tuple[str, str, tuple[str, ...] | str]] = [
    ("ssh -p 2222 {host}", "lab-7:1", ("ssh", "-p", "2222", "lab-7")),
    ("reach {host} {port}", "[::1]::5901", ("reach", "::1", "5901")),
    ("docker exec -i 'my desk'", "/run/vnc", ("docker", "exec", "-i", "my desk")),
    ("ssh {host}", "/run/vnc", r"contains '{host}', but the address '/run/vnc' has neither host nor port"),
    ("ssh 'lab", "lab-7:1", r"must be a command line, got \"ssh 'lab\": No closing quotation"),
]


def test_command_line_gets_host_and_port() -> None:
    for line, server, expected in LINES:
        if isinstance(expected, tuple):
            assert remote_exec_of(line, server).command == expected
        else:
            with pytest.raises(SettingsError, match=expected):
                remote_exec_of(line, server)
