"""Settings in each kind of ini file, as text and in native types of TOML."""

from __future__ import annotations

import os
import secrets

import pytest

NATIVE = """
vnc_max_steps = 20
vnc_max_seconds = 12.5
vnc_exclude = ["search", "go_back"]
vnc_screen_size = [800, 600]
vnc_watch = false
vnc_model = "a model"
vnc_runs_dir = "kept"
"""
AS_TEXT = """
vnc_max_steps = 20
vnc_max_seconds = 12.5
vnc_exclude = search, go_back
vnc_screen_size = 800x600
vnc_watch = false
vnc_model = a model
vnc_runs_dir = kept
"""
TEST = """
def test_it(vnc_settings, pytestconfig):
    assert (vnc_settings.max_steps, vnc_settings.max_seconds, vnc_settings.watch) == ({steps}, 12.5, False)
    assert vnc_settings.exclude == ("search", "go_back")
    assert vnc_settings.screen_size == (800, 600)
    assert vnc_settings.model == "a model"
    assert vnc_settings.runs_dir == str(pytestconfig.rootpath / "kept")
"""
since_9 = pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 brought native types")
FILES = [
    pytest.param("pyproject.toml", f"[tool.pytest]\n{NATIVE}", marks=since_9),
    pytest.param("pytest.toml", f"[pytest]\n{NATIVE}", marks=since_9),
    pytest.param("pyproject.toml", f"[tool.pytest.ini_options]\n{NATIVE}"),
    pytest.param("pytest.ini", f"[pytest]\n{AS_TEXT}"),
    pytest.param("setup.cfg", f"[tool:pytest]\n{AS_TEXT}"),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_settings_of_a_file(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(text, encoding="utf-8")
    pytester.makepyfile(TEST.format(steps=20))
    pytester.runpytest_subprocess("-W", "error", "-p", "no:pytest-vnc").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "app"),
    [
        ((), "python {root}/app.py"),
        (("--vnc-app=python ./app.py",), "python ./app.py"),
        (("-o", "vnc_app=python ./app.py"), "python ./app.py"),
    ],
)
def test_a_program_of_the_project_is_found_from_any_folder(
    pytester: pytest.Pytester, options: tuple[str, ...], app: str
) -> None:
    pytester.makeini("[pytest]\nvnc_app = python ./app.py\n")
    pytester.makepyfile(app="")
    (pytester.path / "tests").mkdir()
    expected = app.format(root=pytester.path)
    test = f"def test_it(vnc_settings): assert vnc_settings.app == {expected!r}"
    (pytester.path / "tests" / "test_it.py").write_text(test, encoding="utf-8")
    os.chdir("tests")  # pytester goes back
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), FILES[:1])
def test_the_command_line_is_stronger(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(text, encoding="utf-8")
    pytester.makepyfile(TEST.format(steps=7))
    pytester.runpytest_subprocess("--vnc-max-steps=7").assert_outcomes(passed=1)
    pytester.runpytest_subprocess("-o", "vnc_max_steps=7").assert_outcomes(passed=1)


@pytest.mark.slow
@since_9
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("vnc_max_steps = 0", "ini option vnc_max_steps must be a whole number, at least 1, got 0"),
        ("vnc_max_steps = true", "ini option vnc_max_steps must be a whole number, at least 1, got True"),
        ("vnc_max_seconds = [1, 2]", r"ini option vnc_max_seconds must be a number of seconds above 0, got \[1, 2\]"),
        ("vnc_model = {name = 'a'}", "ini option vnc_model must be text, a number, true or false, or a list of these"),
        ("vnc_exclude = [['a']]", "ini option vnc_exclude must be text, a number, true or false, or a list of these"),
    ],
)
def test_a_wrong_native_value_is_told(pytester: pytest.Pytester, line: str, complaint: str) -> None:
    (pytester.path / "pyproject.toml").write_text(f"[tool.pytest]\n{line}\n", encoding="utf-8")
    pytester.makepyfile("def test_it(): pass")
    outcome = pytester.runpytest_subprocess()
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stderr.re_match_lines([f"ERROR: {complaint}"])


def test_a_file_of_variables_is_read_if_a_setting_names_it(pytester: pytest.Pytester) -> None:
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
    pytester.runpytest_subprocess().stdout.fnmatch_lines(["*(40, None) == (7, None)*"])


def test_a_malformed_file_of_variables_ends_the_session(pytester: pytest.Pytester) -> None:
    (pytester.path / ".env").write_text("GOOGLE_API_KEY\n", encoding="utf-8")
    told = pytester.runpytest_subprocess("-o", "vnc_env_file=.env")
    told.stderr.fnmatch_lines(["ERROR: vnc_env_file '*.env', line 1, must be NAME=value*"])
