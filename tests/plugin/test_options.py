"""Settings in ini files, on the command line and in variables; functions and planners that they name; `-m vnc`."""

from __future__ import annotations

import os
import secrets

import pytest

from pytest_vnc_use.agent.build import named_functions
from pytest_vnc_use.errors import SettingsError
from support.pad_sessions import QUIET

NATIVE = """
vnc_max_steps = 20
vnc_max_seconds = 12.5
vnc_exclude = ["search", "go_back"]
vnc_screen_size = [800, 600]
vnc_watch = false
vnc_model = "a model"
vnc_runs_dir = "kept"
vnc_app = "python ./app.py"
"""
AS_TEXT = NATIVE.replace('["search", "go_back"]', "search, go_back").replace("[800, 600]", "800x600").replace('"', "")
TEST = """
def test_it(vnc_settings, pytestconfig):
    assert (vnc_settings.max_steps, vnc_settings.max_seconds, vnc_settings.watch) == (20, 12.5, False)
    assert vnc_settings.exclude == ("search", "go_back")
    assert vnc_settings.screen_size == (800, 600)
    assert vnc_settings.model == "a model"
    assert vnc_settings.runs_dir == str(pytestconfig.rootpath / "kept")
    assert vnc_settings.app == f"python {pytestconfig.rootpath}/app.py"
"""
since_9 = pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 brought native types")
FILES = [
    pytest.param("pyproject.toml", f"[tool.pytest]\n{NATIVE}", marks=since_9),
    pytest.param("pyproject.toml", f"[tool.pytest.ini_options]\n{NATIVE}"),
    pytest.param("pytest.ini", f"[pytest]\n{AS_TEXT}"),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_settings_of_file_work_from_any_directory(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(text, encoding="utf-8")
    pytester.makepyfile(app="")
    (pytester.mkdir("tests") / "test_it.py").write_text(TEST)
    os.chdir("tests")  # pytester goes back
    pytester.runpytest_subprocess("-W", "error", "-p", "no:pytest-vnc").assert_outcomes(passed=1)


WRONG = [
    pytest.param(
        "pytest", "vnc_max_seconds = [1, 2]", "* vnc_max_seconds must be a number of * above 0, got *", marks=since_9
    ),
    ("pytest.ini_options", "vnc_ap = 'xcalc'", "unknown ini option vnc_ap. Did you mean vnc_app[?]"),
]


@pytest.mark.parametrize(("table", "line", "problem"), WRONG)
def test_wrong_ini_option_is_usage_error(pytester: pytest.Pytester, table: str, line: str, problem: str) -> None:
    (pytester.path / "pyproject.toml").write_text(f"[tool.{table}]\n{line}\n", encoding="utf-8")
    outcome = pytester.runpytest_subprocess(*QUIET)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines([f"ERROR: {problem}"])


def test_env_file_is_read_where_setting_names_it(pytester: pytest.Pytester) -> None:
    """Its key is redacted, and stays out of the environment."""
    key = secrets.token_hex(16)
    (pytester.path / ".env").write_text(f"VNC_USE_MAX_STEPS=7\nGOOGLE_API_KEY={key}\n", encoding="utf-8")
    pytester.makepyfile(
        """
        import os, pathlib
        def test_it(vnc_settings):
            assert (vnc_settings.max_steps, os.environ.get("GOOGLE_API_KEY")) == (7, None)
            assert pathlib.Path(".env").read_text() == ""
        """
    )
    read = pytester.runpytest_subprocess("-o", "vnc_env_file=.env")
    read.stdout.fnmatch_lines(["*<secret:GOOGLE_API_KEY>*"])
    assert key not in read.stdout.str() + read.stderr.str()
    (pytester.path / ".env").write_text("VNC_USE_MAX_STEP=7\n", encoding="utf-8")
    misspelt = pytester.runpytest_subprocess("-o", "vnc_env_file=.env")
    misspelt.stderr.fnmatch_lines(
        ["ERROR: unknown environment variable VNC_USE_MAX_STEP. Did you mean VNC_USE_MAX_STEPS[?]"]
    )


def test_module_without_functions_is_rejected() -> None:
    with pytest.raises(SettingsError, match=r"must be a module that defines functions, got 'pytest_vnc_use.agent'"):
        named_functions("pytest_vnc_use.agent")


TESTS = """
import pytest

@pytest.mark.vnc_task("Do it", expect=None)
def test_with_task(): ...

def test_with_desktop(vnc_desktop): ...

def test_with_settings(vnc_settings): ...

@pytest.fixture
def shop(vnc_agent): ...

def test_with_custom_fixture(shop): ...

@pytest.mark.usefixtures("vnc_agent")
class TestAll:
    def test_in_class(self): ...

def test_of_numbers(): ...
"""


def test_m_vnc_selects_each_test_with_desktop(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    (pytester.path / "test_it.vnc.toml").write_text('[[test]]\nname = "pays"\ntask = "Pay"\n')
    options = ("--collect-only", "-q", "--strict-markers", "-m")
    ours, others = (
        {
            line.rpartition("::")[2]
            for line in pytester.runpytest_subprocess(*options, marker, *QUIET).outlines
            if "::" in line
        }
        for marker in ("vnc", "not vnc")
    )
    with_python = {name.partition("(")[0] for name in TESTS.split("def ") if name.startswith("test_")}
    assert (ours, others) == ({*with_python, "pays"} - {"test_of_numbers"}, {"test_of_numbers"})
