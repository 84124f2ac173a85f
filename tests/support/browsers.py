"""Chromium with its DevTools open, and a site that it shows."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.types.elements import Element
from support.json_server import Reply
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import QUIET as QUIET, openbox, serving_pages

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
  function tell(kind) { fetch("/told", {method: "POST", body: JSON.stringify(kind)}).catch(() => tell(kind)) }
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


@dataclass
class Site:
    """Two pages, `/` and `/second`; `/file` is a download, `/slow` does not answer.

    `told` holds the messages that pages send.
    """

    address: str = ""
    told: list[Any] = field(default_factory=list)


@contextmanager
def site() -> Iterator[Site]:
    pages, end = Site(), threading.Event()

    def page(path: str) -> Reply:
        if path == "/slow":
            end.wait(60)
        if path == "/file":
            return Reply(b"file", headers={"Content-Disposition": "attachment"})
        text = SECOND if path.startswith("/second") else SHOP
        return Reply(text.encode(), headers={"Content-Type": "text/html"})

    with serving_pages(page, pages.told.append) as pages.address:
        yield pages
        end.set()


@contextmanager
def chromium(server: VncServer, address: str, *options: str, window_manager: bool = False) -> Iterator[Browser]:
    """Yield Chromium in a window away from the screen's corner, showing `address`."""
    with ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        if window_manager:
            stack.enter_context(openbox(server))
        place = [f"--user-data-dir={profile}", "--window-position=30,40", "--window-size=800,640"]
        stack.enter_context(server.run("chromium", *QUIET, *place, "--remote-debugging-port=0", *options, address))
        port = Path(profile, "DevToolsActivePort")
        wait_for(lambda: _lines(port) == 2, "Chromium's DevTools", 30)
        browser = Browser(f"127.0.0.1:{port.read_text().split()[0]}", timeout_s=10.0)
        wait_for(lambda: _shows(browser, address), f"Chromium showing {address}", 30)
        yield browser


def element(browser: Browser, name: str) -> Element:
    return next(each for each in browser.elements() if each.name == name)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _shows(browser: Browser, address: str) -> bool:
    try:
        return browser.url.startswith(address) and bool(browser.text())
    except VncUseError:
        return False
