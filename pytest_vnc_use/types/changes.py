"""The changes of recordings in a commit, as a reviewer reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pytest_vnc_use.types.frames import Region


@dataclass(frozen=True)
class ChangedRecording:
    """The differences in the recording of one test, except for its screens.

    `lines` begin with `+`, `-` or a space, as in a unified diff. `accepted` has a
    sentence for each change of the product that a reviewer accepted since then.
    """

    test: str
    lines: tuple[str, ...]
    accepted: tuple[str, ...]


@dataclass(frozen=True)
class ChangedScreens:
    """Screens that changed alike.

    `boxes` surround the differences; there are none for a stable screen that was added
    or removed. `images` are three files: one of the screens before, the same one after,
    and their difference.
    """

    boxes: tuple[Region, ...]
    images: tuple[Path, Path, Path]
    places: list[tuple[str, str]] = field(default_factory=list)
    """For each of the screens its test, and its place in the test."""
