"""The expressions of a test that rest on a look at the program, as opposed to earlier knowledge or the planner's words.

`assert True`, `assert result.outcome == "done"` and `assert page.total` with a forgotten call cannot fail if the
product is broken. An expression rests on a look if it makes a call after the task that may read the product's state,
or asks a fixture's object that may have changed meanwhile. Only code is read here; nothing is called.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from pytest_vnc_use.body_checks.assignments import take_over
from pytest_vnc_use.body_checks.code_places import (
    arguments_of,
    innermost,
    is_own_file,
    name_of,
    names_of,
    node_of,
    returns_the_same,
    statements_in,
)
from pytest_vnc_use.body_checks.code_values import (
    NOTHING,
    Instance,
    Method,
    collects,
    getter_of,
    is_live,
    is_of_package,
    member,
    module_of,
    own_method,
    owner_of,
    unwatched,
)
from pytest_vnc_use.body_checks.foregone import (
    NONE,
    Facts,
    always_true,
    facts_of,
    is_of_a_picture,
)
from pytest_vnc_use.body_checks.known_calls import (
    CONNECTED,
    MAY_BE_NONE,
    OF_TEXT,
    OF_THE_PLACE,
    OS_LOOKS,
    OS_MODULES,
    PATH_LOOKS,
    PURE,
    PUTS,
    READS,
    RUNS,
    SILENT,
    UNTELLING,
)
from pytest_vnc_use.body_checks.sources import Known, Sources
from pytest_vnc_use.body_checks.words import holds_words, is_watched, tells_words

_OF_SQLITE = frozenset({"sqlite3", "_sqlite3", "aiosqlite"})
_DEEPEST = 6
"""The number of nested calls that are followed."""


@dataclass
class Scope:
    """The known facts about the names in a piece of code.

    `values` are the names' values when the task ended. `live` are names of objects that a look may find changed now.
    For names that got a value since: `looks` says whether it rests on a look, `words` whether it may rest on the
    planner's word, `things` is its object if known, `facts` are the facts that hold in any case, `parts` is the dict
    that is written out. With `trusts_outcome` the run's own words count: it did not end as its planner said. `funcargs`
    are the test's, for calls whose arguments cannot be told apart. `written` are the files that the test itself wrote.
    All scopes of a test share `sources`.
    """

    values: Mapping[str, object]
    trusts_outcome: bool = False
    funcargs: Mapping[str, object] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    depth: int = 0
    looks: dict[str, bool] = field(default_factory=Known)
    words: dict[str, bool] = field(default_factory=Known)
    things: dict[str, object] = field(default_factory=Known)
    facts: dict[str, Facts] = field(default_factory=Known)
    parts: dict[str, ast.Dict] = field(default_factory=Known)
    written: set[str] = field(default_factory=set)
    sources: Sources = field(default_factory=Sources)
    _answers: dict[tuple[str, int], tuple[int, ast.AST, Any]] = field(default_factory=dict)

    def copy(self, caller: Scope) -> Scope:
        """Return the scope of an inner function, which sees what the caller knows."""
        known = Known(caller.looks), Known(caller.words), Known(caller.things)
        copied = replace(self, looks=known[0], words=known[1], things=known[2])
        return replace(copied, depth=caller.depth + 1, facts=Known(self.facts), parts=Known(self.parts), _answers={})

    def state(self) -> tuple[object, ...]:
        """Return what is known of a function's parameters, for comparison; objects are compared by identity."""
        things = {name: each.of if isinstance(each, Instance) else id(each) for name, each in self.things.items()}
        known = self.looks, self.words, things, self.facts
        return (self.depth, *(frozenset(each.items()) for each in known))

    def _all_known(self) -> Iterator[Known]:
        all_known = self.looks, self.words, self.things, self.facts, self.parts
        return (each for each in all_known if isinstance(each, Known))

    def _answered(self, kind: str, node: ast.AST, find: Callable[[ast.AST], Any]) -> Any:
        """Return the answer to a question about an expression; keep it until a name changes."""
        changes = sum(each.changes for each in self._all_known())
        found = self._answers.get((kind, id(node)))
        if found is None or found[0] != changes:
            self.sources.spend()
            found = (changes, node, find(node))
            self._answers[kind, id(node)] = found
        return found[2]

    # --- values of names ---------------------------------------------------------------------------------------------

    def resolve(self, node: ast.AST) -> object:
        """Return the value of an expression, as far as is known without running any code."""
        return self._answered("value", node, self._resolve)

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
        """Return the result of a user's function, if it is one thing in any case."""
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
            of_user = node_of(method.function.__code__) if method else getattr(callee, "node", None)
            if of_user is not None:
                return facts | ({"true", "there"} if always_true(of_user) else NONE)
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

    def depend(self, node: ast.stmt, before: Mapping[str, Facts]) -> None:
        """Note the names that get a value only if a look decides so; `before` are the facts about them until then."""
        self.looks.update(dict.fromkeys(_filled_in(node), True))
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.facts[each.id] = self.facts_of_name(each.id) & before.get(each.id, NONE)
                self.looks[each.id] = "true" not in self.facts[each.id]

    def doubt_filled(self, node: ast.stmt) -> None:
        """Note that a collection may hold the planner's word: what ran the task puts something into it."""
        self.words.update(dict.fromkeys(_filled_in(node), True))

    def doubt(
        self, node: ast.stmt, facts: Mapping[str, Facts], before: Sequence[Mapping[str, bool]], *, tells: bool
    ) -> None:
        """Keep the planner's word in names to which a branch or loop may give a value.

        `facts` are those before the branch. `before` is what each name told at earlier times. `tells` says that the
        planner's word decides on the branch.
        """
        for name in {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _is_given(each)}:
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
            scope.take(name, self._has_changed(self.funcargs.get(name)), self.funcargs.get(name, NOTHING))
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

    def tells(self, node: ast.AST) -> bool:
        """Return whether the value of an expression may rest on the planner's word."""
        if self.trusts_outcome:
            return False
        told: bool = self._answered("words", node, partial(tells_words, self))
        return told

    def rests(self, node: ast.AST) -> bool:
        """Return whether the value of an expression comes from a look at the program."""
        found: bool = self._answered("look", node, self._rests)
        return found

    def take_over(self, node: ast.stmt) -> None:
        """Note the names to which a statement gives a value."""
        take_over(self, node)

    def _rests(self, node: ast.AST) -> bool:
        match node:
            case ast.Constant() | ast.Lambda():
                return False
            case ast.Name(id=name):
                return self._name_rests(name)
            case ast.Attribute():
                return self._attribute_rests(node)
            case ast.Call():
                return self._call_rests(node)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)) if name in self.parts:
                return self._part_rests(self.parts[name], key)
            case ast.BoolOp(op=ast.Or(), values=[first, *others]):
                return self.rests(first) and all(_is_empty(other) or self.rests(other) for other in others)
            case ast.IfExp():
                ways = [self.rests(node.body), self.rests(node.orelse)]
                return all(ways) or (self.rests(node.test) and (any(ways) or _differ(node.body, node.orelse)))
            case ast.NamedExpr():
                self.assign(node.target, node.value)
                return self.rests(node.value)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension_rests(node)
        return any(self.rests(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))

    def _part_rests(self, parts: ast.Dict, key: object) -> bool:
        keys = [each.value if isinstance(each, ast.Constant) else NOTHING for each in parts.keys]
        if key not in keys or NOTHING in keys:
            return self.rests(parts)
        return self.rests(parts.values[keys.index(key)])

    def _name_rests(self, name: str) -> bool:
        thing = self.things.get(name, NOTHING if name in self.looks else self.values.get(name, NOTHING))
        if self.trusts_outcome and type(thing).__name__ == "RunResult":
            return True
        if name in self.looks:
            return self.looks[name]
        if name in self.live and self._has_changed(thing):
            return True
        return self.sources.sights.has_changed and collects(self.values, name)

    def _has_changed(self, thing: object) -> bool:
        """Return whether an object may have changed since the task, or answers over a connection."""
        return is_live(thing) and (self.sources.sights.has_changed or self._is_connected(module_of(thing)))

    def _is_connected(self, *modules: str) -> bool:
        """Return whether one of the packages answers over a connection to something else than the test."""
        others = CONNECTED.intersection(modules)
        if others <= _OF_SQLITE and not self.sources.sights.has_base:
            return False
        return bool(others)

    def _comprehension_rests(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
        rests = False
        for each in node.generators:
            over = self.rests(each.iter)
            self.name(each.target, looks=over)
            rests = rests or over or any(map(self.rests, each.ifs))
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return rests or any(map(self.rests, parts))

    def _attribute_rests(self, node: ast.Attribute) -> bool:
        owner = self.resolve(node.value)
        if is_of_a_picture(node, self.facts_in(node.value)):
            return False
        if isinstance(owner, ModuleType) and not is_own_file(str(vars(owner).get("__file__"))):
            return False
        if is_of_package(owner):
            return self.trusts_outcome and type(owner).__name__ == "RunResult"
        found = member(owner, node.attr)
        if getter := getter_of(found):
            scope = self.inner(names_of(getter))
            scope.take(next(iter(inspect.signature(getter).parameters)), False, owner)
            return scope.returns_look(getter)
        if isinstance(found, (FunctionType, BuiltinFunctionType, Method, MethodType)):
            return False  # a method whose call was forgotten
        if found is not NOTHING and not hasattr(type(found), "__get__"):
            return self._has_changed(found)
        return self.rests(node.value)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call_rests(self, call: ast.Call) -> bool:
        callee, name = self.resolve(call.func), name_of(call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is not None and is_watched(self, owner) and name not in RUNS.difference({"run"}):
            return self._looks_at_desktop(self.resolve(owner), name, call)
        if method := own_method(callee):
            return self.depth < _DEEPEST and self.within(call, method).returns_look(method.function)
        if isinstance(call.func, ast.Name) and name in self.looks and callee is NOTHING:
            return self.looks[name] or any(map(self.rests, call.args))
        if name in SILENT or name in UNTELLING:
            return False
        if owner is not None and "picture" in self.facts_in(owner):
            return False
        if isinstance(call.func, ast.Lambda):
            return self.rests(call.func.body)
        if isinstance(callee, (Method, MethodType)) and is_of_package(owner_of(callee)):
            called = callee.function if isinstance(callee, Method) else callee
            return self._is_look_of_package(owner_of(callee), called.__name__)
        if owner is not None and is_of_package(self.resolve(owner)):
            return self._is_look_of_package(self.resolve(owner), name)
        if owner is not None and self._is_on_path(owner):
            return name in PATH_LOOKS and self._looks_at_file(owner, name)
        if (module_of(callee) in OS_MODULES and name in ("system", "popen")) or module_of(callee) == "subprocess":
            return self.sources.sights.of_process()
        if name == "open" and owner is None and call.args:
            return self._looks_at_file(call.args[0], name)
        if module_of(callee) in OS_MODULES and call.args:
            return name in OS_LOOKS and self._looks_at_file(call.args[0], name)
        told = [*call.args, *(each.value for each in call.keywords), *([owner] if owner else [])]
        if self._tells_its_arguments(callee, name, owner):
            return any(map(self.rests, told))
        modules = module_of(callee), self._module_of_owner(owner)
        if CONNECTED.isdisjoint(modules):
            return self.sources.sights.of_anything() or any(map(self.rests, told))
        is_connected = self._is_connected(*modules)
        self.sources.connection |= is_connected
        return is_connected

    def _looks_at_desktop(self, owner: object, name: str, call: ast.Call) -> bool:
        """Return whether a call of the test's agent or desktop is a look that happened."""
        if name in SILENT:
            return False
        if hasattr(type(owner), "approve") and name in RUNS:
            return self.trusts_outcome
        self.sources.desktop = True
        file = self.resolve(call.args[0]) if call.args else NOTHING
        return self.sources.sights.of_desktop(name, str(file) if isinstance(file, (str, PurePath)) else "")

    def _module_of_owner(self, owner: ast.expr | None) -> str:
        return module_of(self.resolve(owner)) if owner is not None else ""

    def _looks_at_file(self, path: ast.expr, name: str) -> bool:
        if self._is_own_doing(path, name):
            return False
        if isinstance(known := self.resolve(path), (PurePath, str)):
            self.sources.files.add(str(known))
            return self.sources.sights.of_file(str(known))
        return self.sources.sights.of_file("")

    def _is_own_doing(self, path: ast.expr, name: str) -> bool:
        """Return whether the test itself wrote the file, or pytest made the folder for the test."""
        key = self.key_of(path)
        made = {str(each) for each in self.funcargs.values() if isinstance(each, PurePath)}
        return key in self.written or (name in OF_THE_PLACE and key in made)

    def key_of(self, path: ast.expr) -> str:
        """Return the file that an expression names, or the source of the expression."""
        known = self.resolve(path)
        return str(known) if isinstance(known, (PurePath, str)) else ast.unparse(path)

    def _is_look_of_package(self, owner: object, name: str) -> bool:
        is_agent = hasattr(type(owner), "approve") or type(owner).__name__ == "RunResult"
        if is_agent and name in RUNS:
            return self.trusts_outcome
        if type(owner).__name__ == "RunResult":
            return False
        self.sources.desktop = True
        return self.sources.sights.of_desktop(name, "")

    def _is_on_path(self, owner: ast.expr) -> bool:
        thing = self.resolve(owner)
        return isinstance(thing, PurePath) or (isinstance(thing, Instance) and issubclass(thing.of, PurePath))

    def _tells_its_arguments(self, callee: object, name: str, owner: ast.expr | None) -> bool:
        """Return whether a function looks at nothing but its arguments."""
        if owner is not None and self._is_known(owner):
            return True
        if callee is NOTHING:
            return name in RUNS or (owner is not None and name in OF_TEXT) or (owner is None and name in self.looks)
        if getattr(builtins, name, None) is callee:
            return callee is not open
        module = module_of(callee) or module_of(self.resolve(owner) if owner is not None else NOTHING)
        reads = module in ("numpy", "pandas", "PIL") and name.startswith(READS)
        is_pure = module.removeprefix("_") in PURE or module in PURE or module in OS_MODULES
        return not reads and (isinstance(callee, type) or is_pure)

    def _is_known(self, owner: ast.expr) -> bool:
        """Return whether an object is older than the task, or was made since without a look: a text, a run's result."""
        root = owner
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(root, ast.Call):
            return self.resolve(root) is NOTHING and not self.rests(root)
        if isinstance(root, ast.Name) and root.id in self.looks and root.id not in self.things:
            return not self.looks[root.id]
        return isinstance(root, (ast.Constant, ast.JoinedStr)) or (
            owner is root and isinstance(self.resolve(root), (str, bytes, int, float, tuple, frozenset, type(None)))
        )

    def returns_look(self, function: FunctionType) -> bool:
        """Return whether the result of a user's function may rest on a look."""
        node = node_of(function.__code__)
        if node is None or self.depth > _DEEPEST or returns_the_same(node):
            return False
        returned: list[bool] = []
        for each in statements_in(node.body):
            match each:
                case ast.Return(value=ast.expr() as value):
                    returned.append(self.rests(value))
                case ast.If(test=decides) | ast.For(iter=decides) if self.rests(decides):
                    before = dict(self.facts)
                    take_over(self, each)
                    self.depend(each, before)
                    returned.append(any(isinstance(inner, ast.Return) for inner in ast.walk(each)))
                case ast.Assign() | ast.AnnAssign(value=ast.expr()) | ast.With() | ast.AsyncWith() | ast.For():
                    take_over(self, each)
                case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                    returned.append(self.rests(value))
        return any(returned)


def _is_empty(node: ast.expr) -> bool:
    """Return whether the expression is a false literal: a default for a missing value."""
    return ast.unparse(node) in ("''", "b''", "0", "None", "False", "()", "[]", "{}", "['']", "set()")


def _filled_in(node: ast.stmt) -> Iterator[str]:
    """Yield the names of collections into which a statement puts something."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and name_of(each) in PUTS and isinstance(each.func, ast.Attribute):
            root = innermost(each.func.value)
            if isinstance(root, ast.Name):
                yield root.id


def _is_given(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _differ(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) != ast.dump(other)
