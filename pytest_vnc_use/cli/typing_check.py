"""The typing check of `cua-vnc doctor`: letters and signs in a given desktop, taken back; lines in its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ActionError, DesktopRefused
from pytest_vnc_use.types import KeyCombo, Move, TypeText, Wait
from pytest_vnc_use.types.protocols import Controller, Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.backends.vnc import VNCController

Result = tuple[Literal["ok", "--", "FAIL"], str]
"""The word of a finding, and its text."""
LIMIT_S = 10.0
"""The longest wait for a server, an engine or the model's service."""
LINE = "Ab1 ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./"
"""A text with every key of a US keyboard that makes a character, most of them with shift."""
LETTER = "w"
"""The letter that is typed and taken back; as a command it does no harm in vi, less or a shell."""
DEAD_KEYS = "w'w\"w`w^w~w"
"""The characters that are dead keys in some layouts, each before a letter with which it would become one character."""
_LETTERS = 8
"""How many letters are compared with as many capitals: so many that a caret among them does not matter."""
BEYOND = "é Ω Ж 日 😀"
"""Characters that a US keyboard does not have."""
_BEFORE_S, _SHOWS_S, _TAKEN_BACK_S, _BLINK_S, _GLANCE_S = 2.2, 2.0, 2.0, 1.2, 0.1
_FRAMES_AT_REST = 2
"""The most frames of a screen stable.

A blinking caret makes two; a clock with seconds makes three within `_BEFORE_S`.
"""
_FIFO = "mkfifo line 2>/dev/null"
READS_LINES = ("xterm", "-u8", "-geometry", "80x24+0+0", "-e", f"{_FIFO}; head -n 2 >line")
_TELLS_THE_LINES = ("sh", "-c", f"{_FIFO}; cat line")
_IN_XTERM = Move(100, 100)
"""A move of the pointer into the xterm: without a window manager, the window under the pointer gets the keys."""


def check_typing(controller: VNCController, server: str) -> Result:
    """Type letters and signs, but only if nobody else uses the desktop."""
    from pytest_vnc_use.desktops.external import lease

    try:
        held = lease([server], "cua-vnc doctor", timeout_s=0.0)
    except DesktopRefused as exc:
        return ("--", f"not checked, the desktop is in use: {exc}")
    try:
        return _letter_there_and_back(controller)
    finally:
        held.release()


def _letter_there_and_back(controller: VNCController) -> Result:
    """Type a letter and take it back. Do the same with a pasted character if characters without a key are pasted."""
    before = _at_rest(controller)
    if len(before) > _FRAMES_AT_REST:
        return ("--", "not checked: the screen moves, which would hide the effect of a letter")
    controller.perform(TypeText(LETTER))
    if all(png in before for png in _glances(controller, _SHOWS_S)):
        return _no_letter(controller, before)
    if not _is_taken_back(controller, before):
        return ("FAIL", f"{LETTER!r} changed the screen, but BackSpace did not undo it: focus an empty text field")
    if controller.quirks.text == "clipboard":
        return _pasted_there_and_back(controller, before)
    if controller.quirks.text == "ascii":
        return _keys_by_the_layout(controller, before)
    return ("ok", "typing a letter works")


def _keys_by_the_layout(controller: VNCController, before: set[bytes]) -> Result:
    """Type what dead keys and Caps Lock would change, and take it back.

    A dead key and a letter make one character, so fewer BackSpaces take the text back. With Caps Lock, small
    letters change more pixels than capitals.
    """
    controller.perform(TypeText(DEAD_KEYS))
    controller.settle()
    if _is_taken_back(controller, before, len(DEAD_KEYS) - 1):
        return (
            "FAIL",
            f"{DEAD_KEYS!r} arrived as fewer characters: the desktop's keyboard layout has dead keys. Set a layout "
            "without them there, as `setxkbmap us` does",
        )
    if not _is_taken_back(controller, before):
        return (
            "FAIL",
            f"{DEAD_KEYS!r} was typed, but {len(DEAD_KEYS)} BackSpaces did not undo it: focus an empty field of plain "
            "text",
        )
    if _changed_pixels(controller, before, LETTER) > _changed_pixels(controller, before, LETTER.upper()):
        return (
            "FAIL",
            f"{LETTER!r} arrived as {LETTER.upper()!r}: Caps Lock is on. Turn it off on the desktop; with x11vnc "
            "`x11vnc -remote clear_locks` does that, and its option -skip_lockkeys keeps tests from turning it on",
        )
    text = f"typing small letters, capitals and {' '.join(sorted({*DEAD_KEYS} - {LETTER}))} works"
    return ("ok", f"{text}; the desktop's keyboard layout decides which others do")


def _changed_pixels(controller: VNCController, before: set[bytes], letter: str) -> int:
    """Type some of a letter and take them back; return how many pixels they changed, without a blinking caret."""
    from pytest_vnc_use.same_screen import differing

    controller.perform(TypeText(letter * _LETTERS))
    controller.settle()
    shown = set(_glances(controller, _BLINK_S))
    differences = [differing(empty, png) for empty in before for png in shown]
    _is_taken_back(controller, before, _LETTERS)
    return min(int(each.sum()) for each in differences if each is not None)


def _no_letter(controller: VNCController, before: set[bytes]) -> Result:
    """Return a finding for a letter that did not show; check whether pasting works."""
    if controller.quirks.text == "clipboard" and _pasted_there_and_back(controller, before)[0] == "ok":
        return (
            "FAIL",
            f"the key {LETTER!r} had no effect, but pasting {BEYOND[0]!r} worked. The keyboard layout has no "
            "Latin letters: set vnc_typing=clipboard or another layout",
        )
    return (
        "--",
        "typing changed nothing: focus a text field to check typing (a read-only server drops keys too, without "
        "an error)",
    )


def _pasted_there_and_back(controller: Controller, before: set[bytes]) -> Result:
    try:
        controller.perform(TypeText(BEYOND[0]))
    except ActionError as exc:
        return ("--", f"typing a letter works; pasting {BEYOND[0]!r} failed: {exc}")
    has_changed = any(png not in before for png in _glances(controller, _SHOWS_S))
    if has_changed and _is_taken_back(controller, before):
        return ("ok", f"typing a letter and pasting {BEYOND[0]!r} work")
    return ("--", f"typing a letter works; pasting {BEYOND[0]!r} had no effect, or BackSpace did not undo it")


def _at_rest(controller: VNCController) -> set[bytes]:
    """Return the frames, as PNG, that show while nothing is done; stop at one more than a caret makes.

    The pointer is moved first: TigerVNC draws it into the screen until the client moves it.
    """
    width, height = controller.size
    for x in (width // 2, width // 2 - 1):
        controller.perform(Move(x, height // 2))
        controller.frame()
    seen: set[bytes] = set()
    for png in _glances(controller, _BEFORE_S):
        seen.add(png)
        if len(seen) > _FRAMES_AT_REST:
            break
    return seen


def _is_taken_back(controller: Controller, before: set[bytes], characters: int = 1) -> bool:
    for _ in range(characters):
        controller.perform(KeyCombo(("BackSpace",)))
    return any(png in before for png in _glances(controller, _TAKEN_BACK_S))


def _glances(controller: Controller, limit_s: float) -> Iterator[bytes]:
    """Yield the screen as PNG, again and again for `limit_s`."""
    deadline = Deadline(limit_s)
    while deadline.remaining_s:
        yield controller.frame().png
        controller.perform(Wait(_GLANCE_S))


def check_lines(desktop: Desktop) -> Result:
    """Type one line by keys, and one by the clipboard."""
    from pytest_vnc_use.backends import vnc

    with closing(vnc.connect(desktop.server, desktop.password)) as controller:
        controller.perform(_IN_XTERM)
        controller.perform(TypeText(f"{LINE}\n{BEYOND}", press_enter=True))
        arrived = desktop.run(_TELLS_THE_LINES, timeout_s=LIMIT_S).stdout
    if arrived == f"{LINE}\n{BEYOND}\n":
        text = f"typing {len(LINE)} characters and pasting {BEYOND!r} works in xterm"
        return ("ok", f"{text}; {controller.quirks}")
    return ("FAIL", f"typed {LINE!r} and {BEYOND!r}, but xterm got {arrived!r}")
