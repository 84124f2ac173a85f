"""Which pairs of drawings count as equal: the same text drawn twice, which should, and
changed ones, of which none may.

    python tests/bench/run.py same_drawing [--limits]

Chromium draws lines of text in buttons, fields, links and cells, at device scale 1 and
2, in several sizes and fonts: as they are, one and two pixels higher or lower, at
another subpixel offset, hinted, with one thing changed, and changed and moved at once.
With `--limits` each limit of `same_text.py` is loosened in turn, and what that lets
through is counted again.

The exit code is 1 where a changed pair counts as equal.
"""

from __future__ import annotations

import argparse
import html
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ratios import head, machine, row

from pytest_vnc_use.recordings import same_text
from pytest_vnc_use.recordings.images import Pixels, pixels_of

SCALES = (1, 2)
SIZES = (10, 40 / 3, 16, 22)
"""The sizes of text, in CSS pixels; that of form controls is 40/3."""
FONTS = ("DejaVu Sans", "Liberation Sans", "DejaVu Sans Mono")
OFFSETS = (0.25, 0.5)
CELL = (600, 120)
"""The width and height of a cell, in pixels of the screen."""
SHEET = (4, 80)
"""The columns and rows of cells on a sheet."""
BOXES = {
    "button": "<button style='padding:{top}px 9px {bottom}px'>{text}</button>",
    "field": "<span style='border:2px inset #767676;border-radius:2px;{pad}'>{text}</span>",
    "plain": "<span style='{pad}'>{text}</span>",
    "link": "<a href='#' style='{pad}'>{text}</a>",
    "row": "<span style='background:#dde;border-bottom:1px solid #888;{pad}'>{text}</span>",
    "label": "<span style='{pad}'>{text}</span><input type=checkbox>",
}
TEXTS = {
    "a digit": (
        "Total 3.75>Total 8.75|Invoice 1047>Invoice 1041|10:35>10:36|5 items>6 items"
        "|19.90 EUR>10.90 EUR|Room 401>Room 407|28>26|2026-11-25>2025-11-25"
    ),
    "a full stop": "Saved.>Saved|1.000 units>1000 units|Done. Go on>Done Go on",
    "a comma": "Total 3.75>Total 3,75|Hello, you>Hello. you|7.5 kg>7,5 kg",
    "a sign": (
        "-12.40>12.40|-3 points>+3 points|a - b>a _ b|it's>it,s|From: Ann>From; Ann"
        '|12:30>12.30|a-b>a·b|10 %>10 ‰|name_id>name-id|"ok">„ok“'
    ),
    "a letter": (
        "Submit>Submlt|Search>Seanch|Delete file>Delete tile|cold>gold|OK>0K"
        "|modern>modem|Open>0pen|Next page>Next paqe|bear>hear|Yes>Ves|Close>C1ose"
    ),
    "an accent": "Café au lait>Cafe au lait|naïve>naive|Résumé>Résume",
    "a case": "Save>save|log Out>log out|Cancel>cancel|X to close>x to close",
    "a missing glyph": "Apply>Appl|Accept all>Accept al|Order 55>Order 5",
    "two swapped": "first second>second first|12 of 21>21 of 12|Ann, Bob>Bob, Ann",
}
"""Pairs of a text and the same with one thing changed."""
MARKUP = {
    "a colour": (
        "Sign in><span style='color:#301010'>Sign in</span>"
        "|Error 17><span style='color:#808080'>Error 17</span>"
    ),
    "one glyph moved": (
        "Total<span style='{up}'>5</span>>Total5|-<span style='{up}'>12</span>>-12"
        "|a<span style='{up}'>-</span>b>a-b|Save<span style='{up}'>.</span>>Save."
    ),
    "one word moved": (
        "Pay <span style='{up}'>now</span>>Pay now"
        "|<span style='{up}'>Total</span> 3.75>Total 3.75"
    ),
    "a line through or below": "<s>Old price</s>>Old price|<u>Terms</u>>Terms",
    "a mark": (
        "<input type=checkbox> Remember><input type=checkbox checked> Remember"
        "|&#10003; Paid>&#10007; Paid|Na<i style='border-left:1px solid'></i>me>Name"
    ),
    "something faint": (
        "Total<i style='color:#fafafa'>.</i>>Total<i style='color:#fff'>.</i>"
        "|<i style='color:#fafafa'>new</i> Total><i style='color:#fff'>new</i> Total"
        "|<b style='border-bottom:1px solid #fafafa'>Total</b>"
        "><b style='border-bottom:1px solid #fff'>Total</b>"
    ),
    "a weight": "<b>Draft</b> saved>Draft saved|<i>Draft</i> saved>Draft saved",
}
"""The same as markup. `up` moves what it stands in by a pixel of the screen."""
NO_LINES = (
    "7",
    "W",
    "@",
    "%",
    "½",
    "...",
    "--",
    "__",
    "''",
    '"',
    "==",
    "- -",
    ": :",
    "—",
    "→",
    "<input type=checkbox>",
    "<input type=radio checked>",
    "<input size=5>",
    "<select><option>Two</select>",
    "<i style='border:1px solid;padding:0 4px'>3</i>",
    "<i style='border:1px solid #bbb;padding:0 4px'>32 of 40</i>",
    "<i style='background:#c00;color:#fff;padding:0 4px'>Five</i>",
    "<i style='display:inline-block;width:90px;border-top:3px dashed'></i>",
    "<i style='display:inline-block;width:90px;border-top:1px solid'></i>",
    "<i style='display:inline-block;width:90px;border-top:4px dotted'></i>",
    "<progress value=.5></progress>",
    "<svg width=20 height=16><path d='M2 2h16M2 8h16M2 14h16' stroke='#000' stroke-width=2 /></svg>",
    "<svg width=40 height=16><path d='M2 14V4h6v10zM12 14V8h6v6zM22 14V1h6v13z'/></svg>",
)
"""What is no line of text: glyphs, marks, boxes, icons. It stays a difference where it
moves by a pixel.
"""


ROUNDED = "<i style='border:3px solid #666;border-radius:9px;padding:4px'>Jerald</i>"


class Cell(NamedTuple):
    """A drawing: a text as markup in a kind of box, moved by so many pixels of the
    screen.
    """

    markup: str
    box: str
    px: float
    font: str
    down: int = 0
    right: float = 0.0
    hints: bool = False
    all_down: int = 0


class Pair(NamedTuple):
    """Two cells; `kind` is a row of the table."""

    kind: str
    is_equal: bool
    one: Cell
    other: Cell


def pairs() -> Iterator[Pair]:
    boxes = [*BOXES]
    count = 0
    for table, is_markup in ((TEXTS, False), (MARKUP, True)):
        for change, listed in table.items():
            for text in listed.split("|"):
                if is_markup:
                    before, after = split_markup(text)
                else:
                    before, after = map(html.escape, text.split(">"))
                for px in SIZES:
                    count += 1
                    box = boxes[count % len(boxes)]
                    font = FONTS[count % len(FONTS)]
                    one = Cell(before, box, px, font)
                    other = Cell(after, box, px, font)
                    yield from of_texts(change, one, other, is_plain=not is_markup)
    for markup in NO_LINES:
        for px in SIZES:
            one = Cell(markup, "plain", px, FONTS[0])
            yield Pair("no line, moved", False, one, one._replace(down=1))


def split_markup(text: str) -> tuple[str, str]:
    """Return both halves of a pair of markup, which is parted by the `>` that ends no
    tag.
    """
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if depth < 0:
            return text[:place], text[place + 1 :]
    raise ValueError(text)


def of_texts(change: str, one: Cell, other: Cell, is_plain: bool) -> Iterator[Pair]:
    """Yield the pairs of a text and a changed one."""
    if is_plain:
        for down in (1, -1):
            yield Pair("moved by 1 px", True, one, one._replace(down=down))
        yield Pair("at another offset", True, one, one._replace(right=OFFSETS[0]))
        yield Pair("at another offset", True, one, one._replace(right=OFFSETS[1]))
        yield Pair("hinted", False, one, one._replace(hints=True))
        for down in (2, -2):
            yield Pair("moved by 2 px", False, one, one._replace(down=down))
        yield Pair("moved aside by 1 px", False, one, one._replace(right=1.0))
        if one.box in ("button", "field", "row"):
            yield Pair("moved with its box", False, one, one._replace(all_down=1))
    yield Pair(change, False, one, other)
    for down in (1, -1):
        yield Pair(f"{change}, and moved", False, one, other._replace(down=down))
    for right in OFFSETS:
        yield Pair(f"{change}, and an offset", False, one, other._replace(right=right))
    yield Pair(f"{change}, and hinted", False, one, other._replace(hints=True))


def drawn(cells: Sequence[Cell], scale: int, directory: Path) -> Mapping[Cell, Pixels]:
    """Return each cell's pixels as Chromium draws it."""
    pixels: dict[Cell, Pixels] = {}
    columns, rows = SHEET
    for hints in (False, True):
        wanted = [cell for cell in cells if cell.hints == hints]
        for start in range(0, len(wanted), columns * rows):
            on_sheet = wanted[start : start + columns * rows]
            sheet = screenshot(on_sheet, scale, hints, directory)
            for number, cell in enumerate(on_sheet):
                left, top = place_of(number)
                pixels[cell] = sheet[top : top + CELL[1], left : left + CELL[0]]
    return pixels


def place_of(number: int) -> tuple[int, int]:
    return number % SHEET[0] * CELL[0], number // SHEET[0] * CELL[1]


def screenshot(
    cells: Sequence[Cell], scale: int, hints: bool, directory: Path
) -> Pixels:
    """Draw cells on one page. With a device scale Chromium hints nothing, so hinted
    cells are drawn at scale 1 with larger text.
    """
    device = 1 if hints else scale
    body = []
    for number, cell in enumerate(cells):
        left, top = place_of(number)
        pad = {"top": 4 + cell.down / scale, "bottom": 4 - cell.down / scale}
        up = f"position:relative;top:{-1 / scale}px"
        inside = cell.markup.replace("{up}", up)
        boxed = BOXES[cell.box].format(
            text=inside,
            pad="display:inline-block;padding:{top}px 9px {bottom}px".format(**pad),
            **pad,
        )
        body.append(
            f"<div style='position:absolute;left:{(left + 40 + cell.right) / device}px;"
            f"top:{(top + 20 + cell.all_down) / device}px'>"
            f"<div style='zoom:{scale / device};font:{cell.px}px {cell.font}'>{boxed}"
            "</div></div>"
        )
    style = "body{margin:0;background:#fff;white-space:pre}button,input,select{font:inherit}"
    page = directory / "page.html"
    image = directory / "sheet.png"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><style>{style}</style>{''.join(body)}"
    )
    width, height = (CELL[axis] * SHEET[axis] // device for axis in (0, 1))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--hide-scrollbars", "--disable-lcd-text", f"--screenshot={image}"]
    command += [f"--user-data-dir={directory / 'profile'}", page.as_uri()]
    command += [f"--window-size={width},{height}"]
    command += [f"--force-device-scale-factor={device}"]
    fonts = {**os.environ, "FONTCONFIG_FILE": str(fontconfig(directory, hints))}
    subprocess.run(command, env=fonts, check=True, capture_output=True, timeout=200)
    return pixels_of(image.read_bytes())


def fontconfig(directory: Path, hints: bool) -> Path:
    path = directory / f"fonts-{hints}.conf"
    style = "hintslight" if hints else "hintnone"
    edit = f'<edit name="hintstyle" mode="assign" binding="strong"><const>{style}</const></edit>'
    path.write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<include>/etc/fonts/fonts.conf</include><cachedir>{directory}/cache</cachedir>"
        f'<match target="pattern">{edit}</match><match target="font">{edit}</match>'
        "</fontconfig>"
    )
    return path


Compared = tuple[Pair, Pixels, Pixels]


def corners(cells: Mapping[Cell, Pixels]) -> Iterator[Compared]:
    """Yield pairs of a box with rounded corners, some of whose blended pixels differ."""
    for cell, drawing in cells.items():
        if cell.markup != ROUNDED:
            continue
        level = (drawing & 0xFF).astype(int)
        places = np.argwhere((level > 110) & (level < 225))
        for kind, count, levels, step, is_equal in (
            ("corner pixels", 1, 12, 1, True),
            ("corner pixels", 2, -5, 5, True),
            ("corner pixels", 4, 4, 5, True),
            ("corner pixels, 9", 9, 5, 5, False),
            ("corner pixels, 14 levels apart", 2, 14, 5, False),
            ("corner pixels, side by side", 8, 5, 1, False),
        ):
            changed = drawing.copy()
            for line, column in places[::step][:count]:
                changed[line, column] = int(drawing[line, column]) + 0x010101 * levels
            yield Pair(kind, is_equal, cell, cell), drawing, changed


def counts(compared: Sequence[Compared]) -> tuple[Counter[str], list[Pair]]:
    """Return how many pairs of each kind count as equal, and the changed ones that
    do.
    """
    found: Counter[str] = Counter()
    passed = []
    for pair, one, other in compared:
        if not same_text.really_differing(one, other).any():
            found[pair.kind] += 1
            passed += [] if pair.is_equal else [pair]
    return found, passed


LIMITS: Mapping[str, object] = {
    "MAX_SPACE": 0.6,
    "MIN_MOVED_HEIGHT_PX": 1,
    "MIN_MOVED_WIDTH": 0,
    "MAX_GLYPH_WIDTH": 9,
    "FULL_ROW": 9,
    "MIN_VARIETY_PX": 0,
    "FRINGE": 0,
    "MIN_OFFSET_HEIGHT_PX": 1,
    "MAX_APART_PX": 9,
    "MAX_RESIDUAL": 0.5,
    "MAX_COLOUR_CHANGE": 9,
    "MAX_BLENDED": 999,
    "MAX_BLENDED_LEVELS": 99,
}
"""Each limit of `same_text.py`, and a value with which it limits nothing or less."""


def print_limits(compared: Sequence[Compared]) -> None:
    """Print what each limit is for, by every fourth pair."""
    compared = compared[::4]
    equal = [pair for pair in compared if pair[0].is_equal]
    print(
        f"\n{head('without the limit', 'equal', 'of', 'changed that pass', 'such as')}"
    )
    for limit, loose in LIMITS.items():
        kept = getattr(same_text, limit)
        setattr(same_text, limit, loose)
        found, passed = counts(compared)
        setattr(same_text, limit, kept)
        examples = "; ".join([*dict.fromkeys(pair.kind for pair in passed)][:3])
        accepted = sum(found.values()) - len(passed)
        print(row(limit, accepted, len(equal), len(passed), examples), flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="run.py same_drawing")
    parser.add_argument("--limits", action="store_true", help="loosen each limit, too")
    asked = parser.parse_args(arguments)
    print(f"{machine()}\n")
    wanted = [*pairs()]
    boxes = [Cell(ROUNDED, "plain", px, FONTS[0]) for px in SIZES]
    of_pairs = chain.from_iterable((pair.one, pair.other) for pair in wanted)
    cells = [*boxes, *dict.fromkeys(of_pairs)]
    compared = []
    with tempfile.TemporaryDirectory(prefix="drawing-") as made:
        for scale in SCALES:
            pixels = drawn(cells, scale, Path(made))
            for pair in wanted:
                one = pixels[pair.one]
                other = pixels[pair.other]
                # else the text stayed where it was, beside a checkbox
                if np.count_nonzero(one != other) > same_text.MAX_BLENDED:
                    compared.append((pair, one, other))
            compared += corners(pixels)
    found, passed = counts(compared)
    print(head("pairs", "of them", "count as equal"))
    kinds = Counter(pair.kind for pair, *_ in compared)
    for kind, count in kinds.items():
        print(row(kind, count, found[kind]), flush=True)
    print(f"\nchanged pairs that count as equal: {len(passed)}", *passed, sep="\n  ")
    if asked.limits:
        print_limits(compared)
    return min(1, len(passed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
