"""The report as one file: the session's page, and each run in a template that is inert until it is opened.

Each picture is there once, as lossless WebP, however often it is shown; the script puts it where it belongs. A browser
that runs no script shows the list of tests and says so: the folder form needs no script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path

from PIL import Image

from pytest_vnc_use.report.page.model import RunLine
from pytest_vnc_use.report.page.run_view import ShownRun, show_run
from pytest_vnc_use.report.page.session_view import NOTHING_TOLD, Told, session_view
from pytest_vnc_use.report.page.writing import Assets, Source, shared_text
from pytest_vnc_use.report.templates import attribute, render_page
from pytest_vnc_use.runs.folder import RunFolder, write_atomically


class _Pictures:
    """The pictures of a file by name, each once."""

    def __init__(self) -> None:
        self.encoded: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, place: str, png: bytes) -> None:
        """Keep a picture, which is known by `place` from now on; one that is damaged stays out."""
        name = hashlib.sha256(png).hexdigest()[:20]
        if name not in self.encoded:
            try:
                self.encoded[name] = b64encode(_webp(png)).decode("ascii")
            except (OSError, SyntaxError, ValueError):  # the page says beside it that it is damaged
                return
        self._names[place] = name

    def source(self, base: str, address: str, attribute_name: str = "src") -> str:
        """Return the attribute from which the script takes the name of a picture."""
        return attribute(f"data-{attribute_name}", self._names.get(f"{base}/{address}", ""))


def write_one_file(runs: Iterable[Path], target: Path, told: Told = NOTHING_TOLD) -> Path:
    """Write the report of these runs, and of what sessions told, into one file. Raises RunFolderUnwritable."""
    pictures, parts = _Pictures(), []
    shown: list[tuple[ShownRun, str]] = []
    for number, path in enumerate(runs, start=1):
        key = f"run-{number}"
        run = _show(path, key, pictures)
        source = partial(pictures.source, key)
        assets = Assets(index="#", prefix=f"{key}-", is_part=True)
        parts.append((key, render_page("part", view=run.view, assets=assets, src=source)))
        shown.append((replace(run, view=replace(run.view, claims=(), printed=(), failure="")), f"#{key}"))

    def source_of(run: RunLine) -> Source:
        return partial(pictures.source, run.page.removeprefix("#"))

    page = render_page(
        "one_file",
        view=session_view(shown, told),
        parts=parts,
        pictures=pictures.encoded,
        assets=Assets(style=shared_text("report.css")),
        script=shared_text("report.js"),
        src_of=source_of,
        src=None,
    )
    write_atomically(target, page.encode("utf-8", "replace"))
    return target


def _show(path: Path, key: str, pictures: _Pictures) -> ShownRun:
    run = show_run(path)
    for address, png in run.shots.made.items():
        pictures.add(f"{key}/{address}", png)
    for ref in run.shots.used:
        pictures.add(f"{key}/screens/{ref.digest}.png", RunFolder(path).load_png(ref))
    run.shots.made.clear()
    return run


def _webp(png: bytes) -> bytes:
    with Image.open(BytesIO(png), formats=["PNG"]) as image:
        content = BytesIO()
        kind = "RGBA" if image.mode == "P" else "RGB"  # shading is the one picture with a palette
        image.convert(kind).save(content, "WEBP", lossless=True, method=1, quality=50, exact=True)
    return content.getvalue()
