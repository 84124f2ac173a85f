"""Stages: every kind of VNC server that the tests run on, with a program behind it that
knows what is really on the screen, and reports what reached it.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from support import vnc_servers
from support.paths import PROGRAMS
from support.vnc_servers import (
    VncServer,
    on_free_port,
    require,
    require_pyside,
    running,
    wait_for,
)
from support.witness_programs import window_of

Pixels = npt.NDArray[np.uint8]
Size = tuple[int, int]
SIZE = (800, 600)


@dataclass
class Stage:
    """`truth` is what the server's own side says is on the screen, of shape (height,
    width, 3).

    `received` is what reached the program: `down BUTTON X Y`, `up BUTTON X Y`, `wheel
    DIRECTION`, and `key C` with the repr of a character; where the server has no
    `wheel`, `page up` and `page down` are keys. `repaint` has it draw something else,
    `resize` change the screen's size.
    """

    server: VncServer
    truth: Callable[[], Pixels]
    received: Callable[[], Sequence[str]]
    repaint: Callable[[], object]
    resize: Callable[[Size], object] | None = None
    wheel: bool = True

    def shows(self, rgb: Pixels) -> bool:
        return bool(np.array_equal(rgb, self.truth()))


def _rgb(file: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def colours(rgb: Pixels) -> int:
    return len(Image.fromarray(rgb).getcolors(1 << 24) or ())


# X servers: xev at the root window receives, xwd tells the truth, an xterm in 256
# colours is the image.

_COLOURS = (
    r"i=0; while [ $i -lt 256 ]; do printf '\033[48;5;%dm%d' $i $i; i=$((i+1)); done; "
    r"printf '\033[?25l\033]0;drawn\007'; exec sleep 1000"
)
_BUTTONS = {1: "left", 2: "middle", 3: "right"}
_WHEEL = {4: "up", 5: "down", 6: "left", 7: "right"}
_DIRECTIONS = {"Press": "down", "Release": "up"}
_POINTED = re.compile(
    r"Button(Press|Release) .*?root:\((\d+),(\d+)\),.*?button (\d+), same", re.S
)
_TYPED = re.compile(
    r"KeyPress .*?XLookupString gives \d+ bytes: \(([0-9a-f ]+)\)", re.S
)


@contextmanager
def tigervnc(directory: Path, password: str | None = None) -> Iterator[Stage]:
    with _on_x(vnc_servers.tigervnc, directory, password) as stage:

        def resize(size: Size) -> None:
            mode = f"{size[0]}x{size[1]}"
            command = f"xrandr --fb {mode} --output VNC-0 --mode {mode}"
            stage.server.output_of(*command.split())

        stage.resize = resize
        yield stage


def tightvnc(
    directory: Path, password: str | None = None
) -> AbstractContextManager[Stage]:
    return _on_x(vnc_servers.tightvnc, directory, password)


@contextmanager
def x11vnc(directory: Path, password: str | None = None) -> Iterator[Stage]:
    """Yield x11vnc, which naps, as it does by default, and changes its size by showing
    a part of the screen.
    """
    with _on_x(vnc_servers.x11vnc, directory, password, naps=True) as stage:
        whole = stage.truth

        def resize(size: Size) -> None:
            clip = f"-remote clip:{size[0]}x{size[1]}+0+0"
            command = f"x11vnc -display {stage.server.display} {clip}"
            stage.server.output_of(*command.split())
            stage.truth = lambda: whole()[: size[1], : size[0]]

        stage.resize = resize
        yield stage


@contextmanager
def _on_x(
    start: Callable[..., AbstractContextManager[VncServer]],
    directory: Path,
    password: str | None,
    **options: Any,
) -> Iterator[Stage]:
    log = directory / "xev"
    secret = vnc_servers.password_file(directory, password) if password else None
    listen = "stdbuf -oL xev -root -event keyboard -event button -event property"
    drawings = itertools.cycle(("-mod 16 16", "-mod 5 7", "-solid #1f6fb2"))
    require("xev")
    with (
        start(SIZE, secret, **options) as server,
        log.open("wb") as out,
        server.run(*listen.split(), stdout=out.fileno()),
        server.run("xterm", "-geometry", "40x12+200+150", "-e", _COLOURS),
    ):

        def receives() -> bool:
            probe = "xprop -root -f PROBE 8s -set PROBE received"
            server.output_of(*probe.split())
            return b"PropertyNotify" in log.read_bytes()

        def received() -> list[str]:
            lines: list[str] = []
            for event in log.read_text("latin-1").split("\n\n"):
                lines += _lines_of(event.lstrip())
            return lines

        wait_for(receives, "xev")
        window_of(server, "drawn")
        stage = Stage(
            server,
            lambda: _truth(server),
            received,
            lambda: server.output_of("xsetroot", *next(drawings).split()),
        )
        stage.repaint()
        yield stage


def _lines_of(event: str) -> Iterator[str]:
    """Yield the change that one event tells; nothing if xev has not written all of it
    yet.
    """
    if pointed := _POINTED.match(event):
        kind, x, y, number = pointed.groups()
        if int(number) in _BUTTONS:
            yield f"{_DIRECTIONS[kind]} {_BUTTONS[int(number)]} {x} {y}"
        elif kind == "Press":
            yield f"wheel {_WHEEL[int(number)]}"
    if typed := _TYPED.match(event):
        yield from (f"key {chr(int(code, 16))!r}" for code in typed[1].split())


def _truth(server: VncServer) -> Pixels:
    """Return the screen as the X server hands it out, with four bytes a pixel
    (X11/XWDFile.h).
    """
    dump = server.output_of("xwd", "-root", "-silent")
    header = struct.unpack(">25I", dump[:100])
    header_size = header[0]
    width = header[4]
    height = header[5]
    line_bytes = header[12]
    colours = header[19]
    rows = np.frombuffer(dump, np.uint8, offset=header_size + colours * 12)
    return rows.reshape(height, line_bytes // 4, 4)[:, :width, 2::-1]


# QEMU: a guest of one boot sector echoes its keys on VGA's text screen, and to a port
# that QEMU logs. QEMU's own trace tells of the pointer, and its `screendump` the truth
# of the screen.

_AXIS_MAX = 0x7FFF
_MOVED = re.compile(r"input_event_abs con .*, axis (\w), value (0x[0-9a-f]+)")
_BUTTON = re.compile(
    r"input_event_btn con .*, button ([a-z]+)(?:-([a-z]+))?, down (\d)"
)
_BOOT_SECTOR = bytes.fromhex(
    "31c0 8ed8 8ed0 bc007c"  # xor ax, ax; mov ds, ax; mov ss, ax; mov sp, 0x7c00
    "b80300 cd10"  # video mode 3: text of 80 x 25
    "b401 b90726 cd10"  # hide the caret, which would blink
    "b800b8 8ec0 31ff b9d007"  # mov ax, 0xb800; mov es, ax; xor di, di; mov cx, 2000
    "89f8 050007 ab e2f8"  # paint: mov ax, di; add ax, 0x700; stosw; loop paint
    "b02e e6e9"  # tell '.', for ready
    "31c0 cd16 e6e9"  # next: wait for a key, tell it
    "3c12 7409"  # ctrl+r? to wide
    "b40e bb0700 cd10 ebed"  # show it; to next
    "b81200 cd10 ebe6"  # wide: video mode 0x12; to next
).ljust(510, b"\0") + bytes.fromhex("55aa")

_MACHINE = (
    "qemu-system-x86_64 -nodefaults -machine pc -accel tcg -m 16 -display none"
    " -vga std -usb -device usb-tablet -qmp stdio"
    " -drive file=boot,format=raw,if=floppy,read-only=on"
    " -debugcon file:typed -trace input_event_* -D trace"
)


class _Guest:
    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self._process = process
        self._dir = directory
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> Any:
        """Return the answer to a command; events that come before it are passed
        over.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
        )
        self._process.stdin.flush()
        for line in self._process.stdout:
            answer = json.loads(line)
            assert "error" not in answer, answer
            if "return" in answer:
                return answer["return"]
        raise RuntimeError(f"QEMU ended before it answered {command!r}")

    def press(self, *keys: str) -> None:
        before = len(self.typed())
        self.ask("send-key", keys=[{"type": "qcode", "data": key} for key in keys])
        wait_for(lambda: len(self.typed()) > before, f"the guest's answer to {keys!r}")

    def typed(self) -> bytes:
        """Return the characters that the guest has read, after the one that says that
        it is ready.
        """
        return (self._dir / "typed").read_bytes()

    def truth(self) -> Pixels:
        dump = self._dir / "screen.ppm"
        self.ask("screendump", filename=str(dump))
        return _rgb(dump.read_bytes())

    def received(self) -> list[str]:
        return [*self._pointed(), *(f"key {chr(code)!r}" for code in self.typed()[1:])]

    def _pointed(self) -> Iterator[str]:
        """Yield the pointer's events; QEMU counts each axis from 0 to 0x7fff."""
        height, width, _ = self.truth().shape
        size = {"x": width, "y": height}
        at = {"x": 0, "y": 0}
        for line in (self._dir / "trace").read_text().splitlines():
            if moved := _MOVED.search(line):
                axis, value = moved.groups()
                at[axis] = round(int(value, 16) * size[axis] / _AXIS_MAX)
            elif button := _BUTTON.search(line):
                name, direction, is_down = button.groups()
                if direction is None:
                    kind = "down" if is_down == "1" else "up"
                    yield f"{kind} {name} {at['x']} {at['y']}"
                elif is_down == "1":
                    yield f"wheel {direction}"


@contextmanager
def qemu(directory: Path, password: str | None = None) -> Iterator[Stage]:
    """Yield QEMU; its size is that of VGA's text."""
    (directory / "boot").write_bytes(_BOOT_SECTOR)
    command = _MACHINE
    secured = ""
    if password:
        command += f" -object secret,id=vnc,data={password}"
        secured = ",password-secret=vnc"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

    def start(port: int) -> AbstractContextManager[subprocess.Popen[bytes]]:
        screen = f"127.0.0.1:{port - 5900}{secured}"
        return running(*command.split(), "-vnc", screen, cwd=directory, **pipes)

    with on_free_port(start) as server:
        guest = _Guest(server.process, directory)
        wait_for(lambda: guest.typed() == b".", "the guest's start")
        # No driver of the guest's asks for the tablet.
        mice = guest.ask("query-mice")
        (tablet,) = (mouse["index"] for mouse in mice if mouse["absolute"])
        guest.ask("human-monitor-command", **{"command-line": f"mouse_set {tablet}"})
        yield Stage(
            server,
            guest.truth,
            guest.received,
            lambda: guest.press("x"),
            lambda _: guest.press("ctrl", "r"),
        )


# A Qt program: on Qt's own VNC platform, and on sway, whose screen wayvnc shows.

_NOBODY = 65534
_COLOURS_OF_A_DESKTOP = 10
_HEADLESS = {
    "WLR_BACKENDS": "headless",
    "WLR_LIBINPUT_NO_DEVICES": "1",
    "WLR_RENDERER": "pixman",
}


class _Canvas:
    """The canvas: it obeys lines on its stdin, answers each with `done`, and writes to
    a file what it receives.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._seeds = itertools.count(2)
        wait_for(lambda: "painted" in self.received(), "the canvas")

    def received(self) -> list[str]:
        return self._log.read_text(encoding="utf-8").splitlines()

    def repaint(self) -> None:
        self.obey(f"paint {next(self._seeds)}")

    def obey(self, command: str) -> None:
        answered = self.received().count("done")
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        wait_for(
            lambda: self.received().count("done") > answered,
            f"the answer to {command!r}",
        )


@contextmanager
def _run_canvas(
    log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, str(PROGRAMS / "canvas.py"))
    with (
        log.open("wb") as out,
        running(
            *command,
            environment=environment,
            stdin=subprocess.PIPE,
            stdout=out.fileno(),
        ) as process,
    ):
        yield process


@contextmanager
def qt(directory: Path) -> Iterator[Stage]:
    require_pyside()
    log = directory / "received"
    grabbed = directory / "grabbed.ppm"
    platform = f"vnc:size={SIZE[0]}x{SIZE[1]}:depth=32:port="

    def start(port: int) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return _run_canvas(log, {"QT_QPA_PLATFORM": f"{platform}{port}"})

    with on_free_port(start) as server:
        canvas = _Canvas(server.process, log)

        def truth() -> Pixels:
            canvas.obey(f"grab {grabbed}")
            return _rgb(grabbed.read_bytes())

        yield Stage(server, truth, canvas.received, canvas.repaint, wheel=False)


@contextmanager
def wayvnc(directory: Path) -> Iterator[Stage]:
    """Yield wayvnc before sway without a screen of its own; grim tells the truth."""
    require_pyside()
    require("grim")
    log = directory / "received"
    with (
        _sway() as wayland,
        on_free_port(
            lambda port: running("wayvnc", "127.0.0.1", str(port), environment=wayland)
        ) as server,
        _run_canvas(log, {**wayland, "QT_QPA_PLATFORM": "wayland"}) as program,
    ):
        server.environment = wayland
        canvas = _Canvas(program, log)

        def truth() -> Pixels:
            return _rgb(server.output_of("grim", "-t", "ppm", "-"))

        def resize(size: Size) -> None:
            mode = f"output HEADLESS-1 resolution {size[0]}x{size[1]}"
            server.output_of("swaymsg", mode)

        wait_for(
            lambda: colours(truth()[::16, ::16]) > _COLOURS_OF_A_DESKTOP,
            "the canvas on sway",
        )
        yield Stage(server, truth, canvas.received, canvas.repaint, resize)


@contextmanager
def _sway() -> Iterator[Mapping[str, str]]:
    """Yield the environment of programs on a running sway. Root may not run it, so the
    user `nobody` does.
    """
    user: dict[str, Any] = {}
    # its sockets need a short path
    with tempfile.TemporaryDirectory(prefix="sway-") as name:
        if os.geteuid() == 0:
            shutil.chown(name, _NOBODY, _NOBODY)
            user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        directory = Path(name)
        config = directory / "config"
        config.write_text(
            f"output HEADLESS-1 resolution {SIZE[0]}x{SIZE[1]}\ndefault_border none\n"
        )
        environment = {"XDG_RUNTIME_DIR": name}
        with running(
            "sway", "-c", str(config), environment={**environment, **_HEADLESS}, **user
        ):
            wait_for(lambda: [*directory.glob("sway-ipc.*.sock")], "sway's socket")
            wait_for(lambda: [*directory.glob("wayland-?")], "sway's display")
            (ipc,) = directory.glob("sway-ipc.*.sock")
            (wayland,) = directory.glob("wayland-?")
            yield {**environment, "WAYLAND_DISPLAY": wayland.name, "SWAYSOCK": str(ipc)}


KINDS: dict[str, Callable[..., AbstractContextManager[Stage]]] = {
    "tigervnc": tigervnc,
    "tightvnc": tightvnc,
    "x11vnc": x11vnc,
    "qemu": qemu,
    "qt": qt,
    "wayvnc": wayvnc,
}
"""By a server's name, what starts its stage, with files in a directory, and a password
if that is given.
"""
WITH_PASSWORD = ("tigervnc", "tightvnc", "x11vnc", "qemu")
ENDS_WITH_CLIENT = "wayvnc"
"""Version 0.5 was seen to do so."""
