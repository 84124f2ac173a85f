"""The check of whole functions of a test: its body, its fixtures, and those that ran when the task ended."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping, Sequence

from pytest_vnc_use.body_checks.assertions import Flow, asserts
from pytest_vnc_use.body_checks.code_places import FunctionNode, Place, is_given_away, names_of, node_of
from pytest_vnc_use.body_checks.code_values import NOTHING, own_method
from pytest_vnc_use.body_checks.code_ways import NO_WAY, ON, surely
from pytest_vnc_use.body_checks.decorators import is_known
from pytest_vnc_use.body_checks.scope import Scope
from pytest_vnc_use.body_checks.sources import Sources


def function_asserts(
    function: object,
    funcargs: Mapping[str, object],
    sources: Sources,
    *,
    trusts_outcome: bool = False,
    looked_at: Iterable[str] = (),
) -> bool:
    """Return whether a test's function, or the part of a fixture before its `yield`, surely asserts.

    `funcargs` are the values of the test's fixtures and parameters. Adds the sources of the looks to `sources`. With
    `trusts_outcome` the text and outcome of a run's result count. `looked_at` are fixtures whose values rest on a look.
    """
    method = own_method(function)
    if method is None:
        return False
    values = {**names_of(method.function), **funcargs}
    scope = Scope(values, trusts_outcome, funcargs, frozenset(funcargs), sources=sources)
    for name in looked_at:
        scope.take(name, True, funcargs[name])
    names = [*inspect.signature(method.function).parameters]
    if method.owner is not NOTHING and names:
        scope.values, scope.live = {**values, names[0]: method.owner}, scope.live | {names[0]}
    return asserts(method, lambda: scope)


def asserts_after_yield(function: object, funcargs: Mapping[str, object], sources: Sources) -> bool:
    """Return whether the teardown of a fixture surely asserts."""
    method = own_method(function)
    node = node_of(method.function.__code__) if method else None
    if method is None or node is None:
        return False
    lines = [each.lineno for each in ast.walk(node) if isinstance(each, ast.Yield)]
    values = {**names_of(method.function), **funcargs}
    scope = Scope(values, funcargs=funcargs, live=frozenset(funcargs), sources=sources)
    return len(lines) == 1 and surely(Flow(scope, lines[0]).block(node.body))


def asserts_after(
    places: Sequence[Place], funcargs: Mapping[str, object], sources: Sources, *, trusts_outcome: bool = False
) -> bool:
    """Return whether the functions at those places, innermost first, surely assert in the rest of their code."""
    ways = ON
    for place in places:
        node = node_of(place.code)
        scope = Scope(place.values, trusts_outcome, funcargs, _live_names(place, node, funcargs), sources=sources)
        left = Flow(scope, place.line, ways).block(node.body) if node and _is_plain(scope, node) else ON
        ways = NO_WAY if surely(left) else ON
    return not ways


def _is_plain(scope: Scope, node: FunctionNode) -> bool:
    """Return whether no decorator of the function may end its errors."""
    for each in node.decorator_list:
        thing = scope.resolve(each.func if isinstance(each, ast.Call) else each)
        method = own_method(thing)
        if not is_known(each, thing, method.function if method else None):
            return False
    return True


def _live_names(place: Place, node: FunctionNode | None, funcargs: Mapping[str, object]) -> frozenset[str]:
    """Return the names of things that may have changed since the task ended.

    A list or dict that the function itself made has not changed, unless it was passed to something that may fill it.
    """
    given = {id(thing) for thing in funcargs.values()}
    return frozenset(
        name
        for name, thing in place.own.items()
        if not isinstance(thing, (list, dict, set)) or id(thing) in given or (node and is_given_away(name, node))
    )
