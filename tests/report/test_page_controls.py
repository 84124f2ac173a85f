"""The controls of the pages in Chromium: by mouse and keys, and without a script under
Jenkins' policy.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.runs.directory import FinishedTest, write_finished_test
from pytest_vnc_use.types import Click, Drift, Outcome, Region, RunEnded
from pytest_vnc_use.types.elements import Element
from support.vnc_servers import require_package

JENKINS = (
    "sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self'"
)
pytestmark = pytest.mark.browser


@pytest.fixture
def runs(write_run, make_step, frames) -> list[Path]:
    """A run that passed, and one whose screen drifted after its three steps."""
    passed = write_run([make_step(1, Click(5, 5))], RunEnded(Outcome.DONE, "done"))
    passed = passed.rename(passed.with_name("run-passed"))
    write_finished_test(passed, FinishedTest("test_fine", "passed"))
    named = {"elements": (Element("button", "Sign in", Region(60, 50, 100, 70)),)}
    with_images = {"crop": frames[0].ref}  # no name of what is there
    steps = [
        make_step(number, Click(40 * number, 30 * number), **more)
        for number, more in enumerate([{}, named, with_images], start=1)
    ]
    drift = Drift("it is other", frames[0].ref, frames[2].ref, Region(20, 30, 60, 50))
    failed = write_run(
        steps,
        RunEnded(None, "the run failed", "RecordingDrifted: other"),
        events=[drift],
    )
    write_finished_test(
        failed,
        FinishedTest(
            "test_bad",
            "failed",
            triage="product",
            rule="it drifted",
            message="it is other",
        ),
    )
    return [passed, failed]


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test at its end if it wrote to the console or asked for
    anything but files.
    """
    messages: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            messages.append(asked.url)
            if not asked.url.startswith(("file:", "blob:"))
            else None
        ),
    )
    yield page
    context.close()
    assert not messages


DISPLAY = "each => getComputedStyle(each).display"


def test_failed_run_is_visible_unscrolled_and_keyboard_readable(
    page: Any, runs: list[Path], tmp_path: Path
) -> None:
    write_report(runs, tmp_path / "out")
    page.goto((tmp_path / "out" / "run-1" / "index.html").as_uri())
    for part in (
        ".sentence",
        ".rule",
        "#deciding svg >> nth=1",
        ".film li >> nth=2",
        ".facts >> nth=0",
    ):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 720, part
    left, right = page.locator("#deciding .left"), page.locator("#deciding .right")
    canvas = page.locator("#deciding svg.canvas >> nth=0")
    before = canvas.get_attribute("viewBox")
    for key, shown, view in (
        ("ArrowLeft", (True, False), before),
        ("ArrowRight", (True, True), before),
        ("f", (True, True), "0 0 320 200"),
    ):
        page.keyboard.press(key)
        assert (left.is_visible(), right.is_visible()) == shown, key
        assert canvas.get_attribute("viewBox") == view, key
    page.click("[data-do=zoom]")
    assert canvas.get_attribute("viewBox") == before
    for key, step in (("j", 1), ("j", 2), ("j", 3), ("j", 3), ("k", 2)):
        page.keyboard.press(key)
        page.wait_for_url(f"**#step-{step}")
    page.goto(page.url.replace("#step-2", "#step-3"))
    assert page.locator("#step-3").bounding_box()["y"] < 720
    for layer in ("mark", "shade", "boxes"):
        shown = page.locator(f"#step-1 .{layer} >> nth=0")
        page.check(f"[name={layer}]")
        assert shown.evaluate(DISPLAY) != "none", layer
        page.uncheck(f"[name={layer}]")
        assert shown.evaluate(DISPLAY) == "none", layer
    page.check("[value=slider]")
    page.locator("[name=slide]").fill("20")
    assert (
        right.evaluate("each => getComputedStyle(each).clipPath")
        == "inset(0px 0px 0px 20%)"
    )
    assert left.bounding_box() == right.bounding_box()
    page.check("[value=blink]")
    assert right.evaluate("each => getComputedStyle(each).animationName") == "blink"
    assert not page.locator("#step-1 .shade >> nth=0").is_visible()
    page.check("[value=difference]")
    assert page.locator("#step-1 .shade >> nth=0").is_visible()
    assert (left.is_visible(), right.is_visible()) == (False, True)


MEASURE = """path => {
  const [, x, y] = path.getAttribute("d").match(/M(\\S+) (\\S+)h0$/).map(Number);
  const end = new DOMPoint(x, y).matrixTransform(path.getScreenCTM());
  const image = path.closest(".canvas").querySelector("img");
  const box = image.getBoundingClientRect();
  return [(end.x - box.x) * image.naturalWidth / box.width, (end.y - box.y) * image.naturalHeight / box.height];
}"""
"""The middle of the mark as a point of the screenshot, as the browser lays both out."""


def test_axe_finds_nothing_point_is_at_click(
    browser: Any, runs: list[Path], tmp_path: Path
) -> None:
    axe = require_package("axe_playwright_python.sync_playwright")
    address = write_report(runs, tmp_path / "out").as_uri()
    one_file = write_report(runs, tmp_path / "one", one_file=True).as_uri()
    for scheme, width, place in (
        ("light", 360, address),
        ("dark", 360, address.replace("index.html", "run-1/index.html")),
        ("light", 1600, f"{one_file}#run-2"),
    ):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            device_scale_factor=3,
        )
        page.goto(place)
        if "run" in place:
            assert page.locator("article.step .name").text_content() == "Sign in"
            assert page.locator("article.step .crop").count() == 1
        if "run-1/" in place:
            page.evaluate("document.querySelector('#step-1 .left img').decode()")
            drawn = page.locator("#step-1 .left .mark path >> nth=1").evaluate(MEASURE)
            assert [int(number) for number in drawn] == [40, 30]
        found = axe.Axe().run(page)
        assert not found.response["violations"], found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()


def test_filters_are_kept_in_address(
    page: Any, runs: list[Path], tmp_path: Path
) -> None:
    page.goto(write_report(runs, tmp_path / "out").as_uri())
    rows = page.locator(".tests tbody tr:visible")
    assert rows.count() == 2
    page.select_option("[name=result]", "failed")
    assert rows.count() == 1
    address = page.url
    assert address.endswith("#result=failed")
    page.goto("about:blank")
    page.goto(address)
    assert rows.count() == 1
    page.fill("[name=q]", "nothing like it")
    assert rows.count() == 0


BACKGROUND = "each => getComputedStyle(each).backgroundImage"


def test_one_file_opens_run_at_its_step(
    page: Any, runs: list[Path], tmp_path: Path
) -> None:
    address = write_report(runs, tmp_path / "out", one_file=True).as_uri()
    page.goto(address)
    assert page.locator(".step").count() == 0, "a run is text until it is opened"
    for shown in (".group svg i >> nth=0", ".tests .thumb i >> nth=0"):
        assert page.locator(shown).evaluate(BACKGROUND).startswith('url("data:')
    page.click(".group li a")
    assert page.locator("#run-2 .sentence").is_visible()
    page.keyboard.press("j")
    page.wait_for_url(f"{address}#run-2-step-1")
    shown = page.locator("#run-2-step-1 i.pic >> nth=0")
    assert shown.evaluate(BACKGROUND).startswith('url("data:')
    assert shown.bounding_box()["width"] / shown.bounding_box()[
        "height"
    ] == pytest.approx(320 / 200, abs=0.01)
    page.click("#run-2 .top a")
    assert page.locator(".tests").is_visible()


def test_under_jenkins_policy_it_reads_well(
    browser: Any, runs: list[Path], tmp_path: Path
) -> None:
    write_report(runs, tmp_path / "out")
    page = browser.new_page(viewport={"width": 1280, "height": 720})

    def serve(route: Any) -> None:
        name = route.request.url.removeprefix("http://jenkins.test/")
        kind = (
            "text/html"
            if name.endswith("html")
            else "text/css"
            if name.endswith("css")
            else None
        )
        headers = {
            "Content-Security-Policy": JENKINS,
            **({"Content-Type": kind} if kind else {}),
        }
        route.fulfill(path=tmp_path / "out" / name, headers=headers)

    page.route("http://jenkins.test/**", serve)
    page.goto("http://jenkins.test/run-1/index.html")
    assert page.locator(".sentence").is_visible()
    assert not page.locator("[data-do=zoom]").is_visible()
    assert (
        page.locator(".tools").evaluate("each => getComputedStyle(each).position")
        == "sticky"
    )
    page.uncheck("[name=boxes]")
    assert page.locator("#deciding .boxes >> nth=0").evaluate(DISPLAY) == "none"
    seen = Image.open(
        io.BytesIO(page.locator("#deciding .right svg.canvas").screenshot())
    ).convert("RGB")
    colours = {colour: count for count, colour in seen.getcolors(1_000_000) or []}
    assert max(colours.values()) > 100
    assert (255, 255, 255) not in colours, "its screenshot is teal"
    page.close()
