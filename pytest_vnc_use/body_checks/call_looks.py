"""The calls of a test that look at the program: at its desktop, its files, its processes or its connections."""

from __future__ import annotations

import ast
import builtins
import glob
from itertools import takewhile
from pathlib import PurePath
from types import MethodType
from typing import TYPE_CHECKING

from pytest_vnc_use.body_checks.code_places import name_of
from pytest_vnc_use.body_checks.code_values import (
    NOTHING,
    Instance,
    Method,
    is_of_package,
    module_of,
    own_method,
    owner_of,
)
from pytest_vnc_use.body_checks.known_calls import (
    CONNECTED,
    OF_TEXT,
    OF_THE_PLACE,
    OS_LOOKS,
    OS_MODULES,
    PATH_LOOKS,
    PURE,
    READS,
    RUNS,
    SILENT,
    UNTELLING,
)
from pytest_vnc_use.body_checks.words import is_watched

if TYPE_CHECKING:
    from pytest_vnc_use.body_checks.scope import Scope


def call_rests(scope: Scope, call: ast.Call) -> bool:
    """Return whether the result of a call comes from a look at the program."""
    callee, name = scope.resolve(call.func), name_of(call)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and is_watched(scope, owner) and name not in RUNS.difference({"run"}):
        return _looks_at_desktop(scope, scope.resolve(owner), name, call)
    if method := own_method(callee):
        return scope.follows and scope.within(call, method).returns_look(method.function)
    if isinstance(call.func, ast.Name) and name in scope.looks and callee is NOTHING:
        return scope.looks[name] or any(map(scope.rests, call.args))
    if name in SILENT or name in UNTELLING:
        return False
    if owner is not None and "picture" in scope.facts_in(owner):
        return False
    if isinstance(call.func, ast.Lambda):
        return scope.rests(call.func.body)
    for decide in (_look_of_package, _look_at_system):
        if (looks := decide(scope, call, callee, owner)) is not None:
            return looks
    return _look_with_arguments(scope, call, callee, owner)


def _look_of_package(scope: Scope, call: ast.Call, callee: object, owner: ast.expr | None) -> bool | None:
    """Return whether a call of this package is a look; None for a call of anything else."""
    if isinstance(callee, (Method, MethodType)) and is_of_package(owner_of(callee)):
        called = callee.function if isinstance(callee, Method) else callee
        return _is_look_of_package(scope, owner_of(callee), called.__name__)
    if owner is not None and is_of_package(scope.resolve(owner)):
        return _is_look_of_package(scope, scope.resolve(owner), name_of(call))
    return None


def _look_at_system(scope: Scope, call: ast.Call, callee: object, owner: ast.expr | None) -> bool | None:
    """Return whether a call that concerns a file or a process is a look; None for a call that concerns neither."""
    name, module = name_of(call), module_of(callee)
    thing = scope.resolve(owner) if owner is not None else None
    is_path = isinstance(thing, PurePath) or (isinstance(thing, Instance) and issubclass(thing.of, PurePath))
    if owner is not None and is_path:
        return name in PATH_LOOKS and _looks_at_file(scope, owner, name)
    if (module in OS_MODULES and name in ("system", "popen")) or module == "subprocess":
        return scope.sources.sights.of_process()
    if name == "open" and owner is None and call.args:
        return _looks_at_file(scope, call.args[0], name)
    if module == "glob" and call.args:
        return _looks_into_folder(scope, call.args[0])
    if module in OS_MODULES and call.args:
        return name in OS_LOOKS and _looks_at_file(scope, call.args[0], name)
    return None


def _look_with_arguments(scope: Scope, call: ast.Call, callee: object, owner: ast.expr | None) -> bool:
    """Return whether a call of another package is a look, or gets something that comes from one."""
    given = [*call.args, *(each.value for each in call.keywords), *([owner] if owner else [])]
    if _tells_its_arguments(scope, callee, name_of(call), owner):
        return any(map(scope.rests, given))
    modules = module_of(callee), module_of(scope.resolve(owner)) if owner is not None else ""
    if CONNECTED.isdisjoint(modules):
        return scope.sources.sights.of_anything() or any(map(scope.rests, given))
    is_connected = scope.is_connected(*modules)
    scope.sources.connection |= is_connected
    return is_connected


def _looks_at_desktop(scope: Scope, owner: object, name: str, call: ast.Call) -> bool:
    """Return whether a call of the test's agent or desktop is a look that happened."""
    if name in SILENT:
        return False
    if hasattr(type(owner), "approve") and name in RUNS:
        return scope.trusts_outcome
    scope.sources.desktop = True
    file = scope.resolve(call.args[0]) if call.args else NOTHING
    return scope.sources.sights.of_desktop(name, str(file) if isinstance(file, (str, PurePath)) else "")


def _looks_at_file(scope: Scope, path: ast.expr, name: str) -> bool:
    if _is_own_doing(scope, path, name):
        return False
    if isinstance(known := scope.resolve(path), (PurePath, str)):
        scope.sources.files.add(str(known))
        return scope.sources.sights.of_file(str(known))
    return scope.sources.sights.of_file("")


def _looks_into_folder(scope: Scope, pattern: ast.expr) -> bool:
    """Return whether `glob` was called with a pattern of files in a folder where something has changed."""
    known = scope.resolve(pattern)
    if not isinstance(known, str):
        return scope.sources.sights.of_file("")
    plain = takewhile(lambda part: not glob.has_magic(part), PurePath(known).parent.parts)
    return scope.sources.sights.of_file(str(PurePath(*plain)))


def _is_own_doing(scope: Scope, path: ast.expr, name: str) -> bool:
    """Return whether the test itself wrote the file, or pytest made the folder for the test."""
    key = scope.key_of(path)
    made = {str(each) for each in scope.funcargs.values() if isinstance(each, PurePath)}
    return key in scope.written or (name in OF_THE_PLACE and key in made)


def _is_look_of_package(scope: Scope, owner: object, name: str) -> bool:
    is_agent = hasattr(type(owner), "approve") or type(owner).__name__ == "RunResult"
    if is_agent and name in RUNS:
        return scope.trusts_outcome
    if type(owner).__name__ == "RunResult":
        return False
    scope.sources.desktop = True
    return scope.sources.sights.of_desktop(name, "")


def _tells_its_arguments(scope: Scope, callee: object, name: str, owner: ast.expr | None) -> bool:
    """Return whether a function looks at nothing but its arguments."""
    if owner is not None and _is_known(scope, owner):
        return True
    if callee is NOTHING:
        return name in RUNS or (owner is not None and name in OF_TEXT) or (owner is None and name in scope.looks)
    if getattr(builtins, name, None) is callee:
        return callee is not open
    module = module_of(callee) or module_of(scope.resolve(owner) if owner is not None else NOTHING)
    reads = module in ("numpy", "pandas", "PIL") and name.startswith(READS)
    is_pure = module.removeprefix("_") in PURE or module in PURE or module in OS_MODULES
    return not reads and (isinstance(callee, type) or is_pure)


def _is_known(scope: Scope, owner: ast.expr) -> bool:
    """Return whether an object is older than the task, or was made later without a look: a text, a run's result."""
    root = owner
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if isinstance(root, ast.Call):
        return scope.resolve(root) is NOTHING and not scope.rests(root)
    if isinstance(root, ast.Name) and root.id in scope.looks and root.id not in scope.things:
        return not scope.looks[root.id]
    return isinstance(root, (ast.Constant, ast.JoinedStr)) or (
        owner is root and isinstance(scope.resolve(root), (str, bytes, int, float, tuple, frozenset, type(None)))
    )
