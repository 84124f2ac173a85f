"""A Qt program for tests of what happens later: a field, a button that saves, a status, and what goes wrong after that.

`--error-after=SECONDS` shows an error over a third of the screen so long after the button was clicked, which goes away
after `--error-for`; `--vanish-after` takes the result away. `--blink=TEXT` shows a text every other half second,
`--steady=TEXT` all the time. With `--field` a field gets the focus then, with its caret. The file `go` makes it say
"gone".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPushButton, QWidget

BLINK_MS = 400


class Later(QWidget):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self._options = options
        button = QPushButton("Save", self)
        button.setGeometry(60, 200, 160, 48)
        button.clicked.connect(self._save)
        self._result = self._label("not saved", 60, 120)
        self._state = self._label(options.blink or options.steady, 500, 120)
        self._error = self._label("ERROR 500", 0, 0)
        self._error.setGeometry(0, 260, 800, 140)
        self._error.setStyleSheet("background: #c00000; color: white; font-size: 40px")
        self._error.hide()
        self._field = QLineEdit(self)
        self._field.setGeometry(500, 200, 160, 48)
        self._field.setVisible(options.field)
        self._every(BLINK_MS, self._blink)
        self._every(50, self._look)

    def _label(self, text: str, left: int, top: int) -> QLabel:
        label = QLabel(text, self)
        label.setGeometry(left, top, 240, 40)
        return label

    def _every(self, duration_ms: int, call: object) -> None:
        timer = QTimer(self)
        timer.timeout.connect(call)
        timer.start(duration_ms)

    def _save(self) -> None:
        self._result.setText("saved")
        self._field.setFocus()
        options = self._options
        if options.vanish_after:
            QTimer.singleShot(int(1000 * options.vanish_after), lambda: self._result.setText(""))
        if options.error_after:
            QTimer.singleShot(int(1000 * options.error_after), self._error.show)
        if options.error_for:
            QTimer.singleShot(int(1000 * (options.error_after + options.error_for)), self._error.hide)

    def _blink(self) -> None:
        if self._options.blink:
            self._state.setText("" if self._state.text() else self._options.blink)

    def _look(self) -> None:
        if Path("go").exists():
            self._result.setText("gone")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--error-after", type=float, default=0.0)
    parser.add_argument("--error-for", type=float, default=0.0)
    parser.add_argument("--vanish-after", type=float, default=0.0)
    parser.add_argument("--field", action="store_true")
    parser.add_argument("--blink", default="")
    parser.add_argument("--steady", default="")
    given = parser.parse_args()
    application = QApplication(sys.argv[:1])
    window = Later(given)
    window.setGeometry(application.primaryScreen().geometry())
    window.show()
    sys.exit(application.exec())
