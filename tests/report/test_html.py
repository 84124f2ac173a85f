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
    clicks = [Click(50, 50), Click(90, 90), KeyCombo(("ctrl", "s"))]
    run = write_run(
        [make_step(number, click) for number, click in enumerate(clicks, 1)], DONE
    )
    block = run_html(run, link=link)
    before, after = link(frames[0].png), link(frames[1].png)
    assert screenshots_of(block) == [
        *3 * [before, after],
        after,
    ], "those of each step, and the last"
    assert re.findall(r'<path d="(.*?)"', block) == [
        action_path(click, SIZE) for click in clicks[:2]
    ]
    if isinstance(link, AssetLink):
        assert all(
            (run / "screens" / name).read_bytes() == png
            for name, png in link.screenshots.items()
        )


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
    steps = [
        make_step(
            1,
            Click(5, 6),
            "go",
            elements=(Element("button", "Sign <in>", BOX),),
            crop=crop,
        ),
        make_step(2, Click(7, 8), "on", crop=crop),
        make_step(3, Click(9, 9), elements=(Element("b<i>", long, BOX),), crop=crop),
    ]
    run: Path = write_run(steps, DONE)
    RunDirectory(run).store(Frame(crop, png.getvalue()))
    write_report([run], run.parent)
    page = (run / "index.html").read_text("utf-8")
    listed = re.findall(r'<span class="caption">(.*?)</span></a>', page, re.S)
    titles = re.findall(r"<h3>(.*?)</h3>", page, re.S)
    for first, second, third in (listed, titles[-3:]):
        assert 'click <strong class="name">Sign &lt;in&gt;</strong> (button)' in first
        assert (
            f'click at (7, 8) <img class="pic crop" src="screens/{crop.digest}.png"'
            ' width="160"' in second
        )
        assert "alert(1)&lt;/script&gt;" in third
        assert len(third) < 1000
        assert [text.count("crop") for text in (first, second, third)] == [0, 1, 0]
    assert "<dt>point</dt> <dd>(5, 6)</dd>" in page
    block = run_html(run, link=data_uri)
    assert block.count(' crop"') == 1
    for html_of_run in (page, block):
        assert "<script>alert" not in html_of_run
        assert "\u202e" not in html_of_run


def test_asset_is_link_or_copy_of_runs_file(tmp_path):
    (tmp_path / "secret").write_bytes(PNG)
    makers = {
        "same": lambda path: path.write_bytes(PNG),
        "missing": lambda path: None,
        "other": lambda path: path.write_bytes(b"of a run on this machine"),
        "link": lambda path: path.symlink_to(tmp_path / "secret"),
    }
    for kind, make in makers.items():
        original, asset = tmp_path / kind, tmp_path / "assets" / f"{kind}.png"
        make(original)
        keep_asset(asset, PNG, original)
        links = 2 if kind == "same" else 1
        assert (asset.read_bytes(), asset.stat().st_nlink, asset.is_symlink()) == (
            PNG,
            links,
            False,
        ), kind
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


def test_report_plugins_keep_run_and_foreign_images(
    pytester, write_run, make_step, frames
):
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
    page = Path("report.html").read_text("utf-8")
    blob = re.search(r'data-jsonblob="(.*?)"', page)
    (tests,) = json.loads(html.unescape(blob[1]))["tests"].values()
    contents = {
        extra["format_type"]: extra["content"] for extra in reversed(tests[0]["extras"])
    }
    urls = screenshots_of(contents["html"])
    before, after, seen = (frame.png for frame in frames[:3])
    assert [Path(url).read_bytes() for url in urls] == [
        before,
        seen,
        before,
        after,
        before,
        after,
        after,
    ], "what decides, each step's, the last"
    assert html.escape("<b>intent</b>") in contents["html"]
    assert page.count(".vnc-run {") == 1
    assert "image" in contents
    (file,) = Path("found").glob("*-result.json")
    result = json.loads(file.read_text("utf-8"))
    (task,) = result["steps"]
    assert task["name"] == "<b>task</b>"
    assert [step["name"].partition("(")[0] for step in task["steps"]] == [
        "1. click at ",
        "2. click at ",
    ]
    assert [each["name"] for each in task["steps"][0]["attachments"]] == [
        "reason",
        "the screen before",
    ]
    (drift,) = task["attachments"]
    assert (drift["name"], drift["type"]) == (
        "it is other",
        "application/vnd.allure.image.diff",
    )
    screenshots = json.loads(Path("found", drift["source"]).read_text("utf-8"))
    assert sorted(screenshots) == ["actual", "diff", "expected"]
    sizes = {
        Image.open(BytesIO(b64decode(each.partition(",")[2]))).size
        for each in screenshots.values()
    }
    assert sizes == {(320, 200)}
    assert [each["name"] for each in result["attachments"]] == [
        "the run cannot be shown"
    ]


MARK = (230, 0, 126)
GROUND = (400, 300)


def image_of(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


@pytest.mark.parametrize("ground", ["white", "black", "#e6007e"])
def test_mark_action_marks_point_on_every_ground(paint, ground) -> None:
    png = paint(ground, GROUND).png
    for action in (
        Click(200, 150, "right", 3),
        MouseDown(200, 150),
        Move(200, 150),
        TypeText("x", 200, 150),
        Scroll(200, 150, "down"),
        Drag(200, 150, 230, 150),
    ):
        marked = image_of(mark_action(png, action))
        assert (marked.size, marked.getpixel((200, 150))) == (GROUND, MARK)
        left, top, right, bottom = ImageChops.difference(
            image_of(png), marked
        ).getbbox() or (0, 0, 0, 0)
        assert (100 < left < right - 40 < 260, 50 < top < bottom - 40 < 210) == (
            True,
            True,
        )


def test_mark_action_follows_kind_and_place_of_action(paint) -> None:
    png = paint("white", GROUND).png

    def colours(action: Action, *points: tuple[int, int]) -> list[bool]:
        return [
            image_of(mark_action(png, action)).getpixel(point) == MARK
            for point in points
        ]

    for action in (TypeText("x"), KeyCombo(("ctrl", "a")), Wait()):
        assert (mark_action(png, action), action_path(action, GROUND)) == (png, "")
    assert (
        colours(Drag(60, 60, 340, 240), (60, 60), (200, 150), (340, 240), (60, 40))
        == [True] * 4
    )
    assert colours(Drag(340, 240, 60, 60), (60, 40)) == [False], (
        "the ring is at the start"
    )
    above, below, left, right = (200, 100), (200, 200), (150, 150), (250, 150)
    for direction, ahead, behind in (
        ("up", above, below),
        ("left", left, right),
        ("right", right, left),
    ):
        assert colours(Scroll(200, 150, direction), ahead, behind) == [
            True,
            False,
        ], direction
    assert colours(Click(10**12, 150), (399, 150)) == [True], "at the edge of the frame"
    assert colours(Click(-7, -(10**12)), (0, 0)) == [True]
