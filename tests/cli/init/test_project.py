"""Where the first test goes in a project, and how it is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.agent.build import check_supported
from pytest_vnc_use.cli.init import project
from pytest_vnc_use.cli.init.ci import PACKAGES
from pytest_vnc_use.cli.init.ini_files import IniFile
from pytest_vnc_use.cli.init.project import Project, plan
from pytest_vnc_use.cli.init.questions import Answers
from pytest_vnc_use.cli.init.target import read_target
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.layers import merge
from support.vnc_servers import require


@pytest.mark.parametrize(
    ("options", "folders", "test"),
    [
        ("", [], "tests/test_first.py"),
        ("testpaths = spec", [], "spec/test_first.py"),
        ("testpaths = spec ./more/", ["more"], "more/test_first.py"),
        ('testpaths = "my tests" more', ["my tests", "more"], "my tests/test_first.py"),
        ("testpaths = src/*/tests", ["src/b/tests", "src/a/tests"], "src/a/tests/test_first.py"),
        ("testpaths = src/*/tests", [], "tests/test_first.py"),
        ("testpaths = src/**/tests", ["src/a/b/tests"], "src/a/b/tests/test_first.py"),
        ("testpaths = {root}/spec", ["spec"], "spec/test_first.py"),
        ("python_files = check_*.py", [], "tests/check_first.py"),
        ("python_files = *_spec.py 'test_*.py'", [], "tests/first_spec.py"),
        ("python_files = *.py", [], "tests/test_first.py"),
        ("python_files = tests/*.py [ab].py", [], "tests/test_first.py"),
    ],
)
def test_it_goes_where_pytest_looks(tmp_path: Path, options: str, folders: list[str], test: str) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{options.format(root=tmp_path)}\n")
    assert Project.read(tmp_path).test_of("Type it") == Path(test)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["other/test_first.py"], "test_first_vnc.py"),
        (["tests/unit/test_first.py"], "test_first_vnc.py"),
        (["other/test_first.py", "other/__init__.py"], "test_first.py"),
        (["other/test_first.py", "tests/__init__.py"], "test_first.py"),
        (["other/test_first.py", "other/test_first_vnc.py"], "test_first_vnc_2.py"),
        ([".venv/test_first.py", "node_modules/a/test_first.py"], "test_first.py"),
    ],
)
def test_its_name_is_that_of_no_other_module(tmp_path: Path, files: list[str], name: str) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert Project.read(tmp_path).test_of("Type it").name == name
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    assert Project.read(tmp_path).test_of("Type it").name == "test_first.py"


MARKED = "import pytest\n@pytest.mark.vnc_task({task!r})\ndef test_first(vnc_desktop): pass\n"
BARE = "def test_a(): pass\n"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"test_first.py": MARKED.format(task="Type it")}, "test_first.py"),
        (
            {"test_first.py": f"from pytest.mark import vnc_task\n@vnc_task('Type it', steps=3)\n{BARE}"},
            "test_first.py",
        ),
        ({"test_first.py": BARE}, "test_first_vnc.py"),
        ({"test_first.py": f"{BARE}# vnc_task('Type it')\n"}, "test_first_vnc.py"),
        ({"test_first.py": "def"}, "test_first_vnc.py"),
        (
            {"test_first.py": MARKED.format(task="one"), "test_first_vnc.py": MARKED.format(task="two")},
            "test_first_vnc_2.py",
        ),
        ({"test_first.py": BARE, "test_first_vnc.py": MARKED.format(task="Type it")}, "test_first_vnc.py"),
    ],
)
def test_a_kept_file_must_have_the_task(tmp_path: Path, files: dict[str, str], name: str) -> None:
    (tmp_path / "tests").mkdir()
    for each, text in files.items():
        (tmp_path / "tests" / each).write_text(text)
    answers = Answers(read_target("xterm", "", tmp_path), "Type it", "hand", "none")
    planned = plan(answers, Project.read(tmp_path))
    (did,) = [file.did for file in planned.files if file.path == Path("tests", name)]
    assert (planned.test, did) == (f"tests/{name}", "keep" if name in files else "write")
    assert f"tests/{name} " in planned.next_command
    told = f"tests/test_first.py is kept and has no vnc_task with this sentence, so the test with it is in tests/{name}"
    assert (told in planned.hints) == (name != "test_first.py")


@pytest.mark.parametrize(
    ("addopts", "ends"),
    [
        ("-q -n 2", " --vnc-record=demonstrate -n 0"),
        ("-nauto", " -n 0"),
        ("--numprocesses=2", " -n 0"),
        ("--dist loadfile", " -n 0"),
        ("-d --tx 2*popen", " -n 0"),
        ("-q --no-header", " --vnc-record=demonstrate"),
    ],
)
def test_the_next_command_records_in_one_process(tmp_path: Path, addopts: str, ends: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {addopts}\n")
    answers = Answers(read_target("xterm", "", tmp_path), "Type it", "hand", "none")
    assert plan(answers, Project.read(tmp_path)).next_command.endswith(ends)
    by_model = Answers(answers.target, "Type it", "model", "none")
    assert "-n 0" not in plan(by_model, Project.read(tmp_path)).next_command


@pytest.mark.skipif(sys.platform != "linux", reason="a network namespace is Linux's")
@pytest.mark.parametrize("reason", ["", "unshare: refused"])
def test_a_network_of_its_own_is_told_where_the_program_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(project, "why_not_closable", lambda: reason)
    answers = Answers(read_target("viewer", "qt", tmp_path), "Type it", "hand", "none")
    hints = plan(answers, Project.read(tmp_path)).hints
    assert any(hint.startswith("the program has a network of its own") for hint in hints) == (not reason)


def test_what_the_project_keeps_decides_the_checks(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nvnc_qt_open = true\nvnc_exec = ssh box\nvnc_stall = 4\n")
    answers = Answers(read_target("viewer", "qt", tmp_path), "Type it", "hand", "none")
    assert plan(answers, Project.read(tmp_path)).kept == {"qt_open": "true", "exec": "ssh box"}


def test_words_that_pytest_cannot_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text('[pytest]\ntestpaths = "my tests\n')
    with pytest.raises(SettingsError, match=r"testpaths in pytest.ini must be words as a shell reads them"):
        Project.read(tmp_path).test_of("Type it")


@pytest.mark.parametrize(
    ("program", "record", "ci", "told"),
    [
        ("xterm", "hand", "github", True),
        ("http://localhost:8000/", "hand", "gitlab", True),
        ("xterm", "model", "github", False),
        ("xterm", "hand", "none", False),
        ("container:shop xterm", "hand", "github", False),
        ("winbox::5900", "hand", "jenkins", False),
    ],
)
def test_how_to_record_in_the_image_of_the_ci_is_told(
    tmp_path: Path, program: str, record: str, ci: str, *, told: bool
) -> None:
    answers = Answers(read_target(program, "", tmp_path), "Type it", record, ci)
    hints = [hint for hint in plan(answers, Project.read(tmp_path)).hints if hint.startswith("to record there")]
    assert len(hints) == told
    for hint in hints:
        assert "run --rm -it --network host" in hint
        assert hint.endswith("python -m pytest tests/test_first.py --vnc-record=demonstrate'")
        assert f"--no-install-recommends {' '.join(PACKAGES[answers.target.kind])}" in hint


@pytest.mark.parametrize("planner", ["gemini", "anthropic", "openai", "myplan:plan"])
@pytest.mark.parametrize("program", ["xterm", "http://localhost:8000/", "container:shop xterm", "winbox::5900"])
def test_what_is_written_fits_every_planner(tmp_path: Path, program: str, planner: str) -> None:
    planned = plan(Answers(read_target(program, "", tmp_path), "Type it", "hand", "none"), Project.read(tmp_path))
    (text,) = [file.text for file in planned.files if file.path.name == "pytest.ini"]
    (tmp_path / "pytest.ini").write_text(text or "")
    options = IniFile.find(tmp_path).options
    written = {name.removeprefix("vnc_"): value for name, value in options.items() if name.startswith("vnc_")}
    check_supported(merge(({**written, "planner": planner}, str)))


def test_a_ci_file_that_was_moved_to_the_repositorys_own_folder_is_not_written_again(tmp_path: Path) -> None:
    require("git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    web = tmp_path / "web"
    web.mkdir()
    written = {}
    for ci in ("github", "gitlab"):
        answers = Answers(read_target("xterm", "", web), "Type it", "hand", ci)
        written[ci] = {file.path.as_posix() for file in plan(answers, Project.read(web)).files}
    assert ".github/workflows/desktop-tests.yml" in written["github"]
    assert ".gitlab/desktop-tests.yml" in written["gitlab"]
    assert ".gitlab-ci.yml" not in written["gitlab"], "GitLab would not read it"
    moved = tmp_path / ".github" / "workflows" / "desktop-tests.yml"
    moved.parent.mkdir(parents=True)
    moved.write_text("working-directory: web")
    answers = Answers(read_target("xterm", "", web), "Type it", "hand", "github")
    assert not [file for file in plan(answers, Project.read(web)).files if file.path.suffix == ".yml"]
