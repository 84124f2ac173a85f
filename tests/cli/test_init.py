"""`cua-vnc init` in fresh projects, as a process of its own, with a terminal and without."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.cli.init import Project, read_target
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.safety.policy_file import load_policy
from support.forked_python import run_python
from support.vnc_servers import VncServer, require, require_pyside

TASK = "Type Hello into the document"
FILES = {"pytest.ini", "tests/test_first.py", ".gitignore"}
MARKED = "import pytest\n@pytest.mark.vnc_task({task!r})\ndef test_a(vnc_desktop): pass\n"
NOBODY = "127.0.0.1::1"
"""An address at which nothing answers."""


def init(directory: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    return run_python("pytest_vnc_use.cli", "init", *arguments, cwd=directory, stdin=stdin, timeout=400)


def tree(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def project(directory: Path, program: str = "xterm", task: str = "Type it") -> Project:
    return Project(directory, read_target(program, "", directory), task)


@pytest.mark.slow
def test_qt_program_twice_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_pyside()
    (tmp_path / "app.py").write_text(
        "from PySide6.QtGui import QGuiApplication, QWindow\n"
        "app = QGuiApplication([])\nwindow = QWindow()\nwindow.show()\napp.exec()\n"
    )
    monkeypatch.setenv("VNC_USE_QT_HOST_NETWORK", "true")  # this machine may allow no network namespace
    first = init(tmp_path, f"{sys.executable} app.py", "--task", TASK, "--policy")
    assert (first.returncode, first.stderr) == (0, ""), first.stdout
    written = tree(tmp_path)
    assert set(written) == FILES | {"app.py", "vnc-policy.toml"}
    assert b"vnc_server = qt\n" in written["pytest.ini"]
    assert b"\nvnc_policy = vnc-policy.toml\n" in written["pytest.ini"]
    assert b"\naddopts = -p no:langsmith_plugin\n" in written["pytest.ini"]
    load_policy(str(tmp_path / "vnc-policy.toml"))
    assert "ok    Qt: PySide6" in first.stdout
    assert "ok    start: the program was started, shown and ended in " in first.stdout
    assert "ok    test: pytest finds tests/test_first.py" in first.stdout
    assert first.stdout.endswith("    python -m pytest tests/test_first.py --vnc-record=manual\n")
    again = init(tmp_path, f"{sys.executable} app.py", "--task", TASK, "--policy")
    assert again.returncode == 0
    assert tree(tmp_path) == written
    assert [line.split()[0] for line in again.stdout.splitlines()[:4]] == ["keep"] * 4


@pytest.mark.slow
def test_failure_is_printed_with_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require("Xtigervnc")
    for number, (program, ini, failure) in enumerate(
        (
            ("sh -c 'exit 7'", "", "FAIL  start: the program \"sh -c 'exit 7'\" exited with 7"),
            ("xterm", "vnc_server = qt", "FAIL  vnc_server: the project has vnc_server = 'qt', which shows Qt"),
            ("xterm", f"vnc_server = {NOBODY}", "a running desktop, which starts no program; set vnc_exec to how"),
        )
    ):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        if ini:
            Path("pytest.ini").write_text(f"[pytest]\n{ini}\n")
        code, output = main(["init", program, "--task", TASK]), capsys.readouterr().out
        assert (code, failure in output) == (1, True), output
        assert output.splitlines()[-2].startswith("does not work yet: ")


@pytest.mark.slow
def test_existing_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS")
    (tmp_path / "spec").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['spec']\naddopts = '-ra -n 2'\n")
    (tmp_path / "spec" / "test_first.py").write_text("def test_first(): pass\n")
    (tmp_path / "conftest.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / ".gitignore").write_bytes(b"*.json\r\n/runs")
    require("git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    before = tree(tmp_path)
    done = init(tmp_path, NOBODY, "--task", TASK)
    assert "write  spec/test_type_hello_into_the.py" in done.stdout
    assert "add '-p no:langsmith_plugin' to addopts in pyproject.toml" in done.stdout
    assert "note   git ignores spec/__vnc_recordings__" in done.stdout
    assert done.stdout.endswith("--vnc-record=manual -n 0\n")
    failure = "FAIL  test: python -m pytest does not collect spec/test_type_hello_into_the.py: "
    (reason,) = [line for line in done.stdout.splitlines() if line.startswith(failure)]
    assert (done.returncode, "nowhere_to_be_found" in reason, "FAIL  server: " in done.stdout) == (1, True, True)
    after = tree(tmp_path)
    assert after["spec/test_first.py"] == before["spec/test_first.py"]
    assert after[".gitignore"].endswith(b"*.json\r\n/runs\r\n# runs and reports of pytest-vnc-use\r\nreport.html\r\n")
    assert after["pyproject.toml"].decode().count("addopts") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "no terminal to ask for PROGRAM and --task"),
        (["mousepad", "--task", " "], "the task must be non-empty text, got ' '"),
        (["mousepad", "--task", TASK], ".gitignore' cannot be read: Is a directory"),
    ],
)
def test_wrong_usage_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if error.startswith(".git"):
        (tmp_path / ".gitignore").mkdir()
    try:
        code: object = main(["init", *arguments])
    except SystemExit as exc:
        code = exc.code
    output = capsys.readouterr()
    assert (code, output.out, error in output.err) == (2, "", True), output.err
    assert not tree(tmp_path)


@pytest.mark.parametrize(
    ("options", "directories", "test"),
    [
        ("", [], "tests/test_first.py"),
        ("testpaths = spec", [], "spec/test_first.py"),
        ("testpaths = spec ./more/", ["more"], "more/test_first.py"),
        ("testpaths = src/*/tests", ["src/b/tests", "src/a/tests"], "src/a/tests/test_first.py"),
        ("python_files = *_spec.py 'test_*.py'", [], "tests/first_spec.py"),
    ],
)
def test_test_path_follows_pytest_options(tmp_path: Path, options: str, directories: list[str], test: str) -> None:
    for name in directories:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{options.format(root=tmp_path)}\n")
    assert project(tmp_path).test == Path(test)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"test_first.py": MARKED.format(task="Type it")}, "test_first.py"),
        ({"test_first.py": "def test_a(): pass\n"}, "test_type_it.py"),
        ({"test_first.py": "def", "test_type_it.py": ""}, "test_type_it_2.py"),
        ({"test_first.py": "", "test_type_it.py": MARKED.format(task="Type it")}, "test_type_it.py"),
    ],
)
def test_existing_test_must_have_task(tmp_path: Path, files: dict[str, str], name: str) -> None:
    (tmp_path / "tests").mkdir()
    for path, text in files.items():
        (tmp_path / "tests" / path).write_text(text)
    added = project(tmp_path)
    assert added.test == Path("tests", name)
    assert (added.plan(ci="none", policy=False)[f"tests/{name}"] is None) == (name in files)


def test_task_of_any_characters_is_kept(tmp_path: Path) -> None:
    task = "a\nb \\n \\ '''\"\"\" 日本 {x} %s $HOME \x00"
    names: dict[str, object] = {}
    exec(project(tmp_path, task=task).plan(ci="none", policy=False)["tests/test_first.py"] or "", names)
    assert names["test_first"].pytestmark[0].args == (task,)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "where", "kind", "server", "app"),
    [
        ("mousepad", "", "xvnc", "xvnc", "mousepad"),
        ("python app.py --big", "", "qt", "qt", "python ./app.py --big"),
        ("mousepad 'my notes.txt'", "", "xvnc", "xvnc", "mousepad './my notes.txt'"),
        ("container:registry:5000/shop", "", "container", "container:registry:5000/shop", ""),
        ("winbox::5900", "", "address", "winbox::5900", ""),
        ("a::5901,[fe80::1]::5901", "", "address", "a::5901,[fe80::1]::5901", ""),
        ("./vnc.socket", "", "address", "./vnc.socket", ""),
        ("notepad.exe", "winbox::5900", "address", "winbox::5900", "notepad.exe"),
    ],
)
def test_program_decides_desktop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, where: str, kind: str, server: str, app: str
) -> None:
    (tmp_path / "my notes.txt").touch()
    (tmp_path / "app.py").write_text("import sys\n\nfrom PySide6 import QtGui\n")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("vnc.socket")
        target = read_target(program, where, tmp_path)
    assert (target.kind, target.server, target.app) == (kind, server, app)


@pytest.mark.parametrize(
    ("program", "where", "error"),
    [
        ("", "", "got ''"),
        ("mousepad \x1b[31m", "", "one line of printable characters"),
        ("localhost:8000/shop", "", "must be a URL, http://localhost:8000/shop, or a VNC server's address"),
        ("echo 'hello", "", "No closing quotation"),
        ("http://[::1", "", "a URL must be like"),
        ("https://ann:s3cret@shop.test/", "", "a URL must not contain a user name or a password"),
        ("http://localhost", "qt", "a URL needs --vnc=xvnc"),
        ("mousepad", "xvfb", "--vnc must be xvnc, qt, container:IMAGE, host::port or host:display, got 'xvfb'"),
    ],
)
def test_unclear_program_is_rejected(tmp_path: Path, program: str, where: str, error: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_target(program, where, tmp_path)
    assert error in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.slow
def test_init_asks_missing_answers_and_checks_desktop(tmp_path: Path, tigervnc: VncServer) -> None:
    user, terminal = pty.openpty()

    def at_terminal(*answers: str) -> subprocess.CompletedProcess[str]:
        os.write(user, "".join(answers).encode())
        return init(tmp_path, stdin=terminal)

    left = at_terminal("mousepad\n", "\x04")  # Ctrl-D
    assert (left.returncode, "interrupted: nothing is written" in left.stdout + left.stderr) == (130, True), left.stderr
    assert not tree(tmp_path)
    done = at_terminal("localhost:8000\n", f"{tigervnc.address}\n", f"{TASK}\n")
    os.close(user)
    os.close(terminal)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(tree(tmp_path)) == FILES
    for text in ("Which program", "http://localhost:8000, or", "What does the test do"):
        assert text in done.stdout
    assert f"ok    server: '{tigervnc.address}' speaks RFB 3.8" in done.stdout
    assert "note   nothing resets an external desktop" in done.stdout
