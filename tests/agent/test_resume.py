"""A resumed run is the same run: what it needs is given again, or it does not continue;
nor does a stranger's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import RunDirectoryError, SettingsError, VncUseError
from pytest_vnc_use.planners.local.callables import Answer, finish
from pytest_vnc_use.safety.rules import Policy, Rule
from pytest_vnc_use.types import (
    CallFunction,
    Click,
    Confirmation,
    Observation,
    Outcome,
    Proposal,
    TypeText,
)
from support.memory_desktop import PaintedController, act, finished

AgentOf = Callable[..., VncUseAgent]
RISKY = Proposal(Click(10, 10), confirmation=Confirmation("this buys apples"))
TYPES = Proposal(TypeText("<secret:PW>"))


def order_status(number: int) -> str:
    """The status of an order."""
    return "packed"


def plan(observation: Observation) -> Answer:
    return [RISKY, TYPES] if not observation.turns else finish()


@pytest.mark.parametrize("method", ["approve", "resume"])
def test_resume_without_secret_is_rejected(
    agent_of: AgentOf, controller: PaintedController, method: str
) -> None:
    turns = [act(RISKY, TYPES), finished()]
    agent = agent_of(*turns, secrets={"PW": "hunter2"})
    waiting = agent.run("Sign in with <secret:PW>")
    with pytest.raises(SettingsError, match="--secret PW") as refused:
        getattr(agent_of(*turns), method)(waiting.run_id)
    assert "\n" not in str(refused.value)
    assert controller.performed == []


def test_resume_with_secret_types_it(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    turns = [act(RISKY, TYPES), finished()]
    agent = agent_of(*turns, secrets={"PW": "hunter2"})
    waiting = agent.run("Sign in with <secret:PW>")
    with pytest.raises(SettingsError, match="--secret PW"):
        agent_of(*turns).approve(waiting.run_id)
    result = agent_of(*turns, secrets={"PW": "hunter2"}).approve(waiting.run_id)
    assert result.outcome is Outcome.DONE
    assert (controller.performed[0], controller.typed) == (RISKY.action, "hunter2")


def test_lost_functions_are_asked_for(agent_of: AgentOf) -> None:
    turns = (
        act(RISKY, Proposal(CallFunction("order_status", {"number": 17}))),
        finished(),
    )
    waiting = agent_of(*turns, functions=[order_status]).run("Look")
    with pytest.raises(
        SettingsError, match=r"its functions order_status are missing.*functions="
    ):
        agent_of(*turns).approve(waiting.run_id)
    agent = agent_of(*turns, functions=[order_status])
    assert agent.approve(waiting.run_id).steps[1].output == "packed"
    assert agent.budget._steps == 2


@pytest.fixture
def gemini_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "key")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")


@pytest.mark.usefixtures("gemini_key")
def test_resume_denied_needs_no_planner(agent_of: AgentOf) -> None:
    agent = agent_of(planner=plan, secrets={"PW": "x"}, functions=[order_status])
    waiting = agent.run("Sign in")
    assert agent_of(named="gemini").deny(waiting.run_id).outcome is Outcome.DENIED


@pytest.mark.usefixtures("gemini_key")
@pytest.mark.parametrize("named", ["gemini", ""])
def test_resume_lost_planner_is_required_without_substitute(
    agent_of: AgentOf, named: str
) -> None:
    waiting = agent_of(planner=plan, secrets={"PW": "x"}).run("Sign in")
    with pytest.raises(
        SettingsError,
        match=r"planner was 'callable \(tests.agent.test_resume:plan\)'.*planner=",
    ):
        agent_of(named=named, secrets={"PW": "x"}).approve(waiting.run_id)
    result = agent_of(secrets={"PW": "x"}).approve(waiting.run_id, planner=plan)
    assert result.outcome is Outcome.DONE


def waiting_run(agent_of: AgentOf) -> Path:
    return agent_of(act(RISKY, Proposal(Click(2, 2)))).run("Buy").run_dir


def test_resumed_action_is_ruled_anew(
    agent_of: AgentOf, controller: PaintedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(controller, "perform", interrupt)
        with pytest.raises(KeyboardInterrupt):
            agent_of(act(Proposal(Click(1, 1)))).run("Buy", run_id="r1")
    policy = Policy((Rule("deny", "no clicks", action="click"),))
    result = agent_of(act(Proposal(Click(1, 1)))).resume("r1", policy=policy)
    assert result.outcome == Outcome.DENIED
    assert result.steps[0].ruling.rule == "rule 1 'no clicks'"


def test_approve_other_action_than_asked_about_refused(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    """The trace has another question than the checkpoint."""
    run = waiting_run(agent_of)
    trace = (run / "trace.jsonl").read_text("utf-8")
    (run / "trace.jsonl").write_text(trace.replace('"x":10', '"x":66'), "utf-8")
    with pytest.raises(
        RunDirectoryError,
        match="holds another action than the one that was asked about",
    ):
        agent_of(act(RISKY), finished()).approve(run.name)
    assert controller.performed == []


def test_damaged_checkpoints_are_named(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    run = waiting_run(agent_of)
    database = run / "checkpoints.sqlite"
    database.write_bytes(database.read_bytes()[:3000])
    with pytest.raises(
        RunDirectoryError,
        match=r"the checkpoints of run .* are damaged .*Start the task again",
    ):
        agent_of(act(RISKY), finished()).approve(run.name)
    assert controller.performed == []


def test_checkpoint_calls_nothing(agent_of: AgentOf, tmp_path: Path) -> None:
    import ormsgpack

    run = waiting_run(agent_of)
    proof = tmp_path / "owned"
    call = ormsgpack.packb(("os", "mkdir", str(proof)))
    evil = ormsgpack.packb(
        {"channel_values": {"task": ormsgpack.Ext(0, call)}},
        option=ormsgpack.OPT_NON_STR_KEYS,
    )
    with closing(sqlite3.connect(run / "checkpoints.sqlite")) as database, database:
        database.execute(
            "update checkpoints set checkpoint = ?, type = 'msgpack'", (evil,)
        )
    with pytest.raises(VncUseError):
        agent_of(act(RISKY), finished()).approve(run.name)
    assert not proof.exists()
