"""The typing check of `cua-vnc doctor`: one letter in a given desktop, taken back; two lines in its own desktop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pytest_vnc_use.cli.finding import Finding
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ActionError, DesktopRefused
from pytest_vnc_use.types import KeyCombo, Move, TypeText, Wait
from pytest_vnc_use.types.protocols import Controller, Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.backends.controller import VNCController

LIMIT_S = 10.0
"""The longest wait for a server, an engine or the model's service."""
LINE = "Ab1 ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./"
"""A text with every key of a US keyboard that makes a character, most of them with shift."""
LETTER = "w"
"""The letter that is typed and taken back; as a command it does no harm in vi, less or a shell."""
BEYOND = "é Ω Ж 日 😀"
"""Characters that a US keyboard does not have."""
_BEFORE_S, _SHOWS_S, _TAKEN_BACK_S, _GLANCE_S = 2.2, 2.0, 2.0, 0.1
_FRAMES_AT_REST = 2
"""The most frames of a screen at rest.

A blinking caret makes two; a clock with seconds makes three within `_BEFORE_S`.
"""
_FIFO = "mkfifo line 2>/dev/null"
READS_LINES = ("xterm", "-u8", "-geometry", "80x24+0+0", "-e", f"{_FIFO}; head -n 2 >line")
_TELLS_THE_LINES = ("sh", "-c", f"{_FIFO}; cat line")
_IN_XTERM = Move(100, 100)
"""A move of the pointer into the xterm: without a window manager, the window under the pointer gets the keys."""


def check_typing(controller: VNCController, server: str, tunnel: str) -> Finding:
    """Type a letter, but only if nobody else uses the desktop."""
    from pytest_vnc_use.desktops.sharing.leases import lease

    try:
        held = lease([server], "cua-vnc doctor", timeout_s=0.0, tunnel=tunnel)
    except DesktopRefused as exc:
        return Finding("--", "typing", f"not checked, the desktop is in use: {exc}")
    try:
        return _letter_there_and_back(controller)
    finally:
        held.release()


def _letter_there_and_back(controller: VNCController) -> Finding:
    """Type a letter and take it back. Do the same with a pasted character if characters without a key are pasted."""
    before = _at_rest(controller)
    if len(before) > _FRAMES_AT_REST:
        return Finding(
            "--", "typing", ("not checked: the screen moves by itself, which would hide the effect of a letter")
        )
    controller.perform(TypeText(LETTER))
    if all(png in before for png in _glances(controller, _SHOWS_S)):
        return _no_letter(controller, before)
    if not _is_taken_back(controller, before):
        return Finding(
            "FAIL", "typing", f"{LETTER!r} changed the screen, but BackSpace did not undo it: focus an empty text field"
        )
    if controller.quirks.text == "clipboard":
        return _pasted_there_and_back(controller, before)
    which = "; the desktop's keyboard layout decides which one" if controller.quirks.text == "ascii" else ""
    return Finding("ok", "typing", f"typing a letter works{which}")


def _no_letter(controller: VNCController, before: set[bytes]) -> Finding:
    """Return a finding for a letter that did not show; check whether pasting works."""
    if controller.quirks.text == "clipboard" and _pasted_there_and_back(controller, before).word == "ok":
        return Finding(
            "FAIL",
            "typing",
            f"the key {LETTER!r} had no effect, but pasting {BEYOND[0]!r} worked. The keyboard layout has no "
            "Latin letters: set vnc_typing=clipboard or another layout",
        )
    return Finding(
        "--",
        "typing",
        "typing changed nothing: focus a text field to check typing (a read-only server drops keys too, without "
        "an error)",
    )


def _pasted_there_and_back(controller: Controller, before: set[bytes]) -> Finding:
    try:
        controller.perform(TypeText(BEYOND[0]))
    except ActionError as exc:
        return Finding("--", "typing", f"typing a letter works; pasting {BEYOND[0]!r} failed: {exc}")
    has_changed = any(png not in before for png in _glances(controller, _SHOWS_S))
    if has_changed and _is_taken_back(controller, before):
        return Finding("ok", "typing", f"typing a letter and pasting {BEYOND[0]!r} work")
    return Finding(
        "--", "typing", (f"typing a letter works; pasting {BEYOND[0]!r} had no effect, or BackSpace did not undo it")
    )


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


def _is_taken_back(controller: Controller, before: set[bytes]) -> bool:
    controller.perform(KeyCombo(("BackSpace",)))
    return any(png in before for png in _glances(controller, _TAKEN_BACK_S))


def _glances(controller: Controller, limit_s: float) -> Iterator[bytes]:
    """Yield the screen as PNG, again and again for `limit_s`."""
    deadline = Deadline(limit_s)
    while deadline.remaining_s:
        yield controller.frame().png
        controller.perform(Wait(_GLANCE_S))


def check_lines(desktop: Desktop) -> Finding:
    """Type one line by keys, and one by the clipboard."""
    from pytest_vnc_use.backends import vnc

    with closing(vnc.connect(desktop.server, desktop.password)) as controller:
        controller.perform(_IN_XTERM)
        controller.perform(TypeText(f"{LINE}\n{BEYOND}", press_enter=True))
        arrived = desktop.run(_TELLS_THE_LINES, timeout_s=LIMIT_S).stdout
    if arrived == f"{LINE}\n{BEYOND}\n":
        text = f"typing {len(LINE)} characters and pasting {BEYOND!r} works in xterm"
        return Finding("ok", "typing", f"{text}; {controller.quirks}")
    return Finding("FAIL", "typing", f"typed {LINE!r} and {BEYOND!r}, but xterm got {arrived!r}")
