"""The runs of a test in pytest-html's report: beside it as files, or, in a self-contained report, within it.

A self-contained report of more than `MAX_MEGABYTES`, which browsers open slowly, keeps only thumbnails of the tests
that passed.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_vnc_use.plugin.state import PICTURES
from pytest_vnc_use.plugin.triage import machine_of

ASSETS = "assets/"
MAX_MEGABYTES = 40
_EXTRAS = "extras"
"""The attribute of a report that pytest-html shows; other plugins may add to it."""
_SMALL = "vnc_small"
"""In an extra of pytest-html: the same block with thumbnails. It is taken out before pytest-html sees it."""
_MEGABYTE = 1_000_000


def add_extras(report: pytest.TestReport, config: pytest.Config, runs: list[Path], sentence: str = "") -> None:
    """Put the runs into pytest-html's report; `sentence` is the test's message."""
    from pytest_vnc_use.report.html import AssetLink, run_html, thumbnail
    from pytest_vnc_use.report.screenshots import data_uri

    is_whole = config.getoption("self_contained_html")
    beside = Path(os.path.expandvars(config.getoption("htmlpath"))).expanduser().absolute().parent
    extras, pictures = [], []
    for run in runs:
        assets = AssetLink(ASSETS)
        block = partial(run_html, run, machine=machine_of(config), page=page_of(run, beside), sentence=sentence)
        fields = {"name": None, "format_type": "html", "mime_type": None, "extension": None}
        extras.append({**fields, "content": block(link=data_uri if is_whole else assets)})
        pictures += [(str(run.absolute()), name, png) for name, png in assets.pictures.items()]
        if is_whole and report.passed:
            extras[-1][_SMALL] = block(link=thumbnail)
    setattr(report, _EXTRAS, [*getattr(report, _EXTRAS, ()), *extras])
    setattr(report, PICTURES, pictures)


def page_of(run: Path, folder: Path) -> str:
    """Return the address of a run's page in a page that lies in `folder`."""
    try:
        way = os.path.relpath(run.absolute() / "index.html", folder)
    except ValueError:  # on Windows, another drive
        return (run.absolute() / "index.html").as_uri()
    return quote(way.replace(os.sep, "/"))


def pytest_configure(config: pytest.Config) -> None:
    """Register what keeps the pictures, if there is a report and this process writes it."""
    html_path = config.getoption("htmlpath", None)
    if html_path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_PicturesBesideReport(Path(html_path)))
        config.pluginmanager.register(_SizeOfReport(MAX_MEGABYTES))


class _PicturesBesideReport:
    """A keeper of pictures beside pytest-html's report: the runs' own files, or copies if these are elsewhere."""

    def __init__(self, html_path: Path) -> None:
        self._folder = Path(os.path.expandvars(html_path)).expanduser().absolute().parent / ASSETS
        self._has_blocks = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the pictures that the report carries."""
        from pytest_vnc_use.report.html import keep_asset

        self._has_blocks = self._has_blocks or hasattr(report, PICTURES)
        for run, name, png in vars(report).pop(PICTURES, ()):
            keep_asset(self._folder / name, png, Path(run, "screens", name))

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add the style of the blocks once."""
        if self._has_blocks:
            from pytest_vnc_use.report.html import block_style

            prefix.append(block_style())


class _SizeOfReport:
    """A limit on a self-contained report: above it, passed tests keep only thumbnails.

    pytest-html writes the report from the extras at the session's end, so earlier ones are changed in place.
    """

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self._bytes = 0
        self._whole: list[tuple[dict[str, Any], str]] = []
        self._open: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = {}
        self._reduced = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the blocks of a report; above the limit reduce those of tests that passed, teardown included."""
        test = getattr(report, "worker_id", ""), report.nodeid
        for extra in getattr(report, _EXTRAS, ()):
            small = extra.pop(_SMALL, None) if isinstance(extra, dict) else None
            self._bytes += len(str(extra.get("content", ""))) if isinstance(extra, dict) else 0
            if small is not None:
                self._open.setdefault(test, []).append((extra, small))
        if report.when == "teardown":
            ended = self._open.pop(test, [])
            self._whole += ended if report.passed else []
        if self._reduced or self._bytes > self._megabytes * _MEGABYTE:
            self._reduce()

    def _reduce(self) -> None:
        for extra, small in self._whole:
            self._bytes += len(small) - len(extra["content"])
            extra["content"] = small
        self._reduced += len(self._whole)
        self._whole.clear()

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Say at the report's head what is missing."""
        if self._reduced:
            from pytest_vnc_use.report.templates import render

            prefix.append(render("too_large", megabytes=self._megabytes, reduced=self._reduced))
