"""Programs that record the input they get: xterm, and pages in Chromium, also with its
DevTools.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.cli.target import PREFERENCES
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.types.elements import Element
from support.json_server import JsonServer, Posted, Reply
from support.vnc_servers import (
    VncServer,
    require,
    tigervnc,
    wait_for,
)

CHROMIUM = (
    "chromium --no-sandbox --no-first-run --disable-gpu --disable-sync"
    " --disable-background-networking --disable-component-update"
    " --password-store=basic --disable-dev-shm-usage --remote-debugging-port=0"
    " --window-position=30,40 --window-size=800,640"
)


@dataclass
class Witness:
    server: VncServer
    directory: Path

    def read(self, name: str) -> str:
        path = self.directory / f"{name}.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def expect(self, name: str, text: str) -> None:
        """Wait until a file holds `text`; what it holds instead is the failure's
        message.
        """
        assert_becomes(lambda: self.read(name), text)


def assert_becomes(look: Callable[[], Any], expected: object) -> None:
    """Assert that `look()` gives `expected` before long: a program gets input later."""
    with suppress(AssertionError):
        wait_for(lambda: look() == expected, "")
        return
    found = look()
    assert found == expected, f"it stays {found!r}, not {expected!r}"


@contextmanager
def xterm(
    server: VncServer,
    command: str,
    title: str = "terminal",
    geometry: str = "100x24+0+0",
) -> Iterator[subprocess.Popen[bytes]]:
    font = ("-u8", "-fa", "DejaVu Sans Mono", "-geometry", geometry)
    with server.run("xterm", *font, "-T", title, "-e", command) as process:
        window_of(server, title)
        yield process


@contextmanager
def openbox(server: VncServer) -> Iterator[None]:
    """Run openbox; a window shown before it is ready may stay unmapped."""
    with server.run(
        "openbox", "--startup", "xprop -root -f OPENBOX_READY 8s -set OPENBOX_READY yes"
    ):
        wait_for(
            lambda: b"yes" in server.output_of("xprop", "-root", "OPENBOX_READY"),
            "openbox",
        )
        yield


def window_of(server: VncServer, title: str) -> None:
    require("xwininfo")
    environment = {**os.environ, **server.environment}

    def is_shown() -> bool:
        command = ["xwininfo", "-name", title]
        found = subprocess.run(command, env=environment, capture_output=True, timeout=5)
        return b"IsViewable" in found.stdout

    wait_for(is_shown, f"a window {title!r}")


@contextmanager
def serving_pages(
    page: Callable[[str], Reply], receive: Callable[[Any], object]
) -> Iterator[str]:
    def take(posted: Posted) -> Reply:
        receive(posted.body)
        return Reply(b"")

    with JsonServer(take, lambda asked: page(asked.path)) as server:
        yield server.url


SHOP = """<!doctype html><meta charset="utf-8"><title>The shop</title>
<style>body { margin: 8px; font: 16px sans-serif } #late { visibility: hidden; transition: visibility 0s 0.3s }</style>
<h1>Apples &amp; pears</h1>
<p id="basket">The basket is empty.</p>
<p style="display: none">nobody reads this</p>
<button aria-label="Add an apple">+</button> <input placeholder="Coupon"> <a href="/second">To the second page</a>
<button onclick="late.style.visibility = 'visible'">Slowly</button> <p id="late">Slowly shown</p>
<iframe srcdoc="<button onclick='parent.tell(`framed`)'>Framed</button>" style="margin-left: 100px"></iframe>
<div style="margin-top: 3000px"><button onclick="tell('far')">Far below</button></div>
<script>
  function tell(kind) { fetch("/report", {method: "POST", body: JSON.stringify(kind)}).catch(() => tell(kind)) }
  document.querySelector("button").onclick = () => {
    tell("apple")
    setTimeout(() => basket.firstChild.data = "The basket holds 1 apple.", 100)
  }
  document.querySelector("input").onclick = () => tell("coupon")
  const [basket, late] = ["basket", "late"].map(id => document.getElementById(id))
</script>"""
SECOND = (
    """<!doctype html><title>Second</title><h1>The second page</h1><button onclick="alert('well?')">Alert</button>"""
    "<p>Ordered by&nbsp;Ann</p>"
)

SELECT_PAGE = (
    "data:text/html,<label>Delivery <select><option>Standard"
    "<option>Express (2 days)<option>Pickup</select></label>"
)
SECOND_OPTION_PX = 40
"""How far below the middle of that page's select its second option is shown."""


@dataclass
class Site:
    """Two pages, `/` and `/second`; `/file` is a download, `/slow` does not answer.
    `reports` is what pages send.
    """

    address: str = ""
    reports: list[Any] = field(default_factory=list)


@contextmanager
def site() -> Iterator[Site]:
    pages = Site()
    end = threading.Event()

    def page(path: str) -> Reply:
        if path == "/slow":
            end.wait(60)
        if path == "/file":
            return Reply(b"file", headers={"Content-Disposition": "attachment"})
        text = SECOND if path.startswith("/second") else SHOP
        return Reply(text.encode(), headers={"Content-Type": "text/html"})

    with serving_pages(page, pages.reports.append) as pages.address:
        yield pages
        end.set()


@contextmanager
def chromium(server: VncServer, address: str, *options: str) -> Iterator[Browser]:
    """Yield Chromium in a window away from the screen's corner, showing `address`; of
    two equal options the last one counts.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        preferences = Path(profile, "Default", "Preferences")
        preferences.parent.mkdir()
        preferences.write_text(PREFERENCES, encoding="utf-8")
        command = (*CHROMIUM.split(), f"--user-data-dir={profile}", *options, address)
        with server.run(*command):
            port = Path(profile, "DevToolsActivePort")
            wait_for(
                lambda: port.exists() and port.read_text().count("\n") == 1,
                "Chromium's DevTools",
            )
            place = f"127.0.0.1:{port.read_text().split()[0]}"
            browser = Browser(place, timeout_s=10.0)

            def shows_page() -> bool:
                with suppress(VncUseError):
                    has_focus = evaluated(browser, "document.hasFocus()")
                    return browser.url.startswith(address) and bool(has_focus)
                return False

            wait_for(shows_page, f"Chromium showing {address}")
            yield browser


def evaluated(browser: Browser, script: str) -> Any:
    """Return what JavaScript gives in the page that the browser shows."""
    return browser._read(lambda page: page.evaluate(script))


@contextmanager
def page_on_screen(page: bytes, size: tuple[int, int]) -> Iterator[VncServer]:
    """Yield a TigerVNC server whose screen Chromium fills with a page of HTML."""
    shown = Reply(page, headers={"Content-Type": "text/html"})
    width, height = size
    window = ("--window-position=0,0", f"--window-size={width},{height}")
    with (
        tigervnc(size) as server,
        serving_pages(lambda _: shown, print) as url,
        chromium(server, url, *window),
    ):
        yield server


def element(browser: Browser, name: str) -> Element:
    return next(each for each in browser.elements() if each.name == name)
