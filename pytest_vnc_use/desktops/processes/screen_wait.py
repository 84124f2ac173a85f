"""The wait for a desktop's screen, and the check that it is blank."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.types.actions import Wait
from pytest_vnc_use.types.protocols import Controller

POINTER_PX = 64
"""The side of the largest pointer. TigerVNC draws it into the picture of a client that has not moved it yet."""


def await_screen(screen: Controller, is_right: Callable[[bytes], bool], deadline: Deadline) -> bool:
    """Look at each change of the screen until its picture (PNG) `is_right`; return False if the time is up first."""
    while not is_right(screen.frame().png):
        if not deadline.remaining_s:
            return False
        screen.perform(Wait(0))  # so that `settle` waits for a change from now on
        screen.settle()
    return True


def is_blank(png: bytes) -> bool:
    """Return whether all pixels have the same colour, except for a pointer that the server may have drawn."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    rows, columns = np.nonzero((pixels != pixels[-1, 0]).any(axis=2))
    return rows.size == 0 or bool(np.ptp(rows) < POINTER_PX and np.ptp(columns) < POINTER_PX)
