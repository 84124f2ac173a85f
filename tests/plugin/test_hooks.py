"""The hooks for who builds on this plugin: what they receive, and what becomes of one that raises."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vnc_use.plugin.redaction import SessionSecrets
from pytest_vnc_use.plugin.runtest import HookCalls
from pytest_vnc_use.plugin.state import SECRETS, state_of
from pytest_vnc_use.types import NO_FRAME, Drifted, Region
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

def pytest_vnc_verdict(verdict, run_folder):
    note(f"verdict {verdict.kind} {run_folder.is_dir()}")
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
def test_hooks_on_a_worker_and_their_faults_change_no_result(
    pytester: pytest.Pytester,
    model: Callable[..., GeminiServer],
    run: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2hunter2")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    verdict = text(json.dumps({"reason": "I see it.", "verdict": "holds", "box_2d": None}))
    result = run(model(calls(("click", {"x": 5, "y": 5, "intent": "open it"})), text("done"), verdict), "-n1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*hooks that raised; the results of the tests do not depend on them*",
            "the hook pytest_vnc_step at conftest.py:10 raised Failed: not my day (test_*.py::test_it)",
            "the hook pytest_vnc_verdict at conftest.py:* raised ValueError:  [[]2J<secret:PASSWORD> (test_*::test_it)",
        ]
    )
    noted = Path("noted.txt").read_text().splitlines()
    assert noted[0] == "step test_it 1 open it"
    assert noted[1].startswith("end done 1 0.00")
    assert noted[2] == "verdict holds True"


def item_with(hook: Callable[..., object]) -> Any:
    """A test with one hook, for an observer."""
    stash = {SECRETS: SessionSecrets({"PASSWORD": "hunter2hunter2"})}
    relay = SimpleNamespace(pytest_vnc_drift=hook)
    item: Any = SimpleNamespace(ihook=relay, stash=pytest.Stash(), config=SimpleNamespace(stash=stash))
    state_of(item).runs = [Path("run-1")]
    return item


def test_a_drift_comes_without_secrets() -> None:
    drifts: list[tuple[Drifted, Path]] = []
    item = item_with(lambda item, drift, run_folder: drifts.append((drift, run_folder)))
    HookCalls(item).observe(Drifted("no hunter2hunter2 is shown", NO_FRAME, NO_FRAME, Region(0, 0, 1, 1)))
    assert drifts[0][0].problem == "no <secret:PASSWORD> is shown"
    assert drifts[0][1] == Path("run-1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        drifts[0][0].problem = ""  # type: ignore[misc]  # that it cannot be set is the test


def test_a_fault_is_noted_once_and_an_interrupt_goes_on() -> None:
    def hook(**_: object) -> None:
        raise SystemExit(3)

    item = item_with(hook)
    drift = Drifted("it differs", NO_FRAME, NO_FRAME)
    for _ in range(3):
        HookCalls(item).observe(drift)
    assert state_of(item).notes == {"hook_fault": ["the hook pytest_vnc_drift raised SystemExit: 3"]}

    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HookCalls(item_with(interrupt)).observe(drift)


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), BaseException("x"), _Unspeakable()])
def test_whatever_a_hook_raises_is_noted(error: BaseException) -> None:
    def hook(**_: object) -> None:
        raise error

    item = item_with(hook)
    HookCalls(item).observe(Drifted("it differs", NO_FRAME, NO_FRAME))
    assert f"raised {type(error).__name__}: " in state_of(item).notes["hook_fault"][0]


def test_what_a_hook_changes_is_its_own() -> None:
    def hook(item: object, data: dict[str, str]) -> None:
        data["what"] = "MUTATED"

    given = {"what": "it"}
    HookCalls(item_with(hook))._call("pytest_vnc_drift", data=given)
    assert given == {"what": "it"}


def test_next_password_replaces_former_one() -> None:
    secrets = SessionSecrets({"VNC_PASSWORD": "declared"})
    for password in ("firstone", "", "secondone"):
        secrets.add({"VNC_PASSWORD": password, "KEY": "thekeyitself"})
    hidden = "<secret:VNC_PASSWORD> firstone <secret:VNC_PASSWORD> <secret:KEY>"
    assert secrets.hide("declared firstone secondone thekeyitself") == hidden
