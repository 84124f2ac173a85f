"""A Qt program for tests of covers: a field that shows what is typed, and after Enter a page that greets with it.

`--wrong` shows another last character than was typed; `--hidden` shows dots.
"""

from __future__ import annotations

import sys

from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QWidget


class SignIn(QWidget):
    def __init__(self, options: list[str]) -> None:
        super().__init__()
        QLabel("Your code", self).setGeometry(60, 20, 300, 24)
        self._code = QLineEdit(self)
        self._code.setGeometry(60, 50, 300, 36)
        if "--hidden" in options:
            self._code.setEchoMode(QLineEdit.EchoMode.Password)
        if "--wrong" in options:
            self._code.textEdited.connect(self._spoil)
        self._code.returnPressed.connect(self._greet)
        self._page = QLabel("", self)
        self._page.setGeometry(60, 220, 500, 40)

    def _spoil(self, text: str) -> None:
        self._code.setText(text[:-1] + ("3" if len(text) == 10 else text[-1]))

    def _greet(self) -> None:
        self._page.setText(f"{self._code.text()} is signed in")
        self._code.clear()


if __name__ == "__main__":
    application = QApplication(sys.argv)
    window = SignIn(sys.argv[1:])
    window.setGeometry(application.primaryScreen().geometry())
    window.show()
    sys.exit(application.exec())
