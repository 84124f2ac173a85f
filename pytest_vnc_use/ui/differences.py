"""The names of differences in a review: equal differences have the same, also where
only a caret has blinked.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import Region


class _Difference(NamedTuple):
    """A box, and the pixels recorded and now in it."""

    box: Region
    size: tuple[int, ...]
    recorded: Pixels
    seen: Pixels


class Differences:
    """The differences of one review, by their names."""

    def __init__(self) -> None:
        self._carets = set[tuple[int, int]]()
        """The widths and heights of the carets in the recordings."""
        self._known: dict[str, _Difference] = {}

    def learn_carets(self, recording: Recording) -> None:
        """Learn how large a recording's carets are: only what has the size of one can
        be a caret that the recorded screen does not know.
        """
        for segment in recording.segments:
            for screen in segment.screens:
                for part in screen.dynamic:
                    region = part.region
                    if part.kind == "caret" and not part.variants:
                        self._carets.add((region.width, region.height))

    def name(self, box: Region, recorded: Pixels, seen: Pixels) -> str:
        """Return the name of a difference: that of a known one that is the same but for
        a caret, else a new one.
        """
        was = box.part_of(recorded).copy()
        now = box.part_of(seen).copy()
        new = _Difference(box, seen.shape, was, now)
        for name, known in self._known.items():
            if self._is_same(known, new):
                return name
        digest = hashlib.sha256(f"{box!r} {seen.shape}".encode())
        digest.update(was.tobytes())
        digest.update(now.tobytes())
        name = digest.hexdigest()
        self._known[name] = new
        return name

    def _is_same(self, one: _Difference, other: _Difference) -> bool:
        if one.box != other.box or one.size != other.size:
            return False
        is_recorded = self._has_only_blinked(one.recorded, other.recorded)
        return is_recorded and self._has_only_blinked(one.seen, other.seen)

    def _has_only_blinked(self, one: Pixels, other: Pixels) -> bool:
        """Return whether two crops are equal, or one has a caret that the other lacks:
        a rectangle of one colour.
        """
        differs = one != other
        if not differs.any():
            return True
        box = box_of(differs)
        is_bar = bool(box.part_of(differs).all())
        if not is_bar or (box.width, box.height) not in self._carets:
            return False
        crops = (box.part_of(one), box.part_of(other))
        return any((crop == crop[0, 0]).all() for crop in crops)
