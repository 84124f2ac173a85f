"""A browser through the whole stack: what a test, and what a model, are told of its page by vnc_cdp."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.backends.browser import browser_at
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.runs.folder import read_trace
from support.gemini_server import GeminiServer, calls
from support.vnc_servers import VncServer, require, wait_for

pytestmark = pytest.mark.desktop

CHROMIUM = (
    "chromium --no-sandbox --no-first-run --disable-gpu --disable-sync --disable-background-networking "
    "--disable-component-update --password-store=basic --disable-dev-shm-usage "
    "--user-data-dir=profile --remote-debugging-port=0"
)
DESKTOP = ("--vnc-server=xvnc", "-p", "no:cacheprovider", "-p", "no:pytest-vnc", "-p", "no:html")


@pytest.mark.browser
def test_a_page_is_read_by_the_test_and_by_the_planner_and_opened_through_devtools(
    pytester: pytest.Pytester,
) -> None:
    require("Xtigervnc")
    require("chromium")
    (pytester.path / "shop.html").write_text("<title>Shop</title><h1>Two apples</h1><button>Buy</button>")
    (pytester.path / "basket.html").write_text("<title>Basket</title><h1>Three pears</h1>")
    shop, basket = (f"file://{pytester.path}/{name}.html" for name in ("shop", "basket"))
    pytester.makepyfile(
        f"""
        import pytest
        from pytest_vnc_use.planners import finish
        from pytest_vnc_use.types import CallFunction, OpenAddress, TraverseHistory

        TOLD = []

        def script(observation):
            TOLD.extend(step.output for turn in observation.turns[-1:] for step in turn.steps)
            turns = [
                [CallFunction("get_browser_state", {{}}), CallFunction("list_elements", {{}})],
                [OpenAddress({basket!r})],
                [CallFunction("get_browser_state", {{}})],
                [TraverseHistory("back")],
                [CallFunction("get_browser_state", {{}})],
            ]
            return turns[len(observation.turns)] if len(observation.turns) < len(turns) else finish()

        @pytest.fixture
        def vnc_planner():
            return script

        @pytest.fixture
        def page(vnc_desktop):
            vnc_desktop.browser.wait_for_text("Two apples")

        @pytest.mark.vnc_task("Look into the basket and come back", expect=None)
        def test_it(page, vnc_desktop, vnc_agent):
            assert vnc_desktop.browser.url == {shop!r}
            state, elements, _, in_basket, _, back = TOLD
            assert "Two apples" in state and "Buy" in elements
            assert "Three pears" in in_basket and "Two apples" in back
        """
    )
    result = pytester.runpytest_inprocess(
        *DESKTOP, f"--vnc-app={CHROMIUM} {shop}", "-ovnc_cdp=profile/DevToolsActivePort"
    )
    result.assert_outcomes(passed=1)


def test_without_the_option_the_browser_is_out_of_reach_and_says_how(pytester: pytest.Pytester) -> None:
    require("Xtigervnc")
    pytester.makepyfile("def test_it(vnc_desktop): vnc_desktop.browser.text()")
    result = pytester.runpytest_inprocess(*DESKTOP)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["settings: *vnc_cdp must be the address*"])


def test_port_file_without_port_is_no_browser_yet() -> None:
    with pytest.raises(DesktopError, match="has not written its port into 'profile/DevToolsActivePort' yet"):
        browser_at("profile/DevToolsActivePort", lambda _: "")


# --- from the command line -------------------------------------------------------------------------------------------


def shows(port_file: Path, words: str) -> bool:
    try:
        return words in browser_at("DevToolsActivePort", lambda name: (port_file.parent / name).read_text()).text()
    except (DesktopError, FileNotFoundError):
        return False


@pytest.mark.browser
@pytest.mark.slow
def test_a_model_is_offered_the_page_on_the_command_line_too(tmp_path: Path, tigervnc: VncServer) -> None:
    require("chromium")
    (tmp_path / "shop.html").write_text("<title>Shop</title><h1>Two apples</h1><button>Buy</button>")
    (tmp_path / "basket.html").write_text("<title>Basket</title><h1>Three pears</h1>")
    shop, basket = (f"file://{tmp_path}/{name}.html" for name in ("shop", "basket"))
    replies = [
        calls(("get_browser_state", {}), ("list_elements", {})),
        calls(("navigate", {"url": basket})),
        calls(("get_browser_state", {})),
        calls(("go_back", {})),
        calls(("get_browser_state", {})),
        calls(("done", {"message": "looked"})),
    ]
    command = ["-m", "pytest_vnc_use.cli", "run", "--vnc", tigervnc.address, "--task", "Look"]
    where = ["--exec", "env", "--cdp", "profile/DevToolsActivePort", "--seconds", "100"]
    where += ["--planner-options", "environment=browser"]
    with tigervnc.run(*shlex.split(CHROMIUM), shop, cwd=str(tmp_path)), GeminiServer(replies) as model:
        wait_for(lambda: shows(tmp_path / "profile" / "DevToolsActivePort", "Two apples"), "the shop's page", 60)
        known = {"GOOGLE_API_KEY": model.api_key, "GOOGLE_GEMINI_BASE_URL": model.url}
        words = [sys.executable, *command, *where]
        done = subprocess.run(
            words, cwd=tmp_path, env=os.environ | known, capture_output=True, text=True, timeout=400, check=False
        )
        assert (done.returncode, model.refusals) == (0, []), done.stdout + done.stderr
    told = [step.output for step in read_trace(next((tmp_path / "runs").iterdir())).steps]
    page, elements, _, in_basket, _, back = told
    assert "Two apples" in page
    assert "button 'Buy' at (" in elements
    assert ("Three pears" in in_basket, "Two apples" in back) == (True, True)
