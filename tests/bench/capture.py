"""A screen as PNG bytes, beside vncdotool and the floor: a table in Markdown.

    python tests/bench/run.py capture [ROUNDS]

Chromium fills the screen of a TigerVNC server with text and a photograph, at three
sizes, and changes a small square all the time: of a screen that has not changed, ours
makes no second PNG. Each way takes a screenshot in turn, ROUNDS (15 by default) times.
The floor asks no server and makes no file: it copies the same pixels once, three bytes
each, and deflates them with ISA-L at its level 1, on one core.
"""

from __future__ import annotations

import base64
import io
import sys
from contextlib import closing

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from PIL import Image, ImageFilter
from ratios import beside, head, in_turn, machine, row, seconds
from vncdotool import api

from pytest_vnc_use.backends.screen import SettleRules
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.types import Click
from support.vnc_servers import wait_for
from support.witness_programs import page_on_screen

SIZES = ((1440, 900), (1920, 1080), (3840, 2160))
DRAWN = SettleRules(first_change_s=3.0, stable_s=1.0, limit_s=30.0)
POINTER_PX = 2_000
"""The pixels that may differ in vncdotool's frame: the pointer, which the server draws,
and the square.
"""
CHANGES = """<div id="square" style="position: absolute; width: 8px; height: 8px"></div>
<script>
  onclick = () => setInterval(() => {
    square.style.background = square.style.background ? "" : "navy";
  }, 50);
</script>"""
"""A square that changes from the first click on."""
TEXT = "<p>" + 12 * "The basket holds two apples, a pear and a total of 3.00 euros. "


def photograph() -> bytes:
    """Return a JPEG of soft noise, as hard to compress as a photograph."""
    random = np.random.default_rng(5)
    noise = random.integers(0, 256, (360, 480, 3), np.uint8)
    soft = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))
    file = io.BytesIO()
    contrasty = soft.point(lambda value: 4 * value - 384)
    contrasty.save(file, "JPEG", quality=85)
    return file.getvalue()


def page() -> bytes:
    data = base64.b64encode(photograph()).decode()
    image = f'<img src="data:image/jpeg;base64,{data}" style="float: right">'
    style = "<style>* { overflow: hidden }</style>"
    return f"<!doctype html>{style}{CHANGES}{image}{60 * TEXT}".encode()


def vncdotools_png(client: api.ThreadedVNCClientProxy) -> bytes:
    file = io.BytesIO()
    client.captureScreen(file, format="PNG")
    return file.getvalue()


def rgb(png: bytes) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def show_the_same(ours: bytes, theirs: bytes) -> bool:
    differs = (rgb(ours) != rgb(theirs)).any(axis=2)
    return int(np.count_nonzero(differs)) <= POINTER_PX


def measure(size: tuple[int, int], rounds: int) -> list[str]:
    """Return the cells of a row."""
    with (
        page_on_screen(page(), size) as server,
        closing(connect(server.address, settle_rules=DRAWN)) as ours,
        api.connect(server.address) as client,
    ):
        ours.settle()
        ours.perform(Click(size[0] // 2, size[1] // 2))
        # vncdotool's first frame is wrong, and a busy machine may draw between two
        wait_for(
            lambda: show_the_same(ours.frame().png, vncdotools_png(client)),
            "a screenshot by vncdotool like one by pytest-vnc-use",
        )
        pixels = rgb(ours.frame().png)

        ways = {
            "floor": lambda: seconds(lambda: isal_zlib.compress(pixels.copy(), 1)),
            "ours": lambda: seconds(ours.frame),
            "vncdotool": lambda: seconds(lambda: vncdotools_png(client)),
        }
        return beside("floor", in_turn(ways, rounds))


def main(rounds: int = 15) -> None:
    print(f"{machine()}, {rounds} rounds: median, times the floor (middle half)\n")
    print(head("PNG bytes of the screen", "floor", "ours", "vncdotool"))
    for width, height in SIZES:
        cells = measure((width, height), rounds)
        print(row(f"{width}×{height}", *cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
