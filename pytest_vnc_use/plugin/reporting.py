"""The runs of a test in the reports of other plugins: pytest-html, allure-pytest, and
the attachments of JUnit's XML.

It is a plugin where one of these is written: screenshots take numpy, Pillow and jinja2,
150 ms to import.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import pytest

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.results import dir_of, page_of
from pytest_vnc_use.plugin.state import (
    SCREENSHOTS,
    SETTINGS,
    attached_to,
    machine_of,
    workerinput_of,
)
from pytest_vnc_use.report.annotate import mark_action
from pytest_vnc_use.report.html import (
    AssetLink,
    Link,
    block_style,
    keep_asset,
    run_html,
    thumbnail,
)
from pytest_vnc_use.report.junit import add_attachments, workspace
from pytest_vnc_use.report.screenshots import DIFF_MIME, data_uri, image_diff
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.runs.directory import (
    VIDEO_FILE,
    FinishedTest,
    RunDirectory,
    read_trace,
)
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Step

ASSETS = "assets/"
MAX_MEGABYTES = 40
"""The size of a self-contained report, which browsers open slowly, from which on passed
tests have thumbnails only.
"""
_COLUMN = 2
"""The index of this plugin's first column in pytest-html's table: after result and
name.
"""
_EMBEDDED = pytest.StashKey[int]()
"""The size of the HTML in a self-contained report so far, in this process."""
_PROBLEM = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Register what pytest-html asks for, in the process that writes its report."""
    html_path = config.getoption("htmlpath", None)
    if html_path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AssetsBesideReport(Path(html_path)))
        if config.stash[SETTINGS] != Settings():
            config.pluginmanager.register(TriageColumns())


def add_runs(
    item: pytest.Item,
    report: pytest.TestReport,
    runs: list[Path],
    ended: FinishedTest,
) -> None:
    """Add the runs to the reports that are written in this session; `ended` is the
    test's result so far.
    """
    if item.config.pluginmanager.has_plugin("allure_listener"):
        for run in runs:
            _add_steps(run)
    if item.config.getoption("htmlpath", None):
        # pytest-html shows that text itself
        ended = replace(ended, failure="")
        _add_extras(report, item.config, runs, ended)


def _add_extras(
    report: pytest.TestReport,
    config: pytest.Config,
    runs: list[Path],
    ended: FinishedTest,
) -> None:
    """Add the runs to pytest-html's report: as files beside it, or inside if it is
    self-contained.
    """
    is_embedded = config.getoption("self_contained_html")
    workers = workerinput_of(config).get("workercount", 1)
    max_size = MAX_MEGABYTES * 1_000_000 // workers
    beside = dir_of(Path(config.getoption("htmlpath")))
    extras = [*getattr(report, "extras", ())]
    screenshots = []
    for run in runs:
        size = config.stash.get(_EMBEDDED, 0)
        assets = AssetLink(ASSETS)
        link: Link = assets
        if is_embedded:
            link = data_uri
            if report.passed and size > max_size:
                link = thumbnail
        content = run_html(
            run,
            machine=machine_of(config),
            page=page_of(run, beside),
            ended=ended,
            link=link,
        )
        config.stash[_EMBEDDED] = size + len(content)
        extra = {
            "name": None,
            "format_type": "html",
            "content": content,
            "mime_type": None,
            "extension": None,
        }
        extras.append(extra)
        directory = str(run.absolute())
        for name, png in assets.screenshots.items():
            screenshots.append((directory, name, png))
    attributes = vars(report)
    attributes["extras"] = extras
    attributes[SCREENSHOTS] = screenshots


class _AssetsBesideReport:
    """A store of screenshots beside pytest-html's report: links to the runs' files, or
    copies across disks.
    """

    def __init__(self, html_path: Path) -> None:
        self._dir = dir_of(html_path) / ASSETS
        self._has_blocks = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the screenshots of the report."""
        self._has_blocks |= hasattr(report, SCREENSHOTS)
        screenshots = vars(report).pop(SCREENSHOTS, ())
        for run, name, png in screenshots:
            original = Path(run, "screens", name)
            keep_asset(self._dir / name, png, original)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Add the style of the blocks once."""
        if self._has_blocks:
            prefix.append(block_style())


class TriageColumns:
    """Columns of pytest-html's table, present if any setting of this plugin is set.

    They cannot depend on tests with a desktop, because pytest-html asks for columns
    before tests are collected.
    """

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add the columns Triage and Cost."""
        _insert(cells, "column_head", triage="Triage", cost="Cost")

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """Insert the triage of a test that failed, and the cost, or empty cells."""
        if not cells:
            return
        attached = attached_to(report)
        triage = ""
        if getattr(report, "outcome", "") in ("failed", "rerun"):
            triage = attached.get("triage", "")
        cost = ""
        if "dollars" in attached:
            cost = f"${attached['dollars']:.4f}"
        _insert(cells, "column_cell", triage=triage, cost=cost)


def _insert(cells: list[str], template: str, **texts: str) -> None:
    for column, text in reversed(texts.items()):
        cell = render(template, column=column, text=text)
        cells.insert(_COLUMN, cell)


def _add_steps(run: Path) -> None:
    """Attach each step of a run with its screenshot to the test that runs now, and each
    drift as images to compare.
    """
    import allure  # where allure-pytest is loaded

    text = allure.attachment_type.TEXT
    try:
        trace = read_trace(run)
    except RunDirectoryError as exc:
        title = "the run cannot be shown"
        if exc.never_started:
            title = "the run never started"
        allure.attach(exc.never_started or str(exc), title, text)
        return
    with allure.step(trace.started.task):
        if (run / VIDEO_FILE).is_file():
            video = (run / VIDEO_FILE).read_bytes()
            allure.attach(video, "video", allure.attachment_type.WEBM)
        for drift in trace.drifts:
            try:
                images = image_diff(run, drift)
                allure.attach(images, drift.problem, DIFF_MIME, "imagediff")
            except RunDirectoryError as exc:
                allure.attach(str(exc), drift.problem, text)
        for step in trace.steps:
            _add_step(run, step)


def _add_step(run: Path, step: Step) -> None:
    """Attach a step: its reason, and the screen before it with the action drawn in."""
    import allure

    text = allure.attachment_type.TEXT
    action = step.proposal.action
    with allure.step(f"{step.number}. {format_caption(action, step.elements)}"):
        reasons = [step.proposal.intent or step.text, step.error]
        reason = "\n".join(filter(None, reasons))
        if reason:
            allure.attach(reason, "reason", text)
        try:
            before = RunDirectory(run).load_png(step.frame_before)
            png = mark_action(before, action)
            allure.attach(png, "the screen before", allure.attachment_type.PNG)
        except RunDirectoryError as exc:
            allure.attach(str(exc), "no screenshot", text)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Attach screenshots of failed tests to pytest's file, as it has no API to add
    output to a test in it.
    """
    yield
    config = session.config
    xml = config.getoption("xmlpath", None)
    if not xml or hasattr(config, "workerinput"):
        return
    if config.stash[SETTINGS].artifacts == "off":
        return
    path = Path(os.path.expandvars(xml)).expanduser()
    hide = secrets_of(config).hide
    try:
        add_attachments(path, workspace(), hide)
    except (OSError, ParseError) as exc:
        config.stash[_PROBLEM] = f"no screenshots are attached in {xml}: {exc}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
    config: pytest.Config,
) -> None:
    """Print why nothing is attached to JUnit's XML, if that failed."""
    if _PROBLEM in config.stash:
        problem = f"vnc-use: {config.stash[_PROBLEM]}"
        terminalreporter.write_line(line(problem))
