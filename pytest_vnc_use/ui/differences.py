"""The names of differences in a review: equal differences have the same, also where
only a caret has blinked, and so have transients with the same text.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.painting import shows_text_of
from pytest_vnc_use.types import Region


class _Difference(NamedTuple):
    """A box of a screen of this shape, and the pixels recorded and now in it."""

    box: Region
    shape: tuple[int, ...]
    recorded: Pixels
    seen: Pixels


class Differences:
    """The differences of one review, by their names."""

    def __init__(self) -> None:
        self._carets = set[tuple[int, int]]()
        """The widths and heights of the carets in the recordings."""
        self._named: dict[str, _Difference] = {}
        self._transients: dict[str, Pixels] = {}
        """The first frame that shows each transient, by its name."""

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
        """Return the name of a difference: that of an earlier one that is the same but
        for a caret, else a new one.
        """
        was = box.part_of(recorded).copy()
        now = box.part_of(seen).copy()
        new = _Difference(box, seen.shape, was, now)
        for name, earlier in self._named.items():
            if self._is_same(earlier, new):
                return name
        digest = hashlib.sha256(f"{box!r} {seen.shape}".encode())
        digest.update(was.tobytes())
        digest.update(now.tobytes())
        name = digest.hexdigest()
        self._named[name] = new
        return name

    def name_transient(self, box: Region, seen: Pixels) -> str:
        """Return the name of a transient in a box of a frame: that of an earlier one with
        the same text, else a new one.
        """
        for name, earlier in self._transients.items():
            if shows_text_of(earlier, box, seen):
                return name
        name = f"transient {len(self._transients) + 1}"
        self._transients[name] = seen
        return name

    def _is_same(self, one: _Difference, other: _Difference) -> bool:
        if one.box != other.box or one.shape != other.shape:
            return False
        if not self._has_only_blinked(one.recorded, other.recorded):
            return False
        return self._has_only_blinked(one.seen, other.seen)

    def _has_only_blinked(self, one: Pixels, other: Pixels) -> bool:
        """Return whether two crops are equal, or one has a caret that the other lacks:
        a rectangle of one colour.
        """
        differs = one != other
        if not differs.any():
            return True
        box = box_of(differs)
        if (box.width, box.height) not in self._carets:
            return False
        is_bar = box.part_of(differs).all()
        return bool(is_bar and (_is_plain(box, one) or _is_plain(box, other)))


def _is_plain(box: Region, pixels: Pixels) -> bool:
    """Return whether all pixels in a box have one colour."""
    crop = box.part_of(pixels)
    return bool((crop == crop[0, 0]).all())
