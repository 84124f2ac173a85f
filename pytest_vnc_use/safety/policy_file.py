"""Policy files: the functions that load them, explain them, and try them on recorded runs.

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
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import assert_never

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.folder import read_trace
from pytest_vnc_use.safety.patterns import MOST_SEARCH_S, NotReviewed, in_slashes, slow_character
from pytest_vnc_use.safety.rules import (
    CONDITIONS,
    OnDeny,
    Policy,
    ReviewContext,
    Rule,
    Unmatched,
    key_set,
    rule_title,
    unknown_keys,
)
from pytest_vnc_use.types import Proposal, Region, Ruling, RulingKind, Step

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

# --- the file's form -------------------------------------------------------------------------------------------------


def _regex(value: Any) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except (re.error, TypeError) as exc:
        raise ValueError(f"must be a regular expression ({exc})") from exc


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

    on_deny: OnDeny = "end"
    rule: list[_RuleTable] = []


def load_policy(path: Path | str, *, unmatched: Unmatched = "deny") -> Policy:
    """Return the policy in a TOML file; `unmatched` is "ask" where a person can be asked.

    Raises SettingsError, which names the file, and every wrong rule and field.
    """
    path = Path(path)
    tables = _read_toml(path)
    try:
        file = _PolicyFile.model_validate(tables)
    except ValidationError as exc:
        complaints = [_complaint(error, tables) for error in exc.errors(include_url=False)]
        raise SettingsError("\n".join(f"{path}: {complaint}" for complaint in complaints)) from exc
    rules = tuple(_rule(path, number, table) for number, table in enumerate(file.rule, start=1))
    return Policy(rules, unmatched=unmatched, on_deny=file.on_deny, source=str(path))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise SettingsError(f"the policy file {str(path)!r} cannot be read: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise SettingsError(f"{path}: must be a TOML file in UTF-8: {exc}") from exc
    return tables


def _rule(path: Path, number: int, table: _RuleTable) -> Rule:
    try:
        return Rule(**vars(table))
    except SettingsError as exc:
        raise SettingsError(f"{path}: {rule_title(number, table.name)}: {exc}") from exc


def _complaint(error: ErrorDetails, tables: dict[str, Any]) -> str:
    match error["loc"]:
        case ("rule", int(index), *field):
            table = tables["rule"][index]
            name = table.get("name", "") if isinstance(table, dict) else ""
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
            return f"must be written [[rule]], in two pairs of brackets, got {error['input']!r}"
        case _:
            wrong = (
                error["msg"]
                .replace("Value error, ", "")
                .replace("Input should", "must")
                .replace("String should", "must")
            )
            return f"{wrong}, got {error['input']!r}"


# --- explained -------------------------------------------------------------------------------------------------------


def explain(policy: Policy) -> str:
    """Return the policy in sentences: one line for each rule, and one for actions that no rule matches."""
    rules = [_rule_line(number, rule, policy) for number, rule in enumerate(policy.rules, start=1)]
    answer = "denied" if policy.unmatched == "deny" else "asked of a person"
    rest = f"no rule matches: what the model wants confirmed is {answer}, all else allowed; {_NO[policy.on_deny]}"
    return "\n".join([*rules, rest])


_NO: dict[OnDeny, str] = {
    "end": "a no ends the run",
    "continue": "the planner is told of a no, and the run goes on",
}


def _rule_line(number: int, rule: Rule, policy: Policy) -> str:
    given = ((condition, getattr(rule, condition)) for condition in CONDITIONS)
    conditions = " and ".join(f"{condition} {_readable(value)}" for condition, value in given if value is not None)
    no = "" if rule.decision == "allow" else f"; {_NO[rule.on_deny or policy.on_deny]}"
    return f"{rule_title(number, rule.name)}: {rule.decision} where {conditions}{no}{_slowness(rule)}"


def _slowness(rule: Rule) -> str:
    patterns = (pattern for pattern in (rule.explanation, rule.text, rule.task) if pattern is not None)
    slow = ((pattern, slow_character(pattern)) for pattern in patterns)
    return "".join(
        f"; too slow: {in_slashes(pattern)} is not searched to the end in {character!r} many times over, "
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
            return f"are {_combination(value)}"
        case Region():
            return f"is x {value.left} to {value.right}, y {value.top} to {value.bottom}"
        case _:
            assert_never(value)


def _combination(keys: frozenset[str]) -> str:
    return "+".join(sorted(keys, key=_modifiers_first))


def _modifiers_first(key: str) -> tuple[bool, str]:
    return key not in ("ctrl", "alt", "shift", "super"), key


MOST_KEYS = 20
"""The most combinations of keys that are listed for one step."""

# --- tried on recorded runs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replayed:
    """A recorded step: its ruling `then`, and the policy's ruling `now`. As text, one line for a person.

    `keys` are the combinations that it presses: each time the keys that are down together.
    """

    run: Path
    number: int
    proposal: Proposal
    then: Ruling
    now: Ruling
    keys: tuple[frozenset[str], ...] = ()

    @property
    def differs(self) -> bool:
        """Return whether the rulings differ. A person's answer then is no difference from asking now."""
        return self.now.kind != ("ask" if self.then.by == "person" else self.then.kind)

    def __str__(self) -> str:
        was = f"   <-- was {self.then.kind} ({self.then.rule})" if self.differs else ""
        step = f"{self.run.name} step {self.number} {self.proposal.action.kind} {self.proposal.intent!r}"
        return f"{step}{self._pressing}: {self.now.kind} ({self.now.rule}){was}"

    @property
    def _pressing(self) -> str:
        if not self.keys:
            return ""
        more = len(self.keys) - MOST_KEYS
        named = [_combination(keys) for keys in self.keys[:MOST_KEYS]]
        return f" pressing {', '.join(named)}{f' and {more} more' if more > 0 else ''}"


def replay(policy: Policy, run_folders: Iterable[Path]) -> Iterator[Replayed]:
    """Yield the policy's ruling on every step of recorded runs, and on the step that waits for an answer.

    The run folder does not hold the desktop's way of typing: text beyond ASCII counts as pasted, scrolling as done by
    the wheel. Raises RunFolderError where a folder cannot be read.
    """
    for run in run_folders:
        trace = read_trace(run)
        context = ReviewContext(trace.started.test_id, trace.started.task)
        for step in (*trace.steps, *([trace.asked] if trace.asked else ())):
            now = policy.review(step.proposal, context)
            yield Replayed(run, step.number, step.proposal, step.ruling, now, _keys_of(step.proposal, context))
            if isinstance(step, Step):
                context = replace(context, keyboard=context.keyboard.after_steps([step]))


def _keys_of(proposal: Proposal, context: ReviewContext) -> tuple[frozenset[str], ...]:
    try:
        return context.sight_of(proposal.action).keys
    except NotReviewed:  # the ruling says so, where a rule looks at keys
        return ()


def replay_rulings(policy: Policy, run_folders: Iterable[Path]) -> str:
    """Return the lines of `replay`, one for each step, and the number of rulings that differ. Raises RunFolderError."""
    steps = list(replay(policy, run_folders))
    changed = sum(step.differs for step in steps)
    return "\n".join([*map(str, steps), f"{changed} of {len(steps)} steps are ruled otherwise than they were"])
