"""What a recording costs a run of a harness agent: a table in Markdown. Run as a script:

    python tests/bench/run.py harness_recording [ROUNDS]

A run has 20 actions in an xterm on TigerVNC at 1280x800: clicks, turns of the wheel, and commands that fill the screen.
Runs with and without a recording are taken in turn, ROUNDS (5 by default) of each. The ratio is that of the medians; on
a busy machine the added processor time says more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from ratios import head, in_turn, machine, median_ms, row

from pytest_vnc_use.harness import Agent, MouseClickAction, Position, ScrollAction, ScrollDirection
from pytest_vnc_use.harness.screenshots import write_screenshots
from support import vnc_servers
from support.harness_agents import place
from support.witness_programs import xterm


class Worker(Agent):
    def act(self) -> bool:
        self.mouse_click(MouseClickAction(position=Position(300, 200)))
        self.type_text("clear; seq 300\n")
        self.mouse_scroll(ScrollAction(Position(300, 200), ScrollDirection.UP, repeat=3))
        self.press_keys(["Ctrl+C"])
        return False


def main(rounds: int) -> None:
    cpu_s: dict[bool, list[float]] = {False: [], True: []}
    with (
        vnc_servers.tigervnc((1280, 800)) as server,
        xterm(server, "sh", geometry="180x50+0+0"),
        tempfile.TemporaryDirectory() as directory,
    ):
        agents = {record: Worker(output_dir=Path(directory, str(record)), **place(server)) for record in (False, True)}

        def run(record: bool) -> None:
            began_s = time.process_time()
            agents[record].run(max_steps=5, record=record)
            cpu_s[record].append(time.process_time() - began_s)

        print(f"{machine()}, {rounds} rounds\n")
        times_s = in_turn({"not recorded": partial(run, False), "recorded": partial(run, True)}, rounds)
        recording = agents[True].output_dir / "recording"
        megabytes = sum(file.stat().st_size for file in recording.iterdir()) / 1e6
        began_s = time.perf_counter()
        written = write_screenshots(agents[True].output_dir)
        decoded_s = time.perf_counter() - began_s
    cpu_ms = {record: sorted(each_s[1:])[rounds // 2] * 1000 for record, each_s in cpu_s.items()}
    wall_ms = dict(zip((False, True), map(median_ms, times_s.values()), strict=True))
    print(head("a run of 20 actions", "median", "processor time of the client"))
    for name, record in (("not recorded", False), ("recorded", True)):
        print(row(name, f"{wall_ms[record]:.0f} ms", f"{cpu_ms[record]:.0f} ms"))
    print(f"\nrecorded / not recorded: {wall_ms[True] / wall_ms[False]:.3f}; {megabytes:.1f} MB recorded")
    print(f"added processor time / duration: {(cpu_ms[True] - cpu_ms[False]) / wall_ms[False]:.1%}")
    print(f"{written[0]} of {written[1]} screenshots made again in {decoded_s:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
