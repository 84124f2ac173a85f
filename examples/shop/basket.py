"""The basket: what was chosen, how much of it, and what it costs."""

from __future__ import annotations

from collections.abc import Callable

from catalogue import PRODUCTS, Product, money
from dialogs import ask
from look import MARGIN, Page, Surface, button, label
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from store import Store

ROW_WIDTH, ROW_HEIGHT, ROW_GAP = 1104, 64, 8
FIRST_ROW = 140
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class Basket(Page):
    """One row a product, in the order of the catalogue, and the total below."""

    def __init__(self, store: Store, *, order: Callable[[], None]) -> None:
        super().__init__("Basket", "What you have chosen so far")
        self._store = store
        self._rows = [BasketRow(self, product, store) for product in PRODUCTS]
        self._nothing = label(
            self, "The basket is empty", (MARGIN, FIRST_ROW, 600, 40), kind="name"
        )
        self._empty = button(
            self, "Empty basket", (MARGIN, 776, 220, 52), kind="danger"
        )
        self._total = label(self, "", (620, 776, 280, 52), kind="total")
        self._total.setAlignment(RIGHT)
        self._order = button(self, "Order", (932, 776, 220, 52), kind="primary")
        self._empty.clicked.connect(self._ask_to_empty)
        self._order.clicked.connect(order)
        store.changed.connect(self._refresh)

    def _refresh(self) -> None:
        filled = [row for row in self._rows if row.quantity]
        for row in self._rows:
            row.setVisible(row in filled)
        for index, row in enumerate(filled):
            row.move(MARGIN, FIRST_ROW + index * (ROW_HEIGHT + ROW_GAP))
            row.refresh()
        self._nothing.setVisible(not filled)
        self._empty.setEnabled(bool(filled))
        self._order.setEnabled(bool(filled))
        self._total.setText(f"Total {money(self._store.total)}")

    def _ask_to_empty(self) -> None:
        if ask(
            self,
            "Empty the basket?",
            "Everything in it will be taken out.",
            yes="Empty it",
            no="Keep it",
        ):
            self._store.empty_basket()


class BasketRow(Surface):
    """One product in the basket."""

    def __init__(self, parent: QWidget, product: Product, store: Store) -> None:
        super().__init__("card", parent)
        self.setFixedSize(ROW_WIDTH, ROW_HEIGHT)
        self._product, self._store = product, store
        label(self, product.name.capitalize(), (24, 0, 260, ROW_HEIGHT), kind="name")
        label(
            self,
            f"{money(product.price)} each",
            (290, 0, 160, ROW_HEIGHT),
            kind="quiet",
        )
        less = button(self, "\N{MINUS SIGN}", (480, 10, 52, 44))
        self._quantity = label(self, "", (540, 0, 60, ROW_HEIGHT))
        self._quantity.setAlignment(Qt.AlignmentFlag.AlignCenter)
        more = button(self, "+", (608, 10, 52, 44))
        self._cost = label(self, "", (680, 0, 170, ROW_HEIGHT), kind="name")
        self._cost.setAlignment(RIGHT)
        remove = button(self, "Remove", (924, 10, 156, 44), kind="danger")
        less.clicked.connect(lambda: store.change_quantity(product.name, -1))
        more.clicked.connect(lambda: store.change_quantity(product.name, +1))
        remove.clicked.connect(lambda: store.remove(product.name))

    @property
    def quantity(self) -> int:
        return self._store.basket.get(self._product.name, 0)

    def refresh(self) -> None:
        self._quantity.setText(str(self.quantity))
        self._cost.setText(money(self.quantity * self._product.price))
