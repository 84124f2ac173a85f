"""`vnc_home`: the directory with which a test's program starts."""

from __future__ import annotations

import pytest

from support.vnc_servers import require

pytestmark = pytest.mark.desktop

DESKTOP = ("--vnc-server=xvnc", "-p", "no:cacheprovider", "-p", "no:pytest-vnc")
TESTS = """
from pathlib import Path
import pytest

def listed(vnc_desktop):
    command = ["ls", "--time-style=full-iso", "-l", "who"]
    assert " 2020-01-01 12:00:00." in vnc_desktop.run(command).stdout
    return vnc_desktop.read_file("who")

def test_setting(vnc_desktop):
    assert listed(vnc_desktop) == "alice"
    vnc_desktop.write_file("who", "mallory")

def test_other_test_has_own_copy(vnc_desktop):
    assert listed(vnc_desktop) == "alice"

class TestFixture:
    @pytest.fixture
    def vnc_home(self, tmp_path):
        (tmp_path / "who").write_text("bob")
        return tmp_path

    def test_fixture(self, vnc_desktop):
        assert listed(vnc_desktop) == "bob"

class TestNone:
    @pytest.fixture
    def vnc_home(self):
        return ""

    def test_none(self, vnc_desktop):
        assert vnc_desktop.run(["ls", "-A"]).stdout == ""
"""


@pytest.fixture
def home(pytester: pytest.Pytester) -> None:
    require("Xtigervnc")
    pytester.makeini("[pytest]\nvnc_home = tests/home\n")
    (pytester.path / "tests" / "home").mkdir(parents=True)
    (pytester.path / "tests" / "home" / "who").write_text("alice")
    (pytester.path / "tests" / "test_it.py").write_text(TESTS)


def test_home_is_copied_from_setting_or_fixture(
    home: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is seen from the root directory."""
    monkeypatch.chdir(pytester.path / "tests")
    pytester.runpytest_subprocess(*DESKTOP).assert_outcomes(passed=4)
    home_file = pytester.path / "tests" / "home" / "who"
    assert home_file.read_text() == "alice"


def test_shared_desktop_is_replaced_for_another_home(
    home: None, pytester: pytest.Pytester
) -> None:
    result = pytester.runpytest_subprocess(
        *DESKTOP, "--vnc-scope=session", "-k", "test_setting or test_fixture"
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ("--vnc-server=xvnc", "-ovnc_home=gone"),
            "vnc_home must be a directory, got '*/gone'. Correct the path, or make it:"
            " cua-vnc run … --save-home",
        ),
        (
            ("--vnc-server=xvnc", "-ovnc_home=tests/home/who"),
            "vnc_home must be a directory, got '*/tests/home/who'.*",
        ),
        (
            ("--vnc-server=container:shop",),
            "*works with the servers xvnc and qt only, got 'container:shop'. Pass -o"
            " vnc_home= or remove it, and put the files into the image",
        ),
        (
            ("--vnc-server=127.0.0.1::1",),
            "*servers xvnc and qt only, got '127.0.0.1::1'. Pass -o vnc_home= or remove"
            " it, and let a fixture write the files with vnc_desktop.write_file",
        ),
    ],
)
def test_home_that_cannot_be_copied_is_named(
    home: None, pytester: pytest.Pytester, options: tuple[str, ...], problem: str
) -> None:
    result = pytester.runpytest_subprocess(*DESKTOP[1:], *options, "-k", "test_setting")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{problem}"])
