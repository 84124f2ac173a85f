"""The stock report: a page that takes its time to load."""

from __future__ import annotations

from catalogue import PRODUCTS
from look import MARGIN, Page, button, label
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)
from store import Store

LOADING_TIME_MS = 2500


class StockReport(Page):
    """Nothing until it is asked for, then `Loading`, then a table that can be
    confirmed.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(
            "Stock report", "Comes from the warehouse, which is not in a hurry"
        )
        self._store = store
        self._load = button(self, "Load report", (MARGIN, 140, 220, 52), kind="primary")
        self._status = label(self, "", (300, 140, 600, 52), kind="name")
        self._table = _table(self)
        self._table.hide()
        self._confirm = button(
            self, "Confirm stock", (MARGIN, 776, 220, 52), kind="primary"
        )
        self._confirm.setEnabled(False)
        self._load.clicked.connect(self._start)
        self._confirm.clicked.connect(self._confirmed)

    def _start(self) -> None:
        self._load.setEnabled(False)
        self._status.setText("Loading, please wait\N{HORIZONTAL ELLIPSIS}")
        self._store.report_stock("loading")
        QTimer.singleShot(LOADING_TIME_MS, self._loaded)

    def _loaded(self) -> None:
        self._status.setText("Report of the main warehouse")
        self._table.show()
        self._confirm.setEnabled(True)
        self._store.report_stock("loaded")

    def _confirmed(self) -> None:
        self._confirm.setEnabled(False)
        self._status.setText("Stock confirmed")
        self._store.report_stock("confirmed")


def _table(parent: QWidget) -> QTableWidget:
    table = QTableWidget(len(PRODUCTS), 2, parent)
    table.setGeometry(MARGIN, 220, 720, 508)
    table.setHorizontalHeaderLabels(["Product", "In stock"])
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(56)
    table.horizontalHeader().setFixedHeight(52)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
    for row, product in enumerate(PRODUCTS):
        table.setItem(row, 0, QTableWidgetItem(product.name.capitalize()))
        table.setItem(row, 1, QTableWidgetItem(str(product.in_stock)))
    return table
