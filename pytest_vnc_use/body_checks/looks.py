"""The expressions of a test that rest on a look at the program, as opposed to earlier knowledge or the planner's words.

`assert True`, `assert result.outcome == "done"` and `assert page.total` with a forgotten call cannot fail if the
product is broken. An expression rests on a look if it makes a call after the task that may read the product's state,
or asks a fixture's object that may have changed meanwhile. Only code is read here; nothing is called.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from pytest_vnc_use.body_checks.code_places import (
    arguments_of,
    innermost,
    is_own_file,
    name_of,
    names_of,
    node_of,
    returns_the_same,
    statements_in,
    written_by,
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
    facts_of,
    is_of_a_picture,
)
from pytest_vnc_use.body_checks.known_calls import (
    CONNECTED,
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


@dataclass
class Sources:
    """The sources that a piece of code looks at, judging by names.

    `desktop`: the fixtures of this package. `connection`: one that may have been made long ago. `files`: their paths.
    """

    desktop: bool = False
    connection: bool = False
    files: set[str] = field(default_factory=set)


_DEEPEST = 6
"""The number of nested calls that are followed."""


@dataclass
class Scope:
    """The known facts about the names in a piece of code.

    `values` are the names' values when the task ended. `live` are names of objects that a look may find changed now.
    For names that got a value since: `looks` says whether it rests on a look, `things` is its object if known, `facts`
    are the facts that hold in any case, `parts` is the dict that is written out. With `trusts_outcome` the run's own
    words count: it did not end as its planner said. `funcargs` are the test's, for calls whose arguments cannot be told
    apart. `written` are the files that the test itself wrote. All scopes of a test share `sources`.
    """

    values: Mapping[str, object]
    trusts_outcome: bool = False
    funcargs: Mapping[str, object] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    depth: int = 0
    looks: dict[str, bool] = field(default_factory=dict)
    things: dict[str, object] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    parts: dict[str, ast.Dict] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    sources: Sources = field(default_factory=Sources)

    # --- values of names ---------------------------------------------------------------------------------------------

    def resolve(self, node: ast.AST) -> object:
        """Return the value of an expression, as far as is known without running any code."""
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
        return facts_of(node, self.facts_of_name)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Note the new value of a name; if a part of a thing comes from a look, the whole thing does."""
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            self.add(target, value)
            return
        facts = self.facts_in(value)
        self.name(target, looks=self.rests(value), thing=self.resolve(value))
        if isinstance(target, ast.Name):
            self.facts[target.id] = facts
            if isinstance(value, ast.Dict):
                self.parts[target.id] = value

    def add(self, target: ast.expr, value: ast.expr) -> None:
        """Note that something was put into a thing."""
        root = innermost(target)
        if isinstance(root, ast.Name):
            self.parts.pop(root.id, None)
            if self.rests(value):
                self.looks[root.id] = True

    def depend(self, node: ast.stmt, before: Mapping[str, Facts]) -> None:
        """Note the names that get a value only if a look decides so; `before` are the facts about them until then."""
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and name_of(each) in PUTS and isinstance(each.func, ast.Attribute):
                root = innermost(each.func.value)
                if isinstance(root, ast.Name):
                    self.looks[root.id] = True
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.facts[each.id] = self.facts_of_name(each.id) & before.get(each.id, NONE)
                self.looks[each.id] = "true" not in self.facts[each.id]

    def name(self, target: ast.AST, *, looks: bool, thing: object = NOTHING) -> None:
        """Note a new value for all names of a target; `thing` is the value if the target is a single name."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.looks[node.id] = looks
                for known in (self.facts, self.parts, self.things):
                    known.pop(node.id, None)
                if node is target and thing is not NOTHING:
                    self.things[node.id] = thing

    def within(self, call: ast.Call, method: Method) -> Scope:
        """Return the scope of a function that is called."""
        scope = self._inner(names_of(method.function))
        names = inspect.getfullargspec(method.function)
        positional = [*names.args]
        if method.owner is not NOTHING and positional:
            scope.take(positional.pop(0), False, method.owner)
        for name in (*positional, *names.kwonlyargs):
            scope.take(name, is_live(self.funcargs.get(name)), self.funcargs.get(name, NOTHING))
        for name, value in arguments_of(call, positional):
            looked = value.body if isinstance(value, ast.Lambda) else value
            scope.take(name, self.rests(looked), self.resolve(value))
            scope.facts[name] = self.facts_in(value)
        return scope

    def _inner(self, values: Mapping[str, object]) -> Scope:
        deeper = Scope(values, self.trusts_outcome, self.funcargs, depth=self.depth + 1)
        return replace(deeper, written=self.written, sources=self.sources)

    def take(self, name: str, looks: bool, thing: object) -> None:
        """Note the value of a parameter."""
        self.looks[name] = looks
        self.things.pop(name, None)
        if thing is not NOTHING:
            self.things[name] = thing

    # --- values from a look ------------------------------------------------------------------------------------------

    def rests(self, node: ast.AST) -> bool:
        """Return whether the value of an expression comes from a look at the program."""
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
        return (name in self.live and is_live(thing)) or collects(self.values, name)

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
            scope = self._inner(names_of(getter))
            scope.take(next(iter(inspect.signature(getter).parameters)), False, owner)
            return scope.returns_look(getter)
        if isinstance(found, (FunctionType, BuiltinFunctionType, Method, MethodType)):
            return False  # a method whose call was forgotten
        if found is not NOTHING and not hasattr(type(found), "__get__"):
            return is_live(found)
        return self.rests(node.value)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call_rests(self, call: ast.Call) -> bool:
        callee, name = self.resolve(call.func), name_of(call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        self.sources.desktop |= owner is not None and self.resolve(owner) is self.funcargs.get("vnc_desktop", self)
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
        if module_of(callee) in OS_MODULES and call.args:
            return name in OS_LOOKS and self._looks_at_file(call.args[0], name)
        if self._tells_its_arguments(callee, name, owner):
            told = [*call.args, *(each.value for each in call.keywords), *([owner] if owner else [])]
            return any(map(self.rests, told))
        self.sources.connection |= CONNECTED.intersection((module_of(callee), self._module_of_owner(owner))) != set()
        return True

    def _module_of_owner(self, owner: ast.expr | None) -> str:
        return module_of(self.resolve(owner)) if owner is not None else ""

    def _looks_at_file(self, path: ast.expr, name: str) -> bool:
        if self._is_own_doing(path, name):
            return False
        if isinstance(known := self.resolve(path), (PurePath, str)):
            self.sources.files.add(str(known))
        return True

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
        self.sources.desktop |= type(owner).__name__ != "RunResult" and name not in RUNS
        return self.trusts_outcome if is_agent and name in RUNS else type(owner).__name__ != "RunResult"

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


def _differ(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) != ast.dump(other)


def take_over(scope: Scope, node: ast.stmt) -> None:
    """Note the names to which a statement gives a value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                scope.assign(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            scope.assign(target, value)
        case ast.AugAssign(target=ast.Name(id=name), op=ast.BitOr(), value=ast.Constant(value=True)):
            scope.take(name, False, True)
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            scope.looks[name] = scope.looks.get(name, False) or scope.rests(value)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars:
                    scope.assign(item.optional_vars, item.context_expr)
        case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
            scope.name(target, looks=scope.rests(over))
        case ast.Import():
            for alias in node.names:
                top = alias.name if alias.asname else alias.name.partition(".")[0]
                scope.take(alias.asname or top, False, sys.modules.get(top, NOTHING))
        case ast.ImportFrom():
            for alias in node.names:
                module = sys.modules.get(node.module or "", NOTHING)
                scope.take(alias.asname or alias.name, False, member(module, alias.name))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[value, *_])) if attr in PUTS:
            scope.add(owner, value)
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and (path := written_by(each)) is not None:
            scope.written.add(scope.key_of(path))
