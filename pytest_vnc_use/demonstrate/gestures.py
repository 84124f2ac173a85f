"""A user's pointer and keyboard events, combined into actions.

Each event yields actions for the desktop at once. It also says whether a new recorded
action begins; then look at the screen first. So the desktop gets exactly what is
recorded. Events without effect do nothing on the desktop.

A replay performs one action at once, and waits only between actions. So events join one
action only while the user waits for nothing: a pause, or a screen that changed
(`close`), begins another one. Enter is always a separate action.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard, Union

from typing_extensions import assert_never

from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.types import (
    Action,
    Click,
    DesktopAction,
    Drag,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TypeText,
)
from pytest_vnc_use.types.elements import Elements

Motion = Union[MouseDown, MouseUp, Move, Scroll, KeyDown, KeyUp, TypeText]
"""One event of a pointer or a keyboard, or a text that comes at once: composed, pasted,
or a secret.
"""
NEAR_PX = 4
"""The distance within which the pointer has not moved: a hand is never quite still."""
AGAIN_S = 0.5
"""The longest time between clicks that make one double or triple click."""
LONG_S = 1.0
"""The time from which a held button is a deliberate hold."""
PAUSE_S = 1.0
"""The time without an event after which keys and wheel clicks begin another action."""
BENT_PX = 40
"""The maximum distance of a straight drag from its line."""
_MODIFIERS = (
    "control",
    "controlr",
    "alt",
    "altr",
    "super",
    "superr",
    "shift",
    "shiftr",
    "altgr",
)
_FOR_CHARACTERS = frozenset(("shift", "shiftr", "altgr"))
"""Modifiers that make another character. A viewer sends that character itself; alone
they mean nothing.
"""
_HAVE_EFFECT_ALONE = frozenset(("alt", "super", "superr"))
_LOCKS = frozenset(("capslock", "numlock", "scrolllock"))
"""Keys that change what the viewer's own keyboard sends."""


@dataclass
class DemonstratedAction:
    """A recorded action so far, the screen before it (None before the first look), and
    its elements.
    """

    action: Action
    screen: Screen | None = None
    elements: Elements = ()
    is_exact: bool = True
    """False for a drag that was not straight, was held still, or directly followed a
    click: that is not recorded.
    """


@dataclass(frozen=True)
class GestureAction:
    """An action for the desktop now. With `begins`, a new recorded action begins: look
    at the screen first.
    """

    action: DesktopAction
    begins: DemonstratedAction | None = None


class Demonstration:
    """The actions of a demonstration, in `steps`, built from its events in order."""

    def __init__(self) -> None:
        self.steps: list[DemonstratedAction] = []
        self._modifiers: dict[str, bool] = {}
        """The modifiers that the user holds, and whether each was used."""
        self._on_desktop: list[str] = []
        """The modifiers that are down on the desktop."""
        self._pressed: MouseDown | None = None
        self._pressed_at = 0.0
        self._path: list[tuple[int, int]] = []
        """The pointer's positions since the button was pressed."""
        self._is_held_still = False
        self._latest_s = 0.0
        """The time of the newest event."""
        self._is_open = False
        """Whether the last action may still grow."""

    def actions(self, motion: Motion, at_s: float) -> Iterator[GestureAction]:
        """Yield the desktop's actions for an event. Perform each before asking for the
        next.
        """
        if not self._pressed and isinstance(motion, Move):
            return
        if at_s - self._latest_s >= PAUSE_S:
            self.close()
            self._is_held_still = True
        self._latest_s = at_s
        match motion:
            case Move(x, y):
                self._path.append((x, y))
                yield GestureAction(motion)
            case MouseDown():
                yield from self._press_button(motion, at_s)
            case MouseUp():
                yield from self._release_button(motion, at_s)
            case Scroll():
                yield from self._turn_wheel(motion)
            case KeyDown(key):
                yield from self._press_key(key)
            case KeyUp(key):
                yield from self._release_key(key)
            case TypeText(text):
                yield from self._type_text(text)
            case _:
                assert_never(motion)

    def end(self, at_s: float) -> Iterator[GestureAction]:
        """Release everything that is held, as the user is gone."""
        if self._pressed:
            x, y = self._path[-1]
            yield from self._release_button(MouseUp(x, y, self._pressed.button), at_s)
        for key in tuple(self._on_desktop):
            yield from self._release_key(key)

    @property
    def growing(self) -> DemonstratedAction | None:
        """Return the last action if it may still grow; else None."""
        if not self.steps or not self._is_open:
            return None
        return self.steps[-1]

    @property
    def may_hover(self) -> bool:
        """Return whether a hover may become an action: no button is down, and no text
        is open.
        """
        return not self._pressed and not self._growing_text

    def close(self) -> None:
        """Let the next event begin a separate action: the user has waited for
        something.
        """
        self._is_open = False

    def insert(self, moves: Sequence[DemonstratedAction]) -> None:
        """Insert actions before the last one."""
        self.steps[-1:-1] = moves

    def take_back(self, action: Action) -> None:
        """Remove the last action, or the end of its text: the desktop could not
        do it.
        """
        last = self.steps[-1].action
        length = len(action.text) if isinstance(action, TypeText) else 1
        if isinstance(last, TypeText) and len(last.text) > length:
            self.steps[-1].action = replace(last, text=last.text[:-length])
        else:
            del self.steps[-1]
        self.close()

    def _begin(self, action: Action, *, is_open: bool = False) -> DemonstratedAction:
        self.steps.append(DemonstratedAction(action))
        self._is_open = is_open
        return self.steps[-1]

    @property
    def _growing_text(self) -> str:
        """The text that may still grow; "" if none may."""
        last = self.growing
        if last is None or not isinstance(last.action, TypeText):
            return ""
        return last.action.text

    def _press_button(self, down: MouseDown, at_s: float) -> Iterator[GestureAction]:
        if self._pressed:  # no action has a second button
            return
        last = self.growing
        is_again = at_s - self._pressed_at < AGAIN_S
        yield from self._hold_modifiers()
        self._pressed = down
        self._pressed_at = at_s
        self._path = [(down.x, down.y)]
        self._is_held_still = False
        if last and is_again and _is_counted(last.action, down):
            last.action = replace(last.action, count=last.action.count + 1)
            yield GestureAction(down)
        else:
            click = Click(down.x, down.y, down.button)
            yield GestureAction(down, self._begin(click, is_open=True))

    def _release_button(self, up: MouseUp, at_s: float) -> Iterator[GestureAction]:
        down = self._pressed
        if down is None or down.button != up.button:
            return
        self._pressed = None
        step = self.steps[-1]
        start = down.x, down.y
        end = up.x, up.y
        moved = not all(near(start, point) for point in [*self._path, end])
        if moved and up.button == "left":
            is_straight = not _is_bent(self._path, start, end)
            is_first = step.action == Click(*start)
            step.is_exact = is_straight and is_first and not self._is_held_still
            step.action = Drag(*start, *end)
            self.close()
            yield GestureAction(up)
        elif moved or at_s - self._pressed_at >= LONG_S:
            step.action = down
            yield GestureAction(up, self._begin(up))
        else:
            yield GestureAction(up)

    def _turn_wheel(self, wheel_click: Scroll) -> Iterator[GestureAction]:
        yield from self._hold_modifiers()
        last = self.growing
        if last and _is_continued(last.action, wheel_click):
            last.action = replace(last.action, clicks=last.action.clicks + 1)
            yield GestureAction(wheel_click)
        else:
            yield GestureAction(wheel_click, self._begin(wheel_click, is_open=True))

    def _hold_modifiers(self) -> Iterator[GestureAction]:
        """Press the held modifiers on the desktop too, for a button or the wheel."""
        for key in self._modifiers:
            self._modifiers[key] = True
            if key not in self._on_desktop:
                self._on_desktop.append(key)
                down = KeyDown(key)
                yield GestureAction(down, self._begin(down))

    def _press_key(self, key: str) -> Iterator[GestureAction]:
        if key in _MODIFIERS:
            self._modifiers.setdefault(key, False)
            return
        if key in _LOCKS:
            return
        chord = [held for held in _MODIFIERS if held in self._modifiers]
        self._modifiers.update(dict.fromkeys(chord, True))
        text = self._growing_text
        if len(key) == 1 and _FOR_CHARACTERS.issuperset(chord):
            yield from self._type_text(key)
        elif not chord and key == "backspace" and len(text) > 1:
            # A replay need not type what was deleted. But it types the first character,
            # which may have replaced a selection.
            self.steps[-1].action = TypeText(text[:-1])
            yield GestureAction(KeyCombo((key,)))
        else:
            if len(key) == 1 and "altgr" in chord:
                chord.remove("altgr")
            name = "space" if key == " " else key.lower()
            combo = KeyCombo((*chord, name))
            yield GestureAction(combo, self._begin(combo))

    def _type_text(self, text: str) -> Iterator[GestureAction]:
        before = self._growing_text
        begins = None if before else self._begin(TypeText(text), is_open=True)
        self.steps[-1].action = TypeText(before + text)
        yield GestureAction(TypeText(text), begins)

    def _release_key(self, key: str) -> Iterator[GestureAction]:
        was_used = self._modifiers.pop(key, True)
        if key in self._on_desktop:
            self._on_desktop.remove(key)
            up = KeyUp(key)
            yield GestureAction(up, self._begin(up))
        elif not was_used and key in _HAVE_EFFECT_ALONE:
            combo = KeyCombo((key,))
            yield GestureAction(combo, self._begin(combo))


def near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two points count as the same."""
    across = abs(one[0] - other[0])
    down = abs(one[1] - other[1])
    return max(across, down) <= NEAR_PX


def _is_counted(action: Action, down: MouseDown) -> TypeGuard[Click]:
    """Return whether a button that is pressed again makes a click a double or triple
    one.
    """
    return (
        isinstance(action, Click)
        and action.button == down.button
        and action.count < 3
        and near((action.x, action.y), (down.x, down.y))
    )


def _is_continued(action: Action, wheel_click: Scroll) -> TypeGuard[Scroll]:
    """Return whether a click of the wheel continues an action."""
    return (
        isinstance(action, Scroll)
        and action.direction == wheel_click.direction
        and near((action.x, action.y), (wheel_click.x, wheel_click.y))
    )


def _is_bent(
    path: list[tuple[int, int]], start: tuple[int, int], end: tuple[int, int]
) -> bool:
    """Return whether a point of a path is far from the straight line between its ends.

          x              The line and the point span a parallelogram; its area by
    ├───────────┤        the line's length is how far the point is from the line.
    """
    start_x, start_y = start
    across = end[0] - start_x
    down = end[1] - start_y
    length = max(1.0, math.hypot(across, down))
    for x, y in path:
        area = across * (y - start_y) - down * (x - start_x)
        if abs(area) / length > BENT_PX:
            return True
    return False
