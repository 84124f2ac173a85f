"""The pointer and the keyboard of one connection. Each knows which of its buttons or
keys are pressed, and releases them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from pytest_vnc_use import clock
from pytest_vnc_use.backends.quirks import Piece, ServerQuirks, Typed
from pytest_vnc_use.backends.rfb_connection import RfbConnection
from pytest_vnc_use.backends.screen import SettleRules
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types import (
    PIXELS_PER_WHEEL_CLICK,
    Button,
    Direction,
    Scroll,
    ScrollMeans,
)
from pytest_vnc_use.types.keys import (
    BACKSPACE,
    CONTROL,
    INSERT,
    LEFT,
    MODIFIERS,
    PAGE_DOWN,
    PAGE_UP,
    RETURN,
    RIGHT,
    SHIFT,
    Chord,
    chord_of,
    key_of,
)

EVENT_S = 0.02
"""The time between two events of a pointer. If a press and its release, or two clicks,
arrive together, programs count too few clicks.
"""
HOLD_S = 0.1
"""The minimum length of a press, as of a user's.

A control that opens a list on the press may look different, for as long as the list is
open, if the button is released earlier: Chromium opens the list of a `select` up to
0.04 s after the press, on a busy machine later. To GTK, Qt and browsers, a deliberate
hold takes 0.2 s or more.
"""
DRAG_MOVES = 16
DRAG_MOVE_S = 0.01
_DRAG_SHOWN_S = 2.0
"""The maximum wait until a program shows that something is dragged. A busy page shows it
late, or not at all.
"""
_DRAGGED = SettleRules(first_change_s=0.3, stable_s=0.5, limit_s=2.0, any_change=True)
"""The wait before a dragged item is dropped. On a busy machine, Chromium's first drag
stopped moving for 0.3 s.
"""
_FETCH_S = 10.0
"""The maximum wait until a program fetches a pasted text. An event ends it, so only a
busy program needs all of it.
"""
_FETCH_AGAIN_S = 0.5
"""The same if no program fetched the text that was offered before."""
EFFECT = SettleRules(first_change_s=0.3, stable_s=0.1, limit_s=2.0, any_change=True)
"""The wait between a click or a shortcut and the next keys, which could overtake it."""
FOCUSED = replace(EFFECT, first_change_s=2.0, limit_s=4.0)
"""The wait between keys and a paste, and between ctrl+l and a URL: a busy browser drops
what is typed before its address bar has the focus.
"""
_PASTED = SettleRules(first_change_s=3.5, stable_s=0.1, limit_s=4.5)
"""The wait between a paste and the keys after it. Chromium sometimes shows a text 3 s
after it has fetched it.
"""
_CARET_COLUMNS = 3
"""The maximum width of a blinking caret in pixels. Even one pasted letter changes more,
because it moves the caret.
"""
_PASTED_LATE = SettleRules(first_change_s=10.0, stable_s=0.1, limit_s=11.0)
"""The same if no caret blinks, so that perhaps no field has the focus."""
SELECT_ALL = Chord((CONTROL, ord("a")))
ENTER = Chord((RETURN,))
PASTE_ANYWHERE = Chord((SHIFT, INSERT))
"""The keys that paste in terminals too, and in most programs."""
PASTE = Chord((CONTROL, ord("v")))
ADDRESS_BAR = "ctrl+l"
_CLICKS_PER_PAGE = 5
_ARROWS_PER_CLICK = 3
_BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 4}
_WHEEL: dict[Direction, int] = {"up": 8, "down": 16, "left": 32, "right": 64}
"""The bit of each button in a pointer event."""
_DEFAULT_SCROLL_PX = 800
"""The pixels of a scroll that has only a direction."""
_BUTTON_NAMES = (
    "left",
    "middle",
    "right",
    "wheel up",
    "wheel down",
    "wheel left",
    "wheel right",
)


class Pointer:
    """The pointer of a desktop. It moves before it presses, and never leaves the
    screen.
    """

    def __init__(self, connection: RfbConnection) -> None:
        self._connection = connection
        self.pressed = 0
        """The mask of the buttons that are down."""
        self.at = (0, 0)
        """The pixel to which the pointer was moved last."""
        self._has_moved = False
        self._pressed_at = -math.inf
        self._released_at = -math.inf

    def move(self, x: int, y: int) -> None:
        """Move to a point. Raises ActionError if the point is off the screen."""
        self.check(x, y)
        self.at = (x, y)
        self._send()
        if not self._has_moved:
            # TigerVNC draws the pointer into the screen until it is moved. That change
            # is no effect of an action. The server answers the first request before it
            # has moved the pointer, and the second one after that. If no answer comes,
            # the next screenshot reports it.
            if self._connection.answers():
                self._connection.answers()
            self._connection.framebuffer.mark_started()
            self._has_moved = True

    def check(self, x: int, y: int) -> None:
        """Raise ActionError if the point is off the screen, or is no whole number of
        pixels.
        """
        width, height = self._connection.framebuffer.size
        is_whole = isinstance(x, int) and isinstance(y, int)
        if not is_whole or not 0 <= x < width or not 0 <= y < height:
            raise ActionError(
                f"the point {(x, y)!r} must be on the screen of {width} x {height}"
                f" pixels: x from 0 to {width - 1}, y from 0 to {height - 1}"
            )

    def press(self, button: Button) -> None:
        """Press a button and keep it pressed."""
        self.pressed |= _BUTTONS[button]
        self._send()
        self._connection.flush()
        self._pressed_at = clock.monotonic()

    def release(self, button: Button) -> None:
        """Release a button, once the press has its length."""
        try:
            self._pause_until(self._pressed_at + HOLD_S)
        finally:
            self.pressed &= ~_BUTTONS[button]
            self._send()
            self._released_at = clock.monotonic()

    def click(self, button: Button, count: int) -> None:
        """Press and release `count` times at the pointer, slowly enough for programs to
        count the clicks.
        """
        for _ in range(count):
            self._pause_until(self._released_at + EVENT_S)
            try:
                self.press(button)
            finally:
                self.release(button)

    def drag_to(self, x: int, y: int) -> None:
        """Press the left button, move to a point, then one pixel away and back, and
        release once the screen is stable.

        A drop target notices the drag only if the pointer moves inside it after the
        program has started the drag, and it takes the drop only if it has reacted.
        """
        from_x, from_y = self.at
        beside = x - 1 if x > 0 else x + 1
        try:
            self.press("left")
            self.pause()
            halfway_s = 0.0
            for number in range(1, DRAG_MOVES + 1):
                if number == DRAG_MOVES // 2:
                    halfway_s = clock.monotonic()
                self._glide(
                    from_x + (x - from_x) * number // DRAG_MOVES,
                    from_y + (y - from_y) * number // DRAG_MOVES,
                )
            self._connection.flush()
            self._connection.framebuffer.wait_changed(halfway_s, _DRAG_SHOWN_S)
            self._glide(beside, y)
            self._glide(x, y)
            self._connection.flush()
            self._connection.framebuffer.wait_settled(_DRAGGED)
        finally:
            self.release("left")

    def turn_wheel(self, direction: Direction, clicks: int) -> None:
        """Send a press and a release for each click of the wheel."""
        for _ in range(clicks):
            self._send(_WHEEL[direction])
            self._send()

    def release_all(self) -> None:
        """Release every button."""
        if self.pressed:
            self.pressed = 0
            self._send()

    def pause(self, duration_s: float = EVENT_S) -> None:
        """Wait until all events are sent, and then `duration_s`, so that no two events
        are sent together.
        """
        self._connection.flush()
        self._connection.framebuffer.pause(duration_s)

    def _pause_until(self, time_s: float) -> None:
        """Pause until a time on the monotonic clock, if that is still to come."""
        early_s = time_s - clock.monotonic()
        if early_s > 0:
            self.pause(early_s)

    def _glide(self, x: int, y: int) -> None:
        self.move(x, y)
        self.pause(DRAG_MOVE_S)

    def _send(self, wheel_bit: int = 0) -> None:
        x, y = self.at
        mask = self.pressed | wheel_bit
        protocol = self._connection.protocol
        buttons = [name for bit, name in enumerate(_BUTTON_NAMES) if mask >> bit & 1]
        self._connection.outgoing.note("pointer", x=x, y=y, buttons=buttons)
        self._connection.send(protocol.point, x, y, mask)


def scroll_chords(direction: Direction, clicks: int) -> list[Chord]:
    """Return the keys that scroll as far as `clicks` wheel clicks.

    Up or down, five wheel clicks are a page. Left or right, one wheel click is three
    arrows.
    """
    if direction in ("up", "down"):
        key = PAGE_UP if direction == "up" else PAGE_DOWN
        times = math.ceil(clicks / _CLICKS_PER_PAGE)
    else:
        key = LEFT if direction == "left" else RIGHT
        times = clicks * _ARROWS_PER_CLICK
    return [Chord((key,))] * times


class Keyboard:
    """The keyboard of a desktop. It knows which keys are down, and sends events no
    faster than the server takes them.

    A chord is sent in one write: if its releases came late, the server would repeat the
    key.
    """

    def __init__(self, connection: RfbConnection, quirks: ServerQuirks) -> None:
        self._connection = connection
        self._screen = connection.framebuffer
        self._quirks = quirks
        self.held: list[int] = []
        """The keysyms that are down, in the order in which they were pressed."""
        self._unfetched_since = -1
        """The number of texts that were fetched when an offer failed."""

    def press(self, keysym: int) -> None:
        """Press a key and keep it pressed."""
        self.held.append(keysym)
        self._send([(keysym, True)])

    def release(self, keysym: int) -> None:
        """Send the release of a key, and stop holding it."""
        self.held = [held for held in self.held if held != keysym]
        self._send([(keysym, False)])

    def strike(self, *chords: Chord) -> None:
        """Press the keys of each chord in order and release them in reverse; a held
        modifier stays down.
        """
        stays = MODIFIERS.intersection(self.held)
        strokes: list[list[tuple[int, bool]]] = []
        released: set[int] = set()
        for chord in chords:
            keysyms = [keysym for keysym in chord.keysyms if keysym not in stays]
            presses = [(keysym, True) for keysym in keysyms]
            releases = [(keysym, False) for keysym in reversed(keysyms)]
            strokes.append(presses + releases)
            released.update(keysyms)
        if not self._quirks.event_s:
            strokes = [list(chain.from_iterable(strokes))]
        for events in strokes:
            self._send(events)
        self.held = [keysym for keysym in self.held if keysym not in released]

    def write(self, pieces: Iterable[Piece]) -> None:
        """Type or paste the pieces in order. Raises ActionError if no program takes a
        pasted piece.
        """
        has_typed = False
        for piece in pieces:
            if isinstance(piece, Typed):
                self._screen.mark_started()
                self.strike(*map(chord_of, piece.text))
                has_typed = True
                continue
            if has_typed:
                # A late effect of these keys would be taken for that of the paste.
                self._screen.wait_settled(FOCUSED)
            self.paste(piece.text)

    def clear(self, *, to_be_replaced: bool) -> None:
        """Select all text of the field, and delete it unless the next key will replace
        it.

        A paste will not: TigerVNC takes the primary selection together with the
        clipboard, and GTK 3 then selects nothing.
        """
        self._screen.mark_started()
        self.strike(SELECT_ALL)
        if not to_be_replaced:
            self.strike(Chord((BACKSPACE,)))
        self._screen.wait_settled(EFFECT)

    def release_all(self) -> None:
        """Release every key."""
        for keysym in reversed(self.held):
            self.release(keysym)

    def _send(self, events: Sequence[tuple[int, bool]]) -> None:
        data = b"".join(
            _key_event(keysym, down, self._quirks.scancodes.get(keysym, 0))
            for keysym, down in events
        )
        protocol = self._connection.protocol
        for keysym, down in events if self._connection.outgoing.is_tapped else ():
            self._connection.outgoing.note("key", key=key_of(keysym), down=down)
        self._connection.send(protocol.transport.write, data)
        self._connection.framebuffer.pause(len(events) * self._quirks.event_s)

    def paste(self, text: str, chord: Chord = PASTE_ANYWHERE) -> None:
        """Offer a text as the clipboard, and press the keys that paste it. Raises
        ActionError if no program takes it.

        The clipboard keeps the text afterwards, so that a program's menu can paste it.
        """
        protocol = self._connection.protocol
        before = protocol.fetched_texts
        screen_before = self._screen.raw_frame()
        self._connection.outgoing.note("clipboard", text=text)
        self._connection.send(protocol.offer_text, text)
        self._screen.mark_started()
        started_s = clock.monotonic()
        self.strike(chord)
        limit_s = _FETCH_AGAIN_S if before == self._unfetched_since else _FETCH_S
        is_fetched = self._screen.wait_until(
            lambda: protocol.fetched_texts > before, limit_s
        )
        if not is_fetched:
            self._unfetched_since = before
            keys = "ctrl+v" if chord == PASTE else "shift+insert"
            raise ActionError(
                f"no program fetched the text from the clipboard within {limit_s} s"
                f" after {keys}. Focus a text field first"
            )
        self._screen.wait_wider(screen_before, _CARET_COLUMNS, _PASTED.first_change_s)
        for rules in (_PASTED, _PASTED_LATE):
            if self._screen.wait_settled(rules).reason != "nothing_changed":
                return
            # one letter beside the caret looks like a blink of the caret
            if self._screen.wait_drawn(started_s, 0.0):
                return
        raise ActionError(
            "a program fetched the text from the clipboard, perhaps a clipboard"
            f" manager, and no pixel changed within {_PASTED_LATE.first_change_s} s."
            " Focus a text field first"
        )


def _key_event(keysym: int, down: bool, scancode: int) -> bytes:
    """Return the message that a key went down or up.

    Send a scan code only to a server that has confirmed scan codes.
    """
    if scancode:
        return struct.pack(">BBHII", 255, 0, down, keysym, scancode)
    return struct.pack(">BBxxI", 4, down, keysym)


def scroll_of(
    x: int | Direction | None,
    y: int | None,
    direction: Direction | None,
    clicks: int,
    by: ScrollMeans,
    magnitude: int | None,
    size: tuple[int, int],
) -> Scroll:
    """Return the scroll that the arguments of `VNCController.scroll` mean. Raises
    ActionError.

    `size` is that of the screen, whose middle is used if no point is given.
    """
    if not isinstance(x, int):  # as in scroll("down", magnitude=800)
        direction = x or direction
        pixels = magnitude if y is None else y
        x = size[0] // 2
        y = size[1] // 2
        magnitude = _DEFAULT_SCROLL_PX if pixels is None else pixels
    if direction not in _WHEEL or y is None:
        raise ActionError(
            "the direction of a scroll must be up, down, left or right, got"
            f" {direction!r}"
        )
    if magnitude is not None and magnitude < 1:
        raise ActionError(
            f"the magnitude of a scroll must be at least 1 pixel, got {magnitude!r}"
        )
    if magnitude is not None:
        clicks = max(1, round(magnitude / PIXELS_PER_WHEEL_CLICK))
    if clicks < 1:
        raise ActionError(
            f"a scroll must be at least 1 click of the wheel, got {clicks!r}"
        )
    return Scroll(x, y, direction, clicks, by)
