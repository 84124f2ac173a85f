"""The terms: a text longer than the screen, with a button at its very end."""

from __future__ import annotations

from look import MARGIN, Page, Surface, button, label
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QScrollArea, QScrollBar, QWidget
from store import Store

PARAGRAPHS = 24
PARAGRAPH_HEIGHT = 96
TEXT_WIDTH = 1040
SENTENCE = (
    "The shop delivers what was ordered, in the quantity that was ordered, to the"
    " address that was given. Fruit is counted by the piece; bread is baked on the day"
    " of delivery."
)


class Terms(Page):
    """Paragraph after paragraph; Accept stands below the last one."""

    def __init__(self, store: Store) -> None:
        super().__init__("Terms", "Page Down and Page Up scroll, Home and End jump")
        self._store = store
        self._area = ReadingArea(self)
        self._area.setGeometry(MARGIN, 140, 1104, 688)
        text = Surface("sheet")
        text.setFixedSize(TEXT_WIDTH, PARAGRAPHS * PARAGRAPH_HEIGHT + 120)
        for number in range(PARAGRAPHS):
            _paragraph(text, number)
        self._accept = button(
            text,
            "Accept the terms",
            (16, PARAGRAPHS * PARAGRAPH_HEIGHT + 36, 260, 52),
            "primary",
        )
        self._status = label(
            text, "", (300, PARAGRAPHS * PARAGRAPH_HEIGHT + 36, 400, 52), kind="good"
        )
        self._accept.clicked.connect(self._accepted)
        self._area.setWidget(text)
        self.setFocusProxy(self._area)

    def _accepted(self) -> None:
        self._accept.setEnabled(False)
        self._status.setText("Accepted")
        self._store.accept_terms()


class ReadingArea(QScrollArea):
    """A scroll area that also knows Home and End."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar: QScrollBar = self.verticalScrollBar()
        match event.key():
            case Qt.Key.Key_Home:
                bar.setValue(bar.minimum())
            case Qt.Key.Key_End:
                bar.setValue(bar.maximum())
            case _:
                super().keyPressEvent(event)


def _paragraph(parent: QWidget, number: int) -> None:
    top = 16 + number * PARAGRAPH_HEIGHT
    label(parent, f"Section {number + 1}", (16, top, TEXT_WIDTH - 32, 26), kind="name")
    label(parent, SENTENCE, (16, top + 28, TEXT_WIDTH - 32, 52)).setWordWrap(True)
