"""Recordings of tests that type a secret: its field is redacted in their images, and
gates compare all the rest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.images import Pixels, pixels_of
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


def test_field_is_redacted_in_stored_images_alone(tmp_path: Path) -> None:
    tills = recorded(tmp_path)
    redacted = [(screen == REDACTED_COLOUR)[INSIDE] for screen in screens(tills.runs)]
    assert redacted[-1].all()
    assert sum(field.all() for field in redacted) >= 2
    partly = [field for field in redacted if field.any() and not field.all()]
    assert partly == []
    crops = [
        pixels_of(file.read_bytes()) for file in tills.key.path.parent.rglob("*.webp")
    ]
    assert any((crop == REDACTED_COLOUR).any() for crop in crops)
    replay(tills, SECOND)
    with pytest.raises(RecordingDrifted, match="drift at the end"):
        replay(tills, FIRST, "--wrong")


def test_replay_compares_place_of_field_gone(tmp_path: Path) -> None:
    tills = recorded(tmp_path, "--leaves")
    replay(tills, SECOND, "--leaves")
    with pytest.raises(RecordingDrifted, match="drift at the end"):
        replay(tills, FIRST, "--leaves", "--wrong")


def test_mask_redacts_repeated_secret(tmp_path: Path) -> None:
    tills = recorded(tmp_path, "--repeats")
    assert not (screens(tills.runs)[-1] == REDACTED_COLOUR)[220:260].any()
    assert add_masks(tills.key.path, [Region(50, 210, 400, 270)])
    recorded(tmp_path, "--repeats")
    assert (screens(tills.runs)[-1] == REDACTED_COLOUR)[210:270, 50:400].all()
    replay(tills, SECOND, "--repeats")
