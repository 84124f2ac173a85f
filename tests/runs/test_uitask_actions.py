"""Traces of UiPath's computer-use harness, in the words that its `record_action` writes, performed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.runs.uitask_trace import actions_of, read_execution, words_for
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from support.action_traces import trace_of
from support.memory_desktop import PaintedController


def record(name: str, /, **params: Any) -> dict[str, Any]:
    return {"action": name, "params": params, "task_marked_complete": None}


def at(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


RECORDS = [
    record("mouse_move", position=at(5, 6)),
    record("mouse_click", action={"button": "left", "click_type": "single", "position": None}),
    record("mouse_click", action={"button": "right", "click_type": "double", "position": at(7, 8)}),
    record("mouse_drag", action={"button": "left", "start": at(1, 2), "end": at(3, 4)}),
    record("mouse_drag", action={"button": "right", "start": at(1, 2), "end": at(3, 4)}),
    record("mouse_scroll", action={"position": at(9, 9), "direction": "down", "repeat": 2}),
    record("press_keys", keys=["Ctrl+Shift+P"]),
    record("press_keys", keys=["alt f", "none"]),
    record("type_text", text="Grüße"),
    record("page_navigation", direction="back"),
    record("wait", duration=0.01),
    record("finish", params={"order": 7}),
]
ACTIONS = [
    Move(5, 6),
    Click(5, 6),
    Click(7, 8, "right", 2),
    Drag(1, 2, 3, 4),
    MouseDown(1, 2, "right"),
    Move(3, 4),
    MouseUp(3, 4, "right"),
    Scroll(9, 9, "down", 2),
    KeyCombo(("Ctrl+Shift+P",)),
    KeyCombo(("alt", "f")),
    TypeText("Grüße"),
    TraverseHistory("back"),
    Wait(0.01),
]


def test_every_action_is_read(tmp_path: Path) -> None:
    execution = read_execution(trace_of(tmp_path, *RECORDS))
    assert [step.action for step in execution.steps] == ACTIONS
    assert execution.steps[1].name == "mouse_click"
    assert execution.params == {"order": 7}


OWN = [
    Click(1, 2, "middle"),
    MouseDown(1, 2),
    MouseUp(3, 4),
    Scroll(1, 2, "up", 1, "keys"),
    KeyDown("shift"),
    KeyUp("shift"),
    OpenAddress("https://example.org"),
    CallFunction("ring", {"often": 2}),
    TakeScreenshot(),
]


def test_actions_of_script_with_string_and_middle_button_are_read() -> None:
    click = {"button": "middle", "position": {"x": 1, "y": 2}, "click_type": "single"}
    records = [record("press_keys", keys="ctrl+End"), record("mouse_click", action=click)]
    assert [action for _, action in actions_of(records)] == [KeyCombo(("ctrl+End",)), Click(1, 2, "middle")]


@pytest.mark.parametrize("action", [*ACTIONS, *OWN], ids=lambda action: action.kind)
def test_what_is_written_is_read_as_it_was(action: Action) -> None:
    [(name, params)] = words_for(action)
    assert [read for _, read in actions_of([record(name, **params)])] == [action]
    known_there = {entry["action"] for entry in RECORDS}
    own = action in OWN or isinstance(action, (MouseDown, MouseUp))
    assert (name in known_there) != own


def test_text_with_more_than_text_is_several_of_its_actions() -> None:
    names = [
        words_for(TypeText("x", 1, 2, press_enter=True, clear_first=True)),
        words_for(TypeText("", clear_first=True)),
    ]
    assert [[(name, params.get("keys")) for name, params in words] for words in names] == [
        [("mouse_click", None), ("press_keys", ["ctrl", "a"]), ("type_text", None), ("press_keys", ["enter"])],
        [("press_keys", ["ctrl", "a"]), ("press_keys", ["backspace"])],
    ]


def test_it_is_carried_out_again(tmp_path: Path) -> None:
    controller = PaintedController()
    agent = VncUseAgent(settings=Settings(runs_dir=str(tmp_path / "runs")), controller=controller)
    result = agent.reenact(trace_of(tmp_path, *RECORDS[:4]))
    assert (result.outcome, controller.performed) == (Outcome.DONE, ACTIONS[:4])


@pytest.mark.parametrize(
    "wrong",
    [
        record("fly"),
        record("mouse_move"),
        record("mouse_scroll", action={"position": at(1, 1), "direction": "in"}),
        record("mouse_click", action={"button": "left", "position": None}),
        record("wait", duration="long"),
        {"action": "wait"},
    ],
)
def test_record_wrong_is_named(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(RunDirectoryError, match="record 2 must be an action with `params`, got "):
        read_execution(trace_of(tmp_path, record("type_text", text="x"), wrong))
