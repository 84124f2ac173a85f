"""One session of tests that end in all ways, on a worker: its terminal, JUnit's XML,
results, page and GitHub summary.

What changed is shown by the failure; `python -m pytest tests/test_snapshot.py
--snapshot-update` accepts it.
"""

from __future__ import annotations

import html
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vnc_use.report.results import read_results
from support.forked_python import run_python
from support.pad_sessions import QUIET
from support.served_screen import served_screen
from support.vnc_servers import require_package

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

require_package("syrupy")

CONFTEST = """
import pytest
from pytest_vnc_use.errors import QuotaExhausted
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, Decision, Region, TypeText, Verdict

CLICK = [Click(5, 5)]

def out_of_quota(observation):
    raise QuotaExhausted("no more <b>today</b> | never")

PLANS = {
    "gave_up": [CLICK, Decision("gave_up", "there is no basket")],
    "quota": out_of_quota,
    "step_limit": lambda observation: [Click(5, 5 + len(observation.turns))],
    "denied": [[Click(5, 5), TypeText("sudo reboot")]],
}

@pytest.fixture
def vnc_planner(request):
    return ScriptedPlanner(PLANS.get(request.node.name.removeprefix("test_"), [CLICK]))

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        kind = next((kind for kind in ("fails", "unsure") if kind in claim), "holds")
        return Verdict(claim, kind, f"the screen {kind}", Region(0, 0, 99, 50), frame.ref, "a-judge")

@pytest.fixture
def vnc_judge():
    return Judge()
"""
TESTS = """
import pytest

task = pytest.mark.vnc_task

@task("Open the basket", expect=["the basket is open", "the total holds"])
def test_claims_hold(vnc_desktop): ...

@task("Open the basket", expect=["the basket is open", "the total fails"])
def test_claim_fails(vnc_desktop): ...

@task("Open the basket", expect="the total is unsure")
def test_claim_unsure(vnc_desktop): ...

@task("Open what fails")
def test_end_fails(vnc_desktop): ...

@task("Open the basket", expect=None)
def test_body_passes(vnc_desktop): ...

@task("Open the basket", expect=None)
def test_body_fails():
    assert ["apples"] == ["pears"]

@task("Open the basket", expect=None)
def test_gave_up(vnc_desktop): ...

@task("Open the basket", expect=None)
def test_quota(vnc_desktop): ...

@task("Open the basket", expect=None, max_steps=2)
def test_step_limit(vnc_desktop): ...

@task("Open the basket", expect=None)
def test_denied(vnc_desktop): ...

@task("Open the basket", secrets="NOSUCH_PASSWORD", expect=None)
def test_settings(vnc_desktop): ...

@pytest.fixture
def orders(vnc_desktop):
    yield
    raise LookupError("in a teardown")

def test_teardown(orders): ...

def test_fails_first(orders): assert 0

@pytest.mark.xfail(run=False)
def test_not_run(vnc_desktop): ...

@pytest.mark.skip
def test_skipped_by_mark(vnc_desktop): ...

@pytest.mark.xfail(raises=AssertionError)
def test_xfailed(vnc_desktop): assert 0

def test_skipped(vnc_desktop): pytest.skip("not today")

def test_without_desktop(): assert 0
"""
POLICY = """
[[rule]]
name = "no rebooting"
decision = "deny"
text = "reboot"
"""
REPLACED = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d:\d\d| UTC|Z)?": "<time>",
    r"\b\d{8}-\d{6}-[\w-]+": "<run>",
    r"\b[0-9a-f]{64}\b": "<digest>",
    r"\b0x[0-9a-f]+|\b127\.0\.0\.1::\d+": "<address>",
    r"(<|&lt;)pytest_vnc_use\S* object at <address>(>|&gt;)": "<object>",
    r"\b\d+(\.\d+)? ?s\b( \([\d:]+\))?|(?<=_s\": )[\d.]+|(?<=time=\")[\d.]+|^\d+\.\d$": (
        "<s>"
    ),
    r"[\d,]+ pixels? differ.*": "<pixels> differ",
    r"^the screen .*stable.*": "<settled>",
    r"^\[gw0\] .*\n|^bringing up nodes.*\n+": "",
    r"([=_-])\1{4,}": r"\1\1\1\1",
    r" +$": "",
}
"""What differs from one session, or machine, to the next, and what stands for it."""


def test_session_output_is_as_before(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    # it is collected before anything shows that there is a desktop
    broken = "raise LookupError('hunter2-hunter2')"
    files = {
        "conftest.py": CONFTEST,
        "test_broken.py": broken,
        "test_it.py": TESTS,
        "policy.toml": POLICY,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = [
        *QUIET,
        "-p",
        "no:warnings",
        "--continue-on-collection-errors",
        "-q",
        "-n1",
        "-ra",
        "-o",
        "junit_family=xunit1",
        "--junitxml=junit.xml",
    ]
    environment = {
        **os.environ,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "COLUMNS": "400",
        "CI": "",
    }
    with served_screen() as screen:
        options += [
            "--html=report.html",
            "--vnc-policy=policy.toml",
            f"--vnc-server={screen.address}",
        ]
        done = run_python(
            "pytest", *options, cwd=tmp_path, env=environment, timeout=500
        )
    tests = read_results(tmp_path / "runs" / "vnc-results.json").tests
    (run,) = next(test for test in tests if test.test.endswith("test_claim_fails")).runs
    texts = {
        "output.txt": done.stdout,
        "page of a failed run": (
            tmp_path.joinpath(run.directory, "index.html").read_text("utf-8")
        ),
    }
    for name in ("junit.xml", "runs/vnc-results.json", "runs/index.html", "summary.md"):
        texts[name] = (tmp_path / name).read_text(encoding="utf-8")
    for name, text in texts.items():
        assert normalized(text, tmp_path) == snapshot(name=name)
    report = html.unescape(
        html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    )
    assert re.search(
        r"sentence[^>]{0,20}>The test failed: QuotaExhausted: no more", report
    )
    triages = re.findall(r'col-triage\\?">(\w*)<', report)
    assert {*triages} == {
        "product",
        "agent",
        "infra",
        "budget",
        "policy",
        "settings",
        "inconclusive",
        "",
    }


def normalized(text: str, session: Path) -> str:
    """Return the text, of a page what it shows, of results a line a test, without
    paths, times and ids.
    """
    if text.startswith("<!DOCTYPE html"):
        text = re.sub(r"<(style|script)\b.*?</\1>|<[^>]+>", "\n", text, flags=re.DOTALL)
        text = html.unescape(re.sub(r"\s*\n\s*", "\n", text))
    elif text.startswith("{"):
        results = json.loads(text)
        text = "\n".join(map(json.dumps, (*results.pop("tests"), results)))
    places = {
        str(session): "<dir>",
        sys.executable: "<python>",
        platform.node(): "<machine>",
    }
    for place, sign in places.items():
        text = text.replace(place, sign).replace(
            re.sub(r"([\W_])", r"\\\1", place), sign
        )
    for pattern, sign in REPLACED.items():
        text = re.sub(pattern, sign, text, flags=re.MULTILINE)
    return text
