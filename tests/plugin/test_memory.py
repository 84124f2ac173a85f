"""What a test leaves in memory once it has ended: no screen, whoever keeps its error."""

from __future__ import annotations

import json
import os
from pathlib import Path

from support.forked_python import run_python
from support.served_screen import served_screen

CONFTEST = """
import gc
import json
import tracemalloc

import pytest
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click

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
SIZE = (1440, 900)
SCREEN_BYTES = 4 * SIZE[0] * SIZE[1]


def test_ended_replay_holds_no_screen(tmp_path: Path) -> None:
    """Not even until garbage is collected: that counts objects, not their bytes."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    for options, summary in (
        (("--vnc-record=auto", "-kfirst"), " 1 passed"),
        (("--vnc-record=replay",), " 2 failed, 2 passed"),
    ):
        with served_screen(size=SIZE, resets=True) as screen:
            done = run_python(
                "pytest",
                "-p",
                "no:cacheprovider",
                f"--vnc-server={screen.address}",
                "-ovnc_gate_seconds=0.5",
                *options,
                cwd=tmp_path,
                env={**os.environ, "CI": ""},
                timeout=400,
            )
        assert summary in done.stdout, done.stdout + done.stderr

    held = json.loads((tmp_path / "held.json").read_text())
    before = 0
    for test, held_bytes in held.items():
        added = held_bytes - before
        assert added < SCREEN_BYTES / 2, f"{test}: {added:,} bytes"
        before = held_bytes
