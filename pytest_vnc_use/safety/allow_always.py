"""The change of a policy file by which a user always allows an action.

The new rule is as narrow as the action: its kind (`click` means any button), its text
or keys, the surroundings of its points, the model's category, and the test or,
otherwise, the task. If a rule of the policy asked for approval, the new rule precedes
it.
"""

from __future__ import annotations

import difflib
import glob
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.directory import write_atomically
from pytest_vnc_use.safety.policy_file import parse_policy, tomllib
from pytest_vnc_use.safety.rules import (
    ReviewContext,
    combination,
    keys_of,
    name_of,
    texts_of,
)
from pytest_vnc_use.types import (
    POLICY_PRESETS,
    ApprovalRequest,
    CallFunction,
    OpenUrl,
    TypeText,
)
from pytest_vnc_use.types.actions import points

NEAR_PX = 20
"""The distance from an allowed action's points within which its rule applies."""
_HEADER = re.compile(
    r"^(?:[ \t]*#[^\n]*\n)*[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE
)
"""The head of a rule, with the comments right above it."""
_ASKED_BY = re.compile(r"rule (\d+)")


@dataclass(frozen=True)
class PolicyChange:
    """A policy file's text `before` and `after` a rule was added."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The change, as a unified diff."""
        names = (str(self.path), str(self.path))
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), *names, lineterm=""
        )
        return "\n".join(lines)

    def write(self) -> bool:
        """Write the file, unless it has changed meanwhile; return whether it was
        written. Raises RunDirectoryUnwritable.
        """
        try:
            if self.path.read_bytes().decode() != self.before:
                return False
        except (OSError, UnicodeDecodeError):
            return False
        write_atomically(self.path, self.after.encode(), opener=None)
        return True


def always_allowing(
    request: ApprovalRequest, policy: str, context: ReviewContext, user: str
) -> PolicyChange:
    """Return the change of the file `policy` that always allows an action. Raises
    SettingsError if there is none.
    """
    if not policy or policy in POLICY_PRESETS:
        raise SettingsError(
            "no policy file is set. Set vnc_policy or --policy to always allow an"
            " action"
        )
    path = Path(policy)
    ruling = request.ruling
    source = ruling.explanation.removeprefix(f"{ruling.rule} (in ").partition("): ")[0]
    if Path(source).resolve() != path.resolve():
        raise SettingsError(
            f"the action was ruled on by {source!r}, but the settings name {policy!r}"
        )
    try:
        before = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(
            f"the policy file {policy!r} cannot be read: {exc}"
        ) from exc
    rule = "\n".join(["[[rule]]", *_fields(request, context, user)])
    rule_number = _ASKED_BY.match(ruling.rule)
    after = _with_rule(before, rule, int(rule_number[1]) - 1 if rule_number else None)
    if parse_policy(after, policy).review(request.proposal, context).kind != "allow":
        raise SettingsError(
            "no rule for this action alone can be added to the policy file. Write one"
            " yourself"
        )
    return PolicyChange(path, before, after)


def _fields(
    request: ApprovalRequest, context: ReviewContext, user: str
) -> Iterator[str]:
    action = request.proposal.action
    confirmation = request.proposal.confirmation
    yield f"name = {_quoted(f'allowed by {user}')}"
    yield 'decision = "allow"'
    yield f"action = {_quoted(name_of(action))}"
    if confirmation and confirmation.category:
        yield f"category = {_quoted(confirmation.category)}"
    has_text = isinstance(action, (TypeText, OpenUrl, CallFunction))
    texts = texts_of(action) if has_text else []
    pressed = keys_of(action, context.held)
    if texts:
        yield f"text = {_quoted(_exactly(texts))}"
    elif len(pressed) == 1 and pressed[0]:
        yield f"keys = {_quoted(combination(pressed[0]))}"
    if at := points(action):
        xs = [x for x, _ in at]
        ys = [y for _, y in at]
        left = max(0, min(xs) - NEAR_PX)
        top = max(0, min(ys) - NEAR_PX)
        right = max(xs) + NEAR_PX
        bottom = max(ys) + NEAR_PX
        yield f"region = [{left}, {top}, {right}, {bottom}]"
    if test := context.test_id:
        # the brackets of a parametrised test match themselves
        if "*" in test or "?" in test:
            test = glob.escape(test)
        yield f"test = {_quoted(test)}"
    else:
        yield f"task = {_quoted(_exactly([context.task]))}"


def _exactly(texts: list[str]) -> str:
    patterns = [re.escape(text).replace("\\ ", " ") for text in dict.fromkeys(texts)]
    return rf"\A(?:{'|'.join(patterns)})\Z"


def _quoted(text: str) -> str:
    """Return a text as a TOML string. Patterns are full of backslashes, so it is a
    literal string if possible.
    """
    if "'" not in text and "\\" in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _with_rule(text: str, rule: str, before: int | None) -> str:
    """Return the text of a policy file with another rule, which is put before the rule
    of that index, or at the end.
    """
    rules = tomllib.loads(text).get("rule", [])
    heads = list(_HEADER.finditer(text))
    at = len(rules) if before is None else before
    if at < len(rules) and len(heads) == len(rules):
        offset = heads[at].start()
        after = f"{text[:offset]}{rule}\n\n{text[offset:]}"
    else:
        after = f"{text.rstrip()}\n\n{rule}\n".lstrip("\n")
    expected = [*rules[:at], *tomllib.loads(rule)["rule"], *rules[at:]]
    try:
        is_valid = tomllib.loads(after)["rule"] == expected
    except ValueError:  # for example, `rule = [...]` is written inline
        is_valid = False
    if not is_valid:  # for example, a text of several lines looks like a rule
        raise SettingsError(
            "no rule can be added to the policy file, as it is written. Write one"
            " yourself"
        )
    return after
