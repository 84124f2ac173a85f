"""Attachments in JUnit's XML, as GitLab and Jenkins look for them: a line
`[[ATTACHMENT|path]]` in a test's system-out.

GitLab takes the first one of a test that failed, as a path below the project's
directory, and knows no path with a bracket or a bar. Jenkins' plugin "JUnit
Attachments" takes all, as paths from the workspace. It copies each by its file name
alone, so the page of a run, which is always index.html, is named on a separate line
instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from pytest_vnc_use.files import replace_file
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.runs.transcript import step_line

_RUN = "vnc_run"
_OUTPUT = "system-out"
_WORKSPACES = ("CI_PROJECT_DIR", "WORKSPACE", "GITHUB_WORKSPACE")
_BRACKETS = re.compile(r"\[(?=\[)")
_NOT_IN_A_PATH = frozenset("[]|\n")


def workspace() -> Path:
    """Return the directory in which the CI's paths begin; without a CI the current
    directory.
    """
    for name in _WORKSPACES:
        if path := os.environ.get(name):
            return Path(path).absolute()
    return Path.cwd()


def add_attachments(file: Path, directory: Path, hide: Callable[[str], str]) -> int:
    """Add the deciding screenshot of each failed test to the XML, and the page of its
    run; return how many.

    Paths are relative to `directory` where they are below it. A path that `hide`
    changes has a secret in it, and is left out. Raises OSError, ElementTree.ParseError.
    """
    tree = ElementTree.parse(file)
    screenshots = 0
    for case in tree.iter("testcase"):
        lines = _lines(case, directory, hide)
        if lines:
            _append(case, "\n".join(lines))
            screenshots += lines[0].startswith("[[ATTACHMENT|")
    if screenshots:
        replace_file(
            file, ElementTree.tostring(tree.getroot(), "utf-8", xml_declaration=True)
        )
    return screenshots


def _lines(
    case: ElementTree.Element, directory: Path, hide: Callable[[str], str]
) -> list[str]:
    """Return the lines for a test: its screenshot, the page of its run, and its last
    step.
    """
    runs = [
        element.get("value", "")
        for element in case.iter("property")
        if element.get("name") == _RUN
    ]
    if not runs or (case.find("failure") is None and case.find("error") is None):
        return []
    run = Path(runs[-1])
    if not (run / "trace.jsonl").is_file():  # of a worker on another machine
        return []
    page_of_run = show_run(run, compare="deciding")
    deciding = page_of_run.view.deciding
    if deciding is None or not deciding.pair.right.address:
        return []
    lines = []
    screenshot = _path(run / deciding.pair.right.address, directory)
    if _can_be_named(screenshot, hide):
        lines.append(f"[[ATTACHMENT|{screenshot}]]")
    page = _path(run / "index.html", directory)
    if _can_be_named(page, hide):
        lines.append(f"page of the run: {page}")
    if page_of_run.trace and page_of_run.trace.steps:
        last = f"last step: {step_line(page_of_run.trace.steps[-1])}"
        # no other text becomes an attachment
        lines.append(_BRACKETS.sub("[ ", hide(last)))
    return lines


def _path(file: Path, directory: Path) -> str:
    path = file.absolute()
    if path.is_relative_to(directory):
        path = path.relative_to(directory)
    return path.as_posix()


def _can_be_named(path: str, hide: Callable[[str], str]) -> bool:
    return hide(path) == path and _NOT_IN_A_PATH.isdisjoint(path)


def _append(case: ElementTree.Element, text: str) -> None:
    """Add text to the one system-out of a test: readers support one only."""
    output = case.find(_OUTPUT)
    if output is None:
        output = ElementTree.SubElement(case, _OUTPUT)
    output.text = f"{output.text}\n{text}\n" if output.text else f"{text}\n"
