"""Policy files: their format, their loader, and a policy in sentences. docs/policies.md
has examples.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import check_out, explain_unreadable, read_regular
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.safety.rules import (
    CONDITIONS,
    OnDeny,
    Policy,
    Preset,
    Rule,
    Unmatched,
    combination,
    rule_title,
)
from pytest_vnc_use.types import POLICY_PRESETS, Region, RulingKind
from pytest_vnc_use.types.keys import key_set, unknown_keys

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_UNMATCHED: Mapping[Unmatched, str] = {
    "allow": "allowed, as others",
    "deny": "denied, others are allowed",
    "ask": "asked of a user, others are allowed",
}


def _regex(value: Any) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except (re.error, TypeError, OverflowError) as exc:
        raise ValueError(f"must be a regular expression ({exc})") from exc
    except RecursionError as exc:
        raise ValueError(
            "must be a regular expression with fewer nested groups"
        ) from exc


def _keys(value: Any) -> frozenset[str]:
    keys = key_set(value) if isinstance(value, str) else frozenset()
    unknown = "".join(f" ({key!r} is no key)" for key in sorted(unknown_keys(keys)))
    if not keys or unknown:
        raise ValueError(
            f"must be keys joined by '+', such as 'ctrl+alt+delete'{unknown}"
        )
    return keys


def _region(value: Any) -> Region:
    match value:
        case [int(left), int(top), int(right), int(bottom)]:
            if left < right and top < bottom:
                return Region(left, top, right, bottom)
    raise ValueError(
        "must be [left, top, right, bottom] in whole pixels, left < right and top <"
        " bottom"
    )


Glob = Annotated[str, Field(min_length=1)]
Regex = Annotated[re.Pattern[str], PlainValidator(_regex)]


class _RuleTable(BaseModel):
    model_config = ConfigDict(extra="forbid")

    decision: RulingKind
    name: str = ""
    action: Glob | None = None
    category: Glob | None = None
    explanation: Regex | None = None
    text: Regex | None = None
    keys: Annotated[frozenset[str], PlainValidator(_keys)] | None = None
    region: Annotated[Region, PlainValidator(_region)] | None = None
    test: Glob | None = None
    task: Regex | None = None
    on_deny: OnDeny | None = None


class _PolicyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    extends: Literal["strict"] | None = None
    hosts: list[str] | None = None
    on_deny: OnDeny = "end"
    rule: list[_RuleTable] = []


def load_policy(path: Path | str, *, unmatched: Unmatched = "deny") -> Policy:
    """Return the policy in a TOML file, or the preset "strict". `unmatched` is "ask" if
    a user can be asked.

    Raises SettingsError that names the file and every wrong rule and field.
    """
    if str(path) in POLICY_PRESETS:
        return Policy(unmatched=unmatched, preset=_preset(str(path)))
    try:
        text = read_regular(Path(path)).decode()
    except OSError as exc:
        raise SettingsError(
            f"the policy file {str(path)!r} cannot be read: {exc.strerror}. "
            f"vnc_policy names a TOML file, or one of {', '.join(POLICY_PRESETS)}"
        ) from exc
    except ValueError as exc:
        raise SettingsError(f"{path}: must be a TOML file in UTF-8: {exc}") from exc
    return parse_policy(text, path, unmatched=unmatched)


def parse_policy(
    text: str, path: Path | str, *, unmatched: Unmatched = "deny"
) -> Policy:
    """Return the policy in a file's text. Raises as `load_policy` does."""
    path = Path(path)
    try:
        tables = tomllib.loads(text)
        file = _PolicyFile.model_validate(tables)
    except ValidationError as exc:
        complaints = [
            _format_error(error, tables) for error in exc.errors(include_url=False)
        ]
        raise SettingsError(
            "\n".join(f"{path}: {complaint}" for complaint in complaints)
        ) from exc
    except (ValueError, RecursionError) as exc:
        # invalid TOML; a number of too many digits
        problem = explain_unreadable(text.encode(), "a policy", check_out(path))
        problem = problem or f"must be a TOML file in UTF-8: {exc}"
        raise SettingsError(f"{path}: {problem}") from exc
    if file.hosts is not None and not file.extends:
        raise SettingsError(
            f'{path}: `hosts` needs extends = "strict", which is missing'
        )
    rules = tuple(
        _rule(path, number, table, file)
        for number, table in enumerate(file.rule, start=1)
    )
    try:
        preset = _preset(file.extends, file.hosts or ()) if file.extends else None
    except SettingsError as exc:
        raise SettingsError(f"{path}: {exc}") from exc
    return Policy(rules, unmatched, file.on_deny, str(path), preset)


def _preset(name: str, hosts: Sequence[str] = ()) -> Preset:
    lists = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))
    keys = frozenset(map(key_set, lists["keys"]))
    return Preset(
        name,
        frozenset(lists["actions"]),
        frozenset(lists["way_back"]),
        keys,
        tuple(hosts),
    )


def _rule(path: Path, number: int, table: _RuleTable, file: _PolicyFile) -> Rule:
    try:
        rule = Rule(**vars(table))
    except SettingsError as exc:
        raise SettingsError(f"{path}: {rule_title(number, table.name)}: {exc}") from exc
    names_action = (rule.action, rule.keys, rule.text) != (None, None, None)
    if file.extends and rule.decision != "deny" and not names_action:
        # else a model's description of an action would allow everything
        raise SettingsError(
            f"{path}: {rule_title(number, table.name)}: a rule that allows or asks must"
            ' have `action`, `keys` or `text`, such as action = "click", because it is'
            f" read before the rules of {file.extends!r}"
        )
    return rule


def _format_error(error: ErrorDetails, tables: dict[str, Any]) -> str:
    form: type[BaseModel] = _PolicyFile
    location = error["loc"]
    title = ""
    if len(location) > 1 and location[0] == "rule":
        table = tables["rule"][location[1]]
        name = table.get("name") if isinstance(table, dict) else ""
        if not isinstance(name, str):
            name = ""
        title = f"{rule_title(int(location[1]) + 1, name)}: "
        form = _RuleTable
        location = location[2:]
    field = f"`{location[0]}` " if location else ""
    return f"{title}{field}{_problem(error, form)}"


def _problem(error: ErrorDetails, form: type[BaseModel]) -> str:
    match error["type"], error["loc"]:
        case "extra_forbidden", _:
            return f"is not known; must be one of {', '.join(form.model_fields)}"
        case "missing", _:
            return "is missing; must be 'allow', 'deny' or 'ask'"
        case "list_type", ("rule",):
            return (
                "must be written [[rule]], in two pairs of brackets, got"
                f" {got(error['input'])}"
            )
    problem = error["msg"].removeprefix("Value error, ")
    for subject in ("Input should", "String should"):
        problem = problem.replace(subject, "must")
    return f"{problem}, got {got(error['input'])}"


_NO: dict[OnDeny, str] = {
    "end": "a denial ends the run",
    "continue": "the planner receives a denial, and the run continues",
}


def explain(policy: Policy) -> str:
    """Return the policy in sentences: one line for each rule, and one for actions that
    no rule matches.
    """
    preset = policy.preset
    no = _NO[policy.on_deny]
    lines = [
        _rule_line(rule_title(number, rule.name), rule, no)
        for number, rule in enumerate(policy.rules, start=1)
    ]
    if preset:
        lists = (
            f"only these hosts are opened: {', '.join(preset.hosts) or 'none'}",
            f"elsewhere, as DevTools say, only {', '.join(sorted(preset.way_back))}",
            ", ".join(sorted(preset.actions)),
            f"characters, {', '.join(sorted(map(combination, preset.keys)))}",
        )
        preset_lines = [
            f"{title}: {text}; {no}"
            for title, text in zip(preset.titles, lists, strict=True)
        ]
        lines = [*preset_lines[:2], *lines, *preset_lines[2:]]
    answer = _UNMATCHED[policy.unmatched]
    unmatched_line = (
        f"no rule matches: an action that the model wants confirmed is {answer}"
    )
    return "\n".join([*lines, f"{unmatched_line}; {no}"])


def _rule_line(title: str, rule: Rule, no: str) -> str:
    values = ((condition, getattr(rule, condition)) for condition in CONDITIONS)
    conditions = " and ".join(
        f"{condition} {_readable(value)}"
        for condition, value in values
        if value is not None
    )
    line = f"{title}: {rule.decision} where {conditions}"
    if rule.decision == "allow":
        return line
    return f"{line}; {_NO[rule.on_deny] if rule.on_deny else no}"


def _readable(value: str | re.Pattern[str] | frozenset[str] | Region) -> str:
    match value:
        case str():
            return f"is like {value!r}"
        case re.Pattern():
            return f"matches /{value.pattern}/"
        case frozenset():
            return f"are {combination(value)}"
        case Region():
            return (
                f"is x {value.left} to {value.right}, y {value.top} to {value.bottom}"
            )
