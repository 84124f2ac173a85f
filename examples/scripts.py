"""What to do for each sentence of test_shop.py: how its recordings are made where there
is no model.

A sentence has a list of turns, and a turn is what can be done without looking again:
mostly, what happens on one page. Points are pixels of the shop's window at 1440x900.
Nothing here says whether a task succeeded; the tests do.
"""

from __future__ import annotations

from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    KeyCombo,
    Proposal,
    Scroll,
    TypeText,
    Wait,
)

Turn = list[Proposal]

NAME, PASSWORD, SIGN_IN = (720, 372), (720, 468), (720, 574)
PAGES = (
    "Products",
    "Basket",
    "Order form",
    "Notes",
    "Stock report",
    "Gift box",
    "Terms",
)
ADD = {
    name: (417 + 282 * (place % 4), 434 + 364 * (place // 4))
    for place, name in enumerate(
        ("apples", "pears", "bananas", "bread", "cheese", "coffee", "honey", "tea")
    )
}
MORE_OF_THE_FIRST = (922, 172)
EMPTY_BASKET, ORDER = (398, 802), (1282, 802)
DIALOG_LEFT, DIALOG_OK = (605, 518), (720, 518)
ORDER_NAME, STREET, CITY = (648, 226), (648, 322), (648, 418)
EXPRESS, GIFT_WRAP, PLACE_ORDER = (700, 522), (400, 582), (648, 682)
NOTES = (840, 440)
LOAD_REPORT, CONFIRM_STOCK = (398, 166), (398, 802)
TOP_OF_SHELF, INSIDE_BOX = (400, 216), (1142, 600)
TERMS, ACCEPT = (760, 480), (446, 764)


def step(action: Action, why: str) -> Proposal:
    return Proposal(action, why, {"name": action.kind, "args": {}})


def click(point: tuple[int, int], why: str) -> Proposal:
    return step(Click(*point), why)


def type_into(
    point: tuple[int, int], text: str, why: str, *, press_enter: bool = False
) -> Proposal:
    return step(TypeText(text, *point, press_enter=press_enter), why)


def open_page(name: str) -> Proposal:
    return click((120, 144 + 56 * PAGES.index(name)), f"open the page {name}")


def add(product: str) -> Proposal:
    return click(ADD[product], f"add {product} to the basket")


def sign_in(name: str, password: str) -> Turn:
    return [
        type_into(NAME, name, "fill in the name"),
        type_into(PASSWORD, password, "fill in the password"),
        click(SIGN_IN, "sign in"),
    ]


AS_ALICE = sign_in("alice", "wonderland")

SCRIPTS: dict[str, list[Turn]] = {
    "Sign in as alice with the password wonderland": [AS_ALICE],
    "Try to sign in as alice with the password queen": [sign_in("alice", "queen")],
    "Try to sign in as alice with the password wonderland in capitals": [
        sign_in("alice", "WONDERLAND")
    ],
    "Try to sign in as mallory with the password wonderland": [
        sign_in("mallory", "wonderland")
    ],
    "Sign in as alice, add two apples to the basket and open the basket": [
        AS_ALICE,
        [add("apples"), add("apples")],
        [open_page("Basket")],
    ],
    "Add one honey and one tea to the basket, then make it two honey in the basket": [
        [open_page("Products"), add("honey"), add("tea")],
        [open_page("Basket")],
        [click(MORE_OF_THE_FIRST, "one more honey, which is the first row")],
    ],
    "Order the bread for Alice Liddell, Oxford Street 1, Oxford, by express, gift-wrapped": [
        [add("bread")],
        [open_page("Basket"), click(ORDER, "go to the order form")],
        [
            type_into(ORDER_NAME, "Alice Liddell", "fill in the name"),
            type_into(STREET, "Oxford Street 1", "fill in the street"),
            type_into(CITY, "Oxford", "fill in the city"),
            click(EXPRESS, "choose express"),
            click(GIFT_WRAP, "have it wrapped"),
            click(PLACE_ORDER, "place the order"),
        ],
        [click(DIALOG_OK, "close the dialog that says thank you")],
    ],
    "Put tea into the basket, then empty the basket and confirm it in the dialog": [
        [add("tea")],
        [open_page("Basket"), click(EMPTY_BASKET, "empty the basket")],
        [click(DIALOG_LEFT, "yes, empty it")],
    ],
    "Put tea into the basket, then ask to empty the basket but keep it after all": [
        [add("tea")],
        [open_page("Basket"), click(EMPTY_BASKET, "empty the basket")],
        [step(KeyCombo(("escape",)), "close the dialog without emptying")],
    ],
    "Write a note of two lines, 'No nuts, please.' and 'Merci, René & Zoë!', and save it": [
        [open_page("Notes")],
        [
            type_into(NOTES, "No nuts, please.", "the first line", press_enter=True),
            step(TypeText("Merci, René & Zoë!"), "the second line"),
            step(KeyCombo(("ctrl", "s")), "save"),
        ],
    ],
    "Load the stock report, wait until it is there, and confirm the stock": [
        [open_page("Stock report"), click(LOAD_REPORT, "load the report")],
        [step(Wait(3.0), "the warehouse is slow")],
        [click(CONFIRM_STOCK, "confirm the stock")],
    ],
    "Drag the apples and then the pears from the shelf into the gift box": [
        [open_page("Gift box")],
        [step(Drag(*TOP_OF_SHELF, *INSIDE_BOX), "the apples are on top of the shelf")],
        [step(Drag(*TOP_OF_SHELF, *INSIDE_BOX), "now the pears are")],
    ],
    "Read the terms to their end and accept them": [
        [open_page("Terms"), click(TERMS, "have the keys scroll the text")],
        [step(Scroll(*TERMS, "down", clicks=20, by="keys"), "read on to the end")],
        [click(ACCEPT, "accept the terms")],
    ],
    "Sign in as bob with the password builder and open the gift box": [
        sign_in("bob", "builder"),
        [open_page("Gift box")],
    ],
}
