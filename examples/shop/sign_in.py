"""The first page: who is there?"""

from __future__ import annotations

from look import FIELD_HEIGHT, Surface, button, card, field, label
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from store import Store


class SignIn(Surface):
    """Name and password; Enter signs in too."""

    def __init__(self, store: Store) -> None:
        super().__init__("desk")
        self._store = store
        form = card(self, (480, 180, 480, 500))
        label(form, "Orchard Lane", (40, 36, 400, 44), kind="title")
        label(form, "Sign in to your shop", (40, 84, 400, 28), kind="quiet")
        self._name = field(form, "Name", (40, 168, 400, FIELD_HEIGHT))
        self._password = field(form, "Password", (40, 264, 400, FIELD_HEIGHT))
        self._password.setEchoMode(QLineEdit.EchoMode.Password)
        self._error = label(form, "", (40, 326, 400, 28), kind="error")
        submit = button(form, "Sign in", (40, 368, 400, 52), kind="primary")
        hint = label(
            form,
            "Try alice with the password wonderland",
            (40, 440, 400, 28),
            kind="quiet",
        )
        hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        submit.clicked.connect(self._sign_in)
        for line in (self._name, self._password):
            line.returnPressed.connect(self._sign_in)

    def start(self) -> None:
        """Make ready for the next person."""
        for line in (self._name, self._password):
            line.clear()
        self._error.clear()
        self._name.setFocus()

    def _sign_in(self) -> None:
        if not self._store.sign_in(self._name.text(), self._password.text()):
            self._error.setText("Wrong name or password")
            self._password.setFocus()
            self._password.clear()
