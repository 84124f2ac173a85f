"""How soon a change on a desktop is on the page of `--vnc-ui`: the milliseconds from the change to its frame.

An xterm clears its screen in another colour, as often as TIMES says (default: 50); a page's websocket waits for the
frame. Beside it: how soon the same change is in the test's own framebuffer, which both stand on.
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
from pytest_vnc_use.ui.link import Link, Watcher
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
    for name, taken in (("on the page", on_page), ("in the test's framebuffer", in_test)):
        ordered = sorted(1000 * each for each in taken)
        print(
            f"{name}: median {statistics.median(ordered):.0f} ms, 90 % within {ordered[len(ordered) * 9 // 10]:.0f} ms"
        )


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


def _drain(page: object) -> None:
    try:
        while True:
            page.recv(PAUSE_S)  # type: ignore[attr-defined]
    except TimeoutError:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
