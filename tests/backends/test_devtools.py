"""The browser through DevTools: real Chromium on TigerVNC, and what answers at its port in its place."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from pytest_vnc_use.backends.browser import Browser, browser_at
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError, DesktopError, SettingsError, TaskFailed
from support import vnc_servers
from support.browsers import Site, chromium, element
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import assert_becomes

Connect = Callable[..., VNCController]


def test_address_title_and_text(browser: Browser, pages: Site) -> None:
    assert browser.url == f"{pages.address}/"
    assert browser.title == "The shop"
    text = browser.text()
    assert "Apples & pears" in text
    assert "The basket is empty." in text
    assert "nobody reads this" not in text
    assert ">nobody reads this</p>" in browser.html()


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


COVERED = """data:text/html,<label><input type=checkbox style='opacity:0'><i>Agree</i></label>
<div style='height:60px; overflow:auto'><button>First</button><div style='height:90px'></div><button>Last</button></div>
<div><button style='margin-top:200px'>Under</button></div>
<div style='position:absolute; top:250px; left:0; width:400px; height:90px; background:gold'>
<button>Over</button></div>"""


def test_elements_in_view(browser: Browser) -> None:
    found = {(each.role, each.name) for each in browser.elements()}
    assert {
        ("heading", "Apples & pears"),
        ("button", "Add an apple"),
        ("textbox", "Coupon"),
        ("link", "To the second page"),
        ("button", "Framed"),
    } <= found
    assert ("button", "Far below") not in found
    browser.navigate(COVERED)
    assert [each.name for each in browser.elements()] == ["Agree", "First", "Over"]


def test_elements_of_page_scrolled(browser: Browser, hands: VNCController, pages: Site) -> None:
    def has_come_to_rest() -> bool:  # Chromium scrolls smoothly: what is read meanwhile holds for no moment
        seen = [each.centre for each in browser.elements() if each.name == "Far below"]
        hands.settle()
        return seen == [each.centre for each in browser.elements() if each.name == "Far below"] != []

    hands.key_combo("end")
    assert_becomes(has_come_to_rest, True)
    hands.click(*element(browser, "Far below").centre)
    assert_becomes(lambda: pages.told, ["far"])


@pytest.mark.browser
@pytest.mark.parametrize(
    ("options", "zoomed", "window_manager"),
    [
        pytest.param((), 2, True, id="window-of-openbox-zoomed"),
        pytest.param(("--kiosk",), 0, False, id="kiosk"),
        pytest.param(("--force-device-scale-factor=1.5",), 1, False, id="large-pixels-zoomed"),
    ],
)
def test_click_on_element_meets_it(
    tigervnc: VncServer, connected: Connect, pages: Site, options: tuple[str, ...], zoomed: int, window_manager: bool
) -> None:
    hands = connected(tigervnc)
    with chromium(tigervnc, pages.address, *options, window_manager=window_manager) as browser:
        for _ in range(zoomed):
            hands.key_combo("ctrl+plus")
            hands.settle()
        pages.told.clear()
        for name in ("Coupon", "Framed", "Add an apple"):
            hands.click(*element(browser, name).centre)
        assert_becomes(lambda: sorted(pages.told), ["apple", "coupon", "framed"])


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
    browser.navigate("chrome://version")
    assert "Chromium" in browser.text()
    browser.navigate(f"{pages.address}/")
    browser.navigate(f"{pages.address}/#below")
    assert browser.url == f"{pages.address}/#below"
    browser.back()
    browser.navigate(f"{pages.address}/file")  # a download
    assert browser.url == f"{pages.address}/"
    with pytest.raises(DesktopError, match=r"refuses Page\.navigate"):
        browser.navigate("example.org")
    with pytest.raises(ActionError, match=r"cannot open 'http://127.0.0.1:\d+': net::ERR_CONNECTION_REFUSED"):
        browser.navigate(f"http://127.0.0.1:{vnc_servers.free_port()}")


@pytest.mark.slow
def test_of_several_tabs_visible_one(browser: Browser, hands: VNCController, pages: Site) -> None:
    hands.click(*element(browser, "Coupon").centre)
    hands.key_combo("ctrl+t")
    wait_for(lambda: browser.url.startswith("chrome://new"), "a new tab")
    browser.navigate(f"{pages.address}/second")
    assert browser.title == "Second"
    hands.key_combo("ctrl+pageup")
    assert_becomes(lambda: browser.title, "The shop")
    hands.key_combo("ctrl+pagedown")
    assert_becomes(lambda: browser.title, "Second")
    hands.key_combo("ctrl+w")
    assert_becomes(lambda: browser.title, "The shop")


def test_text_in_tab_that_comes_to_front(browser: Browser, hands: VNCController) -> None:
    """The page that is asked first is hidden while it waits."""
    link = element(browser, "To the second page")

    def open_in_a_tab() -> None:
        hands.click(*link.centre, "middle")
        hands.key_combo("ctrl+pagedown")

    opening = threading.Thread(target=open_in_a_tab)
    opening.start()
    browser.wait_for_text("The second page", within_s=10)
    opening.join()
    hands.key_combo("ctrl+w")
    assert_becomes(lambda: browser.title, "The shop")


@pytest.mark.slow
def test_page_that_waits_for_answer(browser: Browser, hands: VNCController, pages: Site) -> None:
    hasty = Browser(browser.address, timeout_s=1.0)
    hasty.navigate(f"{pages.address}/second")
    hands.settle()  # Chromium passes over input until it has painted
    hands.click(*element(hasty, "Alert").centre)
    wait_for(lambda: _told(hasty.text, "did not answer within 1 s"), "the dialog")
    assert hasty.url == f"{pages.address}/second"
    hands.key_combo("enter")
    assert_becomes(lambda: "Alert" in browser.text(), True)


def _told(ask: Callable[[], object], problem: str) -> bool:
    try:
        ask()
    except DesktopError as exc:
        return problem in str(exc)
    return False


def test_server_that_does_not_answer(browser: Browser, pages: Site) -> None:
    hasty = Browser(browser.address, timeout_s=0.5)
    with pytest.raises(DesktopError, match="did not answer within"):
        hasty.navigate(f"{pages.address}/slow")


@pytest.mark.browser
def test_page_that_crashes(tigervnc: VncServer, pages: Site) -> None:
    with chromium(tigervnc, pages.address) as browser:
        with pytest.raises(ActionError, match="ERR_ABORTED"):
            browser.navigate("chrome://crash")
        with pytest.raises(DesktopError, match="has crashed"):
            browser.text()
        assert browser.url == f"{pages.address}/"
        browser.navigate(pages.address)
        assert "Apples" in browser.text()


@pytest.mark.browser
def test_browser_that_ends_meanwhile(tigervnc: VncServer, pages: Site) -> None:
    with chromium(tigervnc, pages.address) as browser:
        failures: list[str] = []
        waiting = threading.Thread(target=lambda: failures.append(_failure(lambda: browser.wait_for_text("plums", 60))))
        waiting.start()
        tigervnc.kill()
        waiting.join(30)
    assert re.search("was closed|no browser answers|cannot be reached|no page open", failures[0])


def _failure(ask: Callable[[], object]) -> str:
    with pytest.raises(DesktopError) as caught:
        ask()
    return str(caught.value)


def test_no_browser_there() -> None:
    with pytest.raises(DesktopError, match=r"no browser answers at '127.0.0.1:.*: start Chrome or Chromium there with"):
        Browser(f"127.0.0.1:{vnc_servers.free_port()}").text()


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ("[]", "has no page open"),
        ('[{"type": "page", "url": "http://a", "id": "1"}]', "the page 'http://a' cannot be reached through DevTools"),
        ('{"type": "page"}', "is not Chrome's DevTools"),
        ("[1", "is not Chrome's DevTools"),
    ],
)
def test_what_browser_lists(listed: str, problem: str) -> None:
    class Exchange(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/json/list":
                self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(listed)}\r\n\r\n{listed}".encode())

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Exchange) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        with pytest.raises(DesktopError, match=problem):
            Browser(f"127.0.0.1:{http.server_port}").text()
        with pytest.raises(DesktopError, match=problem):
            Browser(f"127.0.0.1:{http.server_port}").wait_for_text("plums", within_s=0.2)
        http.shutdown()
        thread.join()


def test_url_of_opening_page_is_awaited() -> None:
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

    with serve(page, "127.0.0.1", 0, process_request=pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert Browser(f"127.0.0.1:{server.socket.getsockname()[1]}").url == "http://a/"
        assert asked == ["Page.getNavigationHistory"] * 3
        server.shutdown()


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:http", "ftp://localhost:21", "host:99999", "http://[::1"]
)
def test_address_that_makes_no_sense(address: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"must be host:port or http://host:port, got {address!r}")):
        Browser(address)


def no_file(name: str) -> str:
    raise FileNotFoundError(f"the program's working directory has no file {name!r}")


def test_browser_by_file_in_its_profile(browser: Browser) -> None:
    port = int(browser.address.rpartition(":")[2])
    files = {"profile/DevToolsActivePort": f"{port}\n/devtools/browser/1234"}
    assert browser_at("profile/DevToolsActivePort", files.__getitem__).title == "The shop"
    assert browser_at(f"localhost:{port}", no_file).title == "The shop"


@pytest.mark.parametrize(
    ("cdp", "error", "message"),
    [
        ("", SettingsError, "vnc_cdp must be the address"),
        ("profile/DevToolsActivePort", DesktopError, "no browser has been started with --remote-debugging-port=0 ye"),
        ("nonsense", SettingsError, "got 'nonsense'"),
    ],
)
def test_no_browser_is_named(cdp: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        browser_at(cdp, no_file)
