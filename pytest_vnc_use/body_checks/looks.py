"""The expressions of a test that rest on a look at the program, not on earlier knowledge or the planner's words.

`assert True`, `assert result.outcome == "done"` and `assert page.total` with a forgotten call cannot fail if the
product is broken. An expression rests on a look if it makes a call after the task that may read the product's state, or
reads a fixture's object that may have changed meanwhile. Only code is read here; nothing is called.
"""

from __future__ import annotations

import ast
import inspect
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING

from pytest_vnc_use.body_checks.assignments import take_over
from pytest_vnc_use.body_checks.call_looks import call_rests
from pytest_vnc_use.body_checks.code_places import is_own_file, names_of, node_of, returns_the_same, statements_in
from pytest_vnc_use.body_checks.code_values import NOTHING, Method, collects, getter_of, is_empty, is_of_package, member
from pytest_vnc_use.body_checks.foregone import is_of_a_picture
from pytest_vnc_use.body_checks.words import is_watched

if TYPE_CHECKING:
    from pytest_vnc_use.body_checks.scope import Scope

_EMPTY = frozenset({"''", "b''", "0", "None", "False", "()", "[]", "{}", "['']", "set()"})
"""False literals: defaults for a missing value."""


def rests(scope: Scope, node: ast.AST) -> bool:
    """Return whether the value of an expression comes from a look at the program."""
    match node:
        case ast.Constant() | ast.Lambda():
            return False
        case ast.Name(id=name):
            return _name_rests(scope, name)
        case ast.Attribute():
            return _attribute_rests(scope, node)
        case ast.Call():
            return call_rests(scope, node)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)) if name in scope.parts:
            return _part_rests(scope, scope.parts[name], key)
        case ast.BoolOp(op=ast.Or(), values=[first, *others]):
            return scope.rests(first) and all(ast.unparse(other) in _EMPTY or scope.rests(other) for other in others)
        case ast.IfExp():
            ways = [scope.rests(node.body), scope.rests(node.orelse)]
            differ = ast.dump(node.body) != ast.dump(node.orelse)
            return all(ways) or (scope.rests(node.test) and (any(ways) or differ))
        case ast.BinOp(op=ast.Sub(), left=left) if is_empty(scope.resolve(left)):
            return False
        case ast.NamedExpr():
            scope.assign(node.target, node.value)
            return scope.rests(node.value)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return _comprehension_rests(scope, node)
    return any(scope.rests(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def _part_rests(scope: Scope, parts: ast.Dict, key: object) -> bool:
    keys = [each.value if isinstance(each, ast.Constant) else NOTHING for each in parts.keys]
    if key not in keys or NOTHING in keys:
        return scope.rests(parts)
    return scope.rests(parts.values[keys.index(key)])


def _name_rests(scope: Scope, name: str) -> bool:
    thing = scope.things.get(name, NOTHING if name in scope.looks else scope.values.get(name, NOTHING))
    if scope.trusts_outcome and type(thing).__name__ == "RunResult":
        return True
    if name in scope.looks:
        return scope.looks[name]
    if name in scope.live and scope.has_changed(thing):
        return True
    return scope.sources.sights.has_changed and collects(scope.values, name)


def _comprehension_rests(scope: Scope, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
    rests = False
    if any(is_empty(scope.resolve(each.iter)) for each in node.generators):
        return False
    for each in node.generators:
        over = scope.rests(each.iter)
        scope.name(each.target, looks=over)
        rests = rests or over or any(map(scope.rests, each.ifs))
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return rests or any(map(scope.rests, parts))


def _attribute_rests(scope: Scope, node: ast.Attribute) -> bool:
    owner = scope.resolve(node.value)
    if is_of_a_picture(node, scope.facts_in(node.value)):
        return False
    if isinstance(owner, ModuleType) and not is_own_file(str(vars(owner).get("__file__"))):
        return False
    if node.attr == "browser" and is_watched(scope, node.value):
        return scope.sources.sights.of_anything()
    if is_of_package(owner):
        return scope.trusts_outcome and type(owner).__name__ == "RunResult"
    found = member(owner, node.attr)
    if getter := getter_of(found):
        inner = scope.inner(names_of(getter))
        inner.take(next(iter(inspect.signature(getter).parameters)), False, owner)
        return inner.returns_look(getter)
    if isinstance(found, (FunctionType, BuiltinFunctionType, Method, MethodType)):
        return False  # a method whose call was forgotten
    if found is not NOTHING and not hasattr(type(found), "__get__"):
        return scope.has_changed(found)
    return scope.rests(node.value)


def returns_look(scope: Scope, function: FunctionType) -> bool:
    """Return whether the result of a user's function may rest on a look."""
    node = node_of(function.__code__)
    if node is None or scope.is_too_deep or returns_the_same(node):
        return False
    returned: list[bool] = []
    for each in statements_in(node.body):
        match each:
            case ast.Return(value=ast.expr() as value):
                returned.append(scope.rests(value))
            case ast.If(test=decides) | ast.For(iter=decides) if scope.rests(decides):
                before = dict(scope.facts)
                take_over(scope, each)
                scope.depend(each, before)
                returned.append(any(isinstance(inner, ast.Return) for inner in ast.walk(each)))
            case ast.Assign() | ast.AnnAssign(value=ast.expr()) | ast.With() | ast.AsyncWith() | ast.For():
                take_over(scope, each)
            case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                returned.append(scope.rests(value))
    return any(returned)
