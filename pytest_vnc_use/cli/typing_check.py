"""The typing check of `cua-vnc doctor`: letters and signs in an external desktop, taken
back; lines in a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING, Literal

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.external import lease
from pytest_vnc_use.errors import ActionError, DesktopRefused
from pytest_vnc_use.same_screen import differing
from pytest_vnc_use.types import KeyCombo, Move, TypeText, Wait
from pytest_vnc_use.types.protocols import Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.backends.vnc import VNCController

Result = tuple[Literal["ok", "--", "FAIL"], str]
"""The word of a finding, and its text."""
LIMIT_S = 10.0
"""The maximum wait for a server, an engine or the model's service."""
LINE = "Ab1 ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./"
"""A text with every key of a US keyboard that makes a character, most of them with
shift.
"""
LETTER = "w"
"""The letter that is typed and taken back; as a command it does no harm in vi, less or
a shell.
"""
DEAD_KEYS = "w'w\"w`w^w~w"
"""The characters that are dead keys in some layouts, each before a letter with which it
would become one character.
"""
_LETTERS = 8
"""The number of letters that are compared with as many capitals: enough that a caret
among them does not matter.
"""
BEYOND = "é Ω Ж 日 😀"
"""Characters that a US keyboard does not have."""
_BEFORE_S = 2.2
_SHOWS_S = 2.0
_TAKEN_BACK_S = 2.0
_BLINK_S = 1.2
_FRAME_INTERVAL_S = 0.1
_STABLE_FRAMES = 2
"""The maximum frames of a stable screen: a blinking caret makes two, a clock with
seconds three within `_BEFORE_S`.
"""
_FIFO = "mkfifo line 2>/dev/null"
READS_LINES = (
    "xterm",
    "-u8",
    "-geometry",
    "80x24+0+0",
    "-e",
    f"{_FIFO}; head -n 2 >line",
)
_IN_XTERM = Move(100, 100)
"""A move of the pointer into the xterm: without a window manager, the window under the
pointer gets the keys.
"""


def check_typing(controller: VNCController, server: str) -> Result:
    """Type letters and signs, but only if no other user has the desktop."""
    try:
        held = lease([server], "cua-vnc doctor", timeout_s=0.0)
    except DesktopRefused as exc:
        return "--", f"not checked, the desktop is in use: {exc}"
    try:
        return _Typing(controller).check()
    finally:
        held.release()


class _Typing:
    """Text that is typed on a desktop and deleted by BackSpace. `before` are the frames
    that the desktop shows without it.
    """

    def __init__(self, controller: VNCController) -> None:
        self._controller = controller
        width, height = controller.size
        # TigerVNC draws the pointer into the screen until the client moves it
        for x in (width // 2, width // 2 - 1):
            controller.perform(Move(x, height // 2))
            controller.frame()
        self._before: set[bytes] = set()
        for png in self._frames(_BEFORE_S):
            self._before.add(png)
            if len(self._before) > _STABLE_FRAMES:
                break

    def check(self) -> Result:
        """Type a letter, then the texts that the server's method of typing requires."""
        if len(self._before) > _STABLE_FRAMES:
            return (
                "--",
                (
                    "not checked: the screen moves, which would hide the effect of a"
                    " letter"
                ),
            )
        has_clipboard = self._controller.quirks.text == "clipboard"
        self._controller.perform(TypeText(LETTER))
        if not self._has_changed():
            if has_clipboard and self._paste()[0] == "ok":
                text = (
                    f"the key {LETTER!r} had no effect, but pasting {BEYOND[0]!r}"
                    " worked. The keyboard layout has no"
                )
                return (
                    "FAIL",
                    f"{text} Latin letters. Set vnc_typing=clipboard or another layout",
                )
            text = "typing changed nothing: focus a text field to check typing"
            return "--", f"{text} (a read-only server drops keys too, without an error)"
        if not self._take_back():
            return (
                "--",
                (
                    f"not checked: {LETTER!r} changed the screen, and BackSpace did not"
                    " undo it; focus an empty field"
                ),
            )
        if has_clipboard:
            return self._paste()
        if self._controller.quirks.text == "ascii":
            return self._check_layout()
        return "ok", "typing a letter works"

    def _paste(self) -> Result:
        try:
            self._controller.perform(TypeText(BEYOND[0]))
        except ActionError as exc:
            return "--", f"typing a letter works; pasting {BEYOND[0]!r} failed: {exc}"
        if self._has_changed() and self._take_back():
            return "ok", f"typing a letter and pasting {BEYOND[0]!r} work"
        return (
            "--",
            (
                f"typing a letter works; pasting {BEYOND[0]!r} had no effect, or"
                " BackSpace did not undo it"
            ),
        )

    def _check_layout(self) -> Result:
        """Type what dead keys and Caps Lock would change.

        A dead key and a letter make one character, so fewer BackSpaces take the text
        back. With Caps Lock, small letters change more pixels than capitals.
        """
        self._controller.perform(TypeText(DEAD_KEYS))
        self._controller.settle()
        if self._take_back(len(DEAD_KEYS) - 1):
            text = (
                f"{DEAD_KEYS!r} arrived as fewer characters: the desktop's keyboard"
                " layout has dead keys."
            )
            return (
                "FAIL",
                f"{text} Set a layout without them there, as `setxkbmap us` does",
            )
        if not self._take_back():
            text = (
                f"{DEAD_KEYS!r} was typed, but {len(DEAD_KEYS)} BackSpaces did not"
                " undo it:"
            )
            return "FAIL", f"{text} focus an empty field of plain text"
        if self._changed_pixels(LETTER) > self._changed_pixels(LETTER.upper()):
            text = (
                f"{LETTER!r} arrived as {LETTER.upper()!r}: Caps Lock is on. Turn it"
                " off on the desktop; with x11vnc"
            )
            return (
                "FAIL",
                (
                    f"{text} `x11vnc -remote clear_locks` does that, and its option"
                    " -skip_lockkeys keeps tests from turning it on"
                ),
            )
        text = (
            "typing small letters, capitals and"
            f" {' '.join(sorted({*DEAD_KEYS} - {LETTER}))} works"
        )
        return "ok", f"{text}; the desktop's keyboard layout decides which others do"

    def _changed_pixels(self, letter: str) -> int:
        """Type some of a letter and take them back; return how many pixels they
        changed, without a blinking caret.
        """
        self._controller.perform(TypeText(letter * _LETTERS))
        self._controller.settle()
        shown = set(self._frames(_BLINK_S))
        pairs = product(self._before, shown)
        differences = [differing(empty, png) for empty, png in pairs]
        self._take_back(_LETTERS)
        return min(
            int(difference.sum())
            for difference in differences
            if difference is not None
        )

    def _has_changed(self) -> bool:
        return any(png not in self._before for png in self._frames(_SHOWS_S))

    def _take_back(self, characters: int = 1) -> bool:
        for _ in range(characters):
            self._controller.perform(KeyCombo(("BackSpace",)))
        return any(png in self._before for png in self._frames(_TAKEN_BACK_S))

    def _frames(self, limit_s: float) -> Iterator[bytes]:
        """Yield the screen as PNG, again and again for `limit_s`."""
        deadline = Deadline(limit_s)
        while deadline.remaining_s:
            yield self._controller.frame().png
            self._controller.perform(Wait(_FRAME_INTERVAL_S))


def check_lines(desktop: Desktop) -> Result:
    """Type one line by keys, and one by the clipboard."""
    from pytest_vnc_use.backends import vnc  # brings twisted

    with closing(vnc.connect(desktop.server, desktop.password)) as controller:
        controller.perform(_IN_XTERM)
        controller.perform(TypeText(f"{LINE}\n{BEYOND}", press_enter=True))
        arrived = desktop.run(
            ("sh", "-c", f"{_FIFO}; cat line"), timeout_s=LIMIT_S
        ).stdout
    if arrived == f"{LINE}\n{BEYOND}\n":
        text = f"typing {len(LINE)} characters and pasting {BEYOND!r} works in xterm"
        return "ok", f"{text}; {controller.quirks}"
    return "FAIL", f"typed {LINE!r} and {BEYOND!r}, but xterm got {arrived!r}"
