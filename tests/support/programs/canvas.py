"""A Qt program that fills its screen with coloured squares and tells on stdout what
reaches it.

It obeys lines on stdin, and answers each with `done`: `paint SEED`, and `grab PATH`,
which saves what it shows as PPM. Each time that it has painted itself it tells
`painted`.
"""

from __future__ import annotations

import os
import sys
from itertools import product

from PySide6.QtCore import QSocketNotifier, Qt
from PySide6.QtGui import (
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QWidget

SQUARE = 16


def tell(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def character_of(event: QKeyEvent) -> str:
    """Return the character that a terminal would get, also where Qt's own VNC server
    gives no text for a key.
    """
    if event.key() == Qt.Key.Key_Return:
        return "\r"
    if (
        event.modifiers() & Qt.KeyboardModifier.ControlModifier
        and Qt.Key.Key_A <= event.key() <= Qt.Key.Key_Z
    ):
        return chr(event.key() - Qt.Key.Key_A + 1)
    return event.text() if event.text().isprintable() else ""


class Canvas(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._seed = 1
        self._stdin = QSocketNotifier(0, QSocketNotifier.Type.Read)
        self._stdin.activated.connect(self._obey)
        # sway, where it has no screen, draws it into what it shows
        self.setCursor(Qt.CursorShape.BlankCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def paintEvent(self, _: QPaintEvent) -> None:
        columns = self.width() // SQUARE
        rows = self.height() // SQUARE
        colours = bytearray()
        for y, x in product(range(rows), range(columns)):
            shade = (x * 80 + y * 176) * self._seed
            colours += bytes((shade % 256, shade // 7 % 256, shade // 13 % 256))
        squares = QImage(
            bytes(colours), columns, rows, columns * 3, QImage.Format.Format_RGB888
        )
        QPainter(self).drawImage(self.rect(), squares)
        tell("painted")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._tell_button("down", event)

    mouseDoubleClickEvent = mousePressEvent

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._tell_button("up", event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        clicks = event.angleDelta().y() // 120
        for _ in range(abs(clicks)):
            tell("wheel up" if clicks > 0 else "wheel down")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if character := character_of(event):
            tell(f"key {character!r}")
        elif event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            tell(f"page {'up' if event.key() == Qt.Key.Key_PageUp else 'down'}")

    def _tell_button(self, what: str, event: QMouseEvent) -> None:
        button = event.button().name.removesuffix("Button").lower()
        tell(
            f"{what} {button} {event.position().toPoint().x()}"
            f" {event.position().toPoint().y()}"
        )

    def _obey(self) -> None:
        line = sys.stdin.readline()
        command, _, value = line.strip().partition(" ")
        if command == "paint":
            self._seed = int(value)
            self.repaint()
        elif command == "grab":
            self.grab().save(value, "PPM")
        elif not line:
            QApplication.quit()
        tell("done")


if __name__ == "__main__":
    application = QApplication([])
    canvas = Canvas()
    canvas.showFullScreen()
    canvas.setFocus()
    sys.exit(application.exec())
