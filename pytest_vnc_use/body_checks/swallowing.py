"""The contexts of a test that may end an exception: an assertion in one of them proves nothing."""

from __future__ import annotations

import ast
import contextlib
import inspect
from types import FunctionType

from pytest_vnc_use.body_checks.code_places import is_named, is_own
from pytest_vnc_use.body_checks.code_values import NOTHING, LocalClass, class_of, own_method
from pytest_vnc_use.body_checks.code_ways import catches_around_yield, may_return_true, returns_truth
from pytest_vnc_use.body_checks.scope import Scope

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
    if is_named(item.context_expr, frozenset({"suppress", "ignored"})):
        return True
    call = item.context_expr
    context = scope.resolve(call)
    if _ends_errors(scope, context if isinstance(context, LocalClass) else class_of(context)):
        return True
    method = own_method(scope.resolve(call.func)) if isinstance(call, ast.Call) else None
    return method is not None and catches_around_yield(method.function)


def _ends_errors(scope: Scope, kind: object) -> bool:
    """Return whether the contexts of a class may end an exception; those of an unknown class may."""
    if isinstance(kind, LocalClass):
        own = [each for each in kind.node.body if getattr(each, "name", "") in _EXITS]
        return any(map(returns_truth, own)) or any(_ends_errors(scope, scope.resolve(each)) for each in kind.node.bases)
    if not isinstance(kind, type):
        return True
    exits = [inspect.getattr_static(kind, name, NOTHING) for name in _EXITS]
    own_exits = [each for each in exits if isinstance(each, FunctionType) and is_own(each.__code__)]
    return issubclass(kind, contextlib.suppress) or any(map(may_return_true, own_exits))
