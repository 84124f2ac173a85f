"""Rules and the policy that reads them: what matches, which rule decides, and what a person's answer makes of it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest

from pytest_vnc_use.backends import keys
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.safety import (
    Policy,
    ReviewContext,
    Rule,
    approve,
    deny,
    deny_unasked,
    key_set,
    unknown_keys,
)
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    Move,
    OpenAddress,
    Proposal,
    Region,
    Ruling,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

CONTEXT = ReviewContext("tests/test_shop.py::test_pay[visa]", "Pay for the apples in the test shop")
BOX = Region(100, 100, 200, 200)
PAY = Confirmation("This submits a payment.", "FINANCIAL_TRANSACTIONS")


def proposed(action: Action, confirmation: Confirmation | None = None, name: str = "") -> Proposal:
    return Proposal(action, "a reason", {"name": name, "args": {}}, confirmation)


def matches(proposal: Proposal, **conditions: Any) -> bool:
    return Rule("deny", **conditions).matches(proposal, CONTEXT)


@pytest.mark.parametrize(
    ("glob", "proposal", "expected"),
    [
        ("click", proposed(Click(1, 2)), True),
        ("CLICK", proposed(Click(1, 2)), True),
        ("click*", proposed(Click(1, 2), name="click_at"), True),
        ("click_at", proposed(Click(1, 2), name="click_at"), True),
        ("click_at", proposed(Click(1, 2), name="click"), False),
        ("key_*", proposed(KeyCombo(("a",))), True),
        ("key_*", proposed(TypeText("a")), False),
        ("delete_user", proposed(CallFunction("delete_user", {})), True),
        ("call_function", proposed(CallFunction("delete_user", {})), True),
        ("bash", proposed(InvalidAction("bash", "no such action")), True),
        ("*", proposed(TakeScreenshot()), True),
    ],
)
def test_action(glob: str, proposal: Proposal, expected: bool) -> None:
    assert matches(proposal, action=glob) is expected


@pytest.mark.parametrize(
    ("condition", "confirmation", "expected"),
    [
        ({"category": "financial_*"}, PAY, True),
        ({"category": "account_creation"}, PAY, False),
        ({"category": "*"}, None, False),
        ({"explanation": re.compile("payment")}, PAY, True),
        ({"explanation": re.compile("^payment")}, PAY, False),
        ({"explanation": re.compile("")}, None, False),
    ],
)
def test_confirmation(condition: dict[str, Any], confirmation: Confirmation | None, expected: bool) -> None:
    assert matches(proposed(Click(1, 2), confirmation), **condition) is expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (TypeText("sudo rm  -rf /"), True),
        (OpenAddress("https://example.org/?q=rm -rf"), True),
        (TypeText("farm - rfid"), False),
        (CallFunction("run", {"text": "rm -rf"}), False),
        (Click(1, 1), False),
    ],
)
def test_text(action: Action, expected: bool) -> None:
    assert matches(proposed(action), text=re.compile(r"rm\s+-rf")) is expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (KeyCombo(("ctrl", "alt", "delete")), True),
        (KeyCombo(("Alt_L", "Control", "Del")), True),
        (KeyCombo(("control+option+KP_Delete",)), True),
        (KeyCombo(("CTRL+Alt", "forward_delete")), True),
        (KeyCombo(("ctrl", "alt", "\x7f")), True),
        (KeyCombo(("ctrl", "delete")), False),
        (KeyCombo(("ctrl", "alt", "shift", "delete")), False),
        (KeyDown("ctrl+alt+delete"), True),
        (KeyUp("ctrl+alt+delete"), False),
        (TypeText("ctrl+alt+delete"), False),
    ],
)
def test_keys(action: Action, expected: bool) -> None:
    assert matches(proposed(action), keys=key_set("ctrl+alt+delete")) is expected


def test_going_back_counts_as_the_keys_that_do_it() -> None:
    assert matches(proposed(TraverseHistory("back")), keys=key_set("alt+left"))
    assert not matches(proposed(TraverseHistory("forward")), keys=key_set("alt+left"))


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("+", {"+"}),
        ("ctrl++", {"ctrl", "+"}),
        (["ctrl", "+"], {"ctrl", "+"}),
        ("shift+Plus", {"shift", "+"}),
        ("Digit_1", {"1"}),
        ("KeyA", {"a"}),
        ("ctrl+Key_Alt+Key_Delete", {"ctrl", "alt", "delete"}),
        ("Qt.Key_Control+Qt.Key.Key_Plus", {"ctrl", "+"}),
        ("keypad_5", {"5"}),
        ("Meta_R+ArrowUp", {"super", "up"}),
        ("page down", {"pagedown"}),
        (" ", {"space"}),
        ("AltGr+F12", {"altgr", "f12"}),
    ],
)
def test_spellings_of_keys(spelled: str | list[str], expected: set[str]) -> None:
    assert key_set(spelled) == expected
    assert not unknown_keys(key_set(spelled))


def test_a_misspelled_key_is_known_as_such() -> None:
    assert unknown_keys(key_set("ctrl+atl+delete")) == {"atl"}
    assert unknown_keys(key_set("ctrl-alt-delete")) == {"ctrlaltdelete"}


def test_every_spelling_that_the_hands_press_is_one_key_to_the_rules() -> None:
    names_of = defaultdict(set)
    for spelling, keysym in keys._KEYSYMS.items():
        names_of[keysym] |= key_set(spelling)
    ambiguous = {keysym: names for keysym, names in names_of.items() if len(names) != 1 or unknown_keys(names)}
    assert len(names_of) > 50
    assert not ambiguous


@pytest.mark.parametrize(
    ("action", "by_deny", "by_allow"),
    [
        (Click(100, 100), True, True),
        (Click(199, 199), True, True),
        (Click(200, 150), False, False),
        (Click(150, 99), False, False),
        (Move(150, 150), True, True),
        (Scroll(150, 150, "down"), True, True),
        (Drag(150, 150, 160, 160), True, True),
        (Drag(150, 150, 500, 500), True, False),
        (Drag(500, 500, 150, 150), True, False),
        (Drag(0, 150, 500, 150), False, False),
        (TypeText("a", 150, 150), True, True),
        (TypeText("a"), False, False),
        (Wait(), False, False),
    ],
)
def test_region(action: Action, by_deny: bool, by_allow: bool) -> None:
    assert Rule("deny", region=BOX).matches(proposed(action), CONTEXT) is by_deny
    assert Rule("ask", region=BOX).matches(proposed(action), CONTEXT) is by_deny
    assert Rule("allow", region=BOX).matches(proposed(action), CONTEXT) is by_allow


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"test": "tests/test_shop.py::*"}, True),
        ({"test": "tests/test_shop.py::test_pay[visa]"}, True),
        ({"test": "*::test_cancel*"}, False),
        ({"task": re.compile("test shop$")}, True),
        ({"task": re.compile("real shop")}, False),
    ],
)
def test_where(condition: dict[str, Any], expected: bool) -> None:
    assert matches(proposed(Click(1, 2)), **condition) is expected


def test_all_conditions_must_hold() -> None:
    proposal = proposed(Click(150, 150), PAY)
    given = {"action": "click", "category": "FIN*", "explanation": re.compile("pay"), "region": BOX, "test": "tests/*"}
    assert matches(proposal, **given)
    broken = {"action": "drag", "category": "X*", "explanation": re.compile("no"), "region": Region(0, 0, 1, 1)}
    for condition, value in (broken | {"test": "x", "keys": key_set("a"), "text": re.compile("a")}).items():
        assert not matches(proposal, **given | {condition: value}), condition


def test_a_rule_without_a_condition_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"must have a condition, at least one of action, .*got none"):
        Rule("allow", name="all")


# --- policies --------------------------------------------------------------------------------------------------------

DESTRUCTIVE = Rule("deny", "no destructive keys", keys=key_set("ctrl+alt+delete"))
PAYING = Rule("allow", "paying", category="FINANCIAL_*")


@pytest.mark.parametrize(
    ("policy", "proposal", "kind", "rule"),
    [
        (Policy(), proposed(Click(1, 1)), "allow", "harmless"),
        (Policy(), proposed(Click(1, 1), PAY), "deny", "no rule matches"),
        (Policy.interactive(), proposed(Click(1, 1), PAY), "ask", "no rule matches"),
        (Policy.interactive(), proposed(Click(1, 1)), "allow", "harmless"),
        (Policy((PAYING,)), proposed(Click(1, 1), PAY), "allow", "rule 1 'paying'"),
        (Policy((PAYING,)), proposed(Click(1, 1), Confirmation("deletes files")), "deny", "no rule matches"),
        (
            Policy((PAYING, DESTRUCTIVE)),
            proposed(KeyCombo(("ctrl", "alt", "del"))),
            "deny",
            "rule 2 'no destructive keys'",
        ),
        (Policy((Rule("deny", action="click"), PAYING)), proposed(Click(1, 1), PAY), "deny", "rule 1"),
        (Policy((PAYING, Rule("deny", action="click"))), proposed(Click(1, 1), PAY), "allow", "rule 1 'paying'"),
        (Policy((Rule("ask", action="type_text"),)), proposed(TypeText("a")), "ask", "rule 1"),
        (Policy.interactive((DESTRUCTIVE,)), proposed(KeyCombo(("ctrl+alt+del",))), "deny", "rule 1 'no destruct"),
    ],
)
def test_the_first_rule_that_matches_decides(policy: Policy, proposal: Proposal, kind: str, rule: str) -> None:
    ruling = policy.review(proposal, CONTEXT)
    assert ruling.kind == kind
    assert ruling.rule.startswith(rule)
    assert ruling.by == "policy"


@pytest.mark.parametrize(
    ("policy", "ends_run"),
    [
        (Policy(), True),
        (Policy(on_deny="continue"), False),
        (Policy((Rule("deny", action="*"),), on_deny="continue"), False),
        (Policy((Rule("deny", action="*", on_deny="end"),), on_deny="continue"), True),
        (Policy((Rule("deny", action="*", on_deny="continue"),)), False),
    ],
)
def test_what_a_denial_ends(policy: Policy, ends_run: bool) -> None:
    assert policy.review(proposed(Click(1, 1), PAY), CONTEXT).ends_run is ends_run


def test_a_ruling_explains_itself() -> None:
    policy = Policy((Rule("deny", "no paying", category="FIN*"),), source="policy.toml")
    assert policy.review(proposed(Click(1, 1), PAY), CONTEXT).explanation == (
        "rule 1 'no paying' (in policy.toml): the action is denied; "
        "the model asks for confirmation because 'This submits a payment.'"
    )


def test_a_persons_answer() -> None:
    asked = Policy.interactive().review(proposed(Click(1, 1), PAY), CONTEXT)
    yes, no, nobody = approve(asked), deny(asked), deny_unasked(asked)
    assert (yes.kind, yes.by) == ("allow", "person")
    assert (no.kind, no.by, no.ends_run) == ("deny", "person", True)
    assert (nobody.kind, nobody.by, nobody.ends_run) == ("deny", "policy", True)
    assert all(isinstance(ruling, Ruling) and "payment" in ruling.explanation for ruling in (yes, no, nobody))


def test_a_no_goes_on_where_the_rule_says_so() -> None:
    asked = Policy((Rule("ask", action="*", on_deny="continue"),)).review(proposed(Click(1, 1)), CONTEXT)
    assert deny(asked).ends_run is False
    assert deny_unasked(asked).ends_run is False
