"""The stage of QEMU: a guest of one boot sector echoes its keys on VGA's text screen, and to a port that QEMU logs.

QEMU's own trace tells of the pointer, and its `screendump` the truth of the screen.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support.stages.stage import Pixels, Stage, Wish
from support.vnc_servers import on_free_port, running, wait_for

_AXIS_MAX = 0x7FFF
BOOT_SECTOR = bytes.fromhex(
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


class Guest:
    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self._process, self._dir = process, directory
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> Any:
        """Return the answer to a command; events that come before it are passed over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
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
        """Return the characters that the guest has read, after the one that says that it is ready."""
        return (self._dir / "typed").read_bytes()

    def truth(self) -> Pixels:
        dump = self._dir / "screen.ppm"
        self.ask("screendump", filename=str(dump))
        return np.asarray(Image.open(io.BytesIO(dump.read_bytes())).convert("RGB"))

    def point_absolutely(self) -> None:
        """Make the tablet, which no driver of the guest's asks for, the device that the pointer moves."""
        (tablet,) = (mouse["index"] for mouse in self.ask("query-mice") if mouse["absolute"])
        self.ask("human-monitor-command", **{"command-line": f"mouse_set {tablet}"})

    def heard(self) -> list[str]:
        trace = (self._dir / "trace").read_text()
        keys = [f"key {chr(code)!r}" for code in self.typed()[1:]]
        return [*_pointed(trace, self.truth().shape), *keys]


@contextmanager
def qemu(directory: Path, wish: Wish) -> Iterator[Stage]:
    """Run QEMU; nobody can ask for `wish.size`: the guest's is that of VGA's text."""
    boot = directory / "boot"
    boot.write_bytes(BOOT_SECTOR)
    machine = ["-nodefaults", "-machine", "pc", "-accel", "tcg", "-m", "16", "-display", "none", "-vga", "std"]
    devices = ["-usb", "-device", "usb-tablet", "-drive", f"file={boot},format=raw,if=floppy,read-only=on"]
    logs = ["-debugcon", f"file:{directory / 'typed'}", "-trace", "input_event_*", "-D", str(directory / "trace")]
    secret = ["-object", f"secret,id=vnc,data={wish.password}"] if wish.password else []
    command = ["qemu-system-x86_64", *machine, *devices, *logs, *secret, "-qmp", "stdio"]
    password = ",password-secret=vnc" if wish.password else ""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with on_free_port(
        lambda port: running(*command, "-vnc", f"127.0.0.1:{port - 5900}{password}", **pipes)  # type: ignore[arg-type]
    ) as server:
        guest = Guest(server.process, directory)
        wait_for(lambda: guest.typed() == b".", "the guest's start")
        guest.point_absolutely()
        yield Stage(server, guest.truth, guest.heard, lambda: guest.press("x"), lambda _: guest.press("ctrl", "r"))


def _pointed(trace: str, shape: tuple[int, ...]) -> Iterator[str]:
    """Yield the pointer's events; QEMU counts each axis from 0 to 0x7fff."""
    height, width, _ = shape
    at = {"x": 0, "y": 0}
    for line in trace.splitlines():
        if moved := re.search(r"input_event_abs con .*, axis (\w), value (0x[0-9a-f]+)", line):
            at[moved[1]] = round(int(moved[2], 16) * {"x": width, "y": height}[moved[1]] / _AXIS_MAX)
        elif button := re.search(r"input_event_btn con .*, button ([a-z]+)(?:-([a-z]+))?, down (\d)", line):
            yield from _pressed(button[1], button[2], down=button[3] == "1", **at)


def _pressed(button: str, direction: str | None, *, down: bool, x: int, y: int) -> Iterator[str]:
    if direction is None:
        yield f"{'down' if down else 'up'} {button} {x} {y}"
    elif down:
        yield f"wheel {direction}"
