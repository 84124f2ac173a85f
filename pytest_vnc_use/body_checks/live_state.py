"""The state of the objects that a test holds: a stub server's list of orders, a counter, a queue.

If such an object changes while a task is carried out, the program under test changed it, or something on its behalf.
This module only reads the objects, a few levels deep. It calls none of their methods.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pytest_vnc_use.body_checks.code_values import is_live

_DEEPEST = 3
_MOST_ITEMS = 500
_ITEMS = (list, tuple, set, frozenset, deque)


def state_of(things: Mapping[str, object]) -> dict[str, object]:
    """Return the state of the things that may change, to compare it with a later state."""
    return {name: _held(thing, 0) for name, thing in things.items() if _may_change(thing)}


def globals_of(things: Mapping[str, object]) -> dict[str, object]:
    """Return the lists, dicts and sets among the globals of a module, by name."""
    return {name: thing for name, thing in things.items() if isinstance(thing, (list, dict, set, deque))}


def _may_change(thing: object) -> bool:
    return is_live(thing) and not isinstance(thing, (ModuleType, FunctionType, MethodType))


def _held(thing: Any, depth: int) -> object:
    if thing is None or isinstance(thing, (str, bytes, int, float)):
        return thing
    if depth > _DEEPEST:
        return id(thing)
    if isinstance(thing, dict):
        return _all_held((part for pair in [*thing.items()][:_MOST_ITEMS] for part in pair), len(thing), depth)
    if isinstance(thing, _ITEMS):
        return _all_held([*thing][:_MOST_ITEMS], len(thing), depth)
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict) and _may_change(thing):
        return _all_held([*attributes.values()][:_MOST_ITEMS], len(attributes), depth)
    return id(thing)


def _all_held(things: Iterable[object], count: int, depth: int) -> tuple[object, ...]:
    return (count, *(_held(each, depth + 1) for each in things))
