"""What users write in Python: planners as functions, objects, classes and scripts, and
functions for the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_vnc_use.errors import AgentFailed, SettingsError
from pytest_vnc_use.planners.common.functions import declare, declare_all
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
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner, ScriptedTurn
from pytest_vnc_use.types import (
    Click,
    Decision,
    KeyCombo,
    Observation,
    Proposal,
    TypeText,
)
from support.players import History


def plan(observation: Observation) -> Answer:
    return Click(1, 2)


def plan_with(answer: Any, observation: Observation) -> Any:
    return answer


class Acting:
    def act(self, observation: Observation) -> Answer:
        return plan(observation)


class Subclass(ActingPlanner):
    def act(self, observation: Observation) -> Answer:
        return plan(observation)


class NeedsModel:
    def __init__(self, model: str) -> None: ...


class WithoutName:
    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        return Decision("finished")


async def awaited(observation: Observation) -> Answer:
    """Return a coroutine."""
    return finish()


HISTORY = History()


def decide(planner: Any, history: History = HISTORY) -> Decision:
    return as_planner(planner).decide(history.observation(), timeout_s=1.0)


@pytest.mark.parametrize(
    ("planner", "name"),
    [
        (plan, "plan"),
        (partial(plan_with, Click(1, 2)), "plan_with"),
        (Acting, "Acting.act"),
        (Subclass, "Subclass"),
    ],
    ids=["function", "partial", "class", "subclass"],
)
def test_callable_acts_under_its_address(planner: Any, name: str) -> None:
    assert decide(planner).proposals == (Proposal(Click(1, 2)),)
    assert as_planner(planner).name == f"callable ({__name__}:{name})"


@pytest.mark.parametrize(
    ("planner", "problem"),
    [
        (
            "gemini",
            (
                "must have `decide`, have `act`, or be a function that takes an"
                " observation"
            ),
        ),
        (awaited, "(no `async def`)"),
        (WithoutName(), "must have a `name` for the report too"),
        (
            NeedsModel,
            f"'{__name__}:NeedsModel' must be made without arguments: TypeError",
        ),
    ],
)
def test_planner_of_other_kind_raises_settings_error(
    planner: object, problem: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        as_planner(planner)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            [],
            (
                "must be an action, a list of actions, finish(), give_up(reason) or a"
                " Decision, got []"
            ),
        ),
        (["click"], "must hold actions or proposals, got 'click'"),
        (Click("left", 2), "holds an invalid Click: x does not fit"),  # type: ignore[arg-type]
        (Decision("done"), "must be of the kind act, finished, gave_up, got 'done'"),  # type: ignore[arg-type]
        (Decision("act"), "is `act` without any action; it must propose at least one"),
    ],
)
def test_answer_of_other_kind_raises_agent_failed(answer: Any, problem: str) -> None:
    with pytest.raises(
        AgentFailed, match=rf"an answer of callable \({__name__}:plan_with\)"
    ) as raised:
        decide(partial(plan_with, answer))
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


PLANS = (
    "from pytest_vnc_use.planners import finish\n\ndef order(observation): return"
    " finish()\n"
)


ADDRESSES = {
    "their_shop": "must be named as package.module:name, got 'their_shop'",
    "nowhere:order": "ModuleNotFoundError: No module named 'nowhere'",
    "their_shop.broken:order": "OSError: no shop at broken.py:3",
    "their_shop.plans:__name__": "got 'their_shop.plans'",
}


@pytest.fixture
def their_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a planner, and with a module that cannot be imported."""
    package = tmp_path / "their_shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "plans.py").write_text(PLANS, encoding="utf-8")
    (package / "broken.py").write_text("\n\nraise OSError('no\\nshop')\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("their_shop")
def test_planner_is_named_by_module_and_name() -> None:
    planner = named_planner("their_shop.plans:order")
    assert planner.name == "callable (their_shop.plans:order)"
    assert decide(planner).kind == "finished"


@pytest.mark.usefixtures("their_shop")
@pytest.mark.parametrize(("address", "problem"), ADDRESSES.items())
def test_invalid_planner_name_is_rejected(address: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        named_planner(address)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_helpers_return_actions_and_ends() -> None:
    assert key("Ctrl+Shift+P") == KeyCombo(("Ctrl+Shift+P",))
    scrolls = [
        scroll(5, 6, dy=3),
        scroll(5, 6, dy=-3),
        scroll(5, 6, dx=1),
        scroll(5, 6, dx=-1, dy=0),
    ]
    assert [(each.direction, each.clicks) for each in scrolls] == [
        ("down", 3),
        ("up", 3),
        ("right", 1),
        ("left", 1),
    ]
    with pytest.raises(ValueError, match="by dx or by dy"):
        scroll(5, 6, dx=1, dy=1)
    assert finish({"at": Path("x")}) == Decision(
        "finished", '{"at": "x"}', params={"at": "x"}
    )
    assert finish({"order": 7}, message="ordered") == Decision(
        "finished", "ordered", params={"order": 7}
    )
    assert give_up("no shop") == Decision("gave_up", "no shop")


GAVE_UP = Decision("gave_up", "There is no basket.")
TURNS: list[ScriptedTurn] = [
    [Click(1, 2), TypeText("alice")],
    [Proposal(Click(3, 4), "open the basket")],
    GAVE_UP,
]


@pytest.mark.parametrize(
    "script", [TURNS, lambda observation: TURNS[len(observation.turns)]]
)
def test_script_is_followed_in_order(script: Any) -> None:
    planner = ScriptedPlanner(script)
    history = History()
    first = decide(planner, history)
    history.perform(first)
    second = decide(planner, history)
    history.perform(second)
    assert first.proposals == (Proposal(Click(1, 2)), Proposal(TypeText("alice")))
    assert second.proposals == (Proposal(Click(3, 4), "open the basket"),)
    assert decide(planner, history) == GAVE_UP


def test_script_at_its_end_finishes() -> None:
    history = History()
    history.perform(decide(ScriptedPlanner(TURNS), history))
    history.perform(decide(ScriptedPlanner(TURNS), history))
    finished = decide(ScriptedPlanner(iter(TURNS[:2])), history)
    assert (finished.kind, finished.text) == ("finished", "the script is at its end")


def reset_shop(
    name: str,
    apples: int,
    price: float = 1.5,
    *,
    open_now: bool = True,
    tags: list[str] | None = None,
    colour: Literal["red", "green"] = "red",
    more: dict[str, Any] | None = None,
) -> str:
    """Reset the shop.

    Takes a moment.
    """
    return f"{name}{apples}{price}{open_now}{tags}{colour}{more}"


def test_function_becomes_declaration() -> None:
    declaration = declare(reset_shop)
    assert declaration.name == "reset_shop"
    assert declaration.description == "Reset the shop.\n\nTakes a moment."
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "apples": {"type": "integer"},
            "price": {"type": "number"},
            "open_now": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "colour": {"type": "string", "enum": ["red", "green"]},
            "more": {"type": "object"},
        },
        "required": ["name", "apples"],
    }


@pytest.mark.parametrize(
    ("functions", "taken"),
    [([reset_shop, reset_shop], []), ([reset_shop], ["reset_shop"])],
    ids=["twice", "taken"],
)
def test_function_with_used_name_is_rejected(
    functions: list[Callable[..., object]], taken: list[str]
) -> None:
    with pytest.raises(SettingsError, match="already has the name 'reset_shop'"):
        declare_all(functions, taken=taken)


def without_hint(value):  # type: ignore[no-untyped-def]
    """Look."""


def with_bytes(value: bytes) -> None:
    """Look."""


def with_unknown_hint(value: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Look."""


@pytest.mark.parametrize(
    ("unfit", "problem"),
    [
        (without_hint, "'value' of 'without_hint' needs a type hint"),
        (with_unknown_hint, "cannot be read: NameError: name 'Nowhere' is not defined"),
        (with_bytes, "'value' of 'with_bytes' must be"),
        (
            awaited,
            "must be a normal function, got the coroutine or generator 'awaited'",
        ),
    ],
)
def test_function_that_cannot_be_declared_raises(unfit: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        declare(unfit)
