"""The ways in which a piece of code may end, and the syntax that decides between them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Literal

from pytest_vnc_use.body_checks.code_places import is_named, node_of

Way = Literal[
    "next", "return", "break", "continue", "yield", "next if seen", "return if seen", "break if seen", "checked"
]
Ways = frozenset[Way]
"""The ways in which code can end normally without an assertion; empty if there is none.

`if seen` marks a way that depends on a look. If all other ways always fail the test, the code has asserted the look.
`checked` is not an end: the code passed an assertion that counts.
"""

ON: Ways = frozenset({"next"})
NO_WAY: Ways = frozenset()
CHECKED: Ways = frozenset({"checked"})
_IF_SEEN: Mapping[Way, Way] = {"next": "next if seen", "return": "return if seen", "break": "break if seen"}
_TAKES = frozenset({"next", "readline", "fetchone", "recv", "get_nowait"})
_TAKES_OUT = frozenset({"pop", "popleft", "popitem", "remove", "clear"})
_ALL_IF_SEEN = frozenset(_IF_SEEN.values())


def surely(ways: Ways) -> bool:
    """Return whether code with these ways has surely asserted something."""
    return ways <= CHECKED or ways <= _ALL_IF_SEEN


def if_seen(ways: Ways, but: frozenset[Way] | set[Way] = NO_WAY) -> Ways:
    """Return the ways as ways that depend on a look, except the ways in `but`."""
    return frozenset(way if way in but else _IF_SEEN.get(way, way) for way in ways)


def last_round(loop: ast.stmt) -> str:
    """Return the condition for a loop's last round, such as `n == 4` for `for n in range(5)`; "" if unknown."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[end])):
            last = ast.unparse(end)
            return f"{name} == {int(last) - 1 if last.isdecimal() else f'{last} - 1'}"
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_, end])):
            last = ast.unparse(end)
            return f"{name} == {int(last) - 1}" if last.isdecimal() else ""
    return ""


def raises_in(handler: ast.ExceptHandler, last: str) -> bool:
    """Return whether the handler raises in the last round, if not sooner."""
    asked = [each for each in handler.body if isinstance(each, ast.If) and last and ast.unparse(each.test) == last]
    return any(isinstance(each.body[-1], ast.Raise) for each in asked)


def assigned_in(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that the statements assign."""
    inner = [each for part in body for each in ast.walk(part)]
    return {each.id for each in inner if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def expects_any_error(item: ast.withitem) -> bool:
    """Return whether a context expects any error, which a failed assertion or a wrong name is too."""
    match item:
        case ast.withitem(
            context_expr=ast.Call(args=[ast.Name(id="Exception" | "BaseException"), *_], keywords=[]),
            optional_vars=None,
        ):
            return True
    return False


def captured(pattern: ast.pattern) -> list[str]:
    """Return the names that a pattern of `match` assigns."""
    found = [getattr(each, name, None) for each in ast.walk(pattern) for name in ("name", "rest")]
    return [name for name in found if name]


def may_return_true(function: FunctionType) -> bool:
    """Return whether the function may return a true value; one without readable code, or a lambda, may."""
    node = node_of(function.__code__)
    return node is None or returns_truth(node)


def returns_truth(node: ast.AST) -> bool:
    """Return whether a function may return a true value, as its code says."""
    returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return any(value is not None and not (isinstance(value, ast.Constant) and not value.value) for value in returned)


def catches_around_yield(node: ast.AST | None) -> bool:
    """Return whether a function, if its code can be read, has a `yield` in a `try` that ends an error."""
    tries = [each for each in ast.walk(node) if isinstance(each, ast.Try)] if node else []
    ending = [each for each in tries if not all(map(_always_raises, each.handlers))]
    return any(isinstance(inner, ast.Yield) for each in ending for part in each.body for inner in ast.walk(part))


def _always_raises(handler: ast.ExceptHandler) -> bool:
    returns = any(isinstance(each, ast.Return) for part in handler.body for each in ast.walk(part))
    return isinstance(handler.body[-1], ast.Raise) and not returns


def uses_up(loop: ast.While) -> bool:
    """Return whether the loop takes one item after the other, so that it may end without any.

    `while rows: rows.pop()`, `while row := next(rows, None)`, `while i < len(rows): i += 1`.
    """
    asked = {each.id for each in ast.walk(loop.test) if isinstance(each, ast.Name)}
    inner = [each for part in loop.body for each in ast.walk(part)]
    takes_in_test = any(is_named(each, _TAKES) for each in ast.walk(loop.test))
    counts = any(isinstance(each, ast.AugAssign) and _is_one_of(each.target, asked) for each in inner)
    assigned = [each for each in inner if isinstance(each, ast.Assign) and is_named(each.value, _TAKES)]
    takes_next = any(_is_one_of(target, asked) for each in assigned for target in each.targets)
    calls = [each.func for each in inner if isinstance(each, ast.Call)]
    takes_out = any(
        isinstance(each, ast.Attribute) and each.attr in _TAKES_OUT and _is_one_of(each.value, asked) for each in calls
    )
    return takes_in_test or counts or takes_next or takes_out


def _is_one_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names
