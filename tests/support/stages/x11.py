"""Stages of X servers: xev at the root window hears, xwd tells the truth, an xterm in 256 colours is the image."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from support import vnc_servers
from support.stages.stage import BITS, BUTTONS, WHEEL, Pixels, Stage, Wish
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import window_of

_COLOURS = (
    r"i=0; while [ $i -lt 256 ]; do printf '\033[48;5;%dm%d' $i $i; i=$((i+1)); done; "
    r"printf '\033[?25l\033]0;drawn\007'; exec sleep 1000"
)


@contextmanager
def tigervnc(directory: Path, wish: Wish) -> Iterator[Stage]:
    starting = vnc_servers.tigervnc(wish.size, _file(directory, wish), ["-depth", str(wish.depth)])
    with _stage(starting, directory, wish) as stage:
        stage.resize = lambda size: _by_xrandr(stage.server, size)
        yield stage


def tightvnc(directory: Path, wish: Wish) -> AbstractContextManager[Stage]:
    return _stage(vnc_servers.tightvnc(wish.size, _file(directory, wish), depth=wish.depth), directory, wish)


@contextmanager
def x11vnc(directory: Path, wish: Wish) -> Iterator[Stage]:
    """Yield x11vnc, which changes its size by showing a part of the screen."""
    server = vnc_servers.x11vnc(wish.size, _file(directory, wish), depth=wish.depth, naps=wish.naps)
    with _stage(server, directory, wish) as stage:
        whole = stage.truth

        def resize(size: tuple[int, int]) -> None:
            clip = f"clip:{size[0]}x{size[1]}+0+0"
            stage.server.output_of("x11vnc", "-display", stage.server.display, "-remote", clip)
            stage.truth = lambda: whole()[: size[1], : size[0]]

        stage.resize = resize
        yield stage


def _file(directory: Path, wish: Wish) -> Path | None:
    return vnc_servers.password_file(directory, wish.password) if wish.password else None


def _by_xrandr(server: VncServer, size: tuple[int, int]) -> None:
    mode = f"{size[0]}x{size[1]}"
    server.output_of("xrandr", "--fb", mode, "--output", "VNC-0", "--mode", mode)


@contextmanager
def _stage(starting: AbstractContextManager[VncServer], directory: Path, wish: Wish) -> Iterator[Stage]:
    log = directory / "xev"
    drawings = itertools.cycle([("-mod", "16", "16"), ("-mod", "5", "7"), ("-solid", "#1f6fb2")])
    with (
        starting as server,
        _listening(server, log),
        server.run("xterm", "-geometry", "40x12+200+150", "-e", _COLOURS),
    ):
        window_of(server, "drawn")
        stage = Stage(
            server,
            truth=lambda: _truth(server),
            heard=lambda: _heard(log),
            repaint=lambda: server.output_of("xsetroot", *next(drawings)),
            bits=BITS[wish.depth],
        )
        stage.repaint()
        yield stage


@contextmanager
def _listening(server: VncServer, log: Path) -> Iterator[None]:
    listen = ["stdbuf", "-oL", "xev", "-root", "-event", "keyboard", "-event", "button", "-event", "property"]
    vnc_servers.require("xev")
    with log.open("wb") as out, server.run(*listen, stdout=out.fileno()):

        def hears() -> bool:
            server.output_of("xprop", "-root", "-f", "PROBE", "8s", "-set", "PROBE", "heard")
            return b"PropertyNotify" in log.read_bytes()

        wait_for(hears, "xev")
        yield


def _heard(log: Path) -> list[str]:
    return [told for event in log.read_text("latin-1").split("\n\n") for told in _told(event.lstrip())]


def _told(event: str) -> Iterator[str]:
    """Yield the change that one event tells; nothing if xev has not written all of it yet."""
    pointed = re.match(r"Button(Press|Release) .*?root:\((\d+),(\d+)\),.*?button (\d+), same", event, re.S)
    if pointed and int(pointed[4]) in BUTTONS:
        yield f"{'down' if pointed[1] == 'Press' else 'up'} {BUTTONS[int(pointed[4])]} {pointed[2]} {pointed[3]}"
    elif pointed and pointed[1] == "Press":
        yield f"wheel {WHEEL[int(pointed[4])]}"
    typed = re.match(r"KeyPress .*?XLookupString gives \d+ bytes: \(([0-9a-f ]+)\)", event, re.S)
    yield from (f"key {chr(int(code, 16))!r}" for code in (typed[1].split() if typed else ()))


def _truth(server: VncServer) -> Pixels:
    """Return the screen as the X server hands it out, in true colours (X11/XWDFile.h)."""
    dump = server.output_of("xwd", "-root", "-silent")
    header = struct.unpack(">25I", dump[:100])
    header_size, width, height, line_bytes, colours = header[0], header[4], header[5], header[12], header[19]
    pixel_bytes = header[11] // 8
    rows = np.frombuffer(dump, f"<u{pixel_bytes}", offset=header_size + colours * 12)
    pixels = rows.reshape(height, line_bytes // pixel_bytes)[:, :width]
    channels = [(pixels & mask) >> (mask & -mask).bit_length() - 1 for mask in header[14:17]]
    return np.stack(channels, axis=2).astype(np.uint8)
