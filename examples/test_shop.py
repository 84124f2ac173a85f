"""A shop, tested in sentences. Each task is judged when it ends; the test's body checks
what the shop wrote on top.

Without a model the recordings in __vnc_recordings__ are replayed, whose ends a user
vouched for.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.types.protocols import Desktop

SIGN_IN = pytest.mark.vnc_task("Sign in as alice with the password wonderland")


def state(desktop: Desktop) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(desktop.read_file("state.json"))
    return found


@SIGN_IN
def test_sign_in(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["user"] == "alice"


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(
            "wrong",
            marks=pytest.mark.vnc_task(
                "Try to sign in as alice with the password queen"
            ),
        ),
        pytest.param(
            "capitals",
            marks=pytest.mark.vnc_task(
                "Try to sign in as alice with the password wonderland in capitals"
            ),
        ),
        pytest.param(
            "stranger",
            marks=pytest.mark.vnc_task(
                "Try to sign in as mallory with the password wonderland"
            ),
        ),
    ],
)
def test_sign_in_with_wrong_credentials_fails(
    attempt: str, vnc_desktop: Desktop
) -> None:
    assert (state(vnc_desktop)["user"], state(vnc_desktop)["failed_sign_ins"]) == (
        "",
        1,
    )


@pytest.mark.vnc_task(
    "Sign in as alice, add two apples to the basket and open the basket"
)
def test_two_apples(vnc_desktop: Desktop) -> None:
    assert "apples;2" in vnc_desktop.read_file("orders.csv")
    assert state(vnc_desktop)["page"] == "basket"
    assert state(vnc_desktop)["total"] == "3.00"


@SIGN_IN
@pytest.mark.vnc_task(
    "Add one honey and one tea to the basket, then make it two honey in the basket"
)
def test_tasks_run_in_order_on_one_desktop(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["basket"] == {"honey": 2, "tea": 1}
    assert state(vnc_desktop)["total"] == "14.15"


@SIGN_IN
@pytest.mark.vnc_task(
    "Order the bread for Alice Liddell, Oxford Street 1, Oxford, by express,"
    " gift-wrapped",
    # the form is empty again, so the screen does not show that the order was placed
    expect=None,
)
def test_order_is_placed(vnc_desktop: Desktop) -> None:
    (order,) = state(vnc_desktop)["orders"]
    assert order["products"] == {"bread": 1}
    assert (order["name"], order["street"], order["city"]) == (
        "Alice Liddell",
        "Oxford Street 1",
        "Oxford",
    )
    assert (order["delivery"], order["gift_wrap"], order["total"]) == (
        "express",
        True,
        "2.40",
    )
    assert "bread;1;ordered" in vnc_desktop.read_file("orders.csv")


@SIGN_IN
@pytest.mark.vnc_task(
    "Put tea into the basket, then empty the basket and confirm it in the dialog"
)
def test_confirmed_dialog_empties_basket(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["times_emptied"] == 1
    assert state(vnc_desktop)["basket"] == {}


@SIGN_IN
@pytest.mark.vnc_task(
    "Put tea into the basket, then ask to empty the basket but keep it after all"
)
def test_cancelled_dialog_keeps_basket(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["basket"] == {"tea": 1}


@SIGN_IN
@pytest.mark.vnc_task(
    "Write a note of two lines, 'No nuts, please.' and 'Merci, René & Zoë!', and"
    " save it"
)
def test_notes_are_saved_as_typed(vnc_desktop: Desktop) -> None:
    assert vnc_desktop.read_file("notes.txt").splitlines() == [
        "No nuts, please.",
        "Merci, René & Zoë!",
    ]


@SIGN_IN
@pytest.mark.vnc_task(
    "Load the stock report, wait until it is there, and confirm the stock"
)
def test_slow_page_is_waited_for(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["stock_report"] == "confirmed"


@SIGN_IN
@pytest.mark.vnc_task(
    "Drag the apples and then the pears from the shelf into the gift box"
)
def test_products_are_dragged_into_box(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["gift_box"] == ["apples", "pears"]


@SIGN_IN
@pytest.mark.vnc_task("Read the terms to their end and accept them")
def test_long_page_end_is_reached(vnc_desktop: Desktop) -> None:
    assert state(vnc_desktop)["terms_accepted"] is True


def test_agent_acts_without_task(vnc_agent: VncUseAgent, vnc_desktop: Desktop) -> None:
    vnc_agent.type_text("alice")
    vnc_agent.key("tab")
    vnc_agent.type_text("wonderland", press_enter=True)
    vnc_agent.key("ctrl+2")
    assert (state(vnc_desktop)["user"], state(vnc_desktop)["page"]) == (
        "alice",
        "basket",
    )


@pytest.mark.vnc_task(
    "Sign in as alice, add two apples to the basket and open the basket",
    expect="the basket shows 2 apples and a total of 3.00",
)
def test_basket(vnc_desktop: Desktop) -> None:
    assert "apples;2" in vnc_desktop.read_file("orders.csv")


@pytest.mark.vnc_task("Sign in as bob with the password builder and open the gift box")
def test_empty_body_is_judged_by_screen() -> None: ...
