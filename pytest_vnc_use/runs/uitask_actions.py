"""Action traces in the words of UiPath's computer-use harness, read and written: `[{"action": …, "params": …}, …]`.

Source: github.com/UiPath/uipath_enterprise_benchmark, DeterministicBenchmark/eval/uitask, `record_action` and `reenact`
in computer_use/act.py and the types in tools/pointer.py. The harness has no words for the middle button, keys held
down, addresses and functions. These are written in our own words, the action's `kind` and fields; the harness skips
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.json_lines import from_json, to_json
from pytest_vnc_use.types import (
    CLICKS,
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

SIDES = ("up", "down", "left", "right")
FINISH = "finish"
Point = tuple[int, int]
Word = tuple[str, dict[str, Any]]
"""The name of an action, and its params."""
_OWN = Annotated[Action, Field(discriminator="kind")]

# --- writing ---------------------------------------------------------------------------------------------------------


def words_for(action: Action) -> list[Word]:
    """Return the action in the harness's words: several words if no single one covers it."""
    match action:
        case Click(x, y, "left" | "right" as button, 1 | 2 | 3 as count):
            click_type = next(name for name, clicks in CLICKS.items() if clicks == count)
            return [_with("mouse_click", button=button, click_type=click_type, position=_at(x, y))]
        case Move(x, y):
            return [("mouse_move", {"position": _at(x, y)})]
        case Drag(x, y, to_x, to_y):
            return [_with("mouse_drag", button="left", start=_at(x, y), end=_at(to_x, to_y))]
        case Scroll(x, y, direction, clicks, by="wheel"):
            return [_with("mouse_scroll", position=_at(x, y), direction=direction, repeat=clicks)]
        case KeyCombo(keys):
            return [("press_keys", {"keys": list(keys)})]
        case TypeText():
            return _words_for_text(action)
        case TraverseHistory(direction):
            return [("page_navigation", {"direction": direction})]
        case Wait(duration_s):
            return [("wait", {"duration": duration_s})]
        case _:
            own = to_json(action)
            return [(own.pop("kind"), own)]


def _words_for_text(action: TypeText) -> list[Word]:
    at = words_for(Click(action.x, action.y)) if action.x is not None and action.y is not None else []
    cleared = words_for(KeyCombo(("ctrl", "a"))) if action.clear_first else []
    replaced = [("type_text", {"text": action.text})] if action.text else words_for(KeyCombo(("backspace",)))
    entered = words_for(KeyCombo(("enter",))) if action.press_enter else []
    return [*at, *cleared, *(replaced if action.text or cleared else []), *entered]


def _with(name: str, **values: Any) -> Word:
    return name, {"action": values}


def _at(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


# --- reading ---------------------------------------------------------------------------------------------------------


def actions_of(records: Sequence[Any]) -> Iterator[tuple[Mapping[str, Any], Action]]:
    """Yield each action in order, with its record. Raises RunFolderError that names the record."""
    pointer: Point | None = None
    for number, record in enumerate(records, start=1):
        try:
            actions = _read(record["action"], record["params"], pointer)
        except (LookupError, TypeError, ValueError, RunFolderError) as exc:
            reason = f"{type(exc).__name__}: {exc}"
            raise RunFolderError(
                f"record {number} must be an action with `params`, got {record!r:.200} ({reason})"
            ) from exc
        for action in actions:
            pointer = _end_of(action) or pointer
            yield record, action


def finished_with(records: Sequence[Any]) -> JsonObject:
    """Return the params of the last `finish`."""
    finishes = (each["params"].get("params") for each in reversed(records) if each["action"] == FINISH)
    return next(finishes, None) or {}


def _read(name: str, params: Any, pointer: Point | None) -> tuple[Action, ...]:
    match name:
        case "mouse_move":
            return (Move(*_point(params["position"])),)
        case "mouse_click" | "mouse_drag" | "mouse_scroll":
            return _with_mouse(name, params["action"], pointer)
        case "press_keys":
            given = [params["keys"]] if isinstance(params["keys"], str) else params["keys"]
            keys = [part for key in given for part in key.split() or [key] if part.lower() not in ("", "none")]
            return (KeyCombo(tuple(keys)),) if keys else ()
        case "type_text":
            return (TypeText(str(params["text"])),)
        case "page_navigation":
            return (TraverseHistory(_one_of(params["direction"], "back", "forward")),)
        case "wait":
            return (Wait(float(params["seconds"] if "seconds" in params else params["duration"])),)
        case "finish":
            return ()
        case _:
            return (from_json(_OWN, {**params, "kind": name}),)


def _with_mouse(name: str, params: Any, pointer: Point | None) -> tuple[Action, ...]:
    if name == "mouse_scroll":
        return (
            Scroll(*_point(params["position"]), _one_of(params["direction"], *SIDES), int(params.get("repeat", 1))),
        )
    button = _one_of(params["button"], "left", "middle", "right")
    if name == "mouse_click":
        x, y = _point(params["position"]) if params.get("position") else _known(pointer)
        return (Click(x, y, button, CLICKS[params.get("click_type", "single")]),)
    start, end = _point(params["start"]), _point(params["end"])
    if button == "left":
        return (Drag(*start, *end),)
    return MouseDown(*start, button), Move(*end), MouseUp(*end, button)


def _one_of(value: Any, *choices: str) -> Any:
    return choices[choices.index(value)]


def _point(position: Any) -> Point:
    return int(position["x"]), int(position["y"])


def _known(pointer: Point | None) -> Point:
    if pointer is None:
        raise ValueError("the pointer's position is unknown: no earlier action has one")
    return pointer


def _end_of(action: Action) -> Point | None:
    match action:
        case Move(x=x, y=y) | Click(x=x, y=y) | Scroll(x=x, y=y) | MouseUp(x=x, y=y):
            return x, y
        case Drag(to_x=x, to_y=y):
            return x, y
        case _:
            return None
