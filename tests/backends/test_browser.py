"""The browser through DevTools: real Chromium on TigerVNC, and what answers at its port in its place."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from pytest_vnc_use.backends.browser import Browser, browser_at, browser_functions
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ActionError, DesktopError, SettingsError, TaskFailed
from pytest_vnc_use.types import Click, Drag, OpenAddress, TraverseHistory, TypeText
from pytest_vnc_use.types.elements import Element
from support import vnc_servers
from support.browsers import Site, element
from support.json_server import Reply
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import assert_becomes, serving_pages


def test_address_title_text_and_functions_of_model(browser: Browser, pages: Site) -> None:
    assert browser.url == f"{pages.address}/"
    assert browser.title == "The shop"
    text = browser.text()
    assert "Apples & pears" in text
    assert "nobody reads this" not in text
    assert ">nobody reads this</p>" in browser.html()
    get_browser_state, list_elements = browser_functions(lambda: browser)
    assert get_browser_state().startswith(f"address: {pages.address}/\ntitle: The shop\nApples & pears\n")
    coupon = element(browser, "Coupon")
    (x, y), box = coupon.centre, coupon.box
    line = f"textbox 'Coupon' at ({x}, {y}), [{box.left}, {box.top}, {box.right}, {box.bottom}]"
    assert line in [listed.partition(". ")[2] for listed in list_elements().splitlines()]
    _, on_a_grid = browser_functions(lambda: browser, lambda width, height: (1000, 1000))
    assert f". textbox 'Coupon' at ({x * 1000 // 1024}, {y * 1000 // 768}), [" in on_a_grid()


def test_wait_for_text_now_later_and_never(browser: Browser, hands: VNCController) -> None:
    browser.wait_for_text("Apples & pears", within_s=0.5)
    began_s = time.monotonic()
    with pytest.raises(TaskFailed, match=r"did not show 'plums' within 0.3 s. It showed 'Apples & pears The basket is"):
        browser.wait_for_text("plums", within_s=0.3)
    assert time.monotonic() - began_s < 200
    for name, text in (
        ("Add an apple", "The basket holds 1 apple."),
        ("Slowly", "Slowly shown"),  # by a transition
        ("To the second page", "The second page"),
    ):
        hands.click(*element(browser, name).centre)
        browser.wait_for_text(text, within_s=10)
    with pytest.raises(TaskFailed, match=r"did not show 'Ordered by Ann' within .*Ordered by\\xa0Ann'"):
        browser.wait_for_text("Ordered by Ann", within_s=0.3)


def test_elements_in_view(browser: Browser, hands: VNCController, pages: Site) -> None:
    def has_come_to_rest() -> bool:  # Chromium scrolls smoothly: what is read meanwhile holds for no moment
        places = [each.centre for each in browser.elements() if each.name == "Far below"]
        hands.settle()
        return places == [each.centre for each in browser.elements() if each.name == "Far below"] != []

    elements = {(each.role, each.name) for each in browser.elements()}
    assert elements >= {
        ("heading", "Apples & pears"),
        ("button", "Add an apple"),
        ("textbox", "Coupon"),
        ("link", "To the second page"),
        ("button", "Framed"),
    }
    assert ("button", "Far below") not in elements
    hands.key_combo("end")
    assert_becomes(has_come_to_rest, True)
    hands.click(*element(browser, "Far below").centre)
    assert_becomes(lambda: pages.told, ["far"])
    browser.navigate(pages.address)
    hands.key_combo("ctrl+plus")  # zooms
    hands.settle()
    for name in ("Framed", "Add an apple"):
        hands.click(*element(browser, name).centre)
    assert_becomes(lambda: sorted(pages.told), ["apple", "far", "framed"])
    hands.key_combo("ctrl+0")


NAMES = """data:text/html,<title>Names</title><body style="margin:8px">
<h1>Sign in</h1><label>User <input id=user value="typed value"></label><br>
<label>Password <input id=password type=password value="typed value"></label><br>
<div id=note contenteditable role=button>typed <b>value</b></div>
<button id=go><span>Go <b>on</b></span></button><div id=plain>plain text</div>
<iframe id=frame srcdoc="<body style='margin:0'><button>Framed</button>" style="height:40px"></iframe>
<button id=long></button><script>long.ariaLabel = 'x'.repeat(1e6); long.textContent = 'L'</script>"""


def middle(browser: Browser, name: str) -> tuple[int, int]:
    script = "(box => [box.left + Math.min(box.width / 2, 20), box.top + Math.min(box.height / 2, 10)])"
    element = f"document.getElementById({name!r}) || document.querySelector({name!r})"
    x, y = browser._read(lambda page: page.evaluate(f"{script}(({element}).getBoundingClientRect())"))
    window = browser.window
    return int(window.left + x * window.ratio), int(window.top + y * window.ratio)


def seen(found: tuple[Element | None, ...]) -> list[tuple[str, str] | None]:
    return [each and (each.role, each.name) for each in found]


def test_elements_acted_on(browser: Browser, hands: VNCController) -> None:
    browser.navigate(NAMES.replace("\n", ""))

    def at(name: str) -> list[tuple[str, str] | None]:
        return seen(browser.acted_on(Click(*middle(browser, name))))

    assert at("h1") == [("heading", "Sign in")]
    assert at("user") == [("textbox", "User")]
    assert at("password") == [("textbox", "Password")]
    assert at("go") == at("#go b") == [("button", "Go on")]
    assert at("plain") == [("text", "plain text")]
    assert at("frame") == [("button", "Framed")]
    assert "typed" not in str(at("note"))
    (long,) = at("long")
    assert long is not None
    assert long[1].startswith("(the first 10000 of 1000000 characters) xxx")
    assert seen(browser.acted_on(Click(2, 2))) == [None]
    drag = Drag(*middle(browser, "go"), *middle(browser, "h1"))
    assert seen(browser.acted_on(drag)) == [("button", "Go on"), ("heading", "Sign in")]

    def focused() -> object:
        return browser._read(lambda page: page.evaluate("document.activeElement.id"))

    assert seen(browser.acted_on(TypeText("a"))) == [None]
    hands.click(*middle(browser, "password"))
    wait_for(lambda: focused() == "password", "focus", 5)
    assert seen(browser.acted_on(TypeText("a"))) == [("textbox", "Password")]


def test_navigating_and_back_and_forward(browser: Browser, pages: Site) -> None:
    browser.navigate(f"{pages.address}/second")
    assert (browser.title, browser.text().splitlines()[0]) == ("Second", "The second page")
    browser.back()
    assert browser.title == "The shop"
    assert "Apples" in browser.text()
    browser.forward()
    assert browser.title == "Second"
    with pytest.raises(ActionError, match="cannot go forward: there is no such page in its history"):
        browser.forward()
    browser.back()
    browser.navigate(f"{pages.address}/file")  # a download
    assert browser.url == f"{pages.address}/"
    with pytest.raises(ActionError, match="ERR_ABORTED"):
        browser.navigate("chrome://crash")
    with pytest.raises(DesktopError, match="has crashed"):
        browser.text()
    browser.navigate(pages.address)
    assert "Apples" in browser.text()
    with pytest.raises(ActionError, match=r"cannot open 'http://127.0.0.1:\d+': net::ERR_CONNECTION_REFUSED"):
        browser.navigate(f"http://127.0.0.1:{vnc_servers.free_port()}")


NO_PAGE = {
    "[]": "has no page open",
    '[{"type": "page", "url": "http://a", "id": "1"}]': "the page 'http://a' cannot be reached through DevTools",
    "[1": "is not Chrome's DevTools",
    "": "no browser answers at '127.0.0.1:.*. Start Chrome or Chromium there with",
}


def test_no_page_to_read_is_named() -> None:
    for listed, problem in NO_PAGE.items():
        with serving_pages(lambda _: Reply(listed.encode()), print) as url:  # noqa: B023  # served at once
            browser = Browser(url if listed else f"127.0.0.1:{vnc_servers.free_port()}")
            for ask in (browser.text, lambda: browser.wait_for_text("plums", within_s=0.2)):  # noqa: B023
                with pytest.raises(DesktopError, match=problem):
                    ask()


def test_opening_page_is_awaited() -> None:
    """Chromium lists a tab before it has a page that answers."""
    asked: list[str] = []

    def pages(connection: ServerConnection, request: Request) -> Response | None:
        listed = '[{"type": "page", "url": "", "id": "1"}]'
        return connection.respond(200, listed) if request.path == "/json/list" else None

    def page(connection: ServerConnection) -> None:
        for message in connection:
            question = json.loads(message)
            asked.append(question["method"])
            result = {"currentIndex": 0, "entries": [{"url": "http://a/", "title": "A"}]}
            refusal = {"error": {"message": "Not attached to an active page"}}
            connection.send(json.dumps({"id": question["id"], **({"result": result} if asked[2:] else refusal)}))

    with serve(page, "127.0.0.1", 0, process_request=pages) as server, ThreadPoolExecutor() as pool:
        pool.submit(server.serve_forever)
        assert Browser(f"127.0.0.1:{server.socket.getsockname()[1]}").url == "http://a/"
        assert asked == ["Page.getNavigationHistory"] * 3
        server.shutdown()


def no_file(name: str) -> str:
    raise FileNotFoundError(f"the program's working directory has no file {name!r}")


def test_no_browser_is_named() -> None:
    with pytest.raises(SettingsError, match="vnc_cdp must be the address"):
        browser_at("", no_file)
    with pytest.raises(DesktopError, match="no browser has been started with --remote-debugging-port=0 yet"):
        browser_at("profile/DevToolsActivePort", no_file)
    for address in ("localhost", "ftp://localhost:21", "host:99999"):
        with pytest.raises(SettingsError, match=re.escape(f"must be host:port or http://host:port, got {address!r}")):
            browser_at(address, no_file)


def test_addresses_history_and_windows_by_devtools_or_keys(
    desktop: VncServer, browser: Browser, hands: VNCController, pages: Site, connected: Callable[..., VNCController]
) -> None:
    controller = connected(desktop, browser=lambda: browser)
    for acting in (controller, hands):
        acting.perform(OpenAddress(f"{pages.address}/second"))
        browser.wait_for_text("The second page")
        acting.perform(TraverseHistory("back"))
        browser.wait_for_text("Apples")
        acting.perform(TraverseHistory("forward"))
        browser.wait_for_text("The second page")
        acting.perform(OpenAddress(pages.address.removeprefix("http://")))  # DevTools do not take that: it is typed
        browser.wait_for_text("Apples")
    controller.perform(OpenAddress("about:blank", in_new_window=True))
    assert controller.page_url() == "about:blank"
    with browser._visible_page(Deadline(10.0)) as page:
        page.call("Page.close")
    browser.wait_for_text("Apples")
    with pytest.raises(ActionError, match=r"only DevTools can open a new window\. Set vnc_cdp"):
        hands.perform(OpenAddress("about:blank", in_new_window=True))
    gone = Browser(f"127.0.0.1:{vnc_servers.free_port()}")
    with pytest.raises(ActionError, match="no browser answers at"):
        connected(desktop, browser=lambda: gone).perform(TraverseHistory("back"))
