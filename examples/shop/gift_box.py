"""The gift box: products are dragged from one list into the other."""

from __future__ import annotations

from catalogue import PRODUCTS
from look import MARGIN, Page, label
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QDrag, QDropEvent, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QWidget
from store import Store

LIST_WIDTH, LIST_HEIGHT = 500, 560
OFF_THE_SCREEN = 100_000


class GiftBox(Page):
    """Two lists; what is dragged moves, within a list too."""

    def __init__(self, store: Store) -> None:
        super().__init__(
            "Gift box",
            "Drag products into the box, in the order in which they shall be packed",
        )
        self._store = store
        label(self, "On the shelf", (MARGIN, 140, LIST_WIDTH, 32), kind="name")
        shelf = _list(self, MARGIN)
        shelf.addItems([product.name for product in PRODUCTS])
        label(self, "In the box", (MARGIN + 604, 140, LIST_WIDTH, 32), kind="name")
        self._box = _list(self, MARGIN + 604)
        for signal in (
            self._box.model().rowsInserted,
            self._box.model().rowsRemoved,
            self._box.model().rowsMoved,
            self._box.model().dataChanged,
        ):
            signal.connect(self._packed)

    def _packed(self) -> None:
        names = [self._box.item(row).text() for row in range(self._box.count())]
        self._store.fill_gift_box([name for name in names if name])


def _list(parent: QWidget, left: int) -> QListWidget:
    made = Rows(parent)
    made.setGeometry(left, 184, LIST_WIDTH, LIST_HEIGHT)
    made.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
    made.setDefaultDropAction(Qt.DropAction.MoveAction)
    return made


class Rows(QListWidget):
    """Its rows are dragged with their picture off the screen, as Qt's VNC server
    sometimes leaves a ghost of it.
    """

    _landed_here = False

    def startDrag(self, actions: Qt.DropAction) -> None:
        rows = [index.row() for index in self.selectedIndexes()]
        drag = QDrag(self)
        drag.setMimeData(self.model().mimeData(self.selectedIndexes()))
        drag.setPixmap(QPixmap(1, 1))
        drag.setHotSpot(QPoint(OFF_THE_SCREEN, OFF_THE_SCREEN))
        self._landed_here = False
        action = drag.exec(actions, self.defaultDropAction())
        if action == Qt.DropAction.MoveAction and not self._landed_here:
            for row in rows:
                self.model().removeRow(row)

    def dropEvent(self, event: QDropEvent) -> None:
        super().dropEvent(event)
        self._landed_here = True
