"""A run as one block of HTML, for the cell that pytest-html gives a test.

It has the sections of the run's page. Its screenshots are backgrounds, because
pytest-html's script uses the first `img` of the cell, and a browser decodes them only
when visible. `block_style` belongs once into the report.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from pytest_vnc_use.files import replace_file
from pytest_vnc_use.report.annotate import open_png
from pytest_vnc_use.report.pages import Assets, EmbeddedShots, shared_text
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.runs.directory import FinishedTest
from pytest_vnc_use.runs.json_lines import read_whole

_THUMB = (320, 200)
_BLOCK_STYLE = """
.page { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px; margin: 4px 0 12px; cursor: auto; }
.step, .claim { content-visibility: visible; }
.last { max-width: 960px; }
.enlarge > summary { display: block; list-style: none; cursor: zoom-in; }
.enlarge[open] > summary { position: fixed; inset: 0; z-index: 1000; background: rgb(0 0 0 / 85%); cursor: zoom-out; }
.enlarge[open] .canvas { width: min(100vw, 160vh); margin: auto; }
"""

Link = Callable[[bytes], str]
"""A function from a PNG to the URL that shows it."""


def block_style() -> str:
    """Return the style of all blocks, as HTML: that of the pages, in its light colours,
    for blocks alone.
    """
    style = shared_text("report.css").replace(":root {", "& {", 1)
    return f"<style>.vnc-run {{ {style} {_BLOCK_STYLE} }}</style>"


def run_html(
    run: Path,
    *,
    link: Link,
    machine: str = "",
    page: str = "",
    ended: FinishedTest | None = None,
) -> str:
    """Return the block of a run, with what is missing or damaged in the run directory.

    `link` makes the URL of each screenshot. `machine` is the one that has the run
    directory, if the reader may be on another. `page` is the URL of the run's page,
    `ended` the test's result if the run directory has none yet.
    """
    view = show_run(run, compare="deciding", ended=ended).view
    if machine:
        view = replace(view, facts=[*view.facts, ("machine", machine)])
    pics = EmbeddedShots(lambda address: link(read_whole(run / address)))
    anchor = f"{page}#step-" if page else ""
    assets = Assets(anchor=anchor, is_block=True, directory=str(run))
    return render("block", view=view, assets=assets, pics=pics, page=page)


def thumbnail(png: bytes) -> str:
    """Return a small copy of a screenshot as a URL. Raises RunDirectoryError if it is
    damaged.
    """
    content = BytesIO()
    image = open_png(png)
    small = image.convert("RGB").reduce(max(image.width // (2 * _THUMB[0]), 1))
    small.thumbnail(_THUMB)
    small.save(content, "WEBP", quality=75, method=0)
    return data_uri(content.getvalue(), "image/webp")


@dataclass(frozen=True)
class AssetLink:
    """A link to files in the directory `prefix`, such as `assets/`, that lies beside a
    report.

    Screenshots are only noted, by file name, because another process or machine may
    write the report.
    """

    prefix: str
    screenshots: dict[str, bytes] = field(default_factory=dict)

    def __call__(self, png: bytes) -> str:
        """Note a screenshot, and return its URL."""
        name = f"{hashlib.sha256(png).hexdigest()}.png"
        self.screenshots[name] = png
        return self.prefix + name


def keep_asset(file: Path, png: bytes, original: Path | None = None) -> None:
    """Store a screenshot at `file` unless it exists: as a hard link to `original` if
    that has it, else as a copy.

    Processes may write at the same time. Raises OSError.
    """
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        if original is not None and read_whole(original, len(png)) == png:
            os.link(original, file)
            return
    except FileExistsError:
        return
    except OSError:
        # it is on another machine or another disk, or there are no hard links
        pass
    replace_file(file, png)
