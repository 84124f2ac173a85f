"""`cua-vnc mask`: masks in the recordings of a test, of all its parameters, or of a
file.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.interactive import user_name
from pytest_vnc_use.recordings.store import FILE, add_masks, load
from pytest_vnc_use.types import Region
from support.paths import EXAMPLES

NAME = "test_sign_in_with_wrong_credentials_fails"


NAMES = ["test_basket", "test_sign_in", f"{NAME}[wrong]", f"{NAME}[capitals]"]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some recordings of the examples, without their test file."""
    directory = tmp_path / "__vnc_recordings__" / "test_shop"
    directory.mkdir(parents=True)
    for name in NAMES:
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


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("test_shop.py::test_basket", {"test_basket"}),
        (f"test_shop.py::{NAME}[wrong]", {f"{NAME}[wrong]"}),
        (f"test_shop.py::{NAME}", {f"{NAME}[wrong]", f"{NAME}[capitals]"}),
        ("__vnc_recordings__/test_shop/test_sign_in", {"test_sign_in"}),
        ("test_shop.py", {*NAMES}),
    ],
)
def test_mask_test_name_selects_recordings(
    directory: Path, test: str, names: set[str]
) -> None:
    images = {path: path.read_bytes() for path in directory.rglob("*.webp")}
    assert main(["mask", test, "5,20,110,40"]) == 0
    assert masked(directory, Region(5, 20, 110, 40)) == names
    unchanged = {path: path.read_bytes() for path in directory.rglob("*.webp")}
    assert unchanged == images


def test_mask_at_gate_names_gate_and_claims(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = "test_shop.py::test_basket"
    file = directory / "test_basket" / FILE
    assert main(["mask", test, "1,2,30,40", "--at", "s2"]) == 0
    assert main(["mask", test, "1,2,1430,400", "--at", "end1"]) == 0
    assert main(["mask", test, "5,6,70,80"]) == 0
    assert main(["mask", test, "5,6,70,80"]) == 0
    assert main(["mask", test]) == 0

    claim = "; the claim 'the basket shows 2 apples and a total of 3.00' is unsure"
    *changes, path, whole, at_step, at_end, at_claim = (
        capsys.readouterr().out.splitlines()
    )
    assert [line.partition(": ")[2] for line in changes] == [
        "masked at s2",
        f"masked at end1{claim} where it differs",
        f"masked at all 9 gates{claim} where it differs",
        f"was masked already at all 9 gates{claim} where it differs",
    ]
    assert path.endswith(str(file))
    assert whole == f"  5,6,70,80  all 9 gates{claim} where it differs"
    assert at_step == "  1,2,30,40 --at s2"
    assert at_end == "  1,2,1430,400 --at end1"
    assert at_claim == "  1,2,1430,400 --at t1-claim1"


def test_mask_is_kept_at_its_gate(directory: Path) -> None:
    file = directory / "test_basket" / FILE
    images = {path: path.read_bytes() for path in file.parent.glob("*.webp")}
    assert main(["mask", "test_shop.py::test_basket", "1,2,30,40", "--at", "s2"]) == 0
    assert main(["mask", "test_shop.py::test_basket", "5,6,70,80"]) == 0
    recording = load(file)
    assert recording
    assert recording.masks == (Region(5, 6, 70, 80),)
    step = recording.segments[0].steps[1]
    assert (step.id, step.screen.masks) == ("s2", (Region(1, 2, 30, 40),))
    unchanged = {path: path.read_bytes() for path in file.parent.glob("*.webp")}
    assert unchanged == images


def test_mask_unknown_gate_is_rejected(directory: Path) -> None:
    file = directory / "test_basket" / FILE
    with pytest.raises(RecordingError, match="no gate 's99': it has s1, s2, s3, "):
        add_masks(file, [Region(1, 2, 30, 40)], "s99")


@pytest.mark.parametrize(
    ("test", "region", "problem"),
    [
        (
            "test_shop.py::test_nothing",
            "1,1,2,2",
            "there is no recording of 'test_shop.py::test_nothing'",
        ),
        (
            "test_shop.py::test_basket",
            "0,0,1440,451",
            "would hide 50% of the screen s1, the maximum is 50%",
        ),
        (
            "no/recording.json",
            "1,1,2,2",
            "there is no recording at 'no/recording.json'",
        ),
    ],
)
def test_mask_invalid_prints_problem_and_writes_nothing(
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    test: str,
    region: str,
    problem: str,
) -> None:
    assert main(["mask", test, region]) == 2
    assert problem in capsys.readouterr().err
    recordings = [load(path) for path in directory.glob(f"*/{FILE}")]
    assert len(recordings) == len(NAMES)
    assert [recording.masks for recording in recordings if recording] == [()] * 4


PLACE = ["mask", "test_shop.py::test_basket", "5,20,110,40", "--at", "s2"]


@pytest.fixture
def values(directory: Path) -> Path:
    """The recording of a test whose task has two values."""
    file = directory / "test_basket" / FILE
    content = json.loads(file.read_text("utf-8"))
    content["segments"][0]["values"] = {"title": "Train", "amount": "12.25"}
    file.write_text(json.dumps(content), "utf-8")
    return file


def places_in(file: Path) -> list[tuple[str, Region]]:
    recording = load(file)
    assert recording
    values = recording.segments[0].steps[1].screen.values
    return [(shown.name, shown.region) for shown in values]


def test_log_has_places_of_values(
    values: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PLACE, "--value", "title"]) == 0
    capsys.readouterr()
    assert main(["recordings", "log", str(values.parent)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert re.search(rf"^\d{{4}}-.* {user_name()} accepted .*test_basket ", line)
    place = "before step 2 5,20,110,40 as a place of the value 'title'"
    assert line.endswith(place)


@pytest.mark.parametrize("region", ["5,20,110,40", "0,20,120,40", "5,20,50,40"])
def test_place_of_value_replaces_other(values: Path, region: str) -> None:
    assert main([*PLACE, "--value", "title"]) == 0
    assert main([*PLACE[:2], region, *PLACE[3:], "--value", "amount"]) == 0
    assert places_in(values) == [("amount", Region(*map(int, region.split(","))))]


def test_removed_place_of_value_is_gone(
    values: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PLACE, "--value", "title"]) == 0
    assert main([*PLACE, "--value", "amount", "--remove"]) == 2
    assert main([*PLACE, "--value", "title", "--remove"]) == 0
    printed = capsys.readouterr()
    assert [line.partition(": ")[2] for line in printed.out.splitlines()] == [
        "shows the value 'title' at s2",
        "no longer shows the value 'title' at s2",
    ]
    other = "did not show the value 'amount' in these regions at s2\n"
    assert printed.err.endswith(other)
    assert places_in(values) == []


@pytest.mark.parametrize("at", [[], ["--at", "s2"]])
def test_removed_mask_is_gone(directory: Path, at: list[str]) -> None:
    file = directory / "test_basket" / FILE
    before = file.read_bytes()
    mask = ["mask", "test_shop.py::test_basket", "5,20,110,40", *at]
    assert main(mask) == 0
    assert file.read_bytes() != before
    assert main([*mask, "--remove"]) == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("masked_at", "removed_at", "problem"),
    [
        (["--at=end1"], [], "at all gates; they are at end1: --at end1"),
        (["--at=end1"], ["--at=s2"], "at s2; they are at end1: --at end1"),
        ([], ["--at=s2"], "at s2; they are at all gates: leave out --at"),
        (["--at=s2"], ["--at=s2"], ""),
    ],
)
@pytest.mark.usefixtures("directory")
def test_remove_of_mask_elsewhere_names_gate(
    capsys: pytest.CaptureFixture[str],
    masked_at: list[str],
    removed_at: list[str],
    problem: str,
) -> None:
    mask = ["mask", "test_shop.py::test_basket", "5,20,110,40"]
    assert main([*mask, *masked_at]) == 0
    expected = f"was not masked with these regions {problem}\n" if problem else ""
    code = main([*mask, *removed_at, "--remove"])
    assert code == (2 if problem else 0)
    assert capsys.readouterr().err.endswith(expected)


def test_remove_in_file_needs_one_masked_test(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mask", "test_shop.py::test_basket", "5,20,110,40"]) == 0
    remove = ["mask", "test_shop.py", "5,20,110,40", "--remove"]
    assert main(remove) == 0
    assert masked(directory, Region(5, 20, 110, 40)) == set()
    assert capsys.readouterr().out.count("was not masked") == len(NAMES) - 1
    assert main(remove) == 2
    assert capsys.readouterr().err.count("was not masked") == len(NAMES)


@pytest.mark.usefixtures("directory")
def test_remove_without_region_is_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLACE[:2], "--remove"]) == 2
    remedy = "List them with cua-vnc mask test_shop.py::test_basket\n"
    assert remedy in capsys.readouterr().err


@pytest.mark.parametrize("path", [".", "__vnc_recordings__/test_shop/test_basket"])
@pytest.mark.usefixtures("directory")
def test_log_without_mask_is_empty(
    capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert main(["mask", "test_shop.py::test_basket", "0,0,1440,451"]) == 2
    assert main(["recordings", "log", path]) == 0
    assert capsys.readouterr().out == "nothing was accepted\n"


@pytest.mark.parametrize("region", ["1,2,3", "5,5,5,9"])
@pytest.mark.usefixtures("directory")
def test_mask_malformed_region_is_named(
    capsys: pytest.CaptureFixture[str], region: str
) -> None:
    with pytest.raises(SystemExit):
        main(["mask", "test_shop.py", "--", region])
    assert region in capsys.readouterr().err
