"""VNCController: a Controller that sees one desktop and acts on it, over VNC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from typing_extensions import assert_never

from pytest_vnc_use.backends.input.devices import Keyboard, Pointer
from pytest_vnc_use.backends.input.spellings import scroll_of
from pytest_vnc_use.backends.input.typist import EFFECT, Writer
from pytest_vnc_use.backends.rfb.connection import RfbConnection
from pytest_vnc_use.backends.rfb.server_quirks import ServerQuirks
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.backends.screen.settle import SettleRules
from pytest_vnc_use.errors import ActionError, DesktopError, SettingsError
from pytest_vnc_use.keyboard.keystrokes import ADDRESS_BAR, ENTER, Means
from pytest_vnc_use.keyboard.keysyms import parse_combo, parse_key
from pytest_vnc_use.types import (
    HISTORY_KEYS,
    Button,
    DesktopAction,
    Direction,
    EncodingChoice,
    Frame,
    Glance,
    ScrollMeans,
    Settled,
    TypingMeans,
    actions as act,
    button_of,
)
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.wire import Wire

_ANSWER_S = 10.0


class VNCController:
    """A Controller for one desktop: it takes frames and carries out actions. For one thread at a time.

    Without a connection, call `connect` first: `VNCController().connect("localhost::5901", password)`.
    """

    def __init__(
        self,
        connection: RfbConnection | None = None,
        settle_rules: SettleRules = SettleRules(),  # noqa: B008  # frozen
        scroll_by: ScrollMeans = "wheel",
        type_by: TypingMeans = "keys",
        *,
        encoding: EncodingChoice = "auto",
        show_pointer: bool = False,
    ) -> None:
        """Raise SettingsError if the server has no clipboard to type by."""
        self._rules, self._show_pointer = settle_rules, show_pointer
        self._scroll_by, self._type_by, self._encoding = scroll_by, type_by, encoding
        if connection is not None:
            self._attach(connection)

    def connect(
        self,
        server: str,
        password: str | None = None,
        *,
        timeout_s: float = 10.0,
        wire: Wire = Wire(),  # noqa: B008  # frozen
        tap: MessageTap | None = None,
    ) -> VNCController:
        """Connect as `vnc.connect` does, after the end of an earlier connection; return this controller."""
        self.close()
        connection = RfbConnection(server, password, timeout_s, encoding=self._encoding, wire=wire, tap=tap)
        try:
            self._attach(connection)
        except SettingsError:
            connection.drop()
            raise
        return self

    def _attach(self, connection: RfbConnection) -> None:
        self._quirks = connection.quirks if self._type_by == "keys" else connection.quirks.pasting()
        self._connection = connection
        self._screen = connection.framebuffer
        self._pointer = Pointer(connection)
        self._keyboard = Keyboard(connection, self._quirks)
        self._writer = Writer(connection, self._keyboard, self._quirks)
        self._name = connection.name
        self._has_wheel, self._clicked = self._scroll_by == "wheel" and self._quirks.wheel, False
        self._screen.mark_connected()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in ("_quirks", "_connection", "_screen", "_pointer", "_keyboard", "_writer"):
                raise DesktopError("the controller is not connected: call connect(server, password) first")
            raise AttributeError(f"a VNCController has no {name!r}")

    # --- the screen ---

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen now, in pixels."""
        return self._screen.size

    @property
    def server(self) -> str:
        """The address of the server, without its query."""
        return self._connection.server

    @property
    def name(self) -> str:
        """The name that the server gives its desktop."""
        return self._name

    @property
    def exposure(self) -> str:
        """Return what others on the network can read of this connection; "" if it is protected."""
        if self._connection.protection:
            return ""
        guess = ", and can guess the VNC password offline (its check is DES)" if self._connection.has_password else ""
        return f"others on the network can read every key that is typed and every picture{guess}"

    @property
    def quirks(self) -> ServerQuirks:
        """The input that the server is known to support; as a string it is in words."""
        return self._quirks

    @property
    def means(self) -> Means:
        """Return how actions become input here, for code that checks an action before it is carried out."""
        return replace(self._quirks, wheel=self._has_wheel)

    @property
    def doubles_only_near(self) -> bool:
        """Return whether no program there takes two clicks at different places for a double click."""
        return self._quirks.doubles_only_near

    @property
    def screen(self) -> Framebuffer:
        """The live pixels, for code that shows them."""
        return self._screen

    @property
    def changed_at(self) -> float:
        """The moment when a pixel last changed, on the monotonic clock."""
        return self._screen.changed_at

    def last_frame(self) -> Frame:
        """Return the screen as it was last seen, even if the connection is lost."""
        return self._screen.last_capture().frame()

    def only_colour(self, timeout_s: float) -> str:
        """Return the one colour (`#000000`) that the screen keeps for `timeout_s`; "" if it has several."""
        return self._screen.only_colour(timeout_s)

    def refresh(self) -> None:
        """Have the whole screen sent anew, even if the server says that nothing changed. Raises ConnectionLost."""
        self._connection.refresh(_ANSWER_S)

    def frame(self) -> Frame:
        """Return the screen as it is now, not before. Raises ConnectionLost if the server is silent."""
        self._connection.round_trip(_ANSWER_S)
        return self._connection.capture(_ANSWER_S).frame(pointer=self._show_pointer)

    def screenshot_png(self) -> bytes:
        """Return the screen as it is now, as PNG (8-bit RGB)."""
        return self.frame().png

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen has answered the last action and is quiet. Raises DesktopError.

        `briefly` asks for a shorter wait, which is enough if the caller continues to watch the screen.
        """
        self._clicked = False
        return self._screen.wait_settled(self._rules.shortened() if briefly else self._rules)

    def changed_since(self, moment: float) -> bool:
        """Return whether a pixel changed after `moment`, outside moving regions. Raises DesktopError."""
        return self._screen.changed_since(moment)

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until `changed_since` is true; return whether it is. Raises DesktopError."""
        return self._screen.wait_changed(moment, timeout_s)

    def glance(self) -> Glance:
        """Return the pixels of the screen now, without taking a frame. Raises ConnectionLost."""
        self._connection.round_trip(_ANSWER_S)
        return self._screen.glance(pointer=self._show_pointer)

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the frames since the last call that stayed for 0.2 s or longer, and went, oldest first."""
        return tuple(capture.frame() for capture in self._screen.transients())

    # --- the pointer ---

    @property
    def holding(self) -> bool:
        """Return whether keys or buttons are held down."""
        return bool(self._keyboard.held) or self._pointer.holding

    def move(self, x: int, y: int) -> None:
        """Move the pointer to a point."""
        with self._acting():
            self._pointer.move(x, y)

    def click(self, x: int, y: int, button: Button | int = "left", count: int = 1) -> None:
        """Move to a point, then press and release `button`, or the one of that number, `count` (1 to 3) times."""
        if count not in (1, 2, 3):
            raise ActionError(f"the count of a click must be 1 to 3, got {count!r}")
        pressed = button_of(button)
        with self._acting(clicks=True):
            self._pointer.move(x, y)
            self._pointer.click(pressed, count)

    def double_click(self, x: int, y: int) -> None:
        """Click the left button twice."""
        self.click(x, y, count=2)

    def triple_click(self, x: int, y: int) -> None:
        """Click the left button three times."""
        self.click(x, y, count=3)

    def mouse_down(self, x: int, y: int, button: Button | int = "left") -> None:
        """Move to a point, then press `button` and keep it pressed."""
        with self._acting(clicks=True):
            self._pointer.move(x, y)
            self._pointer.press(button_of(button))
            self._pointer.pause()

    def mouse_up(self, x: int, y: int, button: Button | int = "left") -> None:
        """Move to a point, then release `button`."""
        with self._acting(clicks=True):
            self._pointer.move(x, y)
            self._pointer.release(button_of(button))

    def drag_and_drop(self, x: int, y: int, to_x: int, to_y: int) -> None:
        """Press the left button at a point, move to another point by points between them, and release it."""
        with self._acting(clicks=True):
            self._pointer.check(to_x, to_y)
            self._pointer.move(x, y)
            self._pointer.drag_to(to_x, to_y)

    def scroll(
        self,
        x: int | Direction | None = None,
        y: int | None = None,
        direction: Direction | None = None,
        clicks: int = 3,
        by: ScrollMeans = "wheel",
        *,
        magnitude: int | None = None,
    ) -> None:
        """Scroll `clicks` notches at a point; keys scroll whatever has the focus.

        By keys, five notches up or down are a page, and a notch left or right is three arrows. Where the server has no
        wheel (Qt's own), keys are used in any case. `scroll("down", magnitude=800)` scrolls in the middle of the
        screen, a notch for 100 pixels.
        """
        scroll = scroll_of(x, y, direction, clicks, by, magnitude, self.size)
        with self._acting():
            self._pointer.move(scroll.x, scroll.y)
            if by == "wheel" and self._has_wheel:
                self._pointer.turn_wheel(scroll.direction, scroll.clicks)
            else:
                self._keyboard.scroll(scroll.direction, scroll.clicks)

    # --- the keyboard ---

    def key_combo(self, keys: str | Sequence[str]) -> None:
        """Press keys together: `"control+a"`, `["ctrl", "a"]`, `"F5"`, `"+"`. Raises ActionError.

        A lone character beyond ASCII is typed as text, because servers lose such keys.
        """
        chord = parse_combo(keys, held=self._keyboard.held)
        if chord.text and not self._keyboard.held:
            self.type_text(chord.text)
            return
        possible = self._quirks.chord(chord)
        with self._typing(enters=chord.enters):
            self._keyboard.strike(possible)

    def key_down(self, key: str) -> None:
        """Press one key and keep it pressed."""
        keysym = self._quirks.keysym(parse_key(key))
        with self._typing():
            self._keyboard.press(keysym)

    def key_up(self, key: str) -> None:
        """Release one key."""
        keysym = self._quirks.keysym(parse_key(key))
        with self._typing():
            self._keyboard.release(keysym)

    def type_text(self, text: str, press_enter: bool = False, clear_first: bool = False) -> None:
        """Type at the focus; line feeds and tabs go as their keys.

        Raises ActionError, and types nothing, if the server cannot take a character.
        """
        pieces = self._writer.plan(text)
        with self._typing(enters=press_enter or text.endswith(("\n", "\r"))):
            if clear_first:
                self._writer.clear(to_be_replaced=bool(text))
            with self._connection.outgoing.typing(text):
                self._writer.write(pieces)
            if press_enter:
                self._keyboard.strike(ENTER)

    def open_address(self, address: str) -> None:
        """Open an address in the focused browser: ctrl+l, the address, enter."""
        self._writer.plan(address)
        self.key_combo(ADDRESS_BAR)
        self._screen.wait_settled(EFFECT)
        self.type_text(address, press_enter=True)

    # --- the protocol Controller ---

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError if it cannot be done, DesktopError if the desktop is gone."""
        match action:
            case act.Click(x, y, button, count):
                self.click(x, y, button, count)
            case act.MouseDown(x, y, button):
                self.mouse_down(x, y, button)
            case act.MouseUp(x, y, button):
                self.mouse_up(x, y, button)
            case act.Move(x, y):
                self.move(x, y)
            case act.Drag(x, y, to_x, to_y):
                self.drag_and_drop(x, y, to_x, to_y)
            case act.Scroll(x, y, direction, clicks, by):
                self.scroll(x, y, direction, clicks, by)
            case act.TypeText():
                self._type_at(action)
            case act.KeyCombo(keys):
                self.key_combo(keys)
            case act.KeyDown(key):
                self.key_down(key)
            case act.KeyUp(key):
                self.key_up(key)
            case act.OpenAddress(in_new_window=True):
                raise ActionError("only DevTools can open a new window: set vnc_cdp")
            case act.OpenAddress(address):
                self.open_address(address)
            case act.TraverseHistory(direction):
                self.key_combo(HISTORY_KEYS[direction])
            case act.Wait(duration_s):
                self.wait(duration_s)
            case act.TakeScreenshot():
                self._screen.raise_if_lost()
            case _:
                assert_never(action)

    def wait(self, duration_s: float) -> None:
        """Let time pass. Raises ConnectionLost as soon as the desktop is gone."""
        if not 0 <= duration_s < math.inf:
            raise ActionError(f"a wait must be 0 seconds or more, got {duration_s!r}")
        self._screen.mark_began()
        try:
            self._screen.pause(duration_s)
        finally:
            self._screen.mark_waited()
            self._clicked = False

    def close(self) -> None:
        """Release all keys and buttons and end the connection; a second call does nothing."""
        if "_connection" not in vars(self):
            return
        self._keyboard.release_all()
        self._pointer.release_all()
        self._connection.close()

    def _type_at(self, action: act.TypeText) -> None:
        self._writer.plan(action.text)
        if action.x is not None and action.y is not None:
            self.click(action.x, action.y)
        self.type_text(action.text, action.press_enter, action.clear_first)

    @contextmanager
    def _acting(self, *, clicks: bool = False, enters: bool = False) -> Iterator[None]:
        self._screen.mark_began()
        try:
            yield
        finally:
            self._screen.mark_ended(clicked=self._pointer.at if clicks else None, entered=enters)
            self._clicked = clicks
        self._screen.raise_if_lost()

    @contextmanager
    def _typing(self, *, enters: bool = False) -> Iterator[None]:
        """Wait for the effect of a click before keys are sent: under some window managers keys overtake a click."""
        if self._clicked:
            self._screen.wait_settled(EFFECT)
        with self._acting(enters=enters):
            yield
