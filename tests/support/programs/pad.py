"""A Qt program for tests: an empty pad that writes down what reaches it, a line each,
in events.txt.

`press 720 450 left`, `release …`, `double …`, `text é`. What is typed is shown too, so
that the screen answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel


class Pad(QLabel):
    def __init__(self) -> None:
        super().__init__("pad")
        self.setWindowFlag(Qt.WindowType.FramelessWindowHint)
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._events = Path("events.txt")
        self._events.touch()

    def _write(self, line: str) -> None:
        with self._events.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.setText((self.text() + "\n" + line)[-400:])

    def _write_mouse(self, name: str, event: QMouseEvent) -> None:
        point = event.position().toPoint()
        self._write(
            f"{name} {point.x()} {point.y()}"
            f" {event.button().name.removesuffix('Button').lower()}"
        )

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._write_mouse("press", event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._write_mouse("release", event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self._write_mouse("double", event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        # Qt's server makes a NUL of the release of é
        if event.text().isprintable() and event.text():
            self._write(f"text {event.text()}")


if __name__ == "__main__":
    application = QApplication(sys.argv)
    pad = Pad()
    pad.setStyleSheet("background: white")
    pad.setGeometry(application.primaryScreen().geometry())
    pad.show()
    sys.exit(application.exec())
