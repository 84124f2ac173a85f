"""The preset "strict": what it lets through, and each way that we know to get out of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.keyboard.keystrokes import Means
from pytest_vnc_use.safety.addresses import Addresses
from pytest_vnc_use.safety.keyboard_state import KeyboardState
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.safety.policy_words import explain
from pytest_vnc_use.safety.rules import ReviewContext
from pytest_vnc_use.safety.strict import strict_policy
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    OpenAddress,
    Proposal,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

LIST = Addresses(("shop.example", "localhost:8080", "*.test.example", "[::1]:8080", "db.example:*"))
POLICY = strict_policy(LIST)
PAGE, ADDRESS = "strict: the page is in the list of addresses", "strict: no address outside the list"
KEYS = "strict: only keys that type, edit and move"


def ruled(*actions: Action, page: str = "", means: Means | None = None) -> str:
    """The rule that denies the first of these actions that is denied; "" where none is."""
    context = ReviewContext(keyboard=KeyboardState(means=means or Means()), page_url=lambda: page)
    for action in actions:
        ruling = POLICY.review(Proposal(action), context)
        if ruling.kind != "allow":
            return ruling.rule
        context = ReviewContext(keyboard=context.keyboard.after(action), page_url=context.page_url)
    return ""


def keys(*names: str) -> list[Action]:
    return [KeyCombo((name,)) for name in names]


# --- what a test does ------------------------------------------------------------------------------------------------

HARMLESS: list[list[Action]] = [
    [Click(10, 10), TypeText("alice"), *keys("tab"), TypeText("<secret:PASSWORD>", press_enter=True)],
    [TypeText("Two apples, please. Thanks!"), TypeText("At 12:30, for 3.00 or 1/2, on 24.12.2026.", press_enter=True)],
    [Click(9, 9), TypeText("Very good."), Click(9, 90), TypeText("Alice Smith")],
    [TypeText("Grüße, 你好, é", clear_first=True)],
    [TypeText("Fish & chips; tea (hot) & time to rest, env. 5, then exec summary"), TypeText("We use python & more.")],
    [TypeText("12.50"), *keys("tab"), TypeText("+49 30 1234"), *keys("tab"), TypeText("e.g. this, i.e. that")],
    [KeyCombo(("ctrl", "a")), KeyCombo(("ctrl", "c")), KeyCombo(("ctrl", "shift", "left")), *keys("escape", "F", "5")],
    [KeyDown("shift"), *keys("down", "end"), KeyUp("shift"), *keys("delete"), KeyCombo(("shift", "tab"))],
    [KeyDown("ctrl"), Click(1, 1), Click(2, 2), KeyUp("ctrl")],
    [OpenAddress("http://shop.example/basket?x=http://a.b#c"), OpenAddress("localhost:8080/index.html")],
    [OpenAddress("HTTPS://a.b.test.example/"), OpenAddress("http://[::1]:8080"), OpenAddress("db.example:5432")],
    [TypeText("http://shop.example:80/basket/"), *keys("enter"), TypeText("alice@shop.example")],
    [TraverseHistory("back"), Scroll(5, 5, "down"), Wait(1), TakeScreenshot(), MouseUp(3, 3)],
    [CallFunction("read_file", {"name": "orders.csv"}), CallFunction("verify", {"claim": "the page shows http://b.c"})],
]


@pytest.mark.parametrize("actions", HARMLESS)
def test_what_a_test_does_is_allowed(actions: list[Action]) -> None:
    assert ruled(*actions) == ""
    assert ruled(*actions, page="http://shop.example/") == ""


# --- addresses -------------------------------------------------------------------------------------------------------

OUTSIDE = [
    *("http://evil.example", "https://evil.example/", "evil.example", "EVIL.Example", "//evil.example"),
    *("http:\\\\evil.example", "http:evil.example", "http:/evil.example", "hTTp://evil.example", "\thttp://evil.example"),
    "evil.example:80",
    *("http://shop.example@evil.example", "http://shop.example:80@evil.example/", "shop.example@evil.example"),
    *("http://shop.example\\@evil.example", "http://evil.example#@shop.example", "http://evil.example?shop.example"),
    *("http://shop.example.evil.example", "http://notshop.example", "shop.example.", "http://test.example"),
    *("http://shop.example:8443", "http://localhost", "localhost:8081", "http://localhost:80800"),
    *("http://shop%2eexample.evil.example", "http://%65vil.example", "evil%2Eexample", "http://shop.example%2f@evil.example"),
    *("http://еvil.example", "http://shop。example", "ｈｔｔｐ://evil.example", "evil．example", "http://shop.example／x"),
    *("http://xn--evil-dma.example", "xn--80ak6aa92e.com", "http://sh\u200bop.example", "http://shop.example\u200b.evil.example"),
    *("http://127.0.0.1:8080", "127.1/", "2130706433/", "0x7f000001", "0x7f.1", "10.0.0.1", "[::ffff:7f00:1]", "http://[::1]"),
    *("file:///etc/passwd", "javascript:location='//evil.example'", "data:text/html,<h1>x", "view-source:http://shop.example"),
    *("javascript: fetch('//evil.example')", "about:config", "chrome://settings", "blob:http://shop.example/1", "ftp://shop.example"),
    *("mailto:x@evil.example", "ms-settings:network", "chrome-extension://abc/x", "intent://x#Intent;end", "ssh://shop.example"),
    *("user:word@evil.example", "alice@evil.example", "evil:8080", "intranet/", "evil.example/a b"),
    "http://evil.example a",
    *("http://shop.example\nhttp://evil.example", "http://shop.exa\nmple.evil.example"),
]  # fmt: skip


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_outside_the_list_is_neither_opened_nor_typed(address: str) -> None:
    assert ruled(OpenAddress(address)) == ADDRESS
    assert ruled(TypeText(address)) == ADDRESS
    assert ruled(Click(300, 20), TypeText(address, press_enter=True)) == ADDRESS
    assert ruled(TypeText(f"  {address}  ", 300, 20)) == ADDRESS


@pytest.mark.parametrize("words", ["evil", "how to leave", "?evil.example", "@evil", "", " ", "/", "shop"])
def test_opening_words_would_search_for_them(words: str) -> None:
    assert ruled(OpenAddress(words)) == ADDRESS


EVIL = "evil.example"
IN_PARTS: list[list[Action]] = [
    [TypeText("evil."), TypeText("example")],
    [TypeText("evil."), Click(9, 9), TypeText("example")],
    keys(*EVIL),
    [TypeText("evilexample"), *keys(*["left"] * 7), TypeText(".")],
    [TypeText("example"), *keys("home"), TypeText("evil.")],
    [TypeText("evil.exampleX"), *keys("backspace")],
    [TypeText("x evil.example"), KeyCombo(("ctrl", "a")), *keys("left", "delete", "delete")],
    [TypeText("x evil.example"), *keys("home"), KeyCombo(("ctrl", "delete")), *keys("delete")],
    [TypeText("evil.example x"), *keys("backspace", "backspace")],
    [TypeText("x evil.example"), *keys("home", "delete", "delete")],
    [TypeText("shop.example"), TypeText(".evil")],
    [TypeText("shop.example"), TypeText("@evil.example")],
    [TypeText("shop.example"), *keys("home"), TypeText("not")],
    [TypeText("ht"), TypeText("tp:"), TypeText("//e")],
    [TypeText("java"), TypeText("script:"), TypeText("x")],
    [TypeText("example", 9, 9), TypeText("evil.", 3, 3, press_enter=True)],
    [TypeText("example"), Click(3, 3), TypeText("evil.\n")],
    [TypeText("example"), Click(3, 3), TypeText("evil.\t")],
    [KeyDown("shift"), TypeText("evil."), KeyUp("shift"), TypeText("example")],
    [KeyDown("e"), KeyUp("e"), *keys("v", "i", "l", "period"), TypeText("ex")],
    [TypeText("evil"), KeyCombo(("kp_decimal",)), TypeText("example")],
    [TypeText("evil", press_enter=False), TypeText("\u200b."), TypeText("example")],
    [TypeText("10.0"), TypeText(".0"), TypeText(".1")],
    [TypeText("evil:"), TypeText("8080")],
]


@pytest.mark.parametrize("actions", IN_PARTS)
def test_an_address_in_parts(actions: list[Action]) -> None:
    assert ruled(*actions) == ADDRESS


def test_an_address_in_the_arguments_of_a_function() -> None:
    assert ruled(CallFunction("go", {"to": ["http://evil.example"]})) == ADDRESS


@pytest.mark.parametrize("means", [Means("ascii"), Means("latin-1"), Means("clipboard"), Means("none")])
def test_it_holds_for_each_way_to_type(means: Means) -> None:
    assert ruled(TypeText("http://evil.exämple"), means=means) == ADDRESS
    assert ruled(TypeText("alice"), OpenAddress("http://shop.example"), means=means) == ""


def test_where_the_browser_is_decides_too() -> None:
    """As after a click on a link, or a redirect: DevTools say where it led."""
    for page in ("http://evil.example/", "file:///etc", "chrome://settings/", "about:config", "http://a@shop.example/"):
        assert ruled(Click(1, 1), page=page) == PAGE
        assert ruled(TypeText("hello"), page=page) == PAGE
        assert ruled(CallFunction("submit", {}), page=page) == PAGE
        assert ruled(OpenAddress("http://evil.example"), page=page) == PAGE
        assert ruled(Wait(1), TakeScreenshot(), KeyUp("a"), TraverseHistory("back"), page=page) == ""
        assert ruled(OpenAddress("http://shop.example"), page=page) == ""
        assert ruled(OpenAddress("about:blank", in_new_window=True), page=page) == ""
    for page in ("", "about:blank", "chrome://newtab/", "http://shop.example/a", "https://x.test.example/"):
        assert ruled(Click(1, 1), page=page) == ""


def test_only_an_empty_window_is_opened_outside_the_list() -> None:
    assert ruled(OpenAddress("about:blank", in_new_window=True)) == ""
    assert ruled(OpenAddress("about:config", in_new_window=True)) == ADDRESS
    assert ruled(OpenAddress("http://evil.example", in_new_window=True)) == ADDRESS
    assert ruled(OpenAddress("about:blank")) == ADDRESS


@pytest.mark.slow
def test_a_long_text_is_read_in_time() -> None:
    started = time.process_time()
    for text in ("9" * 900_000 + "/", "a" * 900_000, "a." * 400_000, "a:" * 400_000, "a\n" * 400_000, "@" * 900_000):
        ruled(TypeText(text))
    assert time.process_time() - started < 90


# --- keys ------------------------------------------------------------------------------------------------------------

CHORDS = [
    *("ctrl+l", "alt+d", "F6", "ctrl+t", "ctrl+n", "ctrl+k", "ctrl+e", "ctrl+o", "ctrl+s", "ctrl+p"),
    *("ctrl+u", "ctrl+w"),
    *("super", "super+r", "win", "meta", "cmd+space", "alt+F2", "alt+F4", "alt+tab", "ctrl+alt+t", "ctrl+alt+delete"),
    *("ctrl+alt+F3", "ctrl+escape", "alt+space", "alt", "alt+f", "F1", "F10", "F11", "F12", "ctrl+shift+i", "menu"),
    *("shift+F10", "ctrl+shift+t", "ctrl+tab", "ctrl+shift+delete", "ctrl+comma", "ctrl+h", "ctrl+j", "ctrl+v"),
    *("shift+insert", "ctrl+insert", "insert", "ctrl+shift+v", "shift+escape", "shift+KP_0", "KP_0", "ctrl+enter"),
    *("alt+enter", "alt+home", "print", "ctrl+д", "ctrl+м", "altgr", "XF86HomePage", "ctrl+shift+a", "ctrl+1"),
    *("alt+left+a", "ctrl+left+l", "hyper+a", "ctrl+alt+a"),
]  # fmt: skip


@pytest.mark.parametrize("chord", CHORDS)
def test_a_chord_that_leaves_the_program_is_denied_however_it_is_pressed(chord: str) -> None:
    names = chord.split("+")
    assert ruled(KeyCombo(tuple(names))) == KEYS
    assert ruled(KeyCombo((chord,))) == KEYS
    assert ruled(KeyCombo((chord.upper() if chord.isascii() else chord,))) == KEYS
    assert ruled(*map(KeyDown, names)) == KEYS
    if len(names) > 1:
        assert ruled(*map(KeyDown, names[:-1]), KeyCombo((names[-1],))) == KEYS


def test_what_is_held_counts_for_what_is_typed() -> None:
    assert ruled(KeyDown("ctrl"), TypeText("l")) == KEYS
    assert ruled(KeyDown("ctrl"), Wait(1), Click(1, 1), KeyDown("shift"), TypeText("T")) == KEYS
    assert ruled(KeyDown("shift"), OpenAddress("http://shop.example")) == KEYS
    assert ruled(KeyDown("Control_R"), KeyCombo(("t",))) == KEYS
    assert ruled(KeyDown("ctrl"), TypeText("\n")) == KEYS
    assert ruled(KeyDown("ctrl"), Scroll(1, 1, "down", by="keys")) == KEYS


def test_a_text_is_pasted_but_the_clipboard_is_not() -> None:
    assert ruled(TypeText("你好"), means=Means("clipboard")) == ""
    assert ruled(KeyCombo(("ctrl", "c")), KeyCombo(("ctrl", "v"))) == KEYS


# --- the mouse, terminals, files, settings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        (Click(1, 1, "right"), "strict: no right button"),
        (Click(1, 1, "middle"), "strict: no middle button"),
        (Click(1, 1, "middle", 2), "strict: no middle button"),
        (Drag(1, 1, 50, 50), "strict: no drag"),
        (MouseDown(1, 1), "strict: no held button"),
        (MouseDown(1, 1, "right"), "strict: no held button"),
    ],
)
def test_other_ways_of_the_mouse(action: Action, rule: str) -> None:
    assert ruled(action) == rule
    called = Proposal(action, as_proposed={"name": "click"})
    assert POLICY.review(called, ReviewContext()).rule == rule


COMMANDS = [
    *("xterm", "gnome-terminal", "Konsole", "xterm -e sh", "powershell", "cmd", "bash -c x", "python3 -c 1"),
    *("sudo id", "curl x", "WGET -q x", "x; $(id)", "`id`", "a && b", "a | sh", "echo x > ~/.bashrc"),
    *("echo ${HOME}", "cat < /dev/tcp/1/2", "rm\\\n -rf x", "ｓｕｄｏ id"),
    *(
        "ls; sudo id",
        "true;rm -rf x",
        "x & xterm",
        "x & xterm -e y",
        "xterm & x",
        "xterm; x",
        "x || sudo id",
        "(sudo id)",
    ),
    *("'rm' -rf x", '"rm" -rf x', "'/usr/bin/wget' x", "env sudo id", "env -i A=1 rm x", "A=1 rm x", "exec xterm"),
    *("timeout 5 ssh x", "nice -n 5 npm i", "time rm -rf x", "x; then curl y", "command exec rm x"),
]


@pytest.mark.parametrize("text", COMMANDS)
def test_no_terminal(text: str) -> None:
    assert ruled(TypeText(text)) == "strict: no terminal"
    assert ruled(TypeText(text[:2]), TypeText(text[2:])) == "strict: no terminal"
    assert ruled(*keys("a", "enter"), TypeText(text, press_enter=True)) == "strict: no terminal"


@pytest.mark.parametrize(
    "text", ["~/", "~root", "/etc/passwd", "~/.ssh/id_rsa", '"/etc/passwd"', "../secret", "$HOME/x", "%APPDATA%\\x"]
)
def test_no_file(text: str) -> None:
    assert ruled(TypeText(text)) == "strict: no file"
    assert ruled(TypeText(text[:2]), TypeText(text[2:])) == "strict: no file"


@pytest.mark.parametrize(
    "text", ["gnome-control-center", "xfce4-settings-manager", "regedit", "Control Panel", "@history x"]
)
def test_no_settings(text: str) -> None:
    assert ruled(TypeText(text, press_enter=True)) == "strict: no settings"


# --- the file --------------------------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_word_is_a_policy_and_a_file_extends_it(tmp_path: Path) -> None:
    assert load_policy("strict") == strict_policy()
    text = """
        extends = "strict"
        addresses = ["shop.example"]
        on_deny = "continue"
        [[rule]]
        name = "it saves by keys"
        decision = "allow"
        keys = "ctrl+s"
        [[rule]]
        decision = "deny"
        text = "apples"
    """
    policy = load_policy(write(tmp_path, text), unmatched="ask")
    context = ReviewContext()

    def kind(action: Action) -> str:
        return policy.review(Proposal(action), context).kind

    assert [kind(KeyCombo(("ctrl", "s"))), kind(KeyCombo(("ctrl", "t")))] == ["allow", "deny"]
    assert [kind(OpenAddress("http://shop.example")), kind(OpenAddress("http://b.example"))] == ["allow", "deny"]
    assert kind(TypeText("two apples")) == "deny"
    assert not policy.review(Proposal(Drag(1, 1, 9, 9)), context).ends_run
    wish = Proposal(Click(1, 1), confirmation=Confirmation("it pays"))
    assert policy.review(wish, context).kind == "ask"
    assert explain(policy).splitlines()[1] == (
        "strict: no address outside the list: only addresses of these hosts are opened or typed: shop.example; "
        "the planner is told of a no, and the run goes on"
    )


def test_no_rule_of_the_file_opens_an_address(tmp_path: Path) -> None:
    text = 'extends = "strict"\n[[rule]]\ndecision = "allow"\naction = "*"\n'
    policy = load_policy(write(tmp_path, text))
    assert policy.review(Proposal(OpenAddress("http://b.example")), ReviewContext()).rule == ADDRESS
    assert policy.review(Proposal(TypeText("b.example")), ReviewContext()).rule == ADDRESS
    assert policy.review(Proposal(Click(1, 1)), ReviewContext(page_url=lambda: "http://b.example")).rule == PAGE
    assert policy.review(Proposal(Drag(1, 1, 2, 2)), ReviewContext()).kind == "allow"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('extends = "lax"', "`extends` must be 'strict', got 'lax'"),
        ('addresses = ["a"]', '`addresses` needs extends = "strict", which is missing'),
        ('extends = "strict"\naddresses = "a"', "`addresses` must be a list of hosts, such as"),
        ('extends = "strict"\naddresses = ["http://a"]', r"`addresses` must be hosts .* \(not 'http://a'\)"),
        ('extends = "strict"\naddresses = ["bücher.example"]', "`addresses` must be hosts in lower-case ASCII"),
        ('extends = "strict"\naddresses = ["*"]', "`addresses` must be hosts"),
        (
            'extends = "strict"\n[[rule]]\ndecision = "allow"\nexplanation = "order"',
            "rule 1: a rule that allows or asks must have `action`, `keys` or `text`",
        ),
    ],
)
def test_a_file_that_would_not_hold(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load_policy(write(tmp_path, text))
