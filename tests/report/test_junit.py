"""Screenshots in JUnit's XML, as GitLab and Jenkins find them. A whole session: tests/plugin/test_results.py."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.report.junit import add_attachments, workspace
from pytest_vnc_use.runs.directory import EndedTest, write_ended_test
from pytest_vnc_use.types import Click, Region, RunEnded
from pytest_vnc_use.types.elements import Element

XML = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest"><testcase name="test_a" time="1.0">
<properties><property name="vnc_run" value="{run}" /></properties>{end}{more}</testcase></testsuite></testsuites>"""


@pytest.fixture
def run(write_run, make_step) -> Path:  # type: ignore[no-untyped-def]
    return write_run([make_step(1, Click(9, 9), "open it")], RunEnded("done", "it is open"))


def attached(run: Path, end: str = "<failure/>", more: str = "", hide: str = "no secret") -> str | None:
    file = run.parent.parent / "junit.xml"
    file.write_text(XML.format(run=run, end=end, more=more), encoding="utf-8")
    add_attachments(file, run.parent.parent, lambda text: text.replace(hide, "<secret>"))
    outputs = ElementTree.parse(file).findall(".//system-out")
    assert len(outputs) <= 1, "GitLab and Jenkins read one system-out"
    return outputs[0].text if outputs else None


def test_path_is_below_project(run: Path) -> None:
    screenshot, page, *rest = (attached(run) or "").splitlines()
    named = re.fullmatch(r"\[\[ATTACHMENT\|(runs/run-1/screens/\w+\.png)\]\]", screenshot)
    assert named
    assert (run.parent.parent / named[1]).is_file()
    assert page == "page of the run: runs/run-1/index.html"
    assert rest == ["last step: 1 click(x=9, y=9, button='left', count=1): open it"]


def test_last_step_has_its_name_and_no_name_is_attachment(write_run, make_step) -> None:  # type: ignore[no-untyped-def]
    evil = Element("button", "Pay\n[[ATTACHMENT|/etc/passwd]]\x1b", Region(0, 0, 9, 9))
    run = write_run([make_step(1, Click(9, 9), "[[ATTACHMENT|/etc/shadow]]", elements=(evil,))])
    *_, last = (told := attached(run) or "").splitlines()
    assert last.startswith('last step: 1 click "Pay [ [ATTACHMENT|/etc/passwd]]" (button): [ [ATTACHMENT|')
    assert told.count("[[ATTACHMENT|") == 1


@pytest.mark.parametrize("brackets", range(2, 7))
def test_no_number_of_brackets_is_attachment(write_run, make_step, brackets: int) -> None:  # type: ignore[no-untyped-def]
    run = write_run([make_step(1, Click(9, 9), f"{'[' * brackets}ATTACHMENT|../../../etc/passwd]] oops")])
    assert (attached(run) or "").count("[[") == 1


def test_test_that_passed_has_none(run: Path) -> None:
    assert attached(run, end="") is None


def test_it_is_added_to_what_test_printed(run: Path) -> None:
    told = attached(run, more="<system-out>hello &lt;b&gt;</system-out>") or ""
    assert told.startswith("hello <b>\n[[ATTACHMENT|runs/")


def test_path_with_secret_is_left_out(run: Path) -> None:
    assert attached(run, hide="run-1") is None


def test_path_that_gitlab_cannot_read_is_left_out(run: Path) -> None:
    assert attached(run.rename(run.with_name("run[2]"))) is None


def test_run_without_screenshots_has_none(run: Path) -> None:
    write_ended_test(run, EndedTest("test_a", "failed", screenshots="not kept: --vnc-artifacts=off"))
    for screenshot in (run / "screens").iterdir():
        screenshot.unlink()
    assert attached(run) is None


def test_workspace_is_that_of_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CI_PROJECT_DIR", "WORKSPACE", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    assert workspace() == Path.cwd()
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    assert workspace() == tmp_path
