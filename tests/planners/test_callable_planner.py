"""Planners of the user's own: what may be one, what it may answer, and what is told of its mistakes."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Limits, Outcome, RunResult, VncUseAgent
from pytest_vnc_use.errors import AgentFailed, SettingsError
from pytest_vnc_use.errors.faults import users_lines
from pytest_vnc_use.planners.local.callables import (
    ActingPlanner,
    Answer,
    as_planner,
    finish,
    give_up,
    key,
    named_planner,
    scroll,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Decision, KeyCombo, Observation, Proposal, Scroll
from support.gemini_conversations import History
from support.memory_desktop import PaintedController


def plan(observation: Observation) -> Answer:
    return Click(1, 2)


def plan_with(answer: Any, observation: Observation) -> Any:
    return answer


class Acting:
    """Not a subclass of anything."""

    def act(self, observation: Observation) -> Answer:
        return plan(observation)


class Subclass(ActingPlanner):
    def act(self, observation: Observation) -> Answer:
        return plan(observation)


class Called:
    def __call__(self, observation: Observation) -> Answer:
        return plan(observation)


class NeedsModel:
    def __init__(self, model: str) -> None: ...


def decide(planner: Any, history: History) -> Decision:
    return as_planner(planner).decide(history.observation(), timeout_s=1.0)


def answered(answer: Any) -> Decision:
    return decide(partial(plan_with, answer), History())


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (plan, "plan"),
        (lambda observation: plan(observation), "<lambda>"),
        (partial(plan_with, Click(1, 2)), "plan_with"),
        (Called(), "Called"),
        (Acting(), "Acting.act"),
        (Acting, "Acting.act"),
        (Subclass(), "Subclass"),
        (Subclass, "Subclass"),
    ],
)
def test_whatever_acts_is_planner_named_after_where_it_stands(thing: Any, name: str, history: History) -> None:
    assert decide(thing, history).proposals == (Proposal(Click(1, 2)),)
    assert as_planner(thing).name == f"callable ({__name__}:{name})"


class WithoutName:
    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        return Decision("finished")


async def awaited(observation: Observation) -> Answer:
    return finish()


@pytest.mark.parametrize(
    ("thing", "problem"),
    [
        ("gemini", "must have `decide`, have `act`, or be a function that takes an observation"),
        (None, "got None"),
        (awaited, "(no `async def`)"),
        (WithoutName(), "must have a `name` for the report too"),
        (NeedsModel, f"'{__name__}:NeedsModel' must be made without arguments: TypeError"),
        (ActingPlanner, "must be made without arguments: TypeError"),
    ],
)
def test_what_is_none_is_told(thing: object, problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        as_planner(thing)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([], "must be an action, a list of actions, finish(), give_up(reason) or a Decision, got []"),
        (None, "or a Decision, got None"),
        ("click", "or a Decision, got 'click'"),
        (5, "or a Decision, got 5"),
        (["click"], "must hold actions or proposals, got 'click'"),
        (Click("left", 2), "holds an invalid Click: x does not fit"),  # type: ignore[arg-type]
        (KeyCombo("ctrl+a"), "holds an invalid KeyCombo: keys does not fit"),  # type: ignore[arg-type]
        (Decision("act", proposals=(Proposal(3),)), "must hold actions or proposals"),  # type: ignore[arg-type]
        (Decision("done"), "must be of the kind act, finished, gave_up, got 'done'"),  # type: ignore[arg-type]
        (Decision("act"), "is `act` without any action; it must propose at least one"),
    ],
)
def test_any_other_answer_is_planners_error(answer: Any, problem: str) -> None:
    with pytest.raises(AgentFailed, match=rf"an answer of callable \({__name__}:plan_with\)") as caught:
        answered(answer)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_exception_goes_on_its_way_as_it_is(history: History, tmp_path: Path) -> None:
    source = "def look(shop):\n    return shop['basket']\n\ndef act(observation):\n    return look({})\n"
    (tmp_path / "shop_plan.py").write_text(source, encoding="utf-8")
    module: dict[str, Any] = {"__name__": "shop_plan"}
    exec(compile(source, str(tmp_path / "shop_plan.py"), "exec"), module)
    with pytest.raises(KeyError) as caught:
        decide(module["act"], history)
    lines = users_lines(caught.value, tmp_path / "test_it.py")
    assert lines[:2] == ["shop_plan.py:2, in look", "shop_plan.py:5, in act"]


def run(tmp_path: Path, planner: Any, controller: PaintedController, seconds: float = 20.0) -> RunResult:
    settings = Settings(runs_dir=str(tmp_path / "runs"))
    agent = VncUseAgent(settings=settings, controller=controller, planner=as_planner(planner))
    return agent.run("Order", limits=Limits(seconds=seconds))


def test_function_carries_out_task(tmp_path: Path) -> None:
    def order(observation: Observation) -> Answer:
        match len(observation.turns):
            case 0:
                return [Click(10, 20), key("Ctrl+Shift+P")]
            case 1:
                return scroll(10, 20, dy=-3)
            case _:
                return finish({"order": 7, "paid": True})

    controller = PaintedController()
    result = run(tmp_path, order, controller)
    assert controller.performed == [Click(10, 20), KeyCombo(("Ctrl+Shift+P",)), Scroll(10, 20, "up", 3)]
    assert (result.outcome, result.message) == (Outcome.DONE, '{"order": 7, "paid": true}')
    assert [step.turn for step in result.steps] == [1, 1, 2]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of the user's: a function, and a module that cannot be imported."""
    (tmp_path / "their_shop").mkdir()
    (tmp_path / "their_shop" / "__init__.py").touch()
    (tmp_path / "their_shop" / "plans.py").write_text(
        "from pytest_vnc_use.planners import finish\n\ndef order(observation): return finish()\n", encoding="utf-8"
    )
    (tmp_path / "their_shop" / "broken.py").write_text("\n\nraise OSError('no\\nshop')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "their_shop"


def test_planner_is_found_by_module_and_name(module: str, history: History) -> None:
    planner = named_planner(f"{module}.plans:order")
    assert planner.name == "callable (their_shop.plans:order)"
    assert decide(planner, history).kind == "finished"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("their_shop", "must be named as package.module:name, got 'their_shop'"),
        ("their_shop:", "must be named as package.module:name"),
        (":order", "must be named as package.module:name"),
        ("their shop:order", "ValueError"),
        ("nowhere:order", "ModuleNotFoundError: No module named 'nowhere'"),
        ("their_shop.plans:pay", "AttributeError: module 'their_shop.plans' has no attribute 'pay'"),
        ("their_shop.broken:order", "OSError: no shop at broken.py:3"),
        ("their_shop.plans:__name__", "got 'their_shop.plans'"),
    ],
)
def test_wrong_name_is_told_in_one_line(module: str, address: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        named_planner(address)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("distance", "scrolled"),
    [
        ({"dy": 3}, Scroll(5, 6, "down", 3)),
        ({"dy": -3}, Scroll(5, 6, "up", 3)),
        ({"dx": 1}, Scroll(5, 6, "right", 1)),
        ({"dx": -1, "dy": 0}, Scroll(5, 6, "left", 1)),
    ],
)
def test_negative_numbers_scroll_back(distance: dict[str, int], scrolled: Scroll) -> None:
    assert scroll(5, 6, **distance) == scrolled


@pytest.mark.parametrize("distance", [{}, {"dx": 0}, {"dx": 1, "dy": 1}, {"dy": 0.5}])
def test_scroll_goes_one_way(distance: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="by dx or by dy"):
        scroll(5, 6, **distance)


def test_run_ends_with_what_planner_says() -> None:
    assert finish({"order": 7}) == Decision("finished", '{"order": 7}', params={"order": 7})
    assert finish({"at": Path("x")}, message="ordered") == Decision("finished", "ordered", params={"at": "x"})
    assert give_up("no shop") == Decision("gave_up", "no shop")
