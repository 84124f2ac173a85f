"""The waits for a desktop's screen: until a program shows, and until the screen shows anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.session import Process
from pytest_vnc_use.types import Glance
from pytest_vnc_use.types.protocols import Controller

POINTER_PX = 64
"""The side of the largest pointer. TigerVNC draws it into the picture of a client that has not moved it yet."""
_COLOUR_BITS = np.uint32(0xFFFFFF)
_NOTICE_S = 0.05
"""The delay before the end of a process is noticed."""


def shows_window(process: Process, screen: Controller, before: Glance, deadline: Deadline) -> bool:
    """Wait until the screen differs from `before`; return False if the process ends, or time is up, first.

    Differences within one box of a pointer's size do not count: a caret, a clock. Raises DesktopError if the connection
    is lost.
    """
    since_s = before.taken_at
    while not process.end and deadline.remaining_s:
        if screen.wait_changed(since_s, min(_NOTICE_S, deadline.remaining_s)):
            now = screen.glance()
            if _differ(now.pixels, before.pixels):
                return True
            since_s = now.taken_at
    return False


def shows_anything(screen: Controller, deadline: Deadline) -> bool:
    """Wait until the screen has several colours, a pointer aside; return False if time is up first.

    Raises DesktopError.
    """
    now: Any = screen.glance()
    while not _differ(now.pixels, now.pixels[-1, 0]):
        if not screen.wait_changed(now.taken_at, deadline.remaining_s):
            return False
        now = screen.glance()
    return True


def _differ(pixels: Any, others: Any) -> bool:
    if np.ndim(others) and pixels.shape != others.shape:
        return True
    differs = (pixels ^ others) & _COLOUR_BITS != 0
    edges = [np.flatnonzero(differs.any(axis=axis)) for axis in (0, 1)]
    return any(places.size and np.ptp(places) >= POINTER_PX for places in edges)
