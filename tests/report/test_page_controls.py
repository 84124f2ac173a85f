"""The controls of the pages in Chromium: by mouse and keys, and without a script under
Jenkins' policy.
"""

from __future__ import annotations

import io
import mimetypes
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
    button = Element("button", "Sign in", Region(60, 50, 100, 70))
    steps = [
        make_step(1, Click(40, 30)),
        make_step(2, Click(80, 60), elements=(button,)),
        make_step(3, Click(120, 90), crop=frames[0].ref),  # without a name
    ]
    drift = Drift("it is other", frames[0].ref, frames[2].ref, Region(20, 30, 60, 50))
    end = RunEnded(None, "the run failed", "RecordingDrifted: other")
    failed = write_run(steps, end, events=[drift])
    cause = {"triage": "product", "rule": "it drifted", "message": "it is other"}
    write_finished_test(failed, FinishedTest("test_bad", "failed", **cause))
    return [passed, failed]


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test at its end if it wrote to the console or asked for
    anything but files.
    """
    messages: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()

    def note_request(request: Any) -> None:
        if not request.url.startswith(("file:", "blob:")):
            messages.append(request.url)

    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", note_request)
    yield page
    context.close()
    assert not messages


@pytest.fixture
def failed(page: Any, runs: list[Path], tmp_path: Path) -> Any:
    """The page of the run that drifted."""
    write_report(runs, tmp_path / "out")
    page.goto((tmp_path / "out" / "run-1" / "index.html").as_uri())
    return page


def style(locator: Any, name: str) -> str:
    value: str = locator.evaluate(f"each => getComputedStyle(each).{name}")
    return value


@pytest.mark.parametrize(
    "part",
    [
        ".sentence",
        ".rule",
        "#deciding svg >> nth=1",
        ".film li >> nth=2",
        ".facts >> nth=0",
    ],
)
def test_failed_run_is_visible_unscrolled(failed: Any, part: str) -> None:
    box = failed.locator(part).bounding_box()
    assert box["y"] + box["height"] <= 720


def test_keys_show_recorded_both_and_whole_screen(failed: Any) -> None:
    left = failed.locator("#deciding .left")
    right = failed.locator("#deciding .right")
    canvas = failed.locator("#deciding svg.canvas >> nth=0")
    zoomed = canvas.get_attribute("viewBox")
    failed.keyboard.press("ArrowLeft")
    assert left.is_visible()
    assert not right.is_visible()
    failed.keyboard.press("ArrowRight")
    assert left.is_visible()
    assert right.is_visible()
    assert canvas.get_attribute("viewBox") == zoomed
    failed.keyboard.press("f")
    assert canvas.get_attribute("viewBox") == "0 0 320 200"
    failed.click("[data-do=zoom]")
    assert canvas.get_attribute("viewBox") == zoomed


def test_keys_go_from_step_to_step(failed: Any) -> None:
    for key, step in (("j", 1), ("j", 2), ("j", 3), ("j", 3), ("k", 2)):
        failed.keyboard.press(key)
        failed.wait_for_url(f"**#step-{step}")
    failed.goto(failed.url.replace("#step-2", "#step-3"))
    assert failed.locator("#step-3").bounding_box()["y"] < 720


@pytest.mark.parametrize("layer", ["mark", "shade", "boxes"])
def test_layer_is_shown_and_hidden(failed: Any, layer: str) -> None:
    shown = failed.locator(f"#step-1 .{layer} >> nth=0")
    failed.check(f"[name={layer}]")
    assert style(shown, "display") != "none"
    failed.uncheck(f"[name={layer}]")
    assert style(shown, "display") == "none"


def test_screens_are_compared_in_each_mode(failed: Any) -> None:
    left = failed.locator("#deciding .left")
    right = failed.locator("#deciding .right")
    shade = failed.locator("#step-1 .shade >> nth=0")
    failed.uncheck("[name=shade]")
    failed.check("[value=slider]")
    failed.locator("[name=slide]").fill("20")
    assert style(right, "clipPath") == "inset(0px 0px 0px 20%)"
    assert left.bounding_box() == right.bounding_box()
    failed.check("[value=blink]")
    assert style(right, "animationName") == "blink"
    assert not shade.is_visible()
    failed.check("[value=difference]")
    assert shade.is_visible()
    assert not left.is_visible()
    assert right.is_visible()


MEASURE = """path => {
  const [, x, y] = path.getAttribute("d").match(/M(\\S+) (\\S+)h0$/).map(Number);
  const end = new DOMPoint(x, y).matrixTransform(path.getScreenCTM());
  const image = path.closest(".canvas").querySelector("img");
  const box = image.getBoundingClientRect();
  return [(end.x - box.x) * image.naturalWidth / box.width, (end.y - box.y) * image.naturalHeight / box.height];
}"""
"""The middle of the mark as a point of the screenshot, as the browser lays both out."""


def test_point_is_drawn_at_click(failed: Any) -> None:
    failed.evaluate("document.querySelector('#step-1 .left img').decode()")
    mark = failed.locator("#step-1 .left .mark path >> nth=1")
    assert [int(number) for number in mark.evaluate(MEASURE)] == [40, 30]


@pytest.mark.parametrize(
    ("scheme", "width", "place", "one_file"),
    [
        ("light", 360, "index.html", False),
        ("dark", 360, "run-1/index.html", False),
        ("light", 1600, "index.html#run-2", True),
    ],
    ids=["session", "run", "one file"],
)
def test_axe_finds_nothing(
    browser: Any,
    runs: list[Path],
    tmp_path: Path,
    scheme: str,
    width: int,
    place: str,
    *,
    one_file: bool,
) -> None:
    axe = require_package("axe_playwright_python.sync_playwright")
    write_report(runs, tmp_path / "out", one_file=one_file)
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        device_scale_factor=3,
    )
    page.goto(f"{(tmp_path / 'out').as_uri()}/{place}")
    found = axe.Axe().run(page)
    assert not found.response["violations"], found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_step_is_shown_by_name_or_crop(failed: Any) -> None:
    assert failed.locator("article.step .name").text_content() == "Sign in"
    assert failed.locator("article.step .crop").count() == 1


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


def is_drawn(image: Any) -> bool:
    return style(image, "backgroundImage").startswith('url("data:')


def test_one_file_opens_run_at_its_step(
    page: Any, runs: list[Path], tmp_path: Path
) -> None:
    address = write_report(runs, tmp_path / "out", one_file=True).as_uri()
    page.goto(address)
    assert page.locator(".step").count() == 0, "a run is text until it is opened"
    assert is_drawn(page.locator(".group svg i >> nth=0"))
    assert is_drawn(page.locator(".tests .thumb i >> nth=0"))
    page.click(".group li a")
    assert page.locator("#run-2 .sentence").is_visible()
    assert page.locator("article.step .name").text_content() == "Sign in"
    assert page.locator("article.step .crop").count() == 1
    page.keyboard.press("j")
    page.wait_for_url(f"{address}#run-2-step-1")
    shown = page.locator("#run-2-step-1 i.pic >> nth=0")
    assert is_drawn(shown)
    box = shown.bounding_box()
    assert box["width"] / box["height"] == pytest.approx(320 / 200, abs=0.01)
    page.click("#run-2 .top a")
    assert page.locator(".tests").is_visible()


def test_under_jenkins_policy_it_reads_well(
    browser: Any, runs: list[Path], tmp_path: Path
) -> None:
    write_report(runs, tmp_path / "out")
    page = browser.new_page(viewport={"width": 1280, "height": 720})

    def serve(route: Any) -> None:
        name = route.request.url.removeprefix("http://jenkins.test/")
        headers = {"Content-Security-Policy": JENKINS}
        kind, _ = mimetypes.guess_type(name)
        if kind:
            headers["Content-Type"] = kind
        route.fulfill(path=tmp_path / "out" / name, headers=headers)

    page.route("http://jenkins.test/**", serve)
    page.goto("http://jenkins.test/run-1/index.html")
    assert page.locator(".sentence").is_visible()
    assert not page.locator("[data-do=zoom]").is_visible()
    assert style(page.locator(".tools"), "position") == "sticky"
    page.uncheck("[name=boxes]")
    assert style(page.locator("#deciding .boxes >> nth=0"), "display") == "none"
    png = page.locator("#deciding .right svg.canvas").screenshot()
    seen = Image.open(io.BytesIO(png)).convert("RGB")
    colours = {colour: count for count, colour in seen.getcolors(1_000_000) or []}
    assert max(colours.values()) > 100
    assert (255, 255, 255) not in colours, "its screenshot is teal"
    page.close()
