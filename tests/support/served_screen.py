"""A desktop in this process: a framebuffer behind a real VNC server, repainted by each press. It starts no program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np

from pytest_vnc_use.backends.pixels import Area, Rectangle
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.types import KeyDown, MouseDown, Scroll
from support.vnc_desktop_server import Motion, ViewerServer

SIZE = (400, 300)


class ServedScreen:
    """A screen with the input that it received, in `motions`; each press and turn of the wheel paints a square."""

    def __init__(self, colour: int = 0x2070B0) -> None:
        self.colour, self.presses = colour, 0
        self.motions: list[Motion] = []
        self.pixels = np.full(SIZE[::-1], 0xFFFFFF, np.uint32)
        self.pixels[:20] = 0x505050  # a screen of one colour counts as not started
        self.framebuffer = Framebuffer()
        self.framebuffer.resize(*SIZE)
        self.framebuffer.apply([Rectangle(Area(0, 0, *SIZE), self.pixels.copy())])
        self.server = ViewerServer(self.framebuffer, "served", "localhost::0", None, self._receive)

    def _receive(self, motion: Motion | None, _: float) -> None:
        if motion is not None:
            self.motions.append(motion)
        if isinstance(motion, (MouseDown, KeyDown, Scroll)):
            x, y = self.presses * 12 % 390, 100 + self.presses // 32 * 12
            self.presses += 1
            self.pixels[y : y + 10, x : x + 10] = self.colour
            self.framebuffer.apply([Rectangle(Area(x, y, 10, 10), self.pixels[y : y + 10, x : x + 10].copy())])


@contextmanager
def served_screen(colour: int = 0x2070B0) -> Iterator[ServedScreen]:
    screen = ServedScreen(colour)
    with closing(screen.server):
        yield screen
