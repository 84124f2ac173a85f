"""The browser under a Controller's hands, as functions for a model, and on a Desktop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.backends.browser import Browser, browser_at, browser_functions, with_browser
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import ActionError, DesktopError
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Action, Click, OpenAddress, Proposal, TraverseHistory
from support import vnc_servers
from support.browsers import QUIET, Site, element
from support.memory_desktop import ListPlanner, act, finished
from support.vnc_servers import VncServer

BACK, FORWARD = TraverseHistory("back"), TraverseHistory("forward")


@pytest.fixture
def controller(desktop: VncServer, browser: Browser, connected: Callable[..., VNCController]) -> VNCController:
    """A controller of the browser's desktop, which drives the browser by DevTools."""
    return connected(desktop, browser=lambda: browser)


def test_devtools_go_where_hands_do_not_reach(
    browser: Browser, tigervnc: VncServer, connected: Callable[..., VNCController], pages: Site
) -> None:
    controller = connected(tigervnc, browser=lambda: browser)
    controller.perform(OpenAddress(f"{pages.address}/second"))
    assert browser.title == "Second"
    controller.perform(BACK)
    assert browser.title == "The shop"
    controller.perform(FORWARD)
    assert browser.title == "Second"


def test_new_window(browser: Browser, hands: VNCController, controller: VNCController, pages: Site) -> None:
    controller.perform(OpenAddress("about:blank", in_new_window=True))
    assert controller.page_url() == "about:blank"
    controller.perform(OpenAddress(f"{pages.address}/second"))
    assert controller.page_url() == f"{pages.address}/second"
    with browser._visible_page(Deadline(10.0)) as page:
        page.call("Page.close")
    browser.wait_for_text("Apples")
    with pytest.raises(ActionError, match="only DevTools can open a new window: set vnc_cdp"):
        hands.perform(OpenAddress("about:blank", in_new_window=True))


def test_strict_sees_that_browser_left(
    browser: Browser, controller: VNCController, pages: Site, tmp_path: Path
) -> None:
    """The site's other name is the same server, and an address outside the list."""
    here, there = f"{pages.address}/second", pages.address.replace("127.0.0.1", "localhost")
    file = tmp_path / "policy.toml"
    file.write_text(f'extends = "strict"\naddresses = ["{pages.address.removeprefix("http://")}"]\n', "utf-8")
    policy = load_policy(file)

    def run(*actions: Action) -> RunResult:
        planner = ListPlanner([*(act(Proposal(action)) for action in actions), finished()])
        settings = Settings(runs_dir=str(tmp_path / "runs"))
        agent = VncUseAgent(settings=settings, planner=planner, controller=controller, policy=policy, hitl_mode=False)
        return agent.run("Look around")

    assert run(OpenAddress(here), Click(600, 300)).outcome is Outcome.DONE
    assert run(OpenAddress(there)).steps[-1].ruling.rule == "strict: no address outside the list"
    browser.navigate(there)  # as a link or a redirect does
    denied = run(Click(600, 300))
    assert denied.steps[-1].ruling.rule == "strict: the page is in the list of addresses"
    assert run(OpenAddress(here), Click(600, 300)).outcome is Outcome.DONE


def test_persons_spelling_is_typed(browser: Browser, controller: VNCController, pages: Site) -> None:
    controller.perform(OpenAddress(f"{pages.address.removeprefix('http://')}/second"))
    browser.wait_for_text("The second page")


def test_without_devtools_by_keyboard(browser: Browser, hands: VNCController, pages: Site) -> None:
    hands.perform(OpenAddress(f"{pages.address}/second"))
    browser.wait_for_text("The second page")
    hands.perform(BACK)
    browser.wait_for_text("Apples")
    hands.perform(FORWARD)
    browser.wait_for_text("The second page")


def test_missing_browser_is_action_error(tigervnc: VncServer, connected: Callable[..., VNCController]) -> None:
    gone = Browser(f"127.0.0.1:{vnc_servers.free_port()}")
    with pytest.raises(ActionError, match="no browser answers at"):
        connected(tigervnc, browser=lambda: gone).perform(BACK)


def test_what_model_is_told_of_page(browser: Browser, pages: Site) -> None:
    get_browser_state, _ = browser_functions(lambda: browser)
    assert get_browser_state().startswith(f"address: {pages.address}/\ntitle: The shop\nApples & pears\n")
    browser.navigate(f"data:text/plain,{'x' * 20_000}")
    assert get_browser_state().endswith("x" * 20_000)


def test_what_model_is_told_of_elements(browser: Browser) -> None:
    x, y = element(browser, "Coupon").centre
    _, in_pixels = browser_functions(lambda: browser)
    box = element(browser, "Coupon").box
    line = f"textbox 'Coupon' at ({x}, {y}), [{box.left}, {box.top}, {box.right}, {box.bottom}]"
    assert line in [told.partition(". ")[2] for told in in_pixels().splitlines()]
    _, on_a_grid = browser_functions(lambda: browser, lambda width, height: (1000, 1000))
    assert f". textbox 'Coupon' at ({x * 1000 // 1024}, {y * 1000 // 768}), [" in on_a_grid()


@pytest.mark.browser
@pytest.mark.desktop
def test_browser_of_desktop_started_here(pages: Site) -> None:
    vnc_servers.require("Xtigervnc")
    vnc_servers.require("chromium")
    started = XvncDesktop(size=(1024, 768), start_timeout_s=60)
    desktop = with_browser(started, lambda: browser_at("profile/DevToolsActivePort", started.read_file, timeout_s=60))
    try:
        with pytest.raises(DesktopError, match="no browser has been started"):
            _ = desktop.browser
        desktop.launch(["chromium", *QUIET, "--user-data-dir=profile", "--remote-debugging-port=0", pages.address])
        desktop.browser.wait_for_text("Apples", 60)
        assert desktop.browser.url == f"{pages.address}/"
    finally:
        desktop.stop()
