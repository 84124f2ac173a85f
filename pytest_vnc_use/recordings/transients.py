"""The search for transient frames that a replay shows and its recording does not: a toast, an error box."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pytest_vnc_use.recordings.gates import boxes_of, is_small
from pytest_vnc_use.recordings.pictures import Mask, Pixels, differing
from pytest_vnc_use.types import Region


def unknown_parts(seen: Pixels, known: Iterable[Pixels], left_out: Mask) -> list[Region]:
    """Return where a screen differs from all of the `known` screens.

    A window that is still being drawn does not count: each of its pieces is as on the screen before or after, or of one
    colour. A caret does not count either.
    """
    marked: Mask = ~left_out
    for screen in known:
        if screen.shape != seen.shape:
            return []
        marked &= differing(seen, screen)
    return [box for box in boxes_of(marked) if not is_small(box) and not _is_plain(box, seen, marked)]


def _is_plain(box: Region, seen: Pixels, marked: Mask) -> bool:
    pixels = box.part_of(seen)[box.part_of(marked)]
    return bool(np.all(pixels == pixels[0]))
