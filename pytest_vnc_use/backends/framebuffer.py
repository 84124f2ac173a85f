"""The live framebuffer: the pixels as the server last sent them, and the place where callers wait for the server.

The reactor's thread writes, the caller's thread reads and waits; one condition guards all of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.activity import Activity
from pytest_vnc_use.backends.settle import Mark, SettleRules, judge
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types import Settled

_COLOUR_BITS = np.uint32(0xFFFFFF)


@dataclass(frozen=True)
class Rectangle:
    """One raw rectangle of an update, 4 bytes a pixel: blue, green, red, nothing."""

    x: int
    y: int
    width: int
    height: int
    data: bytes

    def pixels(self) -> npt.NDArray[np.uint32]:
        return np.frombuffer(self.data, "<u4").reshape(self.height, self.width)


class Framebuffer:
    """Pixels, what changed when, and why the connection ended."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._pixels = np.zeros((0, 0), np.uint32)
        self._missing = np.zeros((0, 0), np.bool_)
        self._complete = False
        self._updates = 0
        self._activity = Activity(0, 0)
        self._mark = Mark(0.0, 0.0)
        self._error: DesktopError | None = None

    # --- for the reactor's thread ---

    def resize(self, width: int, height: int) -> None:
        """Start anew with another size; incomplete until every pixel has been sent once."""
        with self._condition:
            self._pixels = np.zeros((height, width), np.uint32)
            self._missing = np.ones((height, width), np.bool_)
            self._complete = False
            self._activity = Activity(width, height)

    def apply(self, rectangles: Sequence[Rectangle]) -> None:
        """Draw one whole update. Raises ValueError where a rectangle leaves the screen."""
        with self._condition:
            for rectangle in rectangles:
                self._draw(rectangle)
            self._updates += 1
            self._complete = self._complete or not self._missing.any()
            self._condition.notify_all()

    def fail(self, error: DesktopError) -> None:
        """Wake every waiter with the reason why nothing more will come; the first reason stays."""
        with self._condition:
            self._error = self._error or error
            self._condition.notify_all()

    def wake(self) -> None:
        """Let waiters look at their condition again."""
        with self._condition:
            self._condition.notify_all()

    def _draw(self, rectangle: Rectangle) -> None:
        x, y, height, width = rectangle.x, rectangle.y, rectangle.height, rectangle.width
        if x + width > self._pixels.shape[1] or y + height > self._pixels.shape[0]:
            raise ValueError(
                f"a rectangle {(x, y, width, height)!r} is outside the screen {self._pixels.shape[::-1]!r}"
            )
        target = self._pixels[y : y + height, x : x + width]
        new = rectangle.pixels()
        changed = ((target ^ new) & _COLOUR_BITS) != 0
        target[:] = new
        self._activity.add(x, y, changed, time.monotonic())
        if not self._complete:
            self._missing[y : y + height, x : x + width] = False

    # --- for the caller's thread ---

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        with self._condition:
            height, width = self._pixels.shape
            return width, height

    @property
    def updates(self) -> int:
        """How many updates the server has sent."""
        return self._updates

    def raise_if_lost(self) -> None:
        """Raises the DesktopError that ended the connection, if one did."""
        if self._error is not None:
            raise self._error

    def rgb(self, timeout_s: float) -> npt.NDArray[np.uint8] | None:
        """A copy of the pixels, of shape (height, width, 3); None where some are still missing after `timeout_s`."""
        with self._condition:
            if not self.wait_complete(timeout_s):
                return None
            pixels = self._pixels.copy()
        channels = pixels.view(np.uint8).reshape(*pixels.shape, 4)
        return np.ascontiguousarray(channels[..., 2::-1])

    def wait_until(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Whether `predicate` came true within `timeout_s`. Raises the DesktopError that ended the connection."""
        with self._condition:
            self._condition.wait_for(lambda: self._error is not None or predicate(), timeout_s)
            self.raise_if_lost()
            return predicate()

    def wait_complete(self, timeout_s: float) -> bool:
        """Whether every pixel has been sent at least once, within `timeout_s`. Raises DesktopError."""
        return self.wait_until(lambda: self._complete, timeout_s)

    def pause(self, duration_s: float) -> None:
        """Let time pass. Raises DesktopError as soon as the connection ends."""
        self.wait_until(lambda: False, duration_s)

    def mark_began(self) -> None:
        """An action begins now: what changes from here on may be its answer."""
        with self._condition:
            now_s = time.monotonic()
            self._mark = Mark(now_s, now_s)

    def mark_ended(self) -> None:
        """The action is carried out; animation is looked for from here on."""
        with self._condition:
            self._mark = Mark(self._mark.began_s, time.monotonic())
            self._activity.restart()

    def wait_settled(self, rules: SettleRules) -> Settled:
        """Wait as `rules` say. Raises DesktopError as soon as the connection ends."""
        started_s = time.monotonic()
        with self._condition:
            while True:
                self.raise_if_lost()
                now_s = time.monotonic()
                judgement = judge(self._activity, self._mark, rules)
                if now_s >= judgement.at_s:
                    return Settled(judgement.reason, now_s - started_s)
                if now_s >= started_s + rules.limit_s:
                    return Settled("limit", now_s - started_s)
                self._condition.wait(min(judgement.at_s, started_s + rules.limit_s) - now_s)
