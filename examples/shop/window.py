"""The window of the shop: sign-in first, then the sidebar and one of the pages."""

from __future__ import annotations

from basket import Basket
from gift_box import GiftBox
from look import PAGE_HEIGHT, PAGE_WIDTH, SIDEBAR_WIDTH, Page, Surface, button, label
from notes import Notes
from order_form import OrderForm
from products import Products
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QPushButton, QStackedWidget
from sign_in import SignIn
from stock_report import StockReport
from store import Store
from terms import Terms


class ShopWindow(QStackedWidget):
    """Shows the sign-in page while no user is signed in, and the desk otherwise."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._sign_in = SignIn(store)
        self._desk = Desk(store)
        self.addWidget(self._sign_in)
        self.addWidget(self._desk)
        self._sign_in.start()
        store.changed.connect(self._refresh)

    def _refresh(self) -> None:
        if self._store.user and self.currentWidget() is self._sign_in:
            self.setCurrentWidget(self._desk)
            self._desk.open("Products")
        elif not self._store.user and self.currentWidget() is self._desk:
            self.setCurrentWidget(self._sign_in)
            self._sign_in.start()
            self._store.show("sign in")


class Desk(Surface):
    """Sidebar and pages; Ctrl+1 to Ctrl+7 open the pages too."""

    def __init__(self, store: Store) -> None:
        super().__init__("desk")
        self._store = store
        self._pages = _pages(store, self)
        self._stack = QStackedWidget(self)
        self._stack.setGeometry(SIDEBAR_WIDTH, 0, PAGE_WIDTH, PAGE_HEIGHT)
        for page in self._pages.values():
            self._stack.addWidget(page)
        self._sidebar = Sidebar(self, store)

    def open(self, name: str) -> None:
        """Show the page of this name."""
        self._stack.setCurrentWidget(self._pages[name])
        self._sidebar.mark(name)
        self._pages[name].setFocus()
        self._store.show(name.lower())

    @property
    def names(self) -> list[str]:
        """The names of the pages, in the order of the sidebar."""
        return list(self._pages)


class Sidebar(Surface):
    """A button for each page, and who is signed in."""

    def __init__(self, desk: Desk, store: Store) -> None:
        super().__init__("sidebar", desk)
        self.setGeometry(0, 0, SIDEBAR_WIDTH, PAGE_HEIGHT)
        self._store = store
        label(self, "Orchard Lane", (24, 36, 204, 40)).setObjectName("brand")
        self._buttons = {
            name: self._place(desk, index, name)
            for index, name in enumerate(desk.names)
        }
        self._user = label(self, "", (24, 776, 204, 28))
        leave = button(self, "Sign out", (12, 816, 216, 48), kind="place")
        leave.clicked.connect(store.sign_out)
        store.changed.connect(self._refresh)

    def mark(self, name: str) -> None:
        self._buttons[name].setChecked(True)

    def _place(self, desk: Desk, index: int, name: str) -> QPushButton:
        made = button(self, name, (12, 120 + index * 56, 216, 48), kind="place")
        made.setCheckable(True)
        made.setAutoExclusive(True)
        made.clicked.connect(lambda: desk.open(name))
        QShortcut(QKeySequence(f"Ctrl+{index + 1}"), desk).activated.connect(
            lambda: desk.open(name)
        )
        return made

    def _refresh(self) -> None:
        self._user.setText(f"Signed in: {self._store.user}")
        count = sum(self._store.basket.values())
        self._buttons["Basket"].setText(f"Basket ({count})" if count else "Basket")


def _pages(store: Store, desk: Desk) -> dict[str, Page]:
    return {
        "Products": Products(store),
        "Basket": Basket(store, order=lambda: desk.open("Order form")),
        "Order form": OrderForm(store),
        "Notes": Notes(store),
        "Stock report": StockReport(store),
        "Gift box": GiftBox(store),
        "Terms": Terms(store),
    }
