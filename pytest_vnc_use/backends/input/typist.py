"""Text at the focus: it is typed or pasted, as the server supports it, and can replace other text."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import assert_never

from pytest_vnc_use.backends.input.devices import Keyboard
from pytest_vnc_use.backends.rfb.connection import Connection
from pytest_vnc_use.backends.rfb.server_quirks import ServerQuirks
from pytest_vnc_use.backends.screen.settle import SettleRules
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.keyboard.keystrokes import PASTE, SELECT_ALL
from pytest_vnc_use.keyboard.keysyms import BACKSPACE, Chord, chord_of
from pytest_vnc_use.keyboard.text_plan import Pasted, Piece, Typed, plan_text

_FETCH_S = 2.0
EFFECT = SettleRules(first_change_s=0.3, quiet_s=0.1, limit_s=2.0, any_change=True)
"""The wait between a click or a shortcut and the next keys, because keys could overtake it."""
_PASTED = SettleRules(first_change_s=4.0, quiet_s=0.1, limit_s=5.0)
"""The wait between a paste and the keys after it. Chromium now and then shows the text 3 s after it fetched it."""


class Writer:
    """A writer of text into the focused program."""

    def __init__(self, connection: Connection, keyboard: Keyboard, quirks: ServerQuirks) -> None:
        self._connection = connection
        self._screen = connection.framebuffer
        self._keyboard = keyboard
        self._typable = quirks.text

    def plan(self, text: str) -> tuple[Piece, ...]:
        """Return the pieces to `write`. Raises ActionError if the server cannot take a character."""
        return plan_text(text, self._typable)

    def write(self, pieces: Iterable[Piece]) -> None:
        """Type or paste the pieces in order. Raises ActionError if no program takes a pasted piece."""
        for piece in pieces:
            match piece:
                case Typed(text):
                    self._keyboard.strike(*map(chord_of, text))
                case Pasted(text):
                    self._paste(text)
                case _:
                    assert_never(piece)

    def clear(self, *, to_be_replaced: bool) -> None:
        """Select all text of the field, so that the next text replaces it; if there is no next text, delete it."""
        self._screen.mark_began()
        self._keyboard.strike(SELECT_ALL)
        if not to_be_replaced:
            self._keyboard.strike(Chord((BACKSPACE,)))
        self._screen.wait_settled(EFFECT)

    def _paste(self, text: str) -> None:
        protocol = self._connection.protocol
        before = protocol.fetched_texts
        self._connection.outgoing.clipboard(text)
        self._connection.send(protocol.offer_text, text)
        self._screen.mark_began()
        self._keyboard.strike(PASTE)
        if not self._screen.wait_until(lambda: protocol.fetched_texts > before, _FETCH_S):
            raise ActionError(
                f"no program fetched the text from the clipboard within {_FETCH_S} s after shift+insert; "
                "is a text field focused?"
            )
        if self._screen.wait_settled(_PASTED).reason == "nothing_changed":
            raise ActionError(
                "a program fetched the text from the clipboard, perhaps one that keeps it, "
                f"and no pixel changed within {_PASTED.first_change_s} s; is a text field focused?"
            )
