"""What a commit changes in recordings, as a reviewer reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pytest_vnc_use.types.frames import Region


@dataclass(frozen=True)
class ChangedRecording:
    """What differs in the recording of one test, beside its screens.

    `lines` begin with `+`, `-` or a space, as in a unified diff. `accepted` has a
    sentence for each change of the product that a reviewer accepted since then.
    """

    test: str
    lines: tuple[str, ...]
    accepted: tuple[str, ...]


@dataclass(frozen=True)
class ChangedScreens:
    """Screens that changed alike.

    `boxes` are around what differs; a screen that was added or removed has none.
    `images` are the files of one of them before and after, and of what differs.
    """

    boxes: tuple[Region, ...]
    images: tuple[Path, Path, Path]
    places: list[tuple[str, str]] = field(default_factory=list)
    """The test of each, and where in the test it stands."""
