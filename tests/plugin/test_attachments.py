"""Only attachments.py sets attributes of this plugin's own on reports; other files set fields that pytest documents."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pytest_vnc_use import plugin
from pytest_vnc_use.plugin import attachments

FOLDER = Path(plugin.__file__).parent
FIELDS = {"outcome", "longrepr", "sections", "user_properties"}


def report_of_call() -> pytest.TestReport:
    return pytest.TestReport("test_it.py::test_it", ("test_it.py", 0, "test_it"), {}, "passed", None, "call")


def test_no_other_file_sets_an_attribute() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                assert ast.unparse(node.value) != "report" or node.attr in FIELDS, f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
                is_owner = path.name == "attachments.py"
                assert is_owner or ast.unparse(node.args[0]) != "report", f"{path.name}:{node.lineno}"


def test_what_is_attached_goes_to_another_process(pytestconfig: pytest.Config) -> None:
    report = report_of_call()
    attachments.attach(report, [{"folder": "runs/1"}], 0.5, "it says so")
    attachments.attach_rehearsals(report, [{"number": 1}], [{"folder": "runs/2"}], 0.25)
    attachments.attach_html(report, [{"content": "<p>"}], [("runs/1", "a.png", b"png")])
    sent = pytestconfig.hook.pytest_report_to_serializable(config=pytestconfig, report=report)
    received = pytestconfig.hook.pytest_report_from_serializable(config=pytestconfig, data=sent)
    assert attachments.is_of_desktop(received)
    assert attachments.attached_to(received)["dollars"] == 0.75
    assert [run["folder"] for run in attachments.runs_attached_to(received)] == ["runs/1", "runs/2"]
    assert attachments.extras_of(received) == [{"content": "<p>"}]
    assert attachments.take_pictures(received) == [("runs/1", "a.png", b"png")]
    assert attachments.pictures_of(received) == ()


def test_other_reports_have_nothing() -> None:
    report = report_of_call()
    assert not attachments.is_of_desktop(report)
    assert attachments.attached_to(report)["message"] == ""
    assert attachments.runs_attached_to(report) == attachments.extras_of(report) == ()
