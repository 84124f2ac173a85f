"""Playwright's `page` in the Chromium of the test's desktop, with pytest-playwright as
users have it.
"""

from __future__ import annotations

import shlex

import pytest

from pytest_vnc_use.cli.target import browser_command
from support.vnc_servers import require, require_package

CONFTEST = """
import shutil
import pytest

@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    options = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]}
    return {**browser_type_launch_args, **options}
"""
TESTS = """
import pytest
from playwright.sync_api import expect

def test_it_is_page_on_screen(page, context, vnc_desktop):
    expect(page).to_have_title("Both")
    assert page.title() == vnc_desktop.browser.title
    page.get_by_role("button").click()
    vnc_desktop.browser.wait_for_text("pressed")
    assert page.viewport_size is None
    other = context.new_page()
    assert [page, other] == context.pages

def test_of_several_it_is_one_shown(page, vnc_desktop):
    assert page.url == vnc_desktop.browser.url == "about:blank"
    page.close()

def test_assertion_fails(page, vnc_agent):
    expect(page.get_by_role("heading")).to_have_text("Neither", timeout=100)

def test_call_does_not_work(page, vnc_agent):
    page.get_by_label("secret").fill("hunter2", timeout=100)

def test_of_web_alone(page, context):
    assert page.viewport_size == {"width": 1280, "height": 720}
    assert context.pages == [page]
"""
PAGE = (
    "data:text/html,<title>Both</title><h1>Both</h1>"
    "<button onclick=\"document.querySelector('h1').append(' pressed')\">Press</button>"
)


@pytest.fixture(autouse=True)
def _with_playwright(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_package("pytest_playwright")
    # `pytester` leaves Playwright's plugin out
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")


@pytest.mark.browser
@pytest.mark.desktop
def test_one_chromium_for_both(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("Xtigervnc")
    require("chromium")
    # a proxy that is not there, for Playwright's driver too
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    pytester.makeini(
        "[pytest]\naddopts = -p no:pytest-vnc -p no:cacheprovider\nvnc_scope ="
        " session\nvnc_server = xvnc\nvnc_cdp = profile/DevToolsActivePort\nvnc_app ="
        f" {browser_command()} {shlex.quote(PAGE)}\n"
    )
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-rA", timeout=400)
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*Captured playwright call*",
            "*LocatorAssertions.to_have_text, [0-9]*.* s, AssertionError",
            "*Locator.fill, [0-9]*.* s, TimeoutError",
            "* Page.title, [0-9]*.* s",
            "vnc-use: 2 failed: 1 product, 1 inconclusive",
        ]
    )


def test_page_of_other_browser_is_rejected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(page, vnc_desktop): pass")
    options = (
        "-p",
        "no:pytest-vnc",
        "-p",
        "no:cacheprovider",
        "-ovnc_cdp=127.0.0.1:9",
        "--browser=firefox",
    )
    result = pytester.runpytest_subprocess(*options, "--vnc-server=localhost::1")
    result.assert_outcomes(errors=1)
    problem = "*this test asks for 'firefox'. Mark it with @pytest.mark.only_browser*"
    result.stdout.fnmatch_lines([problem, "vnc-use: 1 failed: 1 settings"])
