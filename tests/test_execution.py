"""The action trace: written while a run goes on, read leniently, and carried out again on a real desktop."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from painted import PaintedController

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.cli import main
from pytest_vnc_use.desktops.qt import QtDesktop
from pytest_vnc_use.errors import RunFolderError, SettingsError
from pytest_vnc_use.execution import ExecutionLog, read_execution, secrets_of
from pytest_vnc_use.logging_utils import Redactor
from pytest_vnc_use.planners.reenactment import Reenactment
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.types import (
    Action,
    Click,
    Confirmation,
    Decision,
    FrameRef,
    KeyCombo,
    Proposal,
    Ruling,
    RunEnded,
    RunStarted,
    Step,
    StepFinished,
    Times,
    TurnDecided,
    TypeText,
)

PAD = [sys.executable, str(Path(__file__).parent / "programs" / "pad.py")]
SCREEN = FrameRef("ab" * 32, 320, 200)
STARTED = RunStarted("r1", "Open the basket", "2026-11-22T02:35:00+00:00", "scripted", SCREEN)
BROKE = RunEnded(None, "the run broke", error="KeyError: 'x'", traceback="Traceback …\nKeyError: 'x'\n")
CLICK = {"kind": "click", "x": 100, "y": 120}


def finished(number: int, action: Action = Click(1, 2), error: str = "") -> StepFinished:  # noqa: B008  # frozen
    proposal = Proposal(action, "open it", {"name": "left_click", "args": {}})
    times = Times(act_s=0.25, settle_s=0.5)
    return StepFinished(Step(number, 1, proposal, Ruling("allow", "r"), SCREEN, SCREEN, error=error, times=times))


def told(folder: Path, name: str = "execution.json") -> dict[str, Any]:
    written: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return written


# --- written ---------------------------------------------------------------------------------------------------------


def test_the_partial_trace_is_whole_at_every_step_and_gives_way_to_the_final_one(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    for number, event in enumerate((STARTED, finished(1), finished(2, KeyCombo(("nosuchkey",)), "unknown key"))):
        log.observe(event)
        partial = told(tmp_path, "execution.partial.json")
        assert (len(partial["steps"]), partial["outcome"], partial["ended_at"]) == (number, None, None)
    log.observe(TurnDecided(2, Decision("finished", params={"order": 7}), 0.1))
    log.observe(RunEnded(Outcome.DONE, "ordered"))
    assert [file.name for file in tmp_path.iterdir()] == ["execution.json"]
    final = told(tmp_path)
    assert (final["version"], final["run_id"], final["task"]) == (1, "r1", "Open the basket")
    assert (final["outcome"], final["message"], final["params"]) == ("done", "ordered", {"order": 7})
    assert final["started_at"] <= final["ended_at"]
    first, second = final["steps"]
    assert first["action"] == {"x": 1, "y": 2, "button": "left", "count": 1, "kind": "click"}
    assert (first["number"], first["intent"], first["name"], first["error"]) == (1, "open it", "left_click", "")
    assert (first["duration_s"], first["screenshot"]) == (0.75, f"screens/{SCREEN.digest}.png")
    assert (second["action"]["keys"], second["error"]) == (["nosuchkey"], "unknown key")


def test_a_run_that_was_killed_or_broke_is_gone_on_with(tmp_path: Path) -> None:
    killed = ExecutionLog(tmp_path)
    for event in (STARTED, finished(1)):
        killed.observe(event)
    broken = ExecutionLog(tmp_path)
    for event in (finished(2), BROKE):
        broken.observe(event)
    assert (told(tmp_path)["outcome"], told(tmp_path)["error"]) == (None, "KeyError: 'x'")
    assert (tmp_path / "error.txt").read_text(encoding="utf-8") == BROKE.traceback
    resumed = ExecutionLog(tmp_path)
    resumed.observe(finished(2, TypeText("again")))
    assert read_execution(tmp_path).ended_at is None
    resumed.observe(RunEnded(Outcome.DONE, "done"))
    assert [step.action for step in read_execution(tmp_path).steps] == [Click(1, 2), TypeText("again")]
    assert [file.name for file in tmp_path.iterdir()] == ["execution.json"]


def test_a_run_that_never_saw_a_screen_leaves_its_error_only(tmp_path: Path) -> None:
    ExecutionLog(tmp_path).observe(BROKE)
    assert [file.name for file in tmp_path.iterdir()] == ["error.txt"]


def test_what_the_redactor_hides_is_hidden_here_too(tmp_path: Path) -> None:
    log, redactor = ExecutionLog(tmp_path), Redactor({"PIN": "apple-4711"})
    params, crash = {"pin": "apple-4711"}, RunEnded(None, "", "apple-4711", "apple-4711\n")
    for event in (STARTED, TurnDecided(1, Decision("finished", params=params), 0.0), crash):
        log.observe(redactor.hide_in(event))
    assert told(tmp_path)["params"] == {"pin": "<secret:PIN>"}
    assert (tmp_path / "error.txt").read_text(encoding="utf-8") == "<secret:PIN>\n"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot write"):
        ExecutionLog(tmp_path / "gone").observe(STARTED)


# --- read ------------------------------------------------------------------------------------------------------------


def trace_of(folder: Path, *steps: object, **fields: object) -> Path:
    file = folder / "execution.json"
    file.write_text(json.dumps({"steps": steps, **fields}), encoding="utf-8")
    return file


def test_a_foreign_trace_needs_no_more_than_its_actions(tmp_path: Path) -> None:
    steps = [{"action": CLICK | {"confidence": 0.9}, "thought": "hm"}, {"action": {"kind": "wait"}, "number": 7}]
    execution = read_execution(trace_of(tmp_path, *steps, harness="another"))
    assert [(step.number, step.proposal.action.kind) for step in execution.steps] == [(1, "click"), (7, "wait")]
    assert read_execution(tmp_path) == execution


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "must be an action trace in JSON"),
        ("[]", "an object with a list of 'steps'"),
        ('{"steps": {}}', "an object with a list of 'steps'"),
        ('{"steps": [], "version": 2}', "its version is 2, this pytest-vnc-use reads up to 1"),
        ('{"steps": [], "task": 3}', "task does not fit"),
        ('{"steps": [{"action": {"kind": "wait"}}, 5]}', "step 2: it does not fit"),
        ('{"steps": [{"number": 3}]}', "step 1: action does not fit: Field required"),
        ('{"steps": [{"action": {"x": 3, "y": 4}}]}', "step 1: action does not fit: Unable to extract tag"),
        ('{"steps": [{"action": {"kind": "fly"}}]}', "step 1: action does not fit: Input tag 'fly'"),
        ('{"steps": [{"action": {"kind": "click", "x": "a", "y": 4}}]}', "step 1: action.click.x does not fit"),
    ],
)
def test_a_wrong_trace_is_told_in_one_line_with_the_step(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "execution.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError) as caught:
        read_execution(tmp_path)
    assert problem in str(caught.value)
    assert "execution.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_trace_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="has no action trace: it must hold"):
        read_execution(tmp_path)
    with pytest.raises(RunFolderError, match="No such file"):
        read_execution(tmp_path / "none.json")


def test_secrets_are_those_of_the_placeholders(tmp_path: Path) -> None:
    step = {"action": {"kind": "type_text", "text": "a<secret:PIN>b"}}
    execution = read_execution(trace_of(tmp_path, {"action": CLICK}, step))
    assert secrets_of(execution, {"PIN": "1", "OTHER": "2"}) == {"PIN": "1"}
    with pytest.raises(SettingsError, match="step 2 of the action trace needs the secret 'PIN'"):
        secrets_of(execution, {"PIN": ""})


# --- carried out again -----------------------------------------------------------------------------------------------


def test_what_was_done_often_is_done_often_and_what_failed_is_left_out(tmp_path: Path) -> None:
    pressed = {"action": {"kind": "key_combo", "keys": ["Ctrl+Shift+P"]}}
    failed = {"action": CLICK, "error": "the point is not on the screen"}
    planner = Reenactment(read_execution(trace_of(tmp_path, *[pressed] * 5, failed, run_id="r1")))
    controller = PaintedController(repaint=False)
    agent = VncUseAgent(settings=Settings(runs_dir=str(tmp_path)), controller=controller, planner=planner)
    result = agent.run(planner.task, limits=planner.limits(20.0))
    assert (result.outcome, result.message) == (Outcome.DONE, "carried out 5 actions again; nothing was judged")
    assert (planner.name, planner.task) == ("re-enacted (r1)", "Do again what r1 did")
    assert controller.performed == [KeyCombo(("Ctrl+Shift+P",))] * 5


def test_a_trace_in_which_nothing_was_done_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no action that was carried out, got 1 steps"):
        Reenactment(read_execution(trace_of(tmp_path, {"action": CLICK, "error": "denied: no"})))


@pytest.fixture(scope="module")
def desktop() -> Iterator[QtDesktop]:
    desktop = QtDesktop(PAD)
    yield desktop
    desktop.stop()


@dataclass
class Done:
    """How the command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Reenact = Callable[..., Done]


@pytest.fixture
def reenact(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Reenact:
    """`cua-vnc reenact` with the path and these options, in this environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VNC_USE_SERVER", raising=False)

    def run_command(path: Path, *options: str, **environ: str) -> Done:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        code = main(["reenact", str(path), *options])
        return Done(code, *capsys.readouterr())

    return run_command


def happened(desktop: QtDesktop) -> list[str]:
    """What the pad has heard since it was asked last."""
    heard = desktop.read_file("events.txt").splitlines()
    desktop.write_file("events.txt", "")
    return [line for line in heard if not line.startswith("release")]


def test_at_an_address_from_outside_with_a_secret_of_the_environment(
    tmp_path: Path, desktop: QtDesktop, reenact: Reenact
) -> None:
    happened(desktop)
    steps = [{"action": CLICK}, {"action": {"kind": "type_text", "text": "<secret:PIN>"}}]
    done = reenact(trace_of(tmp_path, *steps, task="Sign in"), VNC_USE_SERVER=desktop.server, PIN="qzj")
    assert done.returncode == 0, done.stderr
    *_, message, end = done.stdout.splitlines()
    assert message == "carried out 2 actions again; nothing was judged"
    assert "typed from the environment: PIN" in done.stdout
    assert happened(desktop) == ["press 100 120 left", "text q", "text z", "text j"]
    written = b"".join(file.read_bytes() for file in (tmp_path / end.split()[1]).rglob("*.jsonl"))
    assert b"<secret:PIN>" in written
    assert b"qzj" not in written + done.stdout.encode()


def test_it_stops_at_the_first_error(tmp_path: Path, desktop: QtDesktop, reenact: Reenact) -> None:
    happened(desktop)
    steps = [{"action": CLICK}, {"action": CLICK | {"x": 5000}, "number": 4}, {"action": CLICK}]
    done = reenact(trace_of(tmp_path, *steps), "--vnc", desktop.server)
    assert done.returncode == 3, done.stderr
    assert "step 4 failed: the point (5000, 120) is not on the screen" in done.stdout
    assert "nothing was judged" in done.stdout
    assert happened(desktop) == ["press 100 120 left"]


@pytest.mark.parametrize("kept_from", ["a rule", "a confirmation"])
def test_the_gate_is_the_same_as_a_models(tmp_path: Path, desktop: QtDesktop, reenact: Reenact, kept_from: str) -> None:
    happened(desktop)
    (tmp_path / "policy.toml").write_text('[[rule]]\nname = "no paste"\ndecision = "deny"\naction = "paste"\n')
    step: Mapping[str, object] = {"action": CLICK, "name": "paste"}
    if kept_from == "a confirmation":
        step = {"action": CLICK, "confirmation": vars(Confirmation("this buys apples"))}
    done = reenact(trace_of(tmp_path, step), "--vnc", desktop.server, "--policy", "policy.toml")
    assert done.returncode == 5, done.stderr
    assert ("no paste" if kept_from == "a rule" else "this buys apples") in done.stdout
    assert happened(desktop) == []


def test_what_is_wrong_before_it_starts_is_one_line(tmp_path: Path, desktop: QtDesktop, reenact: Reenact) -> None:
    address = ("--vnc", desktop.server)
    wrong = reenact(trace_of(tmp_path, {"action": {"kind": "fly"}}), *address)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "step 1: action does not fit" in wrong.stderr
    unset = reenact(trace_of(tmp_path, {"action": {"kind": "open_address", "address": "<secret:PIN>"}}), *address)
    assert (unset.returncode, unset.stderr.count("\n")) == (2, 1)
    assert "needs the secret 'PIN': set the environment variable of that name" in unset.stderr
    with pytest.raises(SystemExit, match="2"):
        reenact(tmp_path)


# --- an address from outside, in a test ------------------------------------------------------------------------------


def test_pytest_takes_the_desktop_from_the_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, desktop: QtDesktop
) -> None:
    happened(desktop)
    pytester.makeconftest("""
        import pytest
        from pytest_vnc_use.planners.scripted import ScriptedPlanner
        from pytest_vnc_use.types import Click

        @pytest.fixture
        def vnc_planner():
            return ScriptedPlanner([[Click(7, 8)]])
    """)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.vnc_task("Click")
        def test_it(vnc_settings):
            assert vnc_settings.steps == 9
    """)
    monkeypatch.setenv("VNC_USE_SERVER", desktop.server)
    monkeypatch.setenv("VNC_USE_STEPS", "9")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60).assert_outcomes(passed=1)
    assert happened(desktop) == ["press 7 8 left"]
