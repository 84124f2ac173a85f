"""Changes of one place in a JSON object, for requests that a service must refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Body = dict[str, Any]


def drop(*path: Any) -> Callable[[Body], None]:
    """Return a change that takes out what the path leads to."""
    return lambda body: at(body, path[:-1]).pop(path[-1])


def put(*path_and_value: Any) -> Callable[[Body], None]:
    """Return a change that sets what the path leads to; the value comes last."""
    *path, name, value = path_and_value

    def change(body: Body) -> None:
        at(body, path)[name] = value

    return change


def add(*path_and_value: Any) -> Callable[[Body], None]:
    """Return a change that appends to the list that the path leads to; the value comes last."""
    *path, value = path_and_value
    return lambda body: at(body, path).append(value)


def at(value: Any, path: Any) -> Any:
    """Return the value that the path leads to."""
    for name in path:
        value = value[name]
    return value
