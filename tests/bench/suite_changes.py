"""What a user does in each test of the suite, and what changes later: a table each.

A flow is what is done by hand, a step of the recording each, but for `see`, which
waits for a pattern in the text of the page: the user looks before they go on, or
confirm the end. Elements are found by selectors that both versions of the
web program have, as a user finds a button wherever it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

PASSWORD = "w0nder-land"
OLD = "0.7.2"
NEW = "0.8.2"
"""The versions of sqlite-web: a release, and one of a year later."""
EDITOR_SETTINGS = """[org/xfce/mousepad/preferences/view]
auto-indent=true
tab-width=uint32 8
[org/xfce/mousepad/preferences/window]
statusbar-visible=true
"""

Act = tuple[Literal["click", "type", "press", "see"], str]
Flow = Sequence[Act]

LOG_IN: Act = ("click", "form:has(#id_password) [type=submit]")
SUBMIT: Act = (
    "click",
    "#content form:not(:has(#id_password)) [type=submit]:not(.bulk-action)",
)
SAVED: Flow = [SUBMIT, ("see", "uccess")]
EVERYTHING: Act = ("press", "Control+a")


def table(name: str) -> Act:
    return "click", f'#sidebar a[href="/{name}/"]'


def tab(table: str, name: str) -> Act:
    """Click a tab of a table; that of another table stands where it is now."""
    return "click", f'#content a[href="/{table}/{name}/"]'


def filled(field: str, text: str) -> Flow:
    return [("click", f"#id_{field}"), ("type", text)]


def queried(sql: str, result: str) -> Flow:
    area: Act = ("click", "#query-form textarea")
    return [
        tab("products", "query"),
        area,
        EVERYTHING,
        ("type", sql),
        SUBMIT,
        ("see", result),
    ]


SIGN_IN: Flow = [*filled("password", PASSWORD), LOG_IN, ("see", "showing page 1")]
SALT = 'tbody tr:nth-child(2) a[href*="/update/"]'
MILK = 'tbody tr:nth-child(3) a[href*="/delete/"]'
ADDS_CUSTOMER = [
    table("customers"),
    tab("customers", "insert"),
    *filled("name", "Carol"),
]
PRODUCT_IS_ADDED = "test_web.py::test_product_is_added"
FLOWS: Mapping[str, Flow] = {
    "test_web.py::test_products_are_sorted": [
        ("click", "thead th:nth-of-type(3) a"),
        ("see", r"Salt[^]*Milk[^]*Tea"),
    ],
    "test_editor.py::test_item_is_indented": [
        ("press", "Control+End"),
        ("press", "Enter"),
        ("type", "milk"),
    ],
    f"{PRODUCT_IS_ADDED}[Coffee-450]": [
        tab("products", "insert"),
        *filled("name", "Coffee"),
        *filled("cents", "450"),
        *SAVED,
    ],
    "test_web.py::test_price_is_changed": [
        ("click", SALT),
        ("click", "[name=chk_cents]"),
        ("click", "#id_cents"),
        EVERYTHING,
        ("type", "95"),
        *SAVED,
    ],
    "test_web.py::test_customer_is_added": [*ADDS_CUSTOMER, *SAVED],
    "test_web.py::test_product_is_deleted": [
        ("click", MILK),
        ("see", "Delete row"),
        *SAVED,
    ],
    "test_web.py::test_query_shows_results": queried(
        "SELECT * FROM products WHERE cents < 200", "Milk"
    ),
    "test_web.py::test_wrong_query_is_reported": queried(
        "SELECT * FROM missing", "no such table"
    ),
    "test_web.py::test_user_logs_out": [
        ("click", 'a[href="/logout/"]'),
        ("see", "Password"),
    ],
    "test_web.py::test_customers_are_listed": [
        table("customers"),
        tab("customers", "content"),
        ("see", "Porto"),
    ],
    "test_web.py::test_order_is_added": [
        table("orders"),
        tab("orders", "insert"),
        *filled("customer", "Carol"),
        *filled("pieces", "7"),
        *SAVED,
    ],
    "test_web.py::test_tables_are_searched": [
        ("click", "#table-search"),
        ("type", "ers"),
    ],
    "test_web.py::test_columns_are_listed": [table("orders"), ("see", "pieces")],
    "test_web.py::test_column_is_renamed": [
        table("orders"),
        ("click", 'a[href*="rename=pieces"]'),
        ("click", "#id_rename_to"),
        ("type", "amount"),
        *SAVED,
    ],
    "test_web.py::test_orders_are_sorted": [
        table("orders"),
        tab("orders", "content"),
        ("see", "showing page 1"),
        ("click", "thead th:nth-of-type(3) a"),
        ("see", r"Bob[^]*Alice"),
    ],
    "test_editor.py::test_item_is_added": [
        ("press", "Control+End"),
        ("press", "Enter"),
        ("type", "milk"),
        ("press", "Control+s"),
    ],
    "test_editor.py::test_line_has_tabs": [("press", "Tab"), ("press", "Tab")],
    "test_editor.py::test_item_is_found": [("press", "Control+f"), ("type", "salt")],
    "test_editor.py::test_line_is_reached": [
        ("press", "Control+l"),
        ("type", "2"),
        ("press", "Enter"),
    ],
    "test_editor.py::test_list_is_replaced": [
        EVERYTHING,
        ("type", "closed"),
        ("press", "Control+s"),
    ],
}


@dataclass(frozen=True)
class Edit:
    """In `file`, `new` takes the place of `old`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Change:
    """What a program's or a test's author changes.

    `tests` are the words by which the tests are found that may meet it; `added` are there
    from now on. `flows` are done from now on, and their tests are recorded again even if
    they still pass.
    `inserted` has for a test the gate before which its user inserts steps, and those.
    """

    tests: str
    of_program: Sequence[Edit] = ()
    of_tests: Sequence[Edit] = ()
    version: str = OLD
    added: Sequence[str] = ()
    flows: Mapping[str, Flow] = field(default_factory=dict)
    inserted: Mapping[str, tuple[str, Flow]] = field(default_factory=dict)


@dataclass(frozen=True)
class Bug:
    """A bug that one test meets; `is_claimed` if its claim is false then."""

    test: str
    edit: Edit
    is_claimed: bool = False


LOGIN = "sqlite_web/templates/login.html"
PROGRAM = "sqlite_web/sqlite_web.py"
WEB_TESTS = "test_web.py"
ANOTHER_PRICE = f"{PRODUCT_IS_ADDED}[Coffee-380]"
CUSTOMER_IS_ADDED = "test_web.py::test_customer_is_added"
LABEL = Edit(LOGIN, ">Login</button>", ">Sign in</button>")
CHANGES: Mapping[str, Change] = {
    # First, as it takes longest.
    "a new version of the web program": Change("test_web", version=NEW),
    "a renamed label, the login's button": Change("test_web", [LABEL]),
    "a moved button, Insert, in three tests": Change(
        "_is_added",
        [
            Edit(
                "sqlite_web/templates/table_insert.html",
                '"btn btn-primary" type="submit"',
                '"btn btn-primary float-right" type="submit"',
            )
        ],
    ),
    "a reworded task of one test": Change(
        "test_user_logs_out",
        of_tests=[Edit(WEB_TESTS, '"Log out"', '"Log out of the shop"')],
    ),
    "the reworded sign-in": Change(
        "test_web",
        of_tests=[Edit(WEB_TESTS, "Sign in with the", "Sign in to the shop with the")],
    ),
    "an inserted step, a customer's city": Change(
        "test_customer_is_added",
        inserted={CUSTOMER_IS_ADDED: ("s5", filled("city", "Rome"))},
    ),
    # As wide as the recorded one: what moves with a value drifts.
    "a new value, another price": Change(
        "test_product_is_added",
        of_tests=[
            Edit(
                WEB_TESTS,
                '[("Coffee", "450")]',
                '[("Coffee", "450"), ("Coffee", "380")]',
            )
        ],
        added=[ANOTHER_PRICE],
    ),
}
BUGS: Mapping[str, Bug] = {
    "a letter is missing in the login": Bug(
        "test_web.py::test_customers_are_listed",
        Edit(LOGIN, ">Password</label>", ">Pasword</label>"),
    ),
    "rows are sorted the wrong way": Bug(
        "test_web.py::test_products_are_sorted",
        Edit(PROGRAM, "query.order_by(field)", "query.order_by(field.desc())"),
        is_claimed=True,
    ),
    "a zero is lost": Bug(
        "test_web.py::test_product_is_added[Coffee-450]",
        Edit(PROGRAM, "insert[field] = value", "insert[field] = value.strip('0')"),
    ),
    "nothing is updated": Bug(
        "test_web.py::test_price_is_changed",
        Edit(PROGRAM, "update(update).where(expr)", "update(update).where(False)"),
    ),
    "a second row is deleted": Bug(
        "test_web.py::test_product_is_deleted",
        Edit(
            PROGRAM,
            "delete().where(expr)",
            "delete().where(expr | (table_pk == 'Tea'))",
        ),
        is_claimed=True,
    ),
    "the number of results is wrong": Bug(
        "test_web.py::test_query_shows_results",
        Edit(
            "sqlite_web/templates/table_query.html",
            "{{ total }}{% else %}",
            "{{ total + 1 }}{% else %}",
        ),
        is_claimed=True,
    ),
    "an error has no text": Bug(
        "test_web.py::test_wrong_query_is_reported",
        Edit("sqlite_web/templates/table_query.html", "{{ error }}", ""),
    ),
    "the user stays logged in": Bug(
        "test_web.py::test_user_logs_out",
        Edit(
            PROGRAM,
            "session.pop('authorized', None)\n    return redirect(url_for('login'))",
            "return redirect('/products/content/')",
        ),
        is_claimed=True,
    ),
    "tabs have half their width": Bug(
        "test_editor.py::test_line_has_tabs",
        Edit("mousepad.ini", "uint32 8", "uint32 4"),
        is_claimed=True,
    ),
    "lines are not indented": Bug(
        "test_editor.py::test_item_is_indented",
        Edit("mousepad.ini", "auto-indent=true", "auto-indent=false"),
        is_claimed=True,
    ),
}
