"""`cua-vnc mask`: masks in the recordings of a test, of all its parameters, or of a
file.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.recordings.store import FILE, load
from pytest_vnc_use.types import Region
from support.paths import EXAMPLES

NAME = "test_sign_in_with_wrong_credentials_fails"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some recordings of the examples, without their test file."""
    directory = tmp_path / "__vnc_recordings__" / "test_shop"
    directory.mkdir(parents=True)
    for name in ("test_basket", "test_sign_in", f"{NAME}[wrong]", f"{NAME}[capitals]"):
        recording = EXAMPLES / "__vnc_recordings__" / "test_shop" / name
        shutil.copytree(recording, directory / name)
    monkeypatch.chdir(tmp_path)
    return directory


def masked(directory: Path, mask: Region) -> set[str]:
    found = {path.parent.name: load(path) for path in directory.glob(f"*/{FILE}")}
    return {
        name
        for name, recording in found.items()
        if recording and mask in recording.masks
    }


def test_mask_test_name_selects_recordings(directory: Path) -> None:
    others = {path: path.read_bytes() for path in directory.rglob("*.webp")}
    for number, (test, names) in enumerate(
        (
            ("test_shop.py::test_basket", {"test_basket"}),
            (f"test_shop.py::{NAME}[wrong]", {f"{NAME}[wrong]"}),
            (f"test_shop.py::{NAME}", {f"{NAME}[wrong]", f"{NAME}[capitals]"}),
            ("__vnc_recordings__/test_shop/test_sign_in", {"test_sign_in"}),
            ("test_shop.py", {path.name for path in directory.iterdir()}),
        )
    ):
        assert main(["mask", test, f"{number},20,110,40"]) == 0
        assert masked(directory, Region(number, 20, 110, 40)) == names, test
    assert {path: path.read_bytes() for path in directory.rglob("*.webp")} == others, (
        "no image is touched"
    )


def test_mask_invalid_prints_problem_and_writes_nothing(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for test, region, problem in (
        (
            "test_shop.py::test_nothing",
            "1,1,2,2",
            "there is no recording of 'test_shop.py::test_nothing'",
        ),
        (
            "test_shop.py::test_basket",
            "0,0,1440,451",
            "would hide 50% of the screen, the maximum is 50%",
        ),
        (
            "no/recording.json",
            "1,1,2,2",
            "there is no recording at 'no/recording.json'",
        ),
    ):
        assert main(["mask", test, region]) == 2
        assert problem in capsys.readouterr().err
    for place in (".", "__vnc_recordings__/test_shop/test_basket"):
        assert main(["recordings", "log", place]) == 0
        assert capsys.readouterr().out == "nothing was accepted\n"
    assert not any(
        recording.masks
        for recording in map(load, directory.glob(f"*/{FILE}"))
        if recording
    )
    for region in ("1,2,3", "5,5,5,9"):
        with pytest.raises(SystemExit):
            main(["mask", "test_shop.py", "--", region])
        assert region in capsys.readouterr().err
