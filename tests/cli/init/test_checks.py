"""What a new project is checked for: its program, and that a plain run of pytest collects its test."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_vnc_use.cli.init import checks
from pytest_vnc_use.cli.init.checks import ci_looks_there, collected, kept_program_fits, program_found, program_starts
from pytest_vnc_use.cli.init.project import Plan, Project, plan
from pytest_vnc_use.cli.init.questions import Answers
from pytest_vnc_use.cli.init.target import read_target
from pytest_vnc_use.settings.settings import Settings
from support.vnc_servers import require

A_TEST = "def test_first(): pass\n"


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("python nosuch.py", "FAIL"),
        ("python ./app.py", "ok"),
        ("python app.py --file nosuch.py", "ok"),
        ("python -u nosuch.py", "FAIL"),
        ("python nosuch", "FAIL"),
        ("python -W ignore ./app.py", "ok"),
        ("python -m nosuch.py", "ok"),
        ("python -c 'import a.b'", "ok"),
        ("sh nosuch.sh", "FAIL"),
        ("sh -c 'exec ./nosuch'", "ok"),
        ("sh -s nosuch.sh", "ok"),
        ("cat nosuch.py", "ok"),
        ("python", "ok"),
    ],
)
def test_the_script_of_an_interpreter_must_be_there(tmp_path: Path, command: str, word: str) -> None:
    (tmp_path / "app.py").touch()
    command = command.replace("python", sys.executable, 1)
    (finding,) = program_found(read_target(command, "xvnc", tmp_path), tmp_path)
    assert finding.word == word, str(finding)
    assert word == "ok" or "'nosuch" in str(finding)


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("import nothing_of_qt", ""),
        ("from PyQt5.QtWidgets import QLabel", "PyQt5"),
        ("try:\n    import PySide2\nexcept ImportError:\n    import PyQt5", "PySide2"),
        ("try:\n    import PySide2\nexcept ImportError:\n    import PyQt6", ""),
    ],
)
@pytest.mark.parametrize("where", ["xvnc", "qt"])
def test_the_qt_that_a_script_imports_must_be_installed(tmp_path: Path, where: str, source: str, missing: str) -> None:
    (tmp_path / "app.py").write_text(f"{source}\n")
    (tmp_path / "PyQt6").mkdir()  # the only one that this Python finds
    (finding,) = program_found(read_target(f"{sys.executable} app.py", where, tmp_path), tmp_path)
    python = sys.executable
    said = f"its script imports {missing!r}, which {python} does not have: {python} -m pip install {missing}"
    assert (finding.word, finding.text) == (("FAIL", said) if missing else ("ok", python))


@pytest.mark.parametrize(
    ("ci", "said", "mended"),
    [
        (
            "github",
            "GitHub looks for it in the repository's own folder only: move it to "
            "'../.github/workflows/desktop-tests.yml', and write `defaults: {run: {working-directory: web}}`",
            {".github/workflows/desktop-tests.yml": "defaults: {run: {working-directory: web}}"},
        ),
        (
            "github",
            "move it to '../.github/workflows/desktop-tests.yml'",
            {".github/workflows/desktop-tests.yml": 'defaults:\n  run:\n    working-directory: "./web/"\n'},
        ),
        (
            "gitlab",
            "GitLab reads the repository's own .gitlab-ci.yml only: write there `include: {local: "
            "web/.gitlab/desktop-tests.yml}`, and `- cd web`",
            {
                ".gitlab-ci.yml": "include: {local: web/.gitlab/desktop-tests.yml}",
                "web/.gitlab/desktop-tests.yml": "cd web",
            },
        ),
        (
            "jenkins",
            "Jenkins starts in the repository's own folder: give the job the script path 'web/Jenkinsfile', and write "
            "`dir('web') { … }`",
            {"web/Jenkinsfile": "dir('web') {"},
        ),
    ],
)
def test_a_ci_looks_in_the_repositorys_own_folder(tmp_path: Path, ci: str, said: str, mended: dict[str, str]) -> None:
    require("git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    web = tmp_path / "web"
    web.mkdir()
    assert not [*ci_looks_there(ci, tmp_path)]
    assert not [*ci_looks_there("none", web)]
    (finding,) = ci_looks_there(ci, web)
    assert finding.word == "FAIL"
    assert said in finding.text
    for name, text in mended.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (finding,) = ci_looks_there(ci, web)
    assert finding.word == "ok", finding.text


@pytest.mark.skipif(bool(find_spec("gi")), reason="this Python has gi")
@pytest.mark.parametrize(
    ("source", "has_gi", "word"),
    [
        ("import gi", False, "FAIL"),
        ("import sys\nfrom gi.repository import Gtk", False, "FAIL"),
        ("import gi", True, "ok"),
        ("try:\n    import gi\nexcept ImportError:\n    gi = None", False, "ok"),
        ("import gimp", False, "ok"),
    ],
)
def test_the_gtk_that_a_script_imports_must_be_there(tmp_path: Path, source: str, *, has_gi: bool, word: str) -> None:
    (tmp_path / "app.py").write_text(f"{source}\n")
    if has_gi:
        (tmp_path / "gi").mkdir()
    (finding,) = program_found(read_target(f"{sys.executable} app.py --big", "", tmp_path), tmp_path)
    assert finding.word == word, str(finding)
    assert word == "ok" or finding.text == (
        f"its script imports 'gi', which {sys.executable} does not have: apt-get install python3-gi, and start it as "
        "'/usr/bin/python3 ./app.py --big', or make the venv with --system-site-packages"
    )


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("app", "word", "said"),
    [
        ("false", "FAIL", "the program 'false' exited with 1 and had not shown a window (it printed nothing)"),
        ("sh ./app.sh", "FAIL", "exited with 3 and had not shown a window no such option"),
        ("sleep 60", "--", "the program 'sleep 60' had not shown a window within 2 s"),
        ("xterm", "ok", "the program was started, shown and ended in "),
    ],
)
def test_the_program_is_started_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, word: str, said: str
) -> None:
    require("Xtigervnc")
    require("xterm")
    (tmp_path / "app.sh").write_text("echo no such option; exit 3\n")
    if app == "sleep 60":
        monkeypatch.setattr(checks, "_STARTS_S", 2.0)
    (finding,) = program_starts(Settings(server="xvnc", app=app), tmp_path)
    assert (finding.word, said in finding.text) == (word, True), str(finding)


@pytest.mark.parametrize("settings", [Settings(server="container:IMAGE", app="xterm"), Settings(server="xvnc")])
def test_a_program_that_is_not_of_this_machine_is_not_started(tmp_path: Path, settings: Settings) -> None:
    assert not list(program_starts(settings, tmp_path))


def planned_for(program: str, folder: Path) -> Plan:
    return plan(Answers(read_target(program, "", folder), "Type it", "hand", "none"), Project.read(folder))


@pytest.mark.parametrize(
    ("program", "kept", "fails"),
    [
        ("mousepad", "vnc_app = mousepda", True),
        ("sh -c true", "vnc_app = mousepad", True),
        ("mousepad", "vnc_app = mousepad", False),
        ("mousepad", "vnc_app = 'mousepad' ", False),
        ("mousepad", "vnc_app =", True),
        ("mousepad", "vnc_server = xvnc", False),
        ("python app.py", "vnc_app = python {folder}/app.py", False),
        ("http://localhost:8000/", "vnc_app = chromium --kiosk http://localhost:8000/", False),
        ("http://localhost:8000/", "vnc_app = chromium --kiosk http://localhost:3000/", True),
        ("winbox::5900", "vnc_app = mousepad", False),
    ],
)
def test_a_kept_program_must_be_the_one_that_was_asked_for(
    tmp_path: Path, program: str, kept: str, *, fails: bool
) -> None:
    (tmp_path / "app.py").touch()
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{kept.format(folder=tmp_path)}\n")
    asked, planned = read_target(program, "", tmp_path), planned_for(program, tmp_path)
    found = list(kept_program_fits(asked, planned.starts.app, planned.app_from, tmp_path))
    assert [(each.word, each.about) for each in found] == [("FAIL", "vnc_app")] * fails
    for each in found:
        assert f"pytest.ini keeps {planned.starts.app!r}, so the first test starts that and not" in each.text
        assert f"write vnc_app = {asked.app} there, or app={asked.app!r} into the vnc_task of the test" in each.text


@pytest.mark.parametrize(("own", "fails"), [("sh", False), ("nano", True)])
def test_the_program_in_the_marker_of_the_test_comes_first(tmp_path: Path, own: str, *, fails: bool) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nvnc_app = mousepda\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_first.py").write_text(f"@pytest.mark.vnc_task('Type it', app={own!r})\n{A_TEST}")
    planned = planned_for("sh", tmp_path)
    assert (planned.starts.app, planned.app_from) == (own, "tests/test_first.py")
    found = list(kept_program_fits(read_target("sh", "", tmp_path), own, planned.app_from, tmp_path))
    assert [each.text for each in found] == fails * [
        "tests/test_first.py keeps 'nano', so the first test starts that and not 'sh'; write app='sh' into its vnc_task"
    ]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("vnc_app = mousepda", "'mousepda' is no program on PATH; install it, or write its path"),
        ("vnc_app = mousepda\nvnc_server = container:IMAGE", ""),
        ("vnc_app =", ""),
        ("vnc_server = xvnc", "/sh"),
    ],
)
def test_the_program_that_the_first_test_starts_is_looked_for(tmp_path: Path, kept: str, said: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{kept}\n")
    found = list(program_found(planned_for("sh", tmp_path).starts, tmp_path))
    assert [each.text.endswith(said) for each in found] == [True] * bool(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"tests/test_first.py": A_TEST}, "ok    test: pytest finds tests/test_first.py"),
        ({"tests/test_first.py": A_TEST, "pytest.ini": "[pytest]\naddopts = -qq --ff\n"}, "ok    test: pytest finds"),
        (
            {"tests/test_first.py": A_TEST, "other/test_a.py": A_TEST, "pytest.ini": "[pytest]\ntestpaths = other\n"},
            "FAIL  test: python -m pytest does not collect tests/test_first.py: it has options; change that, or",
        ),
        ({"tests/test_first.py": A_TEST, "pytest.ini": "[pytest]\npython_functions = check_*\n"}, "does not collect"),
        ({"tests/test_first.py": A_TEST, "other/test_first.py": A_TEST}, "FAIL  test: python -m pytest ends with an"),
        ({"tests/test_first.py": A_TEST, "a/test_first.py": A_TEST}, "import file mismatch"),
        ({"tests/test_first.py": A_TEST, "a/test_a.py": "import nowhere"}, "finds tests/test_first.py, but ends with"),
    ],
)
def test_a_plain_run_must_collect_the_test(tmp_path: Path, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert said in str(collected("tests/test_first.py", tmp_path, "it has options"))
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == set(files)
