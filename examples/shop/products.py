"""The product list: a card for each product, and a button that adds it to the
basket.
"""

from __future__ import annotations

from catalogue import PRODUCTS, Product, money
from look import MARGIN, Page, Surface, button, label
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget
from store import Store

COLUMNS = 4
CARD_WIDTH, CARD_HEIGHT, GAP = 258, 340, 24
PICTURE_SIZE = 112


class Products(Page):
    """All products, four in a row."""

    def __init__(self, store: Store) -> None:
        super().__init__("Products", "Choose what you like; it goes to the basket")
        for index, product in enumerate(PRODUCTS):
            row, column = divmod(index, COLUMNS)
            shown = ProductCard(self, product, store)
            shown.move(
                MARGIN + column * (CARD_WIDTH + GAP), 140 + row * (CARD_HEIGHT + GAP)
            )


class ProductCard(Surface):
    """One product: picture, name, price, and how many are in the basket."""

    def __init__(self, parent: QWidget, product: Product, store: Store) -> None:
        super().__init__("card", parent)
        self.setFixedSize(CARD_WIDTH, CARD_HEIGHT)
        self._product, self._store = product, store
        Picture(self, product).move((CARD_WIDTH - PICTURE_SIZE) // 2, 28)
        label(self, product.name.capitalize(), (24, 164, 210, 30), kind="name")
        label(self, money(product.price), (24, 196, 210, 26))
        self._count = label(self, "", (24, 228, 210, 26), kind="good")
        add = button(self, "Add to basket", (24, 270, 210, 48), kind="primary")
        add.setAccessibleName(f"Add {product.name} to basket")
        add.clicked.connect(lambda: store.change_quantity(product.name, +1))
        store.changed.connect(self._refresh)

    def _refresh(self) -> None:
        count = self._store.basket.get(self._product.name, 0)
        self._count.setText(f"{count} in basket" if count else "")


class Picture(QWidget):
    """A round picture of a product: its first letter on its colour."""

    def __init__(self, parent: QWidget, product: Product) -> None:
        super().__init__(parent)
        self.setFixedSize(PICTURE_SIZE, PICTURE_SIZE)
        self._product = product

    def paintEvent(self, event: QPaintEvent) -> None:
        circle = QRect(4, 4, PICTURE_SIZE - 8, PICTURE_SIZE - 8)
        letter = QFont(self.font())
        letter.setPixelSize(52)
        letter.setBold(True)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(self._product.colour))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawEllipse(circle)
            painter.setPen(QColor("white"))
            painter.setFont(letter)
            painter.drawText(
                circle, Qt.AlignmentFlag.AlignCenter, self._product.name[0].upper()
            )
