"""What stands in a recording's file, what is said of a file that is none, or no longer, or of another machine."""

from __future__ import annotations

import getpass
import re
import socket
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings.drift import difference, machine_of
from pytest_vnc_use.recordings.format import Live, RecordedRun, Screen, screens
from pytest_vnc_use.recordings.record import Meter, saved_by
from pytest_vnc_use.recordings.store import Key, load, save
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import ModelExchange, Usage
from support.images import drawn, recording_of
from support.tills import Tills
from support.vnc_servers import require


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of two steps."""
    path = tmp_path / "test_it.json"
    assert save(path, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    return path


def test_save_of_loaded_recording_writes_nothing(file: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in file.parent.rglob("*.*")}
    found = load(file)
    assert found is not None
    assert not save(file, found)
    assert {path: path.stat().st_mtime_ns for path in file.parent.rglob("*.*")} == before
    for screen, text in zip(screens(found), ("start", "typed", "end"), strict=True):
        np.testing.assert_array_equal(screen.pixels(), drawn(text))


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


BAD = {
    "older": (
        partial(re.sub, '"version": 5', '"version": 4'),
        "older pytest-vnc-use: its version is 4, this one reads 5",
    ),
    "newer": (partial(re.sub, '"version": 5', '"version": 99'), "newer pytest-vnc-use: its version is 99"),
    "cut off": (lambda text: text[: len(text) // 2], "is truncated"),
    "off the screen": (partial(re.sub, '"x": 10', '"x": 5000'), "(5000, 20) is not on a screen"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_file_is_refused_with_remedy(file: Path, name: str) -> None:
    edit, message = BAD[name]
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError) as raised:
        load(file)
    for text in (message, str(file), "--vnc-record=rewrite", "--vnc-record=manual"):
        assert text in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "content", "message"),
    [
        ("*-screen-*", b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS, not an image"),
        ("*-target-*", b"RIFF", "its digest is not in its name"),
        ("*-end-*", None, "an image of .* cannot be read"),
    ],
)
def test_image_not_as_written_is_refused(file: Path, pattern: str, content: bytes | None, message: str) -> None:
    image = next(file.with_suffix("").glob(pattern))
    image.unlink()
    if content:
        image.write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        load(file)


def test_recording_names_no_user_host_or_path(recorded: Tills) -> None:
    files = [path for path in recorded.key.path.parent.rglob("*") if path.is_file()]
    assert len(files) > 3
    content = b"".join(path.name.encode() + path.read_bytes() for path in files)
    places = {getpass.getuser(), socket.gethostname(), str(Path.home()), str(Path.cwd()), tempfile.gettempdir()}
    message = [place for place in places if len(place) > 2 and place.encode() in content]
    assert message == []
    for clue in (b"127.0.0.1", b"localhost", b"::59", b"/runs/", b"EXIF", b"XMP "):
        assert clue not in content
    run = RecordedRun(task="Pay", planner="openai-compatible (qwen at [::1]:8080)", end=Screen())
    assert run.planner == "openai-compatible (qwen)"


def test_key_path_is_safe_and_distinct(tmp_path: Path) -> None:
    name = partial(Key, tmp_path / "test_shop.py")
    assert name("test_shop.py::test_it").path == tmp_path / "__vnc_recordings__" / "test_shop" / "test_it.json"
    assert name("test_shop.py::TestShop::test_it[a-1]").path.name == "TestShop.test_it[a-1].json"
    odd = [name(f"test_shop.py::test_it[{value}]").path.name for value in ("a/b", "a:b", "ä", "x" * 300)]
    assert len({*odd}) == 4
    assert all("/" not in each and ":" not in each and len(each) < 140 for each in odd)


def metered(*dollars: float | None, uncounted: bool = False) -> Meter:
    meter = Meter()
    for each in dollars:
        exchange = ModelExchange("planner", 1, {}, {}, 1.0, usage=Usage(9), dollars=each, uncounted=uncounted)
        meter.add(exchange)
    meter.seconds = 2.04
    return meter


def test_dollars_need_every_call_counted() -> None:
    assert metered(0.1, 0.2).live() == Live(seconds=2.0, dollars=0.3)
    for meter in metered(), metered(None, 0.1), metered(0.1, 0.1, uncounted=True):
        assert meter.live() == Live(seconds=2.0)
    known = (Live(seconds=20, dollars=0.5), metered(0.1))
    assert saved_by([known, (Live(seconds=10, dollars=1), metered())]) == (pytest.approx(25.92), pytest.approx(1.4))
    assert saved_by([known, (Live(seconds=2.04), metered())]) == (pytest.approx(17.96), None)
    assert saved_by([]) is saved_by([known, (None, metered())]) is None


FONTS = {"sans-serif": "DejaVu Sans", "serif": "DejaVu Serif"}


def test_difference_names_what_both_know() -> None:
    assert difference(FONTS, {"serif": "DejaVu Serif"}) == ""
    recorded = {**FONTS, "xterm": "379-1", "nano": "7.2-1"}
    assert difference(recorded, {"serif": "Gelasio", "xterm": "398-1"}) == (
        "Fonts differ from the recording's machine: serif is now Gelasio, was DejaVu Serif. "
        "This machine differs from the recording's: xterm is now 398-1, was 379-1."
    )


def test_machine_of_desktop_without_commands_is_unknown() -> None:
    assert machine_of(ExternalDesktop("127.0.0.1::1", None), Settings(server="127.0.0.1::1")) == {}


@pytest.mark.desktop
def test_machine_of_xvnc_has_fonts_and_program_versions() -> None:
    for program in ("Xtigervnc", "xterm", "dpkg-query", "fc-match"):
        require(program)
    desktop = XvncDesktop(["sh", "-c", "exec xterm"], start_timeout_s=60)
    try:
        machine = machine_of(desktop, Settings(server="xvnc"))
    finally:
        desktop.stop()
    query = ["dpkg-query", "-W", "-f", "${Version}", "xterm"]
    version = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    known = {"rendering": "pinned", "server": "xvnc", "xterm": version, "monospace": "DejaVu Sans Mono", **FONTS}
    assert known.items() <= machine.items()
    assert not {"dash", "coreutils"} & set(machine)
