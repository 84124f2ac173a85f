"""What a test leaves in memory once it has ended: no screen, whoever keeps its error."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from support.forked_python import run_python
from support.served_screen import served_screen

CONFTEST = """
import gc
import json
import tracemalloc

import pytest
from pytest_vnc_use.errors import ModelUnavailable
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click, Reading, Verdict

ERRORS = []
HELD = {}

def pytest_sessionstart():
    gc.disable()

def pytest_exception_interact(call):
    ERRORS.append(call.excinfo)  # as pytest-rerunfailures does

def pytest_runtest_logfinish(nodeid):
    if not tracemalloc.is_tracing():
        tracemalloc.start()  # the first test imports what all use
    HELD[nodeid] = tracemalloc.get_traced_memory()[0]

def pytest_sessionfinish():
    with open("held.json", "w") as file:
        json.dump(HELD, file)

@pytest.fixture
def vnc_planner():
    return lambda observation: finish() if observation.turns else Click(30, 40)

class UserJudge:
    def judge(self, claim, frame, *, timeout_s, report):
        if claim == "outage":
            raise ModelUnavailable("overloaded")
        if claim == "lost":
            self.lose_desktop()
        return Verdict(claim, "fails", "it does not")

    def read(self, question, schema, frame, *, timeout_s, report):
        return Reading(question, "no number", "it is there")

@pytest.fixture
def vnc_judge():
    return UserJudge()
"""
TESTS = """
import pytest

@pytest.mark.parametrize("how", ["first", "passes", "fails", "drifts"])
def test_click(vnc_agent, how):
    if how == "drifts":
        vnc_agent.click(300, 300)
    vnc_agent.run("Click", expect=None, recording="click")
    assert how != "fails"
"""
CLAIMS = """
import pytest

@pytest.mark.parametrize("how", ["first", "verify", "outage", "extract", "lost"])
def test_screen(vnc_agent, vnc_judge, how):
    vnc_agent.screenshot()
    if how == "verify":
        vnc_agent.verify("it holds")
    elif how == "outage":
        vnc_agent.verify("outage")
    elif how == "extract":
        vnc_agent.extract(int, "how many?")
    elif how == "lost":
        vnc_judge.lose_desktop = vnc_agent.controller.close
        vnc_agent.verify("lost", within_s=5)
"""
SIZE = (1440, 900)
SCREEN_BYTES = 4 * SIZE[0] * SIZE[1]


def added_by_tests(
    directory: Path, tests: str, runs: Sequence[tuple[Sequence[str], str]]
) -> dict[str, int]:
    """Run the tests with the options of each run, which must end with its summary;
    return the bytes that each test of the last one added to those held.
    """
    (directory / "pytest.ini").touch()
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_it.py").write_text(tests)
    for options, summary in runs:
        with served_screen(size=SIZE, resets=True) as screen:
            done = run_python(
                "pytest",
                "-p",
                "no:cacheprovider",
                f"--vnc-server={screen.address}",
                "-ovnc_gate_seconds=0.5",
                *options,
                cwd=directory,
                env={**os.environ, "CI": ""},
                timeout=400,
            )
        assert summary in done.stdout, done.stdout + done.stderr
    held = json.loads((directory / "held.json").read_text())
    before = (0, *held.values())
    return {
        test: held_bytes - earlier
        for (test, held_bytes), earlier in zip(held.items(), before, strict=False)
    }


def test_ended_replay_holds_no_screen(tmp_path: Path) -> None:
    """Not even until garbage is collected: that counts objects, not their bytes."""
    added = added_by_tests(
        tmp_path,
        TESTS,
        (
            (("--vnc-record=auto", "-kfirst"), " 1 passed"),
            (("--vnc-record=replay",), " 2 failed, 2 passed"),
        ),
    )
    assert max(added.values()) < SCREEN_BYTES / 2, added


def test_failed_claim_holds_no_screen(tmp_path: Path) -> None:
    added = added_by_tests(tmp_path, CLAIMS, [((), " 4 failed, 1 passed")])
    assert max(added.values()) < SCREEN_BYTES / 2, added
