"""Report each message before it is sent. A text with a secret is reported by the secret's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_vnc_use.keyboard.keystrokes import KeyEvent
from pytest_vnc_use.keyboard.keysyms import key_of
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.secret_text import SecretText

_BUTTONS = ("left", "middle", "right", "wheel up", "wheel down", "wheel left", "wheel right")


class Outgoing:
    """The messages of one connection. Each is reported before it is sent."""

    def __init__(self, tap: MessageTap | None = None) -> None:
        self._tap = tap
        self._is_quiet = False

    def keys(self, events: Sequence[KeyEvent]) -> None:
        """Report keys that are pressed and released."""
        if self._tap and not self._is_quiet:
            self._tap.note({"kind": "key", "key": key_of(keysym), "down": down} for keysym, down in events)

    def pointer(self, x: int, y: int, mask: int) -> None:
        """Report the pointer's place, and the buttons that are down."""
        if self._tap:
            buttons = [name for bit, name in enumerate(_BUTTONS) if mask >> bit & 1]
            self._tap.note([{"kind": "pointer", "x": x, "y": y, "buttons": buttons}])

    def clipboard(self, text: str) -> None:
        """Report a text that the clipboard offers."""
        if self._tap and not self._is_quiet:
            self._tap.note([{"kind": "clipboard", "text": text}])

    def encodings(self, names: Sequence[str]) -> None:
        """Report the encodings in which the server may send the screen."""
        if self._tap:
            self._tap.note([{"kind": "encodings", "names": list(names)}])

    def update_request(self, x: int, y: int, width: int, height: int, incremental: bool) -> None:
        """Report the requested part of the screen, and whether it is sent only after a change."""
        if self._tap:
            area = {"x": x, "y": y, "width": width, "height": height}
            self._tap.note([{"kind": "update request", **area, "incremental": incremental}])

    @contextmanager
    def typing(self, text: str) -> Iterator[None]:
        """Type a text meanwhile. If it holds a secret, report it as a whole, without its keys."""
        hidden = self._tap.hide(text.redacted if isinstance(text, SecretText) else text) if self._tap else text
        if not self._tap or hidden == str(text):
            yield
            return
        self._tap.note([{"kind": "text", "text": hidden}])
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False
