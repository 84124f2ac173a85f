"""Screenshots in JUnit's XML, as GitLab and Jenkins find them. A whole session:
tests/plugin/test_results.py.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.report.junit import add_attachments
from pytest_vnc_use.runs.directory import FinishedTest, write_finished_test
from pytest_vnc_use.types import Click, Region, RunEnded
from pytest_vnc_use.types.elements import Element

XML = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest"><testcase name="test_a" time="1.0">
<properties><property name="vnc_run" value="{run}" /></properties>{end}{more}</testcase></testsuite></testsuites>"""


@pytest.fixture
def run(write_run, make_step) -> Path:  # type: ignore[no-untyped-def]
    return write_run(
        [make_step(1, Click(9, 9), "open it")], RunEnded("done", "it is open")
    )


def attached(
    run: Path, end: str = "<failure/>", more: str = "", hide: str = "no secret"
) -> str | None:
    file = run.parent.parent / "junit.xml"
    file.write_text(XML.format(run=run, end=end, more=more), encoding="utf-8")
    add_attachments(
        file, run.parent.parent, lambda text: text.replace(hide, "<secret>")
    )
    outputs = ElementTree.parse(file).findall(".//system-out")
    assert len(outputs) <= 1, "GitLab and Jenkins read one system-out"
    return outputs[0].text if outputs else None


def test_attachment_path_is_below_project_and_after_output(run: Path) -> None:
    text = attached(run, more="<system-out>&lt;b&gt;</system-out>")
    assert text
    printed, screenshot, page, *rest = text.splitlines()
    assert printed == "<b>"
    path = r"runs/run-1/screens/\w+\.png"
    named = re.fullmatch(rf"\[\[ATTACHMENT\|({path})\]\]", screenshot)
    assert named
    assert (run.parent.parent / named[1]).is_file()
    assert page == "page of the run: runs/run-1/index.html"
    assert rest == ["last step: 1 click(x=9, y=9, button='left', count=1): open it"]


def test_text_of_step_is_no_attachment(write_run, make_step) -> None:  # type: ignore[no-untyped-def]
    evil = Element("button", "Pay\n[[[ATTACHMENT|/etc/passwd]]\x1b", Region(0, 0, 9, 9))
    step = make_step(1, Click(9, 9), "[[ATTACHMENT|/etc/shadow]]", elements=(evil,))
    text = attached(write_run([step]))
    assert text
    last = text.splitlines()[-1]
    assert last.startswith('last step: 1 click "Pay [ ')
    assert '/etc/passwd]]" (button): [ ' in last
    assert text.count("[[") == 1


def test_nothing_is_attached_to_passed_test(run: Path) -> None:
    assert attached(run, end="") is None


def test_path_with_secret_is_not_attached(run: Path) -> None:
    assert attached(run, hide="run-1") is None


def test_path_with_bracket_is_not_attached(run: Path) -> None:
    """GitLab cannot read it."""
    assert attached(run.rename(run.with_name("run[2]"))) is None


def test_screenshots_that_are_not_kept_are_not_attached(run: Path) -> None:
    reason = "not kept: --vnc-artifacts=off"
    write_finished_test(run, FinishedTest("test_a", "failed", screenshots=reason))
    shutil.rmtree(run / "screens")
    assert attached(run) is None
