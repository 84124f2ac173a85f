"""A toolset is a table: a row for each tool, with its arguments, and what a call of it
means as an action.

One reader turns the calls of a model into proposals, or into the end of the run, for
every toolset.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Union

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import Arguments, Unreadable, reason_in
from pytest_vnc_use.planners.common.functions import Declaration, Offered, declare_all
from pytest_vnc_use.planners.common.turns import pointer_after, steps_of
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    InvalidAction,
    JsonObject,
    Proposal,
    Turn,
)
from pytest_vnc_use.types.actions import Point

MAX_ACTIONS = 20
"""The maximum actions of one turn, and of one batch."""

EndKind = Literal["finished", "gave_up"]


@dataclass(frozen=True)
class FunctionCall:
    """One call as the model made it. `id` is empty if the service gave none.

    `problem` says why its arguments cannot be read, `kind` what is wrong. `extra` is
    data that a service wants back with the call, such as Gemini's thought signature in
    `extra_content`.
    """

    name: str
    args: JsonObject
    id: str = ""
    problem: str = ""
    kind: str = ""
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class EndOfRun:
    """The model's statement that the run is over, as the kind of a decision."""

    kind: EndKind
    text: str


Reading = Union[tuple[Proposal, ...], EndOfRun]

GIVE_UP = Declaration(
    "task_failed",
    "Give up: the task cannot be done. Say what you saw on the screen that makes it"
    " impossible.",
    {
        "type": "object",
        "properties": {"reason": {"type": "string"}},
        "required": ["reason"],
    },
)
"""The function with which the model gives up, beside the predefined ones."""

DONE = Declaration(
    "done",
    "The task is done, as the newest screenshot shows. Say in one sentence what you"
    " see.",
    {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    },
)
"""The function that ends a run as done. Text without a call means the same."""


MakeArguments = Callable[[JsonObject], Arguments]
"""A function that makes the arguments of a call from its JSON, for the screen of the
turn.
"""


@dataclass(frozen=True)
class Tool:
    """One row: its description, the arguments as JSON schemas, and what a call means.

    A schema may have a `default`. `shows_screen`: a screenshot follows, where not every
    turn ends with one. `needs` is the agent's function that it calls: without it the
    row is not offered.
    """

    description: str
    read: Callable[[Arguments], Action | EndOfRun]
    required: JsonObject
    optional: JsonObject
    ends: bool = False
    shows_screen: bool = False
    needs: str = ""

    @property
    def defaults(self) -> JsonObject:
        """The defaults of the arguments that have one."""
        return {
            name: schema["default"]
            for name, schema in self.optional.items()
            if "default" in schema
        }

    def declaration(self, name: str) -> Declaration:
        """Return the tool's declaration under this name."""
        properties = {**self.required, **self.optional}
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(self.required),
        }
        return Declaration(name, self.description, schema)


def tool(
    description: str,
    read: Callable[[Arguments], Action | EndOfRun],
    required: JsonObject | None = None,
    *,
    ends: bool = False,
    shows_screen: bool = False,
    needs: str = "",
    **optional: JsonObject,
) -> Tool:
    """Return a row; other keywords are optional arguments."""
    required = required or {}
    return Tool(description, read, required, optional, ends, shows_screen, needs)


@dataclass(frozen=True)
class Table:
    """A toolset before a run chooses from it.

    `single` is the name of one tool for all rows, whose argument `selector` names the
    row; without it each row is a tool. `batch` is the name of the tool for several rows
    in one turn. `noun` is what a row is called in messages. `describe` makes the
    declaration of `single`. `rules` are for the prompt, by the names that are offered.
    """

    rows: Mapping[str, Tool]
    rules: Callable[[Sequence[str]], Sequence[str]]
    operator: str = prompts.TOOL_OPERATOR
    answered: Mapping[str, str] = field(default_factory=dict)
    """The agent's functions that rows call, and the remedy where a run does not have
    one. They are no tools.
    """
    single: str = ""
    selector: str = "command"
    describe: Callable[[Sequence[tuple[str, Tool]]], Declaration] | None = None
    batch: str = ""
    ends_inside: bool = False
    """Whether the rows that end a run are called through the single tool too."""
    noun: str = "command"
    max_actions: int = MAX_ACTIONS
    always_shows_screen: bool = True
    """Whether each turn ends with a screenshot; else only the first message and rows
    with `shows_screen` have one.
    """
    text_ends: EndKind | None = None
    """How an answer without a call ends the run; None if the model is asked once more.
    """
    typed_errors: bool = False
    """Whether results are JSON objects, with the type of an error, and a note on what
    was ignored.
    """


class Toolset:
    """The tools that a model is offered in a run, and the meaning of its calls.

    `functions` are the user's, and those that the agent answers. `excluded` are names
    of rows, of functions or of the batch that are neither offered nor performed.
    `call_in` finds a call in an item of a batch, or in the arguments of the single
    tool. Raises SettingsError.
    """

    def __init__(
        self,
        table: Table,
        functions: Sequence[Offered] = (),
        excluded: Sequence[str] = (),
        *,
        call_in: Callable[[Any], FunctionCall | None],
    ) -> None:
        self.table = table
        self._call_in = call_in
        names = [name for name in (table.single, table.batch) if name]
        declared = declare_all(functions, taken=(*table.rows, *names))
        self._rows = dict(table.rows)
        self._ends = {name for name, row in table.rows.items() if row.ends}
        names_of_functions = {declaration.name for declaration in declared}
        choices = [name for name in table.rows if name not in self._ends]
        if table.batch:
            choices.append(table.batch)
        self._excluded = check_excluded(excluded, [*choices, *names_of_functions])
        self._missing = {
            name: hint
            for name, hint in table.answered.items()
            if hint and name not in names_of_functions
        }
        hidden = {*self._excluded, *table.answered}
        custom = [
            declaration for declaration in declared if declaration.name not in hidden
        ]
        self._functions = frozenset(declaration.name for declaration in custom)
        rows = [
            (name, row)
            for name, row in table.rows.items()
            if name not in self._excluded and row.needs not in self._missing
        ]
        acting = [row.declaration(name) for name, row in rows if not row.ends]
        queued = [declaration.name for declaration in (*acting, *custom)]
        declarations = [table.describe(rows)] if table.describe else acting
        if table.batch and table.batch not in self._excluded:
            declarations = [*declarations, _batch(table, queued)]
        declarations = [*declarations, *custom]
        if not table.ends_inside:
            declarations += [row.declaration(name) for name, row in rows if row.ends]
        self.declarations = tuple(declarations)
        names = [declaration.name for declaration in declarations]
        self.rules = table.rules([*queued, *names])
        self._names = names
        if table.describe:
            self._names = [*(name for name, _ in rows), *sorted(self._functions)]

    def read(self, call: FunctionCall, make_args: MakeArguments) -> Reading:
        """Return the meaning of a call. A batch becomes one proposal for each of its
        actions.
        """
        if call.problem:
            return (self._reject(call, call.problem, call.kind),)
        is_batch = (
            self.table.batch
            and call.name == self.table.batch
            and call.name not in self._excluded
        )
        if is_batch:
            return self._read_batch(call, make_args)
        return self._read_single(call, make_args)

    def shows_screen(self, name: str) -> bool:
        """Return whether the model gets a screenshot after a call of this row."""
        return self.table.always_shows_screen or (
            name in self._rows and self._rows[name].shows_screen
        )

    def _read_single(self, call: FunctionCall, make_args: MakeArguments) -> Reading:
        table = self.table
        if table.single and call.name == table.single:
            inner = self._call_in(dict(call.args))
            name = str(call.args.get(table.selector) or "")
            if inner is None and name in self._rows:
                problem = (
                    f"the arguments of {name!r} must be an object, got"
                    f" {dict(call.args)!r:.200}"
                )
                return (reject_call(call, problem),)
            remaining = {
                key: value for key, value in call.args.items() if key != table.selector
            }
            call = inner or FunctionCall(name, remaining)
        if call.name in self._functions:
            return (proposal(call, CallFunction(call.name, dict(call.args))),)
        try:
            if call.name in self._excluded:
                raise Unreadable(
                    f"{call.name!r} is excluded in this run; use another {table.noun}"
                )
            if (row := self._rows.get(call.name)) is None:
                problem = (
                    f"there is no {table.noun} {call.name!r:.100}; there are"
                    f" {', '.join(self._names)}"
                )
                raise Unreadable(problem, "unknown_tool")
            args = replace(make_args(call.args), defaults=row.defaults)
            meant = row.read(args)
            if isinstance(meant, EndOfRun):
                return meant
            if table.typed_errors:
                return (_without(args.unread(), proposal(call, meant)),)
            args.check(call.name, self._names, (*row.required, *row.optional))
            if isinstance(meant, CallFunction) and meant.name in self._missing:
                raise Unreadable(self._missing[meant.name])
            return (proposal(call, meant),)
        except Unreadable as exc:
            return (self._reject(call, str(exc), exc.kind),)

    def _reject(
        self,
        call: FunctionCall,
        problem: str,
        kind: str,
    ) -> Proposal:
        return reject_call(call, problem, kind if self.table.typed_errors else "")

    def _read_batch(
        self, call: FunctionCall, make_args: MakeArguments
    ) -> tuple[Proposal, ...]:
        args = make_args(call.args)
        value = args.get("actions")
        actions = value if isinstance(value, list) else []
        try:
            args.check(call.name, self._names)
        except Unreadable as unknown:
            return (reject_call(call, f"{unknown}; nothing was done"),)
        if not 1 <= len(actions) <= MAX_ACTIONS:
            problem = (
                f"'actions' must be a list of 1 to {MAX_ACTIONS} commands, got"
                f" {len(actions)}; nothing was done"
            )
            return (reject_call(call, problem),)
        return tuple(self._read_item(item, make_args) for item in actions)

    def _read_item(self, item: Any, make_args: MakeArguments) -> Proposal:
        batch = self.table.batch
        call = self._call_in(item)
        if call is None:
            example = "{'command': …, 'arguments': …}"
            if self.table.selector == "action":
                example = "{'action': …}"
            return reject_call(
                FunctionCall(batch, {}),
                f"an action of a {batch} must be {example}, got {repr(item)[:200]}",
            )
        reading = None if call.name == batch else self._read_single(call, make_args)
        if reading is None or isinstance(reading, EndOfRun) or call.name in self._ends:
            return reject_call(
                call, f"{call.name!r} is not allowed in a {batch}; call it on its own"
            )
        return reading[0]


def _batch(table: Table, names: Sequence[str]) -> Declaration:
    choice = {"type": "string", "enum": list(names)}
    item: JsonObject = {
        "type": "object",
        "properties": {table.selector: choice},
        "required": [table.selector],
    }
    if table.selector == "command":
        item = {
            **item,
            "properties": {**item["properties"], "arguments": {"type": "object"}},
        }
    actions = {"type": "array", "items": item, "minItems": 1, "maxItems": MAX_ACTIONS}
    return Declaration(
        table.batch,
        "Perform several commands in order, without a look in between; after the first"
        " that fails, the rest is left.",
        {"type": "object", "properties": {"actions": actions}, "required": ["actions"]},
    )


def proposal(call: FunctionCall, action: Action) -> Proposal:
    """Return an action as the call proposed it, with the model's reason if it
    gave one.
    """
    intent = reason_in(call.args)
    if isinstance(action, CallFunction):
        intent = str(call.args.get("intent") or "")
    arguments = copy.deepcopy(dict(call.args))
    return Proposal(action, intent, {"name": call.name, "args": arguments})


def _without(ignored: str, proposed: Proposal) -> Proposal:
    """Return the proposal with the arguments that it ignores, for a note to the
    model.
    """
    if not ignored:
        return proposed
    as_proposed = {**proposed.as_proposed, "ignored": ignored}
    return replace(proposed, as_proposed=as_proposed)


def reject_call(
    call: FunctionCall,
    problem: str,
    kind: str = "",
) -> Proposal:
    """Return the proposal for a call that cannot be performed, with the reason, and the
    type of the error if any.
    """
    rejected = proposal(call, InvalidAction(call.name, problem))
    if not kind:
        return rejected
    proposed = {**rejected.as_proposed, "error_type": kind}
    return replace(rejected, as_proposed=proposed)


def left_at(turns: Sequence[Turn]) -> Point | None:
    """Return where the last action that moved the pointer left it; None if there was
    none.
    """
    return pointer_after(
        step.proposal.action
        for step in steps_of(turns)
        if not step.error and step.ruling.kind == "allow"
    )


def check_at_least_one(**numbers: int) -> None:
    """Raise SettingsError if one of the named numbers is smaller than 1."""
    for name, number in numbers.items():
        if number < 1:
            raise SettingsError(f"{name} must be at least 1, got {number!r}")


def check_excluded(excluded: Sequence[str], supported: Sequence[str]) -> frozenset[str]:
    """Return the names if all are known. Raises SettingsError."""
    unknown = sorted(set(excluded) - set(supported))
    if unknown:
        raise SettingsError(
            f"excluded_actions must be among {sorted(supported)}, got {unknown!r}"
        )
    return frozenset(excluded)
