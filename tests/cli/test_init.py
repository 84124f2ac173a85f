"""`cua-vnc init` in fresh projects, as a process of its own, with a terminal and
without.
"""

from __future__ import annotations

import io
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use.agent import leasing
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.cli import main
from pytest_vnc_use.cli.project import Project
from pytest_vnc_use.cli.target import read_target
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.settings import Settings
from support.forked_python import run_python
from support.json_server import JsonServer, Reply
from support.vnc_servers import VncServer, require, require_pyside, wait_for

CTRL_D = "\x04"
AtTerminal = Callable[..., subprocess.CompletedProcess[str]]
TASK = "Type Hello into the document"
FILES = {"pytest.ini", "tests/test_first.py", ".gitignore"}
MARKED = (
    "import pytest\n@pytest.mark.vnc_task({task!r})\ndef test_a(vnc_desktop): pass\n"
)
NOBODY = "127.0.0.1::1"
"""An address at which nothing answers."""


def init(
    directory: Path, *arguments: str, stdin: int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    return run_python(
        "pytest_vnc_use.cli",
        "init",
        *arguments,
        cwd=directory,
        env={**os.environ, "CI": ""},
        stdin=stdin,
        timeout=400,
    )


def tree(directory: Path) -> dict[str, bytes]:
    files = (
        path
        for path in directory.rglob("*")
        if path.is_file() and ".git/" not in str(path)
    )
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def project(directory: Path, program: str = "xterm", task: str = "Type it") -> Project:
    return Project(directory, read_target(program, "", directory), task)


@pytest.mark.slow
def test_qt_program_twice_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_pyside()
    (tmp_path / "app.py").write_text(
        "from PySide6.QtGui import QGuiApplication, QWindow\n"
        "app = QGuiApplication([])\nwindow = QWindow()\nwindow.show()\napp.exec()\n"
    )
    # this machine may allow no network namespace
    monkeypatch.setenv("VNC_USE_QT_HOST_NETWORK", "true")
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
    assert first.stdout.endswith(
        "    python -m pytest tests/test_first.py --vnc-record=manual\n"
    )
    again = init(tmp_path, f"{sys.executable} app.py", "--task", TASK, "--policy")
    assert again.returncode == 0
    assert tree(tmp_path) == written
    assert [line.split()[0] for line in again.stdout.splitlines()[:4]] == ["keep"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "ini", "failure"),
    [
        (
            "sh -c 'exit 7'",
            "",
            "FAIL  start: the program \"sh -c 'exit 7'\" exited with 7",
        ),
        (
            "xterm",
            "vnc_server = qt",
            "FAIL  vnc_server: the project has vnc_server = 'qt', which shows Qt",
        ),
        (
            "xterm",
            f"vnc_server = {NOBODY}",
            "a running desktop, which starts no program; set vnc_exec to how",
        ),
    ],
    ids=["exits", "no Qt", "external"],
)
def test_failure_is_printed_with_next_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    ini: str,
    failure: str,
) -> None:
    require("Xtigervnc")
    monkeypatch.chdir(tmp_path)
    if ini:
        Path("pytest.ini").write_text(f"[pytest]\n{ini}\n")
    assert main(["init", program, "--task", TASK]) == 1
    output = capsys.readouterr().out
    assert failure in output
    assert output.splitlines()[-2].startswith("does not work yet: ")


@pytest.mark.slow
def test_existing_files_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS")
    (tmp_path / "spec").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\ntestpaths = ['spec']\naddopts = '-ra -n 2'\n"
    )
    (tmp_path / "spec" / "test_first.py").write_text("def test_first(): pass\n")
    (tmp_path / "conftest.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / ".gitignore").write_bytes(b"*.webp\r\n/runs")
    require("git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    before = tree(tmp_path)
    done = init(tmp_path, NOBODY, "--task", TASK)
    assert "write  spec/test_type_hello_into_the_document.py" in done.stdout
    assert "add '-p no:langsmith_plugin' to addopts in pyproject.toml" in done.stdout
    assert "note   git ignores spec/__vnc_recordings__" in done.stdout
    assert done.stdout.endswith("--vnc-record=manual -n 0\n")
    failure = (
        "FAIL  test: python -m pytest does not collect"
        " spec/test_type_hello_into_the_document.py: "
    )
    (reason,) = [line for line in done.stdout.splitlines() if line.startswith(failure)]
    assert done.returncode == 1
    assert "nowhere_to_be_found" in reason
    assert "FAIL  server: " in done.stdout
    after = tree(tmp_path)
    assert after["spec/test_first.py"] == before["spec/test_first.py"]
    assert after[".gitignore"].endswith(
        b"*.webp\r\n/runs\r\n# runs and reports of pytest-vnc-use\r\nreport.html\r\n"
    )
    assert after["pyproject.toml"].decode().count("addopts") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "no user at a terminal to ask for PROGRAM and --task"),
        (["mousepad", "--task", " "], "the task must be non-empty text, got ' '"),
        (
            ["mousepad", "--task", "Type <value:name>"],
            "the task must have no values, got <value:name>. Write the text of one",
        ),
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
    assert code == 2, output.err
    assert output.out == "", output.err
    assert error in output.err, output.err
    assert not tree(tmp_path)


@pytest.mark.parametrize(
    ("options", "directories", "test"),
    [
        ("", [], "tests/test_first.py"),
        ("testpaths = spec", [], "spec/test_first.py"),
        ("testpaths = spec ./more/", ["more"], "more/test_first.py"),
        (
            "testpaths = src/*/tests",
            ["src/b/tests", "src/a/tests"],
            "src/a/tests/test_first.py",
        ),
        ("python_files = *_spec.py 'test_*.py'", [], "tests/first_spec.py"),
    ],
)
def test_test_path_follows_pytest_options(
    tmp_path: Path, options: str, directories: list[str], test: str
) -> None:
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
        (
            {"test_first.py": "", "test_type_it.py": MARKED.format(task="Type it")},
            "test_type_it.py",
        ),
    ],
)
def test_existing_test_must_have_task(
    tmp_path: Path, files: dict[str, str], name: str
) -> None:
    (tmp_path / "tests").mkdir()
    for path, text in files.items():
        (tmp_path / "tests" / path).write_text(text)
    added = project(tmp_path)
    assert added.test == Path("tests", name)
    assert (added.plan(ci="none", policy=False)[f"tests/{name}"] is None) == (
        name in files
    )


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("Type Hello into the document", "type_hello_into_the_document"),
        (
            "Sign in as alice, add two apples and open the basket",
            "sign_in_as_alice_add_two_apples",
        ),
        (
            "Set the tax to 7 %, add a row Honey and save",
            "set_the_tax_to_7_add_a_row",
        ),
        (
            "Order two apples with express delivery to the office and pay",
            "order_two_apples_with_express_delivery",
        ),
        ("日本", "task"),
    ],
)
def test_name_of_test_has_first_words(tmp_path: Path, task: str, name: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_first.py").write_text("")
    assert project(tmp_path, task=task).test == Path("tests", f"test_{name}.py")


@pytest.mark.parametrize(
    "program", ["mousepad", "http://localhost:8000", "winbox::5900"]
)
def test_template_asserts_saved_data(tmp_path: Path, program: str) -> None:
    """A screen is compared anyway: the example is of what no screen vouches for."""
    written = Project(tmp_path, read_target(program, "", tmp_path), "Pay")
    text = written.plan(ci="none", policy=False)["tests/test_first.py"] or ""
    assert "Assert here what the program has saved" in text
    (example,) = re.findall(r"^ +# (assert .*)$", text, re.MULTILINE)
    assert "orders.csv" in example
    compile(example, "example", "exec")


def test_task_of_any_characters_is_kept(tmp_path: Path) -> None:
    task = "a\nb \\n \\ '''\"\"\" 日本 {x} %s $HOME \x00"
    names: dict[str, object] = {}
    exec(
        project(tmp_path, task=task).plan(ci="none", policy=False)[
            "tests/test_first.py"
        ]
        or "",
        names,
    )
    assert names["test_first"].pytestmark[0].args == (task,)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "where", "kind", "server", "app"),
    [
        ("mousepad", "", "xvnc", "xvnc", "mousepad"),
        ("python app.py --big", "", "qt", "qt", "python ./app.py --big"),
        ("mousepad 'my notes.txt'", "", "xvnc", "xvnc", "mousepad './my notes.txt'"),
        (
            "container:registry:5000/shop",
            "",
            "container",
            "container:registry:5000/shop",
            "",
        ),
        ("winbox::5900", "", "address", "winbox::5900", ""),
        ("a::5901,[fe80::1]::5901", "", "address", "a::5901,[fe80::1]::5901", ""),
        ("./vnc.socket", "", "address", "./vnc.socket", ""),
        ("notepad.exe", "winbox::5900", "address", "winbox::5900", "notepad.exe"),
    ],
)
def test_program_decides_desktop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    where: str,
    kind: str,
    server: str,
    app: str,
) -> None:
    (tmp_path / "my notes.txt").touch()
    (tmp_path / "app.py").write_text("import sys\n\nfrom PySide6 import QtGui\n")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("vnc.socket")
        target = read_target(program, where, tmp_path)
    assert (target.kind, target.server, target.app) == (kind, server, app)


FORM = (
    b"<form method=post><input name=user autofocus autocomplete=username>"
    b"<input type=password autocomplete=current-password><button>Sign in</button>"
)
HTML = {"Content-Type": "text/html"}


@pytest.mark.browser
@pytest.mark.desktop
def test_page_after_login_has_no_password_prompt(tmp_path: Path) -> None:
    require("Xtigervnc")
    require("chromium")
    signed_in = Reply(b"<h1>Welcome</h1>", headers=HTML)
    with JsonServer(lambda _: signed_in, lambda _: Reply(FORM, headers=HTML)) as site:
        target = read_target(f"{site.url}/", "", tmp_path)
        settings = Settings(
            server="xvnc",
            app=target.app,
            cdp="profile/DevToolsActivePort",
            screen_size=(800, 600),
        )
        with ExitStack() as stack:
            started = leasing.lease_desktop(settings)
            stack.callback(started.stop)
            controller = connect(started.server, started.password)
            stack.callback(controller.close)
            browser = leasing.browsable(settings, started).browser
            wait_for(lambda: "Sign in" in browser.text(), "the form")
            controller.settle()
            controller.click(60, 20)
            controller.type_text("alice\tsesame\n")
            wait_for(lambda: "Welcome" in browser.text(), "the next page")

            def is_covered() -> bool:
                screen = Image.open(io.BytesIO(controller.frame().png)).convert("L")
                return screen.crop((400, 100, 800, 600)).getextrema() != (255, 255)

            with pytest.raises(AssertionError, match="a prompt did not happen"):
                wait_for(is_covered, "a prompt", timeout_s=4.0)


def test_tests_of_project_do_not_fail_check(tmp_path: Path) -> None:
    """They may need what this environment lacks; the first command names one file."""
    (tmp_path / "test_shop.py").write_text("import a_module_of_the_shop\n")
    done = init(tmp_path, NOBODY, "--task", TASK)
    assert (
        "--    test: pytest finds tests/test_first.py, but not all other tests: ERROR"
        " test_shop.py; E   ModuleNotFoundError: No module named 'a_mod" in done.stdout
    )
    assert "does not work yet: server; fix that" in done.stdout
    assert done.stdout.endswith("pytest tests/test_first.py --vnc-record=manual\n")


@pytest.mark.parametrize(
    ("program", "where", "error"),
    [
        ("", "", "got ''"),
        ("mousepad \x1b[31m", "", "one line of printable characters"),
        (
            "localhost:8000/shop",
            "",
            "must be a URL, http://localhost:8000/shop, or a VNC server's address",
        ),
        ("echo 'hello", "", "No closing quotation"),
        ("http://[::1", "", "a URL must be like"),
        (
            "https://ann:s3cret@shop.test/",
            "",
            "a URL must not contain a user name or a password",
        ),
        ("http://localhost", "qt", "a URL needs --vnc=xvnc"),
        (
            "mousepad",
            "xvfb",
            (
                "--vnc must be xvnc, qt, container:IMAGE, host::port or host:display,"
                " got 'xvfb'"
            ),
        ),
    ],
)
def test_unclear_program_is_rejected(
    tmp_path: Path, program: str, where: str, error: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        read_target(program, where, tmp_path)
    assert error in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.fixture
def at_terminal(tmp_path: Path) -> Iterator[AtTerminal]:
    """Run `init`, and type answers to its questions."""
    user, terminal = pty.openpty()

    def run(*answers: str) -> subprocess.CompletedProcess[str]:
        os.write(user, "".join(answers).encode())
        return init(tmp_path, stdin=terminal)

    yield run
    os.close(user)
    os.close(terminal)


@pytest.mark.slow
def test_init_interrupted_writes_nothing(
    tmp_path: Path, at_terminal: AtTerminal
) -> None:
    done = at_terminal("mousepad\n", CTRL_D)
    assert done.returncode == 130, done.stderr
    assert "interrupted: nothing is written" in done.stdout + done.stderr
    assert not tree(tmp_path)


@pytest.mark.slow
def test_init_asks_missing_answers_and_checks_desktop(
    tmp_path: Path, tigervnc: VncServer, at_terminal: AtTerminal
) -> None:
    done = at_terminal("localhost:8000\n", f"{tigervnc.address}\n", f"{TASK}\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(tree(tmp_path)) == FILES
    assert "Which program" in done.stdout
    assert "http://localhost:8000, or" in done.stdout
    assert "What does the test do" in done.stdout
    assert f"ok    server: '{tigervnc.address}' speaks RFB 3.8" in done.stdout
    assert "note   nothing resets an external desktop" in done.stdout


@pytest.mark.parametrize(
    ("existing", "added"),
    [
        ("", "/tests/home/"),
        ("tests/home", ""),
        ("# /tests/home/", ""),
    ],
)
def test_home_in_settings_is_added_to_gitignore(
    tmp_path: Path, existing: str, added: str
) -> None:
    ini = "[pytest]\nvnc_home = tests/home\n"
    (tmp_path / "pytest.ini").write_text(ini, encoding="utf-8")
    (tmp_path / ".gitignore").write_text(f"runs/\nreport.html\n{existing}\n")
    target = read_target("mousepad", "", tmp_path)
    text = Project(tmp_path, target, TASK).plan(ci="none", policy=False)[".gitignore"]
    if not added:
        assert text is None
        return
    assert text is not None
    about, line = text.splitlines()[-2:]
    assert line == added
    assert "comment this out and commit" in about


@pytest.mark.parametrize("home", ["home", "../home", "/srv/home", "."])
def test_committed_or_external_home_is_not_ignored(tmp_path: Path, home: str) -> None:
    require("git")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.txt").touch()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "home"], cwd=tmp_path, check=True)
    ini = f"[pytest]\nvnc_home = {home}\n"
    (tmp_path / "pytest.ini").write_text(ini, encoding="utf-8")

    project = Project(tmp_path, read_target("mousepad", "", tmp_path), TASK)
    text = project.plan(ci="none", policy=False)[".gitignore"]
    assert text is not None
    assert text.endswith("report.html\n")
