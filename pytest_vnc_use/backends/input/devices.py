"""Pointer and keyboard of one connection; each knows its pressed buttons or keys, and releases them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pytest_vnc_use.backends.rfb.connection import RfbConnection
from pytest_vnc_use.backends.rfb.scancodes import key_event
from pytest_vnc_use.backends.rfb.server_quirks import ServerQuirks
from pytest_vnc_use.backends.screen.settle import SettleRules
from pytest_vnc_use.errors import ActionError, DesktopError
from pytest_vnc_use.keyboard.keystrokes import KeyEvent, scroll_chords, stroke
from pytest_vnc_use.keyboard.keysyms import Chord
from pytest_vnc_use.types import Button, Direction

HOLD_S = 0.02
"""The length of a press. Programs count too few clicks if presses have no length."""
DRAG_MOVES = 16
DRAG_MOVE_S = 0.01
_DRAGGED = SettleRules(first_change_s=0.3, quiet_s=0.5, limit_s=2.0, any_change=True)
"""The wait before a dragged thing is dropped. On a busy machine Chromium's first drag has stopped for 0.3 s."""
_ANSWER_S = 1.0
_BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 3}
_WHEEL: dict[Direction, int] = {"up": 4, "down": 5, "left": 6, "right": 7}


class Pointer:
    """The pointer of a desktop. It moves before it presses, and never leaves the screen."""

    def __init__(self, connection: RfbConnection) -> None:
        self._connection = connection
        self._pressed = 0
        self._at = (0, 0)
        self._has_moved = False

    @property
    def at(self) -> tuple[int, int]:
        """The pixel to which the pointer was moved last."""
        return self._at

    @property
    def holding(self) -> bool:
        """Return whether a button is down."""
        return self._pressed != 0

    def move(self, x: int, y: int) -> None:
        """Move to a point. Raises ActionError if the point is off the screen."""
        self.check(x, y)
        self._at = (x, y)
        self._send()
        if not self._has_moved:
            self._leave_the_picture()

    def _leave_the_picture(self) -> None:
        """Wait until TigerVNC has taken the pointer out of the picture: that change is no answer to an action.

        TigerVNC draws the pointer until it is moved. It answers the first question before it has moved the pointer, and
        the second one after it. If no answer comes, the next look at the screen reports it.
        """
        if self._connection.answers(_ANSWER_S):
            self._connection.answers(_ANSWER_S)
        self._connection.framebuffer.mark_began()
        self._has_moved = True

    def check(self, x: int, y: int) -> None:
        """Raise ActionError if the point is off the screen, or is no whole number of pixels."""
        width, height = self._connection.framebuffer.size
        if not (isinstance(x, int) and isinstance(y, int) and 0 <= x < width and 0 <= y < height):
            raise ActionError(
                f"the point {(x, y)!r} must be on the screen of {width} x {height} pixels: x from 0 to "
                f"{width - 1}, y from 0 to {height - 1}"
            )

    def press(self, button: Button) -> None:
        """Press a button and keep it pressed."""
        self._pressed |= _mask(button)
        self._send()

    def release(self, button: Button) -> None:
        """Release a button."""
        self._pressed &= ~_mask(button)
        self._send()

    def click(self, button: Button, count: int) -> None:
        """Press and release `count` times where the pointer is, slowly enough for programs to count right."""
        for _ in range(count):
            try:
                self.press(button)
                self.pause()
            finally:
                self.release(button)
            self.pause()

    def drag_to(self, x: int, y: int) -> None:
        """Press the left button, move in a line to a point, a pixel away and back, and release once the screen rests.

        A drop target only takes part if the pointer moves inside it before the release, and takes the drop only if it
        has answered to that.
        """
        from_x, from_y = self._at
        beside = x - 1 if x > 0 else x + 1
        try:
            self.press("left")
            self.pause()
            for number in range(1, DRAG_MOVES + 1):
                self._glide(from_x + (x - from_x) * number // DRAG_MOVES, from_y + (y - from_y) * number // DRAG_MOVES)
            self._glide(beside, y)
            self._glide(x, y)
            self._connection.flush()
            self._connection.framebuffer.wait_settled(_DRAGGED)
        finally:
            self.release("left")

    def turn_wheel(self, direction: Direction, clicks: int) -> None:
        """Turn the wheel by notches where the pointer is."""
        notch = 1 << (_WHEEL[direction] - 1)
        for _ in range(clicks):
            self._send(notch)
            self._send()

    def release_all(self) -> None:
        """Release every button; a connection that ended has none to release."""
        if self._pressed:
            self._pressed = 0
            with suppress(DesktopError):
                self._send()

    def pause(self, duration_s: float = HOLD_S) -> None:
        """Wait `duration_s` after all events are on their way: a late reactor must not send two events together."""
        self._connection.flush()
        self._connection.framebuffer.pause(duration_s)

    def _glide(self, x: int, y: int) -> None:
        self.move(x, y)
        self.pause(DRAG_MOVE_S)

    def _send(self, momentary: int = 0) -> None:
        protocol = self._connection.protocol
        self._connection.outgoing.pointer(*self._at, self._pressed | momentary)
        self._connection.send(protocol.pointerEvent, *self._at, self._pressed | momentary)


class Keyboard:
    """The keyboard of a desktop. It knows which keys are down, and sends events no faster than the server takes them.

    A chord goes out in one write: if a release came late, the server would repeat the key.
    """

    def __init__(self, connection: RfbConnection, quirks: ServerQuirks) -> None:
        self._connection = connection
        self._quirks = quirks
        self._held: list[int] = []

    @property
    def held(self) -> tuple[int, ...]:
        """The keysyms that are down, in the order in which they were pressed."""
        return tuple(self._held)

    def press(self, keysym: int) -> None:
        """Press a key and keep it pressed."""
        self._held.append(keysym)
        self._send([KeyEvent(keysym, True)])

    def release(self, keysym: int) -> None:
        """Release a key."""
        self._held = [held for held in self._held if held != keysym]
        self._send([KeyEvent(keysym, False)])

    def strike(self, *chords: Chord) -> None:
        """Press the keys of each chord in order and release them in reverse; a held modifier stays down."""
        strokes = [stroke(chord, self._held) for chord in chords]
        for events in strokes if self._quirks.event_s else [[event for each in strokes for event in each]]:
            self._send(events)
        released = {keysym for events in strokes for keysym, down in events if not down}
        self._held = [held for held in self._held if held not in released]

    def scroll(self, direction: Direction, notches: int) -> None:
        """Scroll whatever has the focus, as far as `notches` of the wheel, see `scroll_chords`."""
        self.strike(*scroll_chords(direction, notches))

    def release_all(self) -> None:
        """Release every key; a connection that ended has none to release."""
        with suppress(DesktopError):
            for keysym in reversed(self.held):
                self.release(keysym)

    def _send(self, events: Sequence[KeyEvent]) -> None:
        data = b"".join(key_event(keysym, down, self._quirks.scancodes.get(keysym, 0)) for keysym, down in events)
        self._connection.outgoing.keys(events)
        self._connection.send(self._connection.protocol.transport.write, data)
        self._connection.framebuffer.pause(len(events) * self._quirks.event_s)


def _mask(button: Button) -> int:
    if button not in _BUTTONS:
        raise ActionError(f"a button must be 'left', 'middle' or 'right', got {button!r}")
    return 1 << (_BUTTONS[button] - 1)
