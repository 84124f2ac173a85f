"""The contexts of a test that may end an exception: an assertion in one of them proves nothing."""

from __future__ import annotations

import ast
import contextlib
import inspect
from types import FunctionType

from pytest_vnc_use.body_checks.code_places import is_named, is_own
from pytest_vnc_use.body_checks.code_values import NOTHING, Instance, class_of, own_method
from pytest_vnc_use.body_checks.code_ways import catches_around_yield, may_return_true
from pytest_vnc_use.body_checks.scope import Scope


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
    kind = scope.resolve(call)
    function = scope.resolve(call.func) if isinstance(call, ast.Call) else NOTHING
    if class_of(kind) is contextlib.suppress:
        return True
    if isinstance(kind, Instance):
        function = inspect.getattr_static(kind.of, "__exit__", NOTHING)
        return isinstance(function, FunctionType) and is_own(function.__code__) and may_return_true(function)
    method = own_method(function)
    return bool(method) and method is not None and catches_around_yield(method.function)
