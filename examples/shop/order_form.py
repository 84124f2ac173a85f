"""The order form: where the things go, and how."""

from __future__ import annotations

from typing import TypeVar

from dialogs import tell
from look import FIELD_HEIGHT, MARGIN, Page, button, card, field, label
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QRadioButton
from store import Store

STANDARD, EXPRESS = "Standard", "Express"
Choice = TypeVar("Choice", bound=QAbstractButton)


class OrderForm(Page):
    """Name, street, city, delivery, gift wrap; all three lines must be filled in, and
    the basket too.
    """

    def __init__(self, store: Store) -> None:
        super().__init__("Order form", "Where shall we bring it?")
        self._store = store
        form = card(self, (MARGIN, 140, 720, 600))
        self._fields = {
            name: field(form, name, (40, 62 + index * 96, 640, FIELD_HEIGHT))
            for index, name in enumerate(("Name", "Street", "City"))
        }
        label(form, "Delivery", (40, 330, 640, 26), kind="quiet")
        self._standard = _choice(QRadioButton(f"{STANDARD}, 3 days", form), 40, 360)
        self._express = _choice(QRadioButton(f"{EXPRESS}, tomorrow", form), 360, 360)
        self._standard.setChecked(True)
        self._gift_wrap = _choice(QCheckBox("Gift wrap", form), 40, 420)
        self._error = label(form, "", (40, 476, 640, 28), kind="error")
        place = button(form, "Place order", (40, 516, 640, 52), kind="primary")
        place.clicked.connect(self._place_order)

    def _place_order(self) -> None:
        self._error.setText(self._problem())
        if self._error.text():
            return
        name = self._fields["Name"].text()
        number = self._store.place_order(self._details())
        self._clear()
        tell(self, f"Thank you, {name}", f"Order {number} is on its way.")

    def _problem(self) -> str:
        missing = [
            name.lower()
            for name, line in self._fields.items()
            if not line.text().strip()
        ]
        if missing:
            return f"Please fill in: {', '.join(missing)}"
        return "" if self._store.basket else "The basket is empty"

    def _details(self) -> dict[str, str | bool]:
        return {
            **{name.lower(): line.text() for name, line in self._fields.items()},
            "delivery": (EXPRESS if self._express.isChecked() else STANDARD).lower(),
            "gift_wrap": self._gift_wrap.isChecked(),
        }

    def _clear(self) -> None:
        for line in self._fields.values():
            line.clear()
        self._standard.setChecked(True)
        self._gift_wrap.setChecked(False)


def _choice(widget: Choice, left: int, top: int) -> Choice:
    widget.setGeometry(left, top, 310, 44)
    return widget
