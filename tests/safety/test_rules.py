"""Rules and the policy that reads them: what matches, which rule decides, and what a
user's answer makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_vnc_use.safety.rules import (
    MAX_READ,
    Policy,
    ReviewContext,
    Rule,
    answer,
    deny_unasked,
)
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    Move,
    OpenUrl,
    Proposal,
    Region,
    Ruling,
    RulingKind,
    Scroll,
    Step,
    TraverseHistory,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.keys import key_set, unknown_keys

CONTEXT = ReviewContext(
    "tests/test_shop.py::test_pay[visa]", "Pay for the apples in the test shop"
)
BOX = Region(100, 100, 200, 200)
INSIDE = [
    Click(100, 100),
    Click(199, 199),
    Move(150, 150),
    Scroll(150, 150, "down"),
    TypeText("a", 150, 150),
]
PARTLY = [Drag(150, 150, 500, 500), Drag(500, 500, 150, 150)]
OUTSIDE = [
    Click(200, 150),
    Click(150, 99),
    Drag(0, 150, 500, 150),
    TypeText("a"),
    Wait(),
]
PAY = Confirmation("This submits a payment.", "FINANCIAL_TRANSACTIONS")


def proposed(
    action: Action, confirmation: Confirmation | None = None, name: str = ""
) -> Proposal:
    return Proposal(action, "a reason", {"name": name, "args": {}}, confirmation)


RM = re.compile(r"rm\s+-rf")
CLICK = Click(10, 10)
DELETE = "ctrl+alt+delete"


def key(*keys: str) -> KeyCombo:
    return KeyCombo(keys)


Given = Action | Proposal
MATCHES: list[tuple[dict[str, Any], list[Given], list[Given]]] = [
    ({"action": "CLICK"}, [CLICK, Click(1, 1, "right")], [Drag(1, 1, 2, 2)]),
    (
        {"action": "click_at"},
        [proposed(CLICK, name="click_at")],
        [proposed(CLICK, name="click")],
    ),
    ({"action": "key_*"}, [key("a")], [TypeText("a")]),
    (
        {"action": "delete_user"},
        [CallFunction("delete_user", {})],
        [CallFunction("add_user", {})],
    ),
    ({"action": "call_function"}, [CallFunction("delete_user", {})], [CLICK]),
    ({"action": "bash"}, [InvalidAction("bash", "no such action")], []),
    (
        {"category": "financial_*"},
        [proposed(CLICK, PAY)],
        [proposed(CLICK, Confirmation("", "DELETION"))],
    ),
    ({"explanation": re.compile("payment")}, [proposed(CLICK, PAY)], []),
    (
        {"text": RM},
        [
            TypeText("sudo rm  -rf /"),
            OpenUrl("https://example.org/?q=rm -rf"),
            CallFunction("run", {"text": "rm -rf"}),
            CallFunction("run", {"words": ["sudo", "rm", "-rf", "/"]}),
            CallFunction("run", {"deep": [{"er": "rm -rf"}]}),
            CallFunction("run", {"rm -rf": 1}),
        ],
        [TypeText("farm - rfid"), OpenUrl("https://example.org/?q=rm%20-rf")],
    ),
    (
        {"keys": key_set(DELETE)},
        [
            key("ctrl", "alt", "delete"),
            key("Alt_L", "Control", "Del"),
            key("control+option+KP_Delete"),
            key("ctrl", "alt", "\x7f"),
            key("a", "ctrl", "alt", "shift", "delete"),
            KeyDown(DELETE),
        ],
        [key("ctrl", "delete"), KeyUp(DELETE), TypeText(DELETE)],
    ),
    (
        {"keys": key_set("enter")},
        [
            TypeText("apples", press_enter=True),
            TypeText("apples\n"),
            key("KP_Enter"),
            key("shift", "enter"),
        ],
        [TypeText("apples"), CLICK],
    ),
    (
        {"keys": key_set("ctrl+a")},
        [TypeText("apples", clear_first=True)],
        [TypeText("apples")],
    ),
    ({"keys": key_set("shift+1")}, [TypeText("!")], [TypeText("1")]),
    (
        {"keys": key_set("alt+left")},
        [TraverseHistory("back")],
        [TraverseHistory("forward")],
    ),
    ({"test": "tests/test_shop.py::test_pay[visa]"}, [CLICK], []),
    ({"task": re.compile("test shop$")}, [CLICK], []),
    ({"task": re.compile("real shop")}, [], [CLICK]),
    ({"region": BOX}, [*INSIDE, *PARTLY], OUTSIDE),
]
ALLOWS: list[tuple[dict[str, Any], list[Given], list[Given]]] = [
    (
        {"keys": key_set("enter")},
        [key("Return"), TypeText("\n\n")],
        [
            TypeText("rm -rf\n"),
            TypeText("apples", press_enter=True),
            key("ctrl", "enter"),
            CLICK,
            TypeText("apples"),
        ],
    ),
    (
        {"text": re.compile("apples")},
        [
            TypeText("apples"),
            CallFunction("buy", {"apples": "apples"}),
            OpenUrl("https://shop/apples"),
        ],
        [
            TypeText("rm -rf"),
            CallFunction("buy", {"what": "apples"}),
            CallFunction("buy", {"apples": "rm -rf"}),
            CallFunction("buy", {}),
            CLICK,
        ],
    ),
    ({"region": BOX}, INSIDE, [*PARTLY, *OUTSIDE]),
]


@pytest.mark.parametrize(
    ("decision", "conditions", "matching", "others"),
    [
        *(("deny", *case) for case in MATCHES),
        *(("ask", *case) for case in MATCHES),
        *(("allow", *case) for case in ALLOWS),
    ],
)
def test_rule_matches_where_conditions_hold(
    decision: RulingKind,
    conditions: dict[str, Any],
    matching: list[Given],
    others: list[Given],
) -> None:
    rule = Rule(decision, **conditions)

    def is_matched(given: Given) -> bool:
        proposal = given if isinstance(given, Proposal) else proposed(given)
        return rule.matches(proposal, CONTEXT)

    assert [given for given in matching + others if is_matched(given)] == matching


LONG_TEXTS: list[Action] = [
    TypeText("a" * (MAX_READ + 1)),
    CallFunction("f", {"a": ["b" * MAX_READ]}),
]


@pytest.mark.parametrize("decision", ["allow", "deny", "ask"])
@pytest.mark.parametrize("action", LONG_TEXTS, ids=["typed", "argument"])
def test_text_over_limit_denied(action: Action, decision: RulingKind) -> None:
    rule = Rule(decision, "a rule", text=re.compile("rm"))
    ruling = Policy((rule,)).review(proposed(action), CONTEXT)
    assert ruling.kind == "deny"
    assert re.fullmatch(
        r"rule 1 'a rule': the action has \d+ characters; a review reads .*",
        ruling.rule,
    )


def test_text_at_limit_is_read() -> None:
    policy = Policy((Rule("deny", text=re.compile("rm")),))
    action = TypeText("a" * MAX_READ)
    assert policy.review(proposed(action), CONTEXT).kind == "allow"


@pytest.mark.parametrize("action", LONG_TEXTS, ids=["typed", "argument"])
def test_text_over_limit_without_text_rule_allowed(action: Action) -> None:
    policy = Policy((Rule("deny", keys=key_set("f5")),))
    assert policy.review(proposed(action), CONTEXT).kind == "allow"


def ruled(actions: Sequence[Action], **rule: Any) -> list[str]:
    """Return the ruling of a policy with one deny rule on each action; those that it
    allows are performed.
    """
    policy = Policy((Rule("deny", **rule),))
    context = ReviewContext()
    kinds = []
    for action in actions:
        ruling = policy.review(proposed(action), context)
        kinds.append(ruling.kind)
        frame = FrameRef("0" * 64, 9, 9)
        context = context.after(Step(1, 1, proposed(action), ruling, frame, frame))
    return kinds


JOINED: list[list[Action]] = [
    [TypeText("rm"), TypeText(" -rf /")],
    [*map(key, "rm -rf")],
    [TypeText("rm "), key("kp_subtract"), TypeText("rf")],
    [KeyDown("r"), KeyUp("r"), KeyDown("m"), KeyUp("m"), TypeText(" -rf")],
    [
        TypeText("rm"),
        Wait(1),
        Move(1, 1),
        Scroll(1, 1, "down"),
        key("left"),
        TypeText(" -rf"),
    ],
    [TypeText("apples\nrm", 10, 10), TypeText(" -rf")],
]
SEPARATE: list[list[Action]] = [
    [TypeText("rm"), CLICK, TypeText(" -rf")],
    [TypeText("rm"), TypeText(" -rf", 10, 10)],
    [TypeText("rm"), key("enter"), TypeText(" -rf")],
    [TypeText("rm"), key("tab"), TypeText(" -rf")],
    [key("ctrl", "r"), key("ctrl", "m"), key("space"), TypeText("-rf")],
]


@pytest.mark.parametrize(
    ("actions", "last"),
    [
        *((actions, "deny") for actions in JOINED),
        *((actions, "allow") for actions in SEPARATE),
    ],
)
def test_text_of_one_field_is_joined(actions: list[Action], last: str) -> None:
    before_last = ["allow"] * (len(actions) - 1)
    assert ruled(actions, text=RM) == [*before_last, last]


def test_held_keys_count_until_released() -> None:
    delete = key("delete")
    reboot = [KeyDown("ctrl"), KeyDown("alt"), delete]
    assert ruled(reboot, keys=key_set("ctrl+alt+delete")) == ["allow", "allow", "deny"]
    assert set(
        ruled(
            [*reboot[:2], KeyUp("Control_L"), delete], keys=key_set("ctrl+alt+delete")
        )
    ) == {"allow"}
    assert ruled([KeyDown("ctrl"), TypeText("t")], keys=key_set("ctrl+t")) == [
        "allow",
        "deny",
    ]


def test_key_set_of_aliases() -> None:
    assert key_set("Qt.Key_Control+Qt.Key.Key_Plus") == {"ctrl", "+"}
    assert unknown_keys(key_set("ctrl+atl+delete")) == {"atl"}
    assert unknown_keys(key_set("ctrl-alt-delete")) == {"ctrlaltdelete"}


CONDITIONS: dict[str, Any] = {
    "action": "click",
    "category": "FIN*",
    "explanation": re.compile("pay"),
    "region": BOX,
    "test": "tests/*",
}
BROKEN_CONDITIONS: dict[str, Any] = {
    "action": "drag",
    "category": "X*",
    "explanation": re.compile("no"),
    "region": Region(0, 0, 1, 1),
    "test": "x",
    "keys": key_set("a"),
    "text": re.compile("a"),
}


def test_all_conditions_hold_rule_matches() -> None:
    proposal = proposed(Click(150, 150), PAY)
    assert Rule("deny", **CONDITIONS).matches(proposal, CONTEXT)


@pytest.mark.parametrize("condition", BROKEN_CONDITIONS)
def test_one_condition_broken_rule_does_not_match(condition: str) -> None:
    conditions = CONDITIONS | {condition: BROKEN_CONDITIONS[condition]}
    proposal = proposed(Click(150, 150), PAY)
    assert not Rule("deny", **conditions).matches(proposal, CONTEXT)


DESTRUCTIVE = Rule("deny", "no destructive keys", keys=key_set("ctrl+alt+delete"))
PAYING = Rule("allow", "paying", category="FINANCIAL_*")


NO_CLICK = Rule("deny", action="click")


@pytest.mark.parametrize(
    ("policy", "proposal", "kind", "rule"),
    [
        (Policy(), proposed(CLICK), "allow", "harmless"),
        (Policy(), proposed(CLICK, PAY), "deny", "no rule matches"),
        (Policy(unmatched="ask"), proposed(CLICK, PAY), "ask", "no rule matches"),
        (Policy((PAYING,)), proposed(CLICK, PAY), "allow", "rule 1 'paying'"),
        (
            Policy((PAYING, DESTRUCTIVE)),
            proposed(key("ctrl", "alt", "del")),
            "deny",
            "rule 2 'no destructive keys'",
        ),
        (Policy((PAYING, NO_CLICK)), proposed(CLICK, PAY), "allow", "rule 1 'paying'"),
        (
            Policy((DESTRUCTIVE,), "ask"),
            proposed(key("ctrl+alt+del")),
            "deny",
            "rule 1 'no destructive keys'",
        ),
    ],
)
def test_first_matching_rule_decides(
    policy: Policy, proposal: Proposal, kind: str, rule: str
) -> None:
    ruling = policy.review(proposal, CONTEXT)
    assert (ruling.kind, ruling.rule, ruling.by) == (kind, rule, "policy")


@pytest.mark.parametrize(
    ("policy", "ends_run"),
    [
        (Policy(), True),
        (Policy(on_deny="continue"), False),
        (Policy((Rule("deny", action="*", on_deny="continue"),)), False),
    ],
)
def test_denial_ends_run_unless_continued(policy: Policy, ends_run: bool) -> None:
    assert policy.review(proposed(CLICK, PAY), CONTEXT).ends_run is ends_run


@pytest.mark.parametrize(
    "rule", [Rule("allow", explanation=re.compile(".")), Rule("ask", action="*")]
)
def test_action_blocked_by_service_is_denied(rule: Rule) -> None:
    block = Confirmation("This harms somebody.", blocks=True)
    ruling = Policy((rule,), "ask").review(proposed(CLICK, block), CONTEXT)
    assert (ruling.kind, ruling.rule) == ("deny", "blocked by the model's service")
    assert "blocks it because 'This harms somebody.'" in ruling.explanation


@pytest.mark.parametrize(
    ("make", "kind", "by"),
    [
        (lambda asked: answer(asked, yes=True), "allow", "user"),
        (lambda asked: answer(asked, yes=False), "deny", "user"),
        (deny_unasked, "deny", "policy"),
    ],
    ids=["approval", "denial", "no approver"],
)
def test_answer_becomes_ruling(
    make: Callable[[Ruling], Ruling], kind: str, by: str
) -> None:
    asked = Policy(unmatched="ask").review(proposed(CLICK, PAY), CONTEXT)
    ruling = make(asked)
    assert (ruling.kind, ruling.by) == (kind, by)
    assert "payment" in ruling.explanation


@pytest.mark.parametrize(
    ("policy", "ends_run"),
    [
        (Policy(unmatched="ask"), True),
        (Policy((Rule("ask", action="*", on_deny="continue"),)), False),
    ],
    ids=["ends", "continues"],
)
def test_denial_of_asked_ends_run_unless_continued(
    policy: Policy, ends_run: bool
) -> None:
    asked = policy.review(proposed(CLICK, PAY), CONTEXT)
    assert answer(asked, yes=False).ends_run is ends_run
    assert deny_unasked(asked).ends_run is ends_run
