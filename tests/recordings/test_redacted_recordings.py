"""Recordings of tests that type a secret: its field is redacted in their images, and
gates compare all the rest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.images import Mask, Pixels, pixels_of
from pytest_vnc_use.recordings.store import add_masks
from pytest_vnc_use.types import REDACTED_COLOUR, Region, TypeText
from support.paths import PROGRAMS
from support.tills import Steps, Tills

TASK = "Sign in with <secret:CODE>"
FIRST = "8264017359"
SECOND = "a longer code"
STEPS = (TypeText("<secret:CODE>", 200, 68), TypeText("", press_enter=True))
INSIDE = np.s_[54:82, 64:356]
"""What is inside the field's frame."""

pytestmark = [pytest.mark.desktop, pytest.mark.slow]


def recorded(directory: Path, *options: str) -> Tills:
    tills = Tills(directory, (PROGRAMS / "sign_in.py",))
    with tills.agent(
        "rewrite", Steps(*STEPS), *options, secrets={"CODE": FIRST}, redacts=True
    ) as played:
        played.run(TASK)
        assert played.recorded.write()
    return tills


def replay(tills: Tills, code: str, *options: str) -> None:
    with tills.agent(
        "replay", None, *options, secrets={"CODE": code}, redacts=True, gate_s=1.0
    ) as played:
        played.run(TASK)


def screens(directory: Path) -> list[Pixels]:
    """Return the screenshots of the runs there, in their order."""
    files = sorted(directory.rglob("*.png"), key=lambda file: file.stat().st_mtime_ns)
    return [pixels_of(file.read_bytes()) for file in files]


def redacted_in(pixels: Pixels) -> Mask:
    mask: Mask = pixels == REDACTED_COLOUR
    return mask


def test_field_is_redacted_in_stored_images_alone(tmp_path: Path) -> None:
    tills = recorded(tmp_path)

    fields = [redacted_in(screen)[INSIDE] for screen in screens(tills.runs)]
    redacted = [field for field in fields if field.all()]
    untouched = [field for field in fields if not field.any()]
    assert fields[-1].all()
    assert len(redacted) >= 2
    assert len(redacted) + len(untouched) == len(fields), "one is redacted in part"

    crops = tills.key.path.parent.rglob("*.webp")
    assert any(redacted_in(pixels_of(file.read_bytes())).any() for file in crops)


def test_replay_compares_all_but_field(tmp_path: Path) -> None:
    tills = recorded(tmp_path)
    replay(tills, SECOND)
    with pytest.raises(RecordingDrifted, match="drift at the end"):
        replay(tills, FIRST, "--wrong")


def test_replay_compares_place_of_field_gone(tmp_path: Path) -> None:
    tills = recorded(tmp_path, "--leaves")
    replay(tills, SECOND, "--leaves")
    with pytest.raises(RecordingDrifted, match="drift at the end"):
        replay(tills, FIRST, "--leaves", "--wrong")


def test_mask_redacts_repeated_secret(tmp_path: Path) -> None:
    repeated = Region(50, 210, 400, 270)
    tills = recorded(tmp_path, "--repeats")
    before = redacted_in(screens(tills.runs)[-1])
    assert not before[220:260].any()

    assert add_masks(tills.key.path, [repeated])
    recorded(tmp_path, "--repeats")
    after = redacted_in(screens(tills.runs)[-1])
    assert repeated.part_of(after).all()
    replay(tills, SECOND, "--repeats")
