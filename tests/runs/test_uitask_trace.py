"""The action trace: written while a run continues, read leniently, and performed again on a real desktop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.planners.local.scripted import Reenactment
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.runs.uitask_trace import ExecutionLog, read_execution, secrets_of
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    Click,
    Confirmation,
    Decision,
    FrameRef,
    InvalidAction,
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
from support.action_traces import trace_of
from support.memory_desktop import PaintedController
from support.qt_desktop import QtDesktop

SCREEN = FrameRef("ab" * 32, 320, 200)
STARTED = RunStarted("r1", "Open the basket", "2026-11-22T02:35:00+00:00", "scripted", SCREEN)
BROKE = RunEnded(None, "the run failed", error="KeyError: 'x'", traceback="Traceback …\nKeyError: 'x'\n")


def record(name: str, /, *, number: int | None = None, **params: Any) -> dict[str, Any]:
    return {"action": name, "params": params, "task_marked_complete": None, **({"number": number} if number else {})}


def click_at(x: int, y: int, **more: Any) -> dict[str, Any]:
    said = {"button": "left", "click_type": "single", "position": {"x": x, "y": y}}
    return record("mouse_click", action=said) | more


CLICK = click_at(100, 120)


def finished(number: int, action: Action = Click(1, 2), error: str = "") -> StepFinished:  # noqa: B008  # frozen
    proposal = Proposal(action, "open it", {"name": "left_click", "args": {}})
    times = Times(act_s=0.25, settle_s=0.5)
    return StepFinished(Step(number, 1, proposal, Ruling("allow", "r"), SCREEN, SCREEN, error=error, times=times))


def told(directory: Path, name: str = "execution.json") -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = json.loads((directory / name).read_text(encoding="utf-8"))
    return written


def test_partial_trace_is_whole_at_every_step_and_gives_way_to_final_one(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    for number, event in enumerate((STARTED, finished(1), finished(2, KeyCombo(("ctrl", "s"))))):
        log.observe(event)
        assert len(told(tmp_path, "partial_execution.json")) == number
    log.observe(TurnDecided(2, Decision("finished", params={"order": 7}), 0.1))
    log.observe(RunEnded(Outcome.DONE, "ordered"))
    assert [file.name for file in tmp_path.iterdir()] == ["execution.json"]
    click, keys, finish = told(tmp_path)
    assert [record["task_marked_complete"] for record in (click, keys, finish)] == [None] * 3
    at_a_point = {"button": "left", "click_type": "single", "position": {"x": 1, "y": 2}}
    assert (click["action"], click["params"]) == ("mouse_click", {"action": at_a_point})
    assert (click["number"], click["intent"], click["name"]) == (1, "open it", "left_click")
    assert click["screenshot"] == f"screens/{SCREEN.digest}.png"
    assert (keys["action"], keys["params"]) == ("press_keys", {"keys": ["ctrl", "s"]})
    assert (finish["action"], finish["params"]) == ("finish", {"params": {"order": 7}})


@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in (Outcome.DONE, Outcome.WAITING)])
def test_run_that_ends_otherwise_is_not_finished(tmp_path: Path, outcome: Outcome) -> None:
    log = ExecutionLog(tmp_path)
    for event in (STARTED, finished(1), RunEnded(outcome, "not done")):
        log.observe(event)
    assert [record["action"] for record in told(tmp_path)] == ["mouse_click"]


def test_what_was_refused_or_failed_was_not_done(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    nonsense = InvalidAction("fly", "there is no tool 'fly'")
    for event in (STARTED, finished(1, error="denied: no"), finished(2), finished(3, nonsense, "there is no tool")):
        log.observe(event)
    assert [record["number"] for record in told(tmp_path, "partial_execution.json")] == [2]


def test_run_that_was_killed_or_broke_is_gone_on_with(tmp_path: Path) -> None:
    killed = ExecutionLog(tmp_path)
    for event in (STARTED, finished(1, TypeText("a", 3, 4, press_enter=True))):
        killed.observe(event)
    broken = ExecutionLog(tmp_path)
    for event in (finished(2), BROKE):
        broken.observe(event)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["error.txt", "partial_execution.json"]
    assert (tmp_path / "error.txt").read_text(encoding="utf-8") == BROKE.traceback
    resumed = ExecutionLog(tmp_path)
    resumed.observe(finished(2, TypeText("again")))
    resumed.observe(RunEnded(Outcome.DONE, "done"))
    actions = [step.action for step in read_execution(tmp_path).steps]
    assert actions == [Click(3, 4), TypeText("a"), KeyCombo(("enter",)), TypeText("again")]
    assert [file.name for file in tmp_path.iterdir()] == ["execution.json"]


def test_run_that_never_saw_screen_leaves_its_error_only(tmp_path: Path) -> None:
    ExecutionLog(tmp_path).observe(BROKE)
    assert [file.name for file in tmp_path.iterdir()] == ["error.txt"]


def test_what_redactor_hides_is_hidden_here_too(tmp_path: Path) -> None:
    log, redactor = ExecutionLog(tmp_path), Redactor({"PIN": "apple-4711"})
    decided = TurnDecided(1, Decision("finished", params={"pin": "apple-4711"}), 0.0)
    for event in (STARTED, decided, RunEnded(Outcome.DONE, "apple-4711 was typed")):
        log.observe(redactor.hide_in(event))
    [finish] = told(tmp_path)
    assert (finish["params"], finish["message"]) == ({"params": {"pin": "<secret:PIN>"}}, "<secret:PIN> was typed")
    log.observe(redactor.hide_in(RunEnded(None, "", "apple-4711", "apple-4711\n")))
    assert (tmp_path / "error.txt").read_text(encoding="utf-8") == "<secret:PIN>\n"


def test_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="cannot write"):
        ExecutionLog(tmp_path / "gone").observe(STARTED)


def test_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "partial_execution.json").mkdir()
    with pytest.raises(RunDirectoryError, match="cannot write"):
        ExecutionLog(tmp_path).observe(STARTED)
    assert [file.name for file in tmp_path.iterdir()] == ["partial_execution.json"]


def test_foreign_trace_needs_no_more_than_its_actions(tmp_path: Path) -> None:
    execution = read_execution(trace_of(tmp_path, CLICK | {"thought": "hm"}, record("wait", number=7, duration=1.0)))
    assert [(step.number, step.name, step.action.kind) for step in execution.steps] == [
        (1, "mouse_click", "click"),
        (7, "wait", "wait"),
    ]
    assert read_execution(tmp_path) == execution


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "it must be JSON"),
        ("{}", "a list of actions with their params, got {}"),
        ("[5]", "a list of actions with their params, got [5]"),
        (
            '[{"action": "wait", "params": {"duration": 1}}, {"action": "fly", "params": {}}]',
            "record 2 must be",
        ),
        ('[{"action": "click", "params": {"x": "a", "y": 4}}]', "record 1 must be an action with `params`, got {"),
        ('[{"action": "wait", "params": {"duration": 1}, "intent": 3}]', "intent does not fit"),
    ],
)
def test_wrong_trace_is_told_in_one_line_with_record(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "execution.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunDirectoryError) as caught:
        read_execution(tmp_path)
    assert problem in str(caught.value)
    assert "execution.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_directory_without_trace_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="has no action trace: it must hold"):
        read_execution(tmp_path)
    with pytest.raises(RunDirectoryError, match="does not exist"):
        read_execution(tmp_path / "none.json")


def test_secrets_are_those_of_placeholders(tmp_path: Path) -> None:
    execution = read_execution(trace_of(tmp_path, CLICK, record("type_text", text="a<secret:PIN>b")))
    assert secrets_of(execution, {"PIN": "1", "OTHER": "2"}) == {"PIN": "1"}
    with pytest.raises(SettingsError, match="step 2 of the action trace needs the secret 'PIN'"):
        secrets_of(execution, {"PIN": ""})


def test_what_was_done_often_is_done_often(tmp_path: Path) -> None:
    planner = Reenactment(read_execution(trace_of(tmp_path, *[record("press_keys", keys=["Ctrl+Shift+P"])] * 5)))
    controller = PaintedController(repaint=False)
    agent = VncUseAgent(settings=Settings(runs_dir=str(tmp_path)), controller=controller, planner=planner)
    result = agent.run(planner.task, limits=planner.limits(20.0))
    assert (result.outcome, result.message) == (Outcome.DONE, "performed 5 actions again; nothing was judged")
    assert (planner.name, planner.task) == ("re-enacted (an action trace)", "Do again what an action trace did")
    assert controller.performed == [KeyCombo(("Ctrl+Shift+P",))] * 5


def test_functions_not_there_are_left_out_and_told(tmp_path: Path) -> None:
    def ring() -> str:
        """Ring."""
        return rung.append("once") or "rung"

    rung: list[str] = []
    ringing, looking = (record("call_function", name=name, arguments={}) for name in ("ring", "list_elements"))
    trace = trace_of(tmp_path, ringing, CLICK, looking)
    settings = Settings(runs_dir=str(tmp_path / "runs"))
    without = VncUseAgent(settings=settings, controller=PaintedController()).reenact(trace)
    assert without.message == "performed 1 actions again without calls of list_elements, ring; nothing was judged"
    assert rung == []
    agent = VncUseAgent(settings=settings, controller=PaintedController(), functions=[ring])
    assert (
        agent.reenact(trace).message == "performed 2 actions again without calls of list_elements; nothing was judged"
    )
    assert rung == ["once"]


def test_trace_in_which_nothing_was_done_is_no_success(tmp_path: Path) -> None:
    for records in ([], [record("finish", params=None)], [record("call_function", name="ring", arguments={})]):
        with pytest.raises(RunDirectoryError, match="no action to perform"):
            Reenactment(read_execution(trace_of(tmp_path, *records)))


@dataclass
class Done:
    """The exit code and the output of the command."""

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


def happened(pad: QtDesktop) -> list[str]:
    """Return the events that the pad has heard since it was asked last."""
    heard = pad.read_file("events.txt").splitlines()
    pad.write_file("events.txt", "")
    return [line for line in heard if not line.startswith("release")]


@pytest.mark.slow
@pytest.mark.desktop
def test_at_address_from_outside_with_secret_of_environment(tmp_path: Path, pad: QtDesktop, reenact: Reenact) -> None:
    happened(pad)
    typed = record("type_text", text="<secret:PIN>")
    trace = trace_of(tmp_path, CLICK, typed)
    unnamed = reenact(trace, VNC_USE_SERVER=pad.server, PIN="qzj")
    assert (unnamed.returncode, happened(pad)) == (2, [])
    assert "--secret PIN" in unnamed.stderr
    done = reenact(trace, "--secret", "PIN", VNC_USE_SERVER=pad.server, PIN="qzj")
    assert done.returncode == 0, done.stderr
    *_, message, end = done.stdout.splitlines()
    assert message == "performed 2 actions again; nothing was judged"
    assert happened(pad) == ["press 100 120 left", "text q", "text z", "text j"]
    written = b"".join(file.read_bytes() for file in (tmp_path / end.split()[1]).rglob("*.jsonl"))
    assert b"<secret:PIN>" in written
    assert b"qzj" not in written + done.stdout.encode()


def test_it_stops_at_first_error(tmp_path: Path, pad: QtDesktop, reenact: Reenact) -> None:
    happened(pad)
    done = reenact(trace_of(tmp_path, CLICK, click_at(5000, 120, number=4), CLICK), "--vnc", pad.server)
    assert done.returncode == 3, done.stderr
    assert "step 4 failed: the point (5000, 120) must be on the screen" in done.stdout
    assert "nothing was judged" in done.stdout
    assert happened(pad) == ["press 100 120 left"]


@pytest.mark.parametrize("kept_from", ["a rule", "a confirmation"])
def test_gate_is_same_as_models(tmp_path: Path, pad: QtDesktop, reenact: Reenact, kept_from: str) -> None:
    happened(pad)
    (tmp_path / "policy.toml").write_text('[[rule]]\nname = "no paste"\ndecision = "deny"\naction = "paste"\n')
    said: Mapping[str, object] = {"name": "paste"}
    if kept_from == "a confirmation":
        said = {"confirmation": vars(Confirmation("this buys apples"))}
    done = reenact(trace_of(tmp_path, click_at(100, 120, **said)), "--vnc", pad.server, "--policy", "policy.toml")
    assert done.returncode == 5, done.stderr
    assert ("no paste" if kept_from == "a rule" else "this buys apples") in done.stdout
    assert happened(pad) == []


def test_what_is_wrong_before_it_starts_is_one_line(tmp_path: Path, pad: QtDesktop, reenact: Reenact) -> None:
    address = ("--vnc", pad.server)
    wrong = reenact(trace_of(tmp_path, record("fly")), *address)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "record 1 must be an action with `params`" in wrong.stderr
    unset = reenact(trace_of(tmp_path, record("open_address", address="<secret:PIN>")), *address)
    assert (unset.returncode, unset.stderr.count("\n")) == (2, 1)
    assert "needs the secret 'PIN': set the environment variable of that name" in unset.stderr
    with pytest.raises(SystemExit, match="2"):
        reenact(tmp_path)


@pytest.mark.slow
def test_pytest_takes_desktop_from_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, pad: QtDesktop
) -> None:
    happened(pad)
    pytester.makeconftest("""
        import pytest
        from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
        from pytest_vnc_use.types import Click

        @pytest.fixture
        def vnc_planner():
            return ScriptedPlanner([[Click(7, 8)]])
    """)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.vnc_task("Click", expect=None)
        def test_it(vnc_settings):
            assert vnc_settings.max_steps == 9
    """)
    monkeypatch.setenv("VNC_USE_SERVER", pad.server)
    monkeypatch.setenv("VNC_USE_MAX_STEPS", "9")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=400).assert_outcomes(passed=1)
    assert happened(pad) == ["press 7 8 left"]
