"""Recordings of tests that type a secret where it can be read: the pictures have covers, and gates compare beneath."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.gates import BENEATH_A_COVER, NEWLY_COVERED, gate
from pytest_vnc_use.recordings.images import Pixels, pixels_of
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.same_screen import within_caret
from pytest_vnc_use.types import COVER_COLOURS, TypeText
from support.paths import PROGRAMS
from support.tills import Steps, Tills

TASK = "Sign in with <secret:CODE>"
FIRST, SECOND = "8264017359", "1937205846"
"""Digits are equally wide, so both values have covers of the same size."""
STEPS = (TypeText("<secret:CODE>", 200, 68), TypeText("", press_enter=True))

pytestmark = [pytest.mark.desktop, pytest.mark.slow]


def recorded(folder: Path, code: str, *options: str, covers: bool = True) -> Tills:
    folder.mkdir()
    tills = Tills(folder, PROGRAMS / "sign_in.py")
    with tills.agent("auto", Steps(*STEPS), *options, secrets={"CODE": code}, covers=covers) as played:
        played.run(TASK)
        assert played.recorded.keep()
    return tills


def pictures(folder: Path) -> list[Pixels]:
    """All pictures in a folder, with one colour for all covers."""
    files = sorted(each for each in folder.rglob("*") if each.suffix in (".png", ".webp"))
    # by their order of making: the names of a run folder's pictures are digests
    files.sort(key=lambda each: each.stat().st_mtime_ns if each.suffix == ".png" else 0)
    return [np.where(np.isin(shown, COVER_COLOURS), 0, shown) for shown in (pixels_of(f.read_bytes()) for f in files)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Tills]:
    folder = tmp_path_factory.mktemp("codes")
    return {code: recorded(folder / code, code) for code in (FIRST, SECOND)}


@pytest.mark.slow
def test_pictures_of_two_secrets_differ_in_nothing_but_covers(both: Mapping[str, Tills]) -> None:
    ones, others = (pictures(tills.folder) for tills in both.values())
    assert len(ones) == len(others) > 6
    assert all(within_caret(one != other) for one, other in zip(ones, others, strict=True))
    assert sum((shown == 0).any() for shown in ones) >= 4


def test_a_replay_compares_what_is_beneath(both: Mapping[str, Tills]) -> None:
    with both[FIRST].agent("replay", secrets={"CODE": FIRST}, covers=True) as played:
        played.run(TASK)


@pytest.mark.parametrize(("code", "options"), [(FIRST, ("--wrong",)), (SECOND, ())], ids=["wrong", "rotated"])
def test_another_value_beneath_closes_the_gate(both: Mapping[str, Tills], code: str, options: tuple[str, ...]) -> None:
    agent = both[FIRST].agent("replay", None, *options, secrets={"CODE": code}, covers=True, gate_s=1.0)
    with agent as played, pytest.raises(RecordingDrifted) as raised:
        played.run(TASK)
    told = str(raised.value)
    assert BENEATH_A_COVER in told
    assert "--vnc-record=rewrite" in told


@pytest.mark.slow
def test_a_replay_has_covers_where_its_recording_has(both: Mapping[str, Tills], tmp_path: Path) -> None:
    """So an older recording goes on as it did, and the file says which it is."""
    older = recorded(tmp_path / "older", FIRST, covers=False)
    for tills, covers in ((both[FIRST], True), (older, False)):
        assert ('"covered": true' in tills.key.path.read_text()) == covers
        for wanted in (True, False):
            assert RecordedTest(replace(tills.key, secrets=("CODE",)), "replay", covers=wanted).covers == covers


@pytest.mark.slow
def test_dots_are_not_covered(tmp_path: Path) -> None:
    tills = recorded(tmp_path / "hidden", FIRST, "--hidden")
    shown = [pixels_of(each.read_bytes()) for each in tills.folder.rglob("*.png")]
    assert len(shown) > 2
    assert not any(np.isin(each, COVER_COLOURS).any() for each in shown)


def test_a_gate_tells_covers_from_other_changes() -> None:
    light, dark = COVER_COLOURS
    covered = np.full((40, 60), 0xFFFFFF, np.uint32)
    covered[10:20, 10:50] = light
    other, plain = covered.copy(), covered.copy()
    other[12, 12:20] = dark
    plain[12, 12:20] = 0x123456
    problems = [found.problem for each in (other, plain) if (found := gate(covered, ()).mismatch(each))]
    assert [BENEATH_A_COVER in each for each in problems] == [True, False]
    older = gate(plain, ()).mismatch(covered)
    assert older
    assert NEWLY_COVERED in older.problem
