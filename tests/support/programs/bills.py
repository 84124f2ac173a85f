"""A Qt program for tests of values: bills with a title and an amount, of which the last
one is shown.

It adds each bill to `bills.csv`. `--fault=amount` stores and shows another amount than
was typed, from the second bill of a directory on; `--fault=label` has another text
beside the amount that is shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPushButton, QWidget


class Bills(QWidget):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault
        self._title = self._field("Title", 40)
        self._amount = self._field("Amount", 100)
        save = QPushButton("Save", self)
        save.setGeometry(160, 160, 160, 40)
        save.clicked.connect(self._save)
        self._label("Last bill", 240)
        self._last = QLabel(self)
        self._last.setGeometry(160, 240, 300, 40)
        self._label("Sum", 300)
        self._sum = QLabel(self)
        self._sum.setGeometry(160, 300, 300, 40)

    def _label(self, text: str, top: int) -> QLabel:
        label = QLabel(text, self)
        label.setGeometry(40, top, 110, 40)
        return label

    def _field(self, text: str, top: int) -> QLineEdit:
        self._label(text, top)
        field = QLineEdit(self)
        field.setGeometry(160, top, 300, 40)
        return field

    def _save(self) -> None:
        amount = self._amount.text()
        if self._fault == "amount":
            amount = f"9{amount}"
        title = self._title.text()
        with Path("bills.csv").open("a", encoding="utf-8") as file:
            file.write(f"{title};{amount}\n")
        self._last.setText(title)
        self._sum.setText(amount)
        if self._fault == "label":
            self._label("Smu", 300).show()
        self._title.clear()
        self._amount.clear()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="")
    fault = parser.parse_args().fault
    application = QApplication([])
    window = Bills(fault)
    window.setWindowTitle("Bills")
    window.resize(800, 400)
    window.show()
    application.exec()


if __name__ == "__main__":
    main()
