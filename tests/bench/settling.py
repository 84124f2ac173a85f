"""How long to wait for the screen, and how often that is right: ours against fixed sleeps. Run as a script:

    PYTHONPATH=tests python tests/bench/settling.py [TRIALS [SCENARIO …]]

Twenty scenarios on TigerVNC with openbox, Chromium and xterm, three of them on GTK, which needs python3-gi and
gir1.2-gtk-3.0. Right is a frame that still shows what the screen shows 2 s after the action, outside of what the
scenario animates. Where something moves before the action, it is watched for 3.5 s first, as it is while a model
thinks; in a fast sequence of actions carets and clocks are not known yet. Of a sleep, the image was taken in the same
trial through a connection of its own. The last row waits briefly and watches for 1 s, as long as a quick model thinks;
where the screen has changed by then, the model would be asked again, and the image that it would be shown is judged.
The ratios are told of all scenarios, and of the sixteen that were there before the search and GTK.
"""

from __future__ import annotations

import io
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from threading import Thread

import numpy as np
from PIL import Image

from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.same_screen import still_shows
from pytest_vnc_use.types import Frame, Region
from support import vnc_servers
from support.browsers import chromium, element
from support.witness_programs import window_of, xterm

SLEEPS_S = (0.1, 0.25, 0.5, 1.0, 1.5)
WATCHED_S, THINKING_S, FINAL_S, STARTED_S = 3.5, 1.0, 2.0, 3
CORNER = Region(0, 290, 320, 430)
"""Where the page moves on its own, from the top left of its button `Go`."""
TERMINAL = (1000, 200)
GTK = (860, 690)
"""Where the top left corner of GTK's window is."""
GTK_WINDOW = f"/usr/bin/python3 {Path(__file__).with_name('gtk_window.py')}"


@dataclass
class Stage:
    """The desktop: the hands that are measured, a second pair of eyes, and the browser."""

    hands: VNCController
    witness: VNCController
    browser: Browser
    address: str


@dataclass(frozen=True)
class Scenario:
    """`prepare` brings the screen to its start, `act` is the action; `moves` where the page's corner is left out."""

    name: str
    act: Callable[[Stage], None]
    prepare: Callable[[Stage], None]
    moves: bool = False


@dataclass
class Trial:
    """`right` by policy: a sleep in seconds, or ours."""

    reason: str
    wait_s: float
    is_right: bool
    asked_again: bool = False
    sleeps: dict[float, bool] = field(default_factory=dict)


def _show(page: str, stage: Stage) -> None:
    stage.browser.navigate(f"{stage.address}?{page}")


def _click(name: str, stage: Stage) -> None:
    stage.hands.click(*element(stage.browser, name).centre)


def _show_field(stage: Stage) -> None:
    _show("search", stage)
    _click("Find", stage)


def _in_terminal(stage: Stage) -> None:
    """At the start of a line."""
    stage.hands.click(*TERMINAL)
    stage.hands.key_combo("ctrl+u")


def _in_gtk(x: int, y: int, stage: Stage) -> None:
    stage.hands.click(GTK[0] + x, GTK[1] + y)


def _in_terminal_alone(stage: Stage) -> None:
    """Once the program has ended that the trial before started."""
    time.sleep(STARTED_S)
    _in_terminal(stage)
    _run(f"clear; gtk='{GTK_WINDOW} 1100 400 {STARTED_S}'", stage)


def _close(stage: Stage) -> None:
    """Close whatever a scenario opened on GTK's window."""
    stage.hands.key_combo("escape")
    stage.hands.settle()
    _in_gtk(250, 180, stage)
    stage.hands.settle()


def _run(command: str, stage: Stage) -> None:
    stage.hands.type_text(command, press_enter=True)


def _page(name: str, *, moves: bool = False, click: str = "Go") -> Scenario:
    return Scenario(name, partial(_click, click), partial(_show, name), moves)


def _scroll(stage: Stage) -> None:
    stage.hands.scroll(300, 300, "down", 3)


SCENARIOS = [
    _page("immediate"),
    _page("late"),
    _page("loading"),
    _page("chunks"),
    _page("transition"),
    _page("swap"),
    _page("navigation", click="Away"),
    Scenario("wheel", _scroll, partial(_show, "wheel")),
    Scenario("typing", lambda stage: stage.hands.type_text("twenty characters.."), partial(_show, "typing")),
    Scenario("search", partial(_run, "apples"), _show_field),
    _page("caret", moves=True),
    _page("spinner", moves=True),
    _page("video", moves=True),
    _page("clock", moves=True),
    Scenario("xterm key", lambda stage: stage.hands.type_text("a"), _in_terminal),
    Scenario("seq 200", partial(_run, "seq 200"), _in_terminal),
    Scenario(
        "program start", partial(_run, f"xterm -geometry 40x8+900+400 -e sleep {STARTED_S} &"), _in_terminal_alone
    ),
]
ON_GTK = [
    Scenario("GTK menu", partial(_in_gtk, 30, 12), _close),  # an open menu grabs keyboard and pointer
    Scenario("GTK dialog", partial(_in_gtk, 50, 65), _close),
    Scenario("GTK start", partial(_run, "$gtk &"), _in_terminal_alone),
]
"""With GTK's window shown."""

ADDED = {"search", *(scenario.name for scenario in ON_GTK)}
"""To the sixteen that the bound of 0.35 was set for."""


def trial(scenario: Scenario, stage: Stage, *, briefly: bool) -> Trial:
    scenario.prepare(stage)
    stage.hands.settle()
    ignored = _corner(stage) if scenario.moves else None
    time.sleep(WATCHED_S if scenario.moves else 1.0)
    scenario.act(stage)
    acted_s = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        slept = pool.submit(_after_sleeps, stage.witness, acted_s)
        settled = stage.hands.settle(briefly=briefly)
        wait_s = time.monotonic() - acted_s
        seen, asked_again = _judged(stage.hands, briefly=briefly)
        frames = slept.result()
    _sleep_until(acted_s + FINAL_S)
    last, witnessed = stage.hands.frame(), stage.witness.frame()  # the server paints the pointer into the latter only
    right = {sleep_s: _same(frame, witnessed, ignored) for sleep_s, frame in frames.items()}
    return Trial(settled.reason, wait_s, _same(seen, last, ignored), asked_again, right)


def _judged(hands: VNCController, *, briefly: bool) -> tuple[Frame, bool]:
    """The frame that an answer would be about, and whether that is another one than was settled for."""
    seen = hands.frame()
    if not briefly:
        return seen, False
    time.sleep(THINKING_S)
    if still_shows(seen.png, hands.frame()):
        return seen, False
    hands.settle(briefly=True)
    return hands.frame(), True


def _after_sleeps(witness: VNCController, acted_s: float) -> dict[float, Frame]:
    frames = {}
    for sleep_s in SLEEPS_S:
        _sleep_until(acted_s + sleep_s)
        frames[sleep_s] = witness.frame()
    return frames


def _sleep_until(moment_s: float) -> None:
    time.sleep(max(0.0, moment_s - time.monotonic()))


def _corner(stage: Stage) -> Region:
    button = element(stage.browser, "Go").box
    left, top = button.left - 20, button.top - 20
    return Region(left + CORNER.left, top + CORNER.top, left + CORNER.right, top + CORNER.bottom)


def _same(one: Frame, other: Frame, ignored: Region | None) -> bool:
    differs = (_pixels(one) != _pixels(other)).any(axis=2)
    if ignored:
        differs[ignored.top : ignored.bottom, ignored.left : ignored.right] = False
    return still_shows(one.png, other) or not differs.any()


def _pixels(frame: Frame) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(frame.png)).convert("RGB"))


@contextmanager
def desktop() -> Iterator[Stage]:
    with ExitStack() as stack:
        server = stack.enter_context(vnc_servers.tigervnc((1440, 900)))
        address = stack.enter_context(page_server())
        browser = stack.enter_context(chromium(server, address, window_manager=True))
        stack.enter_context(xterm(server, "sh", geometry="60x20+860+60"))
        window_of(server, "terminal")
        if has_gtk():
            stack.enter_context(server.run(*GTK_WINDOW.split(), *map(str, GTK)))
            window_of(server, "gtk")
        hands, witness = connect(server.address, encoding="raw"), connect(server.address, encoding="raw")
        stack.callback(hands.close)
        stack.callback(witness.close)
        yield Stage(hands, witness, browser, address)


def has_gtk() -> bool:
    asked = "import gi; gi.require_version('Gtk', '3.0')"
    return subprocess.run(["/usr/bin/python3", "-c", asked], capture_output=True).returncode == 0


@contextmanager
def page_server() -> Iterator[str]:
    """Serves the page of the scenarios."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(Path(__file__).parent))) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/settling.html"
        http.shutdown()
        thread.join()


def main(trials: int = 3, *names: str) -> None:
    rows: dict[str, tuple[list[Trial], list[Trial]]] = {}
    scenarios = [*SCENARIOS, *(ON_GTK if has_gtk() else [])]
    with desktop() as stage:
        for scenario in [each for each in scenarios if each.name in names or not names]:
            ours, watched = (
                [trial(scenario, stage, briefly=briefly) for _ in range(trials)] for briefly in (False, True)
            )
            rows[scenario.name] = ours, watched
            print_scenario(scenario.name, ours, watched)
    print_policies(*together(rows.values()))
    print_ratio(f"all {len(rows)}", *together(rows.values()))
    if before := [row for name, row in rows.items() if name not in ADDED]:
        print_ratio(f"{len(before)} of them, without the search and GTK", *together(before))


def together(rows: Iterable[tuple[list[Trial], list[Trial]]]) -> tuple[list[Trial], list[Trial]]:
    """Our trials, and those that were watched."""
    ours, watched = zip(*rows, strict=True)
    return list(chain(*ours)), list(chain(*watched))


def print_scenario(name: str, ours: list[Trial], watched: list[Trial]) -> None:
    waits = " ".join(f"{1000 * each.wait_s:.0f}" for each in ours)
    reasons = ", ".join(sorted({each.reason for each in ours}))
    again = sum(each.asked_again for each in watched)
    print(
        f"{name:14}{waits} ms ({reasons}), right {percent([t.is_right for t in ours])}; "
        f"watched {mean_ms(watched):.0f} ms, asked again {again} of {len(watched)}, "
        f"right {percent([t.is_right for t in watched])}",
        flush=True,
    )


def print_policies(ours: list[Trial], watched: list[Trial]) -> None:
    print("\n| policy | right | mean wait |\n|---|---:|---:|")
    for sleep_s in SLEEPS_S:
        right = percent([each.sleeps[sleep_s] for each in ours + watched])
        print(f"| sleep {1000 * sleep_s:.0f} ms | {right} | {1000 * sleep_s:.0f} ms |")
    again = percent([each.asked_again for each in watched])
    print(f"| ours | {percent([t.is_right for t in ours])} | {mean_ms(ours):.0f} ms |")
    print(
        f"| ours, watched | {percent([t.is_right for t in watched])}, asked again {again} | {mean_ms(watched):.0f} ms |"
    )


def print_ratio(which: str, ours: list[Trial], watched: list[Trial]) -> None:
    right_sleeps = [sleep_s for sleep_s in SLEEPS_S if all(each.sleeps[sleep_s] for each in ours + watched)]
    if not right_sleeps:
        print(f"\n{which}: no sleep is right on all")
        return
    shortest_ms = min(right_sleeps) * 1000
    ratios = ", ".join(
        f"{kind} {mean_ms(each):.0f} ms, {mean_ms(each) / shortest_ms:.3f}×"
        for kind, each in (("ours", ours), ("watched", watched))
    )
    print(f"\n{which}, of the shortest sleep right on these, {shortest_ms:.0f} ms: {ratios}")


def mean_ms(trials: list[Trial]) -> float:
    return statistics.mean(each.wait_s for each in trials) * 1000


def percent(rights: list[bool]) -> str:
    return f"{100 * sum(rights) / len(rights):.0f} %"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
