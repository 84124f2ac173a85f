"""What a review takes: long texts are ruled on in time, and what is too much for it is denied and says so."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

import pytest

from pytest_vnc_use.keyboard.keystrokes import Keystroke, Means, held_after, in_keys, inputs_of
from pytest_vnc_use.safety.keyboard_state import KeyboardState, edited, edits_of
from pytest_vnc_use.safety.patterns import Search
from pytest_vnc_use.safety.rules import Policy, ReviewContext, Rule, key_set
from pytest_vnc_use.safety.sight import MOST_READ
from pytest_vnc_use.types import Action, CallFunction, Click, KeyCombo, KeyDown, OpenAddress, Proposal, Ruling, TypeText

LONG = 100_000
NO_RM = Rule("deny", "no rm", text=re.compile(r"rm\s+-rf"), on_deny="continue")
NO_REBOOT = Rule("deny", "no reboot", keys=key_set("ctrl+alt+delete"))


def ruled(action: Action, keyboard: KeyboardState, *rules: Rule) -> Ruling:
    return Policy(rules).review(Proposal(action), ReviewContext(keyboard=keyboard))


def numbered(form: str) -> str:
    """That text with the numbers from 0 up in it, so that no two are the same."""
    return "".join(form.format(number) for number in range(LONG // (len(form) + 2)))


LONG_TEXTS: dict[str, Callable[[], str]] = {
    "words": lambda: "hello world foo " * (LONG // 16),
    "lines": lambda: numbered("Line {}. It is short\n"),
    "lines of two characters": lambda: "a\nb\n" * (LONG // 4),
    "lines that are pasted": lambda: numbered("é{}\n"),
    "addresses": lambda: numbered("http://Host{}.test/A%20b "),
    "escapes": lambda: numbered("%41{}\n"),
    "one word": lambda: "A" * LONG,
    "one word with stops": lambda: "A." * (LONG // 2) + "A b",
    "a number for a host": lambda: "http://" + "1" * LONG + "!",
    "a host in other letters": lambda: "http://xn--" + "a-" + "b9" * (LONG // 2),
    "wide letters": lambda: "Ａ\u200b" * (LONG // 2),
}


def test_time_that_a_busy_machine_takes_away_does_not_count() -> None:
    search = Search(re.compile("a"), limit_s=0.05)
    time.sleep(0.1)
    assert search.find("a")


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_a_long_text_is_ruled_on_in_time(make: Callable[[], str]) -> None:
    """A review that takes longer than its limit denies."""
    text = make()
    keyboard = KeyboardState()
    for action in (TypeText(text), TypeText("x"), KeyCombo(("ctrl", "left")), Click(1, 1), TypeText("rm")):
        assert ruled(action, keyboard, NO_RM).kind == "allow"
        keyboard = keyboard.after(action)
    assert ruled(OpenAddress(text.replace("\n", "")), KeyboardState(), NO_RM).kind == "allow"
    assert ruled(TypeText(f"{text}\nrm  -rf\n{text}"), KeyboardState(), NO_RM).rule == "rule 1 'no rm'"
    assert ruled(TypeText(" -rf"), keyboard, NO_RM).rule == "rule 1 'no rm'"


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (TypeText("a" * (MOST_READ + 1)), "the action has 1000001 characters; a review reads at most 1000000"),
        (OpenAddress("a" * 2_000_000), "the action has 2000000 characters; a review reads at most 1000000"),
        (CallFunction("f", {"a": ["b" * MOST_READ]}), "the action has 1000001 characters; a review reads at most"),
    ],
)
def test_what_is_too_long_for_a_review_is_denied(action: Action, reason: str) -> None:
    for decision in ("allow", "deny", "ask"):
        rule = Rule(decision, "a rule", text=re.compile("rm"), on_deny="continue")  # type: ignore[arg-type]
        ruling = ruled(action, KeyboardState(), rule)
        assert (ruling.kind, ruling.ends_run) == ("deny", False)
        assert ruling.rule.startswith(f"rule 1 'a rule': {reason}")
    assert ruled(action, KeyboardState(), Rule("deny", action="click")).kind == "allow"


def test_arguments_are_read_to_a_depth() -> None:
    nested: object = "rm -rf"
    for _ in range(90):
        nested = [nested]
    assert ruled(CallFunction("f", {"a": nested}), KeyboardState(), NO_RM).rule == "rule 1 'no rm'"
    for _ in range(3_000):
        nested = [nested]
    ruling = ruled(CallFunction("f", {"a": nested}), KeyboardState(), NO_RM)
    assert ruling.rule == "rule 1 'no rm': the arguments must not be more than 100 levels of JSON deep"
    assert (ruling.kind, ruling.ends_run) == ("deny", False)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "action",
    [KeyCombo(("ctrl " * 3_000,)), KeyDown("ctrl " * 3_000), KeyCombo(tuple(map(chr, range(0x4E00, 0x9000))))],
    ids=["words", "words that are held", "many keys"],
)
def test_keys_that_no_hand_presses_together_are_no_keys(action: Action) -> None:
    assert ruled(action, KeyboardState(), NO_REBOOT, NO_RM).kind == "allow"
    assert KeyboardState().after(action) == KeyboardState()


@pytest.mark.slow
def test_a_text_that_only_edits_is_followed_to_a_limit() -> None:
    keyboard = KeyboardState().after(TypeText("a" * LONG)).after(KeyCombo(("ctrl", "a"))).after(KeyCombo(("ctrl", "c")))
    keyboard = keyboard.after(KeyDown("ctrl"))
    assert ruled(TypeText("vv"), keyboard, NO_RM).kind == "allow"
    told = ruled(TypeText("v" * 100), keyboard, NO_RM).rule
    assert told == "rule 1 'no rm': the action's keys paste more than the 1000000 characters that a review reads"
    told = ruled(TypeText("a" * LONG), keyboard, NO_RM).rule
    assert told == "rule 1 'no rm': the action has more than the 1000 editing keys that a review reads"
    after = keyboard.after(TypeText("v" * 1_000))
    assert max(len(editor.text) for editor in after.editors) <= 4 * LONG


@pytest.mark.parametrize(
    ("action", "keyboard"),
    [
        (TypeText("a" * LONG), KeyboardState().after(KeyDown("ctrl"))),
        (CallFunction("f", {"a": ["b" * MOST_READ]}), KeyboardState()),
    ],
)
def test_a_rule_on_keys_reads_no_text(action: Action, keyboard: KeyboardState) -> None:
    assert ruled(action, keyboard, NO_REBOOT).kind == "allow"
    assert ruled(action, keyboard, NO_REBOOT, NO_RM).rule.startswith("rule 2 'no rm': the action ")


# --- a text counts as a whole what it counts key by key --------------------------------------------------------------

TEXTS = ["", "rm -rf\n\tA!", "wow, a wheel", "é\nя b\n\nGrüße", "ab\tc", "a b é"]
HELD: list[tuple[str, ...]] = [(), ("shift",), ("altgr",), ("ctrl",), ("w",), ("w", "shift", "a"), ("ctrl", "w")]


def together(events: Iterable[Keystroke], held: tuple[int, ...]) -> set[frozenset[int]]:
    down, found = held, {frozenset(held)}
    for event in events:
        down = held_after(down, [event])
        found.add(frozenset(down))
    return found


@pytest.mark.parametrize("reach", ["clipboard", "clipboard only"])
@pytest.mark.parametrize("held", HELD, ids="+".join)
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_text_is_what_its_keys_are(text: str, held: tuple[str, ...], reach: str) -> None:
    keyboard = KeyboardState(Means(reach))  # type: ignore[arg-type]
    for action in (TypeText("hello"), KeyCombo(("left",)), *map(KeyDown, held)):
        keyboard = keyboard.after(action)
    inputs = inputs_of(TypeText(text, press_enter=True), keyboard.held, keyboard.means)
    keys = list(in_keys(inputs, keyboard.held))
    once = list(in_keys(inputs, keyboard.held, once=True))
    assert together(keys, keyboard.held) == together(once, keyboard.held)
    editors = tuple(editor.fresh() for editor in keyboard.editors)
    for edit in edits_of(keys, keyboard.held):
        editors = tuple(edited(editor, edit) for editor in editors)
    after = keyboard.after(TypeText(text, press_enter=True))
    assert after.editors == editors
    assert after.held == held_after(keyboard.held, keys)
