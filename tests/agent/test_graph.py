"""The loop: order, limits and timing, the gate, and continuing after a wait or a crash,
in this process and another.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent, clock
from pytest_vnc_use.agent.graph import CHECKPOINTS
from pytest_vnc_use.errors import (
    AgentFailed,
    ConnectionLost,
    ModelUnavailable,
    RunDirectoryError,
    SettingsError,
    TaskFailed,
)
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.safety.rules import Policy, Rule
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    ApprovalRequest,
    CallFunction,
    Click,
    Confirmation,
    Decision,
    DesktopAction,
    InvalidAction,
    KeyCombo,
    Limits,
    Outcome,
    Proposal,
    Settled,
    TypeText,
    Usage,
    Wait,
)
from support.json_server import JsonServer, Reply
from support.memory_desktop import ListPlanner, PaintedController, act, finished
from support.paths import TESTS

AgentOf = Callable[..., VncUseAgent]
CLICKS = [Click(10, 10), Click(20, 20), Click(30, 30)]
RISKY = Proposal(Click(50, 50), "buy", confirmation=Confirmation("this spends money"))


def proposals(*actions: Click) -> tuple[Proposal, ...]:
    return tuple(Proposal(action) for action in actions)


def test_calls_of_turn_run_in_order(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    turn = Decision("act", "", proposals(*CLICKS), usage=Usage(100, 10, 5, 2))
    result = agent_of(
        turn, act(Proposal(KeyCombo(("enter",)))), finished("bought")
    ).run("buy")
    assert result.usage == turn.usage
    assert [step.usage.input for step in result.steps] == [100, 0, 0, 0]
    assert controller.performed == [*CLICKS, KeyCombo(("enter",))]
    assert (result.outcome, result.message) == (Outcome.DONE, "bought")
    assert [(step.number, step.turn) for step in result.steps] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 2),
    ]
    assert [step.frame_before for step in result.steps[1:]] == [
        step.frame_after for step in result.steps[:-1]
    ]


def test_batch_stops_at_first_error(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    batch = (
        Proposal(CLICKS[0]),
        Proposal(InvalidAction("click", "off the screen")),
        Proposal(CLICKS[1]),
        RISKY,
    )
    waits = agent_of(
        Decision("act", proposals=batch, stop_at_error=True), finished(), hitl_mode=True
    )
    result = waits.run("click")
    assert result.outcome is Outcome.DONE
    assert controller.performed == [CLICKS[0]]
    errors = [step.error for step in result.steps]
    assert errors == [
        "",
        "off the screen",
        *2 * ["not performed: an earlier action of this turn failed"],
    ]


def test_function_output_and_errors_reach_planner(agent_of: AgentOf) -> None:
    def price(item: str) -> float:
        return {"apple": 1.5}[item]

    called = [
        ("price", {"item": "apple"}),
        ("price", {"item": "gold"}),
        ("cost", {}),
        ("exit", {}),
    ]
    calls = [Proposal(CallFunction(name, arguments)) for name, arguments in called]
    result = agent_of(act(*calls), finished(), functions=[price, sys.exit]).run("ask")
    assert result.steps[3].error.startswith("exit raised SystemExit")
    assert result.steps[0].output == "1.5"
    assert "KeyError" in result.steps[1].error
    assert "'cost'" in result.steps[2].error


def test_step_limit_ends_run_within_turn(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    result = agent_of(act(*proposals(*CLICKS[:2]), RISKY)).run(
        "click", limits=Limits(steps=2)
    )
    assert result.outcome is Outcome.STEP_LIMIT, "nobody is asked about a step beyond"
    assert controller.performed == CLICKS[:2]


def test_time_limit_holds_while_planner_hangs(agent_of: AgentOf) -> None:
    released = threading.Event()

    def hang() -> Decision:
        released.wait()
        return finished()

    result = agent_of(hang).run("wait", limits=Limits(seconds=0.3))
    released.set()
    assert result.outcome is Outcome.TIME_LIMIT


def test_time_limit_closes_controller_that_hangs(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    # with LangGraph, which takes a part of the limit
    import_module("pytest_vnc_use.agent.graph")
    controller.hang.clear()
    result = agent_of(act(*proposals(*CLICKS))).run("click", limits=Limits(seconds=2.0))
    assert result.outcome is Outcome.TIME_LIMIT
    assert controller.closed


class StuckPlanner(ListPlanner):
    def end_run(self) -> None:
        raise OSError("its service does not answer")


def test_close_ends_connection_if_planner_fails(
    controller: PaintedController, tmp_path: Path
) -> None:
    settings = Settings(runs_dir=str(tmp_path))
    planner = StuckPlanner([finished()])
    agent = VncUseAgent(settings=settings, controller=controller, planner=planner)
    agent.run("look")
    with pytest.raises(OSError, match="its service"):
        agent.close()
    assert controller.closed


def test_long_wait_is_cut_to_time_limit(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    agent_of(act(Proposal(Wait(3600))), finished()).run(
        "wait", limits=Limits(seconds=5)
    )
    (waited,) = controller.performed
    assert isinstance(waited, Wait)
    assert waited.duration_s <= 5


def test_repeated_action_is_noted_then_gives_up(tmp_path: Path) -> None:
    controller = PaintedController(repaint=False)
    planner = ListPlanner(
        [*[act(Proposal(Wait(0.01)))] * 5, *[act(*proposals(CLICKS[0]))] * 10]
    )
    settings = Settings(runs_dir=str(tmp_path))
    result = VncUseAgent(settings=settings, controller=controller, planner=planner).run(
        "click", limits=Limits(repeats=3)
    )
    assert result.outcome == Outcome.GAVE_UP, "waiting repeats nothing"
    assert len(result.steps) == 5 + 4, "waiting repeats nothing"
    assert [bool(step.note) for step in result.steps[5:]] == [False, False, True, True]


def test_risky_action_without_user_ends_denied(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    """Without a user and without a rule, what the model wants confirmed is not done,
    and ends the run.
    """
    result = agent_of(
        act(Proposal(CLICKS[0]), RISKY, Proposal(CLICKS[1])), hitl_mode=False
    ).run("buy")
    assert result.outcome is Outcome.DENIED
    assert controller.performed == [CLICKS[0]]
    assert "this spends money" in result.message
    continues = agent_of(
        act(RISKY, Proposal(CLICKS[2])),
        finished(),
        policy=Policy(on_deny="continue"),
        hitl_mode=False,
    )
    result = continues.run("buy")
    assert result.outcome is Outcome.DONE
    assert result.steps[0].error.startswith("denied: ")
    assert controller.performed == [CLICKS[0], CLICKS[2]]


def test_approval_holds_for_its_own_call(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    agent = agent_of(
        act(Proposal(CLICKS[0]), RISKY, RISKY, Proposal(CLICKS[1])), finished()
    )
    waiting = agent.run("buy")
    assert waiting.outcome is Outcome.WAITING
    assert controller.performed == [CLICKS[0]]
    assert agent.resume(waiting.run_id).outcome is Outcome.WAITING
    assert agent.approve(waiting.run_id, step=2).outcome is Outcome.WAITING
    with pytest.raises(
        RunDirectoryError, match="does not wait for an answer about step 2"
    ):
        agent.approve(waiting.run_id, step=2)
    assert controller.performed == [CLICKS[0], RISKY.action]
    result = agent.approve(waiting.run_id)
    assert result.outcome is Outcome.DONE
    assert controller.performed == [CLICKS[0], RISKY.action, RISKY.action, CLICKS[1]]
    assert [step.ruling.by for step in result.steps] == [
        "policy",
        "user",
        "user",
        "policy",
    ]


def test_approver_is_asked_each_time(agent_of: AgentOf) -> None:
    asked: list[int] = []

    class Yes:
        def approve(self, question: ApprovalRequest) -> bool:
            asked.append(question.number)
            return True

    result = agent_of(act(RISKY, Proposal(CLICKS[0]), RISKY), finished()).run(
        "buy", approver=Yes()
    )
    assert (result.outcome, asked) == (Outcome.DONE, [1, 3])


def test_only_unfinished_run_continues(agent_of: AgentOf) -> None:
    agent = agent_of(finished())
    run_id = agent.run("look").run_id
    with pytest.raises(RunDirectoryError, match="is finished, with 'done'"):
        agent.approve(run_id)
    with pytest.raises(RunDirectoryError, match="there is no run directory"):
        agent.resume("nosuchrun")
    agent = agent_of(act(RISKY))
    waiting = agent.run("buy")
    (agent.runs[-1] / CHECKPOINTS).unlink()
    with pytest.raises(RunDirectoryError, match="left no checkpoint to continue from"):
        agent.approve(waiting.run_id)


def test_denial_after_failed_approval_counts(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    """A yes that never led to the action, for the desktop was gone, and then a no: the
    action is not performed.
    """
    agent = agent_of(act(RISKY))
    waiting = agent.run("buy")
    controller.closed = True
    with pytest.raises(ConnectionLost):
        agent.approve(waiting.run_id)
    controller.closed = False
    assert agent.deny(waiting.run_id).outcome is Outcome.DENIED
    assert controller.performed == []


def test_approval_on_changed_screen_performs_nothing(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    agent = agent_of(act(RISKY, Proposal(CLICKS[0])), finished("looked again"))
    waiting = agent.run("buy")
    controller.other_than_painted = 77
    result = agent.approve(waiting.run_id)
    assert result.outcome is Outcome.DONE
    assert controller.performed == []
    assert [
        "the screen changed while the run was stopped" in step.error
        for step in result.steps
    ] == [True, True]


def test_run_continues_under_its_own_policy(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    strict = Policy((Rule("deny", text=re.compile("rm -rf")),), unmatched="ask")
    agent = agent_of(act(RISKY, Proposal(TypeText("rm -rf /"))))
    waiting = agent.run("tidy up", policy=strict)
    stranger = agent_of()
    with pytest.raises(SettingsError, match="started with a policy object"):
        stranger.approve(waiting.run_id)
    assert agent.approve(waiting.run_id).outcome is Outcome.DENIED
    assert controller.performed == [RISKY.action]


def test_run_has_one_driver(agent_of: AgentOf) -> None:
    def meddle() -> Decision:
        with pytest.raises(RunDirectoryError, match="is being performed"):
            agent.resume("r1")
        return finished()

    agent = agent_of(meddle)
    assert agent.run("look", run_id="r1").outcome is Outcome.DONE


def test_check_raises_for_run_not_done(agent_of: AgentOf) -> None:
    gave_up = Decision("gave_up", "no basket\x1b[2J in sight")
    with pytest.raises(TaskFailed, match="ended as gave_up: no basket") as caught:
        agent_of(gave_up).run("open the basket", check=True)
    assert "\x1b" not in str(caught.value)
    assert agent_of(gave_up).run("look").outcome is Outcome.GAVE_UP
    with pytest.raises(TypeError, match="Compare its `outcome`"):
        bool(agent_of(finished()).run("look"))


def test_impossible_decision_or_functions_raise(agent_of: AgentOf) -> None:
    with pytest.raises(AgentFailed, match="is `act` without any action"):
        agent_of(act()).run("look")
    with pytest.raises(SettingsError, match="must have a unique name"):
        agent_of(finished(), functions=[print, print])


class RecordedTurns(ListPlanner):
    """A planner that reads its decisions from a recording."""

    name = "recording"
    is_live = False


def test_failed_replay_resumes_from_checkpoint_with_planner(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    outage = iter([ModelUnavailable("no answer")])

    def last() -> Decision:
        for error in outage:
            raise error
        return finished("done")

    agent = agent_of(
        planner=RecordedTurns(
            [act(*proposals(*CLICKS[:2])), act(*proposals(CLICKS[2])), last]
        )
    )
    with pytest.raises(ModelUnavailable):
        agent.run("look")
    with closing(sqlite3.connect(agent.runs[-1] / CHECKPOINTS)) as database:
        assert database.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
    with pytest.raises(SettingsError, match="Run its test again"):
        agent_of().resume(agent.runs[-1].name)
    result = agent.resume(agent.runs[-1].name)
    assert (result.outcome, result.message) == (Outcome.DONE, "done")
    assert [(step.number, step.turn) for step in result.steps] == [
        (1, 1),
        (2, 1),
        (3, 2),
    ]
    assert controller.performed == CLICKS


@pytest.mark.parametrize("planner", [ListPlanner, RecordedTurns])
def test_run_of_thread_resumes_in_another(
    agent_of: AgentOf, controller: PaintedController, planner: type[ListPlanner]
) -> None:
    agent = agent_of(planner=planner([act(RISKY), finished()]))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(agent.run, "buy").result()
    assert agent.approve(waiting.run_id).outcome is Outcome.DONE
    assert controller.performed == [RISKY.action]


def test_killed_run_resumes_and_acts_once(
    agent_of: AgentOf, controller: PaintedController
) -> None:
    perform = controller.perform

    def die(action: DesktopAction) -> None:
        perform(action)
        if action == CLICKS[1]:
            raise KeyboardInterrupt

    turns = act(*proposals(*CLICKS)), finished()
    controller.perform = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        agent_of(*turns).run("click", run_id="r1")
    controller.perform = perform  # type: ignore[method-assign]
    result = agent_of(*turns).resume("r1")
    assert (result.outcome, controller.performed) == (Outcome.DONE, CLICKS[:2])
    steps = read_trace(result.run_dir).steps
    assert [step.proposal.action for step in steps] == CLICKS
    assert [
        steps[0].error == "",
        "its effect is unknown" in steps[1].error,
        "decide again" in steps[2].error,
    ] == [True] * 3


def test_undeclared_secret_is_never_typed(
    agent_of: AgentOf, controller: PaintedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "the-key\n")
    fishing = "<secret:GOOGLE_API_KEY> <secret:VNC_PASSWORD>"
    agent = agent_of(
        act(Proposal(TypeText(fishing))), finished("the-key"), vnc_password="pass"
    )
    result = agent.run("type the password, pass")
    assert controller.performed == []
    assert "the secret 'GOOGLE_API_KEY' is not declared" in result.steps[0].error
    assert "the-key" not in result.message
    trace = read_trace(result.run_dir)
    assert "pass" in agent.planner.seen[0].task  # type: ignore[union-attr]
    assert "the-key" not in str(trace.ended)


def test_secret_is_hidden_in_errors(agent_of: AgentOf) -> None:
    def pay(pin: str) -> str:
        raise ValueError(f"{pin} is wrong")

    def fail() -> Decision:
        raise ModelUnavailable("it said hunter2")

    agent = agent_of(
        act(Proposal(CallFunction("pay", {"pin": "hunter2"}))),
        fail,
        functions=[pay],
        secrets={"PIN": "hunter2"},
    )
    with pytest.raises(ModelUnavailable, match="it said <secret:PIN>"):
        agent.run("pay")

    trace = read_trace(agent.runs[0])
    assert trace.ended is not None
    assert trace.ended.outcome is None
    assert trace.ended.error == "ModelUnavailable: it said <secret:PIN>"
    (step,) = trace.steps
    assert step.error == "pay raised ValueError: <secret:PIN> is wrong"
    files = [file for file in agent.runs[0].rglob("*") if file.is_file()]
    assert [file for file in files if b"hunter2" in file.read_bytes()] == []


TRACED = """
import sys
from langchain_core.tracers.langchain import wait_for_all_tracers
from support.memory_desktop import ListPlanner, PaintedController, finished
from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.settings.settings import Settings

settings = Settings(runs_dir=sys.argv[1])
VncUseAgent(settings=settings, controller=PaintedController(), planner=ListPlanner([finished()])).run("a task")
wait_for_all_tracers()
"""


@pytest.mark.slow
def test_langsmith_receives_nothing(tmp_path: Path) -> None:
    """LangGraph would send the state to the address in LANGSMITH_ENDPOINT."""
    with JsonServer(lambda _: Reply({}), lambda _: Reply({})) as server:
        traced = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": server.url,
            "LANGSMITH_API_KEY": "a-key",
        }
        command = [sys.executable, "-c", TRACED, str(tmp_path)]
        subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(TESTS), **traced},
            check=True,
            timeout=400,
        )
        assert server.requests == []


def test_waiting_for_user_costs_no_time(
    agent_of: AgentOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts what the run itself took, not how long a user took to answer."""
    agent = agent_of(act(RISKY), finished())
    monotonic = clock.monotonic
    waiting = agent.run("buy", limits=Limits(seconds=60))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + 3600)
    assert agent.approve(waiting.run_id).outcome is Outcome.DONE


def test_timing_replaced_holds_from_next_run_on(tmp_path: Path) -> None:
    controller = PaintedController()
    clicks = [act(Proposal(Click(place, 1))) for place in range(3)]
    planner = ListPlanner([*clicks, finished()])
    agent = VncUseAgent(
        settings=Settings(runs_dir=str(tmp_path)),
        planner=planner,
        controller=controller,
    )
    before = agent.run("Click")
    assert before.outcome == Outcome.DONE
    assert controller.performed == [Click(0, 1), Click(1, 1), Click(2, 1)]

    agent.settings = dataclasses.replace(
        agent.settings, step_delay=0.01, max_steps=1, max_seconds=60.0
    )
    controller.performed.clear()
    after = agent.run("Click")
    assert after.outcome == Outcome.STEP_LIMIT
    assert controller.performed == [Click(0, 1), Wait(0.01)]
    assert read_trace(after.run_dir).started.limits == Limits(steps=1, seconds=60.0)


class Noting(PaintedController):
    """A desktop that notes what it is asked to do, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def settle(self, *, briefly: bool = False) -> Settled:
        self.noted.append("settle")
        return super().settle(briefly=briefly)

    def perform(self, action: DesktopAction) -> None:
        self.noted.append("perform")
        super().perform(action)


@pytest.mark.parametrize(
    "do",
    [
        lambda agent: agent.type_text("a"),
        lambda agent: agent.key("a"),
        lambda agent: agent.run("Type a"),
    ],
)
def test_first_action_waits_for_first_screen(
    do: Callable[[VncUseAgent], object], tmp_path: Path
) -> None:
    controller = Noting()
    planner = ListPlanner([act(Proposal(Click(1, 1))), finished()])
    agent = VncUseAgent(
        settings=Settings(runs_dir=str(tmp_path)),
        planner=planner,
        controller=controller,
    )
    do(agent)
    agent.key("b")
    assert controller.noted == ["settle", "perform", "settle", "perform", "settle"]
