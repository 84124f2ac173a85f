"""The examples as the model does them, and as recordings of them are made; .ci/run and
the README replay them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.types import Proposal
from support.forked_python import run_python
from support.gemini_server import GeminiServer, calls, text
from support.paths import ROOT

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

EXAMPLE = "examples/test_shop.py::test_basket"
SENTENCE = "Sign in as alice, add two apples to the basket and open the basket"
HOLDS = {
    "reason": "the row says 2 apples and the total is 3.00",
    "verdict": "holds",
    "box_2d": [0, 0, 500, 500],
}


def _call(proposal: Proposal) -> tuple[str, dict[str, object]]:
    """Return a proposal as Gemini says it, on its grid."""
    values = vars(proposal.action)
    point = {
        "x": round(values["x"] / 1.44),
        "y": round(values["y"] / 0.9),
        "intent": proposal.intent,
    }
    if values["kind"] == "click":
        return "click", point
    return "type_text_at", {
        **point,
        "text": values["text"],
        "press_enter": values["press_enter"],
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    """A model that does the sentence's script, in its own words and on its grid."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    from scripts import SCRIPTS

    turns = [calls(*map(_call, turn)) for turn in SCRIPTS[SENTENCE]]
    end = text("the basket is open")
    verdict = text(json.dumps(HOLDS))
    with GeminiServer([*turns, end, verdict]) as server:
        yield server


def test_example_is_done_by_model_and_judged(
    server: GeminiServer, tmp_path: Path
) -> None:
    options = [
        "-Wdefault",
        "--vnc-planner=gemini",
        "--vnc-record=off",
        f"--vnc-runs-dir={tmp_path}",
    ]
    env = os.environ | {
        "GOOGLE_API_KEY": server.api_key,
        "GOOGLE_GEMINI_BASE_URL": server.url,
    }
    done = run_python(
        "pytest",
        EXAMPLE,
        f"--html={tmp_path / 'report.html'}",
        *options,
        cwd=ROOT,
        env=env,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    assert "planned by gemini (gemini-3.8-flash)" in done.stdout
    assert "gemini-3.8-flash" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert server.refusals == []


def test_example_is_recorded_by_demonstration(tmp_path: Path) -> None:
    leave_out = shutil.ignore_patterns("__vnc_recordings__", "__pycache__", "runs")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=leave_out)
    recording = (
        tmp_path
        / "examples"
        / "__vnc_recordings__"
        / "test_shop"
        / "test_basket"
        / "recording.json"
    )
    options = ["-k", "test_basket", "-p", "no:pytest-vnc", "-p", "no:cacheprovider"]
    command = [sys.executable, "examples/demonstrate.py", *options]
    env = {
        **os.environ,
        "CI": "",
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout
    assert "1 recording written" in done.stdout
    assert '"planner": "manual"' in recording.read_text(encoding="utf-8")
