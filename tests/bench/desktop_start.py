"""How late a managed TigerVNC desktop takes input, against the same server started by hand. Run as a script:

    PYTHONPATH=tests python tests/bench/desktop_start.py [ROUNDS]

By hand: a shell starts the server, polls the handshake every 10 ms, then starts openbox, polls for it where there is a
program (which would else wait 5 s, as x_display.py says), and starts that. Both ways are taken in turn, in one run;
medians and their ratio are printed. What desktops cost that live side by side is told by sizing.py.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from support.vnc_servers import free_port

BY_HAND = """
Xtigervnc -geometry 1440x900 -depth 24 -interface 127.0.0.1 -rfbport $PORT -SecurityTypes None -nolisten tcp -noreset \
    -displayfd 4 4>display 2>server.txt &
until { exec 3<>/dev/tcp/127.0.0.1/$PORT && read -r -N 4 -u 3 greeting; } 2>/dev/null; do sleep 0.01; done
export DISPLAY=:$(cat display)
[ "$MANAGER" ] && $MANAGER 2>openbox.txt &
echo ready
if [ "$PROGRAM" ]; then
    until xprop -root _NET_CLIENT_LIST | grep -q '#'; do sleep 0.01; done
    $PROGRAM 2>program.txt &
fi
wait
"""
PROGRAM = ["xterm", "-e", "head -1 > typed.txt"]

Seconds = Callable[[], float]


def main(rounds: int) -> None:
    print(f"ready to take input, median of {rounds} rounds, 1440x900")
    compare("the server alone answers a move of the pointer", managed_alone, by_hand_alone, rounds)
    compare("the same with openbox, for which only we wait", managed_without_program, by_hand_without_program, rounds)
    compare("a line typed into xterm has arrived", managed_typing, by_hand_typing, rounds)


def compare(what: str, managed: Seconds, by_hand: Seconds, rounds: int) -> None:
    managed(), by_hand()  # warms the caches of both
    pairs = [(managed(), by_hand()) for _ in range(rounds)]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{what}: managed {1000 * ours:.0f} ms, by hand {1000 * theirs:.0f} ms, ratio {ours / theirs:.2f}")


def managed_alone() -> float:
    started_s = time.perf_counter()
    with closing_desktop(window_manager=False) as desktop:
        return answered_s(connect(desktop.server, desktop.password), started_s)


def by_hand_alone() -> float:
    started_s = time.perf_counter()
    with started_by_hand("", manager="") as (server, _):
        return answered_s(connect(server), started_s)


def managed_without_program() -> float:
    started_s = time.perf_counter()
    with closing_desktop() as desktop:
        return answered_s(connect(desktop.server, desktop.password), started_s)


def managed_typing() -> float:
    started_s = time.perf_counter()
    with closing_desktop(*PROGRAM) as desktop, closing(connect(desktop.server, desktop.password)) as controller:
        controller.type_text("x", press_enter=True)
        typed = Path(desktop.server).parent / "Home" / "typed.txt"
        while not has_text(typed):
            time.sleep(0.001)
        return time.perf_counter() - started_s


def by_hand_without_program() -> float:
    started_s = time.perf_counter()
    with started_by_hand("") as (server, _):
        return answered_s(connect(server), started_s)


def by_hand_typing() -> float:
    """Nothing tells a shell when the program listens, so the line is typed again until it arrives."""
    started_s = time.perf_counter()
    with started_by_hand("xterm -e ./head") as (server, directory), closing(connect(server)) as controller:
        while not has_text(directory / "typed.txt"):
            controller.type_text("x", press_enter=True)
            time.sleep(0.005)
        return time.perf_counter() - started_s


def answered_s(controller: VNCController, started_s: float) -> float:
    with closing(controller):
        controller.move(10, 10)
        controller.frame()
        return time.perf_counter() - started_s


def has_text(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


@contextmanager
def closing_desktop(*command: str, window_manager: bool = True) -> Iterator[XvncDesktop]:
    desktop = XvncDesktop(command, window_manager=window_manager)
    try:
        yield desktop
    finally:
        desktop.stop()


@contextmanager
def started_by_hand(program: str, manager: str = "openbox --sm-disable") -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "head")
        script.write_text("#!/bin/sh\nhead -1 > typed.txt\n")
        script.chmod(0o755)
        environment = {**os.environ, "PORT": str(free_port()), "PROGRAM": program, "MANAGER": manager}
        shell = subprocess.Popen(
            ["bash", "-c", BY_HAND], cwd=directory, env=environment, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            assert shell.stdout is not None
            assert shell.stdout.readline() == b"ready\n"
            yield f"127.0.0.1::{environment['PORT']}", Path(directory)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.communicate()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
