"""The values of names in a test: objects, or known facts about them, and the user's functions."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from pytest_vnc_use.body_checks.code_places import empty_at_first, is_own, is_own_file
from pytest_vnc_use.body_checks.decorators import hands_on, passes_on

NOTHING = object()
"""Stands for a name or a call whose value is unknown."""
_PACKAGE = __name__.partition(".")[0]
_PLAIN = (str, bytes, int, float, complex, bool, type(None), tuple, frozenset, Enum, PurePath, ModuleType, type)


@dataclass(frozen=True)
class Instance:
    """An object of which only the class is known."""

    of: type


@dataclass(frozen=True, eq=False)
class LocalClass:
    """A class that the test itself defines, or an object of it. Nothing is known of its attributes."""

    node: ast.ClassDef


@dataclass(frozen=True)
class Method:
    """A function of the user, and the object that it belongs to, if any."""

    function: FunctionType
    owner: object = NOTHING


def own_method(callee: object) -> Method | None:
    """Return the user's function in `callee`, without other packages' decorators.

    Return None if it is not the user's, or if a decorator may end its errors.
    """
    function: object = callee
    owner: object = NOTHING
    if isinstance(callee, Method):
        function, owner = callee.function, callee.owner
    elif isinstance(callee, MethodType):
        function, owner = callee.__func__, callee.__self__
    while isinstance(function, FunctionType) and hasattr(function, "__wrapped__"):
        if is_own(function.__code__) and not hands_on(function):
            break
        if not is_own(function.__code__) and not passes_on(function):
            return None
        function = function.__wrapped__
    if not isinstance(function, FunctionType):
        return None
    return Method(function, owner) if is_own(function.__code__) else None


def member(owner: object, name: str) -> object:
    """Return the attribute of an object, without calling its code; NOTHING if it is unknown."""
    if owner is NOTHING or isinstance(owner, LocalClass):
        return NOTHING
    if isinstance(owner, ModuleType):
        return vars(owner).get(name, NOTHING)
    found = inspect.getattr_static(owner.of if isinstance(owner, Instance) else owner, name, NOTHING)
    found = unwatched(found)
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return Method(found.__func__, owner) if isinstance(found.__func__, FunctionType) else NOTHING
    if isinstance(found, FunctionType) and not isinstance(owner, type):
        return Method(found, owner)
    return found


def unwatched(thing: object) -> object:
    """Return the method itself if broken_calls.py watches it; else the thing."""
    return getattr(thing, "__wrapped__", thing) if is_of_package(thing) else thing


def class_of(thing: object) -> type:
    """Return the class of a thing, or the class that an Instance stands for."""
    return thing.of if isinstance(thing, Instance) else type(thing)


def is_of_package(thing: object) -> bool:
    """Return whether the thing's class is of this package."""
    return class_of(thing).__module__.partition(".")[0] == _PACKAGE and not isinstance(thing, Method)


def is_live(thing: object) -> bool:
    """Return whether a fixture's object may have changed since the test got it."""
    if thing is NOTHING or isinstance(thing, (*_PLAIN, FunctionType, MethodType, BuiltinFunctionType)):
        return False
    module = class_of(thing).__module__.partition(".")[0]
    return module not in (_PACKAGE, "_pytest", "pytest")


def has_truth(thing: object) -> bool:
    """Return whether `assert thing` can fail."""
    is_other = thing is NOTHING or getter_of(thing) is not None
    return is_other or hasattr(class_of(thing), "__bool__") or hasattr(class_of(thing), "__len__")


def is_empty(thing: object) -> bool:
    """Return whether this is an empty collection."""
    return isinstance(thing, (tuple, list, dict, set, frozenset)) and not thing


def is_own_class(kind: type) -> bool:
    """Return whether the class is of the user's project."""
    return is_own_file(str(getattr(sys.modules.get(kind.__module__), "__file__", "")))


def getter_of(thing: object) -> FunctionType | None:
    """Return the user's function that a property calls; None if there is none."""
    getter = thing.fget if isinstance(thing, property) else thing.func if isinstance(thing, cached_property) else None
    return getter if isinstance(getter, FunctionType) and is_own(getter.__code__) else None


def collects(values: Mapping[str, object], name: str) -> bool:
    """Return whether the name is of a list, dict or set that a module of the user leaves empty for others to fill."""
    value = values.get(name)
    if not isinstance(value, (list, dict, set)):
        return False
    modules = [each for each in [*sys.modules.values()] if isinstance(each, ModuleType)]
    files = {str(vars(each).get("__file__")) for each in modules if vars(each).get(name) is value}
    return any(name in empty_at_first("".join(linecache.getlines(file))) for file in files)


def module_of(thing: object) -> str:
    """Return the first part of the module name of a function or of an object's class."""
    of = thing.function if isinstance(thing, Method) else thing.of if isinstance(thing, Instance) else thing
    return "" if thing is NOTHING else str(getattr(of, "__module__", None) or "").partition(".")[0]


def owner_of(method: Method | MethodType) -> object:
    """Return the object that a method belongs to."""
    return method.owner if isinstance(method, Method) else method.__self__
