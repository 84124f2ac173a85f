"""The memory of a process over many steps: a table in Markdown. Run as a script:

    python tests/bench/run.py memory [STEPS]

Each of STEPS (2,000 by default) is a key in an xterm that shows another line, the wait for it, a frame and what passed,
on Xtigervnc at 1440x900; the wait is cut short to 20 ms of quiet. In every tenth step something does pass: a line that
is shown for longer than `SHOWN_S`, and that the step's own drives off. Told is the resident memory of this process.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing

import psutil
from ratios import head, machine, row

from pytest_vnc_use.backends.screen import SHOWN_S, SettleRules
from pytest_vnc_use.backends.vnc import VNCController, connect
from support import vnc_servers
from support.witness_programs import xterm

QUICK = SettleRules(first_change_s=0.2, quiet_s=0.02)
COUNTING = "printf '\\033[?25l'; n=0; while read line; do n=$((n+1)); seq $n $((n+20)); done"


def main(steps: int) -> None:
    marks = [mark for mark in (50, 100, 200, 500, 1000, 2000, 5000, 10000) if mark < steps] + [steps]
    print(f"{machine()}\n")
    print(head("after steps", "resident MB"))
    with (
        vnc_servers.tigervnc((1440, 900)) as server,
        xterm(server, COUNTING),
        closing(connect(server.address, settle_rules=QUICK, encoding="raw")) as controller,
    ):
        controller.click(100, 100)
        sizes_mb = {number: resident_mb() for number in range(1, steps + 1) if step(controller, number) in marks}
    for number, size_mb in sizes_mb.items():
        print(row(f"{number:,}", f"{size_mb:.1f}"))
    growth = sizes_mb[steps] - sizes_mb[marks[0]]
    print(f"\n{growth:+.1f} MB from step {marks[0]} to {steps:,}")


def step(controller: VNCController, number: int) -> int:
    if number % 10 == 0:
        controller.key_combo("enter")
        controller.settle()
        time.sleep(2 * SHOWN_S)
    controller.key_combo("enter")
    controller.settle()
    controller.frame()
    passed = controller.transient_frames()
    assert passed or number % 10, f"nothing passed in step {number}"
    return number


def resident_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
