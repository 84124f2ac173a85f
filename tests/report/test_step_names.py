"""What a step is called on the page and in pytest-html's report."""

from __future__ import annotations

import hashlib
import html
import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use.report.assets import data_uri
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.page.writing import write_report
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import Click, Frame, FrameRef, Outcome, Region, RunEnded
from pytest_vnc_use.types.elements import Element

EVIL = "<script>alert(1)</script>\u202e\x00" + "z" * 10_000_000
BOX = Region(1, 2, 30, 40)


def crop_of(colour: str) -> Frame:
    png = BytesIO()
    Image.new("RGB", (160, 60), colour).save(png, "PNG")
    return Frame(FrameRef(hashlib.sha256(png.getvalue()).hexdigest(), 160, 60), png.getvalue())


@pytest.fixture
def run(write_run, make_step) -> Path:
    crop = crop_of("navy")
    steps = [
        make_step(1, Click(5, 6), "go", elements=(Element("button", "Sign <in>", BOX),), crop=crop.ref),
        make_step(2, Click(7, 8), "on", crop=crop.ref),
        make_step(3, Click(9, 9), elements=(Element("b<i>", EVIL, BOX),), crop=crop.ref),
        make_step(4, Click(9, 9), elements=(Element("textbox", "", BOX),), crop=FrameRef("0" * 64, 160, 60)),
    ]
    path: Path = write_run(steps, RunEnded(Outcome.DONE, "done"))
    RunFolder(path).store(crop)
    return path


def test_the_page_calls_a_step_by_its_element_or_shows_its_place(run: Path) -> None:
    write_report([run], run.parent)
    page = (run / "index.html").read_text("utf-8")
    titles = [re.sub(r"\s+", " ", each) for each in re.findall(r"<h3>(.*?)</h3>", page, re.S)]
    assert 'click <strong class="name">Sign &lt;in&gt;</strong> (button)' in titles[0]
    assert "crop" not in titles[0]
    assert f'click at (7, 8) <img class="crop" src="screens/{crop_of("navy").ref.digest}.png" width="160"' in titles[1]
    assert "alert(1)&lt;/script&gt;" in titles[2]
    assert "of 10000027 characters" in titles[2]
    assert len(titles[2]) < 1000
    assert "the textbox at (9, 9)" in titles[3]
    assert "crop" not in titles[3]
    assert "<dt>point</dt> <dd>(5, 6)</dd>" in page
    assert "<script>alert" not in page


def test_pytest_html_does_so_too(run: Path) -> None:
    block = run_html(run, link=data_uri)
    assert "1. click <b>Sign &lt;in&gt;</b> (button)" in block
    assert '2. click at (7, 8) <svg class="vnc-crop" width="160" height="60"' in block
    assert block.count('vnc-crop"') == 1
    assert "<script>alert" not in html.unescape(re.sub(r"&lt;.*?&gt;", "", block))
    assert "<img" not in block
