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
from pytest_vnc_use.report.page.model import Box, Pair, Shot
from pytest_vnc_use.report.page.run_view import RunPage, show_run
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.report.summaries import cell

_MOST_PICTURES = 10
_MOST_LINKS = 100
_WIDTH, _ROOM, _LINE = 640, 12, 34
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
    found = []
    for result in results:
        names = [PureWindowsPath(run.folder).name for run in result.runs if not run.rehearsal]
        if result.is_bad and names and names[-1] in numbers:
            number = numbers[names[-1]]
            found.append(Failed(result.test, number, runs[number - 1]))
    return found


def links(failed: Sequence[Failed], address: str) -> str:
    """Return a Markdown row for each test that failed: its name leads to its place in the report at `address`.

    The numbers are those in the picture of `sheet`. Raises SettingsError where the address is none.
    """
    if not _ADDRESS.fullmatch(address):
        raise SettingsError(f"--links must be the report's address, such as https://ci.example/report, got {address!r}")
    if not failed:
        return f"[The report]({address})\n"
    rows = [
        f"| {row} | [{cell(test.test)}]({address}#run-{test.number}) |"
        for row, test in enumerate(failed[:_MOST_LINKS], start=1)
    ]
    return "\n".join(["| | what decided it, in the report |", "|---:|---|", *rows, ""])


def write_sheet(file: Path, failed: Sequence[Failed]) -> None:
    """Write the picture of `sheet`, if there is one. Raises OSError."""
    if png := sheet(failed):
        replace_file(file, png)


def sheet(failed: Sequence[Failed]) -> bytes | None:
    """Return one PNG with the deciding pictures of the first ten tests; None where no test has one.

    On the left is what was expected, or what was before; on the right what was seen, with frames around what differs.
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
        sides.insert(0, (pair.left_name, pair.left, ()))
    for name, shot, boxes in sides:
        if not shot.address:
            continue
        try:
            content = page.made.get(shot.address) or (page.path / shot.address).read_bytes()
            with Image.open(BytesIO(content)) as picture:
                whole = picture.convert("RGB")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
            continue
        scale = _WIDTH / whole.width
        small = whole.resize((_WIDTH, max(1, round(whole.height * scale))))
        draw = ImageDraw.Draw(small)
        for box in boxes:
            corners = (box.x, box.y, box.x + box.width, box.y + box.height)
            draw.rectangle([round(each * scale) for each in corners], outline="#e6007e", width=2)
        yield name, small


def _plain(text: str) -> str:
    return text[:120].encode("ascii", "replace").decode()
