"""A drift at the end of a test's last task: the body runs all the same, and its assertion comes first."""

from __future__ import annotations

import pytest

from pytest_vnc_use.report.results import read_results
from support.till_project import TASK, Project

pytestmark = pytest.mark.desktop

TESTS = f"""
import pytest, unittest

{TASK}def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

{TASK}def test_asserts(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 6.00"

{TASK}def test_checks(vnc_agent, vnc_desktop):
    vnc_agent.check(vnc_desktop.read_file("total.txt") == "bob", "bob pays")

{TASK}def test_skips(vnc_agent):
    pytest.skip("not today")

{TASK}def test_xfails(vnc_agent):
    pytest.xfail("not yet")

{TASK}def test_breaks(vnc_agent):
    raise KeyError("total")

{TASK}def test_reads(vnc_desktop):
    vnc_desktop.read_file("nothing.txt")

{TASK}@pytest.mark.anyio
async def test_waits(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 7.00"

{TASK}@pytest.mark.parametrize("paid", ["5.00", "8.00"], ids=["right", "wrong"])
def test_pays(paid, vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == f"alice pays {{paid}}"
"""


@pytest.fixture
def project(recorded: Project) -> Project:
    (recorded.path / "conftest.py").unlink()
    return recorded


def test_drift_at_end_runs_body_first(project: Project) -> None:
    project.write("test_till.py", TESTS)
    for name in ("asserts", "checks", "skips", "xfails", "breaks", "reads", "waits"):
        project.copy_recording(f"test_{name}")
    for name in ("right", "wrong"):
        project.copy_recording(f"test_pays[{name}]", "paid")
    (project.path / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n", encoding="utf-8"
    )
    ended = project.run("-ovnc_gate_seconds=1", "-n2", till="--fault='another mark'")
    tests = read_results(project.path / "runs" / "vnc-results.json").tests
    found = {test.test.partition("::test_")[2]: (test.triage, test.message) for test in tests}
    triages = {name: triage for name, (triage, _) in found.items()}
    inconclusive = {"till", "skips", "xfails", "breaks", "reads", "pays[right]"}
    assert {name for name, triage in triages.items() if triage == "inconclusive"} == inconclusive, ended.out
    assert {"asserts", "checks", "waits", "pays[wrong]"} <= {name for name in triages if triages[name] == "product"}
    for name, (triage, message) in found.items():
        is_drift = message.startswith("drift at the end: ")
        assert is_drift == (name in inconclusive), (name, triage, message)
    assert "alice pays 6.00" in found["asserts"][1]
    assert ended.out.count("Captured drift call") >= 3, "it stands beside each assertion"
    assert "KeyError: 'total'" in ended.out


@pytest.mark.parametrize(
    ("fault", "tasks"), [("moved button", 1), ("another mark", 2)], ids=["before a step", "before another task"]
)
def test_drift_with_steps_left_does_not_run_body(project: Project, fault: str, tasks: int) -> None:
    second = '@pytest.mark.vnc_task("Pay again", expect=None)\n'
    body = 'def test_till(vnc_desktop):\n    open("body.txt", "w").close()\n    assert False\n'
    # decorators apply from the bottom up, and their tasks are done from the top down
    project.write("test_till.py", f"import pytest\n\n{TASK}{second if tasks == 2 else ''}{body}")
    ended = project.run("-ovnc_gate_seconds=1", till=f"--fault='{fault}'")
    assert (ended.code, "inconclusive: drift " in ended.out) == (1, True), ended.out
    assert not (project.path / "body.txt").exists()
