"""Attempts at a test that a user has undone, with pytest in a process of its own."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("_pytest.subtests", reason="pytest 8 has no subtests")

# what the page does when its user undoes a step
TESTS = """
import pytest
from pytest_vnc_use.plugin.reruns import REPEATED, UNDONE

numbers = iter(range(1, 9))

@pytest.mark.parametrize("word", ["one"])
class TestIt:
    def test_it(self, word, request, record_property, subtests, vnc_settings):
        number = next(numbers)
        assert not hasattr(self, "seen")
        self.seen = True
        record_property("attempt", number)
        with subtests.test("last"):
            assert number == 3
        if number < 3:
            request.node.stash[UNDONE] = [number]
            pytest.skip("undone")
        assert request.node.stash[REPEATED] == [2]
        assert request.node.user_properties[0] == ("attempt", 3)

def test_next(): ...
"""
OPTIONS = (
    "--vnc-record=manual",
    "-v",
    "--junitxml=junit.xml",
    "-ojunit_family=xunit1",
)


def test_undone_attempt_leaves_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No report of it or its subtests, no property, and no instance of its class."""
    monkeypatch.setenv("CI", "1")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess(*OPTIONS, timeout=400)
    result.assert_outcomes(passed=2)
    assert "SUBFAILED" not in result.stdout.str()
    properties = ET.parse(Path("junit.xml")).iter("property")
    attempts = [
        each.get("value") for each in properties if each.get("name") == "attempt"
    ]
    assert attempts == ["3"]
