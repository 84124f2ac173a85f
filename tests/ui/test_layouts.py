"""Printable keys of keyboard layouts: from a keyboard by VNC through Chromium's canvas to a recorded desktop."""

from __future__ import annotations

import ctypes
import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.backends.quirks import key_event
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.recordings.format import RecordedRun
from pytest_vnc_use.types import TypeText
from support import vnc_servers
from support.vnc_servers import VncServer, require_package, wait_for

require_package("starlette")
from support.desks import Recording  # noqa: E402

pytestmark = [pytest.mark.desktop, pytest.mark.browser, pytest.mark.slow]
ON_LETTER = {
    "dead_acute": "é",
    "dead_grave": "è",
    "dead_circumflex": "ê",
    "dead_diaeresis": "ë",
    "dead_tilde": "ñ",
    "dead_cedilla": "ç",
    "dead_caron": "č",
    "dead_abovering": "å",
}
"""What dead keys make of a letter."""


SHIFT, ALTGR = 0xFFE1, 0xFE03
LEVELS: dict[int, tuple[int, ...]] = {0: (), 1: (SHIFT,), 4: (ALTGR,), 5: (SHIFT, ALTGR)}
"""The modifiers that a user holds for a column of xmodmap's table."""
Stroke = tuple[tuple[int, ...], int]


def keys_of(server: VncServer) -> Iterator[tuple[list[Stroke], str]]:
    """Yield the strokes of each printable key on a server's keyboard, on all its levels, and what they make."""
    try:
        xkb = ctypes.CDLL("libxkbcommon.so.0")
    except OSError:
        vnc_servers.missing("libxkbcommon", "apt-get install libxkbcommon0")
    done = {""}
    for line in server.output_of("xmodmap", "-pke").decode().splitlines():
        for column, name in enumerate(line.partition("=")[2].split()):
            keysym = xkb.xkb_keysym_from_name(name.encode(), 0)
            character = ON_LETTER.get(name) or chr(xkb.xkb_keysym_to_utf32(keysym))
            if column not in LEVELS or name in done or name.startswith("KP_") or not character.isprintable():
                continue
            done.add(name)
            strokes: list[Stroke] = [(LEVELS[column], keysym)]
            if name in ON_LETTER:
                strokes.append(((), ord(unicodedata.normalize("NFD", character)[0])))
            yield strokes, character


def press(keyboard: VNCController, stroke: Stroke) -> None:
    """Send a key as a viewer does, with the modifiers that its user holds."""
    keysyms = *stroke[0], stroke[1]
    for keysym, is_down in [*((each, True) for each in keysyms), *((each, False) for each in reversed(keysyms))]:
        keyboard._connection.send(keyboard._connection.protocol.transport.write, key_event(keysym, is_down))


def test_printable_keys_arrive(tigervnc: VncServer, tmp_path: Path, launch: Any) -> None:
    file = tmp_path / "typed"
    keeps = ("sh", "-c", f"stty -icanon; exec cat > {file}")
    with ExitStack() as stack:
        stack.enter_context(tigervnc.run("xterm", "-u8", "-bg", "white", "-geometry", "100x30+0+0", "-e", *keeps))
        recording = Recording(stack.enter_context(closing(connect(tigervnc.address))), "Type all keys")
        stack.callback(recording.close)
        screen = stack.enter_context(vnc_servers.tigervnc((1280, 960)))
        screen.output_of("setxkbmap", "de")
        environment = {**os.environ, **screen.environment}
        arguments = ["--window-position=0,0", "--window-size=1280,960", "--kiosk"]
        page = stack.enter_context(launch(headless=False, env=environment, args=arguments)).new_page(no_viewport=True)
        recording.open(page)
        keyboard = stack.enter_context(closing(connect(screen.address)))
        box = page.locator("#record-screen canvas").bounding_box()
        keyboard.click(int(box["x"]) + 200, int(box["y"]) + 200)
        page.locator("#record-steps img").wait_for()
        keys = [*keys_of(screen)]
        assert len(keys) >= 150
        typed = ""
        for strokes, character in keys:
            for stroke in strokes:
                press(keyboard, stroke)
            typed += character
            has_come: Callable[[str], bool] = lambda typed: len(file.read_text("utf-8")) >= len(typed)  # noqa: E731
            wait_for(partial(has_come, typed), f"{character!r} after {typed[:-1]!r}")
            assert file.read_text("utf-8") == typed
        page.locator("#record-keys").press("Shift+Escape")
        page.get_by_role("button", name="Done…").click()
        page.get_by_label("Yes").check()
        page.get_by_role("button", name="Record", exact=True).click()
        done = recording.done
    assert isinstance(done, RecordedRun)
    assert "".join(step.action.text for step in done.steps if isinstance(step.action, TypeText)) == typed
