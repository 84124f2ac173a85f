"""The video on a run's page in Chromium: seeked by step, by mouse and keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.backends.video import vp8_of, webm
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.runs.directory import (
    VIDEO_FILE,
    FinishedTest,
    to_json,
    write_finished_test,
)
from pytest_vnc_use.types import Click, Outcome, RunEnded, StepStarted
from support.vnc_servers import require_package

pytestmark = pytest.mark.browser

STEPS = 3
CURRENT = "document.querySelector('video').currentTime"


@pytest.fixture
def run(write_run: Callable[..., Path], make_step: Callable[..., Any]) -> Path:
    """A run whose steps started at 1, 2 and 3 s and took half a second each."""
    steps = [make_step(number, Click(5, 5)) for number in range(1, STEPS + 1)]
    path = write_run(steps, RunEnded(Outcome.DONE, "done"))
    trace = path / "trace.jsonl"
    lines = []
    for line in trace.read_text("utf-8").splitlines():
        event = json.loads(line)
        if event.get("kind") == "step":
            step = steps[event["step"]["number"] - 1]
            started = StepStarted(step.number, step.turn, step.proposal, step.ruling)
            lines.append(json.dumps({**to_json(started), "at_s": step.number}))
            event["at_s"] = step.number + 0.5
        lines.append(json.dumps(event))
    trace.write_text("\n".join(lines) + "\n", "utf-8")
    colours = [(0, "white"), (1500, "red"), (2500, "blue"), (4000, "blue")]
    frames = [
        (at_ms, vp8_of(Image.new("RGB", (320, 200), colour)))
        for at_ms, colour in colours
    ]
    (path / VIDEO_FILE).write_bytes(webm(frames, (320, 200)))
    write_finished_test(path, FinishedTest("test_it", "failed"))
    return path


@pytest.fixture
def page(browser: Any, run: Path) -> Any:
    """The run's page, which has read the length of its video."""
    write_report([run], run.parent)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((run / "index.html").as_uri())
    page.wait_for_function("document.querySelector('video').readyState >= 2")
    yield page
    page.close()


def wait_until_at(page: Any, time_s: float) -> None:
    """Wait for a time of the video, and until its clock shows it."""
    page.wait_for_function(f"Math.abs({CURRENT} - {time_s}) < 0.01")
    page.locator(".clock", has_text=f"{time_s:.1f} s of").wait_for()


def shown_colour(page: Any) -> tuple[int, ...]:
    """Return the colour that the video shows."""
    page.wait_for_function("!document.querySelector('video').seeking")
    png = page.locator("video").screenshot()
    image = Image.open(BytesIO(png)).convert("RGB")
    return image.getpixel((image.width // 2, image.height // 2))


def test_mark_of_step_seeks_video(page: Any) -> None:
    assert page.locator(".marks button").all_text_contents() == [
        "start",
        "1",
        "2",
        "3",
        "end",
    ]
    page.click(".marks button >> nth=2")
    wait_until_at(page, 2)
    assert page.locator(".clock").text_content().startswith("2.0 s of 4.0 s: 2. click")
    assert page.locator(".marks [aria-current]").all_text_contents() == ["2"]
    red, green, blue = shown_colour(page)
    assert red > 200
    assert max(green, blue) < 60


def test_button_of_step_shows_it_in_video(page: Any) -> None:
    page.locator("#step-3").get_by_role("button", name="video at 3.0 s").click()
    wait_until_at(page, 3)
    assert page.locator("video").bounding_box()["y"] > 0
    assert shown_colour(page)[2] > 200


def test_video_plays_and_seeks_by_keys(page: Any) -> None:
    page.focus("[name=time]")
    page.keyboard.press("End")
    wait_until_at(page, 4)
    page.keyboard.press("ArrowLeft")
    wait_until_at(page, 3.9)
    page.keyboard.press("Home")
    wait_until_at(page, 0)
    page.keyboard.press(" ")
    page.wait_for_function(f"{CURRENT} > 0.2")
    button = page.locator("[data-do=play]")
    button.filter(has_text=re.compile("^pause$")).wait_for()
    page.keyboard.press(" ")
    button.filter(has_text=re.compile("^play$")).wait_for()
    assert page.evaluate("document.querySelector('video').paused")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_beside_video(browser: Any, run: Path, scheme: str) -> None:
    axe = require_package("axe_playwright_python.sync_playwright")
    write_report([run], run.parent)
    page = browser.new_page(viewport={"width": 360, "height": 900}, color_scheme=scheme)
    page.goto((run / "index.html").as_uri())
    page.wait_for_function("document.querySelector('.marks [aria-current]')")
    found = axe.Axe().run(page)
    assert not found.response["violations"], found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_one_file_holds_video(browser: Any, run: Path, tmp_path: Path) -> None:
    report = write_report([run], tmp_path / "one", one_file=True)
    page = browser.new_page()
    page.goto(f"{report.as_uri()}#run-1")
    page.wait_for_function("document.querySelector('video').readyState >= 2")
    page.click(".marks button >> nth=3")
    wait_until_at(page, 3)
    assert shown_colour(page)[2] > 200
    page.close()


def test_report_elsewhere_has_copy_of_video(run: Path, tmp_path: Path) -> None:
    write_report([run], tmp_path / "out")
    copy = tmp_path / "out" / run.name / VIDEO_FILE
    assert copy.read_bytes() == (run / VIDEO_FILE).read_bytes()


def test_without_script_video_is_link(browser: Any, run: Path) -> None:
    write_report([run], run.parent)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((run / "index.html").as_uri())
    assert not page.locator("video").is_visible()
    assert page.locator(".video a").get_attribute("href") == VIDEO_FILE
    assert page.locator("#step-1 img").first.is_visible()
    context.close()


def test_reason_for_missing_video_is_shown(browser: Any, run: Path) -> None:
    (run / VIDEO_FILE).unlink()
    ended = FinishedTest("test_it", "failed", video="a secret was typed on the desktop")
    write_finished_test(run, ended)
    write_report([run], run.parent)
    page = browser.new_page()
    page.goto((run / "index.html").as_uri())
    text = page.locator(".video p").text_content()
    assert text.startswith("No video: a secret was typed on the desktop.")
    page.close()
