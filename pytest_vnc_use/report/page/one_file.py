"""The report as one file: the session's page, and each run in a template that is inert until it is opened.

Each picture is there once, even if it is shown often: a screen as lossless WebP, whole or as a patch of another. The
script inserts it when it becomes visible. A browser that runs no script shows the list of tests and says so: the folder
form needs no script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_vnc_use.report.page.model import RunLine
from pytest_vnc_use.report.page.run_view import RunPage, show_run
from pytest_vnc_use.report.page.session_view import NO_RESULTS, KnownResults, session_view
from pytest_vnc_use.report.page.writing import Assets, Source, shared_text
from pytest_vnc_use.report.templates import attribute, render_page
from pytest_vnc_use.runs.folder import write_atomically


@dataclass(frozen=True)
class _Inert:
    """A picture as text, and its kind: webp or png."""

    kind: str
    text: str


class _Pictures:
    """The pictures of a file by name, each once."""

    def __init__(self) -> None:
        self.inert: dict[str, _Inert] = {}
        self._names: dict[str, str] = {}

    def add(self, place: str, content: bytes) -> None:
        """Keep a picture, which is known by `place` from now on."""
        name = hashlib.sha256(content).hexdigest()[:20]
        self.inert[name] = _Inert(place.rpartition(".")[2], b64encode(content).decode("ascii"))
        self._names[place] = name

    def source(self, base: str, address: str, attribute_name: str = "src") -> str:
        """Return the attribute from which the script takes the name of a picture."""
        return attribute(f"data-{attribute_name}", self._names.get(f"{base}/{address}", ""))


def write_one_file(runs: Iterable[Path], target: Path, known: KnownResults = NO_RESULTS) -> Path:
    """Write the report of these runs and of the results of sessions into one file. Raises RunFolderUnwritable."""
    pictures, parts = _Pictures(), []
    pages: list[tuple[RunPage, str]] = []
    for number, path in enumerate(runs, start=1):
        key = f"run-{number}"
        run = _show(path, key, pictures)
        source = partial(pictures.source, key)
        assets = Assets(index="#", prefix=f"{key}-", is_part=True)
        parts.append((key, render_page("part", view=run.view, assets=assets, src=source)))
        pages.append((replace(run, view=replace(run.view, claims=(), printed=(), failure="")), f"#{key}"))

    def source_of(run: RunLine) -> Source:
        return partial(pictures.source, run.page.removeprefix("#"))

    page = render_page(
        "one_file",
        view=session_view(pages, known),
        parts=parts,
        pictures=pictures.inert,
        assets=Assets(style=shared_text("report.css")),
        script=shared_text("report.js"),
        src_of=source_of,
        src=None,
    )
    write_atomically(target, page.encode("utf-8", "replace"))
    return target


def _show(path: Path, key: str, pictures: _Pictures) -> RunPage:
    run = show_run(path, pack=True)
    for address, content in run.made.items():
        pictures.add(f"{key}/{address}", content)
    run.made.clear()
    return run
