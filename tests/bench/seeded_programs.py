"""Three programs with seeded bugs, on three toolkits: what a test does there, and which
bugs there are.

A walk is a task with the steps of a planner, a claim, and what the program then has in
a file. The bugs themselves stand in tests/support/programs: `buggy_shop.py`,
`buggy_form.py`, and `buggy_page.html`, which `page.py` shows.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    KeyCombo,
    Region,
    Scroll,
    TypeText,
    Wait,
)
from support.paths import PROGRAMS

SCREEN = ("body", "claim", "end")
"""Flavours of a test: a body that looks into a file, a claim, and neither, so that its
end state is judged.
"""
VALUE = "value"
"""One more, which reads a value off the screen."""
FILE = ("body",)
"""What only a body can see: a file is wrong, the screen is right."""


@dataclass(frozen=True)
class Walk:
    """`saves` are a file and a text in it; `region` is what the judge looks at for the
    `claim` and the end state.

    `reads` are a question and its answer. `uncertain` are flavours that may be unsure
    without a bug too, as what they look at blinks.
    """

    task: str
    steps: tuple[Action, ...]
    claim: str
    region: Region
    saves: tuple[str, str]
    options: tuple[str, ...] = ()
    reads: tuple[str, str] | None = None
    looks_at: Mapping[str, Region] = field(default_factory=dict)
    uncertain: tuple[str, ...] = ()

    @property
    def flavours(self) -> tuple[str, ...]:
        return (*SCREEN, VALUE) if self.reads else SCREEN


@dataclass(frozen=True)
class Bug:
    """`flavours` are those of which none may pass."""

    name: str
    kind: str
    walk: str
    flavours: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """`command` takes the name of a bug, or "", and the walk's options."""

    server: str
    size: tuple[int, int]
    command: tuple[str, ...]
    walks: Mapping[str, Walk]
    bugs: Sequence[Bug]
    gate_s: float

    def app(self, bug: str, walk: str) -> str:
        return shlex.join([*self.command, bug, *self.walks[walk].options])


PASSWORD = "builder"
"""The value of SHOP_PASSWORD, which a walk types as a secret."""
PAGE = Region(240, 0, 1440, 900)
SIGN_IN = TypeText("alice\twonderland\n")
BASKET, _, NOTES, STOCK, GIFT_BOX, TERMS = (
    Click(120, 200 + 56 * place) for place in range(6)
)
APPLES = Click(417, 434)
BREAD = Click(1263, 434)
HONEY = Click(981, 798)
TEA = Click(1263, 798)
TOP_OF_SHELF = (400, 216)
INSIDE_BOX = (1142, 600)


def _shop(
    task: str,
    steps: tuple[Action, ...],
    claim: str,
    says: str,
    file: str = "state.json",
) -> Walk:
    return Walk(task, steps, claim, PAGE, (file, says))


SHOP_WALKS = {
    "refused": _shop(
        "Try to sign in as alice with the password wonderland in capitals",
        (TypeText("alice\tWONDERLAND\n"),),
        "the sign-in is refused",
        '"failed_sign_ins": 1',
    ),
    "apples": _shop(
        "Sign in as alice, add two apples to the basket and open the basket",
        (SIGN_IN, APPLES, APPLES, BASKET),
        "the basket shows 2 apples and a total of 3.00",
        '"total": "3.00"',
    ),
    "secret": _shop(
        "Sign in as bob with the password <secret:SHOP_PASSWORD> and add the apples to"
        " the basket",
        (TypeText("bob\t<secret:SHOP_PASSWORD>\n"), APPLES),
        "the basket holds one thing",
        '"apples": 1',
    ),
    "rows": _shop(
        "Sign in as alice, add one honey and one tea, then make it two honey in the"
        " basket",
        (SIGN_IN, HONEY, TEA, BASKET, Click(922, 172)),
        "the basket shows 2 honey and 1 tea",
        '"total": "14.15"',
    ),
    "order": _shop(
        "Order the bread for Alice Liddell, Oxford Street 1, Oxford, by express,"
        " gift-wrapped",
        (
            SIGN_IN,
            BREAD,
            BASKET,
            Click(1282, 802),
            TypeText("Alice Liddell\tOxford Street 1\tOxford", 648, 226),
            Click(700, 522),
            Click(400, 582),
            Click(648, 682),
            Click(720, 518),
        ),
        "the order form is empty again",
        '"delivery": "express",\n      "gift_wrap": true',
    ),
    "emptied": _shop(
        "Put tea into the basket, then empty the basket and confirm it in the dialog",
        (SIGN_IN, TEA, BASKET, Click(398, 802), Click(605, 518)),
        "the basket is empty",
        '"times_emptied": 1',
    ),
    "kept": _shop(
        "Put tea into the basket, then ask to empty the basket but keep it after all",
        (SIGN_IN, TEA, BASKET, Click(398, 802), KeyCombo(("escape",))),
        "the basket shows 1 tea",
        '"tea": 1',
    ),
    "notes": _shop(
        "Write the note 'Merci, René!' and save it",
        (SIGN_IN, NOTES, TypeText("Merci, René!", 840, 440), KeyCombo(("ctrl", "s"))),
        "the note is saved",
        "Merci, René!",
        "notes.txt",
    ),
    "stock": _shop(
        "Load the stock report, wait until it is there, and confirm the stock",
        (SIGN_IN, STOCK, Click(398, 166), Wait(3.0), Click(398, 802)),
        "the stock is confirmed",
        '"stock_report": "confirmed"',
    ),
    "gift": _shop(
        "Drag the apples and then the pears from the shelf into the gift box",
        (SIGN_IN, GIFT_BOX, *[Drag(*TOP_OF_SHELF, *INSIDE_BOX)] * 2),
        "apples and pears are in the gift box",
        '"apples",\n    "pears"',
    ),
    "terms": _shop(
        "Read the terms to their end and accept them",
        (
            SIGN_IN,
            TERMS,
            Click(760, 480),
            Scroll(760, 480, "down", clicks=20, by="keys"),
            Click(446, 764),
        ),
        "the terms are accepted",
        '"terms_accepted": true',
    ),
}


def _of_shop(
    kind: str, walk: str, *names: str, flavours: tuple[str, ...] = SCREEN
) -> Sequence[Bug]:
    return [Bug(name, kind, walk, flavours) for name in names]


SHOP_BUGS = (
    *_of_shop(
        "late", "notes", *(f"error_{ms}_ms_after_saving" for ms in (300, 600, 1000))
    ),
    *_of_shop(
        "late", "notes", *(f"saved_goes_after_{ms}_ms" for ms in (300, 600, 1000))
    ),
    *_of_shop("late", "apples", "banner_after_each_input"),
    *_of_shop("side effect", "apples", "adding_changes_who_is_signed_in"),
    *_of_shop("side effect", "rows", "another_row_says_99"),
    *_of_shop("transient", "apples", "toast_at_the_end", "box_after_signing_in"),
    *_of_shop("text", "refused", "spelling"),
    *_of_shop("text", "apples", "other_language", "wrong_name_shown", "wrong_price"),
    *_of_shop("text", "secret", "text_where_the_password_was"),
    *_of_shop("text", "order", "wrong_heading", "thanks_the_wrong_person"),
    *_of_shop("text", "stock", "wrong_digit_in_a_table"),
    *_of_shop("colour", "refused", "wrong_colour_of_a_state"),
    *_of_shop("layout", "apples", "button_moves"),
    *_of_shop("dialog", "notes", "dialog_at_the_end"),
    *_of_shop("dialog", "emptied", "popup_missing"),
    *_of_shop("dialog", "kept", "escape_means_yes"),
    *_of_shop(
        "sum",
        "apples",
        "wrong_total",
        "wrong_total_shown",
        "off_by_one",
        "counter_not_shown",
    ),
    *_of_shop("list", "apples", "item_missing"),
    *_of_shop("list", "rows", "wrong_order_of_rows"),
    *_of_shop("list", "gift", "dragged_thing_stays"),
    *_of_shop("stale", "rows", "stale_list"),
    *_of_shop("stale", "refused", "no_message"),
    *_of_shop("stale", "order", "form_not_cleared"),
    *_of_shop("stale", "stock", "never_ends_loading", "can_be_done_twice"),
    *_of_shop("stale", "terms", "not_said_that_it_is_done"),
    *_of_shop("no effect", "order", "button_without_effect"),
    *_of_shop("no effect", "apples", "lost_update"),
    *_of_shop("no effect", "refused", "any_case_will_do"),
    *_of_shop("file", "order", "choice_not_kept", "tick_not_kept", flavours=FILE),
    *_of_shop("file", "gift", "dropped_at_the_wrong_end", flavours=FILE),
    *_of_shop(
        "file",
        "notes",
        "wrong_file",
        "wrong_characters_in_a_file",
        "said_but_not_done",
        flavours=FILE,
    ),
)

LIGHT = Region(590, 106, 680, 136)
STATUS = Region(60, 350, 300, 400)
ORDER: tuple[Action, ...] = (
    TypeText("alice", 200, 130),
    Click(360, 192),
    Click(120, 372),
)
SAVED = ("order.txt", "alice;2;5.00;plain")
LIGHT_CLAIM = "the light says READY"
LIGHT_QUESTION = "what does the light say?"
ORDER_WALK = Walk(
    "Order two for alice and save it", ORDER, "the order is saved", STATUS, SAVED
)
FORM_WALKS = {
    "order": ORDER_WALK,
    "light": replace(
        ORDER_WALK,
        task="Order two for alice and save it, while the light says READY",
        claim=LIGHT_CLAIM,
        options=("--light",),
        reads=(LIGHT_QUESTION, "READY"),
        looks_at={LIGHT_CLAIM: LIGHT, LIGHT_QUESTION: LIGHT},
        uncertain=("claim", VALUE),
    ),
    "parcel": replace(
        ORDER_WALK,
        task="Order two for alice, save it, and ask what became of the parcel",
        steps=(*ORDER, CallFunction("parcel", {})),
    ),
}


def _of_form(kind: str, *names: str, walk: str = "order") -> Sequence[Bug]:
    return _of_shop(
        kind,
        walk,
        *names,
        flavours=FILE if kind == "file" else FORM_WALKS[walk].flavours,
    )


FORM_BUGS = (
    *_of_form("late", "banner_after_each_input"),
    *_of_form("side effect", "more_clears_name", "typing_ticks_gift_wrap"),
    *_of_form("side effect", "save_changes_quantity", "more_changes_heading"),
    *_of_form(
        "transient",
        "toast_after_more",
        "toast_after_save",
        "box_after_more",
        "box_after_save",
    ),
    *_of_form(
        "volatile",
        "light_blinks_error",
        "light_shows_error",
        "light_goes_out",
        walk="light",
    ),
    *_of_form(
        "volatile",
        "light_blinks_error_after_save",
        "light_shows_error_after_save",
        walk="light",
    ),
    *_of_form(
        "text",
        *(
            f"wrong_character_{where}"
            for where in ("at_first", "of_total", "of_status")
        ),
    ),
    *_of_form("colour", "wrong_colour_at_first", "wrong_colour_of_status"),
    *_of_form("layout", "save_moved", "save_moves_while_typing"),
    *_of_form("stale", "stale_status", "stale_quantity"),
    *_of_form("dialog", "dialog_at_the_end"),
    *_of_form("file", "wrong_total_in_file", "wrong_name_in_file", "another_file"),
    *_of_form("function", "parcel_lost", walk="parcel"),
)
AFTER = (
    "300_ms_after_save",
    "600_ms_after_save",
    "1000_ms_after_save",
    "300_ms_after_more",
    "1000_ms_after_more",
)
TWO_AFTER = ("600_ms_after_save", "600_ms_after_more")
LATE = {
    "gtk": (
        *(f"error_{each}" for each in AFTER),
        *(f"result_goes_{each}" for each in TWO_AFTER),
    ),
    "page": (
        *(f"result_goes_{each}" for each in AFTER),
        *(f"error_{each}" for each in TWO_AFTER),
    ),
}


def _form(late: Sequence[str], *command: str) -> Program:
    bugs = (*_of_form("late", *late), *FORM_BUGS)
    return Program("xvnc", (800, 600), command, FORM_WALKS, bugs, 3.0)


ALL = {
    "qt": Program(
        "qt",
        (1440, 900),
        (sys.executable, f"{PROGRAMS}/buggy_shop.py"),
        SHOP_WALKS,
        SHOP_BUGS,
        4.0,
    ),
    "gtk": _form(LATE["gtk"], "/usr/bin/python3", f"{PROGRAMS}/buggy_form.py"),
    "page": _form(
        LATE["page"],
        sys.executable,
        f"{PROGRAMS}/page.py",
        f"{PROGRAMS}/buggy_page.html",
    ),
}
