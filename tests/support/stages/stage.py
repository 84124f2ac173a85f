"""A stage: a VNC server with a program behind it that knows what is really on the screen, and tells what reached it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from support.vnc_servers import VncServer, wait_for

Pixels = npt.NDArray[np.uint8]
BUTTONS = {1: "left", 2: "middle", 3: "right"}
BITS = {24: (8, 8, 8), 16: (5, 6, 5), 8: (3, 3, 2)}
"""Of red, green and blue, for each depth of a screen."""
WHEEL = {4: "up", 5: "down", 6: "left", 7: "right"}


@dataclass(frozen=True)
class Wish:
    """The wishes for a server; `depth` in bits a pixel. The table `KINDS` says which of them each kind takes.

    `naps` is for x11vnc.
    """

    size: tuple[int, int] = (800, 600)
    password: str | None = None
    depth: int = 24
    naps: bool = False


@dataclass
class Stage:
    """`truth` is what the server's own side says is on the screen, of shape (height, width, 3), each channel of as many
    `bits` as the server has. `heard` is what reached the program: `down BUTTON X Y`, `up BUTTON X Y`,
    `wheel DIRECTION`, and `key C` with the repr of a character; where the server has no `wheel`, `page up` and
    `page down` are heard of keys. `repaint` has it draw something else, `resize` change the screen's size.
    """

    server: VncServer
    truth: Callable[[], Pixels]
    heard: Callable[[], Sequence[str]]
    repaint: Callable[[], object]
    resize: Callable[[tuple[int, int]], object] | None = None
    bits: tuple[int, int, int] = (8, 8, 8)
    wheel: bool = True

    def shows(self, rgb: Pixels) -> bool:
        return bool(np.array_equal(rgb >> (8 - np.array(self.bits, np.uint8)), self.truth()))


class Told:
    """A program that obeys lines on its stdin, answers each with `done`, and writes to a file what it hears."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    def lines(self) -> list[str]:
        """Return its output so far, without the answers."""
        return [line for line in self._written() if line != "done"]

    def obey(self, command: str) -> None:
        answered = self._written().count("done")
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        wait_for(lambda: self._written().count("done") > answered, f"the answer to {command!r}")

    def _written(self) -> list[str]:
        return self._log.read_text(encoding="utf-8").splitlines()


@contextmanager
def writing_to(log: Path) -> Iterator[dict[str, Any]]:
    with log.open("wb") as out:
        yield {"stdin": subprocess.PIPE, "stdout": out.fileno()}
