"""`execution.json`: written while a run continues, in the words of the harness, read
leniently, performed again.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import AgentFailed, RunDirectoryError, SettingsError
from pytest_vnc_use.planners.local.callables import Answer, finish, key
from pytest_vnc_use.runs.uitask_trace import (
    ExecutionLog,
    actions_of,
    read_execution,
    records_for,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Confirmation,
    Decision,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    OpenUrl,
    Proposal,
    Ruling,
    RunEnded,
    RunStarted,
    Scroll,
    Step,
    StepFinished,
    TakeScreenshot,
    TraverseHistory,
    TurnDecided,
    TypeText,
    Wait,
)
from support.memory_desktop import PaintedController
from support.qt_desktop import QtDesktop


def record(name: str, /, *, number: int | None = None, **params: Any) -> dict[str, Any]:
    return {
        "action": name,
        "params": params,
        "task_marked_complete": None,
        **({"number": number} if number else {}),
    }


def at(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


def clicked(
    position: dict[str, int] | None, button: str = "left", click_type: str = "single"
) -> dict[str, Any]:
    return record(
        "mouse_click",
        action={"button": button, "click_type": click_type, "position": position},
    )


CLICK = clicked(at(100, 120))
DRAGGED = {"start": at(1, 2), "end": at(3, 4)}
RECORDS: list[tuple[dict[str, Any], list[Action]]] = [
    (record("mouse_move", position=at(5, 6)), [Move(5, 6)]),
    (clicked(None), [Click(5, 6)]),
    (clicked(at(7, 8), button="right", click_type="double"), [Click(7, 8, "right", 2)]),
    (record("mouse_drag", action={"button": "left", **DRAGGED}), [Drag(1, 2, 3, 4)]),
    (
        record("mouse_drag", action={"button": "right", **DRAGGED}),
        [MouseDown(1, 2, "right"), Move(3, 4), MouseUp(3, 4, "right")],
    ),
    (
        record(
            "mouse_scroll",
            action={"position": at(9, 9), "direction": "down", "repeat": 2},
        ),
        [Scroll(9, 9, "down", 2)],
    ),
    (record("press_keys", keys=["Ctrl+Shift+P"]), [KeyCombo(("Ctrl+Shift+P",))]),
    (record("press_keys", keys=["alt f", "none"]), [KeyCombo(("alt", "f"))]),
    (record("type_text", text="Grüße"), [TypeText("Grüße")]),
    (record("page_navigation", direction="back"), [TraverseHistory("back")]),
    (record("wait", duration=0.01), [Wait(0.01)]),
    (record("finish", params={"order": 7}), []),
]
OWN: list[Action] = [
    Click(1, 2, "middle"),
    MouseDown(1, 2),
    MouseUp(3, 4),
    Scroll(1, 2, "up", 1, "keys"),
    KeyDown("shift"),
    KeyUp("shift"),
    OpenUrl("https://example.org"),
    CallFunction("ring", {"often": 2}),
    TakeScreenshot(),
]
"""The harness has no words for these."""


def trace_of(directory: Path, *records: object) -> Path:
    """Return an execution.json with these records, as a harness writes it."""
    file = directory / "execution.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    return file


ACTIONS = [*chain.from_iterable(actions for _, actions in RECORDS)]


def test_read_execution_of_harness_gives_actions(tmp_path: Path) -> None:
    records = [each for each, _ in RECORDS]
    execution = read_execution(trace_of(tmp_path, *records))
    assert [step.action for step in execution.steps] == ACTIONS
    assert (execution.steps[1].name, execution.params) == ("mouse_click", {"order": 7})
    foreign = read_execution(
        trace_of(
            tmp_path, CLICK | {"thought": "hm"}, record("wait", number=7, duration=1.0)
        )
    )
    assert [(step.number, step.name) for step in foreign.steps] == [
        (1, "mouse_click"),
        (7, "wait"),
    ]


@pytest.mark.parametrize(
    "action",
    [*ACTIONS, *OWN],
    ids=lambda action: action.kind,
)
def test_written_action_is_read_unchanged(action: Action) -> None:
    [(name, params)] = records_for(action)
    assert [read for _, read in actions_of([record(name, **params)])] == [action]
    own = action in OWN or isinstance(action, (MouseDown, MouseUp))
    assert (name in {each["action"] for each, _ in RECORDS}) != own


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "it must be JSON"),
        ("[5]", "a list of actions with their params, got [5]"),
        (
            json.dumps([CLICK, record("fly")]),
            "record 2 must be an action with `params`, got ",
        ),
        (
            json.dumps([CLICK, record("wait", duration="long")]),
            "record 2 must be an action with `params`, got ",
        ),
        (None, "has no action trace: it must hold"),
    ],
)
def test_wrong_trace_names_record(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / "execution.json").write_text(text, encoding="utf-8")
    # one line
    with pytest.raises(RunDirectoryError, match=r"^.*execution\.json.*$") as caught:
        read_execution(tmp_path)
    assert problem in str(caught.value)


SCREEN = FrameRef("ab" * 32, 320, 200)
STARTED = RunStarted(
    "r1", "Open the basket", "2026-11-22T02:35:00+00:00", "scripted", SCREEN
)
BROKE = RunEnded(
    None,
    "the run failed",
    error="KeyError: 'x'",
    traceback="Traceback …\nKeyError: 'x'\n",
)


def finished(
    number: int,
    action: Action = Click(1, 2),  # noqa: B008  # frozen
    error: str = "",
) -> StepFinished:
    proposal = Proposal(action, "open it", {"name": "left_click", "args": {}})
    return StepFinished(
        Step(number, 1, proposal, Ruling("allow", "r"), SCREEN, SCREEN, error=error)
    )


def written(directory: Path, name: str = "execution.json") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(
        (directory / name).read_text(encoding="utf-8")
    )
    return records


def test_partial_trace_is_whole_at_every_step(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    counts = []
    for event in (STARTED, finished(1), finished(2, KeyCombo(("ctrl", "s")))):
        log.observe(event)
        counts.append(len(written(tmp_path, "partial_execution.json")))
    assert counts == [0, 1, 2]


def test_trace_of_finished_run_has_all_steps(tmp_path: Path) -> None:
    log = ExecutionLog(tmp_path)
    fly = InvalidAction("fly", "there is no tool 'fly'")
    for event in (
        STARTED,
        finished(1),
        finished(2, KeyCombo(("ctrl", "s"))),
        finished(3, fly, "there is no tool"),
        TurnDecided(2, Decision("finished", params={"order": 7}), 0.1),
        RunEnded(Outcome.DONE, "ordered"),
    ):
        log.observe(event)

    assert [file.name for file in tmp_path.iterdir()] == ["execution.json"]
    assert len(read_execution(tmp_path).steps) == 2
    click, keys, failed, finish = written(tmp_path)
    assert click == {
        **clicked(at(1, 2)),
        "number": 1,
        "name": "left_click",
        "intent": "open it",
        "screenshot": f"screens/{SCREEN.digest}.png",
    }
    assert (keys["action"], keys["params"]) == ("press_keys", {"keys": ["ctrl", "s"]})
    assert failed["error"] == "there is no tool"
    assert (finish["action"], finish["message"]) == ("finish", "ordered")
    assert finish["params"] == {"params": {"order": 7}}


def test_trace_of_broken_run_continues(tmp_path: Path) -> None:
    for events in (
        (STARTED, finished(1, TypeText("a", 3, 4, press_enter=True))),
        (finished(2), BROKE),
    ):
        log = ExecutionLog(tmp_path)
        for event in events:
            log.observe(event)
    assert (tmp_path / "error.txt").read_text(encoding="utf-8") == BROKE.traceback
    resumed = ExecutionLog(tmp_path)
    for event in (finished(2, TypeText("again")), RunEnded(Outcome.DONE, "done")):
        resumed.observe(event)
    actions = [step.action for step in read_execution(tmp_path).steps]
    assert actions == [
        Click(3, 4),
        TypeText("a"),
        KeyCombo(("enter",)),
        TypeText("again"),
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["execution.json"]


def order(observation: Observation) -> Answer:
    if observation.turns:
        return finish({"order": "apple-4711"})
    return [Click(10, 20), TypeText("pin apple-4711"), key("nosuchkey")]


def agent_of(
    tmp_path: Path, planner: object = None, **given: Any
) -> tuple[VncUseAgent, PaintedController]:
    controller = PaintedController()
    settings = Settings(runs_dir=str(tmp_path / "runs"))
    return (
        VncUseAgent(settings=settings, controller=controller, planner=planner, **given),
        controller,
    )


@pytest.fixture
def ordered(tmp_path: Path) -> RunResult:
    """A run that typed a secret, and whose last action failed."""
    ordering, _ = agent_of(tmp_path, order, secrets={"PIN": "apple-4711"})
    return ordering.run("Order with <secret:PIN>")


def test_run_leaves_trace_without_secrets(ordered: RunResult) -> None:
    assert ordered.outcome is Outcome.DONE
    assert ordered.params == {"order": "<secret:PIN>"}
    assert [step.error for step in ordered.steps] == ["", "", "unknown key 'nosuchkey'"]

    execution = read_execution(ordered.run_dir)
    assert execution.run_id == ordered.run_id
    assert execution.task == "Order with <secret:PIN>"
    assert execution.params == {"order": "<secret:PIN>"}
    assert [step.action for step in execution.steps] == [
        Click(10, 20),
        TypeText("pin <secret:PIN>"),
    ]
    screenshots = [ordered.run_dir / step.screenshot for step in execution.steps]
    assert [file for file in screenshots if not file.is_file()] == []
    files = [path for path in ordered.run_dir.rglob("*") if path.is_file()]
    assert [file for file in files if b"apple-4711" in file.read_bytes()] == []


def test_reenact_performs_run_again(ordered: RunResult, tmp_path: Path) -> None:
    again, controller = agent_of(tmp_path, secrets={"PIN": "pear-8"})
    repeated = again.reenact(ordered.run_dir / "execution.json")
    assert (controller.performed[0], controller.typed) == (Click(10, 20), "pin pear-8")
    assert repeated.message == "performed 2 actions again; nothing was judged"


def test_reenact_without_secret_is_rejected(ordered: RunResult, tmp_path: Path) -> None:
    undeclared, _ = agent_of(tmp_path)
    with pytest.raises(
        SettingsError, match="step 2 of the action trace needs the secret 'PIN'"
    ):
        undeclared.reenact(ordered.run_dir)


def test_crash_leaves_traceback_without_secrets(tmp_path: Path) -> None:
    def crash(observation: Observation) -> Answer:
        raise ValueError("no apple-4711 here")

    crashing, _ = agent_of(tmp_path, crash, secrets={"PIN": "apple-4711"})
    with pytest.raises(AgentFailed, match="raised ValueError: no <secret:PIN> here"):
        crashing.run("Order")
    [directory] = crashing.runs
    text = (directory / "error.txt").read_text(encoding="utf-8")
    assert text.startswith("Traceback (most recent call last):\n")
    assert "in crash\n" in text
    assert "apple-4711" not in text
    assert written(directory, "partial_execution.json") == []


RISKY = {"confirmation": vars(Confirmation("this buys apples"))}
PRESSED = "press 100 120 left"


@pytest.mark.parametrize(
    ("records", "code", "happened", "message"),
    [
        (
            [CLICK, record("type_text", text="<secret:PIN>")],
            0,
            [PRESSED, "text q", "text z"],
            "performed 2 actions",
        ),
        (
            [CLICK, clicked(at(5000, 120)) | {"number": 4}, CLICK],
            3,
            [PRESSED],
            "step 4 failed: the point (5000, 120) must be on",
        ),
        ([CLICK | {"name": "paste"}], 5, [], "no paste"),
        ([CLICK | RISKY], 5, [], "this buys apples"),
    ],
    ids=["secret", "error", "denied", "risky"],
)
def test_reenact_types_secret_obeys_policy_stops_at_error(
    tmp_path: Path,
    pad: QtDesktop,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    records: list[dict[str, Any]],
    code: int,
    happened: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIN", "qz")
    (tmp_path / "policy.toml").write_text(
        '[[rule]]\nname = "no paste"\ndecision = "deny"\naction = "paste"\n'
    )
    options = ["--vnc", pad.server, "--policy", "policy.toml", "--secret", "PIN"]
    pad.write_file("events.txt", "")

    assert main(["reenact", str(trace_of(tmp_path, *records)), *options]) == code
    output = capsys.readouterr().out
    assert message in output
    assert "qz" not in output
    events = pad.read_file("events.txt").splitlines()
    assert [line for line in events if not line.startswith("release")] == happened
