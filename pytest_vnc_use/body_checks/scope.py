"""The known facts about the names in a piece of code, and the known values of expressions."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from types import FunctionType
from typing import Any

from pytest_vnc_use.body_checks import looks
from pytest_vnc_use.body_checks.assignments import take_over
from pytest_vnc_use.body_checks.code_places import (
    arguments_of,
    innermost,
    name_of,
    names_of,
    node_of,
    statements_in,
)
from pytest_vnc_use.body_checks.code_values import (
    NOTHING,
    Instance,
    LocalClass,
    Method,
    is_live,
    member,
    module_of,
    own_method,
    unwatched,
)
from pytest_vnc_use.body_checks.foregone import (
    IS_TRUE,
    NONE,
    Facts,
    facts_of,
    facts_of_result,
)
from pytest_vnc_use.body_checks.known_calls import (
    CONNECTED,
    MAY_BE_NONE,
    PUTS,
)
from pytest_vnc_use.body_checks.sources import CountedFacts, Sources
from pytest_vnc_use.body_checks.words import holds_words, tells_words

_OF_SQLITE = frozenset({"sqlite3", "_sqlite3", "aiosqlite"})
_DEEPEST = 6
"""The number of nested calls that are followed."""


@dataclass
class Scope:
    """The known facts about the names in a piece of code.

    All scopes of a test share `sources`. The other fields:

    `values`: the names' values when the task ended.
    `live`: names of objects that a look may find changed now.
    `looks`: for names with a new value: whether it rests on a look.
    `words`: for names with a new value: whether it may rest on the planner's word.
    `things`: for names with a new value: its object, if known.
    `facts`: for names with a new value: the facts that are always true.
    `parts`: for names with a new value: its literal dict.
    `trusts_outcome`: the run's own words count, because it did not end as its planner said.
    `funcargs`: the test's, for calls with unclear arguments.
    `written`: the files that the test itself wrote.
    """

    values: Mapping[str, object]
    trusts_outcome: bool = False
    funcargs: Mapping[str, object] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    depth: int = 0
    looks: dict[str, bool] = field(default_factory=CountedFacts)
    words: dict[str, bool] = field(default_factory=CountedFacts)
    things: dict[str, object] = field(default_factory=CountedFacts)
    facts: dict[str, Facts] = field(default_factory=CountedFacts)
    parts: dict[str, ast.Dict] = field(default_factory=CountedFacts)
    written: set[str] = field(default_factory=set)
    sources: Sources = field(default_factory=Sources)
    _answers: dict[tuple[str, int], tuple[int, ast.AST, Any]] = field(default_factory=dict)

    def copy(self, caller: Scope) -> Scope:
        """Return the scope of an inner function, which sees what the caller knows."""
        known = CountedFacts(caller.looks), CountedFacts(caller.words), CountedFacts(caller.things)
        copied = replace(self, looks=known[0], words=known[1], things=known[2])
        return replace(
            copied, depth=caller.depth + 1, facts=CountedFacts(self.facts), parts=CountedFacts(self.parts), _answers={}
        )

    def state(self) -> tuple[object, ...]:
        """Return what is known of a function's parameters, for comparison; objects are compared by identity."""
        things = {name: each.of if isinstance(each, Instance) else id(each) for name, each in self.things.items()}
        known = self.looks, self.words, things, self.facts
        return (self.depth, *(frozenset(each.items()) for each in known))

    def _answer(self, kind: str, node: ast.AST, find: Callable[[ast.AST], Any]) -> Any:
        """Return the answer to a question about an expression; keep it until a name changes."""
        all_known = self.looks, self.words, self.things, self.facts, self.parts
        changes = sum(each.changes for each in all_known if isinstance(each, CountedFacts))
        found = self._answers.get((kind, id(node)))
        if found is None or found[0] != changes:
            self.sources.spend()
            found = (changes, node, find(node))
            self._answers[kind, id(node)] = found
        return found[2]

    # --- values of names ---------------------------------------------------------------------------------------------

    def resolve(self, node: ast.AST) -> object:
        """Return the value of an expression, as far as is known without running any code."""
        return self._answer("value", node, self._resolve)

    def _resolve(self, node: ast.AST) -> object:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                if name in self.things:
                    return self.things[name]
                return NOTHING if name in self.looks else unwatched(self.values.get(name, NOTHING))
            case ast.Attribute():
                return member(self.resolve(node.value), node.attr)
            case ast.BinOp():
                return self._resolve_path(node)
            case ast.Call():
                return self._resolve_call(node)
            case ast.Await() | ast.NamedExpr():
                return self.resolve(node.value)
        return NOTHING

    def _resolve_path(self, node: ast.BinOp) -> object:
        left, right = self.resolve(node.left), self.resolve(node.right)
        if isinstance(left, PurePath) and isinstance(right, (str, PurePath)) and isinstance(node.op, ast.Div):
            return left / right
        return left if isinstance(left, (PurePath, Instance)) else NOTHING

    def _resolve_call(self, call: ast.Call) -> object:
        made = self.resolve(call.func)
        if isinstance(made, LocalClass):
            return made
        if isinstance(made, type):
            path = self.resolve(call.args[0]) if call.args else NOTHING
            if issubclass(made, PurePath) and isinstance(path, (str, PurePath)):
                return PurePath(path)
            return Instance(made)
        if made is getattr and len(call.args) > 1 and isinstance(name := self.resolve(call.args[1]), str):
            return member(self.resolve(call.args[0]), name)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("resolve", "absolute", "expanduser"):
            path = self.resolve(call.func.value)
            return path if isinstance(path, PurePath) else NOTHING
        method = own_method(made)
        if method and self.depth < _DEEPEST:
            return self.within(call, method).returns(method.function)
        return NOTHING

    def returns(self, function: FunctionType) -> object:
        """Return the result of a user's function, if it is always the same thing."""
        node = node_of(function.__code__)
        found: list[object] = []
        for each in statements_in(node.body) if node else ():
            if isinstance(each, ast.Return):
                found.append(self.resolve(each.value) if each.value else None)
            elif isinstance(each, (ast.Assign, ast.AnnAssign)):
                take_over(self, each)
        return found[0] if len(found) == 1 else NOTHING

    def facts_of_name(self, name: str) -> Facts:
        """Return the facts about a name."""
        return self.facts.get(name, NONE)

    def facts_in(self, node: ast.expr) -> Facts:
        """Return the facts about an expression."""
        facts = facts_of(node, self.facts_of_name)
        if isinstance(node, ast.Call):
            callee = self.resolve(node.func)
            method = own_method(callee)
            of_user = callee.node if isinstance(callee, LocalFunction) else None
            of_user = node_of(method.function.__code__) if method else of_user
            if of_user is not None:
                return facts - {"lazy"} | facts_of_result(of_user)
            if name_of(node) not in MAY_BE_NONE:
                return facts | {"there"}
        return facts

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Note the new value of a name; if a part of a thing comes from a look, the whole thing does."""
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            self.add(target, value)
            return
        facts = self.facts_in(value)
        self.name(target, looks=self.rests(value), words=self.tells(value), thing=self.resolve(value))
        if isinstance(target, ast.Name):
            self.facts[target.id] = facts
            if isinstance(value, ast.Dict):
                self.parts[target.id] = value

    def add(self, target: ast.expr, value: ast.expr) -> None:
        """Note that something was put into a thing."""
        root = innermost(target)
        if isinstance(root, ast.Name):
            self.parts.pop(root.id, None)
            if (not isinstance(target, ast.Attribute) and target is not root) or isinstance(target, ast.Name):
                self.facts[root.id] = self.facts_of_name(root.id) | {"true", "there"}
            if self.rests(value):
                self.looks[root.id] = True
            if self.tells(value):
                self.words[root.id] = True

    def depend(self, node: ast.AST, before: Mapping[str, Facts]) -> None:
        """Note the names that get a value only if a look decides so; `before` are the earlier facts about them."""
        self.looks.update(dict.fromkeys(_filled_in(node), True))
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.facts[each.id] = self.facts_of_name(each.id) & before.get(each.id, NONE)
                self.looks[each.id] = "true" not in self.facts[each.id]

    def doubt_filled(self, node: ast.stmt) -> None:
        """Note that a collection may hold the planner's word: the code that ran the task puts something into it."""
        self.words.update(dict.fromkeys(_filled_in(node), True))

    def doubt(
        self, node: ast.stmt, facts: Mapping[str, Facts], before: Sequence[Mapping[str, bool]], *, tells: bool
    ) -> None:
        """Keep the planner's word in names to which a branch or loop may give a value.

        `facts` are those before the branch. `before` is the earlier answer of `tells` for each name. `tells` says that
        the planner's word decides on the branch.
        """
        names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
        for name in {each.id for each in names if isinstance(each.ctx, ast.Store)}:
            if tells or any(words.get(name, False) for words in before):
                self.words[name] = True
        for name in _filled_in(node):
            self.facts[name] = self.facts_of_name(name) & facts.get(name, NONE)
        if tells:
            self.words.update(dict.fromkeys(_filled_in(node), True))

    def name(self, target: ast.AST, *, looks: bool, words: bool = False, thing: object = NOTHING) -> None:
        """Note a new value for all names of a target; `thing` is the value if the target is a single name."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.looks[node.id], self.words[node.id] = looks, words
                for known in (self.facts, self.parts, self.things):
                    known.pop(node.id, None)
                if node is target and thing is not NOTHING:
                    self.things[node.id] = thing

    def within(self, call: ast.Call, method: Method) -> Scope:
        """Return the scope of a function that is called."""
        scope = self.inner(names_of(method.function))
        names = inspect.getfullargspec(method.function)
        positional = [*names.args]
        if method.owner is not NOTHING and positional:
            scope.take(positional.pop(0), False, method.owner)
        for name in (*positional, *names.kwonlyargs):
            scope.take(name, self.has_changed(self.funcargs.get(name)), self.funcargs.get(name, NOTHING))
        in_names = [each.value for each in call.keywords if each.arg not in (*positional, *names.kwonlyargs)]
        further = {names.varargs: call.args[len(positional) :], names.varkw: in_names}
        for further_name, values in further.items():
            if further_name:
                scope.take(further_name, any(map(self.rests, values)), NOTHING, words=any(map(self.tells, values)))
                is_filled = bool(values) and not any(isinstance(each, ast.Starred) for each in values)
                scope.facts[further_name] = IS_TRUE if is_filled and all(each.arg for each in call.keywords) else NONE
        for name, value in arguments_of(call, positional):
            looked = value.body if isinstance(value, ast.Lambda) else value
            scope.take(name, self.rests(looked), self.resolve(value), words=self.tells(looked))
            scope.facts[name] = self.facts_in(value)
        return scope

    def inner(self, values: Mapping[str, object]) -> Scope:
        """Return the scope of a function with these names."""
        deeper = Scope(values, self.trusts_outcome, self.funcargs, depth=self.depth + 1)
        return replace(deeper, written=self.written, sources=self.sources)

    def take(self, name: str, looks: bool, thing: object, *, words: bool = False) -> None:
        """Note the value of a parameter."""
        self.looks[name], self.words[name] = looks, words or (not looks and holds_words(thing))
        self.things.pop(name, None)
        if thing is not NOTHING:
            self.things[name] = thing

    # --- values from a look ------------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Return whether a call in this scope is followed."""
        return self.depth < _DEEPEST

    @property
    def is_too_deep(self) -> bool:
        """Return whether this scope is too deep to read even the results of its functions."""
        return self.depth > _DEEPEST

    def tells(self, node: ast.AST) -> bool:
        """Return whether the value of an expression may rest on the planner's word."""
        if self.trusts_outcome:
            return False
        tells: bool = self._answer("words", node, partial(tells_words, self))
        return tells

    def rests(self, node: ast.AST) -> bool:
        """Return whether the value of an expression comes from a look at the program."""
        found: bool = self._answer("look", node, partial(looks.rests, self))
        return found

    def key_of(self, path: ast.expr) -> str:
        """Return the file that an expression names, or the source of the expression."""
        known = self.resolve(path)
        return str(known) if isinstance(known, (PurePath, str)) else ast.unparse(path)

    def returns_look(self, function: FunctionType) -> bool:
        """Return whether the result of a user's function may rest on a look."""
        return looks.returns_look(self, function)

    def take_over(self, node: ast.stmt) -> None:
        """Note the names to which a statement gives a value."""
        take_over(self, node)

    def has_changed(self, thing: object) -> bool:
        """Return whether an object may have changed since the task, or answers over a connection."""
        return is_live(thing) and (self.sources.sights.has_changed or self.is_connected(module_of(thing)))

    def is_connected(self, *modules: str) -> bool:
        """Return whether one of the packages answers over a connection to something else than the test."""
        others = CONNECTED.intersection(modules)
        if others <= _OF_SQLITE and not self.sources.sights.has_base:
            return False
        return bool(others)


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function that the test itself defines, and the scope of its definition."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    scope: Scope


def _filled_in(node: ast.AST) -> Iterator[str]:
    """Yield the names of collections into which a statement puts something."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and name_of(each) in PUTS and isinstance(each.func, ast.Attribute):
            root = innermost(each.func.value)
            if isinstance(root, ast.Name):
                yield root.id
