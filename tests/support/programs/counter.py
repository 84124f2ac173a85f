"""A Qt program for tests of rounds: a title, two buttons and a status. Some texts are
options, so that another version of it is another title, or another status after the
first button, or a toast beside it.

It appends the name of each button that was clicked to the file of `--clicks`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget


class Counter(QWidget):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self._options = options
        QLabel(options.title, self).setGeometry(20, 10, 300, 30)
        self._status = QLabel("nothing", self)
        self._status.setGeometry(20, 240, 300, 30)
        for text, top in (("one", 80), ("two", 160)):
            button = QPushButton(text, self)
            button.setGeometry(20, top, 120, 40)
            button.clicked.connect(partial(self._click, text))

    def _click(self, text: str) -> None:
        with self._options.clicks.open("a", encoding="utf-8") as file:
            print(text, file=file)
        self._status.setText(self._options.one if text == "one" else "second")
        if text == "one" and self._options.toast:
            toast = QLabel(self._options.toast, self)
            toast.setStyleSheet("background: #ffe0a0")
            toast.setGeometry(200, 100, 160, 40)
            toast.show()
            QTimer.singleShot(600, toast.deleteLater)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--title", default="Counter")
    parser.add_argument("--one", default="first")
    parser.add_argument("--toast", default="")
    parser.add_argument("--clicks", type=Path, required=True)
    options = parser.parse_args()
    application = QApplication(sys.argv[:1])
    counter = Counter(options)
    counter.setGeometry(application.primaryScreen().geometry())
    counter.show()
    sys.exit(application.exec())
