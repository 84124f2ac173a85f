"""The expressions of a test that rest on the planner's word: on a run's result, or on a value made from one.

A value that mixes the planner's word with a look is in doubt: an assertion on it may test either. A file that the test
itself wrote says no more than the test, so it counts as in doubt too.
"""

from __future__ import annotations

import ast
import inspect
from collections import deque
from enum import Enum
from pathlib import PurePath
from types import FunctionType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING

from pytest_vnc_use.body_checks.code_places import is_named, name_of, names_of, node_of, statements_in
from pytest_vnc_use.body_checks.code_values import (
    NOTHING,
    Instance,
    Method,
    class_of,
    getter_of,
    is_of_package,
    member,
    own_method,
)
from pytest_vnc_use.body_checks.known_calls import PATH_LOOKS, RUNS, SILENT, UNTELLING

if TYPE_CHECKING:
    from pytest_vnc_use.body_checks.scope import Scope

_OF_AN_AGENT = frozenset({"runs", "costs", "usage"})
_DEEPEST = 3
_MOST_ITEMS = 100


def holds_words(thing: object, depth: int = 0) -> bool:
    """Return whether an object is a run's result, or a plain collection that holds one."""
    if thing is NOTHING or depth > _DEEPEST or isinstance(thing, (str, bytes, int, float, type)):
        return False
    if isinstance(thing, Enum):
        return is_of_package(thing) and type(thing).__name__ == "Outcome"
    if type(thing).__name__ == "RunResult":
        return is_of_package(thing)
    items: list[object] = []
    if isinstance(thing, dict):
        items = [*thing.values()]
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        items = [*thing]
    elif isinstance(thing, SimpleNamespace) or hasattr(type(thing), "__dataclass_fields__"):
        items = [*getattr(thing, "__dict__", {}).values()]
    return any(holds_words(each, depth + 1) for each in items[:_MOST_ITEMS])


def tells_words(scope: Scope, node: ast.AST) -> bool:
    """Return whether the value of an expression may rest on the planner's word."""
    match node:
        case ast.Constant() | ast.Lambda():
            return False
        case ast.Name(id=name):
            return _name_tells(scope, name)
        case ast.Attribute():
            return _attribute_tells(scope, node)
        case ast.Call():
            return _call_tells(scope, node)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)) if name in scope.parts:
            values = [
                value
                for each, value in zip(scope.parts[name].keys, scope.parts[name].values, strict=True)
                if isinstance(each, ast.Constant) and each.value == key
            ]
            return scope.tells(values[-1]) if values else _name_tells(scope, name)
        case ast.NamedExpr():
            scope.assign(node.target, node.value)
            return scope.tells(node.value)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return _comprehension_tells(scope, node)
    return any(scope.tells(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def _name_tells(scope: Scope, name: str) -> bool:
    if name in scope.words:
        return scope.words[name]
    return name not in scope.looks and holds_words(scope.values.get(name, NOTHING))


def _comprehension_tells(scope: Scope, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
    tells = False
    for each in node.generators:
        over = scope.tells(each.iter)
        scope.name(each.target, looks=scope.rests(each.iter), words=over)
        tells = tells or over or any(map(scope.tells, each.ifs))
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return tells or any(map(scope.tells, parts))


def _attribute_tells(scope: Scope, node: ast.Attribute) -> bool:
    owner = scope.resolve(node.value)
    if holds_words(owner):
        return True
    if is_of_package(owner):
        return node.attr in _OF_AN_AGENT
    found = member(owner, node.attr)
    if getter := getter_of(found):
        inner = scope.inner(names_of(getter))
        inner.take(next(iter(inspect.signature(getter).parameters)), False, owner)
        return returns_words(inner, getter)
    if isinstance(owner, Instance) and found is NOTHING and _keeps_a_run(owner.of, node.attr):
        return True
    if found is not NOTHING and not hasattr(type(found), "__get__"):
        return holds_words(found)
    return not isinstance(found, (FunctionType, Method, MethodType)) and scope.tells(node.value)


def _keeps_a_run(kind: type, attr: str) -> bool:
    """Return whether a method of a user's class keeps a run's result as an attribute."""
    functions = [each for each in vars(kind).values() if isinstance(each, FunctionType) and own_method(each)]
    nodes = [node for node in (node_of(each.__code__) for each in functions) if node]
    return any(
        isinstance(each, ast.Assign)
        and any(isinstance(target, ast.Attribute) and target.attr == attr for target in each.targets)
        and any(is_named(inner, RUNS) for inner in ast.walk(each.value))
        for node in nodes
        for each in ast.walk(node)
    )


def _call_tells(scope: Scope, call: ast.Call) -> bool:
    callee, name = scope.resolve(call.func), name_of(call)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if is_watched(scope, owner) or name in SILENT or name in UNTELLING:
        return name in RUNS and scope.resolve(owner) is not scope.funcargs.get("vnc_desktop", scope)  # type: ignore[arg-type]
    if method := own_method(callee):
        return scope.follows and returns_words(scope.within(call, method), method.function)
    if (name in RUNS and owner is not None and _is_agent(scope, owner)) or _reads_own_file(scope, call, name):
        return True
    arguments = [*call.args, *(each.value for each in call.keywords), *([owner] if owner is not None else [])]
    if owner is None and isinstance(call.func, (ast.Name, ast.Call, ast.Subscript)):
        arguments.append(call.func)
    return any(map(scope.tells, arguments))


def is_watched(scope: Scope, owner: ast.expr | None) -> bool:
    """Return whether an expression is the test's desktop or agent."""
    if owner is None:
        return False
    thing = scope.resolve(owner)
    return thing is not NOTHING and any(
        thing is scope.funcargs.get(name) for name in ("vnc_desktop", "vnc_agent") if name in scope.funcargs
    )


def _is_agent(scope: Scope, owner: ast.expr) -> bool:
    thing = scope.resolve(owner)
    return thing is NOTHING or hasattr(class_of(thing), "approve")


def _reads_own_file(scope: Scope, call: ast.Call, name: str) -> bool:
    """Return whether a call reads a file that the test itself wrote."""
    if name == "open" and isinstance(call.func, ast.Name):
        path = call.args[0] if call.args else None
    elif name in PATH_LOOKS and isinstance(call.func, ast.Attribute):
        path = call.func.value
    else:
        return False
    if path is None:
        return False
    known = scope.resolve(path)
    if isinstance(known, (PurePath, str)):
        return scope.sources.sights.has_written(str(known))
    return scope.key_of(path) in scope.written


def returns_words(scope: Scope, function: FunctionType) -> bool:
    """Return whether the result of a user's function may rest on the planner's word."""
    node = node_of(function.__code__)
    if node is None or not scope.follows:
        return False
    for each in statements_in(node.body):
        match each:
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                if scope.tells(value):
                    return True
            case ast.If(test=decides) | ast.While(test=decides):
                if scope.tells(decides) and any(isinstance(inner, ast.Return) for inner in ast.walk(each)):
                    return True
            case ast.stmt():
                scope.take_over(each)
    return False
