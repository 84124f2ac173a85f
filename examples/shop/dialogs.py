"""The dialogs that pop up over the shop."""

from __future__ import annotations

from look import button, label
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QWidget

WIDTH, HEIGHT = 520, 240


def ask(parent: QWidget, title: str, question: str, yes: str, no: str) -> bool:
    """Ask a question; Escape and Enter mean no."""
    dialog = _dialog(parent, title, question)
    accept = button(dialog, yes, (40, 164, 210, 48), kind="danger")
    reject = button(dialog, no, (270, 164, 210, 48), kind="primary")
    accept.clicked.connect(dialog.accept)
    reject.clicked.connect(dialog.reject)
    reject.setDefault(True)
    reject.setFocus()
    return dialog.exec() == QDialog.DialogCode.Accepted


def tell(parent: QWidget, title: str, message: str) -> None:
    """Say something and wait for OK."""
    dialog = _dialog(parent, title, message)
    accept = button(dialog, "OK", (155, 164, 210, 48), kind="primary")
    accept.clicked.connect(dialog.accept)
    accept.setDefault(True)
    accept.setFocus()
    dialog.exec()


def _dialog(parent: QWidget, title: str, text: str) -> QDialog:
    dialog = QDialog(parent.window())
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setFixedSize(WIDTH, HEIGHT)
    label(dialog, title, (40, 28, 440, 32), kind="name")
    label(dialog, text, (40, 66, 440, 80)).setWordWrap(True)
    screen = parent.window().rect()
    dialog.move((screen.width() - WIDTH) // 2, (screen.height() - HEIGHT) // 2)
    return dialog
