"""A browser through the whole stack: what a test, and what a model, are told of its page by vnc_cdp."""

from __future__ import annotations

import pytest

from support.vnc_servers import require

pytestmark = pytest.mark.desktop

CHROMIUM = (
    "chromium --no-sandbox --no-first-run --disable-gpu --disable-sync --disable-background-networking "
    "--disable-component-update --password-store=basic --disable-dev-shm-usage "
    "--user-data-dir=profile --remote-debugging-port=0"
)
DESKTOP = ("--vnc-server=xvnc", "-p", "no:cacheprovider", "-p", "no:pytest-vnc", "-p", "no:html")


@pytest.mark.browser
def test_planner_and_test_read_page_through_devtools(
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


def test_missing_vnc_cdp_is_named(pytester: pytest.Pytester) -> None:
    require("Xtigervnc")
    pytester.makepyfile("def test_it(vnc_desktop): vnc_desktop.browser.text()")
    result = pytester.runpytest_inprocess(*DESKTOP)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["settings: *vnc_cdp must be the address*"])
