"""What a test reads of the browser's page counts as a check, by whichever of its names."""

from __future__ import annotations

import shlex

import pytest

from support.browsers import QUIET
from support.vnc_servers import require

pytestmark = [pytest.mark.browser, pytest.mark.desktop]

CONFTEST = """
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Decision

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(lambda observation: Decision("finished", "it is open"))

@pytest.fixture
def vnc_judge():
    return None
"""
TESTS = """
import pytest
pytestmark = pytest.mark.vnc_task("Open the page")

def test_url(vnc_desktop):
    assert vnc_desktop.browser.url.startswith("data:text/html")

def test_title(vnc_desktop):
    page = vnc_desktop.browser
    assert page.title == "Both"

def test_text_that_is_awaited(vnc_desktop):
    vnc_desktop.browser.wait_for_text("Both")

def test_browser_alone(vnc_desktop):
    assert vnc_desktop.browser
"""


def test_reading_the_page_is_a_check(pytester: pytest.Pytester) -> None:
    require("Xtigervnc")
    require("chromium")
    page = "data:text/html,<title>Both</title><h1>Both</h1>"
    chromium = ["chromium", *QUIET, "--user-data-dir=profile", "--remote-debugging-port=0", page]
    pytester.makeini(
        "[pytest]\naddopts = -p no:pytest-vnc -p no:cacheprovider\nvnc_scope = session\nvnc_server = xvnc\n"
        f"vnc_cdp = profile/DevToolsActivePort\nvnc_app = {shlex.join(chromium)}\n"
    )
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-rA", timeout=400)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["FAILED *::test_browser_alone - inconclusive*"])
