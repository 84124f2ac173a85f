"""The action trace of real runs, planned by functions of the user's: written, cut off by a kill, performed again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.local.callables import Answer, finish, key
from pytest_vnc_use.runs.uitask_trace import read_execution
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, KeyCombo, Observation, TypeText
from support.gemini_server import GeminiServer
from support.memory_desktop import PaintedController
from support.paths import TESTS

KILLED = """
import threading
from support.memory_desktop import PaintedController
from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.types import Click

def plan(observation):
    if observation.turns:
        print("second turn", flush=True)
        threading.Event().wait()
    return Click(1, 2)

VncUseAgent(controller=PaintedController(), planner=plan).run("Order", run_id="r1")
"""
PLANS = """
    from pytest_vnc_use.planners import finish
    from pytest_vnc_use.types import Click

    def order(observation):
        return finish() if observation.turns else Click(7, 8)
"""
TEST = """
    import pytest

    @pytest.mark.vnc_task("Click", expect=None)
    def test_it(vnc_desktop):
        assert vnc_desktop.read_file("events.txt").startswith("press 7 8 left")
"""


def order(observation: Observation) -> Answer:
    if observation.turns:
        return finish({"order": "apple-4711"})
    return [Click(10, 20), TypeText("pin apple-4711"), key("nosuchkey")]


def agent(tmp_path: Path, planner: object = None, secret: str = "apple-4711") -> tuple[VncUseAgent, PaintedController]:
    controller = PaintedController()
    settings = Settings(runs_dir=str(tmp_path / "runs"))
    secrets = {"PIN": secret} if secret else {}
    return VncUseAgent(settings=settings, controller=controller, planner=planner, secrets=secrets), controller


def test_run_leaves_its_trace_without_secrets(tmp_path: Path) -> None:
    ordering, _ = agent(tmp_path, order)
    result = ordering.run("Order with <secret:PIN>")
    execution = read_execution(result.run_dir)
    assert (result.outcome, result.params) == (Outcome.DONE, {"order": "<secret:PIN>"})
    assert (execution.run_id, execution.task) == (result.run_id, "Order with <secret:PIN>")
    assert execution.params == {"order": "<secret:PIN>"}
    assert [step.action for step in execution.steps] == [Click(10, 20), TypeText("pin <secret:PIN>")]
    assert [step.error for step in result.steps] == ["", "", "unknown key 'nosuchkey'"]
    assert all((result.run_dir / step.screenshot).is_file() for step in execution.steps)
    written = [path.read_bytes() for path in result.run_dir.rglob("*") if path.is_file()]
    assert not any(b"apple-4711" in content for content in written)


def test_crash_leaves_where_it_happened(tmp_path: Path) -> None:
    def crash(observation: Observation) -> Answer:
        raise ValueError("no apple-4711 here")

    crashing, _ = agent(tmp_path, crash)
    with pytest.raises(ValueError, match="no apple-4711 here"):  # a user's own exception stays as it is
        crashing.run("Order")
    [directory] = crashing.runs
    told = (directory / "error.txt").read_text(encoding="utf-8")
    assert told.startswith("Traceback (most recent call last):\n")
    assert "in crash\n" in told
    assert "apple-4711" not in told
    assert json.loads((directory / "partial_execution.json").read_bytes()) == []
    assert not (directory / "execution.json").exists()


def test_kill_leaves_whole_partial_trace(tmp_path: Path) -> None:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"second turn\n"
    child.kill()
    child.communicate(timeout=30)
    directory = tmp_path / "runs" / "r1"
    assert len(json.loads((directory / "partial_execution.json").read_bytes())) == 1
    assert not (directory / "execution.json").exists()
    again, controller = agent(tmp_path)
    assert again.reenact(directory).outcome is Outcome.DONE
    assert controller.performed == [Click(1, 2)]


def test_agent_carries_run_out_again_without_its_planner(tmp_path: Path) -> None:
    first, _ = agent(tmp_path, order)
    directory = first.run("Order").run_dir
    second, controller = agent(tmp_path, secret="pear-8")
    result = second.reenact(directory / "execution.json")
    assert (controller.performed[0], controller.typed) == (Click(10, 20), "pin pear-8")
    assert result.message == "performed 2 actions again; nothing was judged"
    assert result.task == "Order"
    undeclared, _ = agent(tmp_path, secret="")
    with pytest.raises(SettingsError, match="step 2 of the action trace needs the secret 'PIN'"):
        undeclared.reenact(directory)


def test_one_run_may_have_planner_of_its_own(tmp_path: Path) -> None:
    usual, controller = agent(tmp_path, lambda observation: finish())
    once = usual.run("Press", planner=lambda observation: finish() if observation.turns else key("enter"))
    assert usual.run("Press").steps == ()
    assert (len(once.steps), controller.performed) == (1, [KeyCombo(("enter",))])


@pytest.mark.desktop
def test_in_conftest(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], model: Callable[..., GeminiServer]
) -> None:
    pytester.makepyfile(plans=PLANS, test_it=TEST)
    pytester.makeconftest("""
        import pytest
        from plans import order

        @pytest.fixture
        def vnc_planner():
            return order
    """)
    run(model()).assert_outcomes(passed=1)


@pytest.mark.desktop
def test_on_command_line(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], model: Callable[..., GeminiServer]
) -> None:
    pytester.makepyfile(plans=PLANS, test_it=TEST)
    run(model(), "--vnc-planner=plans:order", "-o", "pythonpath=.").assert_outcomes(passed=1)
    told = run(model(), "--vnc-planner=plans:pay", "-o", "pythonpath=.").stdout
    told.fnmatch_lines(["*settings: the planner 'plans:pay' must be importable*has no attribute 'pay'*"])
