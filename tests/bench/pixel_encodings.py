"""Bytes and time of a whole frame in each encoding, and what a slow link adds to a step: two tables. Run as a script:

    python tests/bench/run.py pixel_encodings [ROUNDS]

On a desktop with chromium and an xterm, at 1440 x 900, over loopback and over links of 20 Mbit/s which a proxy makes:
each encoding in turn, ROUNDS (5 by default) times, medians. A step is a click that changes the page, the wait for that,
and the frame as PNG, four times ROUNDS; its overhead is what it takes longer than over loopback, the time left out that
its own bytes take to pass, in round trips. There the shortest of all is told: other load only adds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing

from desktop_page import desktop_page
from ratios import head, in_turn, machine, median_ms, row

from pytest_vnc_use.backends.client import EncodingChoice
from pytest_vnc_use.backends.vnc import VNCController, connect
from support.slow_link import SlowLink, slow_link

SIZE = (1440, 900)
POINT = (300, 700)
ENCODINGS: Sequence[EncodingChoice] = ("raw", "zrle", "tight")
ROUND_TRIPS_S = (0.02, 0.1)
BITS_A_SECOND = 20e6


def main(rounds: int) -> None:
    print(f"{machine()}; {SIZE[0]} x {SIZE[1]}, {rounds} rounds\n")
    with desktop_page(SIZE) as server, ExitStack() as stack:
        fast = stack.enter_context(slow_link(server.address, delay_s=0, bits_a_second=1e12))
        slow = {
            each: stack.enter_context(slow_link(server.address, delay_s=each / 2, bits_a_second=BITS_A_SECOND))
            for each in ROUND_TRIPS_S
        }
        print(head("link", "first frame by default", *(f"whole frame, {each}" for each in ENCODINGS)))
        print_frames("loopback", fast, rounds)
        for round_trip_s, link in slow.items():
            print_frames(f"{round_trip_s * 1000:.0f} ms, {BITS_A_SECOND / 1e6:.0f} Mbit/s", link, rounds)
        print(f"\n{head('encoding', 'step over loopback', *(f'{each * 1000:.0f} ms adds' for each in slow))}")
        for encoding in ENCODINGS:
            print_steps(encoding, fast, slow, 4 * rounds)


def print_frames(name: str, link: SlowLink, rounds: int) -> None:
    cells = [first_frame(link)]
    for encoding in ENCODINGS:
        with closing(connect(link.address, encoding=encoding)) as hands:
            passed = [bytes_of(link, hands.refresh) for _ in range(rounds)]
            times_s = in_turn({encoding: hands.refresh}, rounds)[encoding]
            cells.append(f"{median_ms(times_s):.0f} ms, {statistics.median(passed) / 1e6:.2f} MB")
    print(row(name, *cells))


def first_frame(link: SlowLink) -> str:
    began_s, before = time.perf_counter(), link.from_server
    with closing(connect(link.address)):
        taken_s = time.perf_counter() - began_s
        return f"{taken_s * 1000:.0f} ms, {(link.from_server - before) / 1e6:.2f} MB"


def bytes_of(link: SlowLink, work: Callable[[], object]) -> int:
    before = link.from_server
    work()
    return link.from_server - before


def print_steps(encoding: EncodingChoice, fast: SlowLink, slow: Mapping[float, SlowLink], rounds: int) -> None:
    here_s = shortest_step_s(fast, encoding, rounds, bits_a_second=1e12)
    added_s = {each: shortest_step_s(link, encoding, rounds, BITS_A_SECOND) - here_s for each, link in slow.items()}
    cells = (f"{added * 1000:.0f} ms, {added / each:.2f} round trips" for each, added in added_s.items())
    print(row(encoding, f"{here_s * 1000:.0f} ms", *cells))


def shortest_step_s(link: SlowLink, encoding: EncodingChoice, rounds: int, bits_a_second: float) -> float:
    """Return the time of the fastest step without the time of its bytes."""
    with closing(connect(link.address, encoding=encoding)) as hands:
        return min(step_s(link, hands, bits_a_second) for _ in range(rounds))


def step_s(link: SlowLink, hands: VNCController, bits_a_second: float) -> float:
    began_s, before = time.perf_counter(), link.from_server
    hands.click(*POINT)
    hands.settle()
    hands.frame()
    return time.perf_counter() - began_s - (link.from_server - before) * 8 / bits_a_second


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
