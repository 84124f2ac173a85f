"""The hooks for who builds on this plugin: what they receive, and what becomes of one
that raises.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vnc_use.plugin import hookspecs
from pytest_vnc_use.plugin.observer import ItemObserver
from pytest_vnc_use.plugin.redaction import SECRETS, SessionSecrets
from pytest_vnc_use.plugin.state import state_of
from pytest_vnc_use.types import NO_FRAME, Drift, Region
from support.gemini_server import GeminiServer, calls, text

CONFTEST = """
import dataclasses
import pytest

def note(text):
    with open("noted.txt", "a") as file:
        file.write(text + "\\n")

def pytest_vnc_step(item, step):
    note(f"step {item.name} {step.number} {step.proposal.intent}")
    pytest.fail("not my day")

def pytest_vnc_verdict(verdict, run_dir):
    note(f"verdict {verdict.kind} {run_dir.is_dir()}")
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.kind = "fails"
    raise ValueError("\x1b[2Jhunter2hunter2")

def pytest_vnc_run_end(item, run):
    note(f"end {run.outcome} {run.steps} {run.dollars}")
"""
TEST = """
import pytest

@pytest.mark.vnc_task("Click it", expect="it was clicked", secrets=["PASSWORD"])
def test_it(vnc_agent):
    assert vnc_agent.runs
"""


@pytest.mark.desktop
def test_raising_hooks_on_worker_change_no_result(
    pytester: pytest.Pytester,
    model: Callable[..., GeminiServer],
    run: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2hunter2")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    verdict = text(
        json.dumps({"reason": "I see it.", "verdict": "holds", "box_2d": None})
    )
    result = run(
        model(
            calls(("click", {"x": 5, "y": 5, "intent": "open it"})),
            text("done"),
            verdict,
        ),
        "-n1",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*hooks that raised; the results of the tests do not depend on them*",
            (
                "the hook pytest_vnc_step at conftest.py:10 raised Failed: not my day"
                " (test_*.py::test_it)"
            ),
            (
                "the hook pytest_vnc_verdict at conftest.py:* raised ValueError: "
                " [[]2J<secret:PASSWORD> (test_*::test_it)"
            ),
        ]
    )
    noted = Path("noted.txt").read_text().splitlines()
    assert noted[0] == "step test_it 1 open it"
    assert noted[1].startswith("end done 1 0.00")
    assert noted[2] == "verdict holds True"


DRIFT = Drift("no hunter2hunter2 is shown", NO_FRAME, NO_FRAME, Region(0, 0, 1, 1))


def test_raising_drift_hook_is_reported_once_without_secrets() -> None:
    drifts: list[tuple[str, Path]] = []

    def hook(drift: Drift, run_dir: Path) -> None:
        drifts.append((drift.problem, run_dir))
        with pytest.raises(dataclasses.FrozenInstanceError):
            drift.problem = ""  # type: ignore[misc]  # that it cannot be set is the test
        raise SystemExit(3)

    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    manager.register(SimpleNamespace(pytest_vnc_drift=hook))
    stash = {SECRETS: SessionSecrets({"PASSWORD": "hunter2hunter2"})}
    item: Any = SimpleNamespace(
        ihook=manager.hook, stash=pytest.Stash(), config=SimpleNamespace(stash=stash)
    )
    state_of(item).runs = [Path("run-1")]
    observer = ItemObserver(item)
    for _ in range(3):
        observer.observe(DRIFT)
    assert drifts == [("no <secret:PASSWORD> is shown", Path("run-1"))] * 3
    (failure,) = state_of(item).notes["hook_error"]
    assert "raised SystemExit: " in failure


def test_next_password_replaces_former_one() -> None:
    secrets = SessionSecrets({"VNC_PASSWORD": "declared"})
    for password in ("firstone", "", "secondone"):
        secrets.add({"VNC_PASSWORD": password, "KEY": "thekeyitself"})
    hidden = "<secret:VNC_PASSWORD> firstone <secret:VNC_PASSWORD> <secret:KEY>"
    assert secrets.hide("declared firstone secondone thekeyitself") == hidden
