"""Settings in ini files, on the command line and in variables; functions and planners
that they name; `-m vnc`.
"""

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
vnc_env_file = ".env"
"""
AS_TEXT = (
    NATIVE.replace('["search", "go_back"]', "search, go_back")
    .replace("[800, 600]", "800x600")
    .replace('"', "")
)
TEST = """
import os

def test_it(vnc_settings, pytestconfig):
    assert (vnc_settings.max_steps, vnc_settings.max_seconds, vnc_settings.watch) == (7, 12.5, False)
    print((pytestconfig.rootpath / ".env").read_text())
    assert "GOOGLE_API_KEY" not in os.environ
    assert vnc_settings.exclude == ("search", "go_back")
    assert vnc_settings.screen_size == (800, 600)
    assert vnc_settings.model == "a model"
    assert vnc_settings.runs_dir == str(pytestconfig.rootpath / "kept")
    assert vnc_settings.app == f"python {pytestconfig.rootpath}/app.py"
"""
since_9 = pytest.mark.skipif(
    pytest.version_tuple < (9,), reason="pytest 9 brought native types"
)
FILES = [
    pytest.param("pyproject.toml", f"[tool.pytest]\n{NATIVE}", marks=since_9),
    pytest.param("pyproject.toml", f"[tool.pytest.ini_options]\n{NATIVE}"),
    pytest.param("pytest.ini", f"[pytest]\n{AS_TEXT}"),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_file_and_env_settings_work_from_any_directory(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """The key in the env file is redacted."""
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    key = secrets.token_hex(16)
    (pytester.path / name).write_text(text, encoding="utf-8")
    (pytester.path / ".env").write_text(
        f"VNC_USE_MAX_STEPS=7\nGOOGLE_API_KEY={key}\n", encoding="utf-8"
    )
    pytester.makepyfile(app="")
    (pytester.mkdir("tests") / "test_it.py").write_text(TEST)
    os.chdir("tests")  # pytester goes back
    result = pytester.runpytest_subprocess("-rP", "-W", "error", "-p", "no:pytest-vnc")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["GOOGLE_API_KEY=<secret:GOOGLE_API_KEY>"])
    assert key not in result.stdout.str() + result.stderr.str()


WRONG = [
    pytest.param(
        "pytest",
        "vnc_max_seconds = [1, 2]",
        "* vnc_max_seconds must be a number of * above 0, got *",
        marks=since_9,
    ),
    (
        "pytest.ini_options",
        "vnc_env_file = '.env'",
        (
            "unknown environment variable VNC_USE_MAX_STEP. Did you mean"
            " VNC_USE_MAX_STEPS[?]"
        ),
    ),
    (
        "pytest.ini_options",
        "vnc_ap = 'xcalc'",
        "unknown ini option vnc_ap. Did you mean vnc_app[?]",
    ),
]


@pytest.mark.parametrize(("table", "line", "problem"), WRONG)
def test_wrong_ini_option_is_usage_error(
    pytester: pytest.Pytester, table: str, line: str, problem: str
) -> None:
    (pytester.path / "pyproject.toml").write_text(
        f"[tool.{table}]\n{line}\n", encoding="utf-8"
    )
    (pytester.path / ".env").write_text("VNC_USE_MAX_STEP=7\n", encoding="utf-8")
    outcome = pytester.runpytest_subprocess(*QUIET)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.fnmatch_lines([f"ERROR: {problem}"])


def test_module_without_functions_is_rejected() -> None:
    with pytest.raises(
        SettingsError,
        match=r"must be a module that defines functions, got 'pytest_vnc_use.agent'",
    ):
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


@pytest.mark.usefixtures("without_settings")
def test_m_vnc_selects_each_test_with_desktop(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    (pytester.path / "test_it.vnc.toml").write_text(
        '[[test]]\nname = "pays"\ntask = "Pay"\n'
    )
    result = pytester.runpytest_subprocess(
        "--collect-only", "-q", "--strict-markers", "-m", "vnc", *QUIET
    )
    selected = {line.rpartition("::")[2] for line in result.outlines if "::" in line}
    with_python = {
        name.partition("(")[0]
        for name in TESTS.split("def ")
        if name.startswith("test_")
    }
    assert selected == {*with_python, "pays"} - {"test_of_numbers"}
