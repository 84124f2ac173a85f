"""A run in the results of allure-pytest: its steps with screenshots, and a drift as three screenshots to compare."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.types import Click, Drifted, Region, RunEnded
from support.vnc_servers import require_package

require_package("allure_pytest")

CONFTEST = """
import pathlib

import pytest
from pytest_vnc_use.plugin.reporting import add_runs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        add_runs(item, report, [pathlib.Path({run!r}), pathlib.Path("no run")], "")
    return report
"""


@pytest.fixture
def run(write_run: Callable[..., Path], make_step: Callable[..., Any], frames: list[Any]) -> Path:
    drift = Drifted("it is other", frames[0].ref, frames[2].ref, Region(20, 30, 60, 50))
    steps = [make_step(1, Click(40, 30), "Open it"), make_step(2, Click(5, 5), error="it is gone")]
    return write_run(steps, RunEnded(None, "the run failed", "RecordingDrifted: other"), events=[drift])


def test_steps_and_drift_are_in_results(pytester: pytest.Pytester, run: Path) -> None:
    pytester.makeconftest(CONFTEST.format(run=str(run)))
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--alluredir=found").assert_outcomes(passed=1)
    (file,) = Path("found").glob("*-result.json")
    result = json.loads(file.read_text("utf-8"))
    (task,) = result["steps"]
    assert task["name"] == "Open the basket"
    first, second = task["steps"]
    assert [step["name"].partition("(")[0] for step in (first, second)] == ["1. click at ", "2. click at "]
    assert [each["name"] for each in first["attachments"]] == ["words", "the screen before"]
    (drift,) = task["attachments"]
    assert (drift["name"], drift["type"]) == ("it is other", "application/vnd.allure.image.diff")
    screenshots = json.loads(Path("found", drift["source"]).read_text("utf-8"))
    assert sorted(screenshots) == ["actual", "diff", "expected"]
    sizes = {Image.open(io.BytesIO(base64.b64decode(each.partition(",")[2]))).size for each in screenshots.values()}
    assert sizes == {(320, 200)}
    assert [each["name"] for each in result["attachments"]] == ["the run cannot be shown"]
