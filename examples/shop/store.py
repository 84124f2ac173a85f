"""What the shop knows, and the files in which it keeps it; nothing here is seen on the
screen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catalogue import PRODUCTS, money
from PySide6.QtCore import QObject, Signal

ACCOUNTS = {"alice": "wonderland", "bob": "builder"}
FIRST_ORDER_NUMBER = 1001


class Store(QObject):
    """The state of the shop. Every change is written to `directory` before `changed` is
    sent.
    """

    changed = Signal()

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self.user = ""
        self.page = "sign in"
        self.failed_sign_ins = 0
        self.basket: dict[str, int] = {}
        self.times_emptied = 0
        self.orders: list[dict[str, Any]] = []
        self.gift_box: list[str] = []
        self.stock_report = "not loaded"
        self.terms_accepted = False
        self._write()

    @property
    def total(self) -> int:
        """The price of the basket, in cents."""
        return sum(
            product.price * self.basket.get(product.name, 0) for product in PRODUCTS
        )

    def sign_in(self, name: str, password: str) -> bool:
        known = name in ACCOUNTS and ACCOUNTS[name] == password
        if known:
            self.user = name
        else:
            self.failed_sign_ins += 1
        self._commit()
        return known

    def sign_out(self) -> None:
        self.user = ""
        self._commit()

    def show(self, page: str) -> None:
        self.page = page
        self._commit()

    def change_quantity(self, name: str, by: int) -> None:
        self.basket[name] = self.basket.get(name, 0) + by
        if self.basket[name] <= 0:
            del self.basket[name]
        self._commit()

    def remove(self, name: str) -> None:
        del self.basket[name]
        self._commit()

    def empty_basket(self) -> None:
        self.basket.clear()
        self.times_emptied += 1
        self._commit()

    def place_order(self, details: Mapping[str, Any]) -> int:
        """Order what is in the basket; returns the number of the order."""
        number = FIRST_ORDER_NUMBER + len(self.orders)
        self.orders.append(
            {
                "number": number,
                "total": money(self.total),
                "products": dict(self.basket),
                **details,
            }
        )
        self.basket.clear()
        self._commit()
        return number

    def save_notes(self, text: str) -> None:
        self._replace("notes.txt", text)

    def fill_gift_box(self, names: Sequence[str]) -> None:
        self.gift_box = list(names)
        self._commit()

    def report_stock(self, stage: str) -> None:
        self.stock_report = stage
        self._commit()

    def accept_terms(self) -> None:
        self.terms_accepted = True
        self._commit()

    def _commit(self) -> None:
        self._write()
        self.changed.emit()

    def _write(self) -> None:
        self._replace(
            "orders.csv",
            "\n".join(["product;quantity;status", *self._order_lines(), ""]),
        )
        self._replace("state.json", json.dumps(self._as_json(), indent=2))

    def _order_lines(self) -> list[str]:
        ordered = [
            f"{name};{n};ordered"
            for order in self.orders
            for name, n in order["products"].items()
        ]
        return ordered + [f"{name};{n};basket" for name, n in self.basket.items()]

    def _as_json(self) -> dict[str, Any]:
        return {
            "user": self.user,
            "page": self.page,
            "failed_sign_ins": self.failed_sign_ins,
            "basket": self.basket,
            "times_emptied": self.times_emptied,
            "total": money(self.total),
            "orders": self.orders,
            "gift_box": self.gift_box,
            "stock_report": self.stock_report,
            "terms_accepted": self.terms_accepted,
        }

    def _replace(self, name: str, text: str) -> None:
        """Write a file in one stroke, so that a reader sees the old text or the new
        one, never half of it.
        """
        unfinished = self._directory / f".{name}.unfinished"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self._directory / name)
