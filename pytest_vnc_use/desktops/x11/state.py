"""The state of an X server that a test can change, and the way to put it back.

Formats: X11 protocol, appendix B; its extensions XTEST 2.2 and RandR 1.0; EWMH 1.5 for the window manager.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.x11.display import XDisplay
from pytest_vnc_use.errors import DesktopError

Answers = Mapping[str, bytes]
Undo = Callable[[XDisplay, Answers, Answers], None]

_CHANGE_WINDOW_ATTRIBUTES, _GET_GEOMETRY, _GET_ATOM_NAME, _DELETE_PROPERTY = 2, 14, 17, 19
_GET_PROPERTY, _LIST_PROPERTIES, _SET_SELECTION_OWNER, _GET_SELECTION_OWNER = 20, 21, 22, 23
_SEND_EVENT, _GRAB_KEYBOARD, _UNGRAB_KEYBOARD, _QUERY_POINTER, _WARP_POINTER, _GET_INPUT_FOCUS, _QUERY_KEYMAP = (
    25,
    31,
    32,
    38,
    41,
    43,
    44,
)
_CLEAR_AREA, _GET_IMAGE, _CHANGE_KEYBOARD_MAPPING, _GET_KEYBOARD_MAPPING = 61, 73, 100, 101
_GET_KEYBOARD_CONTROL, _GET_POINTER_CONTROL, _GET_SCREEN_SAVER, _LIST_HOSTS = 103, 106, 108, 110
_GET_POINTER_MAPPING, _SET_MODIFIER_MAPPING, _GET_MODIFIER_MAPPING = 117, 118, 119
_FAKE_INPUT, _SET_SCREEN_CONFIG, _GET_SCREEN_INFO = 2, 2, 5
_ASYNCHRONOUS = 1
_KEY_PRESS, _KEY_RELEASE, _BUTTON_RELEASE, _CLIENT_MESSAGE = 2, 3, 5, 33
_BACKGROUND_PIXMAP, _Z_PIXMAP, _ALL_PLANES = 1, 2, 0xFFFFFFFF
_SUBSTRUCTURE_NOTIFY_AND_REDIRECT = 3 << 19
_PRIMARY = 1
_LOCKS = {1: 1 << 1, 4: 1 << 4}
"""Caps lock and num lock: the number of the modifier that stays on, and its bit in the pointer's answer."""
_ESCAPE = struct.pack("<I", 0xFF1B)
_NOTICE_S = 0.01
"""The delay before a restored value without an event is noticed."""

_SIZE, _PICTURE, _POINTER, _HELD, _FOCUS = "size", "picture", "pointer", "held keys", "input focus"
_KEYBOARD, _MODIFIERS, _CLIPBOARD, _SELECTION = "keyboard map", "modifier keys", "clipboard", "selection"
_GRAB = "keyboard's grab"
_PROPERTY = "property "


class StartState:
    """The answers of an X server before any test was there, which `restore()` brings back.

    The X server itself takes the picture: it is the framebuffer that its VNC server sends. On a screen that shows
    nothing yet all rows are alike, so the first one is enough. If they were not alike, nothing would ever be restored.
    """

    def __init__(self, display: XDisplay) -> None:
        self._answers = _answers(display)
        self._row = _rows(display, 1)

    def restore(self, display: XDisplay, deadline: Deadline) -> None:
        """Undo what can be undone, and wait until all answers are as before, the picture to the last pixel.

        Raises DesktopError that names the remaining differences when the deadline is over.
        """
        while changed := self._put_back(display):
            if not deadline.remaining_s:
                raise DesktopError(
                    f"the desktop differs from its start: the test changed {', '.join(changed)} for good"
                )
            display.wait(min(_NOTICE_S, deadline.remaining_s))

    def _put_back(self, display: XDisplay) -> list[str]:
        """Undo each difference; return the names of those that were there."""
        start, now = self._answers, _answers(display)
        changed = sorted(name for name in {*start, *now} if start.get(name) != now.get(name))
        height = _size(start[_SIZE])[1]
        if not changed and _rows(display, height) != self._row * height:
            changed = [_PICTURE]
        for name in changed:
            _undo_of(name, start)(display, start, now)
        return changed


# --- asking ----------------------------------------------------------------------------------------------------------


def _answers(display: XDisplay) -> dict[str, bytes]:
    root = struct.pack("<I", display.root)
    keycodes = struct.pack("<BBxx", display.keycodes[0], len(display.keycodes))
    return {
        _SIZE: display.ask(_GET_GEOMETRY, root),
        _POINTER: display.ask(_QUERY_POINTER, root),
        _HELD: display.ask(_QUERY_KEYMAP),
        _FOCUS: display.ask(_GET_INPUT_FOCUS),
        _GRAB: _grab(display),
        _KEYBOARD: display.ask(_GET_KEYBOARD_MAPPING, keycodes),
        _MODIFIERS: display.ask(_GET_MODIFIER_MAPPING),
        _CLIPBOARD: display.ask(_GET_SELECTION_OWNER, struct.pack("<I", display.atom(b"CLIPBOARD"))),
        _SELECTION: display.ask(_GET_SELECTION_OWNER, struct.pack("<I", _PRIMARY)),
        "pointer's buttons": display.ask(_GET_POINTER_MAPPING),
        "pointer's speed": display.ask(_GET_POINTER_CONTROL),
        "key repeat, bell or lights": display.ask(_GET_KEYBOARD_CONTROL),
        "screen saver": display.ask(_GET_SCREEN_SAVER),
        "access control": display.ask(_LIST_HOSTS),
        **dict(_properties(display, root)),
    }


def _properties(display: XDisplay, root: bytes) -> Iterator[tuple[str, bytes]]:
    listed = display.ask(_LIST_PROPERTIES, root)
    for (atom,) in struct.iter_unpack("<I", listed[32:]):
        named = display.ask(_GET_ATOM_NAME, struct.pack("<I", atom))
        name = named[32 : 32 + struct.unpack_from("<H", named, 8)[0]].decode("latin-1")
        yield _PROPERTY + name, display.ask(_GET_PROPERTY, root + struct.pack("<IIII", atom, 0, 0, 1 << 20))


def _grab(display: XDisplay) -> bytes:
    """Return the answer to a grab of the keyboard.

    The window manager keeps the keyboard for its menus and its switcher of windows.
    """
    modes = struct.pack("<BBxx", _ASYNCHRONOUS, _ASYNCHRONOUS)
    answer = display.ask(_GRAB_KEYBOARD, struct.pack("<II", display.root, 0) + modes)
    display.tell(_UNGRAB_KEYBOARD, bytes(4))
    return answer


def _rows(display: XDisplay, count: int) -> bytes:
    """Return the pixels of the first rows of the screen."""
    width = _size(display.ask(_GET_GEOMETRY, struct.pack("<I", display.root)))[0]
    area = struct.pack("<IhhHHI", display.root, 0, 0, width, count, _ALL_PLANES)
    return display.ask(_GET_IMAGE, area, _Z_PIXMAP)[32:]


def _size(geometry: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", geometry, 16)
    return width, height


# --- undoing ---------------------------------------------------------------------------------------------------------


def _undo_of(name: str, start: Answers) -> Undo:
    if name.startswith(_PROPERTY) and name not in start:
        return lambda display, _, __: display.tell(
            _DELETE_PROPERTY, struct.pack("<II", display.root, _atom(display, name))
        )
    return _UNDO.get(name, _wait_only)


def _wait_only(display: XDisplay, start: Answers, now: Answers) -> None:
    """Do nothing: nothing can be done, or something else changes it back."""


def _ask_manager(name: str) -> Undo:
    """Return an undo that asks the window manager to set one of its numbers, which a root property holds."""

    def undo(display: XDisplay, start: Answers, now: Answers) -> None:
        head = struct.pack("<BBxxII", _CLIENT_MESSAGE, 32, display.root, _atom(display, name))
        event = head + start[name][32:36] + bytes(16)
        display.tell(_SEND_EVENT, struct.pack("<II", display.root, _SUBSTRUCTURE_NOTIFY_AND_REDIRECT) + event)

    return undo


def _atom(display: XDisplay, name: str) -> int:
    return display.atom(name.removeprefix(_PROPERTY).encode("latin-1"))


def _clear_root(display: XDisplay, start: Answers, now: Answers) -> None:
    display.tell(_CHANGE_WINDOW_ATTRIBUTES, struct.pack("<III", display.root, _BACKGROUND_PIXMAP, 0))
    display.tell(_CLEAR_AREA, struct.pack("<IhhHH", display.root, 0, 0, 0, 0))


def _disown(selection: Callable[[XDisplay], int]) -> Undo:
    def undo(display: XDisplay, start: Answers, now: Answers) -> None:
        display.tell(_SET_SELECTION_OWNER, struct.pack("<III", 0, selection(display), 0))

    return undo


def _set_keyboard_map(display: XDisplay, start: Answers, now: Answers) -> None:
    """Set only changed keys: a new setting of a key loses what the core protocol leaves out, such as its type."""
    for keycode, then, since in zip(
        display.keycodes, _keysyms(start[_KEYBOARD]), _keysyms(now[_KEYBOARD]), strict=True
    ):
        if then != since:
            head = struct.pack("<BBxx", keycode, len(then) // 4)
            display.tell(_CHANGE_KEYBOARD_MAPPING, head + then, 1)


def _keysyms(keyboard_map: bytes) -> Iterator[bytes]:
    """Return the keysyms of each key, 4 bytes a keysym."""
    width = 4 * keyboard_map[1]
    return (keyboard_map[at : at + width] for at in range(32, len(keyboard_map), width))


def _set_modifiers(display: XDisplay, start: Answers, now: Answers) -> None:
    display.ask(_SET_MODIFIER_MAPPING, start[_MODIFIERS][32:], start[_MODIFIERS][1])


def _release_keys(display: XDisplay, start: Answers, now: Answers) -> None:
    for keycode in display.keycodes:
        if now[_HELD][8 + keycode // 8] >> keycode % 8 & 1:
            _fake(display, _KEY_RELEASE, keycode)


def _set_pointer(display: XDisplay, start: Answers, now: Answers) -> None:
    """Release the buttons, unlock caps lock and num lock, which come with the pointer's state, and move it back."""
    x, y, _, _, state_then = struct.unpack_from("<hhhhH", start[_POINTER], 16)
    state = struct.unpack_from("<H", now[_POINTER], 24)[0]
    for button in range(1, 6):
        if state >> 7 + button & 1:
            _fake(display, _BUTTON_RELEASE, button)
    for modifier, bit in _LOCKS.items():
        if (state ^ state_then) & bit:
            _strike(display, start[_MODIFIERS][32 + modifier * start[_MODIFIERS][1]])
    display.tell(_WARP_POINTER, struct.pack("<IIhhHHhh", 0, display.root, 0, 0, 0, 0, x, y))


def _escape(display: XDisplay, start: Answers, now: Answers) -> None:
    """Close menus and similar windows that the window manager has opened."""
    _strike(display, display.keycodes[[keysyms[:4] for keysyms in _keysyms(start[_KEYBOARD])].index(_ESCAPE)])


def _strike(display: XDisplay, keycode: int) -> None:
    _fake(display, _KEY_PRESS, keycode)
    _fake(display, _KEY_RELEASE, keycode)


def _fake(display: XDisplay, event: int, detail: int) -> None:
    if opcode := display.extension(b"XTEST"):
        display.tell(opcode, struct.pack("<BBxxII8xhh8x", event, detail, 0, 0, 0, 0), _FAKE_INPUT)


def _set_size(display: XDisplay, start: Answers, now: Answers) -> None:
    if not (opcode := display.extension(b"RANDR")):
        return
    info = display.ask(opcode, struct.pack("<I", display.root), _GET_SCREEN_INFO)
    timestamp, count, _, rotation = struct.unpack_from("<IHHH", info, 16)
    sizes = list(struct.iter_unpack("<HH4x", info[32 : 32 + 8 * count]))
    if (size := _size(start[_SIZE])) in sizes:
        wish = struct.pack("<IIIHH", display.root, 0, timestamp, sizes.index(size), rotation)
        display.ask(opcode, wish, _SET_SCREEN_CONFIG)


_UNDO: dict[str, Undo] = {
    _PICTURE: _clear_root,
    _SIZE: _set_size,
    _POINTER: _set_pointer,
    _HELD: _release_keys,
    _GRAB: _escape,
    _KEYBOARD: _set_keyboard_map,
    _MODIFIERS: _set_modifiers,
    _CLIPBOARD: _disown(lambda display: display.atom(b"CLIPBOARD")),
    _SELECTION: _disown(lambda _: _PRIMARY),
    **{
        name: _ask_manager(name)
        for name in map(_PROPERTY.__add__, ("_NET_CURRENT_DESKTOP", "_NET_NUMBER_OF_DESKTOPS", "_NET_SHOWING_DESKTOP"))
    },
}
