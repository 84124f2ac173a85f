"""A Qt window with a button that is lit where the pointer is over it. When it is clicked,
the button hides until its text has changed, and is then lit at once; with `--late`, only
once the pointer has moved.
"""

from __future__ import annotations

import sys

from PySide6.QtCore import QTimer
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

LIT = "background: orange"
DIM = "background: silver"


class Button(QLabel):
    """The button, which is lit by itself."""

    def __init__(self, parent: QWidget, *, is_late: bool) -> None:
        super().__init__("Save", parent)
        self._is_late = is_late
        self.setMouseTracking(True)
        self.setGeometry(100, 100, 120, 40)
        self.setStyleSheet(DIM)

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        self.setStyleSheet(LIT)

    def mouseReleaseEvent(self, ev: QMouseEvent) -> None:
        self.hide()
        QTimer.singleShot(200, self._saved)

    def _saved(self) -> None:
        self.setText("Saved")
        self.setStyleSheet(DIM if self._is_late else LIT)
        self.show()


def main() -> None:
    application = QApplication(sys.argv)
    window = QWidget()
    button = Button(window, is_late="--late" in sys.argv)
    window.showFullScreen()
    button.show()
    sys.exit(application.exec())


if __name__ == "__main__":
    main()
