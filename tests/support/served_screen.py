"""A desktop in this process: a screen behind a real VNC server, repainted by each
press. It starts no program.
"""

from __future__ import annotations

import socketserver
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from pytest_vnc_use.types import (
    Button,
    Direction,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
)
from pytest_vnc_use.types.keys import key_of
from support.rfb_server import CURSOR, RAW, drawn, greeting, rectangle, update
from support.wire import serving

SIZE = (400, 300)
Motion = MouseDown | MouseUp | Move | Scroll | KeyDown | KeyUp
BUTTONS: Sequence[Button] = ("left", "middle", "right")
WHEEL: Sequence[Direction] = ("up", "down", "left", "right")
POINTER = rectangle(0, 0, 8, 8, CURSOR, bytes(4 * 8 * 8) + b"\xff" * 8)
"""A black square, which points with its left top."""


class ServedScreen:
    """A screen with the input that it received, in `motions`; each press and turn of
    the wheel paints a square. `size` is its width and height.

    One that `forgets` sends it only where all of the screen is asked for. One that
    `resets` has none for a new client.
    """

    def __init__(
        self, colour: int, forgets: bool, resets: bool, size: tuple[int, int]
    ) -> None:
        self.colour = colour
        self.size = size
        self.forgets = forgets
        self.resets = resets
        self.address = ""
        self.motions: list[Motion] = []
        self.reset()

    def reset(self) -> None:
        self.presses = 0
        self.pixels = np.full(self.size[::-1], 0xFFFFFF, np.uint32)
        self.pixels[:20] = 0x505050  # a screen of one colour counts as not started

    def receive(self, motion: Motion) -> Iterator[bytes]:
        self.motions.append(motion)
        if isinstance(motion, (MouseDown, KeyDown, Scroll)):
            x = self.presses * 12 % 390
            y = 100 + self.presses // 32 * 12
            self.presses += 1
            square = self.pixels[y : y + 10, x : x + 10]
            square[:] = self.colour
            if not self.forgets:
                yield drawn(square, RAW, square.tobytes(), x, y)


class Viewer(socketserver.StreamRequestHandler):
    screen: ServedScreen

    def handle(self) -> None:
        self.news: list[bytes] = []
        self.is_asked = False
        self.buttons = 0
        self.at = (-1, -1)
        if self.screen.resets:
            self.screen.reset()
        self.wfile.write(greeting(*self.screen.size))
        with suppress(ConnectionError):  # the client has left
            self.rfile.read(len(b"RFB 003.008\n") + 2)
            while kind := self.rfile.read(1):
                self.take(kind[0])
                if self.is_asked and self.news:
                    self.wfile.write(update(*self.news))
                    self.is_asked = False
                    self.news = []

    def take(self, kind: int) -> None:
        match kind:
            case 0:
                self.rfile.read(19)
            case 2:
                (count,) = struct.unpack(">xH", self.rfile.read(3))
                if CURSOR in struct.unpack(f">{count}i", self.rfile.read(4 * count)):
                    self.news.append(POINTER)
            case 3:
                self.is_asked = True
                is_incremental, x, y, width, height = struct.unpack(
                    ">?HHHH", self.rfile.read(9)
                )
                if not is_incremental:
                    region = self.screen.pixels[y : y + height, x : x + width]
                    self.news.append(drawn(region, RAW, region.tobytes(), x, y))
            case 4:
                down, keysym = struct.unpack(">?xxI", self.rfile.read(7))
                key = key_of(keysym) or hex(keysym)
                self.news += self.screen.receive(KeyDown(key) if down else KeyUp(key))
            case 5:
                for motion in self.pointed(*struct.unpack(">BHH", self.rfile.read(5))):
                    self.news += self.screen.receive(motion)
            case 6:
                self.rfile.read(struct.unpack(">xxxI", self.rfile.read(7))[0])
            case _:
                raise ValueError(
                    f"the client sent a message of the unknown kind {kind}"
                )

    def pointed(self, buttons: int, x: int, y: int) -> Iterator[Motion]:
        changed = buttons ^ self.buttons
        self.buttons = buttons
        if (x, y) != self.at:
            self.at = x, y
            yield Move(x, y)
        for number, button in enumerate(BUTTONS):
            if changed >> number & 1:
                is_down = buttons >> number & 1
                yield MouseDown(x, y, button) if is_down else MouseUp(x, y, button)
        for number, direction in enumerate(WHEEL, len(BUTTONS)):
            if changed & buttons & 1 << number:
                yield Scroll(x, y, direction, 1)


@contextmanager
def served_screen(
    colour: int = 0x2070B0,
    *,
    forgets: bool = False,
    resets: bool = False,
    size: tuple[int, int] = SIZE,
) -> Iterator[ServedScreen]:
    shown = ServedScreen(colour, forgets, resets, size)

    class Handler(Viewer):
        screen = shown

    with serving(Handler) as shown.address:
        yield shown
