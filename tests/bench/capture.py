"""A frame as PNG bytes against the other VNC clients: a table in Markdown. Run as a script:

    python tests/bench/run.py capture [ROUNDS]

On a desktop with chromium and an xterm, at three sizes, each way takes an image in turn, ROUNDS (12 by default) times;
told are medians in ms, and how many times as long as ours each takes. All of them must see the same pixels.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing

import numpy as np
from desktop_page import desktop_page
from peers import asyncvnc_capture, by_vncdotool, pytest_vnc_capture, vncdotool_client
from PIL import Image
from ratios import head, in_turn, machine, median_ms, row

from pytest_vnc_use.backends.vnc import connect

SIZES = ((1440, 900), (1920, 1080), (3840, 2160))
OURS = "`controller.frame()`"


def main(rounds: int) -> None:
    print(f"{machine()}, n = {rounds}, medians in ms (times ours)\n")
    columns = {size: measured(size, rounds) for size in SIZES}
    print(head("PNG bytes of the screen", *(f"{width}×{height}" for width, height in SIZES)))
    for name in next(iter(columns.values())):
        print(row(name, *(cell(column, name) for column in columns.values())))


def cell(column: dict[str, float], name: str) -> str:
    ratio = column[name] / column[OURS]
    return f"{column[name]:.1f}" + ("" if name == OURS else f" ({ratio:.2f}×)" if ratio < 2 else f" ({ratio:.1f}×)")


def measured(size: tuple[int, int], rounds: int) -> dict[str, float]:
    with desktop_page(size) as server, ExitStack() as stack:
        ours = stack.enter_context(closing(connect(server.address, encoding="raw")))
        theirs = stack.enter_context(vncdotool_client(server.address))
        ways: dict[str, Callable[[], bytes]] = {
            OURS: lambda: ours.frame().png,
            "vncdotool `captureScreen` to memory": lambda: by_vncdotool(theirs),
            "asyncvnc `screenshot`, Pillow": stack.enter_context(asyncvnc_capture(server.address)),
            "pytest-vnc `capture`, Pillow": stack.enter_context(pytest_vnc_capture(server.address)),
        }
        check_alike(ways)
        return {name: median_ms(times_s) for name, times_s in in_turn(ways, rounds).items()}


def check_alike(ways: dict[str, Callable[[], bytes]]) -> None:
    """Most show the pointer, which is not in our frames; and a caret may blink."""
    expected = pixels(ways[OURS]())
    for name, way in ways.items():
        differ = np.count_nonzero((pixels(way()) != expected).any(axis=2))
        if differ > 2000:
            raise SystemExit(f"{name} shows other pixels, {differ} of them")


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
