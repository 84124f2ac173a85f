"""A Qt program for tests of recordings: Start, Stop, and a menu whose only item shows while the pointer is over it.

Each says in the line at the bottom that it was clicked; what the pointer is over is in another colour.
"""

from __future__ import annotations

import sys
from functools import partial

from PySide6.QtCore import QEvent
from PySide6.QtGui import QEnterEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

LOOK = "QPushButton { background: #cccccc; border: 0 } QPushButton:hover { background: #88cc88 }"


class Menu(QWidget):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setGeometry(40, 40, 200, 240)
        QLabel("Menu", self).setGeometry(20, 0, 160, 40)
        self.item = QPushButton("Item", self)
        self.item.setGeometry(20, 160, 160, 60)
        self.item.hide()

    def enterEvent(self, event: QEnterEvent) -> None:
        self.item.show()

    def leaveEvent(self, event: QEvent) -> None:
        self.item.hide()


if __name__ == "__main__":
    application = QApplication(sys.argv[:1])
    window = QWidget()
    window.setStyleSheet(LOOK)
    said = QLabel("nothing", window)
    said.setGeometry(40, 340, 400, 40)
    menu = Menu(window)
    start, stop = QPushButton("Start", window), QPushButton("Stop", window)
    start.setGeometry(500, 40, 160, 60)
    stop.setGeometry(500, 200, 160, 60)
    for button in (start, stop, menu.item):
        button.clicked.connect(partial(lambda word, _: said.setText(word), button.text()))
    window.setGeometry(application.primaryScreen().geometry())
    window.show()
    sys.exit(application.exec())
