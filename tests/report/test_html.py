"""The block of a run in pytest-html holds every step's screenshot, on which its point
or path is seen.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from pytest_vnc_use.report.annotate import action_path, mark_action
from pytest_vnc_use.report.html import AssetLink, keep_asset, run_html, thumbnail
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    Drift,
    Frame,
    FrameRef,
    KeyCombo,
    MouseDown,
    Move,
    Outcome,
    Region,
    RunEnded,
    Scroll,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.elements import Element
from support.vnc_servers import require_package

DONE = RunEnded(Outcome.DONE, "The basket is open.")
SIZE = (320, 200)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400
BOX = Region(20, 20, 90, 60)


def screenshots_of(block: str) -> list[str]:
    """Return the URLs of a block's screenshots, in the order of their places."""
    urls = dict(re.findall(r"\.(p\w+)\{[^}]*url\(([^)]*)\)", block))
    shown = re.findall(r'<i class="pic (p\w+) ', block)
    assert set(urls) == set(shown), "each is there once, and none in vain"
    return [urls[name] for name in shown]


@pytest.mark.parametrize(
    "link", [data_uri, AssetLink("assets/")], ids=["within", "beside"]
)
def test_block_has_screens_of_all_steps(write_run, make_step, frames, link):
    one = Click(50, 50)
    two = Click(90, 90)
    save = KeyCombo(("ctrl", "s"))
    steps = [make_step(1, one), make_step(2, two), make_step(3, save)]
    block = run_html(write_run(steps, DONE), link=link)
    before = link(frames[0].png)
    after = link(frames[1].png)
    of_steps = [before, after] * 3
    assert screenshots_of(block) == [*of_steps, after], "the last one stands alone"
    paths = re.findall(r'<path d="(.*?)"', block)
    assert paths == [action_path(one, SIZE), action_path(two, SIZE)]


def test_linked_screenshots_are_those_of_run(write_run, make_step) -> None:
    link = AssetLink("assets/")
    run = write_run([make_step(1, Click(50, 50))], DONE)
    run_html(run, link=link)
    assert len(link.screenshots) == 2
    stored = {path.name: path.read_bytes() for path in run.glob("screens/*")}
    assert link.screenshots.items() <= stored.items()


def test_block_of_thumbnails_leads_to_page(write_run, make_step):
    run = write_run([make_step(1, Click(5, 5)), make_step(2, Click(6, 6))], DONE)
    content = run_html(run, link=thumbnail, page="runs/run-1/index.html")
    assert all(url.startswith("data:image/webp") for url in screenshots_of(content))
    links = re.findall(r'<a href="(.*?)"', content)
    assert links == [
        f"runs/run-1/index.html{step}" for step in ("", "#step-1", "#step-2")
    ]


def test_page_and_block_name_or_locate_step(write_run, make_step) -> None:
    png = BytesIO()
    Image.new("RGB", (160, 60), "navy").save(png, "PNG")
    crop = FrameRef(hashlib.sha256(png.getvalue()).hexdigest(), 160, 60)
    long = "<script>alert(1)</script>\u202e\x00" + "z" * 10_000_000
    button = Element("button", "Sign <in>", BOX)
    hostile = Element("b<i>", long, BOX)
    steps = [
        make_step(1, Click(5, 6), "go", elements=(button,), crop=crop),
        make_step(2, Click(7, 8), "on", crop=crop),
        make_step(3, Click(9, 9), elements=(hostile,), crop=crop),
    ]
    run: Path = write_run(steps, DONE)
    RunDirectory(run).store(Frame(crop, png.getvalue()))
    write_report([run], run.parent)
    page = (run / "index.html").read_text("utf-8")
    listed = re.findall(r'<span class="caption">(.*?)</span></a>', page, re.S)
    titles = re.findall(r"<h3>(.*?)</h3>", page, re.S)
    named, located, evil = zip(listed, titles[-3:], strict=True)
    name = 'click <strong class="name">Sign &lt;in&gt;</strong> (button)'
    assert all(name in text for text in named)
    image = f'<img class="pic crop" src="screens/{crop.digest}.png" width="160"'
    assert all(f"click at (7, 8) {image}" in text for text in located)
    assert all("alert(1)&lt;/script&gt;" in text for text in evil)
    assert all(len(text) < 1000 for text in evil)
    assert not any("crop" in text for text in (*named, *evil))
    assert "<dt>point</dt> <dd>(5, 6)</dd>" in page
    block = run_html(run, link=data_uri)
    assert block.count(' crop"') == 1
    assert "<script>alert" not in page + block
    assert "\u202e" not in page + block


@pytest.mark.parametrize(
    ("make", "links"),
    [
        (lambda path: path.write_bytes(PNG), 2),
        (lambda path: None, 1),
        (lambda path: path.write_bytes(b"of a run on this machine"), 1),
        (lambda path: path.symlink_to(path.with_name("secret")), 1),
    ],
    ids=["same", "missing", "other", "link"],
)
def test_asset_is_link_or_copy_of_runs_file(tmp_path, make, links):
    (tmp_path / "secret").write_bytes(PNG)
    original = tmp_path / "original"
    asset = tmp_path / "assets" / "copy.png"
    make(original)
    keep_asset(asset, PNG, original)
    assert asset.read_bytes() == PNG
    assert asset.stat().st_nlink == links
    assert not asset.is_symlink()
    original.unlink(missing_ok=True)  # as --vnc-artifacts may do
    assert asset.read_bytes() == PNG


CONFTEST = """
import base64, pathlib, pytest
from pytest_vnc_use.plugin.reporting import add_runs
from pytest_vnc_use.runs.directory import FinishedTest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        others = base64.b64encode(pathlib.Path({screenshot!r}).read_bytes()).decode()
        image = dict(name="another's", format_type="image", content=others, mime_type="image/png", extension="png")
        report.extras = [image]
        add_runs(item, report, [pathlib.Path({run!r}), pathlib.Path("no run")], FinishedTest(item.nodeid, "passed"))
    return report
"""


@pytest.fixture
def reported(pytester, write_run, make_step, frames) -> None:
    """A session with pytest-html and Allure, one of whose runs cannot be shown."""
    require_package("allure_pytest")
    drift = Drift("it is other", frames[0].ref, frames[2].ref, Region(20, 30, 60, 50))
    steps = [
        make_step(1, Click(50, 50), "<b>intent</b>"),
        make_step(2, Click(5, 5), error="it is gone"),
    ]
    run = write_run(steps, DONE, task="<b>task</b>", events=[drift])
    screenshot = run / "screens" / f"{frames[2].ref.digest}.png"
    pytester.makeconftest(CONFTEST.format(run=str(run), screenshot=str(screenshot)))
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--html=report.html", "--alluredir=found"
    )


@pytest.mark.usefixtures("reported")
def test_html_report_keeps_run_and_foreign_image(frames) -> None:
    page = Path("report.html").read_text("utf-8")
    assert page.count(".vnc-run {") == 1

    blob = re.search(r'data-jsonblob="(.*?)"', page)
    (tests,) = json.loads(html.unescape(blob[1]))["tests"].values()
    contents = {
        extra["format_type"]: extra["content"] for extra in reversed(tests[0]["extras"])
    }
    assert "image" in contents
    assert html.escape("<b>intent</b>") in contents["html"]

    shown = [Path(url).read_bytes() for url in screenshots_of(contents["html"])]
    before, after, seen = [frame.png for frame in frames]
    assert shown[:2] == [before, seen], "what decides"
    assert shown[2:] == [before, after] * 2 + [after], "each step's, and the last"


@pytest.mark.usefixtures("reported")
def test_allure_result_has_steps_and_differing_screens() -> None:
    (file,) = Path("found").glob("*-result.json")
    result = json.loads(file.read_text("utf-8"))
    assert names_of(result["attachments"]) == ["the run cannot be shown"]

    (task,) = result["steps"]
    assert task["name"] == "<b>task</b>"
    first, second = task["steps"]
    assert first["name"].startswith("1. click at (")
    assert second["name"].startswith("2. click at (")
    assert names_of(first["attachments"]) == ["reason", "the screen before"]

    (difference,) = task["attachments"]
    assert difference["name"] == "it is other"
    assert difference["type"] == "application/vnd.allure.image.diff"
    screenshots = json.loads(Path("found", difference["source"]).read_text("utf-8"))
    assert sorted(screenshots) == ["actual", "diff", "expected"]
    for uri in screenshots.values():
        png = b64decode(uri.partition(",")[2])
        assert Image.open(BytesIO(png)).size == SIZE


def names_of(attachments):
    return [attachment["name"] for attachment in attachments]


MARK = (230, 0, 126)
GROUND = (400, 300)


def image_of(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


@pytest.mark.parametrize("ground", ["white", "black", "#e6007e"])
@pytest.mark.parametrize(
    "action",
    [
        Click(200, 150, "right", 3),
        MouseDown(200, 150),
        Move(200, 150),
        TypeText("x", 200, 150),
        Scroll(200, 150, "down"),
        Drag(200, 150, 230, 150),
    ],
    ids=lambda action: type(action).__name__,
)
def test_mark_action_marks_point_on_every_ground(paint, action, ground) -> None:
    png = paint(ground, GROUND).png
    marked = image_of(mark_action(png, action))
    assert marked.size == GROUND
    assert marked.getpixel((200, 150)) == MARK
    box = ImageChops.difference(image_of(png), marked).getbbox()
    assert box
    left, top, right, bottom = box
    assert 100 < left < right - 40 < 260
    assert 50 < top < bottom - 40 < 210


@pytest.mark.parametrize("action", [TypeText("x"), KeyCombo(("ctrl", "a")), Wait()])
def test_mark_action_without_point_marks_nothing(paint, action) -> None:
    png = paint("white", GROUND).png
    assert mark_action(png, action) == png
    assert action_path(action, GROUND) == ""


CENTRE = (200, 150)
ABOVE = (200, 100)
BELOW = (200, 200)
LEFT = (150, 150)
RIGHT = (250, 150)


@pytest.mark.parametrize(
    ("action", "marked", "plain"),
    [
        (Drag(60, 60, 340, 240), [(60, 60), CENTRE, (340, 240), (60, 40)], []),
        # the ring is at the start
        (Drag(340, 240, 60, 60), [], [(60, 40)]),
        (Scroll(*CENTRE, "up"), [ABOVE], [BELOW]),
        (Scroll(*CENTRE, "left"), [LEFT], [RIGHT]),
        (Scroll(*CENTRE, "right"), [RIGHT], [LEFT]),
        # at the edge of the frame
        (Click(10**12, 150), [(399, 150)], []),
        (Click(-7, -(10**12)), [(0, 0)], []),
    ],
)
def test_mark_action_follows_kind_and_place_of_action(
    paint, action: Action, marked, plain
) -> None:
    image = image_of(mark_action(paint("white", GROUND).png, action))
    unmarked = [point for point in marked if image.getpixel(point) != MARK]
    assert unmarked == []
    assert [point for point in plain if image.getpixel(point) == MARK] == []
