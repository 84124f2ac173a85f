"""A Qt program that writes down what reaches it: `line.txt` and `page.txt` (texts),
`order.txt` (a list that is rearranged by dragging), `scroll.txt` (where the page is
scrolled to), `keys.txt` (one key press a line), and `focused.txt` once its window has
the focus. Clicks within five seconds count as one double or triple click, so that none
is missed on a busy machine.

Laid out for 800 x 600 pixels: the line at y 0 to 40, the list at 50 to 250, the page
below.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QWidget,
)

ITEMS = ["apples", "pears", "plums", "grapes"]


class KeyLog(QObject):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.KeyPress
            and watched is QApplication.focusWidget()
        ):
            with self._path.open("a", encoding="utf-8") as log:
                print(Qt.Key(event.key()).name, event.modifiers().value >> 25, file=log)  # type: ignore[attr-defined]
        return False


def main(directory: Path) -> int:
    application = QApplication([])
    application.setDoubleClickInterval(5000)
    application.focusWindowChanged.connect(
        lambda window: window and (directory / "focused.txt").touch()
    )
    window = QWidget()
    line = QLineEdit(window)
    fruits = QListWidget(window)
    page = QPlainTextEdit(window)
    line.setGeometry(0, 0, 800, 40)
    fruits.setGeometry(0, 50, 800, 200)
    page.setGeometry(0, 260, 800, 340)
    fruits.addItems(ITEMS)
    fruits.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)

    def write_order() -> None:
        names = [fruits.item(row).text() for row in range(fruits.count())]
        if len(names) == len(ITEMS):
            (directory / "order.txt").write_text(" ".join(names))

    line.textChanged.connect(
        lambda text: (directory / "line.txt").write_text(text, encoding="utf-8")
    )
    page.textChanged.connect(
        lambda: (directory / "page.txt").write_text(
            page.toPlainText(), encoding="utf-8"
        )
    )
    page.verticalScrollBar().valueChanged.connect(
        lambda value: (directory / "scroll.txt").write_text(str(value))
    )
    fruits.model().rowsRemoved.connect(write_order)
    fruits.model().rowsMoved.connect(write_order)
    keys = KeyLog(directory / "keys.txt")
    application.installEventFilter(keys)
    window.resize(800, 600)
    window.move(0, 0)
    window.setWindowFlags(Qt.WindowType.FramelessWindowHint)
    window.setWindowTitle("witness")
    window.show()
    line.setFocus()
    return application.exec()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
