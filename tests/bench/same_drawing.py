"""How many texts that are merely rasterised another way are accepted, and how many changed ones (none may be).

python tests/bench/run.py same_drawing [chromium|pango|qt …] [--fonts DIRECTORY]

Each text is drawn in several ways: with hinting and without, and at three subpixel offsets; the cells of one way are
one sheet. The thresholds were tuned on the first set of words and fonts; the second was never looked at meanwhile.
`pango` stands for GTK 3 and 4, which both draw text with Pango and cairo. Equal drawings are left out of all counts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.same_text import really_differing

SHEETS = Path(__file__).with_name("drawing_sheets.py")
SIZES = (8, 10, 12, 40 / 3, 16, 20)
STARTS = 50
SHEET = (6000, 3000)
"""The width and height of a sheet; a screenshot of Chromium is cut where it is wider than 16,384 pixels."""
OFFSETS = (0.0, 0.25, 0.5)
SCALES = {"chromium": (1, 1.25, 2), "pango": (1, 2), "qt": (1, 2)}
SETS = {
    "tuned": (
        ("Liberation Sans", "DejaVu Sans"),
        """Total 3.75>Total 8.75|Invoice 1047>Invoice 1041|10:35 Uhr>10:36 Uhr|Order 5 items>Order 6 items
        19.90 EUR>10.90 EUR|Room 401>Room 407|1.000 units>1,000 units|Total 3.75>Total 3,75|+12.40 %>-12.40 %
        -12.40>12.40|Balance -7>Balance 7|Submit>Submlt|Search>Seanch|Cancel>Cancei|Delete file>Delete tile
        cold storage>gold storage|Save>Save.|From: Ann>From; Ann|modern>modem|Café au lait>Cafe au lait|OK>0K
        Close>C1ose""",
    ),
    "checked": (
        ("Noto Sans", "Liberation Serif", "DejaVu Sans Mono"),
        """Price 28.60>Price 26.60|Nr. 90315>Nr. 90375|2026-11-25>2025-11-25|8 of 12>3 of 12|Tax 5.5>Tax 5.6
        99,50>99,60|Sum 64.20>Sum 64,20|7.5 kg>7,5 kg|-3 points>+3 points|-450.00>450.00|Change -1.5>Change 1.5
        Log in>Log ln|Open>0pen|Basket>Basker|Next page>Next paqe|bear>hear|Hello, you>Hello. you|Name:>Name;
        corner>comer|naïve>naive|Yes>Ves|Apply!>Apply""",
    ),
}
"""Fonts, and pairs of a text and the same with one thing changed."""
COLOURS = (("Sign in", "#000000", "#808080"), ("Total 3.75", "#000000", "#301010"), ("Error 17", "#c00000", "#b00000"))
"""A text, its colour, and another: disabled, a slightly other black, a slightly other red."""
AMOUNT, BADGE = "<div style='width:6em;text-align:right'>", "<b style='background:#c00;color:#fff'>"
WIDGETS = (
    ("<input type=checkbox> Remember me", "<input type=checkbox checked> Remember me"),
    ("<input type=radio checked> By post", "<input type=radio> By post"),
    ("<button>Save file</button>", "<button style='outline:2px solid #1a73e8'>Save file</button>"),
    ("<button>Save file</button>", "<button disabled>Save file</button>"),
    ("<button>Save file</button>", "<button style='border-color:#555'>Save file</button>"),
    ("&#10003; Paid 3 times", "&#10007; Paid 3 times"),
    ("<span style='border:1px solid'>&nbsp;3&nbsp;</span>", "<span style='border:1px solid'>&nbsp;8&nbsp;</span>"),
    (f"{AMOUNT}1,250.00</div>", f"{AMOUNT}1,350.00</div>"),
    (f"{AMOUNT}-20.00</div>", f"{AMOUNT}20.00</div>"),
    (f"Inbox {BADGE}&nbsp;3&nbsp;</b>", f"Inbox {BADGE}&nbsp;4&nbsp;</b>"),
    ("Name<span style='border-left:1px solid'></span>", "Name<span style='border-left:1px solid #fff'></span>"),
    ("<progress value=.5></progress> Copying", "<progress value=.6></progress> Copying"),
    ("<u>Terms</u> apply", "Terms apply"),
    ("<b>Draft</b> saved", "Draft saved"),
)  # fmt: skip
"""Markup that only Chromium draws, with one thing changed."""


class Cell(NamedTuple):
    markup: str
    colour: str
    font: str
    px: float
    offset: float


class Case(NamedTuple):
    """A text and the same with one thing changed, each as markup and colour."""

    before: tuple[str, str]
    after: tuple[str, str]


def cases(pairs: str, renderer: str, *, widgets: bool) -> list[Case]:
    texts = [line.strip().split(">") for row in pairs.splitlines() for line in row.split("|")]
    changed = [Case((before, "#000000"), (after, "#000000")) for before, after in texts]
    changed += [Case((text, before), (text, after)) for text, before, after in COLOURS]
    if renderer == "chromium" and widgets:
        changed += [Case((before, "#000000"), (after, "#000000")) for before, after in WIDGETS]
    return changed


class Renderer:
    """Sheets of one renderer with the cells that it drew, by scale, by the way it hints, and by greyscale or LCD."""

    def __init__(self, name: str, directory: Path, fonts: Path | None) -> None:
        self.name, self._directory, self._fonts = name, directory, fonts

    def sheet(self, cells: Sequence[Cell], scale: float, hints: bool, lcd: bool) -> dict[Cell, Pixels]:
        """Draw cells one below the other in columns, each at whole pixels; more than fit on a sheet on the next one."""
        drawn: dict[Cell, Pixels] = {}
        at: dict[Cell, tuple[int, int, int, int]] = {}
        column = row = widest = 0
        for cell in cells:
            wide, high = (int(cell.px * scale * factor) // 20 * 20 + 20 for factor in (12, 2.4))
            if row + high > SHEET[1]:
                column, row, widest = column + widest, 0, 0
            if column + wide > SHEET[0]:
                drawn |= self._draw(at, scale, hints, lcd)
                at, column, row, widest = {}, 0, 0, 0
            at[cell] = (column, row, wide, high)
            row, widest = row + high, max(widest, wide)
        return drawn | self._draw(at, scale, hints, lcd)

    def _draw(
        self, at: Mapping[Cell, tuple[int, int, int, int]], scale: float, hints: bool, lcd: bool
    ) -> dict[Cell, Pixels]:
        """Draw cells at these lefts, tops, widths and heights, in a process of its own."""
        job, image = self._directory / "job.json", self._directory / "sheet.png"
        image.unlink(missing_ok=True)
        asked = [{**cell._asdict(), "at": place} for cell, place in at.items()]
        job.write_text(json.dumps({"cells": asked, "scale": scale, "hints": hints, "lcd": lcd, "size": SHEET}), "utf-8")
        python = "/usr/bin/python3" if self.name == "pango" else sys.executable
        fonts = {"FONTCONFIG_FILE": str(self._fontconfig(hints, lcd)), "QT_QPA_PLATFORM": "offscreen"}
        command = [python, str(SHEETS), self.name, str(job), str(image)]
        drawing = subprocess.run(command, env={**os.environ, **fonts}, capture_output=True, text=True, timeout=600)
        if not image.exists():
            raise SystemExit(f"{self.name} drew nothing:\n{drawing.stderr}")
        levels = np.asarray(Image.open(image).convert("RGB")).astype(np.uint32)
        pixels: Pixels = levels[..., 0] << np.uint32(16) | levels[..., 1] << np.uint32(8) | levels[..., 2]
        return {cell: pixels[top : top + high, left : left + wide] for cell, (left, top, wide, high) in at.items()}

    def _fontconfig(self, hints: bool, lcd: bool) -> Path:
        wanted = {"hintstyle": "hintslight" if hints else "hintnone", "rgba": "rgb" if lcd else "none"}
        edits = "".join(
            f'<edit name="{name}" mode="assign" binding="strong"><const>{value}</const></edit>'
            for name, value in wanted.items()
        )
        more = f"<dir>{self._fonts}</dir>" if self._fonts else ""
        path = self._directory / f"fonts-{hints}-{lcd}.conf"
        path.write_text(
            '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
            f"<include>/etc/fonts/fonts.conf</include>{more}<cachedir>{self._directory / 'cache'}</cachedir>"
            f'<match target="pattern">{edits}</match><match target="font">{edits}</match></fontconfig>'
        )
        return path


def installed(name: str, fonts: Sequence[str], directory: Path | None) -> list[str]:
    listed = subprocess.run(["fc-list", ":", "family"], capture_output=True, text=True).stdout
    if directory:
        listed += subprocess.run(
            ["fc-scan", "-f", "%{family}\n", str(directory)], capture_output=True, text=True
        ).stdout
    families = {family.strip() for line in listed.splitlines() for family in line.split(",")}
    return [font for font in fonts if font in families]


def is_accepted(recorded: Pixels, now: Pixels) -> bool | None:
    """Return whether two cells count as equal; None where they are equal to the bit."""
    return None if (recorded == now).all() else not really_differing(recorded, now).any()


def counts(renderer: Renderer, scale: float, lcd: bool, fonts: Sequence[str], changed: Sequence[Case]) -> Iterator[str]:
    """Yield for each size what came of the three groups, as cells of a table."""
    texts = sorted({text for case in changed for text in case})
    cells = [Cell(*text, font, px, offset) for px in SIZES for font in fonts for text in texts for offset in OFFSETS]
    hinted, plain = (renderer.sheet(cells, scale, hints, lcd) for hints in (True, False))
    for px in SIZES:
        rng, redrawn, one, both = random.Random(1), [], [], []
        for font in fonts:
            for case in changed:
                before, after = ([Cell(*text, font, px, offset) for offset in OFFSETS] for text in case)
                ways = [(hinted, plain, 0, 0), (plain, hinted, 0, 0)]
                ways += [(plain, plain, *pair) for pair in ((0, 1), (0, 2), (2, 1))]
                redrawn += [(a[before[m]], b[before[n]]) for a, b, m, n in ways]
                one += [(way[before[0]], way[after[0]]) for way in (hinted, plain)]
                both += [(a[before[m]], b[after[n]]) for a, b, m, n in ways]
        redrawn = [pair for pair in redrawn if (pair[0] != pair[1]).any()]
        redrawn = rng.sample(redrawn, min(STARTS, len(redrawn)))
        found = [[is_accepted(*pair) for pair in pairs] for pairs in (redrawn, one, both)]
        yield " | ".join(f"{group.count(True)} of {len(group) - group.count(None)}" for group in found)


def main(arguments: Sequence[str]) -> int:
    names, directory = list(arguments), None
    if "--fonts" in names:
        at = names.index("--fonts")
        directory = Path(names[at + 1]).resolve()
        del names[at : at + 2]
    wrong = 0
    print("Accepted, of words and fonts that were tuned on, and of others:\n")
    print(
        "| renderer | scale | text | px | drawn again | one change | both | others: drawn again | one change | both |"
    )
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in names or SCALES:
        with tempfile.TemporaryDirectory(prefix="drawing-") as made:
            renderer = Renderer(name, Path(made), directory)
            for scale in SCALES[name]:
                for lcd in (False, True):
                    halves = []
                    for which, (fonts, pairs) in SETS.items():
                        changed = cases(pairs, name, widgets=which == "checked")
                        halves.append([*counts(renderer, scale, lcd, installed(name, fonts, directory), changed)])
                    for px, *found in zip(SIZES, *halves, strict=True):
                        kind = "LCD" if lcd else "grey"
                        print(f"| {name} | {scale} | {kind} | {px:.3g} | {' | '.join(found)} |", flush=True)
                        wrong += sum(int(part.split()[0]) for half in found for part in half.split(" | ")[1:])
    print(f"\naccepted differences: {wrong}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
