"""The decorators of a test's functions: those that may end an error put every assertion in the function in doubt."""

from __future__ import annotations

import ast
import contextlib
import inspect
from types import FunctionType

from pytest_vnc_use.body_checks.code_places import is_own, node_of
from pytest_vnc_use.body_checks.code_ways import catches_around_yield, may_return_true

_PACKAGE = __name__.partition(".")[0]
PASSING_ON = frozenset(
    {*"functools unittest hypothesis allure allure_commons pytest _pytest dataclasses typing abc builtins".split()}
    | {"asyncio", "anyio", "pytest_asyncio", _PACKAGE}
)
"""Packages whose decorators let an error through."""
_BRANCHES = (ast.If, ast.With, ast.For, ast.While, ast.Assert, ast.Match)


def passes_on(wrapper: FunctionType) -> bool:
    """Return whether another package's decorated function lets the errors of the user's function through."""
    module = str(wrapper.__globals__.get("__name__", "")).partition(".")[0]
    if module == "contextlib":
        context = inspect.getclosurevars(wrapper).nonlocals.get("self")
        return context is None or not swallows(context)
    if module == "tenacity":
        return getattr(getattr(wrapper, "retry", None), "retry_error_callback", wrapper) is None
    return module in PASSING_ON


def hands_on(wrapper: FunctionType) -> bool:
    """Return whether a user's own wrapper surely makes just the call that it got, and lets its errors through."""
    node = node_of(wrapper.__code__)
    cells = inspect.getclosurevars(wrapper).nonlocals
    match node:
        case ast.FunctionDef(
            args=ast.arguments(
                posonlyargs=[], args=[], kwonlyargs=[], vararg=ast.arg(arg=args), kwarg=ast.arg(arg=named)
            )
        ):
            inner = [*ast.walk(node)]
            is_plain = not any(isinstance(each, _BRANCHES) or getattr(each, "handlers", None) for each in inner)
            returned = [each.value for each in inner if isinstance(each, ast.Return)]
            match returned:
                case [
                    ast.Call(
                        func=ast.Name(id=called),
                        args=[ast.Starred(value=ast.Name(id=first))],
                        keywords=[ast.keyword(arg=None, value=ast.Name(id=second))],
                    )
                ]:
                    is_wrapped = cells.get(called) is getattr(wrapper, "__wrapped__", wrapper)
                    return is_plain and is_wrapped and (first, second) == (args, named)
    return False


def swallows(context: object) -> bool:
    """Return whether an object may end an error that is raised in it as a context."""
    function = getattr(context, "func", None)
    if isinstance(context, contextlib.AbstractContextManager) and isinstance(function, FunctionType):
        return not is_own(function.__code__) or catches_around_yield(node_of(function.__code__))
    return class_swallows(type(context))


def class_swallows(kind: type) -> bool:
    """Return whether a context of this class may end an error."""
    leave = inspect.getattr_static(kind, "__exit__", None)
    return not isinstance(leave, FunctionType) or not is_own(leave.__code__) or may_return_true(leave)


def is_known(decorator: ast.expr, thing: object, function: FunctionType | None) -> bool:
    """Return whether a decorator lets errors through.

    `thing` is what its name stands for, `function` the same if it is the user's own. The code of a user's own wrapper
    is read like all code around the task, so only its contexts are looked at here.
    """
    name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if name.startswith("pytest.") or name in ("staticmethod", "classmethod", "property"):
        return True
    if function is not None:
        return not (inspect.isgeneratorfunction(function) and catches_around_yield(node_of(function.__code__)))
    module = str(getattr(thing, "__module__", "")).partition(".")[0]
    if isinstance(thing, type) and issubclass(thing, contextlib.ContextDecorator):
        return not class_swallows(thing)
    if module == "tenacity":
        keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
        return all(each.arg != "retry_error_callback" for each in keywords)
    call = inspect.getattr_static(thing, "__call__", None) if isinstance(thing, type) else None
    is_own_wrapper = isinstance(call, FunctionType) and is_own(call.__code__)
    return module in PASSING_ON or module == "contextlib" or is_own_wrapper
