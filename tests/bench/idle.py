"""What it costs a process to watch desktops on which nothing happens: a table in Markdown. Run as a script:

    python tests/bench/run.py idle [SECONDS]

Told is the processor time of this process, all its threads together, in per cent of one core, over SECONDS (10 by
default). Desktops are Xtigervnc at 1440x900 with a still xterm; one with a spinner is told for comparison.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing

from ratios import head, machine, row

from pytest_vnc_use.backends.vnc import connect
from support import vnc_servers
from support.witness_programs import xterm

STILL = "seq 300; printf '\\033[?25l'; exec sleep 10000"
SPINNER = r"printf '\033[?25l'; while true; do for c in / - '\' '|'; do printf '\r%s' $c; sleep 0.03; done; done"


def main(duration_s: float) -> None:
    print(f"{machine()}, {duration_s:g} s each\n")
    print(head("watched by one process", "of one core"))
    for name, count, command in (
        ("nothing", 0, STILL),
        ("an idle desktop", 1, STILL),
        ("20 idle desktops", 20, STILL),
        ("a desktop with a spinner", 1, SPINNER),
    ):
        print(row(name, f"{cost(count, command, duration_s):.2%}"), flush=True)


def cost(count: int, command: str, duration_s: float) -> float:
    with ExitStack() as stack:
        for _ in range(count):
            server = stack.enter_context(vnc_servers.tigervnc((1440, 900)))
            stack.enter_context(xterm(server, command))
            controller = stack.enter_context(closing(connect(server.address, encoding="raw")))
            controller.click(10, 10)
            controller.settle()
            controller.frame()
        time.sleep(1.0)
        began_s = time.process_time()
        time.sleep(duration_s)
        return (time.process_time() - began_s) / duration_s


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
