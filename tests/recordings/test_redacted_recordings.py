"""Recordings of tests that type a secret: its field is redacted in their images, and gates compare all the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.images import Pixels, pixels_of
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.types import REDACTED_COLOUR, TypeText
from support.paths import PROGRAMS
from support.tills import Steps, Tills

TASK = "Sign in with <secret:CODE>"
FIRST, SECOND = "8264017359", "a longer code"
STEPS = (TypeText("<secret:CODE>", 200, 68), TypeText("", press_enter=True))
INSIDE = np.s_[54:82, 64:356]
"""What is inside the field's frame."""

pytestmark = [pytest.mark.desktop, pytest.mark.slow]


def record(tills: Tills, code: str, *options: str, redacts: bool = True) -> Tills:
    with tills.agent("rewrite", Steps(*STEPS), *options, secrets={"CODE": code}, redacts=redacts) as played:
        played.run(TASK)
        assert played.recorded.keep()
    return tills


def recorded(directory: Path, code: str, *options: str, redacts: bool = True) -> Tills:
    directory.mkdir()
    return record(Tills(directory, (PROGRAMS / "sign_in.py",)), code, *options, redacts=redacts)


def replay(tills: Tills, code: str, *options: str) -> None:
    with tills.agent("replay", None, *options, secrets={"CODE": code}, redacts=True, gate_s=1.0) as played:
        played.run(TASK)


def screens(directory: Path) -> list[Pixels]:
    """Return the screenshots of the runs there, in their order."""
    files = sorted(directory.rglob("*.png"), key=lambda file: file.stat().st_mtime_ns)
    return [pixels_of(file.read_bytes()) for file in files]


@pytest.fixture(scope="module")
def signs_in(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return recorded(tmp_path_factory.mktemp("codes") / "stays", FIRST)


@pytest.fixture(scope="module")
def leaves(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return recorded(tmp_path_factory.mktemp("codes") / "leaves", FIRST, "--leaves")


def test_field_is_redacted_in_stored_images(signs_in: Tills) -> None:
    tills = signs_in
    redacted = [(screen == REDACTED_COLOUR)[INSIDE] for screen in screens(tills.runs)]
    assert redacted[-1].all()
    assert sum(each.all() for each in redacted) >= 2
    assert not any(each.any() and not each.all() for each in redacted)
    crops = [pixels_of(file.read_bytes()) for file in tills.key.path.parent.rglob("*.webp")]
    assert any((crop == REDACTED_COLOUR).any() for crop in crops)


def test_replay_leaves_out_field_and_compares_beside_it(signs_in: Tills) -> None:
    replay(signs_in, SECOND)
    with pytest.raises(RecordingDrifted, match="drift at the end"):
        replay(signs_in, FIRST, "--wrong")


def test_replay_compares_place_of_field_gone(leaves: Tills) -> None:
    replay(leaves, SECOND, "--leaves")
    with pytest.raises(RecordingDrifted, match="drift at the end"):
        replay(leaves, FIRST, "--leaves", "--wrong")


def test_mask_redacts_repeated_secret(tmp_path: Path) -> None:
    tills = recorded(tmp_path / "repeats", FIRST, "--repeats")
    assert not (screens(tills.runs)[-1] == REDACTED_COLOUR)[220:260].any()
    recording = json.loads(tills.key.path.read_text())
    mask = {"left": 50, "top": 210, "right": 400, "bottom": 270}
    tills.key.path.write_text(json.dumps({**recording, "masks": [mask]}))
    record(tills, FIRST, "--repeats")
    assert (screens(tills.runs)[-1] == REDACTED_COLOUR)[210:270, 50:400].all()
    replay(tills, SECOND, "--repeats")


def test_replay_redacts_if_its_recording_does(signs_in: Tills, tmp_path: Path) -> None:
    older = recorded(tmp_path / "older", FIRST, redacts=False)
    assert not any((screen == REDACTED_COLOUR).any() for screen in screens(older.runs))
    for tills, redacts in ((signs_in, True), (older, False)):
        assert ('"redacts": true' in tills.key.path.read_text()) == redacts
        assert ('"redacted": [' in tills.key.path.read_text()) == redacts
        for wanted in (True, False):
            assert RecordedTest(replace(tills.key, secrets=("CODE",)), "replay", redacts=wanted).redacts == redacts
