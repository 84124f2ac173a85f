"""The form of covers.py as a Qt program: options as `--NAME=VALUE`."""

from __future__ import annotations

import sys

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QWidget


class Form(QWidget):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__()
        self._options = options
        self._code, self._light, self._page = QLineEdit(self), QLabel("", self), QLabel("", self)
        self._code.setGeometry(60, 50, 300, 36)
        self._light.setGeometry(380, 58, 80, 20)
        self._page.setGeometry(60, 220, 500, 40)
        if "hidden" in options:
            self._code.setEchoMode(QLineEdit.EchoMode.Password)
        self._code.textEdited.connect(self._spoil_later)
        self._code.returnPressed.connect(self._greet)
        self._timer = QTimer(self)
        self._timer.timeout.connect(lambda: self._light.setText("" if self._light.text() else "READY"))
        if "blink" in options:
            self._timer.start(int(options["blink"]))

    def _spoil_later(self, text: str) -> None:
        if "wrong" in self._options and len(text) == 10:
            at = int(self._options["wrong"])
            late_ms = int(self._options.get("late", "0"))
            QTimer.singleShot(late_ms, lambda: self._code.setText(f"{text[:at]}3{text[at + 1 :]}"))

    def _greet(self) -> None:
        self._page.setText(f"{self._code.text()} is signed in")
        self._code.clear()


if __name__ == "__main__":
    application = QApplication(sys.argv[:1])
    form = Form(dict(option.removeprefix("--").split("=") for option in sys.argv[1:]))
    form.setGeometry(application.primaryScreen().geometry())
    form.show()
    sys.exit(application.exec())
