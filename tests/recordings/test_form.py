"""What stands in a recording's directory, what is said of a file that is none, or no
longer, or of another machine. How it is written: see `test_store`.
"""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

from pytest_vnc_use.desktops.external import ExternalDesktop
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings.build import Meter
from pytest_vnc_use.recordings.drift import machine_of, other_machine
from pytest_vnc_use.recordings.format import (
    Evidence,
    Live,
    RecordedStep,
    Recording,
    Screen,
    Segment,
    dynamic_region,
    screens,
)
from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.keeping import saved_by
from pytest_vnc_use.recordings.store import FILE, Key, load, recordings_in, save
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import REDACTED_COLOUR, Click, ModelExchange, Region, Usage
from support.images import drawn, recording_of
from support.tills import Tills
from support.vnc_servers import require


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of two steps."""
    path = tmp_path / "test_shop" / "test_it" / FILE
    assert save(path, recording_of(drawn("start"), drawn("typed"), drawn("end")))
    return path


def read(file: Path) -> Recording:
    recording = load(file)
    assert recording
    return recording


def contents(file: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in file.parent.iterdir()}


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def test_recording_is_directory_of_whole_screens(file: Path) -> None:
    found = read(file)
    assert contents(file).keys() == {FILE, "s1.webp", "s2.webp", "end1.webp"}
    for screen, text in zip(screens(found), ("start", "typed", "end"), strict=True):
        np.testing.assert_array_equal(screen.pixels(), drawn(text))
        image = file.with_name(screen.image).read_bytes()
        np.testing.assert_array_equal(pixels_of(image), drawn(text))
    steps = [line for line in lines(file) if '"action"' in line]
    assert ["s1.webp" in steps[0], "s2.webp" in steps[1], len(steps)] == [True, True, 2]


def test_save_of_loaded_recording_writes_nothing(file: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in file.parent.rglob("*")}
    assert not save(file, read(file))
    after = {path: path.stat().st_mtime_ns for path in file.parent.rglob("*")}
    assert after == before


def test_save_changes_own_lines_and_images(file: Path) -> None:
    before = contents(file)
    lines_before = lines(file)
    assert save(file, recording_of(drawn("start"), drawn("typed"), drawn("other end")))
    after = contents(file)
    changed = {name for name in after if after[name] != before.get(name)}
    assert (changed, after.keys()) == ({FILE, "end1.webp"}, before.keys())
    (other,) = (line for line in lines(file) if line not in lines_before)
    assert other.strip().startswith('"end"')
    assert save(file, recording_of(drawn("start"), drawn("other end")))
    assert contents(file).keys() == {FILE, "s1.webp", "end1.webp"}


def test_invisible_difference_keeps_image(file: Path) -> None:
    """A level more or less is invisible, and a redaction is none; it must be written."""
    before = contents(file)
    start = drawn("start") - np.uint32(0x010101)
    assert not save(file, recording_of(start, drawn("typed"), drawn("end")))
    start[50:60, 50:60] = REDACTED_COLOUR
    assert save(file, recording_of(start, drawn("typed"), drawn("end")))
    after = contents(file)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {FILE, "s1.webp"}
    np.testing.assert_array_equal(pixels_of(after["s1.webp"]), start)


def test_image_that_another_has_is_not_stored(file: Path) -> None:
    """Of evidence only a screen of its own is stored, and of the variants of a region
    not the one that its screen shows.
    """
    end = drawn("end")
    lamp = Region(20, 20, 60, 60)
    lit = np.zeros((40, 40), np.uint32)
    part = dynamic_region(lamp, "blinks", lamp.part_of(end), lit)
    (segment,) = recording_of(drawn("start"), end).segments
    ends = segment.end.model_copy(update={"dynamic": (part,)})
    others = (ends, Screen(pixels=lambda: drawn("start")), Screen(pixels=lambda: lit))
    claims = tuple(
        Evidence(claim=f"claim {number}", verdict="holds", screen=screen)
        for number, screen in enumerate(others[:2])
    )
    own = Screen(pixels=lambda: drawn("toast"))
    claims += (Evidence(claim="a toast", verdict="holds", screen=own),)
    judged = segment.model_copy(update={"end": ends, "claims": claims})
    save(file, read(file).model_copy(update={"segments": (judged,)}))
    names = {"s3.webp", "end2.webp", "end2-part1-variant2.webp", "t2-claim3.webp"}
    assert contents(file).keys() == {FILE, *names}
    found = read(file).segments[0]
    shown = [claim.screen.pixels() for claim in found.claims]
    for pixels, text in zip(shown, ("end", "start", "toast"), strict=True):
        np.testing.assert_array_equal(pixels, drawn(text))
    for screen in (found.end, found.claims[0].screen):
        variants = [variant.pixels() for variant in screen.dynamic[0].variants]
        np.testing.assert_array_equal(variants[0], lamp.part_of(end))
        np.testing.assert_array_equal(variants[1], lit)


def test_inserted_step_renames_nothing(file: Path) -> None:
    """A step between two others adds one line and one image; an id of a dropped one is
    not given again.
    """
    before = contents(file)
    lines_before = lines(file)

    def save_steps(steps: Sequence[RecordedStep]) -> list[str]:
        found = read(file)
        (segment,) = found.segments
        changed = segment.model_copy(update={"steps": tuple(steps)})
        save(file, found.model_copy(update={"segments": (changed,)}))
        return [step.id for step in read(file).steps]

    first, second = read(file).steps
    new = RecordedStep(action=Click(30, 40), screen=first.screen)
    assert save_steps((first, new, second)) == ["s1", "s3", "s2"]
    (added,) = (line for line in lines(file) if line not in lines_before)
    assert '"id": "s3"' in added
    after = contents(file)
    assert after.keys() - before.keys() == {"s3.webp"}
    assert {name for name in before if after[name] != before[name]} == {FILE}
    assert save_steps((first, second)) == ["s1", "s2"]
    assert '  "last_step": 3,' in lines(file)
    assert save_steps((first, second, new)) == ["s1", "s2", "s4"]


BAD = {
    "twice": (
        partial(re.sub, '"id": "s2"', '"id": "s1"'),
        "is damaged: it: Value error, the id 's1' must be given once",
    ),
    "id": (
        partial(re.sub, '"id": "s2"', '"id": "2"'),
        "is damaged: segments 1, steps 2, id: String should match pattern",
    ),
    "older": (
        partial(re.sub, '"version": 6', '"version": 5'),
        "older pytest-vnc-use: its version is 5, this one reads 6",
    ),
    "newer": (
        partial(re.sub, '"version": 6', '"version": 99'),
        "newer pytest-vnc-use: its version is 99",
    ),
    "no digest": (
        partial(
            re.sub, '"image": "s2.webp", "digest": "[0-9a-f]*"', '"image": "s2.webp"'
        ),
        "the image 's2.webp' needs a digest",
    ),
    "no image": (
        partial(re.sub, '"image": "s2.webp", "digest": "[0-9a-f]*"', ""),
        "is damaged: a screen has no image",
    ),
    "cut off": (lambda text: text[: len(text) // 2], "is truncated"),
    "off the screen": (
        partial(re.sub, '"x": 10', '"x": 5000'),
        "(5000, 20) is not on a screen",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_file_is_refused_with_remedy(file: Path, name: str) -> None:
    edit, message = BAD[name]
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError) as raised:
        load(file)
    error = str(raised.value)
    assert message in error
    assert str(file) in error
    assert "--vnc-record=rewrite" in error
    assert "--vnc-record=manual" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "is a pointer of Git LFS, not an image",
        ),
        (b"RIFF\x40\0\0\0WEBP", "is truncated"),
        (b"", "is empty"),
        (b"<html>", "is a web page, not an image"),
        (b"\x89PNG\r\n", "is not a WebP image"),
        (None, "an image of .* cannot be read: .*s2.webp"),
    ],
)
def test_image_not_as_written_is_refused(
    file: Path, content: bytes | None, message: str
) -> None:
    image = file.with_name("s2.webp")
    image.unlink()
    if content is not None:
        image.write_bytes(content)
    with pytest.raises(RecordingError, match=message) as raised:
        load(file)
    assert str(image) in str(raised.value)


def test_mixture_of_two_versions_is_refused(file: Path) -> None:
    image = file.with_name("s2.webp")
    shutil.copy(file.with_name("s1.webp"), image)
    with pytest.raises(RecordingError) as raised:
        load(file)
    message = str(raised.value)
    beside = "is not of the same version as recording.json beside it"
    assert message.startswith(f"{str(image)!r} {beside}")
    assert f"git checkout HEAD -- {file.parent}, or record the test again" in message


def test_recording_of_older_version_is_refused(file: Path) -> None:
    """It was a file beside the directory of its images. A new one takes its place."""
    recording = read(file)
    older = file.parent.with_name("test_it.json")
    file.rename(older)
    with pytest.raises(RecordingError, match="older pytest-vnc-use") as raised:
        load(file)
    assert str(raised.value).startswith(repr(str(older)))
    assert "--vnc-record=rewrite" in str(raised.value)
    assert recordings_in(file.parents[2]) == [file]
    assert save(file, recording)
    assert [*file.parent.parent.iterdir()] == [file.parent]


def test_recording_names_no_user_host_or_path(recorded: Tills) -> None:
    files = [path for path in recorded.key.path.parent.rglob("*") if path.is_file()]
    assert len(files) > 3
    content = b"".join(path.name.encode() + path.read_bytes() for path in files)
    places = {
        getpass.getuser(),
        socket.gethostname(),
        str(Path.home()),
        str(Path.cwd()),
        tempfile.gettempdir(),
    }
    clues = [place.encode() for place in places if len(place) > 2]
    clues += [b"127.0.0.1", b"localhost", b"::59", b"/runs/", b"EXIF", b"XMP "]
    assert [clue for clue in clues if clue in content] == []


def test_planner_of_recording_names_no_host() -> None:
    planner = "openai-compatible (qwen at [::1]:8080)"
    run = Segment(task="Pay", planner=planner, end=Screen())
    assert run.planner == "openai-compatible (qwen)"


ALIKE = (
    "test_a",
    "test_A",
    "TEST_A",
    "TestA::test_it",
    "Testa::test_it",
    "test_it[a.b]",
    "test_it[a::b]",
    "test_it[A::b]",
    "test_it[A.b]",
    "test_it[NaN]",
    "test_it[nan]",
    "basket",
    "basket-0a1b2c3d",
)
"""Tests whose files a disk may take for one."""
ODD = ("a/b", "a:b", "ä", "a\u0308", "x" * 300, "x" * 301, "a ", "a", ".")


def test_key_path_is_safe_and_distinct(tmp_path: Path) -> None:
    name = partial(Key, tmp_path / "test_shop.py")
    directory = tmp_path / "__vnc_recordings__" / "test_shop"
    assert name("test_shop.py::test_it").path == directory / "test_it" / FILE
    in_class = name("test_shop.py::shop::test_it[a-1]").path.parent.name
    assert in_class == "shop.test_it[a-1]"
    tests = [*ALIKE, *(f"test_it[{value}]" for value in ODD)]
    names = [name(f"test_shop.py::{test}").path.parent.name for test in tests]
    assert len({each.casefold() for each in names}) == len(names)
    safe = re.compile(r"[\w.=,+\[\]-]{1,140}")
    assert [each for each in names if not safe.fullmatch(each)] == []
    reserved = name("test_shop.vnc.toml::aux").path.parent.name
    assert not reserved.startswith("aux")


def test_key_path_differs_where_case_is_ignored() -> None:
    tests = ["".join(chars) for chars in product("aA.:_-[e\u0301é", repeat=4)]
    files = {
        normalize(
            "NFC", Key(Path("test_it.py"), f"test_it.py::{test}").path.parent.name
        )
        for test in tests
    }
    assert len({file.casefold() for file in files}) == len(tests)
    # Windows drops a last dot.
    assert [file for file in files if file.endswith(".")] == []


def metered(*dollars: float | None, uncounted: bool = False) -> Meter:
    meter = Meter()
    for each in dollars:
        exchange = ModelExchange(
            "planner", 1, {}, {}, 1.0, usage=Usage(9), dollars=each, uncounted=uncounted
        )
        meter.add(exchange)
    meter.seconds = 2.04
    return meter


def test_dollars_of_counted_calls_are_added() -> None:
    assert metered(0.1, 0.2).live() == Live(seconds=2.0, dollars=0.3)


@pytest.mark.parametrize(
    "meter",
    [metered(), metered(None, 0.1), metered(0.1, 0.1, uncounted=True)],
    ids=["no call", "unpriced", "uncounted"],
)
def test_dollars_need_every_call_counted(meter: Any) -> None:
    assert meter.live() == Live(seconds=2.0)


KNOWN_COST = (Live(seconds=20, dollars=0.5), metered(0.1))


@pytest.mark.parametrize(
    ("replays", "seconds", "dollars"),
    [
        ([KNOWN_COST, (Live(seconds=10, dollars=1), metered())], 25.92, 1.4),
        ([KNOWN_COST, (Live(seconds=2.04), metered())], 17.96, None),
    ],
    ids=["all known", "dollars unknown"],
)
def test_saved_dollars_need_every_replay_counted(
    replays: Any, seconds: float, dollars: float | None
) -> None:
    assert saved_by(replays) == (
        pytest.approx(seconds),
        dollars and pytest.approx(dollars),
    )


@pytest.mark.parametrize("replays", [[], [KNOWN_COST, (None, metered())]])
def test_nothing_saved_without_known_replays(replays: Any) -> None:
    assert saved_by(replays) is None


FONTS = {"sans-serif": "DejaVu Sans", "serif": "DejaVu Serif"}


def test_difference_names_what_both_know() -> None:
    assert other_machine(FONTS, {"serif": "DejaVu Serif"}) == ""
    recorded = {**FONTS, "xterm": "379-1", "nano": "7.2-1"}
    assert (
        other_machine(recorded, {"serif": "Gelasio", "xterm": "398-1"})
        == "Fonts differ from the recording's machine: serif is now Gelasio, was DejaVu"
        " Serif. This machine differs from the recording's: xterm is now 398-1, was"
        " 379-1."
    )


def test_machine_of_desktop_without_commands_is_unknown() -> None:
    assert (
        machine_of(
            ExternalDesktop("127.0.0.1::1", None), Settings(server="127.0.0.1::1")
        )
        == {}
    )


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
    known = {
        "rendering": "pinned",
        "server": "xvnc",
        "xterm": version,
        "monospace": "DejaVu Sans Mono",
        **FONTS,
    }
    assert known.items() <= machine.items()
    assert not {"dash", "coreutils"} & set(machine)
