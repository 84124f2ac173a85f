"""The caption of a step: `click "Sign in" (button)`, or `click at (720, 372)` if its element is unknown.

No part of it is escaped. The names of elements come from pages and programs: they are on one line, and cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Union

from typing_extensions import assert_never

from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    Step,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.elements import Element, Elements

LONGEST_NAME = 200
_COUNTS = {1: "click", 2: "double-click", 3: "triple-click"}


@dataclass(frozen=True)
class CaptionPart:
    """A part of a caption: words of this package, the `name` of an element, or a `quote` from anybody else."""

    text: str
    kind: Literal["words", "name", "quote"] = "words"

    @property
    def is_name(self) -> bool:
        """Return whether it is the name of an element."""
        return self.kind == "name"


Caption = tuple[CaptionPart, ...]


def caption(action: Action, elements: Elements = ()) -> Caption:
    """Return the caption of an action on these elements."""
    return tuple(part for part in _parts(action, elements) if part.text)


def action_in_words(action: Action, elements: Elements = ()) -> str:
    """Return words such as `double-click at (10, 20)`, `type "apples", then press Enter`; text is a JSON string."""
    return "".join(_quoted(part.text) if part.is_name else part.text for part in caption(action, elements))


def is_named(step: Step) -> bool:
    """Return whether the caption of a step has the name of an element; else the report shows a picture of the place."""
    return any(part.is_name for part in caption(step.proposal.action, step.elements))


def _parts(action: Action, elements: Elements) -> Iterator[CaptionPart]:
    first, second = (*elements, None, None)[:2]
    match action:
        case Click() | MouseDown() | MouseUp() | Move() | Scroll():
            yield from _at_a_point(action, first)
        case Drag():
            yield CaptionPart("drag")
            yield from _target(first, (action.x, action.y), "", "from")
            yield from _target(second, (action.to_x, action.to_y), "to", "to")
        case TypeText(x=x, y=y):
            yield from (CaptionPart("type "), CaptionPart(_quoted(action.text), "quote"))
            yield CaptionPart(" over what was there" if action.clear_first else "")
            yield from _target(first, None if x is None or y is None else (x, y), "in", "at")
            yield CaptionPart(", then press Enter" if action.press_enter else "")
        case _:
            yield from _without_place(action)


def _at_a_point(action: Click | MouseDown | MouseUp | Move | Scroll, element: Element | None) -> Iterator[CaptionPart]:
    at = action.x, action.y
    match action:
        case Click(button=button, count=count):
            verb = _COUNTS.get(count, f"click {count} times")
            yield CaptionPart(verb if button == "left" else f"{button} {verb}")
            yield from _target(element, at, "", "at")
        case MouseDown(button=button):
            yield CaptionPart(f"press the {button} button")
            yield from _target(element, at, "on", "at")
        case MouseUp(button=button):
            yield CaptionPart(f"release the {button} button")
            yield from _target(element, at, "on", "at")
        case Move():
            yield CaptionPart("move")
            yield from _target(element, at, "to", "to")
        case Scroll():
            yield CaptionPart(f"scroll {action.direction} by {action.clicks}")
            yield from _target(element, at, "in", "at")
            yield CaptionPart("" if action.by == "wheel" else ", by keys")
        case _:
            assert_never(action)


_Placeless = Union[
    KeyCombo, KeyDown, KeyUp, OpenAddress, TraverseHistory, Wait, TakeScreenshot, CallFunction, InvalidAction
]


def _without_place(action: _Placeless) -> Iterator[CaptionPart]:
    match action:
        case KeyCombo(keys=keys):
            yield from (CaptionPart("press "), CaptionPart("+".join(keys), "quote"))
        case KeyDown(key=key):
            yield from (CaptionPart("hold down "), CaptionPart(key, "quote"))
        case KeyUp(key=key):
            yield from (CaptionPart("release "), CaptionPart(key, "quote"))
        case OpenAddress(address=address):
            new = "in a new window " if action.in_new_window else ""
            yield from (CaptionPart(f"open {new}the address "), CaptionPart(_quoted(address), "quote"))
        case TraverseHistory(direction=direction):
            yield CaptionPart(f"go {direction} in the browser's history")
        case Wait(duration_s=duration_s):
            yield CaptionPart(f"wait {duration_s:g} s")
        case TakeScreenshot():
            yield CaptionPart("look again")
        case CallFunction(name=name, arguments=arguments):
            given = ", ".join(f"{key}={_quoted(value)}" for key, value in arguments.items())
            yield from (CaptionPart("call "), CaptionPart(f"{name}({given})", "quote"))
        case InvalidAction(name=name, problem=problem):
            yield from (
                CaptionPart(name, "quote"),
                CaptionPart(", which cannot be done: "),
                CaptionPart(problem, "quote"),
            )
        case _:
            assert_never(action)


def _target(
    element: Element | None, at: tuple[int, int] | None, joint: str, joint_of_point: str
) -> Iterator[CaptionPart]:
    """Yield an element by its name and role, by its role and place where it has no name, or else the place."""
    name, role = (_on_one_line(element.name), _on_one_line(element.role) or "element") if element else ("", "")
    before, point = f" {joint} " if joint else " ", f" ({at[0]}, {at[1]})" if at else ""
    if name:
        yield from (
            CaptionPart(before),
            CaptionPart(name, "name"),
            CaptionPart(" ("),
            CaptionPart(role, "quote"),
            CaptionPart(")"),
        )
    elif role:
        yield from (CaptionPart(f"{before}the "), CaptionPart(role, "quote"), CaptionPart(f" at{point}" if at else ""))
    elif at:
        yield CaptionPart(f" {joint_of_point}{point}")


def _on_one_line(text: str) -> str:
    return " ".join(plain(cut(text, LONGEST_NAME)).split())


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
