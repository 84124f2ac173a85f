"""The marker `vnc`: `-m vnc` selects all tests with a desktop, however they ask for one."""

from __future__ import annotations

import pytest

TESTS = """
import pytest

@pytest.mark.vnc_task("Do it", expect=None)
def test_with_a_task(): ...

def test_with_an_agent(vnc_agent):
    vnc_agent.run("Do it", expect=None)

def test_with_a_desktop(vnc_desktop): ...

@pytest.fixture
def shop(vnc_agent):
    return vnc_agent

def test_with_a_fixture_of_its_own(shop): ...

@pytest.mark.usefixtures("vnc_agent")
class TestAll:
    def test_in_a_class(self): ...

@pytest.mark.vnc
def test_marked_by_hand(vnc_desktop): ...

def test_of_numbers(): ...
"""
OURS = [
    "test_it.py::TestAll::test_in_a_class",
    "test_it.py::test_marked_by_hand",
    "test_it.py::test_with_a_desktop",
    "test_it.py::test_with_a_fixture_of_its_own",
    "test_it.py::test_with_a_task",
    "test_it.py::test_with_an_agent",
    "test_it.vnc.toml::pays",
]
TASKS = '[[test]]\nname = "pays"\ntask = "Pay"\n'


def collected(pytester: pytest.Pytester, *options: str) -> list[str]:
    result = pytester.runpytest_subprocess("--collect-only", "-q", *options)
    assert result.ret == 0, result.stdout.str()
    return sorted(line for line in result.outlines if "::" in line)


def test_m_vnc_selects_each_test_with_a_desktop(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    (pytester.path / "test_it.vnc.toml").write_text(TASKS)
    assert collected(pytester, "-m", "vnc", "--strict-markers") == OURS
    assert collected(pytester, "-m", "not vnc", "--strict-markers") == ["test_it.py::test_of_numbers"]


def test_workers_select_them_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_with_a_desktop(vnc_settings): ...
        def test_of_numbers(): ...
        """
    )
    result = pytester.runpytest_subprocess("-n2", "-m", "vnc", "--strict-markers", "-p", "no:pytest-vnc")
    result.assert_outcomes(passed=1)


def test_the_marker_is_declared(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.vnc: *"])
