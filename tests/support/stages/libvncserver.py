"""The stage of libvncserver: a program in C that is built for the test, its pixels in a file."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from support import vnc_servers
from support.paths import PROGRAMS
from support.stages.stage import Pixels, Stage, Told, Wish, buttons_changed, writing_to
from support.vnc_servers import on_free_port, running

_SOURCE = PROGRAMS / "paper.c"
_CONTROL = (0xFFE3, 0xFFE4)
_RETURN = 0xFF0D
_BITS = {24: (8, 8, 8), 16: (5, 5, 5), 8: (3, 3, 2)}
"""Of red, green and blue, red lowest: what rfbGetScreen makes of 4, 2 and 1 bytes a pixel."""


class Sheet:
    """The file with the pixels of a running `paper`."""

    def __init__(self, path: Path, wish: Wish) -> None:
        self._path, self.bits, self.size = path, _BITS[wish.depth], wish.size

    @property
    def pixel_bytes(self) -> int:
        return {8: 4, 5: 2, 3: 1}[self.bits[0]]

    def truth(self) -> Pixels:
        width, height = self.size
        pixels = np.fromfile(self._path, f"<u{self.pixel_bytes}", width * height).reshape(height, width)
        shifts = itertools.accumulate(self.bits, initial=0)
        channels = [pixels >> shift & ((1 << bits) - 1) for shift, bits in zip(shifts, self.bits, strict=False)]
        return np.stack(channels, axis=2).astype(np.uint8)


@contextmanager
def libvncserver(directory: Path, wish: Wish) -> Iterator[Stage]:
    sheet, log = Sheet(directory / "sheet", wish), directory / "heard"
    words = [str(wish.size[0]), str(wish.size[1]), str(sheet.pixel_bytes), str(int(wish.view_only))]
    program = [str(_built(directory, _SOURCE)), str(directory / "sheet")]
    password = [wish.password] if wish.password else []
    with (
        writing_to(log) as pipes,
        on_free_port(lambda port: running(*program, str(port), *words, *password, **pipes)) as server,
    ):
        paper = Told(server.process, log)
        seeds = itertools.count(2)

        def resize(size: tuple[int, int]) -> None:
            paper.obey(f"size {size[0]} {size[1]}")
            sheet.size = size

        def repaint() -> None:
            paper.obey(f"paint {next(seeds)}")

        yield Stage(server, sheet.truth, lambda: list(_heard(paper.lines())), repaint, resize, sheet.bits)


def _built(directory: Path, source: Path) -> Path:
    vnc_servers.require("gcc")
    program = directory / source.stem
    command = ["gcc", "-O1", "-o", str(program), str(source), "-lvncserver"]
    if subprocess.run(command, capture_output=True, timeout=400, check=False).returncode:
        vnc_servers.missing("libvncserver", f"apt-get install {vnc_servers.PACKAGES['gcc']}")
    return program


def _heard(lines: list[str]) -> Iterator[str]:
    buttons, control = 0, False
    for line in lines:
        kind, *numbers = line.split()
        if kind == "pointer":
            now, x, y = map(int, numbers)
            yield from buttons_changed(buttons, now, x, y)
            buttons = now
        if kind == "key":
            down, keysym = map(int, numbers)
            control = bool(down) if keysym in _CONTROL else control
            if down and (keysym == _RETURN or keysym < 0x100):
                yield f"key {chr(keysym & (0x1F if control or keysym == _RETURN else 0xFF))!r}"
