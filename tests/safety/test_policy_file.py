"""Policy files: the documented example, invalid files, how a policy reads and replays,
and "allow always".
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from pytest_vnc_use.cli.policy import replay_rulings
from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.safety.allow_always import always_allowing
from pytest_vnc_use.safety.policy_file import explain, load_policy
from pytest_vnc_use.safety.rules import Policy, ReviewContext, Rule, answer
from pytest_vnc_use.types import (
    Action,
    ApprovalRequest,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    FrameRef,
    KeyCombo,
    OpenUrl,
    Proposal,
    Region,
    Ruling,
    RunStarted,
    Step,
    StepFinished,
    TypeText,
)
from pytest_vnc_use.types.keys import key_set
from support.paths import ROOT

PAY = Confirmation("This submits the checkout.", "FINANCIAL_TRANSACTIONS")
CONTEXT = ReviewContext("tests/test_shop.py::test_checkout", "Pay in the test shop")


def write(directory: Path, text: str) -> Path:
    path = directory / "policy.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


@pytest.fixture
def documented(tmp_path: Path) -> Policy:
    """The second example of docs/policies.md, which has every field."""
    examples = re.findall(
        r"^```toml\n(.*?)^```",
        ROOT.joinpath("docs/policies.md").read_text("utf-8"),
        re.M | re.S,
    )
    return load_policy(write(tmp_path, examples[1]))


def test_documented_example_is_read(documented: Policy) -> None:
    assert (documented.on_deny, documented.unmatched) == ("end", "deny")
    assert documented.source.endswith("policy.toml")
    keys, text, pay = documented.rules
    assert keys == Rule("deny", "no destructive keys", keys=key_set("ctrl+alt+delete"))
    assert (text.text, text.on_deny) == (re.compile(r"rm\s+-rf"), "continue")
    assert pay.region == Region(0, 0, 1440, 800)
    assert (pay.action, pay.category) == ("click*", "FINANCIAL_*")


@pytest.mark.parametrize(
    ("action", "confirmation", "kind"),
    [
        (KeyCombo(("Alt", "Ctrl", "Del")), None, "deny"),
        (Click(700, 400), PAY, "allow"),
        (Click(700, 850), PAY, "deny"),
    ],
)
def test_documented_example_rules(
    documented: Policy, action: Action, confirmation: Confirmation | None, kind: str
) -> None:
    proposal = Proposal(action, confirmation=confirmation)
    assert documented.review(proposal, CONTEXT).kind == kind


BAD_RULES = [
    ("", "`decision` is missing; must be 'allow', 'deny' or 'ask'"),
    ("decision = 'never'", "`decision` must be 'allow', 'deny' or 'ask', got 'never'"),
    (
        "decision = 'deny'",
        "a rule must have a condition, at least one of action, category",
    ),
    (
        "decision = 'deny'\nacton = 'click'",
        "`acton` is not known; must be one of decision, name, action, category",
    ),
    (
        "decision = 'deny'\ntext = '(('",
        r"`text` must be a regular expression \(.*unterminated.*\), got '\(\('",
    ),
    (
        "decision = 'deny'\nkeys = 'ctrl+atl+del'",
        r"`keys` must be keys joined by '\+', .* \('atl' is no key\), got 'ctrl",
    ),
    (
        "decision = 'deny'\nregion = [9, 0, 3, 9]",
        r"`region` must be \[left, top, right, bottom\] in whole pixels",
    ),
    (
        "decision = 'deny'\naction = '*'\non_deny = 'stop'",
        "`on_deny` must be 'end' or 'continue', got 'stop'",
    ),
]


BAD_FILES = [
    ("on_deny = 'stop'", "`on_deny` must be 'end' or 'continue', got 'stop'"),
    (
        "on_denial = 'end'",
        "`on_denial` is not known; must be one of extends, hosts, on_deny, rule",
    ),
    ("[[rule]]\ndecision = deny\n", r"must be a TOML file in UTF-8: .*line 2"),
    ("extends = 'lax'", "`extends` must be 'strict', got 'lax'"),
    ("hosts = ['a']", '`hosts` needs extends = "strict", which is missing'),
    (
        "extends = 'strict'\nhosts = ['http://a']",
        "`hosts` must be hosts in lower-case ASCII",
    ),
    (
        "extends = 'strict'\n[[rule]]\ndecision = 'allow'\nexplanation = 'order'",
        "rule 1: a rule that allows or asks must have `action`, `keys` or `text`",
    ),
]


SECOND_RULE = """\
[[rule]]
decision = 'allow'
action = '*'
[[rule]]
name = 'second'
"""


def test_empty_file_is_no_policy(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    assert load_policy(path) == Policy(source=str(path))


@pytest.mark.parametrize(("text", "complaint"), BAD_FILES)
def test_invalid_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=rf"^{re.escape(str(path))}: {complaint}"):
        load_policy(path)


@pytest.mark.parametrize(("fields", "complaint"), BAD_RULES)
def test_invalid_rule_is_named(tmp_path: Path, fields: str, complaint: str) -> None:
    path = write(tmp_path, SECOND_RULE + fields)
    named = rf"^{re.escape(str(path))}: rule 2 'second': {complaint}"
    with pytest.raises(SettingsError, match=named):
        load_policy(path)


def test_invalid_file_names_all_problems(tmp_path: Path) -> None:
    rules = "[[rule]]\ndecision = 'no'\n[[rule]]\ntext = '('\n"
    path = write(tmp_path, f"colour = 1\n{rules}")
    with pytest.raises(SettingsError) as caught:
        load_policy(path)
    assert len(str(caught.value).splitlines()) == 4


def test_file_not_utf8_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(
        SettingsError, match=r"policy\.toml: must be a TOML file in UTF-8"
    ):
        load_policy(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError,
        match=r"the policy file .*missing\.toml' cannot be read: No such file",
    ):
        load_policy(tmp_path / "missing.toml")


def test_policy_explained(documented: Policy) -> None:
    first, _, third, unmatched = explain(documented).splitlines()
    assert (
        first
        == "rule 1 'no destructive keys': deny where keys are alt+ctrl+delete; a denial"
        " ends the run"
    )
    assert third.endswith(
        "allow where action is like 'click*' and category is like 'FINANCIAL_*' and"
        " explanation matches /(?i)checkout/ and region is x 0 to 1440, y 0 to 800 and"
        " test is like '*::test_checkout*' and task matches /test shop/"
    )
    assert (
        unmatched
        == "no rule matches: an action that the model wants confirmed is denied, others"
        " are allowed; a denial ends the run"
    )


def test_policy_that_allows_unmatched_explained() -> None:
    assert "the model wants confirmed is allowed, as others" in explain(
        Policy(unmatched="allow")
    )


SCREEN = FrameRef("0" * 64, 1440, 900)
ALLOWED = Ruling("allow", "harmless")
ASKED = Ruling("ask", "no rule matches")


def test_policy_tried_on_run(documented: Policy, tmp_path: Path) -> None:
    """Of four steps and a question: harmless, denied, allowed by a user, typed."""
    directory = RunDirectory.create(tmp_path, "the-run")
    directory.append(
        RunStarted(
            "the-run", CONTEXT.task, "now", "scripted", SCREEN, test_id=CONTEXT.test_id
        )
    )
    typing = TypeText("abcdefghijklmnopqrstuvwxyz", clear_first=True)
    rulings = [
        ALLOWED,
        Ruling("deny", "no rule matches"),
        answer(ASKED, yes=True),
        ALLOWED,
    ]
    proposals = [
        *(
            Proposal(Click(700, 400), "pay", {"name": "click"}, confirmation)
            for confirmation in (None, PAY, PAY)
        ),
        Proposal(typing),
    ]
    for number, (proposal, ruling) in enumerate(
        zip(proposals, rulings, strict=True), start=1
    ):
        directory.append(
            StepFinished(Step(number, number, proposal, ruling, SCREEN, SCREEN))
        )
    directory.append(
        ApprovalRequest(5, Proposal(KeyCombo(("ctrl+alt+delete",)), "reboot"), ASKED)
    )
    lines, differs = zip(*replay_rulings(documented, directory.path), strict=True)
    assert differs == (False, True, True, False, True)
    pay = "rule 3 'paying is what this test is about'"
    assert lines[0] == "the-run step 1 click 'pay': allow (harmless)"
    assert (
        lines[1]
        == f"the-run step 2 click 'pay': allow ({pay})   <-- was deny (no rule matches)"
    )
    assert ", r, s and 7 more: allow (harmless)" in lines[3]
    assert (
        lines[4]
        == "the-run step 5 key_combo 'reboot' pressing alt+ctrl+delete: deny (rule 1"
        " 'no destructive keys')   <-- was ask (no rule matches)"
    )
    with pytest.raises(RunDirectoryError, match="there is no run directory"):
        list(replay_rulings(documented, directory.path / "nowhere"))


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


def asked_about(
    action: Action, policy: Policy, confirmation: Confirmation | None = BUYS
) -> ApprovalRequest:
    proposal = Proposal(action, confirmation=confirmation)
    ruling = policy.review(proposal, HERE)
    assert ruling.kind == "ask"
    return ApprovalRequest(1, proposal, ruling)


ALLOWED_ALONE: list[tuple[Action, list[Action]]] = [
    (Click(100, 50), [Click(200, 50), Drag(100, 50, 110, 50)]),
    (Click(100, 50, "right"), [Click(100, 50), Click(100, 50, count=2)]),
    (
        TypeText("it's 5 \\ 3.00 €"),
        [TypeText("it's 5 \\ 3.00 € more"), TypeText("it's 5 \\ 3x00 €")],
    ),
    (KeyCombo(("ctrl", "s")), [KeyCombo(("ctrl", "q")), KeyCombo(("s",))]),
    (OpenUrl("http://shop.example/pay"), [OpenUrl("http://shop.example/pay?all=1")]),
    (
        CallFunction("pay", {"sum": 3, "to": "shop"}),
        [CallFunction("pay", {"sum": 30, "to": "shop"})],
    ),
]


@pytest.mark.parametrize(("action", "others"), ALLOWED_ALONE)
def test_rule_allows_action_and_no_other(
    file: Path, action: Action, others: list[Action]
) -> None:
    request = asked_about(action, load_policy(file))
    change = always_allowing(request, str(file), HERE, "alice")
    assert file.read_text("utf-8") == ASKING
    assert change.write()

    policy = load_policy(file)
    proposal = Proposal(action, confirmation=BUYS)
    assert policy.review(proposal, HERE).rule == "rule 2 'allowed by alice'"
    elsewhere = ReviewContext("test_shop.py::test_other", "Buy apples")
    deletion = Proposal(action, confirmation=Confirmation("", "DELETION"))
    asked = [
        policy.review(proposal, elsewhere),
        policy.review(deletion, HERE),
        *(policy.review(Proposal(other, confirmation=BUYS), HERE) for other in others),
    ]
    assert [ruling.kind for ruling in asked] == ["ask"] * len(asked)


def test_rule_of_starred_test_allows_no_other(file: Path) -> None:
    starred = ReviewContext("test_shop.py::test_buy[[x]*]", "Buy apples")
    other = ReviewContext("test_shop.py::test_buy[b]", "Buy apples")
    request = asked_about(Click(100, 50), load_policy(file))
    assert always_allowing(request, str(file), starred, "alice").write()

    policy = load_policy(file)
    proposal = Proposal(Click(100, 50), confirmation=BUYS)
    assert policy.review(proposal, starred).kind == "allow"
    assert policy.review(proposal, other).kind == "ask"


def test_rule_is_added_before_asking_rule_unless_changed(file: Path) -> None:
    change = always_allowing(
        asked_about(Click(100, 50), load_policy(file)), str(file), HERE, "alice"
    )
    lines = change.diff.splitlines()[2:]
    assert [line for line in lines if line.startswith("-")] == []
    assert "+region = [80, 30, 120, 70]" in lines
    assert change.after.index("allowed by alice") < change.after.index(
        "# everything else"
    )
    file.write_text(f"{ASKING}\n", encoding="utf-8")
    assert not change.write()
    assert file.read_text("utf-8") == f"{ASKING}\n"


@pytest.mark.parametrize(
    ("policy", "text", "error"),
    [
        ("strict", ASKING, "no policy file is set"),
        ("other.toml", ASKING, "was ruled on by"),
        (
            "policy.toml",
            'rule = [{decision = "ask", action = "*"}]\n',
            "Write one yourself",
        ),
    ],
)
def test_rule_without_file_to_change_is_rejected(
    file: Path, monkeypatch: pytest.MonkeyPatch, policy: str, text: str, error: str
) -> None:
    monkeypatch.chdir(file.parent)
    file.write_text(text, encoding="utf-8")
    request = asked_about(Click(1, 1), load_policy(file))
    with pytest.raises(SettingsError, match=error):
        always_allowing(request, policy, HERE, "alice")
