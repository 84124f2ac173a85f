"""Which expressions of a test rest on a look at the program, and which on what was known before or the planner says.

`assert True`, `assert result.outcome == "done"` and `assert page.total` with a forgotten call cannot fail where the
product is broken. An expression rests on a look where it calls something after the task that may read the product's
state, or where a fixture's object is asked that may have changed meanwhile. Only code is read here; nothing is called.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType

from pytest_vnc_use.code_places import innermost, is_own, names_of, node_of
from pytest_vnc_use.code_values import (
    NOTHING,
    Instance,
    Method,
    collects,
    has_truth,
    is_live,
    is_of_package,
    member,
    own_method,
)

_DEEPEST = 6
"""So many calls are followed, one within the other."""
_RUNS = frozenset({"run", "reenact", "approve", "deny", "resume"})
_SILENT = frozenset(
    "click type_text key scroll drag perform check unmet close stop reset write write_text write_bytes write_file "
    "writelines mkdir touch append add update extend setattr setitem setenv sleep debug info warning log".split()
)
"""Methods that do something and tell nothing of the product."""
_PUTS = frozenset({"append", "extend", "add", "update"})
_UNTELLING = frozenset("isinstance issubclass hasattr callable id type print dir vars locals globals".split())
_PURE = frozenset(
    "time datetime random secrets uuid json re math decimal fractions operator itertools functools copy string "
    "textwrap collections dataclasses pprint types typing enum io base64 hashlib statistics numbers pytest _pytest "
    "unittest numpy pandas PIL".split()
)
"""Modules whose functions tell no more than their arguments do, unless they read a file."""
_READS = ("load", "read", "open", "from", "genfrom", "memmap")
_PATH_LOOKS = frozenset(
    "read_text read_bytes open exists is_file is_dir is_symlink stat lstat iterdir glob rglob samefile".split()
)
_OF_A_VERDICT = frozenset({"kind", "reason", "claim"})


@dataclass
class Scope:
    """What is known of the names in a piece of code.

    `values` are the names' values when the task ended, those in `live` of objects that a look at may tell more of now;
    `looks` says of the names that were given since whether they rest on a look, `things` what they stand for where that
    is known. With `trusts_outcome` the run's own words count:
    it did not end as its planner said. `funcargs` are the test's, for calls whose arguments cannot be told apart.
    """

    values: Mapping[str, object]
    trusts_outcome: bool = False
    funcargs: Mapping[str, object] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    depth: int = 0
    looks: dict[str, bool] = field(default_factory=dict)
    things: dict[str, object] = field(default_factory=dict)
    pictures: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    # --- what names stand for ----------------------------------------------------------------------------------------

    def resolve(self, node: ast.AST) -> object:
        """What an expression stands for, as far as can be told without carrying anything out."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                if name in self.things:
                    return self.things[name]
                return NOTHING if name in self.looks else self.values.get(name, NOTHING)
            case ast.Attribute():
                return member(self.resolve(node.value), node.attr)
            case ast.BinOp():
                left = self.resolve(node.left)
                return left if isinstance(left, (PurePath, Instance)) else NOTHING
            case ast.Call():
                made = self.resolve(node.func)
                return Instance(made) if isinstance(made, type) else NOTHING
            case ast.Await() | ast.NamedExpr():
                return self.resolve(node.value)
        return NOTHING

    def method(self, call: ast.Call) -> Method | None:
        """The function of the user's that a call goes to; None for all others."""
        return own_method(self.resolve(call.func))

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Take over what a name stands for from now on; a part of a thing that comes from a look makes all of it so."""
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            self.add(target, value)
            return
        self.name(target, looks=self.rests(value), thing=self.resolve(value))
        if isinstance(target, ast.Name) and _is_picture(value, self):
            self.pictures.add(target.id)

    def add(self, target: ast.expr, value: ast.expr) -> None:
        """Take over that something was put into a thing."""
        root = innermost(target)
        if isinstance(root, ast.Name) and self.rests(value):
            self.looks[root.id] = True

    def depend(self, node: ast.stmt) -> None:
        """Take over what is given to names only where a look says so."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.looks[each.id] = True

    def name(self, target: ast.AST, *, looks: bool, thing: object = NOTHING) -> None:
        """The same for all names of a target, of which `thing` is what a single one stands for."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.looks[node.id] = looks
                self.pictures.discard(node.id)
                self.things.pop(node.id, None)
                if node is target and thing is not NOTHING:
                    self.things[node.id] = thing

    def within(self, call: ast.Call, method: Method) -> Scope:
        """The scope of a function that is called."""
        scope = Scope(names_of(method.function), self.trusts_outcome, self.funcargs, depth=self.depth + 1)
        names = inspect.getfullargspec(method.function)
        positional = [*names.args]
        if method.owner is not NOTHING and positional:
            scope.take(positional.pop(0), False, method.owner)
        for name in (*positional, *names.kwonlyargs):
            scope.take(name, is_live(self.funcargs.get(name)), self.funcargs.get(name, NOTHING))
        for name, value in _arguments(call, positional):
            scope.take(name, self.rests(value), self.resolve(value))
        return scope

    def take(self, name: str, looks: bool, thing: object) -> None:
        """Take over what a parameter stands for."""
        self.looks[name] = looks
        self.things.pop(name, None)
        if thing is not NOTHING:
            self.things[name] = thing

    # --- what can fail where the product is broken -------------------------------------------------------------------

    def proves(self, test: ast.expr) -> bool:
        """Whether the truth of an expression says something of the product."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return self.proves(test.operand)
            case ast.BoolOp():
                told = [self.proves(value) for value in test.values]
                return any(told) if isinstance(test.op, ast.And) else all(told)
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Set() | ast.JoinedStr() | ast.GeneratorExp():
                return False  # always true, or always false
            case ast.Attribute() if test.attr in _OF_A_VERDICT:
                return False
            case ast.Name() | ast.Attribute():
                return self.rests(test) and has_truth(self.resolve(test)) and not _is_picture(test, self)
            case ast.Compare():
                return self._compares(test)
        return self.rests(test) and not _is_picture(test, self)

    def _compares(self, test: ast.Compare) -> bool:
        sides = [test.left, *test.comparators]
        if len({ast.dump(side) for side in sides}) < len(sides) or _is_always_true(test):
            return False
        if any(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
            sides = [side for side in sides if not isinstance(side, ast.Name) or self.looks.get(side.id)]
        return any(self.rests(side) and not self._is_size_of_picture(side) for side in sides)

    def _is_size_of_picture(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and len(node.args) == 1 and _is_picture(node.args[0], self)

    def rests(self, node: ast.AST) -> bool:
        """Whether the value of an expression comes from a look at the program."""
        match node:
            case ast.Constant() | ast.Lambda():
                return False
            case ast.Name(id=name):
                return self._name_rests(name)
            case ast.Attribute():
                return self._attribute_rests(node)
            case ast.Call():
                return self._call_rests(node)
            case ast.BoolOp(op=ast.Or()):
                return all(map(self.rests, node.values))
            case ast.IfExp():
                return self.rests(node.body) and self.rests(node.orelse)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension_rests(node)
        return any(self.rests(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))

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
            rests = rests or over
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return rests or any(map(self.rests, parts))

    def _attribute_rests(self, node: ast.Attribute) -> bool:
        owner = self.resolve(node.value)
        if is_of_package(owner):
            return self.trusts_outcome and type(owner).__name__ == "RunResult"
        found = member(owner, node.attr)
        if isinstance(found, property) and isinstance(found.fget, FunctionType) and is_own(found.fget.__code__):
            scope = Scope(names_of(found.fget), self.trusts_outcome, self.funcargs, depth=self.depth + 1)
            scope.take(next(iter(inspect.signature(found.fget).parameters)), False, owner)
            return scope.returns_look(found.fget)
        if isinstance(found, (FunctionType, BuiltinFunctionType, Method, MethodType)):
            return False  # whose call was forgotten
        if found is not NOTHING and not hasattr(type(found), "__get__"):
            return is_live(found)
        return self.rests(node.value)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call_rests(self, call: ast.Call) -> bool:
        callee, name = self.resolve(call.func), _name_of(call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if method := own_method(callee):
            return self.depth < _DEEPEST and self.within(call, method).returns_look(method.function)
        if name in _SILENT or name in _UNTELLING or (owner is not None and _is_picture(owner, self)):
            return False
        if isinstance(call.func, ast.Lambda):
            return self.rests(call.func.body)
        if owner is not None and is_of_package(self.resolve(owner)):
            return self._is_look_of_package(self.resolve(owner), name)
        if owner is not None and self._is_on_path(owner):
            return name in _PATH_LOOKS and ast.unparse(owner) not in self.written
        if self._tells_its_arguments(callee, name, owner):
            told = [*call.args, *(each.value for each in call.keywords), *([owner] if owner else [])]
            return any(map(self.rests, told))
        return True

    def _is_look_of_package(self, owner: object, name: str) -> bool:
        is_agent = hasattr(type(owner), "approve") or type(owner).__name__ == "RunResult"
        return self.trusts_outcome if is_agent and name in _RUNS else type(owner).__name__ != "RunResult"

    def _is_on_path(self, owner: ast.expr) -> bool:
        thing = self.resolve(owner)
        return isinstance(thing, PurePath) or (isinstance(thing, Instance) and issubclass(thing.of, PurePath))

    def _tells_its_arguments(self, callee: object, name: str, owner: ast.expr | None) -> bool:
        """Whether a function is one that looks at nothing but what it is given."""
        if owner is not None and self._is_known(owner):
            return True
        if callee is NOTHING:
            return name in _RUNS or (owner is None and name in self.looks)
        if getattr(builtins, name, None) is callee:
            return callee is not open
        place = getattr(callee, "__module__", None) or getattr(owner and self.resolve(owner), "__module__", None)
        module = str(place or "").partition(".")[0]
        reads = module in ("numpy", "pandas", "PIL") and name.startswith(_READS)
        return not reads and (isinstance(callee, type) or module.removeprefix("_") in _PURE or module in _PURE)

    def _is_known(self, owner: ast.expr) -> bool:
        """Whether an object was there before the task, or was made since without a look: a text, a run's result."""
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
        """Whether what a function of the user's returns may rest on a look."""
        node = node_of(function.__code__)
        if node is None or self.depth > _DEEPEST:
            return False
        returned: list[bool] = []
        for each in _in_order(node.body):
            match each:
                case ast.Return(value=ast.expr() as value):
                    returned.append(self.rests(value))
                case ast.If(test=decides) | ast.For(iter=decides) if self.rests(decides):
                    take_over(self, each)
                    self.depend(each)
                    returned.append(any(isinstance(inner, ast.Return) for inner in ast.walk(each)))
                case ast.Assign() | ast.AnnAssign(value=ast.expr()) | ast.With() | ast.AsyncWith() | ast.For():
                    take_over(self, each)
                case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                    returned.append(self.rests(value))
        return any(returned)


def take_over(scope: Scope, node: ast.stmt) -> None:
    """Take over the names that a statement gives."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                scope.assign(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            scope.assign(target, value)
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
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[value, *_])) if attr in _PUTS:
            scope.add(owner, value)
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _name_of(each) in ("write_bytes", "write_text", "touch"):
            scope.written.add(ast.unparse(each.func.value) if isinstance(each.func, ast.Attribute) else "")


def _arguments(call: ast.Call, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """What is given for which parameter, as far as can be told."""
    for name, value in zip(names, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield name, value
    yield from ((each.arg, each.value) for each in call.keywords if each.arg)


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements within, as they stand; not those of functions that are only defined."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            for inner in getattr(node, name, ()):
                yield from _in_order([inner] if isinstance(inner, ast.stmt) else inner.body)


def _name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_picture(node: ast.AST, scope: Scope) -> bool:
    if isinstance(node, ast.Name):
        return node.id in scope.pictures
    return isinstance(node, ast.Call) and _name_of(node) == "screenshot"


def _is_always_true(test: ast.Compare) -> bool:
    """`len(x) >= 0`, `len(x) > -1`."""
    match test:
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return True
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.Gt()], comparators=[ast.UnaryOp()]):
            return True
    return False
