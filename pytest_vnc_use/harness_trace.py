"""Action traces of UiPath's computer-use harness, read as actions: a list of `{"action": …, "params": …}`.

Source: github.com/UiPath/uipath_enterprise_benchmark, DeterministicBenchmark/eval/uitask, `record_action` in
computer_use/act.py and the types in tools/pointer.py. What a record says of the page (`task_marked_complete`) is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    JsonObject,
    KeyCombo,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TraverseHistory,
    TypeText,
    Wait,
)

CLICKS = {"single": 1, "double": 2, "triple": 3}
SIDES = ("up", "down", "left", "right")
Point = tuple[int, int]


def actions_of(records: Sequence[Any]) -> Iterator[tuple[str, Action]]:
    """What was done, in order, each with the name it had there. Raises RunFolderError that names the record."""
    pointer: Point | None = None
    for number, record in enumerate(records, start=1):
        try:
            actions = _read(record["action"], record["params"], pointer)
        except (LookupError, TypeError, ValueError) as exc:
            raise RunFolderError(f"record {number} is no action with its params, got {record!r:.200}") from exc
        for action in actions:
            pointer = _end_of(action) or pointer
            yield record["action"], action


def finished_with(records: Sequence[Any]) -> JsonObject:
    """What `finish` was called with last."""
    finishes = (each["params"].get("params") for each in reversed(records) if each["action"] == "finish")
    return next(finishes, None) or {}


def _read(name: str, params: Any, pointer: Point | None) -> tuple[Action, ...]:
    match name:
        case "mouse_move":
            return (Move(*_point(params["position"])),)
        case "mouse_click" | "mouse_drag" | "mouse_scroll":
            return _with_mouse(name, params["action"], pointer)
        case "press_keys":
            keys = [part for key in params["keys"] for part in key.split() or [key] if part.lower() != "none"]
            return (KeyCombo(tuple(keys)),) if keys else ()
        case "type_text":
            return (TypeText(str(params["text"])),)
        case "page_navigation":
            return (TraverseHistory(_one_of(params["direction"], "back", "forward")),)
        case "wait":
            return (Wait(float(params["duration"])),)
        case "finish":
            return ()
        case _:
            raise ValueError(name)


def _with_mouse(name: str, said: Any, pointer: Point | None) -> tuple[Action, ...]:
    if name == "mouse_scroll":
        return (Scroll(*_point(said["position"]), _one_of(said["direction"], *SIDES), int(said.get("repeat", 1))),)
    button = _one_of(said["button"], "left", "right")
    if name == "mouse_click":
        x, y = _point(said["position"]) if said.get("position") else _known(pointer)
        return (Click(x, y, button, CLICKS[said.get("click_type", "single")]),)
    start, end = _point(said["start"]), _point(said["end"])
    if button == "left":
        return (Drag(*start, *end),)
    return MouseDown(*start, button), Move(*end), MouseUp(*end, button)


def _one_of(value: Any, *choices: str) -> Any:
    return choices[choices.index(value)]


def _point(position: Any) -> Point:
    return int(position["x"]), int(position["y"])


def _known(pointer: Point | None) -> Point:
    if pointer is None:
        raise ValueError("where the pointer was is not known")
    return pointer


def _end_of(action: Action) -> Point | None:
    match action:
        case Move(x=x, y=y) | Click(x=x, y=y) | Scroll(x=x, y=y) | MouseUp(x=x, y=y):
            return x, y
        case Drag(to_x=x, to_y=y):
            return x, y
        case _:
            return None
