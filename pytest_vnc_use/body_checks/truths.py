"""The check of one expression: does its truth say something about the product, or is it always the same?"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from pytest_vnc_use.body_checks.code_places import innermost, is_named
from pytest_vnc_use.body_checks.code_values import NOTHING, has_truth, own_method
from pytest_vnc_use.body_checks.foregone import has_foregone_truth, is_foregone, is_forgotten_call, is_generator
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
        case ast.Attribute() if test.attr in OF_A_VERDICT:
            return False
        case ast.Compare():
            return _compares(scope, test)
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as items]):
            return has_items(scope, items.generators[0].iter) and scope.rests(test)
    method = own_method(scope.resolve(test.func)) if isinstance(test, ast.Call) else None
    makes_generator = method is not None and is_generator(method.function)  # a generator is always true
    if makes_generator or has_foregone_truth(test, scope.facts_in(test)):
        return False
    if isinstance(test, (ast.Name, ast.Attribute)):
        thing = scope.resolve(test)
        return scope.rests(test) and has_truth(thing) and not (thing is NOTHING and is_forgotten_call(test))
    return scope.rests(test)


def has_items(scope: Scope, over: ast.expr) -> bool:
    """Return whether the expression surely gives something to iterate over."""
    if isinstance(over, (ast.Tuple, ast.List, ast.Set)):
        return any(not isinstance(each, ast.Starred) for each in over.elts)
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in ("range", "enumerate"):
        first = over.args[:1]
        if over.func.id == "enumerate":
            return bool(first) and has_items(scope, first[0])
        bounds = [bound for bound in map(scope.resolve, over.args) if isinstance(bound, int)]
        return len(bounds) == len(over.args) and len(range(*bounds)) > 0
    whole = innermost(over.func) if isinstance(over, ast.Call) and is_named(over, _PARTS) else over
    if "true" in scope.facts_in(whole):
        return True
    known = scope.resolve(over)
    return isinstance(known, (tuple, list, dict, set, frozenset, str)) and len(known) > 0


def _compares(scope: Scope, test: ast.Compare) -> bool:
    if is_foregone(test, scope.facts_in):
        return False
    sides = [test.left, *test.comparators]
    if any(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
        sides = [side for side in sides if not isinstance(side, ast.Name) or scope.looks.get(side.id)]
    return any(map(scope.rests, sides))
