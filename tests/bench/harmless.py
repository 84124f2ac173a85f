"""What a replay makes of changes that are no fault of the program: a table in Markdown.

    python tests/bench/run.py harmless [ROUNDS [WORD …]]

A program is recorded in a terminal on TigerVNC, and replayed with one change after the
other, ROUNDS (3 by default) times: without a model (`replay`), where it may pass, with
a transient if need be, or be inconclusive; then with a planner that continues where the
replay stops (`auto`), where it must pass; and what that wrote without a model again. A
form that is restless on its own is recorded by a planner that thinks for so long that
what passes has passed. With WORDs only those changes whose name has one of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ratios import head, machine, row

from support.programs_on_x import CHANGES, Change, Desk, record, replay

GATE_S = 5.0
USUAL_GATE_S = 10.0
"""How long a gate is waited for that may not open, and the setting's default."""


def results(change: Change, directory: Path) -> tuple[str, ...]:
    desk = Desk(directory)
    gate_s = USUAL_GATE_S if change.thinks_s else GATE_S
    record(desk, change)
    return tuple(
        replay(desk, change, mode, gate_s=gate_s)[0]
        for mode in ("replay", "auto", "replay")
    )


def format_counts(came: Counter[str]) -> str:
    if len(came) == 1:
        return next(iter(came))
    return ", ".join(f"{name} {count}×" for name, count in came.most_common())


def main(rounds: int, words: Sequence[str]) -> int:
    wrong = 0
    print(f"{machine()}, each {rounds} times\n")
    print(
        head(
            "what is other",
            "without a model",
            "with one",
            "what that wrote, without one",
        ),
        flush=True,
    )
    for what, change in CHANGES.items():
        if words and not any(word in what for word in words):
            continue
        came = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="harmless-") as directory:
                came.append(results(change, Path(directory)))
        first, healing, after = (Counter(column) for column in zip(*came, strict=True))
        print(
            row(
                what, format_counts(first), format_counts(healing), format_counts(after)
            ),
            flush=True,
        )
        wrong += len(
            {*first} - {"passed", "transient", "inconclusive"}
            | {*healing} - {"passed", "transient", "healed"}
            | {*after} - {"passed", "transient", "inconclusive"}
        )
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(int(sys.argv[1]) if sys.argv[1:] else 3, sys.argv[2:])))
