"""The statements of a test that give values to names, and what is known about each name after them."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from pytest_vnc_use.body_checks.code_places import written_by
from pytest_vnc_use.body_checks.code_values import NOTHING, member
from pytest_vnc_use.body_checks.known_calls import PUTS

if TYPE_CHECKING:
    from pytest_vnc_use.body_checks.scope import Scope


def take_over(scope: Scope, node: ast.stmt) -> None:
    """Note the names to which a statement gives a value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                _assign(scope, target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            scope.assign(target, value)
        case ast.AugAssign(target=ast.Name()):
            _change(scope, node)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars:
                    scope.assign(item.optional_vars, item.context_expr)
        case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
            scope.name(target, looks=scope.rests(over), words=scope.tells(over))
        case ast.Import():
            for alias in node.names:
                top = alias.name if alias.asname else alias.name.partition(".")[0]
                scope.take(alias.asname or top, False, sys.modules.get(top, NOTHING))
        case ast.ImportFrom():
            for alias in node.names:
                module = sys.modules.get(node.module or "", NOTHING)
                scope.take(alias.asname or alias.name, False, member(module, alias.name))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="clear"))):
            scope.take(name, False, NOTHING)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[value, *_])) if attr in PUTS:
            scope.add(owner, value)
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and (path := written_by(each)) is not None:
            scope.written.add(scope.key_of(path))


def _change(scope: Scope, node: ast.AugAssign) -> None:
    """Note the changed value of a name, such as that of `ok &= seen`."""
    target, value = node.target, node.value
    assert isinstance(target, ast.Name)
    if isinstance(node.op, ast.BitOr) and isinstance(value, ast.Constant) and value.value is True:
        scope.take(target.id, False, True)
        return
    looks, tells = scope.rests(target) or scope.rests(value), scope.tells(target) or scope.tells(value)
    scope.looks[target.id], scope.words[target.id] = looks, tells
    scope.things.pop(target.id, None)
    if isinstance(node.op, ast.BitAnd):
        scope.facts.pop(target.id, None)


def _assign(scope: Scope, target: ast.expr, value: ast.expr) -> None:
    """Note the new value of a target; a literal tuple is assigned part by part."""
    match target, value:
        case ((ast.Tuple() | ast.List()), (ast.Tuple() | ast.List())) if _are_pairs(target.elts, value.elts):
            facts = [(scope.rests(each), scope.tells(each), scope.resolve(each)) for each in value.elts]
            for name, (looks, words, thing) in zip(target.elts, facts, strict=True):
                scope.name(name, looks=looks, words=words, thing=thing)
        case _:
            scope.assign(target, value)


def _are_pairs(targets: list[ast.expr], values: list[ast.expr]) -> bool:
    is_plain = all(isinstance(each, ast.Name) for each in targets)
    return is_plain and len(targets) == len(values) and not any(isinstance(each, ast.Starred) for each in values)
