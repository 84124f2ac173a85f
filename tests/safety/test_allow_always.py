"""The rule that "allow always" writes: it allows the action that was asked about, there only, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.safety.allow_always import always_allowing
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.types import (
    Action,
    ApprovalAsked,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    KeyCombo,
    OpenAddress,
    Proposal,
    TypeText,
)

ASKING = """\
# what this shop's tests may do
on_deny = "end"

[[rule]]
name = "no reboot"
decision = "deny"
keys = "ctrl+alt+delete"

# everything else is asked about
[[rule]]
decision = "ask"
action = "*"

[[rule]]
decision = "deny"
action = "*"
"""
HERE = ReviewContext("test_shop.py::test_buy[a]", "Buy apples")
BUYS = Confirmation("this buys two apples", "FINANCIAL_TRANSACTIONS")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(ASKING, encoding="utf-8")
    return path


def asked_about(action: Action, policy: Policy, confirmation: Confirmation | None = BUYS) -> ApprovalAsked:
    proposal = Proposal(action, confirmation=confirmation)
    ruling = policy.review(proposal, HERE)
    assert ruling.kind == "ask"
    return ApprovalAsked(1, proposal, ruling)


@pytest.mark.parametrize(
    ("action", "others"),
    [
        (Click(100, 50), [Click(200, 50), Drag(100, 50, 110, 50)]),
        (Click(100, 50, "right"), [Click(100, 50), Click(100, 50, count=2)]),
        (Drag(10, 10, 90, 90), [Drag(10, 10, 190, 90), Click(10, 10)]),
        (TypeText("it's 5 \\ 3.00 €"), [TypeText("it's 5 \\ 3.00 € more"), TypeText("it's 5 \\ 3x00 €")]),
        (TypeText("two\nlines"), [TypeText("two\nlines\nmore"), TypeText("lines")]),
        (TypeText("apples", 100, 50), [TypeText("apples", 300, 50), TypeText("pears", 100, 50)]),
        (KeyCombo(("ctrl", "s")), [KeyCombo(("ctrl", "q")), KeyCombo(("s",))]),
        (OpenAddress("http://shop.example/pay"), [OpenAddress("http://shop.example/pay?all=1")]),
        (CallFunction("pay", {"sum": 3, "to": "shop"}), [CallFunction("pay", {"sum": 30, "to": "shop"})]),
    ],
    ids=lambda each: each.kind if hasattr(each, "kind") else "",
)
def test_rule_allows_action_and_no_other(file: Path, action: Action, others: list[Action]) -> None:
    change = always_allowing(asked_about(action, load_policy(file)), str(file), HERE, "alice")
    assert file.read_text("utf-8") == ASKING
    assert change.write()
    policy = load_policy(file)
    assert policy.review(Proposal(action, confirmation=BUYS), HERE).rule == "rule 2 'allowed by alice'"
    elsewhere = ReviewContext("test_shop.py::test_other", "Buy apples")
    for proposal, context in [
        *((Proposal(other, confirmation=BUYS), HERE) for other in others),
        (Proposal(action, confirmation=Confirmation("", "DELETION")), HERE),
        (Proposal(action, confirmation=BUYS), elsewhere),
    ]:
        assert policy.review(proposal, context).kind == "ask", proposal


def test_diff_shows_added_lines_only(file: Path) -> None:
    change = always_allowing(asked_about(Click(100, 50), load_policy(file)), str(file), HERE, "alice")
    lines = change.diff.splitlines()[2:]
    assert [line for line in lines if line.startswith("-")] == []
    assert "+region = [80, 30, 120, 70]" in lines
    assert change.after.index("allowed by alice") < change.after.index("# everything else")


def test_rule_for_unmatched_action_is_last(file: Path) -> None:
    file.write_text('[[rule]]\ndecision = "deny"\ntext = "rm"\n', encoding="utf-8")
    asked = asked_about(Click(1, 1), load_policy(file, unmatched="ask"))
    assert always_allowing(asked, str(file), HERE, "alice").write()
    policy = load_policy(file)
    assert [rule.decision for rule in policy.rules] == ["deny", "allow"]
    assert policy.review(asked.proposal, HERE).kind == "allow"


def test_file_that_changed_meanwhile_is_not_written(file: Path) -> None:
    change = always_allowing(asked_about(Click(1, 1), load_policy(file)), str(file), HERE, "alice")
    file.write_text(f"{ASKING}\n", encoding="utf-8")
    assert not change.write()
    assert file.read_text("utf-8") == f"{ASKING}\n"


@pytest.mark.parametrize(
    ("policy", "error"),
    [("", "no policy file is set"), ("strict", "no policy file is set"), ("other.toml", "was ruled on by")],
)
def test_rule_without_its_policy_file_is_refused(file: Path, policy: str, error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        always_allowing(asked_about(Click(1, 1), load_policy(file)), policy, HERE, "alice")


def test_inline_rules_are_left_alone(file: Path) -> None:
    file.write_text('rule = [{decision = "ask", action = "*"}]\n', encoding="utf-8")
    asked = asked_about(Click(1, 1), load_policy(file))
    with pytest.raises(SettingsError, match="write one yourself"):
        always_allowing(asked, str(file), HERE, "alice")
