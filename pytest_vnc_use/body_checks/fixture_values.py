"""The values of fixtures that carried out the task themselves: which of them rest on a later look."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from pytest_vnc_use.body_checks.assignments import take_over
from pytest_vnc_use.body_checks.code_places import Place, node_of, statements_in
from pytest_vnc_use.body_checks.scope import Scope
from pytest_vnc_use.body_checks.sources import Sources


def looked_at(places: Sequence[Place], funcargs: Mapping[str, object], sources: Sources) -> frozenset[str]:
    """Return the names of the fixtures whose value surely rests on a look after the task."""
    return frozenset(each.code.co_name for each in places if _gives_look(each, funcargs, sources))


def _gives_look(place: Place, funcargs: Mapping[str, object], sources: Sources) -> bool:
    node = node_of(place.code) if place.code.co_name in funcargs else None
    scope = Scope(place.values, funcargs=funcargs, sources=sources)
    given: list[bool] = []
    for each in statements_in(node.body) if node else ():
        if each.lineno <= place.line:
            continue
        match each:
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                given.append(scope.rests(value) and not scope.tells(value))
            case _:
                take_over(scope, each)
    return bool(given) and all(given)
