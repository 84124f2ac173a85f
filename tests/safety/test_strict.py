"""The preset "strict": what it allows, and what it denies."""

from __future__ import annotations

import pytest

from pytest_vnc_use.safety.policy_file import explain, load_policy, parse_policy
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    FrameRef,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    OpenUrl,
    Proposal,
    Scroll,
    Step,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

PAGE = "strict: the page is in the list of hosts"
URL = "strict: no URL outside the list"
ACTIONS = "strict: only listed actions"
KEYS = "strict: only listed keys"


@pytest.fixture(scope="module")
def policy() -> Policy:
    text = """
        extends = "strict"
        hosts = ["shop.example", "localhost:8080", "*.test.example", "[::1]:8080", "db.example:*"]
    """
    return parse_policy(text, "policy.toml")


def ruled(policy: Policy, *actions: Action, page: str = "") -> str:
    """The rule that denies the first of these actions that is denied; "" where
    none is.
    """
    context = ReviewContext(page_url=lambda: page)
    for action in actions:
        ruling = policy.review(Proposal(action), context)
        if ruling.kind != "allow":
            return ruling.rule
        frame = FrameRef("0" * 64, 9, 9)
        context = context.after(Step(1, 1, Proposal(action), ruling, frame, frame))
    return ""


def keys(*names: str) -> list[Action]:
    return [KeyCombo((name,)) for name in names]


HARMLESS: list[list[Action]] = [
    [
        Click(10, 10),
        TypeText("alice"),
        *keys("tab"),
        TypeText("<secret:PASSWORD>", press_enter=True),
    ],
    [
        TypeText("At 12:30, for 3.00 or 1/2, on 24.12.2026."),
        TypeText("Fish & chips; tea (hot) & time to rest, env. 5"),
    ],
    [
        KeyCombo(("ctrl", "a")),
        KeyCombo(("ctrl", "c")),
        KeyCombo(("ctrl", "shift", "left")),
        *keys("escape", "F", "5"),
    ],
    [
        KeyDown("shift"),
        *keys("down", "end"),
        KeyUp("shift"),
        *keys("delete"),
        KeyCombo(("shift", "tab")),
    ],
    [KeyDown("ctrl"), Click(1, 1), Click(2, 2), KeyUp("ctrl")],
    [
        OpenUrl("http://shop.example/basket?x=http://a.b#c"),
        OpenUrl("localhost:8080/index.html"),
    ],
    [
        OpenUrl("HTTPS://a.b.test.example/"),
        OpenUrl("http://[::1]:8080"),
        OpenUrl("db.example:5432"),
    ],
    [
        TraverseHistory("back"),
        Scroll(5, 5, "down"),
        Wait(1),
        TakeScreenshot(),
        MouseUp(3, 3),
    ],
    [
        CallFunction("read_file", {"name": "orders.csv"}),
        CallFunction("verify", {"claim": "the page shows http://b.c"}),
    ],
]


@pytest.mark.parametrize(
    "page", ["", "http://shop.example/", "about:blank", "chrome://newtab/"]
)
@pytest.mark.parametrize("actions", HARMLESS)
def test_usual_actions_allowed(
    policy: Policy, actions: list[Action], page: str
) -> None:
    assert ruled(policy, *actions, page=page) == ""


OUTSIDE = [
    "http://evil.example",
    "EVIL.Example",
    "//evil.example",
    "http:\\\\evil.example",
    "\thttp://evil.example",
    "http://shop.example@evil.example",
    "http://shop.example\\@evil.example",
    "http://evil.example#@shop.example",
    "http://shop.example.evil.example",
    "http://notshop.example",
    "shop.example.",
    "http://test.example",
    "http://shop.example:8443",
    "localhost:8081",
    "http://[::1]",
    "http://shop.example%2f@evil.example",
    "http://еvil.example",
    "http://shop。example",
    "http://sh\u200bop.example",
    "2130706433/",
    "[::ffff:7f00:1]",
    "file:///etc/passwd",
    "javascript:location='//evil.example'",
    "about:config",
    "data:text/html,<h1>x",
    "view-source:http://shop.example",
    "http://shop.exa\nmple.evil.example",
    "evil",
    "how to leave",
    "",
    "/",
    "shop",
]


def test_open_unlisted_address_denied(policy: Policy) -> None:
    rules = {address: ruled(policy, OpenUrl(address)) for address in OUTSIDE}
    assert rules == dict.fromkeys(OUTSIDE, URL)


def test_open_blank_page_allowed(policy: Policy) -> None:
    assert ruled(policy, OpenUrl("about:blank")) == ""


# As after a click on a link, or a redirect: DevTools say where it led.
UNLISTED_PAGES = [
    "http://evil.example/",
    "file:///etc",
    "chrome://settings/",
    "http://a@shop.example/",
]


@pytest.mark.parametrize(
    "action", [Click(1, 1), TypeText("hello"), CallFunction("submit", {})]
)
@pytest.mark.parametrize("page", UNLISTED_PAGES)
def test_unlisted_page_denies_actions(
    policy: Policy, page: str, action: Action
) -> None:
    assert ruled(policy, action, page=page) == PAGE


@pytest.mark.parametrize("page", UNLISTED_PAGES)
def test_unlisted_page_allows_only_way_back(policy: Policy, page: str) -> None:
    back = [
        Wait(1),
        TakeScreenshot(),
        KeyUp("a"),
        TraverseHistory("back"),
        OpenUrl("http://shop.example"),
    ]
    assert ruled(policy, OpenUrl("http://evil.example"), page=page) == URL
    assert ruled(policy, *back, page=page) == ""


CHORDS = [
    "ctrl+l",
    "alt+d",
    "F6",
    "ctrl+t",
    "ctrl+w",
    "super",
    "super+r",
    "alt+F4",
    "alt+tab",
    "ctrl+alt+F3",
    "alt",
    "F1",
    "ctrl+shift+i",
    "menu",
    "ctrl+v",
    "shift+insert",
    "ctrl+enter",
    "ctrl+д",
    "altgr",
    "XF86HomePage",
    "hyper+a",
]


@pytest.mark.parametrize("chord", CHORDS)
def test_unlisted_keys_denied(policy: Policy, chord: str) -> None:
    *modifiers, last = chord.split("+")
    ways = {
        "one combination": [KeyCombo((*modifiers, last))],
        "one text": [KeyCombo((chord,))],
        "all held": [*map(KeyDown, [*modifiers, last])],
        "modifiers held": [*map(KeyDown, modifiers), KeyCombo((last,))],
    }
    rules = {way: ruled(policy, *actions) for way, actions in ways.items()}
    assert rules == dict.fromkeys(ways, KEYS)


@pytest.mark.parametrize(
    "actions",
    [
        [TypeText("l")],
        [Wait(1), Click(1, 1), KeyDown("shift"), TypeText("T")],
        [TypeText("\n")],
    ],
)
def test_typed_text_with_held_key_denied(policy: Policy, actions: list[Action]) -> None:
    assert ruled(policy, KeyDown("ctrl"), *actions) == KEYS


@pytest.mark.parametrize("as_proposed", [{}, {"name": "click"}])
@pytest.mark.parametrize(
    "action",
    [
        Click(1, 1, "right"),
        Click(1, 1, "middle", 2),
        Drag(1, 1, 50, 50),
        MouseDown(1, 1),
    ],
)
def test_unlisted_actions_denied(
    policy: Policy, action: Action, as_proposed: dict[str, str]
) -> None:
    proposal = Proposal(action, as_proposed=as_proposed)
    assert policy.review(proposal, ReviewContext()).rule == ACTIONS


@pytest.fixture(scope="module")
def extended() -> Policy:
    text = """
        extends = "strict"
        hosts = ["shop.example"]
        on_deny = "continue"
        rule = [
            {name = "it saves by keys", decision = "allow", keys = "ctrl+s"},
            {decision = "deny", text = "apples"},
            {decision = "allow", action = "d*"},
        ]
    """
    return parse_policy(text, "policy.toml", unmatched="ask")


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (KeyCombo(("ctrl", "s")), "allow"),
        (OpenUrl("http://shop.example"), "allow"),
        (Drag(1, 1, 9, 9), "allow"),
        (KeyCombo(("ctrl", "t")), "deny"),
        (OpenUrl("http://b.example"), "deny"),
        (TypeText("two apples"), "deny"),
        (MouseDown(1, 1), "deny"),
    ],
)
def test_file_extends_strict(extended: Policy, action: Action, kind: str) -> None:
    assert extended.review(Proposal(action), ReviewContext()).kind == kind


def test_file_extending_strict_decides_denials_end(extended: Policy) -> None:
    assert not extended.review(Proposal(MouseDown(1, 1)), ReviewContext()).ends_run


def test_file_extending_strict_asks_unmatched(extended: Policy) -> None:
    proposal = Proposal(Click(1, 1), confirmation=Confirmation("it pays"))
    assert extended.review(proposal, ReviewContext()).kind == "ask"


def test_file_extending_strict_explains_hosts(extended: Policy) -> None:
    assert explain(extended).startswith(
        "strict: no URL outside the list: only these hosts are opened: shop.example; "
    )


ALLOW_ALL = 'extends = "strict"\n[[rule]]\ndecision = "allow"\naction = "*"\n'


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(load_policy("strict"), id="strict"),
        pytest.param(parse_policy(ALLOW_ALL, "policy.toml"), id="allow rule"),
    ],
)
def test_allow_rule_opens_no_unlisted_address(policy: Policy) -> None:
    assert ruled(policy, OpenUrl("http://b.example")) == URL
    assert ruled(policy, Click(1, 1), page="http://b.example") == PAGE
    assert ruled(policy, Click(1, 1)) == ""
