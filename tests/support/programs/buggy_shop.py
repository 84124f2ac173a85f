"""The examples' shop with a seeded bug: `python tests/support/programs/buggy_shop.py wrong_total`; alone, their list.

Each is a bug as products have them: a wrong sum, a label in another language, a button without effect. It is put in
from outside, so that the shop itself knows nothing of it. What shows each one is a walk through examples/test_shop.py.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
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

Bug = Callable[[], None]
BUGS: dict[str, Bug] = {}


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in ("", *BUGS):
        print(*(f"{name}: {bug.__doc__}" for name, bug in BUGS.items()), sep="\n")
        sys.exit(2)
    if arguments[0]:
        BUGS[arguments[0]]()
    runpy.run_path(str(SHOP / "__main__.py"), run_name="__main__")


def seeded(bug: Bug) -> Bug:
    BUGS[bug.__name__] = bug
    return bug


def afterwards(owner: type, method: str, also: Callable[..., object]) -> None:
    """Have `also(self, …)` run after the method, with what the method got."""
    really = getattr(owner, method)

    def both(self: Any, *arguments: Any, **keywords: Any) -> Any:
        result = really(self, *arguments, **keywords)
        also(self, *arguments, **keywords)
        return result

    setattr(owner, method, both)


def with_other_words(module: Any, make: str, said: str, instead: str) -> None:
    """Have the module's labels, or buttons, say something else."""
    really = getattr(module, make)
    setattr(
        module, make, lambda parent, text, *more, **keys: really(parent, text.replace(said, instead), *more, **keys)
    )


@seeded
def wrong_total() -> None:
    """The total leaves out one of several pieces."""
    store.Store.total = property(
        lambda self: sum(product.price for product in catalogue.PRODUCTS if self.basket.get(product.name))
    )


@seeded
def wrong_total_shown() -> None:
    """The files have the right total, the screen shows one cent more."""
    afterwards(
        basket.Basket,
        "_refresh",
        lambda self: self._total.setText(f"Total {catalogue.money(self._store.total + 1)}"),
    )


@seeded
def off_by_one() -> None:
    """A row of the basket shows one piece more than there are."""
    afterwards(basket.BasketRow, "refresh", lambda self: self._quantity.setText(str(self.quantity + 1)))


@seeded
def wrong_price() -> None:
    """One product costs ten cents more than it should."""
    pears = next(index for index, product in enumerate(products.PRODUCTS) if product.name == "pears")
    shown = list(products.PRODUCTS)
    shown[pears] = replace(shown[pears], price=190)
    products.PRODUCTS = tuple(shown)


@seeded
def wrong_digit_in_a_table() -> None:
    """One number of the stock report has two digits swapped."""
    stock_report.PRODUCTS = tuple(
        replace(product, in_stock=102) if product.in_stock == 120 else product for product in stock_report.PRODUCTS
    )


@seeded
def counter_not_shown() -> None:
    """The sidebar does not say how much is in the basket."""
    afterwards(window.Sidebar, "_refresh", lambda self: self._buttons["Basket"].setText("Basket"))


@seeded
def item_missing() -> None:
    """The last product is not in the list."""
    products.PRODUCTS = products.PRODUCTS[:-1]


@seeded
def wrong_order_of_rows() -> None:
    """The basket lists its rows backwards."""

    def refresh_backwards(self: Any) -> None:
        filled = [row for row in self._rows if row.quantity]
        for index, row in enumerate(reversed(filled)):
            row.move(look.MARGIN, basket.FIRST_ROW + index * (basket.ROW_HEIGHT + basket.ROW_GAP))

    afterwards(basket.Basket, "_refresh", refresh_backwards)


@seeded
def stale_list() -> None:
    """The basket's page shows what was there when it was filled first."""
    really = basket.Basket._refresh

    def refresh_once(self: Any) -> None:
        if not any(row.isVisibleTo(self) for row in self._rows):
            really(self)

    basket.Basket._refresh = refresh_once


@seeded
def dropped_at_the_wrong_end() -> None:
    """What is packed last comes first in the gift box."""
    really = store.Store.fill_gift_box
    store.Store.fill_gift_box = lambda self, names: really(self, names[::-1])


@seeded
def dragged_thing_stays() -> None:
    """What is dragged into the box stays on the shelf too."""
    really = gift_box._list

    def copying(parent: Any, left: int) -> Any:
        made = really(parent, left)
        made.setDefaultDropAction(gift_box.Qt.DropAction.CopyAction)
        return made

    gift_box._list = copying


@seeded
def other_language() -> None:
    """A button is labelled in another language."""
    with_other_words(products, "button", "Add to basket", "In den Warenkorb")


@seeded
def spelling() -> None:
    """The first page says "pasword"."""
    with_other_words(sign_in, "label", "password", "pasword")


@seeded
def wrong_colour_of_a_state() -> None:
    """What is wrong with a sign-in is said in the green of what is good."""
    afterwards(sign_in.SignIn, "__init__", lambda self, _: self._error.setProperty("kind", "good"))


@seeded
def wrong_name_shown() -> None:
    """The sidebar says that another user is signed in."""
    afterwards(window.Sidebar, "_refresh", lambda self: self._user.setText("Signed in: bob"))


@seeded
def wrong_heading() -> None:
    """The order form has the heading of another page."""
    afterwards(order_form.OrderForm, "__init__", lambda self, _: self.children()[0].setText("Basket"))


@seeded
def thanks_the_wrong_person() -> None:
    """The dialog after an order does not name who ordered."""
    really = order_form.tell
    order_form.tell = lambda parent, title, message: really(parent, "Thank you, {name}", message)


@seeded
def button_without_effect() -> None:
    """Place order does nothing."""
    order_form.OrderForm._place_order = lambda self: None


@seeded
def lost_update() -> None:
    """Of two pieces added one after the other the second is lost."""
    really = store.Store.change_quantity

    def once(self: Any, name: str, by: int) -> None:
        if by < 0 or name not in self.basket:
            really(self, name, by)

    store.Store.change_quantity = once


@seeded
def popup_missing() -> None:
    """The basket is emptied without a question."""
    basket.ask = lambda *question, **answers: True


@seeded
def escape_means_yes() -> None:
    """A dialog that is left with Escape does what it asked about."""
    really = basket.ask
    basket.ask = lambda *question, **answers: really(*question, **answers) or True


@seeded
def choice_not_kept() -> None:
    """Whoever chooses express gets standard delivery."""
    _with_other_details({"delivery": "standard"})


@seeded
def tick_not_kept() -> None:
    """Gift wrap is forgotten."""
    _with_other_details({"gift_wrap": False})


@seeded
def form_not_cleared() -> None:
    """After an order the form still holds the last one."""
    order_form.OrderForm._clear = lambda self: None


@seeded
def any_case_will_do() -> None:
    """A password is accepted in capitals too."""
    really = store.Store.sign_in
    store.Store.sign_in = lambda self, name, password: really(self, name, password.lower())


@seeded
def no_message() -> None:
    """A sign-in that fails says nothing."""
    sign_in.SignIn._sign_in = lambda self: self._store.sign_in(self._name.text(), self._password.text()) and None


@seeded
def never_ends_loading() -> None:
    """The stock report never comes."""
    stock_report.StockReport._loaded = lambda self: None


@seeded
def can_be_done_twice() -> None:
    """What was confirmed can be confirmed again."""
    afterwards(stock_report.StockReport, "_confirmed", lambda self: self._confirm.setEnabled(True))


@seeded
def not_said_that_it_is_done() -> None:
    """The terms are accepted without a word."""
    afterwards(terms.Terms, "_accepted", lambda self: self._status.clear())


@seeded
def adding_changes_who_is_signed_in() -> None:
    """Once something is in the basket, the sidebar says that another user is signed in."""
    afterwards(window.Sidebar, "_refresh", lambda self: self._store.basket and self._user.setText("Signed in: mallory"))


@seeded
def another_row_says_99() -> None:
    """Where there are two of one thing, the row below says 99."""

    def refresh(self: Any) -> None:
        if 2 in self._store.basket.values() and self.quantity == 1:
            self._quantity.setText("99")

    afterwards(basket.BasketRow, "refresh", refresh)


@seeded
def button_moves() -> None:
    """Once something is in the basket, Empty basket is further to the right."""
    afterwards(basket.Basket, "_refresh", lambda self: self._store.basket and self._empty.move(look.MARGIN + 12, 776))


@seeded
def banner_after_each_input() -> None:
    """ERROR 500 stands over a third of the screen, from a second after each thing that is done."""
    afterwards(window.ShopWindow, "_refresh", lambda self: QTimer.singleShot(1000, lambda: _error(self, BANNER)))


@seeded
def toast_at_the_end() -> None:
    """When the basket is opened, it says for 400 ms that this went wrong."""
    afterwards(window.Desk, "open", lambda self, name: name == "Basket" and _error(self, BOX, 400))


@seeded
def box_after_signing_in() -> None:
    """After signing in, an error is shown for 1.5 s."""
    afterwards(window.Desk, "open", lambda self, name: name == "Products" and _error(self, BOX, 1500))


@seeded
def text_where_the_password_was() -> None:
    """After signing in, an error stands where the password was typed."""
    afterwards(window.Desk, "open", lambda self, name: name == "Products" and _error(self, PASSWORD))


def _later(name: str, sees: str, after_ms: int, do: Callable[[Any], object]) -> None:
    """A bug of Notes, some time after Save."""

    def bug() -> None:
        afterwards(notes.Notes, "_save_text", lambda self: QTimer.singleShot(after_ms, lambda: do(self)))

    bug.__name__, bug.__doc__ = name, sees
    seeded(bug)


BOX, BANNER, PASSWORD = (600, 20, 300, 60), (0, 600, 1440, 300), (540, 450, 200, 36)
for _ms in (300, 600, 1000):
    _later(f"error_{_ms}_ms_after_saving", f"An error is shown {_ms} ms after Save.", _ms, lambda it: _error(it, BOX))
    _later(f"saved_goes_after_{_ms}_ms", f'"Saved" goes away after {_ms} ms.', _ms, lambda it: it._status.clear())
_later("dialog_at_the_end", "A dialog comes up over what was saved.", 0, lambda it: order_form.tell(it, "Really?", ""))


def _error(parent: QWidget, place: look.Box, shown_ms: int = 0) -> None:
    made = look.label(parent, "ERROR 500", place, kind="error")
    made.setStyleSheet("background: #f9dedc")
    made.show()
    if shown_ms:
        QTimer.singleShot(shown_ms, made.deleteLater)


@seeded
def wrong_file() -> None:
    """Notes are written to a file of another name."""
    store.Store.save_notes = lambda self, text: self._replace("note.txt", text)


@seeded
def wrong_characters_in_a_file() -> None:
    """Notes lose what is not ASCII."""
    really = store.Store.save_notes
    store.Store.save_notes = lambda self, text: really(self, text.encode("ascii", "replace").decode())


@seeded
def said_but_not_done() -> None:
    """Notes says "Saved" and has saved nothing."""
    notes.Notes._save_text = lambda self: self._status.setText("Saved")


def _with_other_details(other: Mapping[str, str | bool]) -> None:
    really = order_form.OrderForm._details
    order_form.OrderForm._details = lambda self: {**really(self), **other}


if __name__ == "__main__":
    main(sys.argv[1:])
