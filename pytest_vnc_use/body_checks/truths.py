"""The check of one expression: does its truth say something about the product, or is it always the same?"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from enum import EnumMeta

from pytest_vnc_use.body_checks.code_places import innermost, is_named
from pytest_vnc_use.body_checks.code_values import NOTHING, Instance, has_truth, is_empty, is_own_class
from pytest_vnc_use.body_checks.foregone import has_foregone_truth, is_foregone, is_forgotten_call
from pytest_vnc_use.body_checks.known_calls import OF_A_VERDICT
from pytest_vnc_use.body_checks.scope import Scope

_PAIRS = ((ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.Lt, ast.GtE), (ast.Gt, ast.LtE))
_OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {**dict(_PAIRS), **{two: one for one, two in _PAIRS}}
_PARTS = frozenset({"items", "keys", "values"})


def proves(scope: Scope, test: ast.expr, *, truth: bool = True) -> bool:
    """Return whether the expression proves something about the product if its value is `truth`."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return proves(scope, test.operand, truth=not truth)
        case ast.BoolOp() if isinstance(test.op, ast.Or) == truth and _has_opposites(test.values):
            return False
        case ast.IfExp():
            return all(proves(scope, each, truth=truth) for each in (test.body, test.orelse))
        case ast.BoolOp():
            proofs = [proves(scope, value, truth=truth) for value in test.values]
            return any(proofs) if isinstance(test.op, ast.And) == truth else all(proofs)
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.Name(id=name)]) if name in scope.parts:
            return False  # this asks only for its keys
        case ast.Call(func=ast.Name(id="any" | "all" as name), args=[ast.List(elts=each) | ast.Tuple(elts=each)]):
            proofs = [proves(scope, value, truth=truth) for value in each]
            return any(proofs) if (name == "all") == truth else all(proofs) and bool(proofs)
    return not scope.tells(test) and _shows(scope, test)


def _has_opposites(tests: Sequence[ast.expr]) -> bool:
    """Return whether one of these is true wherever another one is false: `x == 1` and `x != 1`."""
    return not {ast.dump(each) for each in tests}.isdisjoint(ast.dump(_opposite(each)) for each in tests)


def _opposite(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in _OPPOSITES:
            return ast.Compare(left, [_OPPOSITES[type(op)]()], comparators)
    return ast.UnaryOp(ast.Not(), test)


def _shows(scope: Scope, test: ast.expr) -> bool:
    """Return whether the truth of an expression depends on a look."""
    match test:
        case ast.Attribute() if test.attr in OF_A_VERDICT or test.attr == "browser":
            return False
        case ast.Compare():
            return _compares(scope, test)
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as items]):
            return has_items(scope, items.generators[0].iter) and scope.rests(test)
    if has_foregone_truth(test, scope.facts_in(test)):
        return False
    thing = scope.resolve(test)
    made = scope.resolve(test.func) if isinstance(test, ast.Call) else None
    if isinstance(made, type) and is_own_class(made) and not has_truth(thing):
        return False
    if isinstance(test, (ast.Name, ast.Attribute)):
        return scope.rests(test) and has_truth(thing) and not (thing is NOTHING and is_forgotten_call(test))
    return scope.rests(test)


def has_items(scope: Scope, over: ast.expr) -> bool:
    """Return whether the expression surely gives something to iterate over."""
    if isinstance(over, (ast.Tuple, ast.List, ast.Set)):
        return any(not isinstance(each, ast.Starred) for each in over.elts)
    match over:
        case ast.Call(func=ast.Name(id="range"), args=args):
            bounds = [bound for bound in (_count(scope, each) for each in args) if bound is not None]
            return len(bounds) == len(args) and len(range(*bounds)) > 0
        case ast.Call(func=ast.Name(id="enumerate" | "reversed" | "sorted" | "list" | "tuple" | "set"), args=[one, *_]):
            return has_items(scope, one)
        case ast.Call(func=ast.Name(id="zip"), args=[_, *_] as args):
            is_strict = any(each.arg == "strict" and ast.unparse(each.value) == "True" for each in over.keywords)
            return (any if is_strict else all)(has_items(scope, each) for each in args)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=[_, *_] as keywords):
            return any(each.arg for each in keywords)
        case ast.Call(func=ast.Attribute(attr="split", value=ast.Constant(value=str(text))), args=[]):
            return bool(text.split())
    whole = innermost(over.func) if isinstance(over, ast.Call) and is_named(over, _PARTS) else over
    if isinstance(whole, (ast.Dict, ast.Call)) and whole is not over and has_items(scope, whole):
        return True
    if "true" in scope.facts_in(whole):
        return True
    known = scope.resolve(whole)
    return isinstance(known, (tuple, list, dict, set, frozenset, str, EnumMeta)) and len(known) > 0


def _count(scope: Scope, node: ast.expr) -> int | None:
    """Return the number that an expression surely is; None if that is not known."""
    if isinstance(node, ast.Call) and is_named(node, frozenset({"len"})) and len(node.args) == 1:
        known = scope.resolve(node.args[0])
        return len(known) if isinstance(known, (tuple, list, dict, set, frozenset, str)) else None
    known = scope.resolve(node)
    return known if isinstance(known, int) else None


def _compares(scope: Scope, test: ast.Compare) -> bool:
    if is_foregone(test, scope.facts_in) or _expects_nothing(scope, test):
        return False
    sides = [test.left, *test.comparators]
    if any(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
        sides = [side for side in sides if not isinstance(side, ast.Name) or scope.looks.get(side.id)]
    return any(map(scope.rests, sides))


def _expects_nothing(scope: Scope, test: ast.Compare) -> bool:
    """Return whether the expected part has an empty value, such as a variable of the environment that is not set."""
    match test.ops[0]:
        case ast.In() | ast.NotIn():
            if isinstance(test.left, ast.Attribute) and isinstance(scope.resolve(test.left.value), Instance):
                return False  # its attributes may have other values than its class
            empty = scope.resolve(test.left)
            return isinstance(empty, (str, bytes)) and not empty
        case ast.LtE():
            return is_empty(scope.resolve(test.left))
    return False
