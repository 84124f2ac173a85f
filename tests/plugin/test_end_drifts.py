"""A drift at the end of a test's last task: the body runs all the same, and its assertion comes first."""

from __future__ import annotations

import pytest

from pytest_vnc_use.report.results import read_results
from support.till_project import TASK, Project

pytestmark = pytest.mark.desktop

TESTS = f"""
import pytest

{TASK}def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

{TASK}def test_asserts(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 6.00"

{TASK}def test_skips(vnc_agent):
    pytest.skip("not today")

{TASK}{TASK.replace("Enter alice, add two apples and pay", "Pay again")}def test_goes_on(vnc_desktop):
    open("body.txt", "w").close()
"""


@pytest.fixture
def project(recorded: Project) -> Project:
    (recorded.path / "conftest.py").unlink()
    return recorded


def test_drift_at_end_runs_body_first(project: Project) -> None:
    project.write("test_till.py", TESTS)
    for name in ("asserts", "skips", "goes_on"):
        project.copy_recording(f"test_{name}")
    ended = project.run("-ovnc_gate_seconds=1", till="--fault='another mark'")
    tests = read_results(project.path / "runs" / "vnc-results.json").tests
    found = {test.test.partition("::test_")[2]: (test.triage, test.message) for test in tests}
    unclear = dict.fromkeys(("till", "skips", "goes_on"), "inconclusive")
    assert {name: triage for name, (triage, _) in found.items()} == {**unclear, "asserts": "product"}, ended.out
    for name, (triage, message) in found.items():
        is_drift = message.startswith("drift " if name == "goes_on" else "drift at the end: ")
        assert is_drift == (name != "asserts"), (name, triage, message)
    assert "alice pays 6.00" in found["asserts"][1]
    assert ended.out.count("Captured drift call") == 1, "it stands beside the assertion"
    assert not (project.path / "body.txt").exists(), "a task with steps left has no body to run"
