"""Policy files: their form, and the function that loads them.

    on_deny = "end"                  # or "continue": the planner is told no, and the run goes on

    [[rule]]                         # read in order, the first that matches decides
    name = "no destructive keys"
    decision = "deny"                # allow, deny, or ask: a person must say yes
    keys = "ctrl+alt+delete"         # in any order and spelling, whatever else is down beside them

    [[rule]]
    name = "no deleting in a terminal"
    decision = "deny"
    text = 'rm\\s+-rf'                # a regular expression, found in the typed text, in one piece or in many
    on_deny = "continue"             # for this rule only

    [[rule]]
    name = "paying is what this test is about"
    decision = "allow"
    category = "FINANCIAL_*"         # a glob on the category of the model's wish for confirmation
    explanation = "(?i)checkout"     # a regular expression, found in the reason for that wish
    region = [0, 0, 1440, 800]       # left, top, right, bottom in pixels
    action = "click*"                # a glob on the kind of action, or the name that the model gave it
    test = "*::test_checkout*"       # a glob on the id of the test
    task = "test shop"               # a regular expression, found in the task

All conditions of a rule must hold. Where no rule matches, an action that the model wants confirmed is denied (or a
person is asked, where one is there), and any other action is allowed. See `safety.Rule` for the exact meaning of each
field.

    extends = "strict"               # the preset: its rules on addresses come first, the others last
    addresses = ["shop.example"]     # the hosts that a browser may go to
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.safety import strict
from pytest_vnc_use.safety.addresses import Addresses
from pytest_vnc_use.safety.rules import OnDeny, Policy, Rule, Unmatched, key_set, rule_title, unknown_keys
from pytest_vnc_use.types import POLICY_PRESETS, Region, RulingKind

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

# --- the file's form -------------------------------------------------------------------------------------------------


def _regex(value: Any) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except (re.error, TypeError, OverflowError) as exc:
        raise ValueError(f"must be a regular expression ({exc})") from exc
    except RecursionError as exc:
        raise ValueError("must be a regular expression with fewer nested groups") from exc


def _keys(value: Any) -> frozenset[str]:
    keys = key_set(value) if isinstance(value, str) else frozenset()
    strangers = "".join(f" ({key!r} is no key)" for key in sorted(unknown_keys(keys)))
    if not keys or strangers:
        raise ValueError(f"must be keys joined by '+', such as 'ctrl+alt+delete'{strangers}")
    return keys


def _region(value: Any) -> Region:
    match value:
        case [int(left), int(top), int(right), int(bottom)] if left < right and top < bottom:
            return Region(left, top, right, bottom)
        case _:
            raise ValueError("must be [left, top, right, bottom] in whole pixels, left < right and top < bottom")


def _addresses(value: Any) -> Addresses:
    match value:
        case list() if all(isinstance(each, str) for each in value):
            return Addresses(tuple(value))
        case _:
            raise ValueError("must be a list of hosts, such as ['shop.example', 'localhost:8080']")


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
    addresses: Annotated[Addresses, PlainValidator(_addresses)] | None = None
    on_deny: OnDeny = "end"
    rule: list[_RuleTable] = []


def load_policy(path: Path | str, *, unmatched: Unmatched = "deny") -> Policy:
    """Return the policy in a TOML file, or the preset "strict"; `unmatched` is "ask" where a person can be asked.

    Raises SettingsError, which names the file, and every wrong rule and field.
    """
    if str(path) in POLICY_PRESETS:
        return replace(strict.strict_policy(), unmatched=unmatched)
    path = Path(path)
    tables = _read_toml(path)
    try:
        file = _PolicyFile.model_validate(tables)
    except ValidationError as exc:
        complaints = [_complaint(error, tables) for error in exc.errors(include_url=False)]
        raise SettingsError("\n".join(f"{path}: {complaint}" for complaint in complaints)) from exc
    if file.addresses and not file.extends:
        raise SettingsError(f'{path}: `addresses` needs extends = "strict", which is missing')
    rules = tuple(_rule(path, number, table, file) for number, table in enumerate(file.rule, start=1))
    preset = strict.strict_policy(file.addresses) if file.extends else Policy()
    return replace(preset, rules=rules, unmatched=unmatched, on_deny=file.on_deny, source=str(path))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        tables: dict[str, Any] = tomllib.loads(read_regular(path).decode())
    except OSError as exc:
        raise SettingsError(f"the policy file {str(path)!r} cannot be read: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:  # TOML and UTF-8 that are none; a number of too many digits
        raise SettingsError(f"{path}: must be a TOML file in UTF-8: {exc}") from exc
    return tables


def _rule(path: Path, number: int, table: _RuleTable, file: _PolicyFile) -> Rule:
    try:
        rule = Rule(**vars(table))
        if file.extends and rule.decision != "deny":
            _check_exception(rule, file.extends)
        return rule
    except SettingsError as exc:
        raise SettingsError(f"{path}: {rule_title(number, table.name)}: {exc}") from exc


def _check_exception(rule: Rule, extends: str) -> None:
    """Raise SettingsError if a rule would allow or ask for any action, only because of its explanation or place."""
    if rule.action is None and rule.keys is None and rule.text is None:
        raise SettingsError(
            'a rule that allows or asks must have `action`, `keys` or `text`, such as action = "click", because it '
            f"is read before the rules of {extends!r}"
        )


def _complaint(error: ErrorDetails, tables: dict[str, Any]) -> str:
    match error["loc"]:
        case ("rule", int(index), *field):
            table = tables["rule"][index]
            name = table.get("name", "") if isinstance(table, dict) else ""
            name = name if isinstance(name, str) else ""  # a name of another type is itself the error
            return f"{rule_title(index + 1, name)}: {_field(field)}{_fault(error, _RuleTable)}"
        case field:
            return f"{_field(field)}{_fault(error, _PolicyFile)}"


def _field(place: Sequence[int | str]) -> str:
    return f"`{place[0]}` " if place else ""


def _fault(error: ErrorDetails, form: type[BaseModel]) -> str:
    match error["type"]:
        case "extra_forbidden":
            return f"is not known; must be one of {', '.join(form.model_fields)}"
        case "missing":
            return "is missing; must be 'allow', 'deny' or 'ask'"
        case "list_type":
            return f"must be written [[rule]], in two pairs of brackets, got {got(error['input'])}"
        case _:
            wrong = (
                error["msg"]
                .replace("Value error, ", "")
                .replace("Input should", "must")
                .replace("String should", "must")
            )
            return f"{wrong}, got {got(error['input'])}"
