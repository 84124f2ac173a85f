"""A drift in words, where the extra `[ocr]` is installed."""

from __future__ import annotations

import os
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.report.markdown import run_markdown
from support.forked_python import run_python
from support.till_project import PLANS, Project

pytest.importorskip("rapidocr")
READ = '"2.50" is now "2.51" (read by OCR)'
PATIENT = """
from pytest_vnc_use.plugin import drift_words

drift_words.READ_S = 60.0  # on a machine with other work too
"""

NOTHING_READ = """
import sys

def test_nothing_was_read():
    assert not {"onnxruntime", "rapidocr"} & {*sys.modules}
"""


@pytest.fixture
def patient(recorded: Project) -> Project:
    recorded.write("conftest.py", PLANS + PATIENT)
    return recorded


def test_drift_says_what_texts_were_and_are(patient: Project) -> None:
    fault = "--fault='wrong total'"
    ended = patient.run("--vnc-record=replay", "--junit-xml=junit.xml", till=fault)
    assert ended.code == 1
    assert f"; {READ}\n" in ended.out
    case = ElementTree.parse(patient.path / "junit.xml").find(".//failure")
    assert case is not None
    assert case.get("message", "").endswith(READ)
    (run,) = (patient.path / "runs").glob("*/trace.jsonl")
    assert READ in run_markdown(run.parent, patient.path)[0]


@pytest.mark.parametrize("fault", ["dark", "'moved button'"])
def test_drift_without_other_text_has_no_words(patient: Project, fault: str) -> None:
    ended = patient.run("--vnc-record=replay", till=f"--fault={fault}")
    assert ended.code == 1
    assert "read by OCR" not in ended.out


def test_test_that_passes_reads_nothing(recorded: Project) -> None:
    recorded.write("test_with_till.py", NOTHING_READ)
    ended = recorded.run("--vnc-record=replay")
    assert ended.code == 0, ended.out


PAGE = """<title>Shop</title><body style="margin: 0">
<button style="position: absolute; left: 100px; top: 100px; font-size: 30px">Pay {}</button>
"""
PAGE_TEST = """
import pytest
from pytest_vnc_use.planners.local.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.types import Click

def next_turn(observation):
    return AT_ITS_END if observation.turns else [Click(180, 120)]

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(next_turn)

@pytest.mark.vnc_task("Pay", expect=None)
def test_page(vnc_desktop): ...
"""


@pytest.mark.desktop
@pytest.mark.browser
def test_name_in_page_comes_before_reading(project: Project) -> None:
    page = project.path / "page.html"
    app = f"{browser_command()} --app={page.as_uri()}"
    project.write("conftest.py", PATIENT)
    project.write("test_till.py", PAGE_TEST)
    project.write(
        "pytest.ini",
        "[pytest]\nvnc_cdp = profile/DevToolsActivePort\n"
        f"vnc_app = {app}\nvnc_server = xvnc\nvnc_screen_size = 640x400\n",
    )
    outputs = []
    for mode, price in (("auto", "12.25"), ("replay", "12.26")):
        page.write_text(PAGE.format(price))
        command = ["pytest", "-p", "no:cacheprovider", f"--vnc-record={mode}"]
        env = {**os.environ, "VNC_USE_REHEARSE": "0", "CI": ""}
        done = run_python(*command, cwd=project.path, env=env, timeout=300)
        outputs.append(done.stdout + done.stderr)
    assert "1 passed" in outputs[0], outputs[0]
    assert '"Pay 12.25" is now "Pay 12.26" (name of the button)' in outputs[1]
    assert "read by OCR" not in outputs[1]
