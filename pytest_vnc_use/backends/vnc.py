"""VNCController: it reads one screen and acts on it over VNC. `connect` makes one."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from typing_extensions import assert_never

from pytest_vnc_use import clock
from pytest_vnc_use.backends.client import EncodingChoice
from pytest_vnc_use.backends.input import (
    ADDRESS_BAR,
    EFFECT,
    ENTER,
    FOCUSED,
    PASTE,
    Keyboard,
    Pointer,
    scroll_chords,
    scroll_of,
)
from pytest_vnc_use.backends.quirks import ServerQuirks, Typed, plan_text
from pytest_vnc_use.backends.rfb_connection import RfbConnection
from pytest_vnc_use.backends.screen import Framebuffer, NewestImage, SettleRules
from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    ActionError,
    ActionInterrupted,
    CommandRefused,
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    ScreenBlank,
    ScreenFrozen,
    SettingsError,
)
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.types import (
    HISTORY_KEYS,
    Button,
    DesktopAction,
    Direction,
    Frame,
    RawFrame,
    ScrollMeans,
    Settled,
    TypingMeans,
    actions as act,
    button_of,
)
from pytest_vnc_use.types.keys import parse_combo, parse_key
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.wire import Wire

if TYPE_CHECKING:
    from pytest_vnc_use.backends.browser import Browser

_UNANSWERED_ACTIONS = 3
"""The number of actions without a changed pixel after which a screen may be frozen."""
_RETRY_DELAY_S = 0.1
_MIN_ATTEMPT_S = 1.0
_AHEAD = 0.5
"""The share of the wait for a stable screen after which the screen is encoded."""

T = TypeVar("T")


@dataclass(frozen=True)
class Watch:
    """How a controller survives one lost connection, and which failures of a desktop it
    reports as DesktopError.

    A lost connection is reopened once, within `reconnect_s`. The new one is used only
    if it leads to the same desktop with the same screen. No action is performed twice.
    A screen of one single colour has `blank_s` to change; None sets no limit. If no
    pixel has changed for `frozen_s`, although at least three visible actions were
    performed, the screen is fetched again; if it is still the same, it is frozen. A
    screen may change its size.

    Once the program under test has ended (`program_exit_reason`), no failure of the
    desktop is raised: the screen may be blank because of that, or the program may have
    been the server.
    """

    blank_s: float | None
    frozen_s: float = 60.0
    reconnect_s: float = 10.0
    program_exit_reason: Callable[[], str] = str


def connect(
    server: str,
    password: str | None = None,
    *,
    timeout_s: float = 10.0,
    settle_rules: SettleRules = SettleRules(),  # noqa: B008  # frozen
    scroll_by: ScrollMeans = "wheel",
    type_by: TypingMeans = "keys",
    encoding: EncodingChoice | None = None,
    show_pointer: bool = False,
    wire: Wire = Wire(),  # noqa: B008  # frozen
    tap: MessageTap | None = None,
    facts: ServerFacts | None = None,
    watch: Watch | None = None,
    browser: Callable[..., Browser] | None = None,
) -> VNCController:
    """Connect to a VNC server and wait for its first whole frame.

    Args:
        server: `host::port`, `host:display`, `[IPv6]::port`, `vnc://host:port`,
            `ws://…`, `wss://…`, or the path of a unix socket. As in TigerVNC's viewer,
            a number of 100 or more behind one colon is a port.
        password: the server's password; None if it asks for none.
        timeout_s: the maximum time until the first frame, in seconds.
        settle_rules: when the screen counts as stable after an action.
        scroll_by: `wheel`, or `keys` for page and arrow keys.
        type_by: `keys`, with which only text that no key makes is pasted, or
            `clipboard`, with which all text is.
        encoding: how pixels travel. The default is `raw` through a unix socket and
            `tight` (without loss) elsewhere; a screen of more than 24 MiB is never raw.
        show_pointer: draw the pointer into frames, at its last position, in the
            server's shape.
        wire: how the connection is protected.
        tap: gets each message that is sent.
        facts: gets what the server reports about itself, even if the connection then
            fails.
        watch: how failures of the desktop are noticed, and a lost connection survived.
        browser: returns the browser when a URL is opened; without it, the keyboard
            opens URLs.

    Raises:
        DesktopRefused: no frame within `timeout_s`.
        AuthenticationFailed: the password is missing or wrong.
        SettingsError: an argument is invalid.
    """
    controller = VNCController(
        settle_rules,
        scroll_by,
        type_by,
        encoding=encoding,
        show_pointer=show_pointer,
        watch=watch,
        browser=browser,
    )
    return controller.connect(
        server, password, timeout_s=timeout_s, wire=wire, tap=tap, facts=facts
    )


class VNCController:
    """The Controller of one desktop: it takes frames and performs actions, for one
    thread at a time.

    Without a connection, call `connect` first:
    `VNCController().connect("localhost::5901", password)`.
    """

    def __init__(
        self,
        settle_rules: SettleRules = SettleRules(),  # noqa: B008  # frozen
        scroll_by: ScrollMeans = "wheel",
        type_by: TypingMeans = "keys",
        *,
        encoding: EncodingChoice | None = None,
        show_pointer: bool = False,
        watch: Watch | None = None,
        browser: Callable[..., Browser] | None = None,
    ) -> None:
        """Take the arguments of `connect` in this module."""
        self._rules = settle_rules
        self._show_pointer = show_pointer
        self._scroll_by = scroll_by
        self._type_by = type_by
        self._encoding = encoding
        self._watch = watch
        self._browser = browser
        self._newest = NewestImage()
        self._unanswered: list[float] = []
        """The times of visible actions after which no pixel has changed yet."""
        self._is_emptied = False
        """Whether an action left the browser on an empty page, which may be all that
        the screen shows.
        """
        self._unconfirmed_action = ""
        self._reconnected = False
        self._closed = threading.Event()
        self._closing = threading.Lock()

    def connect(
        self,
        server: str,
        password: str | None = None,
        *,
        timeout_s: float = 10.0,
        wire: Wire = Wire(),  # noqa: B008  # frozen
        tap: MessageTap | None = None,
        facts: ServerFacts | None = None,
    ) -> VNCController:
        """Close an earlier connection, connect as `connect` in this module does, and
        return this controller.

        Raises SettingsError if all text should be pasted, but the server has no
        clipboard for that.
        """
        self.close()
        self._closed.clear()
        self._dial = partial(
            RfbConnection,
            server,
            password,
            encoding=self._encoding,
            wire=wire,
            tap=tap,
            facts=facts,
        )
        return self.attach(self._dial(timeout_s))

    def attach(self, connection: RfbConnection) -> VNCController:
        """Use this connection from now on; return this controller."""
        self._quirks = connection.quirks
        if self._type_by == "clipboard" and not self._quirks.has_clipboard:
            connection.drop()
            raise SettingsError(
                "this VNC server has no extended clipboard (TigerVNC has one). Set"
                " vnc_typing=keys"
            )
        if self._type_by == "clipboard":
            self._quirks = replace(self._quirks, text="clipboard only")
        self._connection = connection
        self._screen = connection.framebuffer
        self._pointer = Pointer(connection)
        self._keyboard = Keyboard(connection, self._quirks)
        self._has_wheel = self._scroll_by == "wheel" and self._quirks.wheel
        self._clicked = False
        self._screen.mark_connected()
        self._last_size = self.size
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in ("_quirks", "_connection", "_screen", "_pointer", "_keyboard"):
                raise DesktopError(
                    "the controller is not connected. Call connect(server, password)"
                    " first"
                )
            raise AttributeError(f"a VNCController has no {name!r}")

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
        return self._connection.facts.name

    @property
    def exposure(self) -> str:
        """What other users of the network can read of this connection; "" if it is
        protected.
        """
        return self._connection.exposure

    @property
    def quirks(self) -> ServerQuirks:
        """The input that the server is known to support; as a string it is readable
        text.
        """
        return self._quirks

    @property
    def doubles_only_near(self) -> bool:
        """Whether two clicks at different points never count as a double click."""
        return self._quirks.doubles_only_near

    @property
    def screen(self) -> Framebuffer:
        """The live pixels, for code that shows them."""
        return self._screen

    def page_url(self) -> str:
        """Return the URL of the page that the browser shows; "" if there is no browser,
        or it does not answer.
        """
        try:
            return self._browser(wait_s=0).url if self._browser else ""
        except (DesktopError, SettingsError):
            return ""

    def refresh(self) -> None:
        """Fetch the whole screen again, even if the server reports no change. Raises
        ConnectionLost.
        """
        self._connection.refresh()

    def rest(self) -> None:
        """Keep the connection open, but ask for no changes until `refresh`. Raises
        DesktopError if it has ended.
        """
        self._connection.rest()

    def frame(self) -> Frame:
        """Return the screen as it is at the time of this call. Raises DesktopError,
        ActionInterrupted.
        """
        frame = self._surviving(self._frame)
        self._unconfirmed_action = ""
        return frame

    def _frame(self) -> Frame:
        if self._watch:
            self._check_not_blank(self._watch)
            self._check_not_frozen(self._watch)
        self._connection.round_trip()
        frame = self._screen.last_capture().frame(
            pointer=self._show_pointer, encode=self._newest.encode
        )
        self._last_size = frame.ref.width, frame.ref.height
        return frame

    def _check_not_blank(self, watch: Watch) -> None:
        """Raise ScreenBlank if a screen of one colour stays so, unless the program
        under test has ended.
        """
        if watch.blank_s is None or self._is_emptied:
            return
        if not self._screen.only_colour(0.0) or watch.program_exit_reason():
            return
        colour = self._screen.only_colour(watch.blank_s)
        if colour and not watch.program_exit_reason():
            raise ScreenBlank(
                f"the screen of {self._connection.server!r} has had only one colour"
                f" ({colour}) for {watch.blank_s:g} s. Start a program on it before the"
                " run, by --vnc-app or by app in the task's file, or wait longer with"
                " vnc_start_seconds"
            )

    def _check_not_frozen(self, watch: Watch) -> None:
        """Raise ScreenFrozen if no action changes a pixel, even after the whole screen
        was fetched, unless the program under test has ended.
        """
        if not self._may_be_frozen(watch):
            return
        self._connection.refresh()
        if self._may_be_frozen(watch):
            still_s = clock.monotonic() - self._unanswered[0]
            raise ScreenFrozen(
                f"the screen of {self._connection.server!r} is frozen. No pixel changed"
                f" for {still_s:.0f} s, although {len(self._unanswered)} actions were"
                " performed. The server answers, so the program may hang, or the server"
                " may be read-only"
            )

    def _may_be_frozen(self, watch: Watch) -> bool:
        changed_at = self._screen.changed_at
        self._unanswered = [
            started_s for started_s in self._unanswered if started_s > changed_at
        ]
        if len(self._unanswered) < _UNANSWERED_ACTIONS:
            return False
        if clock.monotonic() - self._unanswered[0] < watch.frozen_s:
            return False
        return not watch.program_exit_reason()

    def last_frame(self) -> Frame:
        """Return the screen as it was last seen, even if the connection is lost. Raises
        DesktopError after `close`.
        """
        return self._screen.last_capture().frame()

    def screenshot_png(self) -> bytes:
        """Return the screen as it is now, as PNG (8-bit RGB)."""
        return self.frame().png

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen has answered the last action and is stable. Raises
        DesktopError, ActionInterrupted.

        `briefly` asks for a shorter wait, which is enough if the caller continues to
        watch the screen.
        """
        self._clicked = False
        rules = self._rules.shortened() if briefly else self._rules
        return self._surviving(lambda: self._settle(rules))

    def _settle(self, rules: SettleRules) -> Settled:
        """Wait until the screen is settled. It is encoded ahead, as it rarely changes
        in the rest of the wait.
        """
        deadline = Deadline(rules.limit_s)
        self._screen.wait_settled(replace(rules, stable_s=_AHEAD * rules.stable_s))
        self._newest.encode(self._screen.pixels(pointer=self._show_pointer))
        settled = self._screen.wait_settled(
            replace(rules, limit_s=deadline.remaining_s)
        )
        return replace(settled, duration_s=deadline.spent_s)

    def changed_since(self, timestamp: float) -> bool:
        """Return whether a pixel outside moving regions has changed after `timestamp`,
        a time on the monotonic clock. Raises DesktopError.
        """
        return self._surviving(lambda: self._screen.changed_since(timestamp))

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until `changed_since` is true; return whether it is.
        Raises DesktopError.
        """
        return self._surviving(lambda: self._screen.wait_changed(timestamp, timeout_s))

    def raw_frame(self) -> RawFrame:
        """Return the pixels of the screen now, without taking a frame. Raises
        DesktopError.
        """

        def read_screen() -> RawFrame:
            self._connection.round_trip()
            return self._screen.raw_frame(pointer=self._show_pointer)

        return self._surviving(read_screen)

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the frames since the last call that were shown for at least 0.2 s and
        then replaced, oldest first.
        """
        return tuple(capture.frame() for capture in self._screen.transients())

    def move(self, x: int, y: int) -> None:
        """Move the pointer to a point."""
        with self._acting():
            self._pointer.move(x, y)

    def click(
        self, x: int, y: int, button: Button | int = "left", count: int = 1
    ) -> None:
        """Move to a point, then press and release `button` (its name or number) `count`
        times, 1 to 3.
        """
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

    def drag_and_drop(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """Press the left button at one point, move to another over points between them,
        and release it.
        """
        with self._acting(clicks=True):
            self._pointer.check(x1, y1)
            self._pointer.move(x0, y0)
            self._pointer.drag_to(x1, y1)

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
        """Scroll `clicks` wheel clicks at a point, by the wheel or by keys.

        Keys scroll whatever has the focus: five clicks up or down are a page, and one
        click left or right is three arrows. They are always used if the server has no
        wheel (Qt's). `scroll("down", magnitude=800)` scrolls in the middle of the
        screen, one click for 100 pixels.
        """
        scroll = scroll_of(x, y, direction, clicks, by, magnitude, self.size)
        with self._acting():
            self._pointer.move(scroll.x, scroll.y)
            if by == "wheel" and self._has_wheel:
                self._pointer.turn_wheel(scroll.direction, scroll.clicks)
            else:
                self._keyboard.strike(*scroll_chords(scroll.direction, scroll.clicks))

    def key_combo(self, keys: str | Sequence[str]) -> None:
        """Press keys together: `"control+a"`, `["ctrl", "a"]`, `"F5"`, `"+"`. Raises
        ActionError.

        A lone character beyond ASCII is typed as text, because servers lose such keys.
        """
        chord = parse_combo(keys, held=self._keyboard.held)
        if chord.text and not self._keyboard.held:
            self.type_text(chord.text)
            return
        possible = self._quirks.chord(chord)
        with self._acting(types=True, enters=chord.enters):
            self._keyboard.strike(possible)

    def key_down(self, key: str) -> None:
        """Press one key and keep it pressed."""
        keysym = self._quirks.keysym(parse_key(key))
        with self._acting(types=True):
            self._keyboard.press(keysym)

    def key_up(self, key: str) -> None:
        """Release a key that `key_down` holds."""
        keysym = self._quirks.keysym(parse_key(key))
        with self._acting(types=True):
            self._keyboard.release(keysym)

    def type_text(
        self,
        text: str,
        press_enter: bool = False,
        clear_first: bool = False,
        *,
        paste: bool = False,
    ) -> None:
        """Type at the focus; line feeds and tabs go as their keys. `paste` is as in
        `TypeText`.

        Raises ActionError, and types nothing, if the server cannot take a character.
        """
        pieces = plan_text(text, self._quirks.text)
        pastes = bool(paste and text and self._quirks.has_clipboard)
        begins_typed = not pastes and bool(pieces) and isinstance(pieces[0], Typed)
        enters = press_enter or text.endswith(("\n", "\r"))
        with self._acting(types=True, enters=enters):
            if clear_first:
                self._keyboard.clear(to_be_replaced=begins_typed)
            with self._connection.outgoing.typing(text):
                if pastes:
                    self._keyboard.paste(text, PASTE)
                else:
                    self._keyboard.write(pieces)
            if press_enter:
                # GTK's file dialog looks for the name while it is typed, and loses an
                # Enter that follows at once
                if text:
                    self._screen.wait_settled(self._rules)
                    self._screen.mark_started()
                self._keyboard.strike(ENTER)

    def open_url(self, url: str) -> None:
        """Open a URL in the focused browser: ctrl+l, the URL, enter."""
        plan_text(url, self._quirks.text)
        self.key_combo(ADDRESS_BAR)
        self._screen.wait_settled(FOCUSED)
        self.type_text(url, press_enter=True)

    def perform(self, action: DesktopAction) -> None:
        """Perform one action, never twice.

        Raises ActionError if it cannot be done, DesktopError if the desktop is gone,
        ActionInterrupted if the connection was lost meanwhile and reopened.
        """
        self._surviving(lambda: self._screen.raise_if_lost())  # before anything is sent
        started_s = clock.monotonic()
        if not isinstance(action, (act.Wait, act.TakeScreenshot)):
            self._unconfirmed_action = type(action).__name__
        self._surviving(lambda: self._perform(action))
        if not isinstance(action, (act.Wait, act.TakeScreenshot, act.Move)):
            self._unanswered.append(started_s)

    def _perform(self, action: DesktopAction) -> None:
        if self._browses(action):
            return
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
            case act.TypeText(text):
                plan_text(text, self._quirks.text)
                if action.x is not None and action.y is not None:
                    self.click(action.x, action.y)
                self.type_text(
                    text, action.press_enter, action.clear_first, paste=action.paste
                )
            case act.KeyCombo(keys):
                self.key_combo(keys)
            case act.KeyDown(key):
                self.key_down(key)
            case act.KeyUp(key):
                self.key_up(key)
            case act.OpenUrl(url):
                self.open_url(url)
            case act.TraverseHistory(direction):
                self.key_combo(HISTORY_KEYS[direction])
            case act.Wait(duration_s):
                self.wait(duration_s)
            case act.TakeScreenshot():
                self._screen.raise_if_lost()
            case _:
                assert_never(action)

    def _browses(self, action: DesktopAction) -> bool:
        """Perform an action by DevTools; return whether that was possible. If it was
        not, such as for a URL without `https://`, the keyboard does it.

        If the browser does not answer, raises ActionError, which the planner gets.
        """
        if not self._browser or not isinstance(
            action, (act.OpenUrl, act.TraverseHistory)
        ):
            return False
        self.wait(0.0)  # later changes on the screen are the action's effect
        try:
            browser = self._browser()
            if isinstance(action, act.TraverseHistory):
                browser.traverse(action.direction)
            else:
                browser.navigate(action.url)
        except CommandRefused:
            return False
        except DesktopError as exc:
            raise ActionError(str(exc)) from exc
        self._is_emptied = action == act.OpenUrl(act.EMPTY_PAGE)
        return True

    def wait(self, duration_s: float) -> None:
        """Let time pass. Raises ConnectionLost as soon as the desktop is gone."""
        if not 0 <= duration_s < math.inf:
            raise ActionError(f"a wait must be 0 seconds or more, got {duration_s!r}")
        self._screen.mark_started()
        try:
            self._screen.pause(duration_s)
        finally:
            self._screen.mark_finished(only_waited=True)
            self._clicked = False

    def close(self) -> None:
        """Release all keys and buttons and end the connection; a second call does
        nothing.
        """
        with self._closing:
            self._closed.set()
        if "_connection" in vars(self):
            # a connection that has ended has nothing to release
            with suppress(DesktopError):
                self._keyboard.release_all()
                self._pointer.release_all()
            self._connection.close()
        self._newest.forget()

    @contextmanager
    def _acting(
        self, *, clicks: bool = False, types: bool = False, enters: bool = False
    ) -> Iterator[None]:
        if types and self._clicked:
            # under some window managers keys overtake a click
            self._screen.wait_settled(EFFECT)
        self._screen.mark_started()
        try:
            yield
        finally:
            self._screen.mark_finished(
                clicked=self._pointer.at if clicks else None, entered=enters
            )
            self._clicked = clicks
        self._screen.raise_if_lost()

    def _surviving(self, work: Callable[[], T]) -> T:
        """Return the result of `work`. If the connection is lost, reconnect and repeat
        it.

        It is not repeated if an action may or may not have taken effect: that raises
        ActionInterrupted.
        """
        try:
            return work()
        except ConnectionLost as lost:
            if not self._watch or self._closed.is_set():
                raise
            self._reconnect(self._watch, lost)
            if self._unconfirmed_action:
                action = self._unconfirmed_action
                self._unconfirmed_action = ""
                raise ActionInterrupted(
                    "the connection was lost before the desktop had answered a"
                    f" {action}. The watchdog reconnected, but it is unknown whether"
                    f" the {action} took effect. Check the screen, and repeat it if"
                    " needed"
                ) from lost
        return work()

    def _reconnect(self, watch: Watch, lost: ConnectionLost) -> None:
        """Replace the lost connection by a new one. Raises ConnectionLost if the run
        cannot continue.
        """
        if self._reconnected:
            raise type(lost)(
                f"{lost}; it was lost before, and the watchdog reconnects only once"
            ) from lost
        self._reconnected = True
        is_holding = bool(self._keyboard.held or self._pointer.pressed)
        name = self.name
        size = self._last_size
        before = self.last_frame()
        deadline = Deadline(watch.reconnect_s)
        connection: RfbConnection | None = None
        while not connection:
            if watch.program_exit_reason():
                raise lost
            try:
                connection = self._dial(max(deadline.remaining_s, _MIN_ATTEMPT_S))
            except DesktopError as exc:
                if not isinstance(exc, DesktopRefused) or not deadline.remaining_s:
                    problem = (
                        f"the watchdog could not reconnect within {watch.reconnect_s:g}"
                        f" s: {exc}"
                    )
                    raise type(lost)(f"{lost}; {problem}") from exc
                if self._closed.wait(_RETRY_DELAY_S):
                    raise lost from exc
        with self._closing:
            lost_connection = self._connection
            self.attach(connection)
            lost_connection.close()  # errors may keep it, and thereby its screen
            changed = "the run had closed the desktop" if self._closed.is_set() else ""
            if (self.name, self.size) != (name, size):
                now_w, now_h = self.size
                width, height = size
                changed = (
                    f"it is another desktop: {self.name!r}, {now_w}x{now_h}; it was"
                    f" {name!r}, {width}x{height}"
                )
            elif is_holding:
                changed = "the keys or buttons that were held down are up now"
            elif not same_screen(before.png, self.last_frame().png):
                changed = "it shows another screen than before"
            if changed:
                connection.close()
                raise ConnectionLost(
                    f"{lost}; the watchdog reconnected, but {changed}"
                ) from lost
