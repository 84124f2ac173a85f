"""How soon a change on a desktop is on the page of `--vnc-ui`: the milliseconds from the change to its frame.

An xterm clears its screen in another colour, as often as TIMES says (default: 50); a page's websocket waits for the
frame. Beside it: how soon the same change is in the test's own framebuffer, which both stand on.

Then an xterm that changes its colour at each click: how soon after a click in the canvas its pixels are on the page
while a task is recorded, and how soon after a click by a VNC client they are at that client, with the ratio.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

from websockets.sync.client import connect

from pytest_vnc_use import clock
from pytest_vnc_use.backends import vnc
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.types import MouseDown, MouseUp, Wait
from pytest_vnc_use.ui.link import Link, Watcher
from pytest_vnc_use.ui.manual import PageUser
from pytest_vnc_use.ui.server import Desk, DeskServer

PAUSE_S = 0.3


def main(times: int) -> None:
    """Print the median and the slowest of ten."""
    with tempfile.TemporaryDirectory() as directory:
        fifo = Path(directory, "colours")
        os.mkfifo(fifo)
        loop = f'exec <>{fifo}; while read n; do printf "\\033[4${{n}}m\\033[2J"; done'
        desktop = XvncDesktop(["xterm", "-geometry", "100x40+0+0", "-e", "sh", "-c", loop])
        try:
            with closing(vnc.connect(desktop.server, desktop.password)) as controller:
                on_page, in_test = _measure(controller, fifo, times)
        finally:
            desktop.stop()
    _print(("on the page", on_page), ("in the test's framebuffer", in_test))
    on_page, direct = _measure_clicks(times)
    _print(("click to pixels on the page", on_page), ("click to pixels of a VNC client", direct))
    print(f"ratio: {statistics.median(on_page) / statistics.median(direct):.2f}")


def _print(*rows: tuple[str, list[float]]) -> None:
    for name, taken in rows:
        ordered = sorted(1000 * seconds for seconds in taken)
        within = ordered[len(ordered) * 9 // 10]
        print(f"{name}: median {statistics.median(ordered):.0f} ms, 90 % within {within:.0f} ms")


def _measure(controller: vnc.VNCController, fifo: Path, times: int) -> tuple[list[float], list[float]]:
    desk = Desk()
    server = DeskServer(desk)
    threading.Thread(target=server.run, daemon=True).start()
    link = Link(server.session_url, desk.session_token, "", lambda: None)
    watcher = Watcher(link, "bench", str)
    watcher.screen = lambda: controller.screen
    cookie = {"Cookie": f"vnc_use_desk={desk._cookie}"}  # the page's own login is not what is measured
    on_page: list[float] = []
    in_test: list[float] = []
    with connect(f"{server.address.replace('http', 'ws')}/page", additional_headers=cookie, proxy=None) as page:
        assert json.loads(page.recv())["type"] == "state"
        watcher.start()
        for number in range(times):
            _drain(page)
            changed_at = controller.screen.changed_at
            started = clock.monotonic()
            with fifo.open("w") as colours:
                colours.write(f"{1 + number % 6}\n")
            while not isinstance(page.recv(10), bytes):
                pass
            on_page.append(clock.monotonic() - started)
            assert controller.screen.changed_at > changed_at
            in_test.append(controller.screen.changed_at - started)
    watcher.close()
    link.close()
    server.end()
    return on_page, in_test


CLICKED = r"""stty raw -echo; printf '\033[?1000h'; n=0
while IFS= read -rsn6 event; do n=$((n % 6 + 1)); printf "\033[4${n}m\033[2J"; done"""


def _measure_clicks(times: int) -> tuple[list[float], list[float]]:
    """Return how long a click took to its pixels: by the page, and by a VNC client."""
    desktop = XvncDesktop(["xterm", "-geometry", "100x40+0+0", "-e", "bash", "-c", CLICKED])
    try:
        with closing(vnc.connect(desktop.server, desktop.password)) as controller:
            controller.settle()
            direct = [_click(controller) for _ in range(times)]
            return _click_on_page(controller, times), direct
    finally:
        desktop.stop()


def _click(controller: vnc.VNCController) -> float:
    controller.perform(Wait(PAUSE_S))
    started = clock.monotonic()
    controller.perform(MouseDown(100, 100))
    controller.screen.wait_until(lambda: controller.screen.changed_at > started, 10)
    took = controller.screen.changed_at - started
    controller.perform(MouseUp(100, 100))
    return took


def _click_on_page(controller: vnc.VNCController, times: int) -> list[float]:
    desk = Desk()
    server = DeskServer(desk)
    threading.Thread(target=server.run, daemon=True).start()
    link = Link(server.session_url, desk.session_token, "", lambda: None)
    watcher, user = Watcher(link, "bench", str), PageUser(link, "bench", secrets={}, ambient={})
    recording = threading.Thread(target=user.record, args=("click", [], controller, watcher), daemon=True)
    cookie = {"Cookie": f"vnc_use_desk={desk._cookie}"}
    taken = []
    with connect(f"{server.address.replace('http', 'ws')}/page", additional_headers=cookie, proxy=None) as page:
        watcher.start()
        recording.start()
        question: dict[str, str] = {}
        while question.get("about") != "record":
            message = page.recv(30)
            question = json.loads(message) if isinstance(message, str) else {}
        event = {"type": "input", "id": question["id"]}
        for _ in range(times):
            _drain(page)
            started = clock.monotonic()
            page.send(json.dumps({**event, "event": ["down", 100, 100, "left"]}))
            while not isinstance(page.recv(10), bytes):
                pass
            taken.append(clock.monotonic() - started)
            page.send(json.dumps({**event, "event": ["up", 100, 100, "left"]}))
        page.send(json.dumps({"type": "answer", "id": question["id"], "kind": "no"}))
        recording.join(30)
    watcher.close()
    link.close()
    server.end()
    return taken


def _drain(page: object) -> None:
    try:
        while True:
            page.recv(PAUSE_S)  # type: ignore[attr-defined]
    except TimeoutError:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
