"""The tasks of a test: what a marker says holds for its own task only."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import TaskFailed
from pytest_vnc_use.plugin.markers import TaskSpec
from pytest_vnc_use.plugin.runtest import run_tasks
from pytest_vnc_use.settings.layers import policy_path
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Confirmation, KeyCombo, Proposal
from support.memory_desktop import ListPlanner, PaintedController, act, finished

CLICK = Proposal(Click(10, 10), "open the basket")
RISKY = Proposal(Click(20, 20), "buy", {}, Confirmation("this buys two apples"))
LAX = '[[rule]]\nname = "anything"\ndecision = "allow"\naction = "*"\n'


def agent_of(planner: ListPlanner, controller: PaintedController, directory: Path) -> VncUseAgent:
    settings = Settings(runs_dir=str(directory / "runs"))
    return VncUseAgent(settings=settings, planner=planner, controller=controller, hitl_mode=False, check=True)


@pytest.fixture
def lax(tmp_path: Path) -> str:
    path = tmp_path / "lax.toml"
    path.write_text(LAX, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("order", [1, -1], ids=["strict first", "lax first"])
def test_policy_holds_for_task_that_names_it_only(tmp_path: Path, lax: str, order: int) -> None:
    specs = [TaskSpec("under the default"), TaskSpec("under a lax policy", settings={"policy": lax})][::order]
    controller = PaintedController()
    agent = agent_of(ListPlanner([act(RISKY), finished()]), controller, tmp_path)
    with pytest.raises(TaskFailed, match=r"ended as denied(.|\n)*task: under the default"):
        run_tasks(agent, specs)
    assert len(controller.performed) == [1, -1].index(order)


def test_task_may_name_preset_strict(tmp_path: Path) -> None:
    agent = agent_of(ListPlanner([act(Proposal(KeyCombo(("ctrl", "t")))), finished()]), PaintedController(), tmp_path)
    spec = TaskSpec("Open a tab", settings={"policy": policy_path(tmp_path, "strict")})
    with pytest.raises(TaskFailed, match="ended as denied: strict: only listed keys"):
        run_tasks(agent, [spec])


def test_limits_hold_for_task_that_names_them_only(tmp_path: Path) -> None:
    specs = [TaskSpec("short", settings={"max_steps": 1}), TaskSpec("long")]
    one_step = ListPlanner([act(CLICK), finished()])
    run_tasks(agent_of(one_step, PaintedController(), tmp_path), specs)
    two_steps = ListPlanner([act(CLICK), act(CLICK), finished()])
    run_tasks(agent_of(two_steps, PaintedController(), tmp_path), specs[1:])
    with pytest.raises(TaskFailed, match=r"ended as step_limit: the limit of 1 steps(.|\n)*task: short"):
        run_tasks(agent_of(two_steps, PaintedController(), tmp_path), specs)
