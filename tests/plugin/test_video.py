"""The video of a test's runs: which tests have one, and who links it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.runs.directory import VIDEO_FILE, read_finished_test
from support import webm
from support.pad_sessions import QUIET
from support.paths import PROGRAMS
from support.vnc_servers import require_package

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

APP = shlex.join([sys.executable, str(PROGRAMS / "sign_in.py")])
ON_FORM = (*QUIET, "--vnc-server=qt", f"--vnc-app={APP}")
FIELD = np.s_[54:82, 64:356]
PLANNER = """
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, TypeText

@pytest.fixture
def vnc_planner(request):
    text = "<secret:CODE>" if "typed" in request.node.name else "hello"
    return ScriptedPlanner([[Click(200, 68), TypeText(text)]])
"""
TESTS = """
import pytest

shown = pytest.mark.vnc_task("Type it", expect=None)
secret = pytest.mark.vnc_task("Type it", expect=None, secrets="CODE")

@shown
def test_passed(vnc_desktop): ...

@shown
def test_failed(vnc_desktop): assert 0

@secret
def test_declared(vnc_desktop): assert 0

@secret
def test_typed(vnc_desktop): assert 0
"""
FLAKY = """
import pathlib, pytest

@pytest.mark.flaky(reruns=2)
@pytest.mark.vnc_task("Type it", expect=None)
def test_flaky(vnc_desktop):
    tries = pathlib.Path("tries")
    count = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (count + 1))
    assert count == 2
"""


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "8264017359")
    pytester.makeconftest(PLANNER)


def runs_by_test() -> dict[str, list[Path]]:
    """Return the run directories by the test's name, oldest first."""
    runs: dict[str, list[Path]] = {}
    for result in sorted(Path("runs").glob("*/result.json")):
        finished = read_finished_test(result.parent)
        assert finished
        name = finished.test.rpartition("::")[2]
        runs.setdefault(name, []).append(result.parent)
    return runs


def has_video(run: Path) -> bool:
    return (run / VIDEO_FILE).exists()


def test_video_of_failed_test_is_kept(pytester: pytest.Pytester) -> None:
    for package in ("xdist", "pytest_html", "allure_pytest"):
        require_package(package)
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess(
        *ON_FORM,
        "-n1",
        "--vnc-video=retain-on-failure",
        "--html=report.html",
        "--alluredir=allure",
        timeout=300,
    )
    runs = {name: run for name, (run,) in runs_by_test().items()}
    assert {name: has_video(run) for name, run in runs.items()} == {
        "test_passed": False,
        "test_failed": True,
        "test_declared": True,
        "test_typed": False,
    }
    reason = "No video: a secret was typed on the desktop"
    assert reason in (runs["test_typed"] / "index.html").read_text("utf-8")
    assert "Video" not in (runs["test_passed"] / "index.html").read_text("utf-8")
    frames = webm.frames_of(runs["test_failed"] / VIDEO_FILE)
    written = [int((pixels[FIELD] & 0xFF < 0x60).sum()) for _, pixels in frames]
    assert written[0] < 20 < 100 < written[-1]
    html = Path("report.html").read_text("utf-8")
    assert f"runs/{runs['test_failed'].name}/{VIDEO_FILE}" in html
    assert f"runs/{runs['test_typed'].name}/{VIDEO_FILE}" not in html
    attached = [file.read_bytes() for file in Path("allure").glob("*-attachment.webm")]
    kept = [(runs[f"test_{name}"] / VIDEO_FILE) for name in ("failed", "declared")]
    assert sorted(attached) == sorted(file.read_bytes() for file in kept)


def test_first_retry_alone_has_video(pytester: pytest.Pytester) -> None:
    require_package("pytest_rerunfailures")
    pytester.makepyfile(FLAKY)
    ended = pytester.runpytest_subprocess(
        *ON_FORM, "--vnc-video=on-first-retry", timeout=300
    )
    ended.assert_outcomes(passed=1)
    attempts = runs_by_test()["test_flaky"]
    assert [has_video(run) for run in attempts] == [False, True, False]


def test_artifacts_that_are_dropped_include_video(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess(
        *ON_FORM,
        "-k",
        "passed or failed",
        "--vnc-video=on",
        "--vnc-artifacts=retain-on-failure",
        timeout=300,
    )
    runs = runs_by_test()
    assert not has_video(*runs["test_passed"])
    assert has_video(*runs["test_failed"])
