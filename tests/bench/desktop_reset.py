"""What a reset costs, against a fresh start of the same TigerVNC desktop. Run as a script:

    python tests/bench/desktop_reset.py [ROUNDS]

Both are taken in turn, in one run; medians and their ratio are printed. A program is launched, and shows, before every
reset, and ends with it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop

LEFT_BEHIND: dict[str, Callable[[XvncDesktop], object]] = {
    "nothing": lambda desktop: None,
    "xterm": lambda desktop: desktop.launch(["xterm"]),
    "xterm, typed text, files and a child in the background": lambda desktop: leave_much(desktop),
}


def main(rounds: int) -> None:
    print(f"fresh start and reset of a bare desktop, 1440x900, median of {rounds} rounds")
    desktop = XvncDesktop()
    try:
        for what, leave in LEFT_BEHIND.items():
            pairs = [(fresh_start_s(), reset_s(desktop, leave)) for _ in range(rounds + 1)][1:]
            start, reset = (statistics.median(times) for times in zip(*pairs, strict=True))
            print(f"after {what}: start {1000 * start:.0f} ms, reset {1000 * reset:.0f} ms, ratio {reset / start:.2f}")
    finally:
        desktop.stop()


def fresh_start_s() -> float:
    started_s = time.perf_counter()
    desktop = XvncDesktop()
    taken_s = time.perf_counter() - started_s
    desktop.stop()
    return taken_s


def reset_s(desktop: XvncDesktop, leave: Callable[[XvncDesktop], object]) -> float:
    leave(desktop)
    started_s = time.perf_counter()
    desktop.reset()
    return time.perf_counter() - started_s


def leave_much(desktop: XvncDesktop) -> None:
    desktop.launch(["xterm"])
    desktop.run(["sh", "-c", "setsid sleep 300 & echo apples > orders.csv"])
    with closing(connect(desktop.server, desktop.password)) as controller:
        controller.type_text("two apples", press_enter=True)
        controller.key_down("shift")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
