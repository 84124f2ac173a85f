"""A drift in words, where the extra `[ocr]` is installed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pytest_vnc_use.report.markdown import run_markdown
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
