"""The parts of a report in one file that a CI can show of tests that failed: links into it, one picture of them all.

A summary on GitHub shows no picture of a job: it links to files that a browser opens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PureWindowsPath

from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import replace_file
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.report.page.model import Box, Pair, Shot
from pytest_vnc_use.report.page.pictures import around
from pytest_vnc_use.report.page.run_view import RunPage, show_run
from pytest_vnc_use.report.page.session_view import NOT_FOUND, KnownResults
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.report.summaries import cell
from pytest_vnc_use.runs.run_summary import line_of

_MOST_PICTURES = 10
_MOST_LINKS = 100
_WIDTH, _ROOM, _LINE = 640, 12, 34
_MOST_HEIGHT = 400
_LEAST_PART = (480, 270)
"""The least part of a screen that is shown, in its pixels: all of it is read easily at the sheet's scale."""
_FRAME_PX, _APART_PX = 2, 4
"""The width of a frame, and its distance from what differs, in pixels of the sheet."""
_ADDRESS = re.compile(r"https?://[^\s()<>|]+")


@dataclass(frozen=True)
class Failed:
    """A test that failed, and its last run: the folder, and its number in the report in one file."""

    test: str
    number: int
    run: Path


def failed_tests(runs: Sequence[Path], results: Sequence[ItemResult]) -> list[Failed]:
    """Return the tests that failed and left a run, in the order of the results. A run is known by its name."""
    numbers = {run.name: number for number, run in enumerate(runs, start=1)}
    bad = [(result.test, numbers.get(_last_run(result), 0)) for result in results if result.is_bad]
    return [Failed(test, number, runs[number - 1]) for test, number in bad if number]


def _last_run(result: ItemResult) -> str:
    """Return the name of the run that decided a test; empty if it has none."""
    names = [PureWindowsPath(run.folder).name for run in result.runs if not run.rehearsal]
    return names[-1] if names else ""


def told_problems(runs: Sequence[Path], known: KnownResults) -> list[str]:
    """Return what else is wrong, a line each: a test that failed without a run, another problem of a session.

    Runs that no test made need no session.
    """
    if known is NOT_FOUND and not any(line_of(run).test for run in runs):
        return []
    there = {run.name for run in runs}
    alone = [
        (f"{result.test} failed without a run", line(result.message))
        for result in known.results
        if result.is_bad and _last_run(result) not in there
    ]
    return [": ".join(filter(None, problem)) for problem in (*alone, *known.problems)]


def links(failed: Sequence[Failed], address: str, problems: Sequence[str] = ()) -> str:
    """Return a Markdown row for each test that failed: its name leads to its place in the report at `address`.

    The numbers are those in the picture of `sheet`. Below stand the problems, such as a missing shard. Raises
    SettingsError where the address is none.
    """
    if not _ADDRESS.fullmatch(address):
        raise SettingsError(f"--links must be the report's address, such as https://ci.example/report, got {address!r}")
    told = [f"{cell(problem)}  " for problem in problems[:_MOST_LINKS]]
    if problems[_MOST_LINKS:]:
        told.append(f"and {len(problems) - _MOST_LINKS} more")
    below = ["", *told] if told else []
    if not failed:
        return "\n".join([f"[The report]({address})", *below, ""])
    rows = [
        f"| {row} | [{cell(test.test)}]({address}#run-{test.number}) |"
        for row, test in enumerate(failed[:_MOST_LINKS], start=1)
    ]
    return "\n".join(["| | what decided it, in the report |", "|---:|---|", *rows, *below, ""])


def write_sheet(file: Path, failed: Sequence[Failed]) -> None:
    """Write the picture of `sheet`, if there is one. Raises OSError."""
    if png := sheet(failed):
        replace_file(file, png)


def sheet(failed: Sequence[Failed]) -> bytes | None:
    """Return one PNG with the deciding pictures of the first ten tests; None where no test has one.

    On the left is what was expected, or what was before; on the right what was seen. Of large screens there is the
    part with the difference. Frames stand around what differs.
    """
    rows = [row for number, test in enumerate(failed[:_MOST_PICTURES], start=1) if (row := _row(number, test))]
    if not rows:
        return None
    whole = Image.new("RGB", (2 * _WIDTH + 3 * _ROOM, sum(row.height for row in rows)), "white")
    top = 0
    for row in rows:
        whole.paste(row, (0, top))
        top += row.height
    png = BytesIO()
    whole.save(png, "PNG", optimize=True)
    return png.getvalue()


def _row(number: int, test: Failed) -> Image.Image | None:
    page = show_run(test.run, quick=True)
    pair = page.view.deciding
    pictures = [] if pair is None else [*_pictures(page, pair)]
    if pair is None or not pictures:
        return None
    height = max(picture.height for _, picture in pictures)
    row = Image.new("RGB", (2 * _WIDTH + 3 * _ROOM, height + 2 * _LINE + 2 * _ROOM), "white")
    draw, font = ImageDraw.Draw(row), ImageFont.load_default(20)
    draw.text((_ROOM, _ROOM), _plain(f"{number}  {test.test}"), fill="black", font=font)
    for place, (name, picture) in enumerate(pictures):
        left = _ROOM + place * (_WIDTH + _ROOM)
        draw.text((left, _ROOM + _LINE), _plain(name), fill="#555555", font=font)
        row.paste(picture, (left, _ROOM + 2 * _LINE))
    return row


def _pictures(page: RunPage, pair: Pair) -> Iterator[tuple[str, Image.Image]]:
    """Yield each picture of the pair, with its name; one that is missing or damaged is left out."""
    sides: list[tuple[str, Shot, Sequence[Box]]] = [(pair.right_name, pair.right, [*pair.boxes, *pair.regions])]
    if pair.left.address != pair.right.address:
        sides.insert(0, (pair.left_name, pair.left, pair.boxes))
    for name, shot, boxes in sides:
        if not shot.address:
            continue
        try:
            content = page.made.get(shot.address) or (page.path / shot.address).read_bytes()
            with Image.open(BytesIO(content)) as picture:
                whole = picture.convert("RGB")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
            continue
        yield name, _framed(whole, _part(pair.zoom, whole.size), boxes)


def _part(zoom: Box | None, size: tuple[int, int]) -> Box:
    """Return the part of a screen to show: around the zoomed one, wide where that is high; else the whole screen."""
    if zoom is None:
        return Box(0, 0, *size)
    width, height = _LEAST_PART
    return around((zoom,), size, (max(width, zoom.height * _WIDTH // _MOST_HEIGHT), height))


def _framed(screen: Image.Image, part: Box, boxes: Sequence[Box]) -> Image.Image:
    """Return a part of a screen at the width of the sheet's pictures, with frames that cover nothing of the boxes."""
    scale = _WIDTH / part.width
    cut = screen.crop((part.x, part.y, part.x + part.width, part.y + part.height))
    picture = cut.resize((_WIDTH, max(1, round(part.height * scale))))
    draw, away = ImageDraw.Draw(picture), _APART_PX + _FRAME_PX
    for box in boxes:
        left, top = (box.x - part.x) * scale, (box.y - part.y) * scale
        right, bottom = left + box.width * scale, top + box.height * scale
        corners = left - away, top - away, right + away - 1, bottom + away - 1
        draw.rectangle([round(each) for each in corners], outline="#e6007e", width=_FRAME_PX)
    return picture


def _plain(text: str) -> str:
    return text[:120].encode("ascii", "replace").decode()
