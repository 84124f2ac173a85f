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

PAGE, URL = (
    "strict: the page is in the list of hosts",
    "strict: no URL outside the list",
)
ACTIONS, KEYS = "strict: only listed actions", "strict: only listed keys"


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


def test_usual_actions_allowed(policy: Policy) -> None:
    for actions in HARMLESS:
        for page in ("", "http://shop.example/", "about:blank", "chrome://newtab/"):
            assert ruled(policy, *actions, page=page) == "", actions


OUTSIDE = [
    *("http://evil.example", "EVIL.Example", "//evil.example", "http:\\\\evil.example", "\thttp://evil.example"),
    *("http://shop.example@evil.example", "http://shop.example\\@evil.example", "http://evil.example#@shop.example"),
    *("http://shop.example.evil.example", "http://notshop.example", "shop.example.", "http://test.example"),
    *("http://shop.example:8443", "localhost:8081", "http://[::1]", "http://shop.example%2f@evil.example"),
    *("http://еvil.example", "http://shop。example", "http://sh\u200bop.example", "2130706433/", "[::ffff:7f00:1]"),
    *("file:///etc/passwd", "javascript:location='//evil.example'", "about:config", "data:text/html,<h1>x"),
    *("view-source:http://shop.example", "http://shop.exa\nmple.evil.example", "evil", "how to leave", "", "/", "shop"),
]  # fmt: skip


def test_open_unlisted_address_denied(policy: Policy) -> None:
    for address in OUTSIDE:
        assert ruled(policy, OpenUrl(address)) == URL, address
    assert ruled(policy, OpenUrl("about:blank")) == ""


def test_unlisted_page_allows_only_way_back(policy: Policy) -> None:
    """As after a click on a link, or a redirect: DevTools say where it led."""
    for page in (
        "http://evil.example/",
        "file:///etc",
        "chrome://settings/",
        "http://a@shop.example/",
    ):
        for action in (Click(1, 1), TypeText("hello"), CallFunction("submit", {})):
            assert ruled(policy, action, page=page) == PAGE, page
        assert ruled(policy, OpenUrl("http://evil.example"), page=page) == URL
        back = (
            Wait(1),
            TakeScreenshot(),
            KeyUp("a"),
            TraverseHistory("back"),
            OpenUrl("http://shop.example"),
        )
        assert ruled(policy, *back, page=page) == "", page


CHORDS = [
    *("ctrl+l", "alt+d", "F6", "ctrl+t", "ctrl+w", "super", "super+r", "alt+F4", "alt+tab", "ctrl+alt+F3", "alt", "F1"),
    *("ctrl+shift+i", "menu", "ctrl+v", "shift+insert", "ctrl+enter", "ctrl+д", "altgr", "XF86HomePage", "hyper+a"),
]  # fmt: skip


def test_unlisted_keys_denied(policy: Policy) -> None:
    for chord in CHORDS:
        names = chord.split("+")
        held = [*map(KeyDown, names[:-1]), KeyCombo((names[-1],))]
        for actions in (
            [KeyCombo(tuple(names))],
            [KeyCombo((chord,))],
            [*map(KeyDown, names)],
            held,
        ):
            assert ruled(policy, *actions) == KEYS, chord
    assert ruled(policy, KeyDown("ctrl"), TypeText("l")) == KEYS
    assert (
        ruled(
            policy,
            KeyDown("ctrl"),
            Wait(1),
            Click(1, 1),
            KeyDown("shift"),
            TypeText("T"),
        )
        == KEYS
    )
    assert ruled(policy, KeyDown("ctrl"), TypeText("\n")) == KEYS


def test_unlisted_actions_denied(policy: Policy) -> None:
    for action in (
        Click(1, 1, "right"),
        Click(1, 1, "middle", 2),
        Drag(1, 1, 50, 50),
        MouseDown(1, 1),
    ):
        assert ruled(policy, action) == ACTIONS
        assert (
            policy.review(
                Proposal(action, as_proposed={"name": "click"}), ReviewContext()
            ).rule
            == ACTIONS
        )


def test_file_extends_strict() -> None:
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
    policy, context = (
        parse_policy(text, "policy.toml", unmatched="ask"),
        ReviewContext(),
    )
    kinds: dict[str, list[Action]] = {
        "allow": [
            KeyCombo(("ctrl", "s")),
            OpenUrl("http://shop.example"),
            Drag(1, 1, 9, 9),
        ],
        "deny": [
            KeyCombo(("ctrl", "t")),
            OpenUrl("http://b.example"),
            TypeText("two apples"),
            MouseDown(1, 1),
        ],
    }
    for kind, actions in kinds.items():
        for action in actions:
            assert policy.review(Proposal(action), context).kind == kind, action
    assert not policy.review(Proposal(MouseDown(1, 1)), context).ends_run
    assert (
        policy.review(
            Proposal(Click(1, 1), confirmation=Confirmation("it pays")), context
        ).kind
        == "ask"
    )
    first, *_ = explain(policy).splitlines()
    assert first.startswith(
        "strict: no URL outside the list: only these hosts are opened: shop.example; "
    )


def test_allow_rule_opens_no_unlisted_address() -> None:
    text = 'extends = "strict"\n[[rule]]\ndecision = "allow"\naction = "*"\n'
    for policy in (load_policy("strict"), parse_policy(text, "policy.toml")):
        assert (
            policy.review(Proposal(OpenUrl("http://b.example")), ReviewContext()).rule
            == URL
        )
        assert (
            policy.review(
                Proposal(Click(1, 1)),
                ReviewContext(page_url=lambda: "http://b.example"),
            ).rule
            == PAGE
        )
        assert policy.review(Proposal(Click(1, 1)), ReviewContext()).kind == "allow"
