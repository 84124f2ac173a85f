"""What stands in a recording's file, and what is said of a file that is none, or no longer."""

from __future__ import annotations

import getpass
import json
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings.format import Live, RecordedRun, Screen, screens
from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.record import Meter, saved_by
from pytest_vnc_use.recordings.store import Key, load, save
from pytest_vnc_use.types import ModelExchange, Usage
from support.images import drawn, recording_of
from support.tills import Tills


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of two steps."""
    path = tmp_path / "test_it.json"
    assert save(path, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    return path


def test_save_of_loaded_recording_writes_nothing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(locks))
    before = {path: path.stat().st_mtime_ns for path in file.parent.rglob("*.*")}
    found = load(file)
    assert found is not None
    assert not save(file, found)
    assert {path: path.stat().st_mtime_ns for path in file.parent.rglob("*.*")} == before
    assert not [*locks.iterdir()], "the lock is gone"
    shown = [screen.pixels() for screen in screens(found)]
    for pixels, text in zip(shown, ("start", "typed", "end"), strict=True):
        np.testing.assert_array_equal(pixels, drawn(text))
    np.testing.assert_array_equal(next(screens(found)).pixels(), drawn("start"))  # also out of order


def test_save_changes_own_lines_and_removes_stale_images(file: Path) -> None:
    before = file.read_text(encoding="utf-8").splitlines()
    assert save(file, recording_of(drawn("start"), drawn("typed"), drawn("another end")))
    after = file.read_text(encoding="utf-8").splitlines()
    assert len(after) == len(before)
    assert [line for line in after if line not in before] == [
        line for line in after if "-last-" in line or "-end-" in line
    ]
    named = {word.split('"')[0] for line in after for word in line.split(': "') if ".webp" in word}
    assert {image.name for image in file.with_suffix("").iterdir()} == named


def test_image_is_as_large_as_change(tmp_path: Path) -> None:
    path, now = tmp_path / "test_it.json", drawn("start").copy()
    now[50, 70] ^= 0xFFFFFF
    save(path, recording_of(drawn("start"), now, now))
    recording = load(path)
    assert recording
    _, screen, end = screens(recording)
    assert screen.at == (64, 48)
    assert pixels_of((path.with_suffix("") / screen.image).read_bytes()).shape == (8, 8)
    np.testing.assert_array_equal(screen.pixels(), now)
    assert end.image == ""


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    """The text of a recording after a change of what it says."""

    def edit(text: str) -> str:
        data = json.loads(text)
        change(data)
        return json.dumps(data)

    return edit


def first_step(data: dict[str, Any]) -> dict[str, Any]:
    step: dict[str, Any] = data["runs"][0]["steps"][0]
    return step


AREA = {"left": -10, "top": 0, "right": 20, "bottom": 30}
BAD = {
    "older": (edited(lambda data: data.update(version=4)), "older pytest-vnc-use: its version is 4, this one reads 5"),
    "newer": (edited(lambda data: data.update(version=99)), "newer pytest-vnc-use: its version is 99"),
    "no version": (edited(lambda data: data.pop("version")), '"version" must be a number, got None'),
    "cut off": (lambda text: text[: len(text) // 2], "is cut off"),
    "conflict": (
        lambda text: f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n",
        "conflict marks of a merge: take one",
    ),
    "off the screen": (edited(lambda data: first_step(data)["action"].update(x=5000)), "(5000, 20) is not on a screen"),
    "no images": (edited(lambda data: first_step(data)["screen"].update(image="none-0.webp")), "cannot be read"),
    "mask off the screen": (edited(lambda data: data.update(masks=[AREA])), "a region must be on the screen"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_file_is_refused_with_remedy(file: Path, name: str) -> None:
    edit, told = BAD[name]
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError) as raised:
        load(file)
    for text in (told, str(file), "--vnc-record=rewrite", "--vnc-record=manual"):
        assert text in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "content", "told"),
    [
        ("*-screen-*", b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS and no image yet"),
        ("*-near-*", b"RIFF", "its digest is not in its name"),
        ("*-end-*", None, "an image of .* cannot be read"),
    ],
)
def test_image_not_as_written_is_refused(file: Path, pattern: str, content: bytes | None, told: str) -> None:
    image = next(file.with_suffix("").glob(pattern))
    image.unlink()
    if content:
        image.write_bytes(content)
    with pytest.raises(RecordingError, match=told):
        load(file)


def test_recording_names_no_user_host_or_path(recorded: Tills) -> None:
    """No name of a user or a machine, no path, and no address of a desktop: it goes under version control."""
    files = [path for path in recorded.key.path.parent.rglob("*") if path.is_file()]
    assert len(files) > 3
    content = b"".join(path.name.encode() + path.read_bytes() for path in files)
    places = {getpass.getuser(), socket.gethostname(), str(Path.home()), str(Path.cwd()), tempfile.gettempdir()}
    told = [place for place in places if len(place) > 2 and place.encode() in content]
    assert told == []
    for clue in (b"127.0.0.1", b"localhost", b"::59", b"/runs/", b"EXIF", b"XMP "):
        assert clue not in content


def test_recording_names_planner_without_server() -> None:
    run = RecordedRun(task="Pay", planner="openai-compatible (qwen at [::1]:8080)", end=Screen())
    assert run.planner == "openai-compatible (qwen)"


def test_key_path_is_safe_and_distinct(tmp_path: Path) -> None:
    name = partial(Key, tmp_path / "test_shop.py")
    assert name("test_shop.py::test_it").path == tmp_path / "__vnc_recordings__" / "test_shop" / "test_it.json"
    assert name("test_shop.py::TestShop::test_it[a-1]").path.name == "TestShop.test_it[a-1].json"
    odd = [name(f"test_shop.py::test_it[{value}]").path.name for value in ("a/b", "a:b", "ä", "x" * 300)]
    assert len({*odd}) == 4
    assert all("/" not in each and ":" not in each and len(each) < 140 for each in odd)


def call(dollars: float | None, *, tokens: int = 9, uncounted: bool = False) -> ModelExchange:
    return ModelExchange("planner", 1, {}, {}, 1.0, usage=Usage(tokens), dollars=dollars, uncounted=uncounted)


def metered(*calls: ModelExchange) -> Meter:
    meter = Meter()
    for each in calls:
        meter.add(each)
    meter.seconds = 2.04
    return meter


def test_dollars_need_every_call_counted() -> None:
    assert metered(call(0.1), call(0.2)).live() == Live(seconds=2.0, dollars=0.3)
    assert metered(call(0.1), call(None, tokens=0)).live() == Live(seconds=2.0, dollars=0.1)
    for meter in metered(), metered(call(None), call(0.1)), metered(call(0.1), call(0.1, uncounted=True)):
        assert meter.live() == Live(seconds=2.0)


def test_savings_exclude_replay_and_need_all_figures() -> None:
    known = (Live(seconds=20, dollars=0.5), metered(call(0.1)))
    assert saved_by([known, (Live(seconds=10, dollars=1), metered())]) == (pytest.approx(25.92), pytest.approx(1.4))
    assert saved_by([known, (Live(seconds=2.04), metered())]) == (pytest.approx(17.96), None)
    assert saved_by([]) is saved_by([known, (None, metered())]) is None
