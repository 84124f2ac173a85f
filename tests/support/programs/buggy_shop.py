"""The examples' shop with a seeded bug: `python tests/support/programs/buggy_shop.py wrong_total`; alone, their list.

Each is a bug as products have them: a wrong sum, a label in another language, a button without effect. It is put in
from outside, so that the shop itself knows nothing of it. What shows each one is a walk through examples/test_shop.py.
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
BUGS: dict[str, tuple[str, Bug]] = {}
"""By its name, what a user sees of a bug, and what puts it in."""


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in ("", *BUGS):
        print(*(f"{name}: {sees}" for name, (sees, _) in BUGS.items()), sep="\n")
        sys.exit(2)
    if arguments[0]:
        BUGS[arguments[0]][1]()
    runpy.run_path(str(SHOP / "__main__.py"), run_name="__main__")


def seeded(bug: Bug) -> Bug:
    BUGS[bug.__name__] = (bug.__doc__ or "").rstrip("."), bug
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
    setattr(owner, name, lambda *arguments, **keywords: other(really, *arguments, **keywords))


def reworded(module: Any, make: str, text: str, other: str) -> None:
    """Give the module's labels, or buttons, another text."""
    instead(
        module, make, lambda really, parent, had, *more, **keys: really(parent, had.replace(text, other), *more, **keys)
    )


def with_other_details(**other: str | bool) -> None:
    instead(order_form.OrderForm, "_details", lambda really, self: {**really(self), **other})


def error(parent: QWidget, place: look.Box, shown_ms: int = 0) -> None:
    made = look.label(parent, "ERROR 500", place, kind="error")
    made.setStyleSheet("background: #f9dedc")
    made.show()
    if shown_ms:
        QTimer.singleShot(shown_ms, made.deleteLater)


def later(after_ms: int, do: Callable[[Any], object]) -> None:
    """Do something to Notes, some time after Save."""
    after(notes.Notes, "_save_text", lambda self: QTimer.singleShot(after_ms, lambda: do(self)))


@seeded
def wrong_total() -> None:
    """The total leaves out one of several pieces."""
    store.Store.total = property(
        lambda self: sum(product.price for product in catalogue.PRODUCTS if self.basket.get(product.name))
    )


@seeded
def wrong_total_shown() -> None:
    """The files have the right total, the screen shows one cent more."""
    after(
        basket.Basket, "_refresh", lambda self: self._total.setText(f"Total {catalogue.money(self._store.total + 1)}")
    )


@seeded
def wrong_price() -> None:
    """One product costs ten cents more than it should."""
    products.PRODUCTS = tuple(
        replace(product, price=190) if product.name == "pears" else product for product in products.PRODUCTS
    )


@seeded
def wrong_digit_in_a_table() -> None:
    """One number of the stock report has two digits swapped."""
    stock_report.PRODUCTS = tuple(
        replace(product, in_stock=102) if product.in_stock == 120 else product for product in stock_report.PRODUCTS
    )


@seeded
def wrong_order_of_rows() -> None:
    """The basket lists its rows backwards."""

    def refresh_backwards(self: Any) -> None:
        filled = [row for row in self._rows if row.quantity]
        for index, row in enumerate(reversed(filled)):
            row.move(look.MARGIN, basket.FIRST_ROW + index * (basket.ROW_HEIGHT + basket.ROW_GAP))

    after(basket.Basket, "_refresh", refresh_backwards)


@seeded
def stale_list() -> None:
    """The basket's page shows what was there when it was filled first."""

    def refresh_once(really: Any, self: Any) -> None:
        if not any(row.isVisibleTo(self) for row in self._rows):
            really(self)

    instead(basket.Basket, "_refresh", refresh_once)


@seeded
def dragged_thing_stays() -> None:
    """What is dragged into the box stays on the shelf too."""

    def copying(really: Any, parent: Any, left: int) -> Any:
        made = really(parent, left)
        made.setDefaultDropAction(gift_box.Qt.DropAction.CopyAction)
        return made

    instead(gift_box, "_list", copying)


@seeded
def lost_update() -> None:
    """Of two pieces added one after the other the second is lost."""

    def once(really: Any, self: Any, name: str, by: int) -> None:
        if by < 0 or name not in self.basket:
            really(self, name, by)

    instead(store.Store, "change_quantity", once)


@seeded
def another_row_says_99() -> None:
    """Where there are two of one thing, the row below says 99."""

    def refresh(self: Any) -> None:
        if 2 in self._store.basket.values() and self.quantity == 1:
            self._quantity.setText("99")

    after(basket.BasketRow, "refresh", refresh)


BOX, BANNER, PASSWORD = (600, 20, 300, 60), (0, 600, 1440, 300), (540, 450, 200, 36)
BUGS |= {
    "off_by_one": (
        "A row of the basket shows one piece more than there are",
        lambda: after(basket.BasketRow, "refresh", lambda it: it._quantity.setText(str(it.quantity + 1))),
    ),
    "counter_not_shown": (
        "The sidebar does not say how much is in the basket",
        lambda: after(window.Sidebar, "_refresh", lambda it: it._buttons["Basket"].setText("Basket")),
    ),
    "item_missing": (
        "The last product is not in the list",
        lambda: setattr(products, "PRODUCTS", products.PRODUCTS[:-1]),
    ),
    "dropped_at_the_wrong_end": (
        "What is packed last comes first in the gift box",
        lambda: instead(store.Store, "fill_gift_box", lambda really, it, names: really(it, names[::-1])),
    ),
    "other_language": (
        "A button is labelled in another language",
        lambda: reworded(products, "button", "Add to basket", "In den Warenkorb"),
    ),
    "spelling": (
        'The first page says "pasword"',
        lambda: reworded(sign_in, "label", "password", "pasword"),
    ),
    "wrong_colour_of_a_state": (
        "What is wrong with a sign-in is said in the green of what is good",
        lambda: after(sign_in.SignIn, "__init__", lambda it, _: it._error.setProperty("kind", "good")),
    ),
    "wrong_name_shown": (
        "The sidebar says that another user is signed in",
        lambda: after(window.Sidebar, "_refresh", lambda it: it._user.setText("Signed in: bob")),
    ),
    "wrong_heading": (
        "The order form has the heading of another page",
        lambda: after(order_form.OrderForm, "__init__", lambda it, _: it.children()[0].setText("Basket")),
    ),
    "thanks_the_wrong_person": (
        "The dialog after an order does not name who ordered",
        lambda: instead(order_form, "tell", lambda really, it, _, text: really(it, "Thank you, {name}", text)),
    ),
    "button_without_effect": (
        "Place order does nothing",
        lambda: setattr(order_form.OrderForm, "_place_order", lambda it: None),
    ),
    "popup_missing": (
        "The basket is emptied without a question",
        lambda: setattr(basket, "ask", lambda *question, **answers: True),
    ),
    "escape_means_yes": (
        "A dialog that is left with Escape does what it asked about",
        lambda: instead(basket, "ask", lambda really, *question, **answers: really(*question, **answers) or True),
    ),
    "choice_not_kept": (
        "Whoever chooses express gets standard delivery",
        lambda: with_other_details(delivery="standard"),
    ),
    "tick_not_kept": ("Gift wrap is forgotten", lambda: with_other_details(gift_wrap=False)),
    "form_not_cleared": (
        "After an order the form still holds the last one",
        lambda: setattr(order_form.OrderForm, "_clear", lambda it: None),
    ),
    "any_case_will_do": (
        "A password is accepted in capitals too",
        lambda: instead(store.Store, "sign_in", lambda really, it, name, typed: really(it, name, typed.lower())),
    ),
    "no_message": (
        "A sign-in that fails says nothing",
        lambda: setattr(
            sign_in.SignIn, "_sign_in", lambda it: it._store.sign_in(it._name.text(), it._password.text()) and None
        ),
    ),
    "never_ends_loading": (
        "The stock report never comes",
        lambda: setattr(stock_report.StockReport, "_loaded", lambda it: None),
    ),
    "can_be_done_twice": (
        "What was confirmed can be confirmed again",
        lambda: after(stock_report.StockReport, "_confirmed", lambda it: it._confirm.setEnabled(True)),
    ),
    "not_said_that_it_is_done": (
        "The terms are accepted without a word",
        lambda: after(terms.Terms, "_accepted", lambda it: it._status.clear()),
    ),
    "adding_changes_who_is_signed_in": (
        "Once something is in the basket, the sidebar says that another user is signed in",
        lambda: after(
            window.Sidebar, "_refresh", lambda it: it._store.basket and it._user.setText("Signed in: mallory")
        ),
    ),
    "button_moves": (
        "Once something is in the basket, Empty basket is further to the right",
        lambda: after(basket.Basket, "_refresh", lambda it: it._store.basket and it._empty.move(look.MARGIN + 12, 776)),
    ),
    "banner_after_each_input": (
        "ERROR 500 stands over a third of the screen, from a second after each thing that is done",
        lambda: after(window.ShopWindow, "_refresh", lambda it: QTimer.singleShot(1000, lambda: error(it, BANNER))),
    ),
    "toast_at_the_end": (
        "When the basket is opened, it says for 400 ms that this went wrong",
        lambda: after(window.Desk, "open", lambda it, page: page == "Basket" and error(it, BOX, 400)),
    ),
    "box_after_signing_in": (
        "After signing in, an error is shown for 1.5 s",
        lambda: after(window.Desk, "open", lambda it, page: page == "Products" and error(it, BOX, 1500)),
    ),
    "text_where_the_password_was": (
        "After signing in, an error stands where the password was typed",
        lambda: after(window.Desk, "open", lambda it, page: page == "Products" and error(it, PASSWORD)),
    ),
    "dialog_at_the_end": (
        "A dialog comes up over what was saved",
        lambda: later(0, lambda it: order_form.tell(it, "Really?", "")),
    ),
    "wrong_file": (
        "Notes are written to a file of another name",
        lambda: setattr(store.Store, "save_notes", lambda it, text: it._replace("note.txt", text)),
    ),
    "wrong_characters_in_a_file": (
        "Notes lose what is not ASCII",
        lambda: instead(
            store.Store, "save_notes", lambda really, it, text: really(it, text.encode("ascii", "replace").decode())
        ),
    ),
    "said_but_not_done": (
        'Notes says "Saved" and has saved nothing',
        lambda: setattr(notes.Notes, "_save_text", lambda it: it._status.setText("Saved")),
    ),
}
for _ms in (300, 600, 1000):
    BUGS |= {
        f"error_{_ms}_ms_after_saving": (
            f"An error is shown {_ms} ms after Save",
            lambda ms=_ms: later(ms, lambda it: error(it, BOX)),
        ),
        f"saved_goes_after_{_ms}_ms": (
            f'"Saved" goes away after {_ms} ms',
            lambda ms=_ms: later(ms, lambda it: it._status.clear()),
        ),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
