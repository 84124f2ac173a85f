"""The pages as files: `index.html` of a session, and one in each run's directory; or
all of them in one file.

    DIR/index.html           the session
    DIR/report.css, .js      what all pages share
    DIR/RUN/index.html       a run; its images are RUN/screens/ (the run's) and RUN/page/ (made for the page)

If DIR is where the run directories are, nothing is copied; else their screenshots are,
as WebP: lossless, but for tests that passed. Every file is written whole or not at all,
index.html last. No page needs its script.

The page of a run is written when its test has ended, in the process that ran it. What
the page of the session shows of that run is in RUN/page/summary.json.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from markupsafe import Markup

from pytest_vnc_use.errors import RunDirectoryError, RunDirectoryUnwritable
from pytest_vnc_use.files import reason_of
from pytest_vnc_use.report.phrases import free_name, without_parent_path
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.report.screenshots import ADDED, Compare, Shot, data_uri
from pytest_vnc_use.report.session_view import (
    NO_RESULTS,
    KnownResults,
    RunSummary,
    session_view,
    summary_of,
)
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.runs import logger as messages
from pytest_vnc_use.runs.directory import (
    VIDEO_FILE,
    from_json,
    to_json,
    write_atomically,
)
from pytest_vnc_use.runs.json_lines import read_json

INDEX = "index.html"
SHARED = ("report.css", "report.js")
_SIGNATURES = {
    INDEX: b'content="pytest-vnc-use"',
    "report.css": b"--ground: #fff; --raised",
    "report.js": b"a report's pages",
}
"""A text near the start of each file of a report."""
_SIGNATURE_BYTES = 64_000
_TRACE = "trace.jsonl"
_SUMMARY = f"{ADDED}/summary.json"
_FEW_RUNS = 20
"""The number of runs below which starting other processes takes longer than it
saves.
"""
T = TypeVar("T")
_UNSAFE_CHARACTERS = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Assets:
    """The surroundings of a run or a session on a page.

    `base` is where the shared files are, unless `style` has their text; `index` is the
    URL of the session's page. `prefix` makes the names of steps unique if several runs
    are on one page; `anchor` and the number of a step are its URL, "" if it has none.
    `is_block` is a run in another report; `directory` is the run's there. `messages` is
    the URL of the messages that the run sent, "" if they are not beside the page.
    """

    base: str = ""
    index: str = ""
    prefix: str = ""
    anchor: str = "#step-"
    style: str | None = None
    is_block: bool = False
    directory: str = ""
    messages: str = ""


class LinkedShots:
    """The HTML of screenshots that are files; `base` is the URL of their run's
    directory.
    """

    def __init__(self, base: str = "") -> None:
        self._base = base

    def html(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an image, which is loaded when it becomes visible."""
        template = (
            '<img class="pic {kind}" src="{url}" width="{shot.width}"'
            ' height="{shot.height}" alt="{shot.about}" loading="lazy"'
            ' decoding="async">'
        )
        return Markup(template).format(kind=kind, url=self.url(shot.address), shot=shot)

    def url(self, address: str) -> str:
        """Return the URL of a file of the run."""
        return self._base + address

    def svg(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an element of an SVG."""
        template = (
            '<image class="pic {kind}" href="{url}" width="{shot.width}"'
            ' height="{shot.height}"/>'
        )
        return Markup(template).format(kind=kind, url=self.url(shot.address), shot=shot)


class EmbeddedShots:
    """The HTML of one run's screenshots as classes of a style: each is stored once, and
    decoded when visible.

    `url_of` makes the URL in the style from a screenshot's address. `rules` are those
    of all screenshots so far, by class; `used` are the classes that were shown.
    """

    def __init__(self, url_of: Callable[[str], str]) -> None:
        self._url_of = url_of
        self._names: dict[str, str] = {}
        self.rules: dict[str, str] = {}
        self.used: set[str] = set()

    def html(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an element with a background."""
        name = self._names.get(shot.address)
        if name is None:
            url = self._url_of(shot.address)
            name = f"p{hashlib.sha256(url.encode()).hexdigest()[:10]}"
            size = f"aspect-ratio:{shot.width}/{shot.height};--width:{shot.width}px"
            self._names[shot.address] = name
            self.rules[name] = f".{name}{{{size};background-image:url({url})}}"
        self.used.add(name)
        label = Markup('aria-hidden="true"')
        if shot.about:
            label = Markup('role="img" aria-label="{}"').format(shot.about)
        return Markup('<i class="pic {} {}" {}></i>').format(name, kind, label)

    def url(self, address: str) -> str:
        """Return a file of the run as a data URL."""
        return self._url_of(address)

    def svg(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an element of an SVG."""
        template = '<foreignObject width="{}" height="{}">{}</foreignObject>'
        return Markup(template).format(shot.width, shot.height, self.html(shot, kind))

    def style(self) -> str:
        """Return the rules of all screenshots so far."""
        return "\n".join(self.rules.values())


def write_report(
    runs: Sequence[Path],
    directory: Path,
    known_results: KnownResults = NO_RESULTS,
    *,
    one_file: bool = False,
    note_progress: Callable[[int], object] | None = None,
) -> Path:
    """Write the pages of a session and of these runs into a directory, on all cores,
    and return the path of the first page.

    With `one_file` it is a single file. `note_progress` is called with the number of
    runs that are done. Raises RunDirectoryUnwritable, also if a file with the same name
    is not of a report.
    """
    if one_file:
        with _report_in(directory, [INDEX]):
            parts = _on_all_cores(_part_of, list(enumerate(runs, 1)), note_progress)
            return _write_index(directory, _one_file(parts, known_results))
    with _report_in(directory, _SIGNATURES):
        pages = _on_all_cores(_write_run, _targets(runs, directory), note_progress)
        return _write_session_page(directory, list(pages), known_results)


def write_session(
    runs: Iterable[Path], directory: Path, known_results: KnownResults
) -> Path:
    """Write the page of a session that has ended into the directory of its runs, and
    return its path.

    The page of a run is written only if it is missing, as its worker crashed, or it is
    in another directory. Raises RunDirectoryUnwritable as `write_report` does.
    """
    pages = []
    with _report_in(directory, _SIGNATURES):
        for run, target in _targets(runs, directory):
            kept = _kept_summary(run) if target == run else None
            pages.append(kept or _write_run(run, target, compare="failed"))
        return _write_session_page(directory, pages, known_results)


def write_run_page(run: Path, directory: Path) -> None:
    """Write the page of a run whose test has ended, if the run is in the `directory` of
    its session. What cannot be written is left to `write_session`.
    """
    if not _is_in(run, directory):
        return
    _write_run(run, run, compare="failed")
    # so that it can be read before the session ends
    for name in SHARED:
        if not (directory / name).exists():
            write_atomically(directory / name, shared_text(name).encode())


@contextmanager
def _report_in(directory: Path, names: Iterable[str]) -> Iterator[None]:
    """Make the directory for the files of a report. Raises RunDirectoryUnwritable, also
    for an OSError.
    """
    try:
        _check_replaceable(directory, names)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except OSError as exc:
        raise RunDirectoryUnwritable(
            f"cannot write the report into {str(directory)!r}: {reason_of(exc)}"
        ) from exc


def _write_index(directory: Path, html: str) -> Path:
    write_atomically(directory / INDEX, html.encode("utf-8", "replace"))
    return directory / INDEX


def _check_replaceable(directory: Path, names: Iterable[str]) -> None:
    """Raise RunDirectoryUnwritable if there is a file of one of these names that
    belongs to no report.
    """
    for name in names:
        file = directory / name
        if not file.is_file():
            continue
        if _SIGNATURES[name] not in file.read_bytes()[:_SIGNATURE_BYTES]:
            raise RunDirectoryUnwritable(
                f"{str(file)!r} is no part of a report, and stays as it is. Name"
                " another directory"
            )


def shared_text(name: str) -> str:
    """Return the style or the script that all pages share."""
    return files(__package__).joinpath(name).read_text("utf-8")


def written_runs(directories: Sequence[str]) -> list[Path]:
    """Return the run directories that are on this machine; a session on several
    machines may have others.
    """
    paths = map(Path, dict.fromkeys(directories))
    return [path for path in paths if (path / _TRACE).is_file()]


def _on_all_cores(
    work: Callable[..., T],
    calls: Sequence[tuple[object, ...]],
    note_progress: Callable[[int], object] | None,
) -> Iterator[T]:
    """Yield what `work` returns for the arguments of each call, in order. Raises
    RunDirectoryUnwritable if a process was killed.
    """
    cores = os.cpu_count() or 1
    if cores == 1 or len(calls) < _FEW_RUNS:
        yield from _counted(itertools.starmap(work, calls), note_progress)
        return
    pool = ProcessPoolExecutor(
        min(cores, len(calls)),
        # a fork would copy the threads' locks
        get_context("spawn"),
        # Ctrl-C is for this process, which then ends the others
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        with pool:
            results = pool.map(work, *zip(*calls, strict=True))
            yield from _counted(results, note_progress)
    except BrokenProcessPool as exc:
        raise RunDirectoryUnwritable(
            "a process that wrote pages was killed. Free memory, or name fewer runs"
        ) from exc


def _counted(
    results: Iterable[T], note_progress: Callable[[int], object] | None
) -> Iterator[T]:
    for number, result in enumerate(results, 1):
        if note_progress:
            note_progress(number)
        yield result


def _write_session_page(
    directory: Path, runs: Sequence[RunSummary], known_results: KnownResults
) -> Path:
    """Write the page of a session, and the files that all pages share."""
    for name in SHARED:
        write_atomically(directory / name, shared_text(name).encode())
    html = render(
        "session",
        view=session_view(runs, known_results),
        assets=Assets(),
        pics_of=lambda run: LinkedShots(run.page.removesuffix(INDEX)),
    )
    return _write_index(directory, html)


def _targets(runs: Iterable[Path], directory: Path) -> list[tuple[Path, Path]]:
    """Return each run with the directory of its page: the run's if it is within
    `directory`, else one with a free name.
    """
    taken: set[str] = set()
    targets = []
    for run in runs:
        target = run if _is_in(run, directory) else _free_target(run, directory, taken)
        targets.append((run, target))
    return targets


def _is_in(run: Path, directory: Path) -> bool:
    return run.resolve() == directory.resolve() / run.name


def _free_target(run: Path, directory: Path, taken: set[str]) -> Path:
    name = _UNSAFE_CHARACTERS.sub("-", run.name).strip(".") or "run"
    target = directory / free_name(name, taken)
    while (target / _TRACE).exists():
        # it is the directory of another run
        target = directory / free_name(name, taken)
    return target


def _write_run(run: Path, target: Path, compare: Compare = "all") -> RunSummary:
    """Write the page of one run and its images; return the run as a session lists it.

    A page that cannot be written does not stop the other pages: the returned run has
    the reason.
    """
    is_elsewhere = target != run
    page = show_run(run, compare=compare, copy=is_elsewhere)
    summary = summary_of(page, f"{quote(os.fsencode(target.name))}/{INDEX}")
    assets = Assets("../", f"../{INDEX}")
    if not is_elsewhere and (run / messages.FILE).is_file():
        assets = replace(assets, messages=messages.FILE)
    try:
        _make_directory(target)
        for inner in {Path(address).parent for address in page.added}:
            _make_directory(target / inner)
        for address, content in page.added.items():
            write_atomically(target / address, content)
        html = render("run", view=page.view, assets=assets, pics=LinkedShots())
        _write_index(target, html)
        if not is_elsewhere:
            _keep_summary(run, summary)
    except (OSError, RunDirectoryError) as exc:
        return summary_of(page, "", without_parent_path(exc, target))
    return summary


def _keep_summary(run: Path, summary: RunSummary) -> None:
    _make_directory(run / ADDED)
    text = json.dumps(to_json(summary), ensure_ascii=False)
    write_atomically(run / _SUMMARY, text.encode("utf-8", "replace"))


def _kept_summary(run: Path) -> RunSummary | None:
    """Return the summary that was written with the page of a run; None without one, and
    if the run continued since.
    """
    file = run / _SUMMARY
    try:
        if file.stat().st_mtime_ns < (run / _TRACE).stat().st_mtime_ns:
            return None
        summary: RunSummary = from_json(RunSummary, read_json(file, "a summary"))
    except (OSError, RunDirectoryError):
        return None
    return summary


def _make_directory(directory: Path) -> None:
    """Make a directory if there is none. Raises RunDirectoryUnwritable if it is a link:
    it may lead anywhere.
    """
    if directory.is_symlink():
        raise RunDirectoryUnwritable(
            f"{directory.name!r} must be a directory, it is a symbolic link"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _part_of(number: int, run: Path) -> tuple[str, EmbeddedShots, RunSummary]:
    """Return the part of a page that shows a run, its screenshots, and the run as a
    session lists it.
    """
    key = f"run-{number}"
    page = show_run(run, copy=True)
    pics = EmbeddedShots(partial(_embedded, page.added))
    assets = Assets(
        index="#",
        prefix=f"{key}-",
        anchor=f"#{key}-step-",
        style=shared_text("report.css"),
    )
    html = render("part", view=page.view, assets=assets, pics=pics)
    if page.view.last and not page.view.last.problem:
        pics.html(page.view.last)  # for the list of tests
    # these images are in the rules of `pics` by now
    page.added.clear()
    return html, pics, summary_of(page, f"#{key}")


def _one_file(
    parts: Iterable[tuple[str, EmbeddedShots, RunSummary]], known_results: KnownResults
) -> str:
    """Return the page of a session with its runs, of which the one in the URL is
    shown.
    """
    runs: list[RunSummary] = []
    sections: dict[str, str] = {}
    rules: dict[str, str] = {}
    shots: dict[str, EmbeddedShots] = {}
    classes_by_run: dict[str, set[str]] = {}
    users = Counter[str]()
    for html, pics, run in parts:
        key = run.page.removeprefix("#")
        runs.append(run)
        sections[key] = html
        rules |= pics.rules
        shots[key] = pics
        classes_by_run[key] = {*pics.used}
        users.update(pics.used)
        pics.used.clear()  # from now on it has what the session's list shows

    @cache
    def shared() -> set[str]:
        listed = set[str]().union(*(pics.used for pics in shots.values()))
        return {name for name in rules if name in listed or users[name] > 1}

    def style_of(key: str) -> str:
        """Return the rules of the screenshots that only this run shows, or with "" of
        those that several or all do.
        """
        names = classes_by_run[key] - shared() if key else shared()
        return "\n".join(rules[name] for name in sorted(names))

    return render(
        "one_file",
        view=session_view(runs, known_results),
        parts=sections.items(),
        assets=Assets(style=shared_text("report.css")),
        script=shared_text("report.js"),
        style_of=style_of,
        pics_of=lambda run: shots[run.page.removeprefix("#")],
    )


def _embedded(added: Mapping[str, bytes], address: str) -> str:
    kind = "video" if address == VIDEO_FILE else "image"
    suffix = address.rpartition(".")[2]
    return data_uri(added[address], f"{kind}/{suffix}")
