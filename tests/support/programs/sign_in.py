"""A Qt program for tests of redaction: a field that shows what is typed, and after
Enter a text.

`--leaves` shows the text where the field was, in place of the form. `--repeats` shows
the code in it too, `--wrong` another name.
"""

from __future__ import annotations

import sys

from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QWidget


class SignIn(QWidget):
    def __init__(self, options: list[str]) -> None:
        super().__init__()
        self._options = options
        self._label = QLabel("Your code", self)
        self._label.setGeometry(60, 20, 300, 24)
        self._code = QLineEdit(self)
        self._code.setGeometry(60, 50, 300, 36)
        self._code.returnPressed.connect(self._greet)
        self._page = QLabel("", self)
        (
            self._page.setGeometry(70, 50, 500, 36)
            if "--leaves" in options
            else self._page.setGeometry(60, 220, 500, 40)
        )

    def _greet(self) -> None:
        name = "alise" if "--wrong" in self._options else "alice"
        self._page.setText(
            f"{self._code.text()} is {name}"
            if "--repeats" in self._options
            else f"Welcome, {name}"
        )
        self._code.clear()
        if "--leaves" in self._options:
            self._label.hide()
            self._code.hide()


if __name__ == "__main__":
    application = QApplication(sys.argv)
    window = SignIn(sys.argv[1:])
    window.setGeometry(application.primaryScreen().geometry())
    window.show()
    sys.exit(application.exec())
