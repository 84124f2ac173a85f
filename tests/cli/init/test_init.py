"""`cua-vnc init` in fresh folders, as a process of its own, with a terminal and without."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.safety.policy_file import load_policy
from support.paths import ROOT
from support.vnc_servers import VncServer, require, require_pyside

pytestmark = pytest.mark.slow

TASK = "Type Hello into the document"
TIMEOUT_S = 100
INIT = [sys.executable, "-m", "pytest_vnc_use.cli", "init"]
FILES = {"pytest.ini", "tests/test_first.py", "vnc-policy.toml", ".gitignore", ".gitattributes"}


def init(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*INIT, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- what is written, and checked ------------------------------------------------------------------------------------


def test_a_qt_program_and_the_same_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_pyside()
    (tmp_path / "app.py").write_text(
        "from PySide6.QtGui import QGuiApplication, QWindow\n"
        "app = QGuiApplication([])\nwindow = QWindow()\nwindow.show()\napp.exec()\n"
    )
    monkeypatch.setenv("VNC_USE_QT_OPEN", "true")  # this machine may allow no network namespace
    first = init(tmp_path, f"{sys.executable} app.py", "--task", TASK)
    assert (first.returncode, first.stderr) == (0, ""), first.stdout
    written = tree(tmp_path)
    assert set(written) == FILES | {"app.py"}
    assert b"vnc_server = qt\n" in written["pytest.ini"]
    assert b"\naddopts = -p no:langsmith_plugin\n" in written["pytest.ini"]
    assert "ok    Qt: PySide6" in first.stdout
    assert "ok    start: the program was started, shown and ended in " in first.stdout
    assert "ok    test: pytest finds tests/test_first.py" in first.stdout
    assert first.stdout.endswith("next:\n    python -m pytest tests/test_first.py --vnc-record=demonstrate\n")
    load_policy(str(tmp_path / "vnc-policy.toml"))
    again = init(tmp_path, f"{sys.executable} app.py", "--task", TASK)
    assert again.returncode == 0
    assert tree(tmp_path) == written
    assert [line.split()[0] for line in again.stdout.splitlines()[:5]] == ["keep"] * 5


def test_an_address(tmp_path: Path, tigervnc: VncServer) -> None:
    done = init(tmp_path, tigervnc.address, "--task", TASK, "--record", "model", "--ci", "jenkins", GOOGLE_API_KEY="")
    assert done.returncode == 1, done.stdout
    assert set(tree(tmp_path)) == FILES | {"Jenkinsfile"}
    assert f"ok    server: '{tigervnc.address}' speaks RFB 3.8" in done.stdout
    assert "FAIL  model: no API key" in done.stdout
    assert "does not work yet: model; mend that, then:\n    GOOGLE_API_KEY=… python -m pytest" in done.stdout
    assert done.stdout.endswith(" --vnc-record=auto --vnc-planner=gemini\n")


@pytest.mark.parametrize(
    ("program", "about"),
    [("no-such-program", "program"), ("container:no-such-image", "containers"), ("127.0.0.1::1", "server")],
)
def test_what_does_not_work_is_told_at_the_end(tmp_path: Path, program: str, about: str) -> None:
    python = tmp_path / "bin"
    python.mkdir()
    done = init(tmp_path, program, "--task", TASK, PATH=str(python))
    assert done.returncode == 1
    assert f"FAIL  {about}: " in done.stdout
    last = done.stdout.splitlines()[-2]
    assert last.startswith("does not work yet: ")
    assert about in last


@pytest.mark.parametrize(
    "task", ['say "hi"', "a\nb", "back\\slash \\n \\", "'''\"\"\"", "Grüße 日本 😀", "{x} %s $HOME", "tab\tand \x00"]
)
def test_a_task_of_any_letters_is_the_tests_task(tmp_path: Path, task: str) -> None:
    from pytest_vnc_use.cli.init.project import Project, plan
    from pytest_vnc_use.cli.init.questions import given

    planned = plan(given("xterm", "", task, None, None, tmp_path), Project.read(tmp_path))
    (source,) = [file.text for file in planned.files if file.path.name == "test_first.py"]
    assert source
    names: dict[str, object] = {}
    exec(compile(source, "test_first.py", "exec"), names)
    (mark,) = names["test_first"].pytestmark  # type: ignore[attr-defined]
    assert mark.args == (task,)


def test_what_is_there_is_kept_and_told(tmp_path: Path) -> None:
    require_pyside()
    (tmp_path / "spec").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\ntestpaths = ['spec']\naddopts = '-ra --strict-config'\nvnc_server = 'xvnc'\n"
    )
    (tmp_path / "spec" / "test_first.py").write_text("def test_first(): pass\n")
    (tmp_path / ".gitignore").write_bytes(b"*.pyc\r\n/runs")
    before = tree(tmp_path)
    done = init(tmp_path, "python x.py", "--vnc", "qt", "--task", TASK, "--ci", "github")
    assert "write  spec/test_first_vnc.py" in done.stdout
    assert "note   spec/test_first.py is kept and has no vnc_task with this sentence" in done.stdout
    assert done.stdout.endswith("    python -m pytest spec/test_first_vnc.py --vnc-record=demonstrate\n")
    assert "pyproject.toml has vnc_server = 'xvnc', which is kept; for the first test it would be 'qt'" in done.stdout
    assert "add '-p no:langsmith_plugin' to addopts in pyproject.toml" in done.stdout
    assert "note   replays compare pixels: CI needs the fonts" in done.stdout
    after = tree(tmp_path)
    assert after["spec/test_first.py"] == before["spec/test_first.py"]
    assert after[".gitignore"] == b"*.pyc\r\n/runs\r\n# what runs and reports leave behind\r\nreport.html\r\n"
    assert after["pyproject.toml"].decode().count("addopts") == 1


def test_a_kept_server_that_cannot_show_the_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nvnc_server = qt\n")
    done = init(tmp_path, "sh -c true", "--task", TASK)
    assert done.returncode == 1
    assert (
        "FAIL  vnc_server: the project keeps vnc_server = 'qt', which shows Qt programs only; write vnc_server = xvnc "
        "there, or give --vnc qt if the program uses Qt"
    ) in done.stdout
    assert "does not work yet: vnc_server" in done.stdout
    assert "FAIL  vnc_server" not in init(tmp_path, "sh -c true", "--vnc", "qt", "--task", TASK).stdout


def test_a_program_that_ends_at_once_is_told(tmp_path: Path) -> None:
    require("Xtigervnc")
    done = init(tmp_path, "sh -c 'exit 7'", "--task", TASK)
    assert done.returncode == 1, done.stdout
    assert "FAIL  start: the program \"sh -c 'exit 7'\" exited with 7 and had not shown a window" in done.stdout


def test_a_typo_that_is_kept_is_told(tmp_path: Path) -> None:
    typo = init(tmp_path, "no-such-programm", "--vnc", "xvnc", "--task", TASK)
    assert "FAIL  program: 'no-such-programm' is no program on PATH" in typo.stdout
    again = init(tmp_path, "sh", "--vnc", "xvnc", "--task", TASK)
    assert again.returncode == 1
    assert "FAIL  program: 'no-such-programm' is no program on PATH" in again.stdout
    assert "FAIL  vnc_app: pytest.ini keeps 'no-such-programm', so the first test starts" in again.stdout


@pytest.mark.parametrize(("ran_by", "fails"), [("", True), ("vnc_exec = ssh testbox\n", False)])
def test_a_kept_address_where_the_program_cannot_be_started_is_told(tmp_path: Path, ran_by: str, fails: bool) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nvnc_server = 127.0.0.1::1\n{ran_by}")
    done = init(tmp_path, "sh -c true", "--task", TASK)
    told = (
        "FAIL  vnc_server: the project keeps vnc_server = '127.0.0.1::1', a desktop that runs already, where "
        "'sh -c true' cannot be started; say with vnc_exec how a command runs there, or write vnc_server = xvnc"
    )
    assert (told in done.stdout) == fails
    assert done.returncode == 1  # nobody is at the address


def test_recordings_that_git_ignores_are_told(tmp_path: Path) -> None:
    require("git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("*.json\n")
    done = init(tmp_path, "127.0.0.1::1", "--task", TASK)
    assert "note   git ignores tests/__vnc_recordings__" in done.stdout


def test_a_test_that_pytest_does_not_find_is_told(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import nowhere_to_be_found\n")
    done = init(tmp_path, "127.0.0.1::1", "--task", TASK)
    assert done.returncode == 1
    assert "FAIL  test: pytest does not find tests/test_first.py: " in done.stdout
    assert "nowhere_to_be_found" in done.stdout


# --- nothing is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "PROGRAM and --task must be given where there is no terminal to ask at"),
        (["mousepad"], "--task must be given"),
        (["--task", TASK], "PROGRAM must be given"),
        (["mousepad", "--task", " "], "--task must be given"),
        (["mousepad", "--task", TASK, "--ci", "travis"], "--ci must be one of none, github, gitlab, jenkins"),
        (["mousepad", "--task", TASK, "--record", "me"], "--record must be one of hand, model, got 'me'"),
        (["mousepad", "--task", "a\udcff"], "the task must be text in UTF-8"),
    ],
)
def test_wrong_usage_writes_nothing(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = init(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not tree(tmp_path)


@pytest.mark.parametrize("name", [".gitignore", "tests"])
def test_what_is_in_the_way_stops_it_all(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir() if name == ".gitignore" else (tmp_path / name).touch()
    before = sorted(tmp_path.rglob("*"))
    done = init(tmp_path, "mousepad", "--task", TASK)
    assert done.returncode == 2
    assert "error: nothing is written: " in done.stderr
    assert name in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_wrong_setting_of_the_environment_stops_it_all(tmp_path: Path) -> None:
    done = init(tmp_path, "mousepad", "--task", TASK, VNC_USE_STEPS="some")
    assert done.returncode == 2
    assert "VNC_USE_STEPS must be a whole number" in done.stderr
    assert not tree(tmp_path)


def test_a_link_out_of_the_project_stops_it_all(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "ignored").write_text("theirs\n")
    (project / ".gitignore").symlink_to("../ignored")
    done = init(project, "mousepad", "--task", TASK)
    assert done.returncode == 2
    assert "'.gitignore' must lie in this folder" in done.stderr
    assert tree(tmp_path) == {"ignored": b"theirs\n", "project/.gitignore": b"theirs\n"}


# --- as documented ---------------------------------------------------------------------------------------------------


def test_the_commands_in_the_docs_are_taken() -> None:
    page = (ROOT / "docs" / "init.md").read_text(encoding="utf-8")
    blocks = [block.splitlines() for block in re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    for line in (line for block in blocks for line in block if line.startswith("cua-vnc")):
        cli.parser().parse_args(shlex.split(line)[1:])
    for block in blocks[:2]:
        init_to_replay = [line for line in block if not line.startswith("pip")]
        assert init_to_replay[0].startswith("cua-vnc init ")
        assert init_to_replay[-1] == "python -m pytest"
        assert len(init_to_replay) <= 6


# --- at a terminal ---------------------------------------------------------------------------------------------------


@contextmanager
def at_terminal(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        [*INIT, *arguments], cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    os.close(terminal)
    try:
        yield process, person
    finally:
        process.kill()
        process.wait()
        os.close(person)


def heard(person: int, until: str) -> str:
    """Return the output up to a text, or to the end."""
    said = ""
    while until not in said:
        try:
            more = os.read(person, 4096)
        except OSError:  # the other end is closed
            break
        said += more.decode(errors="replace")
    return said


def test_four_questions_are_asked_and_a_bad_answer_again(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    with at_terminal(tmp_path) as (process, person):
        for question, answer in [
            ("Which program", "localhost:8000"),
            ("http://localhost:8000, or", "127.0.0.1::1"),
            ("What does the first test do", TASK),
            ("Who records it?", "a friend"),
            ("--record must be one of", ""),
            ("[github]", ""),
        ]:
            assert question in heard(person, "> ")
            os.write(person, f"{answer}\n".encode())
        said = heard(person, "never printed")
        assert process.wait(TIMEOUT_S) == 1, said  # nothing listens there
    assert set(tree(tmp_path)) == FILES | {".github/workflows/desktop-tests.yml"}


def test_options_are_not_asked_for(tmp_path: Path) -> None:
    with at_terminal(tmp_path, "127.0.0.1::1", "--record=hand", "--ci=none") as (process, person):
        assert heard(person, "> ").startswith("What does the first test do")
        os.write(person, f"{TASK}\n".encode())
        heard(person, "never printed")
        process.wait(TIMEOUT_S)
    assert set(tree(tmp_path)) == FILES


@pytest.mark.parametrize("leaves", ["Ctrl-C", "Ctrl-D"])
def test_who_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path, leaves: str) -> None:
    with at_terminal(tmp_path, "mousepad") as (process, person):
        heard(person, "> ")
        os.write(person, f"{TASK}\n".encode())
        heard(person, "> ")
        if leaves == "Ctrl-D":
            os.write(person, b"\x04")
        while leaves == "Ctrl-C" and process.poll() is None:  # one that comes just before the read is not noticed by it
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)  # a second one would end it while it ends
        assert "interrupted: nothing is written" in heard(person, "written")
        assert process.wait(TIMEOUT_S) == 130
    assert not tree(tmp_path)
