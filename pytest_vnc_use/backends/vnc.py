"""VNCController: eyes and hands on one desktop, over VNC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import assert_never

from pytest_vnc_use.backends.connection import Connection
from pytest_vnc_use.backends.hands import Keyboard, Pointer
from pytest_vnc_use.backends.keys import (
    BACKSPACE,
    CONTROL,
    INSERT,
    LEFT,
    PAGE_DOWN,
    PAGE_UP,
    RETURN,
    RIGHT,
    SHIFT,
    Chord,
    chord_of,
    parse_combo,
    parse_key,
)
from pytest_vnc_use.backends.png import encode_frame
from pytest_vnc_use.backends.settle import SettleRules
from pytest_vnc_use.backends.text_input import Pasted, Piece, Typed, plan_text
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types import (
    Button,
    Click,
    DesktopAction,
    Direction,
    Drag,
    Frame,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    ScrollMeans,
    Settled,
    TakeScreenshot,
    TypeText,
    Wait,
)

_ANSWER_S = 10.0
_FETCH_S = 2.0
_EFFECT = SettleRules(first_change_s=0.3, quiet_s=0.1, limit_s=2.0)
"""The wait between a click and the keys after it, which would overtake it."""
_PASTED = SettleRules(first_change_s=4.0, quiet_s=0.1, limit_s=5.0)
"""The wait between a paste and the keys after it; chromium now and then takes 3 s to show what it fetched at once."""
_NOTCHES_A_PAGE = 5
_ARROWS_A_NOTCH = 3


def connect(
    server: str,
    password: str | None = None,
    *,
    timeout_s: float = 10.0,
    settle_rules: SettleRules = SettleRules(),  # noqa: B008  # frozen
    scroll_by: ScrollMeans = "wheel",
) -> VNCController:
    """Connect to a VNC server and wait for its first whole frame.

    `server` is `host::port`, `host:display`, `[IPv6]::port`, or the path of a unix socket. With `scroll_by="keys"`
    every scroll is done by page and arrow keys. Raises DesktopRefused or AuthenticationFailed within `timeout_s`,
    SettingsError where an argument makes no sense.
    """
    return VNCController(Connection(server, password, timeout_s), settle_rules, scroll_by)


class VNCController:
    """Eyes and hands on one desktop; implements the port Controller. For one thread at a time."""

    def __init__(self, connection: Connection, settle_rules: SettleRules, scroll_by: ScrollMeans = "wheel") -> None:
        self._connection = connection
        self._screen = connection.framebuffer
        self._pointer = Pointer(connection)
        self._keyboard = Keyboard(connection)
        self._abilities = connection.abilities
        self._rules = settle_rules
        self._has_wheel = scroll_by == "wheel" and self._abilities.wheel
        self._clicked = False

    # --- eyes ---

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen now, in pixels."""
        return self._screen.size

    def frame(self) -> Frame:
        """The screen now, not before; the pointer is not in it. Raises ConnectionLost where the server is silent."""
        self._connection.round_trip(_ANSWER_S)
        return encode_frame(self._connection.pixels(_ANSWER_S))

    def screenshot_png(self) -> bytes:
        """The screen now, as PNG (8-bit RGB)."""
        return self.frame().png

    def settle(self) -> Settled:
        """Wait until the screen has answered the last action and is quiet. Raises DesktopError."""
        self._clicked = False
        return self._screen.wait_settled(self._rules)

    # --- hands: the pointer ---

    def move(self, x: int, y: int) -> None:
        """Move the pointer."""
        with self._acting():
            self._pointer.move(x, y)

    def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> None:
        """Move to a point, then press and release `button` there, `count` (1 to 3) times."""
        if count not in (1, 2, 3):
            raise ActionError(f"a click is single, double or triple: count 1 to 3, got {count!r}")
        with self._acting(clicks=True):
            self._pointer.move(x, y)
            self._pointer.click(button, count)

    def double_click(self, x: int, y: int) -> None:
        """Click the left button twice."""
        self.click(x, y, count=2)

    def triple_click(self, x: int, y: int) -> None:
        """Click the left button three times."""
        self.click(x, y, count=3)

    def mouse_down(self, x: int, y: int, button: Button = "left") -> None:
        """Move to a point, then press `button` and keep it pressed."""
        with self._acting(clicks=True):
            self._pointer.move(x, y)
            self._pointer.press(button)
            self._pointer.pause()

    def mouse_up(self, x: int, y: int, button: Button = "left") -> None:
        """Move to a point, then release `button`."""
        with self._acting(clicks=True):
            self._pointer.move(x, y)
            self._pointer.release(button)

    def drag_and_drop(self, x: int, y: int, to_x: int, to_y: int) -> None:
        """Press the left button at a point, move to another by way of points between, release."""
        with self._acting(clicks=True):
            self._pointer.check(to_x, to_y)
            self._pointer.move(x, y)
            self._pointer.drag_to(to_x, to_y)

    def scroll(self, x: int, y: int, direction: Direction, clicks: int = 3, by: ScrollMeans = "wheel") -> None:
        """Scroll `clicks` notches at a point; by keys it is what has the focus that scrolls.

        By keys, five notches up or down are a page, and a notch left or right is three arrows. Where the server has no
        wheel (Qt's own), keys are the way in any case.
        """
        if clicks < 1:
            raise ActionError(f"scrolling takes at least 1 click of the wheel, got {clicks!r}")
        with self._acting():
            self._pointer.move(x, y)
            if by == "wheel" and self._has_wheel:
                self._pointer.turn_wheel(direction, clicks)
            else:
                self._scroll_by_keys(direction, clicks)

    def _scroll_by_keys(self, direction: Direction, clicks: int) -> None:
        match direction:
            case "up" | "down":
                key, times = PAGE_UP if direction == "up" else PAGE_DOWN, math.ceil(clicks / _NOTCHES_A_PAGE)
            case "left" | "right":
                key, times = LEFT if direction == "left" else RIGHT, clicks * _ARROWS_A_NOTCH
            case _:
                assert_never(direction)
        for _ in range(times):
            self._keyboard.strike(Chord((key,)))

    # --- hands: the keyboard ---

    def key_combo(self, keys: str | Sequence[str]) -> None:
        """Press keys together: `"control+a"`, `["ctrl", "a"]`, `"F5"`, `"+"`. Raises ActionError."""
        chord = self._abilities.chord(parse_combo(keys, held=self._keyboard.held))
        with self._typing():
            self._keyboard.strike(chord)

    def key_down(self, key: str) -> None:
        """Press one key and keep it pressed."""
        keysym = self._abilities.keysym(parse_key(key))
        with self._typing():
            self._keyboard.press(keysym)

    def key_up(self, key: str) -> None:
        """Release one key."""
        keysym = self._abilities.keysym(parse_key(key))
        with self._typing():
            self._keyboard.release(keysym)

    def type_text(self, text: str, press_enter: bool = False, clear_first: bool = False) -> None:
        """Type at the focus; line feeds and tabs are their keys.

        Raises ActionError, and types nothing, where the server cannot take a character.
        """
        pieces = self._plan(text)
        with self._typing():
            if clear_first:
                self._clear(to_be_replaced=bool(text))
            for piece in pieces:
                self._put(piece)
            if press_enter:
                self._keyboard.strike(Chord((RETURN,)))

    def open_address(self, address: str) -> None:
        """In the focused browser: ctrl+l, the address, enter."""
        self._plan(address)
        self.key_combo("ctrl+l")
        self._screen.wait_settled(_EFFECT)
        self.type_text(address, press_enter=True)

    def _plan(self, text: str) -> tuple[Piece, ...]:
        return plan_text(text, self._abilities.text)

    def _clear(self, *, to_be_replaced: bool) -> None:
        self._screen.mark_began()
        self._keyboard.strike(Chord((CONTROL, ord("a"))))
        if not to_be_replaced:
            self._keyboard.strike(Chord((BACKSPACE,)))
        self._screen.wait_settled(_EFFECT)

    def _put(self, piece: Piece) -> None:
        match piece:
            case Typed(text):
                for character in text:
                    self._keyboard.strike(chord_of(character))
            case Pasted(text):
                self._paste(text)
            case _:
                assert_never(piece)

    def _paste(self, text: str) -> None:
        protocol = self._connection.protocol
        before = protocol.fetched_texts
        self._connection.send(protocol.offer_text, text)
        self._screen.mark_began()
        self._keyboard.strike(Chord((SHIFT, INSERT)))
        if not self._screen.wait_until(lambda: protocol.fetched_texts > before, _FETCH_S):
            raise ActionError(
                f"no program fetched the text from the clipboard within {_FETCH_S} s after shift+insert; "
                "is a text field focused?"
            )
        self._screen.wait_settled(_PASTED)

    # --- the port ---

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError where it cannot be done, DesktopError where the desktop is gone."""
        match action:
            case Click(x, y, button, count):
                self.click(x, y, button, count)
            case MouseDown(x, y, button):
                self.mouse_down(x, y, button)
            case MouseUp(x, y, button):
                self.mouse_up(x, y, button)
            case Move(x, y):
                self.move(x, y)
            case Drag(x, y, to_x, to_y):
                self.drag_and_drop(x, y, to_x, to_y)
            case Scroll(x, y, direction, clicks, by):
                self.scroll(x, y, direction, clicks, by)
            case TypeText():
                self._type_at(action)
            case KeyCombo(keys):
                self.key_combo(keys)
            case KeyDown(key):
                self.key_down(key)
            case KeyUp(key):
                self.key_up(key)
            case OpenAddress(address):
                self.open_address(address)
            case Wait(duration_s):
                self.wait(duration_s)
            case TakeScreenshot():
                self._screen.raise_if_lost()
            case _:
                assert_never(action)

    def wait(self, duration_s: float) -> None:
        """Let time pass. Raises ConnectionLost as soon as the desktop is gone."""
        if not 0 <= duration_s < math.inf:
            raise ActionError(f"a wait takes 0 seconds or more, got {duration_s!r}")
        with self._acting():
            self._screen.pause(duration_s)

    def close(self) -> None:
        """Let go of all keys and buttons and end the connection; a second call does nothing."""
        self._keyboard.release_all()
        self._pointer.release_all()
        self._connection.close()

    def _type_at(self, action: TypeText) -> None:
        self._plan(action.text)
        if action.x is not None and action.y is not None:
            self.click(action.x, action.y)
        self.type_text(action.text, action.press_enter, action.clear_first)

    @contextmanager
    def _acting(self, *, clicks: bool = False) -> Iterator[None]:
        self._screen.mark_began()
        try:
            yield
        finally:
            self._screen.mark_ended()
            self._clicked = clicks
        self._screen.raise_if_lost()

    @contextmanager
    def _typing(self) -> Iterator[None]:
        """Keys overtake a click under some window managers: its effect is awaited before they are sent."""
        if self._clicked:
            self._screen.wait_settled(_EFFECT)
        with self._acting():
            yield
