"""What the page costs, in one run: `desk [TIMES] [PART …]`. It prints medians, and the ratios that have a bound.

`watch`: an xterm clears its screen in another colour; how soon that is on the page of `--vnc-ui`, and how soon in the
test's own framebuffer, which both stand on.

`click`: an xterm changes its colour at each click; how soon a click in the canvas of a task that is recorded is on the
page, and how soon one of a VNC client at that client. Then the same as a user has it: Chromium with the page, and
TigerVNC's viewer, each on a desktop of its own, from a click there to the pixels there. The floor is what that Chromium
needs for a page that fills its canvas at a press of the button, without any server.

`cost`: a test that is replayed, without `--vnc-ui`, with it, and with a page open.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from pytest_vnc_use import clock
from pytest_vnc_use.backends import vnc
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.types import MouseDown, MouseUp, Move, Region, Wait
from pytest_vnc_use.ui.link import Link, Watcher
from pytest_vnc_use.ui.manual import PageUser
from pytest_vnc_use.ui.server import Desk, DeskServer
from support.desks import Recording, chromium
from support.forked_python import ForkedPython
from support.person import Page, read_url
from support.till_project import Project, project_in
from support.tills import TILL
from support.vnc_servers import VncServer, tigervnc

PAUSE_S = 0.7
XTERM = "-geometry", "100x40+0+0", "-e"


def main(times: int, parts: Sequence[str]) -> None:
    """Measure the parts, or all."""
    for part in parts or PARTS:
        PARTS[part](times)


def watch(times: int) -> None:
    """Print how soon a change is on the page."""
    with tempfile.TemporaryDirectory() as directory:
        fifo = Path(directory, "colours")
        os.mkfifo(fifo)
        loop = f'exec <>{fifo}; while read n; do printf "\\033[4${{n}}m\\033[2J"; done'
        desktop = XvncDesktop(["xterm", *XTERM, "sh", "-c", loop])
        try:
            with closing(vnc.connect(desktop.server, desktop.password)) as controller:
                on_page, in_test = _measure(controller, fifo, times)
        finally:
            desktop.stop()
    _print(("change to the page", on_page), ("change to the test's framebuffer", in_test))


def click(times: int) -> None:
    """Print how soon a click has its pixels."""
    on_page, direct = _measure_clicks(times)
    _print(("click to pixels on the page", on_page), ("click to pixels of a VNC client", direct))
    print(f"ratio: {statistics.median(on_page) / statistics.median(direct):.2f}")
    on_page, direct, floor = _measure_as_seen(times)
    _print(
        ("click to pixels as seen in Chromium", on_page),
        ("click to pixels as seen in TigerVNC's viewer", direct),
        ("click to pixels of a page that only fills its canvas, in Chromium", floor),
    )
    seen, viewer, least = map(statistics.median, (on_page, direct, floor))
    print(f"ratio: {seen / viewer:.2f}; without Chromium's floor: {(seen - least) / viewer:.2f}")


def _print(*rows: tuple[str, list[float]]) -> None:
    for name, taken in rows:
        ordered = sorted(1000 * seconds for seconds in taken)
        within = ordered[len(ordered) * 9 // 10]
        print(f"{name}: median {statistics.median(ordered):.0f} ms, 90 % within {within:.0f} ms")


@contextmanager
def _served(controller: vnc.VNCController | None = None) -> Iterator[tuple[Link, Watcher, ClientConnection]]:
    """Yield a session's link, its watcher of this screen, and a page's connection; its login is not measured."""
    desk = Desk()
    server = DeskServer(desk)
    threading.Thread(target=server.run, daemon=True).start()
    link = Link(server.session_url, desk.session_token, "", lambda: None)
    watcher = Watcher(link, "bench", str)
    if controller:
        watcher.screen = lambda: controller.screen
    cookie = {"Cookie": f"vnc_use_desk={desk._cookie}"}
    with connect(f"{server.address.replace('http', 'ws')}/page", additional_headers=cookie, proxy=None) as page:
        watcher.start()
        yield link, watcher, page
    watcher.close()
    link.close()
    server.end()


def _await_frame(page: ClientConnection) -> None:
    while not isinstance(page.recv(10), bytes):
        pass


def _measure(controller: vnc.VNCController, fifo: Path, times: int) -> tuple[list[float], list[float]]:
    on_page: list[float] = []
    in_test: list[float] = []
    with _served(controller) as (_, _, page):
        for number in range(times):
            _drain(page)
            changed_at = controller.screen.changed_at
            started = clock.monotonic()
            with fifo.open("w") as colours:
                colours.write(f"{1 + number % 6}\n")
            _await_frame(page)
            on_page.append(clock.monotonic() - started)
            assert controller.screen.changed_at > changed_at
            in_test.append(controller.screen.changed_at - started)
    return on_page, in_test


CLICKED = r"""stty raw -echo; printf '\033[?1000h'; n=0
while IFS= read -rsn6 event; do n=$((n % 6 + 1)); printf "\033[4${n}m\033[2J"; done"""


def _measure_clicks(times: int) -> tuple[list[float], list[float]]:
    """Return how long a click took to its pixels: by the page, and by a VNC client."""
    desktop = XvncDesktop(["xterm", *XTERM, "bash", "-c", CLICKED])
    try:
        with closing(vnc.connect(desktop.server, desktop.password, encoding="tight")) as controller:  # as recordings
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
    took = controller.screen.changed_at - started  # the press itself takes longer
    controller.perform(MouseUp(100, 100))
    return took


def _click_on_page(controller: vnc.VNCController, times: int) -> list[float]:
    taken = []
    with _served() as (link, watcher, page):
        user = PageUser(link, "bench", secrets={}, ambient={})
        recording = threading.Thread(target=user.record, args=("click", [], controller, watcher), daemon=True)
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
            _await_frame(page)
            taken.append(clock.monotonic() - started)
            page.send(json.dumps({**event, "event": ["up", 100, 100, "left"]}))
        page.send(json.dumps({"type": "answer", "id": question["id"], "kind": "no"}))
        recording.join(30)
    return taken


FILLS = """<body style="margin: 0"><canvas width="1024" height="768"></canvas><script>
    const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d"); let n = 0
    canvas.onpointerdown = () => { pen.fillStyle = ["red", "green", "blue"][n++ % 3]; pen.fillRect(0, 0, 1024, 768) }
</script>"""


def _measure_as_seen(times: int) -> tuple[list[float], list[float], list[float]]:
    """Return how long a click took to its pixels on a user's own screen: in Chromium's page, and in a VNC viewer.

    The third is the same in Chromium for a page that only fills its canvas.
    """
    with ExitStack() as stack:
        recorded, screen = (stack.enter_context(tigervnc(size)) for size in ((1024, 768), (1280, 960)))
        stack.enter_context(recorded.run("xterm", *XTERM, "bash", "-c", CLICKED))
        with screen.run("xtigervncviewer", "-SecurityTypes=None", recorded.address):
            direct = _clicks_on(screen, (150, 150), times)
        recording = Recording(stack.enter_context(closing(vnc.connect(recorded.address))), "Click")
        stack.callback(recording.close)
        environment = {**os.environ, **screen.environment}
        arguments = ["--window-position=0,0", "--window-size=1280,960", "--kiosk"]
        page = stack.enter_context(chromium(headless=False, env=environment, args=arguments)).new_page(no_viewport=True)
        page.set_content(FILLS)
        floor = _clicks_on(screen, (150, 150), times)
        recording.open(page)
        box = page.locator("#record-screen canvas").bounding_box()
        return _clicks_on(screen, (int(box["x"]) + 150, int(box["y"]) + 150), times), direct, floor


def _clicks_on(screen: VncServer, at: tuple[int, int], times: int) -> list[float]:
    x, y = at[0] + 50, at[1] + 50
    taken = []
    with closing(vnc.connect(screen.address)) as controller:
        controller.perform(Move(*at))
        pixels = Region(x, y, x + 1, y + 1)

        def colour() -> int:
            return int(controller.screen.part(pixels)[0, 0]) & 0xFFFFFF

        for number in range(times + 2):
            controller.perform(Wait(1.0))
            before, started = colour(), clock.monotonic()
            shown: list[float] = []
            watching = threading.Thread(
                target=_await, args=(controller, lambda before=before: colour() != before, shown)
            )
            watching.start()
            controller.perform(MouseDown(*at))
            if number < 2:  # the first ones wait for the window, the focus and the first look at the screen
                controller.perform(Wait(3.0))
            else:
                watching.join()
                taken.append(shown[0] - started)
            controller.perform(MouseUp(*at))
    return taken


def _await(controller: vnc.VNCController, is_shown: Callable[[], bool], shown: list[float]) -> None:
    """Note when it is shown; the press of a button takes longer than that."""
    assert controller.screen.wait_until(is_shown, 10)
    shown.append(clock.monotonic())


def cost(times: int) -> None:
    """Print what watching costs a replayed test."""
    ways = {"without the page": [], "--vnc-ui, no page open": ["--vnc-ui"], "--vnc-ui, watched": ["--vnc-ui"]}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as directory:
        project = project_in(Path(directory))
        recorded = project.run("--vnc-record=auto")
        assert recorded.code == 0, recorded.out
        (project.path / "conftest.py").unlink()
        for _ in range(times // 3):
            for name, options in ways.items():
                taken[name].append(_replay(project, options, is_watched=name.endswith("watched")))
    _print(*taken.items())
    plain, *others = (statistics.median(each) for each in taken.values())
    print("ratios:", ", ".join(f"{each / plain:.3f}" for each in others))


def _replay(project: Project, options: Sequence[str], *, is_watched: bool) -> float:
    """Return the seconds of a session, as pytest prints them."""
    app = shlex.join([sys.executable, str(TILL)])
    desktop = ["--vnc-server=qt", f"--vnc-app={app}", "--vnc-screen-size=800x400", "-pno:pytest-vnc"]
    command = ["pytest", "-pno:cacheprovider", *desktop, "--vnc-record=replay", *options]
    process = ForkedPython(*command, cwd=project.path, env={**os.environ, "CI": ""})
    assert process.stdout
    lines, url = read_url(process.stdout) if options else ([], "")
    if is_watched:
        with Page(url) as page, suppress(ConnectionClosed):
            while "passed" not in page.states.values():
                page.read()
    out = "".join(lines) + process.stdout.read()
    assert process.wait(60) == 0, out
    return float(re.search(r"1 passed.* in ([\d.]+)s", out)[1])  # type: ignore[index]


def _drain(page: ClientConnection) -> None:
    with suppress(TimeoutError):
        while True:
            page.recv(PAUSE_S)


PARTS = {"watch": watch, "click": click, "cost": cost}

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50, sys.argv[2:])
