"""How the shop looks: its colours, and the few kinds of widgets that every page is made
of.

Everything stands at a fixed place with a fixed size in pixels, so that a click that was
right once is right everywhere.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QWidget

SIDEBAR_WIDTH = 240
PAGE_WIDTH, PAGE_HEIGHT = 1200, 900
MARGIN = 48
FIELD_HEIGHT = 48
FONT, FONT_SIZE_PX = "Orchard Lane Sans", 17

STYLE = """
* { font-family: "Orchard Lane Sans"; font-size: 17px; color: #22303c; }
QWidget#page, QWidget#desk { background: #f3f5f7; }
QWidget#sheet { background: white; }
QWidget#sidebar { background: #17324a; }
QWidget#sidebar QLabel { color: #b9c9d6; }
QWidget#sidebar QLabel#brand { color: white; font-size: 26px; font-weight: bold; }
QWidget#card, QDialog { background: white; border: 1px solid #d5dce2; border-radius: 10px; }
QDialog { border: 2px solid #17324a; border-radius: 0; }
QLabel { background: transparent; }
QLabel[kind="title"] { font-size: 30px; font-weight: bold; color: #17324a; }
QLabel[kind="quiet"] { color: #5f6f7c; }
QLabel[kind="name"] { font-size: 20px; font-weight: bold; }
QLabel[kind="total"] { font-size: 26px; font-weight: bold; color: #17324a; }
QLabel[kind="error"] { color: #b3261e; font-weight: bold; }
QLabel[kind="good"] { color: #1d7a46; font-weight: bold; }
QLineEdit, QPlainTextEdit, QListWidget, QScrollArea, QTableWidget {
  background: white; border: 2px solid #c3ccd4; border-radius: 6px; padding: 4px 10px;
  selection-background-color: #1f6fb2; selection-color: white;
}
QLineEdit, QPlainTextEdit { color: black; } /* in some versions of Qt the caret is always black */
QLineEdit:focus, QPlainTextEdit:focus, QListWidget:focus, QScrollArea:focus { border-color: #1f6fb2; }
QPushButton {
  background: white; border: 2px solid #9fb0be; border-radius: 6px; padding: 0 12px; color: #17324a; font-weight: bold;
}
QPushButton:focus { border-color: #17324a; }
QPushButton:pressed { background: #dfe7ee; }
QPushButton[kind="primary"] { background: #1f6fb2; border-color: #1f6fb2; color: white; }
QPushButton[kind="primary"]:focus { border-color: #0c2f4d; }
QPushButton[kind="primary"]:pressed { background: #17568c; }
QPushButton[kind="danger"] { color: #b3261e; border-color: #d9a19d; }
QPushButton:disabled { background: #e4e9ed; border-color: #e4e9ed; color: #8b99a5; }
QPushButton[kind="place"] {
  background: transparent; border: 2px solid transparent; color: #dbe6ee; text-align: left; font-weight: normal;
}
QPushButton[kind="place"]:focus { border-color: #4d84ad; }
QPushButton[kind="place"]:checked { background: #1f6fb2; color: white; font-weight: bold; }
QRadioButton, QCheckBox { spacing: 12px; background: transparent; }
QRadioButton:focus, QCheckBox:focus { color: #1f6fb2; }
QRadioButton::indicator, QCheckBox::indicator {
  width: 22px; height: 22px; border: 2px solid #7d8f9e; background: white;
}
QRadioButton::indicator { border-radius: 13px; }
QCheckBox::indicator { border-radius: 4px; }
QRadioButton::indicator:checked, QCheckBox::indicator:checked { background: #1f6fb2; border: 5px solid #cfe0ee; }
QListWidget::item { height: 52px; padding-left: 10px; border-bottom: 1px solid #e4e9ed; }
QListWidget::item:selected { background: #d7e7f4; color: #17324a; }
QScrollBar:vertical { width: 18px; background: #eef1f4; margin: 0; }
QScrollBar::handle:vertical { background: #9fb0be; border-radius: 5px; min-height: 40px; margin: 3px; }
QScrollBar::add-line, QScrollBar::sub-line { height: 0; }
QTableWidget { gridline-color: #e4e9ed; padding: 0; }
QTableWidget::item { border: 0; padding-left: 14px; }
QHeaderView::section {
  background: #e8eef3; border: none; border-bottom: 2px solid #c3ccd4; padding: 8px 14px; font-weight: bold;
  text-align: left;
}
"""


class Surface(QWidget):
    """A plain rectangle, painted as the style sheet says for its name."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)


class Page(Surface):
    """One page beside the sidebar, with its title."""

    def __init__(self, title: str, hint: str) -> None:
        super().__init__("page")
        label(self, title, (MARGIN, 36, 1100, 44), kind="title")
        label(self, hint, (MARGIN, 84, 1100, 28), kind="quiet")


Box = tuple[int, int, int, int]
"""Left, top, width and height in pixels, inside the parent."""


def label(parent: QWidget, text: str, box: Box, kind: str = "") -> QLabel:
    made = QLabel(text, parent)
    made.setProperty("kind", kind)
    made.setGeometry(*box)
    return made


def button(parent: QWidget, text: str, box: Box, kind: str = "") -> QPushButton:
    made = QPushButton(text, parent)
    made.setProperty("kind", kind)
    made.setGeometry(*box)
    made.setAutoDefault(False)
    return made


def field(parent: QWidget, name: str, box: Box) -> QLineEdit:
    """A line to type in, with its name above it."""
    left, top, width, height = box
    label(parent, name, (left, top - 30, width, 26), kind="quiet")
    made = QLineEdit(parent)
    made.setAccessibleName(name)
    made.setGeometry(left, top, width, height)
    return made


def card(parent: QWidget, box: Box) -> Surface:
    made = Surface("card", parent)
    made.setGeometry(*box)
    return made
