"""A small text editor for notes to the shop."""

from __future__ import annotations

from look import MARGIN, Page, button, label
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QPlainTextEdit
from store import Store


class Notes(Page):
    """Free text; Save, or Ctrl+S, writes it to notes.txt."""

    def __init__(self, store: Store) -> None:
        super().__init__("Notes", "Anything we should know? Ctrl+S saves")
        self._store = store
        self._text = QPlainTextEdit(self)
        self._text.setAccessibleName("Notes")
        self._text.setGeometry(MARGIN, 140, 1104, 600)
        self._text.setTabChangesFocus(True)
        self._save = button(self, "Save", (MARGIN, 776, 220, 52), kind="primary")
        self._status = label(self, "", (300, 776, 600, 52), kind="good")
        self._text.textChanged.connect(self._status.clear)
        self._save.clicked.connect(self._save_text)
        QShortcut(QKeySequence.StandardKey.Save, self).activated.connect(
            self._save_text
        )

    def _save_text(self) -> None:
        self._store.save_notes(self._text.toPlainText())
        self._status.setText("Saved")
