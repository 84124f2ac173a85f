"""The examples' shop with a seeded bug: `python tests/support/programs/buggy_shop.py
wrong_total`; without a bug "".

Each is a bug as products have them: a wrong sum, a label in another language, a button
without effect. It is put in from outside, so that the shop itself knows nothing of it.
What shows each one is a walk through examples/test_shop.py.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

SHOP = Path(__file__).parents[3] / "examples" / "shop"
sys.path.insert(0, str(SHOP))

import basket  # noqa: E402  # the shop's modules, once its directory is on the path
import catalogue  # noqa: E402
import gift_box  # noqa: E402
import look  # noqa: E402
import notes  # noqa: E402
import order_form  # noqa: E402
import products  # noqa: E402
import sign_in  # noqa: E402
import stock_report  # noqa: E402
import store  # noqa: E402
import terms  # noqa: E402
import window  # noqa: E402
from PySide6.QtCore import QTimer  # noqa: E402
from PySide6.QtWidgets import QWidget  # noqa: E402

Bug = Callable[[], object]
BUGS: dict[str, Bug] = {}
"""By its name, what puts a bug in."""


def main(bug: str) -> None:
    if bug:
        BUGS[bug]()
    runpy.run_path(str(SHOP / "__main__.py"), run_name="__main__")


def seeded(bug: Bug) -> Bug:
    BUGS[bug.__name__] = bug
    return bug


def after(owner: type, method: str, also: Callable[..., object]) -> None:
    """Have `also(self, …)` run after the method, with what the method got."""
    really = getattr(owner, method)

    def both(self: Any, *arguments: Any, **keywords: Any) -> Any:
        result = really(self, *arguments, **keywords)
        also(self, *arguments, **keywords)
        return result

    setattr(owner, method, both)


def instead(owner: Any, name: str, other: Callable[..., object]) -> None:
    """Have `other(really, …)` called in place of a function, which is `really`."""
    really = getattr(owner, name)
    setattr(
        owner,
        name,
        lambda *arguments, **keywords: other(really, *arguments, **keywords),
    )


def reworded(module: Any, make: str, text: str, other: str) -> None:
    instead(
        module,
        make,
        lambda really, parent, had, *more, **keys: really(
            parent, had.replace(text, other), *more, **keys
        ),
    )


def with_other_details(**other: str | bool) -> None:
    instead(
        order_form.OrderForm, "_details", lambda really, self: {**really(self), **other}
    )


def with_other_product(module: Any, name: str, **other: int) -> None:
    products = {product.name: product for product in module.PRODUCTS}
    products[name] = replace(products[name], **other)
    module.PRODUCTS = tuple(products.values())


def error(parent: QWidget, place: look.Box, shown_ms: int = 0) -> None:
    made = look.label(parent, "ERROR 500", place, kind="error")
    made.setStyleSheet("background: #f9dedc")
    made.show()
    if shown_ms:
        QTimer.singleShot(shown_ms, made.deleteLater)


def later(after_ms: int, do: Callable[[Any], object]) -> None:
    after(
        notes.Notes,
        "_save_text",
        lambda self: QTimer.singleShot(after_ms, lambda: do(self)),
    )


@seeded
def wrong_order_of_rows() -> None:
    def refresh_backwards(self: Any) -> None:
        filled = [row for row in self._rows if row.quantity]
        for index, row in enumerate(reversed(filled)):
            row.move(
                look.MARGIN,
                basket.FIRST_ROW + index * (basket.ROW_HEIGHT + basket.ROW_GAP),
            )

    after(basket.Basket, "_refresh", refresh_backwards)


@seeded
def stale_list() -> None:
    def refresh_once(really: Any, self: Any) -> None:
        if not any(row.isVisibleTo(self) for row in self._rows):
            really(self)

    instead(basket.Basket, "_refresh", refresh_once)


@seeded
def dragged_thing_stays() -> None:
    def copying(really: Any, parent: Any, left: int) -> Any:
        made = really(parent, left)
        made.setDefaultDropAction(gift_box.Qt.DropAction.CopyAction)
        return made

    instead(gift_box, "_list", copying)


@seeded
def lost_update() -> None:
    def once(really: Any, self: Any, name: str, by: int) -> None:
        if by < 0 or name not in self.basket:
            really(self, name, by)

    instead(store.Store, "change_quantity", once)


@seeded
def another_row_says_99() -> None:
    def refresh(self: Any) -> None:
        if 2 in self._store.basket.values() and self.quantity == 1:
            self._quantity.setText("99")

    after(basket.BasketRow, "refresh", refresh)


BOX = (600, 20, 300, 60)
BANNER = (0, 600, 1440, 300)
PASSWORD = (540, 450, 200, 36)
BUGS |= {
    "wrong_total": lambda: setattr(
        store.Store,
        "total",
        property(
            lambda it: sum(
                one.price for one in catalogue.PRODUCTS if it.basket.get(one.name)
            )
        ),
    ),
    "wrong_total_shown": lambda: after(
        basket.Basket,
        "_refresh",
        lambda it: it._total.setText(f"Total {catalogue.money(it._store.total + 1)}"),
    ),
    "wrong_price": lambda: with_other_product(products, "pears", price=190),
    "wrong_digit_in_a_table": lambda: with_other_product(
        stock_report,
        next(one.name for one in stock_report.PRODUCTS if one.in_stock == 120),
        in_stock=102,
    ),
    "off_by_one": lambda: after(
        basket.BasketRow,
        "refresh",
        lambda it: it._quantity.setText(str(it.quantity + 1)),
    ),
    "counter_not_shown": lambda: after(
        window.Sidebar, "_refresh", lambda it: it._buttons["Basket"].setText("Basket")
    ),
    "item_missing": lambda: setattr(products, "PRODUCTS", products.PRODUCTS[:-1]),
    "dropped_at_the_wrong_end": lambda: instead(
        store.Store, "fill_gift_box", lambda really, it, names: really(it, names[::-1])
    ),
    "other_language": lambda: reworded(
        products, "button", "Add to basket", "In den Warenkorb"
    ),
    "spelling": lambda: reworded(sign_in, "label", "password", "pasword"),
    "wrong_colour_of_a_state": lambda: after(
        sign_in.SignIn, "__init__", lambda it, _: it._error.setProperty("kind", "good")
    ),
    "wrong_name_shown": lambda: after(
        window.Sidebar, "_refresh", lambda it: it._user.setText("Signed in: bob")
    ),
    "wrong_heading": lambda: after(
        order_form.OrderForm,
        "__init__",
        lambda it, _: it.children()[0].setText("Basket"),
    ),
    "thanks_the_wrong_person": lambda: instead(
        order_form,
        "tell",
        lambda really, it, _, text: really(it, "Thank you, {name}", text),
    ),
    "button_without_effect": lambda: setattr(
        order_form.OrderForm, "_place_order", lambda it: None
    ),
    "popup_missing": lambda: setattr(basket, "ask", lambda *question, **answers: True),
    "escape_means_yes": lambda: instead(
        basket,
        "ask",
        lambda really, *question, **answers: really(*question, **answers) or True,
    ),
    "choice_not_kept": lambda: with_other_details(delivery="standard"),
    "tick_not_kept": lambda: with_other_details(gift_wrap=False),
    "form_not_cleared": lambda: setattr(
        order_form.OrderForm, "_clear", lambda it: None
    ),
    "any_case_will_do": lambda: instead(
        store.Store,
        "sign_in",
        lambda really, it, name, typed: really(it, name, typed.lower()),
    ),
    "no_message": lambda: setattr(
        sign_in.SignIn,
        "_sign_in",
        lambda it: it._store.sign_in(it._name.text(), it._password.text()) and None,
    ),
    "never_ends_loading": lambda: setattr(
        stock_report.StockReport, "_loaded", lambda it: None
    ),
    "can_be_done_twice": lambda: after(
        stock_report.StockReport, "_confirmed", lambda it: it._confirm.setEnabled(True)
    ),
    "not_said_that_it_is_done": lambda: after(
        terms.Terms, "_accepted", lambda it: it._status.clear()
    ),
    "adding_changes_who_is_signed_in": lambda: after(
        window.Sidebar,
        "_refresh",
        lambda it: it._store.basket and it._user.setText("Signed in: mallory"),
    ),
    "button_moves": lambda: after(
        basket.Basket,
        "_refresh",
        lambda it: it._store.basket and it._empty.move(look.MARGIN + 12, 776),
    ),
    "banner_after_each_input": lambda: after(
        window.ShopWindow,
        "_refresh",
        lambda it: QTimer.singleShot(1000, lambda: error(it, BANNER)),
    ),
    "toast_at_the_end": lambda: after(
        window.Desk, "open", lambda it, page: page == "Basket" and error(it, BOX, 400)
    ),
    "box_after_signing_in": lambda: after(
        window.Desk,
        "open",
        lambda it, page: page == "Products" and error(it, BOX, 1500),
    ),
    "text_where_the_password_was": lambda: after(
        window.Desk, "open", lambda it, page: page == "Products" and error(it, PASSWORD)
    ),
    "dialog_at_the_end": lambda: later(
        0, lambda it: order_form.tell(it, "Really?", "")
    ),
    "wrong_file": lambda: setattr(
        store.Store, "save_notes", lambda it, text: it._replace("note.txt", text)
    ),
    "wrong_characters_in_a_file": lambda: instead(
        store.Store,
        "save_notes",
        lambda really, it, text: really(it, text.encode("ascii", "replace").decode()),
    ),
    "said_but_not_done": lambda: setattr(
        notes.Notes, "_save_text", lambda it: it._status.setText("Saved")
    ),
}
for _ms in (300, 600, 1000):
    BUGS |= {
        f"error_{_ms}_ms_after_saving": lambda ms=_ms: later(
            ms, lambda it: error(it, BOX)
        ),
        f"saved_goes_after_{_ms}_ms": lambda ms=_ms: later(
            ms, lambda it: it._status.clear()
        ),
    }


if __name__ == "__main__":
    main(sys.argv[1])
