"""A policy in sentences."""

from __future__ import annotations

import re

from typing_extensions import assert_never

from pytest_vnc_use.safety.patterns import MOST_SEARCH_S, in_slashes, slow_character
from pytest_vnc_use.safety.rules import CONDITIONS, OnDeny, Policy, PresetRule, Rule
from pytest_vnc_use.types import Region


def explain(policy: Policy) -> str:
    """Return the policy in sentences: one line for each rule, and one for actions that no rule matches."""
    rules = [_rule_line(title, rule, policy) for title, rule in policy.titled()]
    answer = "denied" if policy.unmatched == "deny" else "asked of a person"
    rest = f"no rule matches: an action that the model wants confirmed is {answer}, others are allowed"
    return "\n".join([*rules, f"{rest}; {_NO[policy.on_deny]}"])


_NO: dict[OnDeny, str] = {
    "end": "a no ends the run",
    "continue": "the planner is told of a no, and the run goes on",
}


def _rule_line(title: str, rule: Rule | PresetRule, policy: Policy) -> str:
    if not isinstance(rule, Rule):
        return f"{title}: {rule.sentence}; {_NO[rule.on_deny or policy.on_deny]}"
    given = ((condition, getattr(rule, condition)) for condition in CONDITIONS)
    conditions = " and ".join(f"{condition} {_readable(value)}" for condition, value in given if value is not None)
    no = "" if rule.decision == "allow" else f"; {_NO[rule.on_deny or policy.on_deny]}"
    return f"{title}: {rule.decision} where {conditions}{no}{_slowness(rule)}"


def _slowness(rule: Rule) -> str:
    patterns = (pattern for pattern in (rule.explanation, rule.text, rule.task) if pattern is not None)
    slow = ((pattern, slow_character(pattern)) for pattern in patterns)
    return "".join(
        f"; too slow: {in_slashes(pattern)} takes too long in {character!r} many times over, "
        f"and an action that is not ruled on within {MOST_SEARCH_S:g} s is denied"
        for pattern, character in slow
        if character
    )


def _readable(value: str | re.Pattern[str] | frozenset[str] | Region) -> str:
    match value:
        case str():
            return f"is like {value!r}"
        case re.Pattern():
            return f"matches /{value.pattern}/"
        case frozenset():
            return f"are {combination(value)}"
        case Region():
            return f"is x {value.left} to {value.right}, y {value.top} to {value.bottom}"
        case _:
            assert_never(value)


def combination(keys: frozenset[str]) -> str:
    """Return keys as a person writes them: the modifiers first."""
    return "+".join(sorted(keys, key=_modifiers_first))


def _modifiers_first(key: str) -> tuple[bool, str]:
    return key not in ("ctrl", "alt", "shift", "super"), key
