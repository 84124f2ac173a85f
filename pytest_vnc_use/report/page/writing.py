"""The pages as files: `index.html` of a session, and one in each run's folder.

    FOLDER/index.html           the session
    FOLDER/report.css, .js      what all pages share
    FOLDER/RUN/index.html       a run; its pictures are RUN/screens/ (its own) and RUN/page/ (made for the page)

If FOLDER is where the run folders are, nothing is copied; else their pictures are, as lossless WebP. Every file is
written whole or not at all, index.html last.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable
from pytest_vnc_use.report.page.model import RunLine
from pytest_vnc_use.report.page.run_view import RunPage, show_run
from pytest_vnc_use.report.page.session_view import NO_RESULTS, KnownResults, session_view
from pytest_vnc_use.report.page.text import free_name, without_place
from pytest_vnc_use.report.templates import attribute, render_page
from pytest_vnc_use.runs import logger as messages
from pytest_vnc_use.runs.folder import write_atomically

INDEX = "index.html"
SHARED = ("report.css", "report.js")
_OURS = {
    INDEX: (b'content="pytest-vnc-use"', b'href="report.css"', b"--ground: #fff; --raised"),
    "report.css": (b"--ground: #fff; --raised",),
    "report.js": (b"a report's pages",),
}
"""A text near the beginning of each file of a report, also of older versions."""
_BEGINNING = 64_000
_FOREIGN = re.compile(r"[^\w.-]+", re.ASCII)

Source = Callable[..., str]
"""A function from the address of a picture, and the attribute that takes it, to that attribute as HTML."""


@dataclass(frozen=True)
class Assets:
    """The surroundings of a page: the place or the text of the shared files, and the address of the session's page.

    `prefix` makes the names of steps unique if several runs stand on one page.
    """

    folder: str = ""
    index: str = ""
    prefix: str = ""
    style: str | None = None
    is_part: bool = False


def write_report(
    runs: Iterable[Path], folder: Path, known: KnownResults = NO_RESULTS, *, one_file: bool = False, quick: bool = False
) -> Path:
    """Write the pages of a session and of these runs into a folder, and return the path of the first page.

    With `one_file` it is a single file. `quick` is that of `show_run`. Raises RunFolderUnwritable, also if a file with
    the same name is no part of a report.
    """
    try:
        _check_replaceable(folder, [INDEX] if one_file else _OURS)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if one_file:
            from pytest_vnc_use.report.page.one_file import write_one_file

            return write_one_file(runs, folder / INDEX, known)
        return _write_folder(runs, folder, known, quick=quick)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot write the report into {str(folder)!r}: {exc}") from exc


def _check_replaceable(folder: Path, names: Iterable[str]) -> None:
    """Raise RunFolderUnwritable if there is a file of one of these names that belongs to no report."""
    for name in names:
        if not (file := folder / name).is_file():
            continue
        with file.open("rb") as content:
            beginning = content.read(_BEGINNING)
        if not any(mark in beginning for mark in _OURS[name]):
            raise RunFolderUnwritable(f"{str(file)!r} is no part of a report, and stays as it is: name another folder")


def _write_folder(runs: Iterable[Path], folder: Path, known: KnownResults, *, quick: bool) -> Path:
    for name in SHARED:
        write_atomically(folder / name, shared_text(name).encode())
    pages: list[tuple[RunPage, str]] = []
    taken: set[str] = set()
    for run in runs:
        target = _target(run, folder, taken)
        written = _write_run(run, target, quick=quick)
        pages.append((written, "" if written.unwritten else f"{quote(os.fsencode(target.name))}/{INDEX}"))
    values = {"assets": Assets(), "src": None, "src_of": _source_of}
    page = render_page("session", view=session_view(pages, known), **values)
    write_atomically(folder / INDEX, page.encode("utf-8", "replace"))
    return folder / INDEX


def shared_text(name: str) -> str:
    """Return the style or the script that all pages share."""
    return files(__package__).joinpath(name).read_text("utf-8")


def _target(run: Path, folder: Path, taken: set[str]) -> Path:
    """Return the folder of a run's page: the run's own if it lies here, else one with a name that no run has."""
    if run.resolve().parent == folder.resolve():
        return folder / run.name
    name = _FOREIGN.sub("-", run.name).strip(".") or "run"
    while ((target := folder / free_name(name, taken)) / "trace.jsonl").exists():
        pass  # another run lies there
    return target


def _write_run(run: Path, target: Path, *, quick: bool) -> RunPage:
    """Write the page of one run and its pictures; return the run without the pictures.

    A page that cannot be written does not stop the other pages: the returned run says why.
    """
    is_elsewhere = target.resolve() != run.resolve()
    run_page = show_run(run, quick=quick, pack=is_elsewhere)
    if not is_elsewhere and (run / messages.FILE).is_file():
        run_page = replace(run_page, view=replace(run_page.view, messages=messages.FILE))
    view = replace(run_page.view, claims=(), printed=(), failure="")
    try:
        _write_files(run_page, target)
    except (OSError, RunFolderError) as exc:
        run_page, view = replace(run_page, unwritten=without_place(exc, target)), replace(view, deciding=None)
    run_page.made.clear()
    return replace(run_page, view=view)


def _write_files(run_page: RunPage, target: Path) -> None:
    """Write the page of one run and its pictures. Raises OSError, RunFolderError."""
    _make_own(target)
    for inner in {Path(address).parent for address in run_page.made}:
        _make_own(target / inner)
    for address, content in run_page.made.items():
        write_atomically(target / address, content)
    assets = Assets("../", f"../{INDEX}")
    page = render_page("run", view=run_page.view, assets=assets, src=partial(_source, ""))
    write_atomically(target / INDEX, page.encode("utf-8", "replace"))


def _make_own(folder: Path) -> None:
    """Make a folder if there is none. Raises RunFolderUnwritable if it is a link: it may lead anywhere."""
    if folder.is_symlink():
        raise RunFolderUnwritable(f"{folder.name!r} must be a folder, it is a symbolic link")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _source(base: str, address: str, name: str = "src") -> str:
    return attribute(name, base + address)


def _source_of(run: RunLine) -> Source:
    return partial(_source, run.page.removesuffix(INDEX))


def written_runs(folders: Sequence[str]) -> list[Path]:
    """Return the run folders that are on this machine; a session on several machines may have others."""
    return [path for path in map(Path, dict.fromkeys(folders)) if (path / "trace.jsonl").is_file()]
