"""What a connection sends, told in plain fields to whoever keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_vnc_use.keyboard.keystrokes import KeyEvent
from pytest_vnc_use.keyboard.keysyms import key_of
from pytest_vnc_use.types.protocols import MessageTap

_BUTTONS = ("left", "middle", "right", "wheel up", "wheel down", "wheel left", "wheel right")


class Outgoing:
    """The messages of one connection. Each is told before it is sent; a text with a secret in it by its name alone."""

    def __init__(self, tap: MessageTap | None = None) -> None:
        self._tap = tap
        self._is_quiet = False

    def keys(self, events: Sequence[KeyEvent]) -> None:
        """Tell of keys that are pressed and released."""
        if self._tap and not self._is_quiet:
            self._tap.note({"kind": "key", "key": key_of(keysym), "down": down} for keysym, down in events)

    def pointer(self, x: int, y: int, mask: int) -> None:
        """Tell where the pointer is sent, and which buttons are down."""
        if self._tap:
            buttons = [name for bit, name in enumerate(_BUTTONS) if mask >> bit & 1]
            self._tap.note([{"kind": "pointer", "x": x, "y": y, "buttons": buttons}])

    def clipboard(self, text: str) -> None:
        """Tell of a text that the clipboard offers."""
        if self._tap and not self._is_quiet:
            self._tap.note([{"kind": "clipboard", "text": text}])

    def encodings(self, names: Sequence[str]) -> None:
        """Tell in which encodings the server may send the screen."""
        if self._tap:
            self._tap.note([{"kind": "encodings", "names": list(names)}])

    def update_request(self, x: int, y: int, width: int, height: int, incremental: bool) -> None:
        """Tell which part of the screen the server is asked for, and whether only once it has changed."""
        if self._tap:
            area = {"x": x, "y": y, "width": width, "height": height}
            self._tap.note([{"kind": "update request", **area, "incremental": incremental}])

    @contextmanager
    def typing(self, text: str) -> Iterator[None]:
        """Type a text meanwhile. If it holds a secret, tell of it as a whole, and not of its keys."""
        shown = self._tap.hide(getattr(text, "shown", text)) if self._tap else text
        if not self._tap or shown == str(text):
            yield
            return
        self._tap.note([{"kind": "text", "text": shown}])
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False
