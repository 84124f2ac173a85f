"""Ways around a deny rule that the policy sees: what several actions together come to at the keyboard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_vnc_use.keyboard.keystrokes import Means
from pytest_vnc_use.safety.guesses import MOST_GUESSED
from pytest_vnc_use.safety.keyboard_state import KeyboardState
from pytest_vnc_use.safety.rules import Policy, ReviewContext, Rule, key_set
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Proposal,
    Scroll,
    TypeText,
    Wait,
)

CLICK = Click(10, 10)
PASTED_ONLY = Means("clipboard only")


def key(*keys: str) -> KeyCombo:
    return KeyCombo(keys)


def typed(text: str) -> list[Action]:
    """Each character as a key of its own."""
    return [key(character) for character in text]


def ruled(actions: Sequence[Action], means: Means = Means(), **rule: Any) -> list[str]:  # noqa: B008  # frozen
    """Return the ruling of a policy with one deny rule on each action; those that it allows are carried out."""
    policy = Policy((Rule("deny", **rule),))
    keyboard, said = KeyboardState(means), []
    for action in actions:
        ruling = policy.review(Proposal(action), ReviewContext(keyboard=keyboard))
        said.append(ruling.kind)
        keyboard = keyboard.after(action) if ruling.kind == "allow" else keyboard
    return said


RM = re.compile(r"rm\s+-rf")

EVASIONS_OF_TEXT: dict[str, list[Action]] = {
    "two pieces": [TypeText("rm"), TypeText(" -rf /")],
    "key by key": typed("rm -rf"),
    "keys and a text": [key("r"), key("m"), key("space"), TypeText("-rf")],
    "keys of the number pad": [TypeText("rm "), key("kp_subtract"), TypeText("rf")],
    "keys held and let go": [KeyDown("r"), KeyUp("r"), KeyDown("m"), KeyUp("m"), TypeText(" -rf")],
    "several keys at once": [key("r", "m"), key("space", "-"), key("r", "f")],
    "a wait between": [TypeText("rm"), Wait(1), Move(1, 1), TypeText(" -rf")],
    "a click between": [TypeText("rm"), CLICK, TypeText(" -rf")],
    "a click at the text": [TypeText("rm"), TypeText(" -rf", 10, 10)],
    "a scroll between": [TypeText("rm"), Scroll(1, 1, "down"), TypeText(" -rf")],
    "a drag between": [TypeText("rm"), Drag(1, 1, 5, 5), TypeText(" -rf")],
    "escape between": [TypeText("rm"), key("escape"), TypeText(" -rf")],
    "a useless modifier between": [TypeText("rm"), KeyDown("shift"), KeyUp("shift"), TypeText(" -rf")],
    "a typo taken back": [TypeText("rm -rX"), key("backspace"), TypeText("f")],
    "a typo taken out": [TypeText("rm -Xrf"), key("left"), key("left"), key("backspace")],
    "a typo deleted": [TypeText("Xrm -rf".replace("m", "mX")), *[key("home")], key("right"), key("right"), key("right"),
                       key("delete")],
    "the end first": [TypeText(" -rf"), key("home"), TypeText("rm")],
    "the middle last": [TypeText("rmrf"), key("left"), key("left"), TypeText(" -")],
    "the caret put there by a click": [TypeText("rm rf"), CLICK, TypeText("-")],
    "the front put there by a click": [TypeText(" -rf /"), CLICK, TypeText("rm")],
    "key by key after a click": [TypeText(" -rf /"), CLICK, *typed("rm")],
    "selected and replaced": [TypeText("rm XX -rf"), *[key("left")] * 4, *[key("shift", "left")] * 3, TypeText(" ")],
    "a shell's line start": [TypeText(" -rf"), key("ctrl", "a"), TypeText("rm")],
    "clear_first in a shell": [TypeText(" -rf"), TypeText("rm", clear_first=True)],
    "clear_first in a field": [TypeText("XX"), TypeText("rm", clear_first=True), TypeText(" -rf")],
    "a shell's word taken away": [TypeText("rm XX"), key("ctrl", "w"), TypeText("-rf")],
    "a shell's kill and yank": [TypeText(" -rf"), key("ctrl", "u"), TypeText("rm"), key("ctrl", "y")],
    "a shell's moves": [TypeText("-rf"), *[key("ctrl", "b")] * 3, TypeText("rm ")],
    "a shell's backspace": [TypeText("rm -rX"), key("ctrl", "h"), TypeText("f")],
    "a word deleted": [TypeText("rm XX"), key("ctrl", "backspace"), TypeText("-rf")],
    "cut and pasted": [TypeText(" -rf"), key("ctrl", "a"), key("ctrl", "x"), TypeText("rm"), key("ctrl", "v")],
    "cut and pasted by other keys": [TypeText(" -rf"), key("shift", "home"), key("shift", "delete"), TypeText("rm"),
                                     key("shift", "insert")],
    "pasted by the mouse": [TypeText(" -rf"), key("ctrl", "a"), key("ctrl", "c"), key("backspace"),
                            TypeText("rm"), Click(1, 1, "middle")],
    "while shift is held": [KeyDown("shift"), KeyUp("shift"), *typed("rm -rf")],
    "a click, and a character rubbed out": [TypeText("rm -Xrf /"), CLICK, key("backspace")],
    "a click, and a character deleted": [TypeText("rm -Xrf /"), CLICK, key("delete")],
    "a click, and several deleted": [TypeText("rm XX-rf /"), CLICK, key("delete"), key("backspace")],
    "a click, and a word deleted": [TypeText("rm XX -rf /"), CLICK, key("ctrl", "delete")],
    "selected by a drag and replaced": [TypeText("rm XX-rf /"), Drag(1, 1, 9, 1), TypeText(" ")],
    "selected by a drag and deleted": [TypeText("rm -XXrf /"), Drag(1, 1, 9, 1), key("delete")],
    "selected by a drag in parts": [TypeText("rm XX-rf /"), MouseDown(1, 1), Move(9, 1), MouseUp(9, 1), TypeText(" ")],
    "selected by a double click": [TypeText("rm XX -rf /"), Click(1, 1, count=2), key("delete")],
    "selected by shift and a click": [TypeText("rm XX-rf /"), CLICK, KeyDown("shift"), CLICK, KeyUp("shift"),
                                      TypeText(" ")],
    "selected by keys after a click": [TypeText("rm -Xrf /"), CLICK, key("shift", "right"), key("delete")],
    "moved after a click": [TypeText("rm -Xrf /"), CLICK, key("left"), key("delete")],
    "at two clicks": [TypeText("m f /"), CLICK, TypeText("r"), CLICK, TypeText("-r")],
    "typed between two clicks": [TypeText("m rf /"), CLICK, TypeText("-"), key("left"), CLICK, TypeText("r")],
    "an earlier line clicked at": [TypeText(" -rf /\nhello"), CLICK, TypeText("rm")],
    "an earlier line by keys": [TypeText(" -rf /\nhello"), key("up"), key("home"), TypeText("rm")],
    "an earlier line by a page": [TypeText(" -rf /\nhello"), key("pageup"), TypeText("rm")],
    "a line that enter began": [TypeText(" -rf"), key("home"), key("enter"), key("up"), TypeText("rm"), key("delete")],
    "the front at a click, and enter": [TypeText(" -rf /"), CLICK, TypeText("rm", press_enter=True)],
    "the front at a click of its own, and enter": [TypeText(" -rf /"), TypeText("rm", 3, 3, press_enter=True)],
    "the front at a click, and a new line": [TypeText(" -rf /"), CLICK, TypeText("rm\n")],
    "the front at a click, and a tab": [TypeText(" -rf /"), CLICK, TypeText("rm\tx")],
    "the front at a click, and several lines": [TypeText(" -rf /"), CLICK, TypeText("rm\nx\n\ty", press_enter=True)],
    "the middle at a click, and enter": [TypeText("rm rf"), CLICK, TypeText("-", press_enter=True)],
    "the middle at a click, and a move in one press": [TypeText("rm rf"), CLICK, key("-", "left")],
    "the middle at a click, and another line in one press": [TypeText("rm rf"), CLICK, key("-", "up")],
    "a long line clicked at": [TypeText(" -rf /" + "x" * 400), CLICK, TypeText("rm")],
    "much behind it": [TypeText("rm"), TypeText(" -rf /" + "x" * 200_000)],
    "many lines behind it": [TypeText("rm"), TypeText(" -rf /" + f"\n{'x' * 90_000}" * 3)],
    "a shell's characters swapped": [TypeText("mr -rf"), key("home"), key("right"), key("ctrl", "t")],
    "a shell's word in lower case": [TypeText("RM -rf"), key("home"), key("alt", "l")],
    "over two lines of a shell": [CLICK, TypeText("rm \\\n-rf /\n")],
    "over two lines of a shell, in pieces": [TypeText("rm \\"), key("enter"), TypeText("-rf /\n")],
    "over two lines of a shell, within a word": [TypeText("ls\nr\\"), TypeText("\nm -rf /\n")],
    "in wide letters": [TypeText("ｒm"), TypeText("\u3000－ｒｆ")],
    "with what nobody sees": [TypeText("r\u200b"), TypeText("m\u00ad -r\ufe0ff")],
    "spelled otherwise": [key("KeyR"), key("Key_M"), key("spacebar"), key("minus"), key("r"), key("f")],
}  # fmt: skip


@pytest.mark.parametrize("actions", EVASIONS_OF_TEXT.values(), ids=EVASIONS_OF_TEXT)
def test_a_text_is_one_however_it_is_typed(actions: list[Action]) -> None:
    """Some are denied one action early, where they would already be one in a shell."""
    assert "deny" in ruled(actions, text=RM)[1:]


@pytest.mark.parametrize("name", [name for name in EVASIONS_OF_TEXT if "pasted" not in name])
def test_it_is_one_where_all_text_is_pasted(name: str) -> None:
    """There the clipboard holds what was typed last, and not what was cut before."""
    assert "deny" in ruled(EVASIONS_OF_TEXT[name], PASTED_ONLY, text=RM)[1:]


@pytest.mark.parametrize("paste", [("ctrl", "v"), ("ctrl", "shift", "v"), ("shift", "insert")])
def test_what_was_pasted_is_pasted_again_by_the_keys_for_that(paste: tuple[str, ...]) -> None:
    actions = [TypeText("f\n"), key("shift", "tab"), *typed("rm -r"), key(*paste)]
    assert ruled(actions, PASTED_ONLY, text=RM) == ["allow"] * 7 + ["deny"]


HARMLESS: dict[str, list[Action]] = {
    "an interrupted word": [TypeText("farm"), TypeText(" - rfid")],
    "taken back": [TypeText("rm -"), key("backspace"), key("backspace"), key("backspace"), TypeText("f")],
    "shortcuts": [key("ctrl", "r"), key("ctrl", "m"), key("space"), key("-"), key("ctrl", "r"), key("ctrl", "f")],
    "other capitals": [TypeText("RM -RF"), CLICK, TypeText("rm -R")],
    "fields of a form": [
        each
        for text in ("Alice Farmer", "12 Storm Road", "rfid-7", "alice@farm.example", "- none -")
        for each in (CLICK, TypeText(text))
    ],
    "a slider, and a character rubbed out": [TypeText("firm or rough"), Drag(1, 1, 9, 1), CLICK, key("backspace")],
    "a menu by keys": [TypeText("rm - rf"), *[key("down")] * 3, key("enter"), TypeText("rf")],
    "arrows": [TypeText("r m"), key("left"), key("right"), CLICK, TypeText(" -r f")],
}


@pytest.mark.parametrize("actions", HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_is_not_denied(actions: list[Action]) -> None:
    assert set(ruled(actions, text=RM)) == {"allow"}


@pytest.mark.parametrize(
    "actions",
    [
        [TypeText("yes")],
        typed("yes"),
        [TypeText("no\n"), *typed("yes")],
        [TypeText("no"), key("tab"), *typed("yes")],
        [TypeText("no"), CLICK, *typed("yes")],
        [TypeText("yea"), key("backspace"), TypeText("s")],
    ],
)
def test_a_pattern_of_a_whole_text_is_found_key_by_key(actions: list[Action]) -> None:
    said = ruled(actions, text=re.compile("^yes$"))
    assert said[-1] == "deny"
    assert set(said[:-1]) <= {"allow"}


@pytest.mark.parametrize(
    "actions",
    [
        [TypeText("cd"), *[each for n in range(40) for each in (CLICK, TypeText(f"Value number {n} "), key("left"))]],
        [TypeText("x y " * 25_000), CLICK, TypeText("a"), Drag(1, 1, 9, 1), TypeText("b"), key("backspace")],
    ],
    ids=["many clicks", "a long text"],
)
def test_where_the_caret_was_put_costs_no_more_than_its_bound(actions: list[Action]) -> None:
    keyboard = KeyboardState()
    for action in actions:
        guesses = [joined for editor in keyboard.after(action).editors for joined in editor.guess.texts()]
        assert sum(len(joined.text) for joined in guesses) <= MOST_GUESSED
        keyboard = keyboard.after(action)


SAME_HOST = [
    "http://EVIL.com",
    "http://evil\u3002com/",
    "http://evil\uff0ecom/",
    "http://evil\uff61com/",
    "http://ev\u00adil.com/",
    "http://e\u200bvil\u2060.com",
    "http://evil\ufe0f.com",
    "http://\uff45vil.com",
    "http://ｅｖｉｌ．ｃｏｍ",
    "http://evil%2Ecom",
    "http://%65vil.com",
    "http://%EF%BD%85vil.com",
    "http://ev%C2%ADil.com",
    "HTTP:\\\\user@Evil.com\\",
    "https:/evil.com.",
]


@pytest.mark.parametrize("address", SAME_HOST, ids=ascii)
def test_a_host_is_one_however_it_is_written(address: str) -> None:
    for pattern in (r"evil\.com", r"^https?://evil\.com(/|$)"):
        denied = re.compile(pattern)
        assert ruled([OpenAddress(address)], text=denied) == ["deny"]
        assert ruled([key("ctrl", "l"), TypeText(f"{address}\n")], text=denied) == ["allow", "deny"]
        assert "deny" in ruled([key("ctrl", "l"), *typed(address), key("enter")], text=denied)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("http://xn--bcher-kva.de/", r"bücher\.de"),
        ("http://BÜCHER.de/", r"bücher\.de"),
        ("http://2130706433/", r"127\.0\.0\.1"),
        ("http://0x7f.1/", r"127\.0\.0\.1"),
        ("127.1:8080/", r"//127\.0\.0\.1:8080"),
        ("Evil.com", r"^http://evil\.com"),
    ],
)
def test_a_host_is_one_in_other_letters_and_numbers(address: str, host: str) -> None:
    assert ruled([OpenAddress(address)], text=re.compile(host)) == ["deny"]


@pytest.mark.parametrize("text", ["EVIL.com\n", "evil%2Ecom\n", "http://ev\u00adil.com", "ｅｖｉｌ。ｃｏｍ"])
def test_a_typed_host_is_one_in_pieces(text: str) -> None:
    for cut in range(1, len(text)):
        said = ruled([key("ctrl", "l"), TypeText(text[:cut]), TypeText(text[cut:])], text=re.compile(r"evil\.com"))
        assert "deny" in said


ONLY_THE_SHOP = re.compile(r"^https?://(?!shop\.test(?:[:/?#]|$))")
TO_AN_ADDRESS: dict[str, Action] = {
    "ctrl+l": key("ctrl", "l"),
    "alt+d": key("alt", "d"),
    "F6": key("f6"),
    "a new tab": key("ctrl", "t"),
    "a new window": key("ctrl", "shift", "n"),
    "ctrl+l in Russian": key("ctrl", "д"),
    "F6 that stays down": KeyDown("f6"),
}
ELSEWHERE = [
    "evil.com",
    "EVIL.com",
    "evil.com.",
    "www.evil.com/x?y=1",
    "www.evil.com/a b",
    "evil.com:8080\\x",
    "user@evil.com",
    "user:shop.test@evil.com",
    "//evil.com",
    "localhost/x",
    "evil/x",
    "evil%2Ecom",
    "ｅｖｉｌ。ｃｏｍ",
    "[::1]:80",
    "shop.test.evil.com",
    "http://evil.com",
]


@pytest.mark.parametrize("address", ELSEWHERE, ids=ascii)
def test_an_address_without_a_scheme_is_one_with_it(address: str) -> None:
    assert ruled([OpenAddress(address)], text=ONLY_THE_SHOP) == ["deny"]
    assert ruled([OpenAddress(f" \x01{address}\t")], text=ONLY_THE_SHOP) == ["deny"]
    for scheme in ("http", "https"):
        assert ruled([OpenAddress(address)], text=re.compile(rf"^{scheme}://(?!shop\.test(?:[:/?#]|$))")) == (
            ["deny"] if not address.startswith("http:") or scheme == "http" else ["allow"]
        )


@pytest.mark.parametrize("focus", TO_AN_ADDRESS.values(), ids=TO_AN_ADDRESS)
@pytest.mark.parametrize("address", ELSEWHERE, ids=ascii)
def test_so_it_is_where_it_is_typed_and_entered(address: str, focus: Action) -> None:
    for typing in (
        [TypeText(f"{address}\n")],
        [TypeText(address, clear_first=True, press_enter=True)],
        [TypeText(address), key("enter")],
        [TypeText(address), key("alt", "enter")],
        [TypeText(address[1:]), key("home"), TypeText(address[0]), key("KP_Enter")],
        [TypeText("x"), key("escape"), TypeText(f"{address}X"), key("backspace"), key("enter")],
        [TypeText(address), key("ctrl", "l"), key("enter")],
        [TypeText(address), key("down"), key("up"), key("tab")],
        [TypeText(address), CLICK],
    ):
        said = ruled([TypeText("hello "), focus, *typing], text=ONLY_THE_SHOP)
        assert "deny" in said[2:], typing


def test_so_it_is_where_it_is_pasted() -> None:
    copied = [TypeText("evil.com"), key("ctrl", "a"), key("ctrl", "c")]
    assert ruled([*copied, key("ctrl", "l"), key("ctrl", "v"), key("enter")], text=ONLY_THE_SHOP)[-1] == "deny"
    assert ruled([key("ctrl", "l"), TypeText("évil.com\n")], PASTED_ONLY, text=ONLY_THE_SHOP)[-1] == "deny"


def test_ctrl_and_enter_make_an_address_of_a_word() -> None:
    actions = [key("ctrl", "l"), TypeText("evil"), key("ctrl", "enter")]
    assert ruled(actions, text=re.compile(r"^https?://www\.evil\.com")) == ["allow", "allow", "deny"]


NO_ADDRESS: dict[str, list[Action]] = {
    "the shop's": [OpenAddress("shop.test"), OpenAddress("SHOP.test/x?y=1"), OpenAddress("shop.test:8080")],
    "of another scheme": [OpenAddress("about:blank"), OpenAddress("mailto:alice@evil.com"), OpenAddress("app://x.y")],
    "the shop's, typed": [key("ctrl", "l"), TypeText("shop.test\n"), key("ctrl", "l"), *typed("shop.test\n")],
    "typed in a field": [CLICK, TypeText("evil.com"), key("tab"), TypeText("alice@evil.com\n")],
    "a field after an address": [key("ctrl", "l"), TypeText("shop.test\n"), TypeText("alice@evil.com\n")],
    "a click after the key": [key("ctrl", "l"), CLICK, TypeText("alice@evil.com\n")],
    "a tab after the key": [key("ctrl", "l"), key("tab"), TypeText("alice@evil.com\n")],
    "not entered": [key("ctrl", "l"), TypeText("evil.com")],
    "over another": [key("ctrl", "l"), TypeText("evil.com"), key("ctrl", "l"), TypeText("shop.test\n")],
    "a word to search for": [key("ctrl", "t"), TypeText("apples\n")],
    "words to search for": [key("ctrl", "t"), TypeText("3.5 apples or pears/plums\n")],
    "commands where ctrl+l clears": [key("ctrl", "l"), TypeText("cat /etc/hosts\n"), TypeText("./run.sh x.y\n")],
    "arguments": [CallFunction("visit", {"page": "evil.com"})],
}  # fmt: skip


@pytest.mark.parametrize("actions", NO_ADDRESS.values(), ids=NO_ADDRESS)
def test_what_is_no_address_elsewhere_is_not_denied(actions: list[Action]) -> None:
    assert set(ruled(actions, text=ONLY_THE_SHOP)) == {"allow"}


@pytest.mark.parametrize("pattern", ["^http://evil", "^https://evil", "^https?://"])
def test_an_allow_rule_is_not_found_in_a_scheme_that_nobody_wrote(pattern: str) -> None:
    rule = Rule("allow", text=re.compile(pattern))
    assert not rule.matches(Proposal(OpenAddress("evil.com")), ReviewContext())
    keyboard = KeyboardState().after(key("ctrl", "l"))
    assert not rule.matches(Proposal(TypeText("evil.com\n")), ReviewContext(keyboard=keyboard))


@pytest.mark.parametrize("before", ["", "ls\n", "cd /tmp; \\\n"])
def test_lines_that_a_shell_joins_are_one_line(before: str) -> None:
    actions = [TypeText(f"{before}rm \\\n"), TypeText("-rf /\n")]
    assert "deny" in ruled(actions, text=re.compile(r"^(cd /tmp; )?rm -rf /$"))


@pytest.mark.parametrize("text", ["rm \\\n-rf", "rm \\\r\n-rf"])
def test_so_are_those_of_an_argument(text: str) -> None:
    assert ruled([CallFunction("run", {"command": text})], text=RM) == ["deny"]


def test_a_functions_address_is_read_as_one() -> None:
    action = CallFunction("visit", {"page": "http://ev\u00adil%2ECOM"})
    assert ruled([action], text=re.compile(r"evil\.com")) == ["deny"]


@pytest.mark.parametrize("address", ["http://evil.community", "http://devil-com/", "http://evil.co\u006e"])
def test_another_host_is_another(address: str) -> None:
    said = ruled([OpenAddress(address), TypeText(address)], text=re.compile(r"//evil\.com(/|$)"))
    assert said == ["allow", "allow"]


def test_what_was_allowed_is_not_held_against_what_comes_after() -> None:
    tidy = Rule("allow", text=re.compile("^rm -rf build$"))
    policy = Policy((tidy, Rule("deny", text=RM)))
    keyboard = KeyboardState()
    for action in (
        TypeText("rm -rf build"),
        key("enter"),
        TypeText("ls\n"),
        key("up"),
        CLICK,
        key("left"),
        *typed("cd"),
    ):
        assert policy.review(Proposal(action), ReviewContext(keyboard=keyboard)).kind == "allow", action
        keyboard = keyboard.after(action)


def test_an_allow_rule_does_not_read_what_was_typed_before() -> None:
    policy = Policy((Rule("allow", text=re.compile("^echo")), Rule("deny", text=RM)))
    keyboard = KeyboardState().after(TypeText("echo; "))
    assert policy.review(Proposal(TypeText("rm -rf /")), ReviewContext(keyboard=keyboard)).kind == "deny"


def test_of_an_action_that_failed_nobody_knows_how_much_was_typed() -> None:
    policy = Policy((Rule("deny", text=RM),))
    before = KeyboardState().after(TypeText("rm"))
    for state, action in (
        (before.after(TypeText("é"), failed=True), TypeText(" -rf")),
        (before.after(TypeText(" -"), failed=True), TypeText("rf")),
    ):
        assert policy.review(Proposal(action), ReviewContext(keyboard=state)).kind == "deny"


EVASIONS_OF_KEYS: dict[str, tuple[str, list[Action]]] = {
    "held one by one": ("ctrl+alt+delete", [KeyDown("ctrl"), KeyDown("alt"), key("delete")]),
    "held, in another order": ("ctrl+alt+delete", [KeyDown("Delete"), key("alt", "control")]),
    "held on the other side": ("ctrl+alt+delete", [KeyDown("Control_R"), key("AltRight", "KP_Delete")]),
    "one held, two pressed": ("ctrl+alt+delete", [KeyDown("alt"), key("ctrl", "Del")]),
    "held while typing": ("ctrl+a", [KeyDown("ctrl"), TypeText("a")]),
    "held while typing a new line": ("ctrl+enter", [KeyDown("ctrl"), TypeText("\n")]),
    "held while entering": ("alt+enter", [KeyDown("alt"), TypeText("x", press_enter=True)]),
    "held while clicking": ("ctrl", [KeyDown("ctrl")]),
    "with another letter": ("enter", [key("a", "Return")]),
    "with shift": ("enter", [key("shift", "Return")]),
    "of the number pad": ("enter", [key("KP_Enter")]),
    "as text": ("enter", [TypeText("\r\n")]),
    "as a key of text": ("enter", [key("\n")]),
    "by its code": ("enter", [key("Qt.Key.Key_Return")]),
    "at an address": ("enter", [OpenAddress("about:blank")]),
    "written with spaces": ("alt+f4", [key("alt f4")]),
    "shift is in the character": ("shift+a", [TypeText("bananA")]),
    "a symbol by its key": ("shift+1", [key("exclam")]),
    "a symbol by its name": ("!", [key("shift", "1")]),
    "with AltGr": ("ctrl+w", [key("altgr", "ctrl", "w")]),
    "a terminal's enter": ("enter", [key("ctrl", "m")]),
    "a terminal's other enter": ("enter", [KeyDown("ctrl"), TypeText("j")]),
    "a terminal's tab": ("tab", [key("ctrl", "i")]),
    "a terminal's escape": ("escape", [key("ctrl", "[")]),
    "a terminal's other escape": ("escape", [key("ctrl", "3")]),
    "a terminal's other escape, of the number row": ("escape", [KeyDown("ctrl"), TypeText("3")]),
    "a terminal's other backspace": ("backspace", [key("ctrl", "8")]),
    "escape by its character": ("escape", [key("\x1b")]),
    "a menu by shift and F10": ("menu", [key("shift", "f10")]),
    "a menu by shift and F10, held": ("menu", [KeyDown("shift"), key("F10")]),
    "a menu by its key": ("shift+f10", [key("menu")]),
    "a terminal's backspace": ("backspace", [key("ctrl", "h")]),
    "a line feed": ("enter", [key("Linefeed")]),
    "another enter": ("enter", [key("ISO_Enter")]),
    "meta for alt": ("alt+f4", [key("meta", "f4")]),
    "meta for alt, by its side": ("alt+f4", [key("Meta_L+F4")]),
    "meta for alt, held": ("alt+f4", [KeyDown("Meta_L"), key("f4")]),
    "the right alt key": ("alt+f4", [key("ISO_Level3_Shift", "f4")]),
    "a Cyrillic letter": ("ctrl+c", [key("ctrl", "с")]),
    "a Cyrillic capital": ("ctrl+c", [key("ctrl", "С")]),
    "a Cyrillic letter while it is held": ("ctrl+w", [KeyDown("ctrl"), key("ц")]),
    "a Cyrillic letter for a terminal": ("enter", [key("ctrl", "ь")]),
    "a Greek letter": ("ctrl+v", [key("ctrl", "ω")]),
    "a Hebrew letter": ("ctrl+c", [key("ctrl", "ב")]),
    "an Arabic letter": ("ctrl+a", [key("ctrl", "ش")]),
    "a wide letter": ("ctrl+w", [key("ctrl", "ｗ")]),
    "a wide capital": ("ctrl+w", [key("ctrl", "Ｗ")]),
    "delete of the number pad": ("delete", [key("KP_Decimal")]),
    "insert of the number pad": ("shift+insert", [key("shift", "KP_0")]),
    "left of the number pad": ("alt+left", [key("alt", "KP_4")]),
    "plus without shift": ("ctrl+plus", [key("ctrl", "=")]),
}


@pytest.mark.parametrize(("keys", "actions"), EVASIONS_OF_KEYS.values(), ids=EVASIONS_OF_KEYS)
def test_keys_are_seen_however_they_come_to_be_down(keys: str, actions: list[Action]) -> None:
    said = ruled(actions, keys=key_set(keys))
    assert said[-1] == "deny"
    assert said[:-1] == ["allow"] * (len(said) - 1)


@pytest.mark.parametrize(
    ("keys", "action"),
    [
        ("escape", key("3")),
        ("escape", TypeText("3")),
        ("escape", TypeText("a\x1b")),  # no hand types it
        ("escape", key("ctrl", "alt", "4")),
        ("menu", key("f10")),
        ("menu", key("ctrl", "f10")),
        ("shift+f10", key("shift", "f9")),
        ("enter", key("m")),
        ("enter", key("alt", "m")),
        ("ctrl+enter", key("ctrl", "m")),
        ("ctrl+i", key("tab")),
        ("alt+left", key("super", "left")),
        ("super+f4", key("alt", "f4")),
        ("c", TypeText("с")),
        ("ctrl+c", key("ctrl", "я")),
        ("delete", TypeText("1.5")),
        ("insert", key("0")),
        ("shift+insert", key("shift", "KP_1")),
        ("ctrl+plus", key("ctrl", "minus")),
        ("ctrl+plus", TypeText("1+1=2")),
    ],
)
def test_another_key_is_another(keys: str, action: Action) -> None:
    assert ruled([action], keys=key_set(keys)) == ["allow"]


def test_meta_that_is_up_again_is_not_alt() -> None:
    actions = [KeyDown("meta"), KeyUp("meta"), KeyDown("super"), key("f4")]
    assert set(ruled(actions, keys=key_set("alt+f4"))) == {"allow"}


@pytest.mark.parametrize(
    ("keys", "action"),
    [
        ("enter", key("ctrl", "m")),
        ("ctrl+c", key("ctrl", "с")),
        ("menu", key("shift", "f10")),
        ("shift+f10", key("menu")),
        ("alt+f4", key("meta", "f4")),
        ("ctrl+plus", key("ctrl", "=")),
    ],
)
def test_an_allow_rule_is_about_the_key_itself(keys: str, action: Action) -> None:
    assert not Rule("allow", keys=key_set(keys)).matches(Proposal(action), ReviewContext())


def test_a_click_counts_with_the_keys_that_are_held() -> None:
    held = [KeyDown("ctrl"), Click(1, 1)]
    assert ruled(held, keys=key_set("ctrl"), action="click") == ["allow", "deny"]
    assert ruled([*held[:1], KeyUp("Control_L"), Click(1, 1)], keys=key_set("ctrl"), action="click")[-1] == "allow"


def test_keys_that_are_up_again_are_not_down() -> None:
    actions = [key("ctrl", "alt"), key("delete"), KeyDown("ctrl"), KeyUp("ctrl"), key("alt", "delete")]
    assert set(ruled(actions, keys=key_set("ctrl+alt+delete"))) == {"allow"}
