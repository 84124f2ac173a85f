"""The pages as files: `index.html` of a session, and one in each run's directory; or
all of them in one file.

    DIR/index.html           the session
    DIR/report.css, .js      what all pages share
    DIR/RUN/index.html       a run; its images are RUN/screens/ (the run's) and RUN/page/ (made for the page)

If DIR is where the run directories are, nothing is copied; else their screenshots are,
as WebP: lossless, but for tests that passed. Every file is written whole or not at all,
index.html last. No page needs its script.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from pytest_vnc_use.errors import RunDirectoryError, RunDirectoryUnwritable
from pytest_vnc_use.report.phrases import free_name, without_parent_path
from pytest_vnc_use.report.run_view import RunPage, show_run
from pytest_vnc_use.report.screenshots import Shot, data_uri
from pytest_vnc_use.report.session_view import NO_RESULTS, KnownResults, session_view
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.runs import logger as messages
from pytest_vnc_use.runs.directory import VIDEO_FILE, write_atomically

INDEX = "index.html"
SHARED = ("report.css", "report.js")
_SIGNATURES = {
    INDEX: b'content="pytest-vnc-use"',
    "report.css": b"--ground: #fff; --raised",
    "report.js": b"a report's pages",
}
"""A text near the start of each file of a report."""
_SIGNATURE_BYTES = 64_000
_UNSAFE_CHARACTERS = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Assets:
    """The surroundings of a run or a session on a page.

    `base` is where the shared files are, unless `style` has their text; `index` is the
    URL of the session's page. `prefix` makes the names of steps unique if several runs
    are on one page; `anchor` and the number of a step are its URL, "" if it has none.
    `is_block` is a run in another report; `directory` is the run's there.
    """

    base: str = ""
    index: str = ""
    prefix: str = ""
    anchor: str = "#step-"
    style: str | None = None
    is_block: bool = False
    directory: str = ""


class LinkedShots:
    """The HTML of screenshots that are files; `base` is the URL of their run's
    directory.
    """

    def __init__(self, base: str = "") -> None:
        self._base = base

    def html(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an image, which is loaded when it becomes visible."""
        template = (
            '<img class="pic {}" src="{}" width="{}" height="{}" alt="{}"'
            ' loading="lazy" decoding="async">'
        )
        return Markup(template).format(
            kind, self._base + shot.address, shot.width, shot.height, shot.about
        )

    def url(self, address: str) -> str:
        """Return the URL of a file of the run."""
        return self._base + address

    def svg(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an element of an SVG."""
        template = '<image class="pic {}" href="{}" width="{}" height="{}"/>'
        return Markup(template).format(
            kind, self._base + shot.address, shot.width, shot.height
        )


class EmbeddedShots:
    """The HTML of one run's screenshots as classes of a style: each is stored once, and
    decoded when visible.

    `url_of` makes the URL in the style from a screenshot's address. `rules` may be
    those of several runs, by the class; `used` are the classes of this one.
    """

    def __init__(self, rules: dict[str, str], url_of: Callable[[str], str]) -> None:
        self._rules, self._url_of = rules, url_of
        self._names: dict[str, str] = {}
        self.used: set[str] = set()

    def html(self, shot: Shot, kind: str = "") -> str:
        """Return a screenshot as an element with a background."""
        if (name := self._names.get(shot.address)) is None:
            url = self._url_of(shot.address)
            name = self._names[shot.address] = (
                f"p{hashlib.sha256(url.encode()).hexdigest()[:10]}"
            )
            size = f"aspect-ratio:{shot.width}/{shot.height};--width:{shot.width}px"
            self._rules[name] = f".{name}{{{size};background-image:url({url})}}"
        self.used.add(name)
        label = (
            Markup('role="img" aria-label="{}"').format(shot.about)
            if shot.about
            else Markup('aria-hidden="true"')
        )
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
        return "\n".join(self._rules.values())


def write_report(
    runs: Iterable[Path],
    directory: Path,
    known_results: KnownResults = NO_RESULTS,
    *,
    one_file: bool = False,
    quick: bool = False,
) -> Path:
    """Write the pages of a session and of these runs into a directory, and return the
    path of the first page.

    With `one_file` it is a single file. With `quick` the screens of tests that did not
    fail are not compared: that takes most of the time. Raises RunDirectoryUnwritable,
    also if a file with the same name is not of a report.
    """
    try:
        _check_replaceable(directory, [INDEX] if one_file else _SIGNATURES)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        page = (
            _one_file(runs, known_results)
            if one_file
            else _directory(runs, directory, known_results, quick=quick)
        )
        write_atomically(directory / INDEX, page.encode("utf-8", "replace"))
    except OSError as exc:
        raise RunDirectoryUnwritable(
            f"cannot write the report into {str(directory)!r}: {exc}"
        ) from exc
    return directory / INDEX


def _check_replaceable(directory: Path, names: Iterable[str]) -> None:
    """Raise RunDirectoryUnwritable if there is a file of one of these names that
    belongs to no report.
    """
    for name in names:
        file = directory / name
        if (
            file.is_file()
            and _SIGNATURES[name] not in file.read_bytes()[:_SIGNATURE_BYTES]
        ):
            problem = (
                f"{str(file)!r} is no part of a report, and stays as it is. Name"
                " another directory"
            )
            raise RunDirectoryUnwritable(problem)


def shared_text(name: str) -> str:
    """Return the style or the script that all pages share."""
    return files(__package__).joinpath(name).read_text("utf-8")


def written_runs(directories: Sequence[str]) -> list[Path]:
    """Return the run directories that are on this machine; a session on several
    machines may have others.
    """
    return [
        path
        for path in map(Path, dict.fromkeys(directories))
        if (path / "trace.jsonl").is_file()
    ]


def _directory(
    runs: Iterable[Path], directory: Path, known_results: KnownResults, *, quick: bool
) -> str:
    """Write the page of each run, and return that of the session."""
    for name in SHARED:
        write_atomically(directory / name, shared_text(name).encode())
    taken: set[str] = set()
    pages = [
        _write_run(run, _target(run, directory, taken), quick=quick) for run in runs
    ]
    return render(
        "session",
        view=session_view(pages, known_results),
        assets=Assets(),
        pics_of=lambda run: LinkedShots(run.page.removesuffix(INDEX)),
    )


def _target(run: Path, directory: Path, taken: set[str]) -> Path:
    """Return the directory of a run's page: the run's if it is within `directory`, else
    one with a free name.
    """
    if run.resolve().parent == directory.resolve():
        return directory / run.name
    name = _UNSAFE_CHARACTERS.sub("-", run.name).strip(".") or "run"
    while ((target := directory / free_name(name, taken)) / "trace.jsonl").exists():
        pass  # another run has it
    return target


def _write_run(run: Path, target: Path, *, quick: bool) -> RunPage:
    """Write the page of one run and its images; return the run as a session lists it.

    A page that cannot be written does not stop the other pages: the returned run has
    the reason.
    """
    is_elsewhere = target.resolve() != run.resolve()
    page = show_run(run, compare="failed" if quick else "all", copy=is_elsewhere)
    if not is_elsewhere and (run / messages.FILE).is_file():
        page = replace(page, view=replace(page.view, messages=messages.FILE))
    try:
        _make_directory(target)
        for inner in {Path(address).parent for address in page.added}:
            _make_directory(target / inner)
        for address, content in page.added.items():
            write_atomically(target / address, content)
        html = render(
            "run",
            view=page.view,
            assets=Assets("../", f"../{INDEX}"),
            pics=LinkedShots(),
        )
        write_atomically(target / INDEX, html.encode("utf-8", "replace"))
    except (OSError, RunDirectoryError) as exc:
        return page.without_content("", without_parent_path(exc, target))
    return page.without_content(f"{quote(os.fsencode(target.name))}/{INDEX}")


def _make_directory(directory: Path) -> None:
    """Make a directory if there is none. Raises RunDirectoryUnwritable if it is a link:
    it may lead anywhere.
    """
    if directory.is_symlink():
        raise RunDirectoryUnwritable(
            f"{directory.name!r} must be a directory, it is a symbolic link"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _one_file(runs: Iterable[Path], known_results: KnownResults) -> str:
    """Return the page of a session with its runs, of which the one in the URL is
    shown.
    """
    style = shared_text("report.css")
    pages: list[RunPage] = []
    sections: dict[str, str] = {}
    rules: dict[str, str] = {}
    shots: dict[str, EmbeddedShots] = {}
    for number, path in enumerate(runs, start=1):
        key = f"run-{number}"
        page = show_run(path, copy=True)
        shots[key] = EmbeddedShots(rules, partial(_embedded, page.added))
        assets = Assets(
            index="#", prefix=f"{key}-", anchor=f"#{key}-step-", style=style
        )
        sections[key] = render("part", view=page.view, assets=assets, pics=shots[key])
        if page.view.last and not page.view.last.problem:
            shots[key].html(page.view.last)  # for the list of tests
        pages.append(page.without_content(f"#{key}"))
    classes_by_run = {key: {*pics.used} for key, pics in shots.items()}
    for pics in shots.values():
        pics.used.clear()  # from now on it has what the session's list shows

    @cache
    def shared() -> set[str]:
        users = Counter(name for names in classes_by_run.values() for name in names)
        listed = {name for pics in shots.values() for name in pics.used}
        return {name for name in rules if name in listed or users[name] > 1}

    def style_of(key: str) -> str:
        """Return the rules of the screenshots that only this run shows, or with "" of
        those that several or all do.
        """
        names = classes_by_run[key] - shared() if key else shared()
        return "\n".join(rules[name] for name in sorted(names))

    return render(
        "one_file",
        view=session_view(pages, known_results),
        parts=sections.items(),
        assets=Assets(style=style),
        script=shared_text("report.js"),
        style_of=style_of,
        pics_of=lambda run: shots[run.page.removeprefix("#")],
    )


def _embedded(added: Mapping[str, bytes], address: str) -> str:
    kind = "video" if address == VIDEO_FILE else "image"
    suffix = address.rpartition(".")[2]
    return data_uri(added[address], f"{kind}/{suffix}")
