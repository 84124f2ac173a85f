"""The gift box: products are dragged from one list into the other."""

from __future__ import annotations

from catalogue import PRODUCTS
from look import MARGIN, Page, label
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QWidget
from store import Store

LIST_WIDTH, LIST_HEIGHT = 500, 560


class GiftBox(Page):
    """Two lists; what is dragged moves, within a list too."""

    def __init__(self, store: Store) -> None:
        super().__init__("Gift box", "Drag products into the box, in the order in which they shall be packed")
        self._store = store
        label(self, "On the shelf", (MARGIN, 140, LIST_WIDTH, 32), kind="name")
        shelf = _list(self, MARGIN)
        shelf.addItems([product.name for product in PRODUCTS])
        label(self, "In the box", (MARGIN + 604, 140, LIST_WIDTH, 32), kind="name")
        self._box = _list(self, MARGIN + 604)
        for signal in (self._box.model().rowsInserted, self._box.model().rowsRemoved, self._box.model().dataChanged):
            signal.connect(self._packed)

    def _packed(self) -> None:
        names = [self._box.item(row).text() for row in range(self._box.count())]
        self._store.fill_gift_box([name for name in names if name])


def _list(parent: QWidget, left: int) -> QListWidget:
    made = QListWidget(parent)
    made.setGeometry(left, 184, LIST_WIDTH, LIST_HEIGHT)
    made.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
    made.setDefaultDropAction(Qt.DropAction.MoveAction)
    return made
