"""The contexts of a test that may end an exception: an assertion in one of them proves nothing."""

from __future__ import annotations

import ast
import contextlib
import inspect
from types import FunctionType

from pytest_vnc_use.body_checks.code_places import is_named, is_own, node_of
from pytest_vnc_use.body_checks.code_values import NOTHING, Instance, LocalClass, class_of, own_method
from pytest_vnc_use.body_checks.code_ways import catches_around_yield, may_return_true, returns_truth
from pytest_vnc_use.body_checks.scope import LocalFunction, Scope

_EXITS = ("__exit__", "__aexit__")


def swallows(scope: Scope, node: ast.With | ast.AsyncWith) -> bool:
    """Return whether a `with` statement may end an exception that is raised in its block."""
    return any(_is_swallower(scope, item) for item in node.items) or _enters_one_that_swallows(scope, node)


def _enters_one_that_swallows(scope: Scope, node: ast.With | ast.AsyncWith) -> bool:
    """Return whether a stack of contexts (`contextlib.ExitStack`) gets one that may end an exception."""
    calls = [each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Call)]
    entered = [each for each in calls if is_named(each, frozenset({"enter_context", "enter_async_context"}))]
    if any(is_named(each, frozenset({"push", "push_async_exit"})) for each in calls):
        return True
    return any(_is_swallower(scope, ast.withitem(each.args[0])) for each in entered if each.args)


def _is_swallower(scope: Scope, item: ast.withitem) -> bool:
    """Return whether a context may end an exception that is raised in it."""
    made = item.context_expr
    if is_named(made, frozenset({"suppress", "ignored"})) or _ends_errors(scope, scope.resolve(made)):
        return True
    return isinstance(made, ast.Call) and _makes_one(scope, scope.resolve(made.func))


def _makes_one(scope: Scope, maker: object) -> bool:
    """Return whether a call of this function, or of this class, may give a context that ends an exception."""
    if isinstance(maker, LocalFunction):
        returned = [each.value for each in ast.walk(maker.node) if isinstance(each, ast.Return) and each.value]
        return catches_around_yield(maker.node) or any(
            _ends_errors(scope, maker.scope.resolve(each)) for each in returned
        )
    if isinstance(maker, Instance):
        return issubclass(maker.of, type)  # nothing is known of a class that `type(…)` made
    method = own_method(maker)
    return method is not None and catches_around_yield(node_of(method.function.__code__))


def _ends_errors(scope: Scope, context: object) -> bool:
    """Return whether a context, as far as it is known, may end an exception."""
    if isinstance(context, LocalClass):
        return _class_ends_errors(scope, context.node)
    generator = getattr(context, "gen", None)  # of @contextlib.contextmanager; `func` is gone once it was entered
    if inspect.isgenerator(generator):
        return is_own(generator.gi_code) and catches_around_yield(node_of(generator.gi_code))
    if inspect.isasyncgen(generator):
        return is_own(generator.ag_code) and catches_around_yield(node_of(generator.ag_code))
    if isinstance(context, (contextlib.ExitStack, contextlib.AsyncExitStack)):
        return True  # it may hold anything
    return _kind_ends_errors(class_of(context))


def _class_ends_errors(scope: Scope, node: ast.ClassDef) -> bool:
    """Return whether the contexts of a class that the test defines may end an exception."""
    for each in node.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if each.name in _EXITS and returns_truth(each):
                return True
        elif any(isinstance(inner, ast.Name) and inner.id in _EXITS for inner in ast.walk(each)):
            return True
    bases = [scope.resolve(each) for each in node.bases if ast.unparse(each) != "object"]
    return any(
        _kind_ends_errors(each) if isinstance(each, type) else each is NOTHING or _ends_errors(scope, each)
        for each in bases
    )


def _kind_ends_errors(kind: type) -> bool:
    exits = [inspect.getattr_static(kind, name, NOTHING) for name in _EXITS]
    own_exits = [each for each in exits if isinstance(each, FunctionType) and is_own(each.__code__)]
    return issubclass(kind, contextlib.suppress) or any(map(may_return_true, own_exits))
