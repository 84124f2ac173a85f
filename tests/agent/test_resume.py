"""A run that is resumed is the same run: what it needs is given again, or it does not go on; nor does a stranger's."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import RunFolderError, SettingsError, VncUseError
from pytest_vnc_use.loop.resume import Given, check_needs
from pytest_vnc_use.planners.local.callables import Answer, CallablePlanner, finish
from pytest_vnc_use.runs import seal
from pytest_vnc_use.runs.folder import read_trace
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    NO_FRAME,
    CallFunction,
    Click,
    Confirmation,
    Decision,
    Observation,
    Outcome,
    Proposal,
    RunStarted,
    TypeText,
)
from support.memory_desktop import ListPlanner, PaintedController, act, finished

RISKY = Proposal(Click(10, 10), confirmation=Confirmation("this buys apples"))
TYPES = Proposal(TypeText("<secret:PW>"))


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def agent_of(controller: PaintedController, tmp_path: Path) -> Callable[..., VncUseAgent]:
    def build(*decisions: Decision, planner: object = None, **options: object) -> VncUseAgent:
        settings = Settings(runs_dir=str(tmp_path / "runs"), planner=str(options.pop("named", "")))
        planner = planner or (ListPlanner(decisions) if decisions else None)
        return VncUseAgent(settings=settings, controller=controller, planner=planner, **options)  # type: ignore[arg-type]

    return build


def order_status(number: int) -> str:
    """The status of an order."""
    return "packed"


def plan(observation: Observation) -> Answer:
    return [RISKY, TYPES] if not observation.turns else finish()


# --- what it needs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["approve", "resume"])
def test_a_lost_secret_is_asked_for_and_its_name_is_never_typed(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController, word: str
) -> None:
    turns = act(RISKY, TYPES), finished()
    waiting = agent_of(*turns, secrets={"PW": "hunter2"}).run("Sign in with <secret:PW>")
    with pytest.raises(SettingsError, match="--secret PW") as refused:
        getattr(agent_of(*turns), word)(waiting.run_id)
    assert "\n" not in str(refused.value)
    assert controller.performed == []
    result = agent_of(*turns, secrets={"PW": "hunter2"}).approve(waiting.run_id)
    assert result.outcome is Outcome.DONE
    assert (controller.performed[0], controller.typed) == (RISKY.action, "hunter2")


def test_lost_functions_are_asked_for(agent_of: Callable[..., VncUseAgent]) -> None:
    turns = act(RISKY, Proposal(CallFunction("order_status", {"number": 17}))), finished()
    waiting = agent_of(*turns, functions=[order_status]).run("Look")
    with pytest.raises(SettingsError, match=r"its functions order_status are missing.*functions="):
        agent_of(*turns).approve(waiting.run_id)
    result = agent_of(*turns, functions=[order_status]).approve(waiting.run_id)
    assert result.steps[1].output == "packed"


def test_a_lost_planner_is_asked_for_and_no_other_takes_its_place(
    agent_of: Callable[..., VncUseAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "key")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    secrets = {"PW": "x"}
    waiting = agent_of(planner=plan, secrets=secrets).run("Sign in")
    for named in ("gemini", ""):
        with pytest.raises(SettingsError, match=r"planner was 'callable \(tests.agent.test_resume:plan\)'.*planner="):
            agent_of(named=named, secrets=secrets).approve(waiting.run_id)
    assert agent_of(secrets=secrets).approve(waiting.run_id, planner=plan).outcome is Outcome.DONE


def test_after_a_replay_the_planner_that_went_on_is_asked_for() -> None:
    started = RunStarted("r1", "Buy", "", "recording, or where that drifts list", NO_FRAME, "")
    for planner, problem in ((ListPlanner([]), None), (CallablePlanner(plan), r"its planner was 'list', but now")):
        given = Given((), (), None, lambda planner=planner: planner, has_policy=False, has_judge=False)
        with pytest.raises(SettingsError, match=problem) if problem else nullcontext():
            check_needs(started, Settings(), given)


def test_a_policy_of_the_agents_own_is_not_lost_either(agent_of: Callable[..., VncUseAgent]) -> None:
    waiting = agent_of(act(RISKY), policy=Policy(unmatched="ask")).run("Buy")
    with pytest.raises(SettingsError, match="started with a policy object"):
        agent_of(act(RISKY), finished()).approve(waiting.run_id)
    assert (
        agent_of(act(RISKY), finished(), policy=Policy(unmatched="ask")).approve(waiting.run_id).outcome is Outcome.DONE
    )


def test_a_no_that_ends_the_run_needs_nothing(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController
) -> None:
    waiting = agent_of(planner=plan, secrets={"PW": "x"}, functions=[order_status]).run("Sign in")
    assert agent_of(named="gemini").deny(waiting.run_id).outcome is Outcome.DENIED
    assert controller.performed == []


def test_what_it_used_before_counts(agent_of: Callable[..., VncUseAgent]) -> None:
    waiting = agent_of(act(Proposal(Click(1, 1)), RISKY)).run("Buy")
    agent = agent_of(act(RISKY), finished())
    agent.approve(waiting.run_id)
    assert agent.budget._steps == 2


# --- where it came from ----------------------------------------------------------------------------------------------


def waiting_run(agent_of: Callable[..., VncUseAgent]) -> Path:
    return agent_of(act(RISKY, Proposal(Click(2, 2)))).run("Buy").run_folder


def change_line(run: Path) -> None:
    trace = run / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b'"task":"Buy"', b'"task":"Rob"'))


def add_line(run: Path) -> None:
    trace = run / "trace.jsonl"
    started = json.loads(trace.read_bytes().splitlines()[1])
    started["settings"]["exec"] = "sh -c 'touch owned'"
    with trace.open("a") as file:
        file.write(json.dumps(started) + "\n")


def drop_line(run: Path) -> None:
    trace = run / "trace.jsonl"
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join([*lines[:2], *lines[3:]]))


def forget_seals(run: Path) -> None:
    """As a version without seals wrote it."""
    trace = run / "trace.jsonl"
    lines = [{**json.loads(line), "seal": None} for line in trace.read_bytes().splitlines()]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("harm", [change_line, add_line, drop_line, forget_seals])
def test_a_run_that_was_changed_does_not_go_on_untrusted(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController, harm: Callable[[Path], None]
) -> None:
    run = waiting_run(agent_of)
    assert read_trace(run).is_own
    harm(run)
    for go_on in (VncUseAgent.approve, VncUseAgent.deny, VncUseAgent.resume):
        with pytest.raises(SettingsError, match=r"was not made by you on this machine.*--trust"):
            go_on(agent_of(act(RISKY), finished()), run.name)  # type: ignore[operator]
    assert controller.performed == []


def test_a_run_of_another_user_goes_on_once_it_is_trusted(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController, other_user: Callable[[], None]
) -> None:
    run = waiting_run(agent_of)
    other_user()
    with pytest.raises(SettingsError, match="--trust"):
        agent_of(act(RISKY), finished()).approve(run.name)
    assert agent_of(act(RISKY), finished()).approve(run.name, trust=True).outcome is Outcome.DONE
    assert not read_trace(run).is_own, "what a stranger began never becomes the user's own"


@pytest.fixture
def other_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """From then on, the keys are another user's."""

    def become() -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other user"))
        seal._key.cache_clear()

    yield become
    seal._key.cache_clear()


def test_a_checkpoint_of_a_stranger_is_not_read(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController
) -> None:
    """Its trace is the user's own, but what is about to be done is another run's."""
    run = waiting_run(agent_of)
    evil = agent_of(act(RISKY, Proposal(Click(66, 66)))).run("Rob").run_folder
    with (
        closing(sqlite3.connect(run / "checkpoints.sqlite")) as mine,
        closing(sqlite3.connect(evil / "checkpoints.sqlite")) as theirs,
        mine,
    ):
        for table in ("checkpoints", "writes"):
            rows = theirs.execute(f"select * from {table}").fetchall()
            mine.execute(f"delete from {table}")
            marks = ",".join("?" * len(rows[0]))
            mine.executemany(f"insert into {table} values ({marks})", [(run.name, *row[1:]) for row in rows])
    with pytest.raises(RunFolderError, match="the checkpoint of run"):
        agent_of(act(RISKY), finished()).approve(run.name)
    assert controller.performed == []


def cut_off(database: Path) -> None:
    database.write_bytes(database.read_bytes()[:3000])


def no_database(database: Path) -> None:
    database.write_bytes(b"nonsense" * 1000)


def a_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


def no_kind(database: Path) -> None:
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("update checkpoints set type = null")


def other_metadata(database: Path) -> None:
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("update checkpoints set metadata = x'ff00'")


@pytest.mark.parametrize("harm", [cut_off, no_database, a_folder, no_kind, other_metadata])
def test_damaged_checkpoints_are_told_as_such(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController, harm: Callable[[Path], None]
) -> None:
    run = waiting_run(agent_of)
    harm(run / "checkpoints.sqlite")
    for go_on in (VncUseAgent.approve, VncUseAgent.deny, VncUseAgent.resume):
        with pytest.raises(RunFolderError, match=r"the checkpoints of run .* are damaged .*start the task again"):
            go_on(agent_of(act(RISKY), finished()), run.name)  # type: ignore[operator]
    assert controller.performed == []


def test_a_name_that_no_folder_can_have_is_no_run(agent_of: Callable[..., VncUseAgent]) -> None:
    with pytest.raises(RunFolderError, match="there is no run folder"):
        agent_of(act(RISKY)).approve("x" * 5000)


def test_a_checkpoint_calls_nothing_even_where_it_is_trusted(
    agent_of: Callable[..., VncUseAgent], tmp_path: Path
) -> None:
    import ormsgpack

    run, proof = waiting_run(agent_of), tmp_path / "owned"
    call = ormsgpack.packb(("os", "mkdir", str(proof)))
    evil = ormsgpack.packb({"channel_values": {"task": ormsgpack.Ext(0, call)}}, option=ormsgpack.OPT_NON_STR_KEYS)
    with closing(sqlite3.connect(run / "checkpoints.sqlite")) as database, database:
        database.execute("update checkpoints set checkpoint = ?, type = 'msgpack'", (evil,))
    for trust in (False, True):
        with pytest.raises(VncUseError):
            agent_of(act(RISKY), finished()).approve(run.name, trust=trust)
    assert not proof.exists()


def test_the_key_is_the_users_alone(tmp_path: Path, other_user: Callable[[], None]) -> None:
    other_user()
    line = seal.sealed(b'{"a":1}', b"{}")
    file = seal.key_file()
    assert file.is_relative_to(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    seal._key.cache_clear()
    assert seal.are_sealed([b"{}", line])
    file.chmod(0o644)
    seal._key.cache_clear()
    assert not seal.are_sealed([b"{}", line]), "a key that others may have read is made anew"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_place_for_the_key_a_process_knows_its_own_runs(
    tmp_path: Path, other_user: Callable[[], None]
) -> None:
    (tmp_path / "other user").write_text("a file where the folder would be")
    other_user()
    assert seal.are_sealed([b"{}", seal.sealed(b'{"a":1}', b"{}")])


def test_many_processes_that_make_the_key_at_once_have_the_same(tmp_path: Path) -> None:
    program = "from pytest_vnc_use.runs import seal; print(seal.seal_of(b'x'))"
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(Path(seal.__file__).parents[2])}
    command = [sys.executable, "-c", program]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate(timeout=400)[0] for process in started}) == 1
