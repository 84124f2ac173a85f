"""Programs that record the input they get: the Qt witness, xterm, and a page in chromium."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vnc_use.backends.vnc import connect
from support.json_server import JsonServer, Posted, Reply
from support.paths import PROGRAMS
from support.vnc_servers import VncServer, on_free_port, require, require_pyside, running, wait_for

WITNESS = PROGRAMS / "witness.py"
PAGE = PROGRAMS / "page.html"
QUIET = [
    *("--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-sync", "--disable-background-networking"),
    *("--disable-component-update", "--password-store=basic", "--disable-dev-shm-usage"),
]
"""Options of Chromium."""


@dataclass
class Witness:
    server: VncServer
    directory: Path

    def read(self, name: str) -> str:
        path = self.directory / f"{name}.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def expect(self, name: str, text: str) -> None:
        """Wait until a file holds `text`; what it holds instead is the failure's message."""
        assert_becomes(lambda: self.read(name), text)


def assert_becomes(look: Callable[[], Any], expected: object, timeout_s: float = 30.0) -> None:
    """Assert that `look()` gives `expected` within a time: programs are told of what the hands do a moment later."""
    try:
        wait_for(lambda: look() == expected, "", timeout_s)
    except AssertionError:
        if (found := look()) != expected:
            raise AssertionError(f"after {timeout_s:g} s it is {found!r}, not {expected!r}") from None


@contextmanager
def witness_on_qt(directory: Path) -> Iterator[Witness]:
    require_pyside()
    command, platform = (sys.executable, str(WITNESS), str(directory)), "vnc:size=800x600:port={}".format
    with on_free_port(lambda port: running(*command, environment={"QT_QPA_PLATFORM": platform(port)})) as server:
        wait_for((directory / "focused.txt").exists, "the window")  # the server greets before: keys would be lost
        yield Witness(server, directory)


@contextmanager
def xterm(
    server: VncServer, command: str, title: str = "terminal", geometry: str = "100x24+0+0"
) -> Iterator[subprocess.Popen[bytes]]:
    argv = ["xterm", "-u8", "-fa", "DejaVu Sans Mono", "-geometry", geometry, "-T", title, "-e", command]
    with server.run(*argv) as process:
        window_of(server, title)
        yield process


@contextmanager
def openbox(server: VncServer) -> Iterator[None]:
    with server.run("openbox"):
        wait_for(lambda: b"window id" in server.output_of("xprop", "-root", "_NET_SUPPORTING_WM_CHECK"), "openbox")
        yield


def window_of(server: VncServer, title: str) -> None:
    require("xwininfo")
    environment = {**os.environ, **server.environment}

    def is_shown() -> bool:
        found = subprocess.run(["xwininfo", "-name", title], env=environment, capture_output=True, timeout=5)
        return b"IsViewable" in found.stdout

    wait_for(is_shown, f"a window {title!r}", timeout_s=30)  # under openbox some take 5 s to appear


@contextmanager
def serving_pages(page: Callable[[str], Reply], receive: Callable[[Any], object]) -> Iterator[str]:
    def take(posted: Posted) -> Reply:
        receive(posted.body)
        return Reply(b"")

    with JsonServer(take, lambda asked: page(asked.path)) as server:
        yield server.url


class Page:
    """A page in chromium, and the messages that its script sent."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []

    def receive(self, message: dict[str, Any]) -> None:
        if message not in self._told:  # a number tells it from one that the page sent again
            self._told.append(message)

    def last(self, kind: str) -> Any:
        return next((message["value"] for message in reversed(self._told) if message["kind"] == kind), None)

    def fills_screen(self) -> bool:
        """Return whether the page fills the screen; at first its window is smaller, and elsewhere."""
        width, height, *screen = self.last("ready") or (0, 0)
        return [width, height] == screen

    def all(self, kind: str) -> list[Any]:
        return [message["value"] for message in self._told if message["kind"] == kind]


@contextmanager
def chromium_page(server: VncServer, profile: Path, *options: str) -> Iterator[Page]:
    page, content = Page(), Reply(PAGE.read_bytes(), headers={"Content-Type": "text/html; charset=utf-8"})
    with serving_pages(lambda _: content, page.receive) as url:
        places = [f"--user-data-dir={profile}", "--window-position=0,0", "--window-size=1024,768"]
        with server.run("chromium", *QUIET, *places, "--kiosk", *options, url):
            wait_for(page.fills_screen, "the page on the whole screen", 60)
            with closing(connect(server.address)) as controller:

                def gets_a_click() -> Any:
                    """Click again: until it has painted, Chromium drops clicks."""
                    controller.click(900, 700)
                    return page.last("clicked")

                wait_for(gets_a_click, "a click that the page gets", 60)
            yield page
