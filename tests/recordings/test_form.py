"""What stands in a recording's file, and what is said of a file that is none, or no longer."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vnc_use.backends.screen import Capture, PointerShape
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings.format import Evidence, RecordedRun, Screen, screens
from pytest_vnc_use.recordings.images import Chain, change, painted_over, pixels_in, pixels_of, png_of, webp_of
from pytest_vnc_use.recordings.store import Key, load, save
from pytest_vnc_use.types import Region
from support.drawings import drawn, recording_of
from support.tills import Tills


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of two steps."""
    path = tmp_path / "test_it.json"
    assert save(path, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    return path


def test_what_is_written_is_read_again_screen_by_screen(file: Path) -> None:
    found = load(file)
    assert found is not None
    shown = [screen.pixels() for screen in screens(found)]
    for pixels, text in zip(shown, ("start", "typed", "end"), strict=True):
        np.testing.assert_array_equal(pixels, drawn(text))
    np.testing.assert_array_equal(next(screens(found)).pixels(), drawn("start"))  # also out of order


def test_no_lock_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(locks))
    assert save(tmp_path / "test_it.json", recording_of(drawn("start"), drawn("typed"), drawn("end")))
    assert not [*locks.iterdir()]


def test_the_same_again_is_not_written(file: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in file.parent.rglob("*")}
    assert not save(file, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    assert {path: path.stat().st_mtime_ns for path in file.parent.rglob("*")} == before


def test_what_is_other_changes_its_own_lines_and_leaves_no_old_picture(file: Path) -> None:
    before = file.read_text(encoding="utf-8").splitlines()
    assert save(file, recording_of(drawn("start"), drawn("typed"), drawn("another end")))
    after = file.read_text(encoding="utf-8").splitlines()
    assert len(after) == len(before)
    assert [line for line in after if line not in before] == [
        line for line in after if "-last-" in line or "-end-" in line
    ]
    named = {word.split('"')[0] for line in after for word in line.split(': "') if ".webp" in word}
    assert {picture.name for picture in file.with_suffix("").iterdir()} == named


def test_of_two_screens_that_are_alike_there_is_one_picture(tmp_path: Path) -> None:
    save(tmp_path / "test_it.json", recording_of(drawn("start"), drawn("start"), drawn("start")))
    assert len([*(tmp_path / "test_it").glob("*-screen-*")]) == 1


# --- pictures --------------------------------------------------------------------------------------------------------


def test_pictures_lose_no_pixel() -> None:
    noise = np.random.default_rng(1).integers(0, 2**24, (61, 83), np.uint32)
    np.testing.assert_array_equal(pixels_of(webp_of(noise)), noise)
    np.testing.assert_array_equal(pixels_of(png_of(noise)), noise)


@pytest.mark.parametrize("pointer", [False, True])
def test_the_pixels_of_a_frame_are_those_of_its_png(pointer: bool) -> None:
    noise = np.random.default_rng(1).integers(0, 2**32, (61, 83), np.uint32)
    arrow = PointerShape(np.full((4, 4), 7, np.uint32), np.ones((4, 4), np.bool_), 0, 0), 30, 20
    tiles = np.zeros((2, 3), np.bool_)
    frame = Capture(noise, 0.0, tiles, tiles, arrow).frame(pointer=pointer)
    assert frame.pixels is not None
    np.testing.assert_array_equal(pixels_in(frame), pixels_of(frame.png))
    np.testing.assert_array_equal(pixels_in(replace(frame, pixels=None)), pixels_of(frame.png))
    assert (pixels_in(frame)[20, 30] == 7) == pointer


def test_a_change_is_as_large_as_what_is_other() -> None:
    before = np.zeros((200, 300), np.uint32)
    now = before.copy()
    now[50, 70] = 0xFFFFFF
    changed = change(before, now)
    assert changed is not None
    picture, at = changed
    assert (at, pixels_of(picture).shape) == ((64, 48), (8, 8))
    np.testing.assert_array_equal(painted_over(before, picture, at), now)
    assert change(now, now) is None


def test_only_one_screen_of_many_is_kept_in_memory() -> None:
    loaded: list[str] = []

    def load_picture(name: str) -> bytes:
        loaded.append(name)
        return webp_of(np.full((8, 8), int(name), np.uint32))

    chain = Chain((8, 8), load_picture, [(str(number), (0, 0)) for number in range(100)])
    assert [int(chain.pixels(number)[0, 0]) for number in range(100)] == [*range(100)]
    assert len(loaded) == 100


# --- files that cannot be used ---------------------------------------------------------------------------------------


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


BAD = {
    "older": (edited(lambda data: data.update(version=4)), "older pytest-vnc-use: its version is 4, this one reads 5"),
    "newer": (edited(lambda data: data.update(version=99)), "newer pytest-vnc-use: its version is 99"),
    "no version": (edited(lambda data: data.pop("version")), '"version" must be a number, got None'),
    "another thing": (lambda _: '{"name": "package"}', "is no recording"),
    "a list": (lambda _: "[]", "is no recording"),
    "cut off": (lambda text: text[: len(text) // 2], "is cut off"),
    "empty": (lambda _: "", "is cut off"),
    "conflict": (
        lambda text: f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n",
        "conflict marks of a merge: take one side",
    ),
    "off the screen": (edited(lambda data: first_step(data)["action"].update(x=5000)), "(5000, 20) is not on a screen"),
    "no such action": (
        edited(lambda data: first_step(data)["action"].update(kind="clack")),
        "runs 1, steps 1, action: ",
    ),
    "no such field": (edited(lambda data: first_step(data)["action"].update(cuont=2)), "click has no 'cuont'"),
    "no such part": (edited(lambda data: first_step(data).update(wait=2)), "runs 1, steps 1, wait: "),
    "a picture elsewhere": (
        edited(lambda data: first_step(data)["screen"].update(image="../../secret.webp")),
        "runs 1, steps 1, screen, image: ",
    ),
    "code for pixels": (edited(lambda data: first_step(data)["screen"].update(pixels="x")), "screen, pixels: "),
    "no pictures": (edited(lambda data: first_step(data)["screen"].update(image="none-0.webp")), "cannot be read"),
    "nested too deeply": (
        lambda text: text.replace('"run', f'"x": {"[" * 100_000}{"]" * 100_000}, "run', 1),
        "no JSON",
    ),
    "nested deeply": (
        lambda text: text.replace('"version": 5', f'"version": 5, "x": {"[" * 500}{"]" * 500}', 1),
        "levels of JSON deep",
    ),
    "long nonsense": (
        edited(lambda data: data.update(parameters="x" * 10**6)),
        "(the first 300 of 1000002 characters)",
    ),
    "no screen": (edited(lambda data: data.update(screen_size=[0, 0])), "screen_size 1: "),
    "a mask of nothing": (
        edited(lambda data: data.update(masks=[{"left": -10, "top": 0, "right": 20, "bottom": 30}])),
        "a region must be on the screen",
    ),
    "a mask of all": (
        edited(lambda data: data.update(masks=[{"left": 0, "top": 0, "right": 9000, "bottom": 9000}])),
        "covers the whole screen",
    ),
    "dynamic off the screen": (
        edited(
            lambda data: first_step(data)["screen"].update(
                dynamic=[{"left": 190, "top": 0, "right": 9000, "bottom": 30}]
            )
        ),
        "a region must be on the screen",
    ),
    "a picture off the screen": (
        edited(lambda data: first_step(data)["screen"].update(at=[199, 99])),
        "are not on the screen",
    ),
    "a corner off the screen": (edited(lambda data: first_step(data)["screen"].update(at=[-1, 0])), "corner"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_used_is_refused_with_what_would_help(file: Path, name: str) -> None:
    edit, told = BAD[name]
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError) as raised:
        load(file)
    assert told in str(raised.value)
    assert str(file) in str(raised.value)
    assert "--vnc-record=rewrite" in str(raised.value)
    assert "--vnc-record=manual" in str(raised.value), "who recorded by hand has no planner"


def test_a_pointer_of_git_lfs_is_told_as_such(file: Path) -> None:
    picture = next(file.with_suffix("").glob("*-screen-*"))
    picture.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")
    with pytest.raises(RecordingError, match="is a pointer of Git LFS and no picture yet: run git lfs pull"):
        load(file)


def test_a_damaged_picture_is_refused(file: Path) -> None:
    picture = next(file.with_suffix("").glob("*-screen-*"))
    picture.write_bytes(picture.read_bytes()[:-10])
    with pytest.raises(RecordingError, match="its digest is not in its name"):
        load(file)


@pytest.mark.parametrize("kind", ["near", "end"])
def test_so_is_a_picture_that_only_people_look_at(recorded: Tills, kind: str) -> None:
    file = recorded.key.path
    picture = next(file.with_suffix("").glob(f"*-{kind}-*"))
    content = picture.read_bytes()
    picture.write_bytes(b"junk")
    with pytest.raises(RecordingError, match="its digest is not in its name"):
        load(file)
    picture.unlink()
    with pytest.raises(RecordingError, match=r"a picture of .* cannot be read"):
        load(file)
    small = webp_of(np.zeros((5, 5), np.uint32)) if kind == "end" else b"junk"
    named = picture.with_name(f"1-{hashlib.sha256(small).hexdigest()[:12]}.webp")
    named.write_bytes(small)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(picture.name, named.name), encoding="utf-8")
    with pytest.raises(RecordingError, match="must have 800 x 400 pixels" if kind == "end" else "is no picture"):
        load(file)
    picture.write_bytes(content)
    file.write_text(text, encoding="utf-8")
    assert load(file)


def test_a_picture_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test_it.json"
    save(path, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    path.write_text(edited(lambda data: data.update(screen_size=[100, 50]))(path.read_text()), encoding="utf-8")
    with pytest.raises(RecordingError, match="does not fit"):
        load(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"no picture", "is no picture"), (webp_of(np.zeros((5, 5), np.uint32)), "must have 4 x 4")],
)
def test_a_look_that_does_not_fit_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "test_it.json"
    save(path, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    name = f"1-{hashlib.sha256(content).hexdigest()[:12]}.webp"
    (path.with_suffix("") / name).write_bytes(content)
    part = {"left": 1, "top": 1, "right": 5, "bottom": 5, "kind": "blinks", "variants": [{"image": name}]}
    path.write_text(edited(lambda data: first_step(data)["screen"].update(dynamic=[part]))(path.read_text()))
    with pytest.raises(RecordingError, match=told):
        load(path)


@pytest.mark.parametrize("box", [(60, 120, 40, 20), (5, 5, 5, 9), (-20, -20, -5, -5)])
def test_a_region_without_a_pixel_is_none(box: tuple[int, int, int, int]) -> None:
    evidence = Evidence(claim="it is red", verdict="holds", region=Region(*box), screen=Screen())
    assert evidence.region is None  # so nothing that is hidden lies beside it
    assert Evidence(claim="it is red", verdict="holds", region=Region(1, 1, 2, 2), screen=Screen()).region


def test_a_recording_does_not_tell_where_it_was_made(recorded: Tills) -> None:
    """No name of a user or a machine, no path, and no address of a desktop: it goes under version control."""
    files = [path for path in recorded.key.path.parent.rglob("*") if path.is_file()]
    assert len(files) > 3
    content = b"".join(path.name.encode() + path.read_bytes() for path in files)
    places = {getpass.getuser(), socket.gethostname(), str(Path.home()), str(Path.cwd()), tempfile.gettempdir()}
    told = [place for place in places if len(place) > 2 and place.encode() in content]
    assert told == []
    for clue in (b"127.0.0.1", b"localhost", b"::59", b"/runs/", b"EXIF", b"XMP "):
        assert clue not in content


@pytest.mark.parametrize("server", ["localhost:1234", "build-7.corp", "[::1]:8080"])
def test_a_recording_does_not_tell_where_its_planner_was(server: str) -> None:
    run = RecordedRun(task="Pay", planner=f"openai-compatible (qwen at {server})", end=Screen())
    assert run.planner == "openai-compatible (qwen)"
    assert (
        RecordedRun(task="Pay", planner="gemini (gemini-3.8-flash)", end=Screen()).planner
        == "gemini (gemini-3.8-flash)"
    )


def test_there_is_none(tmp_path: Path) -> None:
    assert load(tmp_path / "test_it.json") is None


# --- where it is -----------------------------------------------------------------------------------------------------


def test_names_of_tests_become_names_of_files(tmp_path: Path) -> None:
    name = partial(Key, tmp_path / "test_shop.py")
    assert name("test_shop.py::test_it").path == tmp_path / "__vnc_recordings__" / "test_shop" / "test_it.json"
    assert name("test_shop.py::TestShop::test_it[a-1]").path.name == "TestShop.test_it[a-1].json"
    odd = [name(f"test_shop.py::test_it[{value}]").path.name for value in ("a/b", "a:b", "ä", "x" * 300)]
    assert len({*odd}) == 4
    assert all("/" not in each and ":" not in each and len(each) < 140 for each in odd)


@pytest.mark.skipif(os.name != "posix" or sys.platform == "darwin", reason="its names of files are all UTF-8")
def test_a_folder_whose_name_is_no_text_gets_its_recording(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"nu\xff\xfe")
    assert save(folder / "test_it.json", recording_of(drawn("start"), drawn("typed"), drawn("end")))
    assert load(folder / "test_it.json")
