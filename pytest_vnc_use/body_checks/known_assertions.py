"""The calls of other packages that assert; they are known by their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from pytest_vnc_use.body_checks.code_places import innermost, is_named
from pytest_vnc_use.body_checks.code_values import module_of, own_method
from pytest_vnc_use.body_checks.known_calls import ASSERTING
from pytest_vnc_use.body_checks.scope import LocalFunction, Scope
from pytest_vnc_use.body_checks.truths import proves

_COMPARING: Mapping[str, type[ast.cmpop]] = {
    "assertEqual": ast.Eq,
    "assertNotEqual": ast.NotEq,
    "assertGreater": ast.Gt,
    "assertGreaterEqual": ast.GtE,
    "assertLess": ast.Lt,
    "assertLessEqual": ast.LtE,
    "assertIs": ast.Is,
    "assertIsNot": ast.IsNot,
    "assertIn": ast.In,
    "assertNotIn": ast.NotIn,
}
_SAYING_NOTHING = frozenset({"assert_type", "assert_never", "assertNotIsInstance", "assertNotIsSubclass"})
_ANYTHING = frozenset({"anything", "not_none", "instance_of"})
"""Matchers of hamcrest that every text matches."""


def is_known_assertion(
    scope: Scope, name: str, arguments: Sequence[ast.expr], owner: ast.expr | None, *, is_found: bool
) -> bool:
    """Return whether a call asserts by its name: of pytest, unittest, numpy, pandas, playwright, or this package.

    Another package's function with such a name counts only if its object was found: otherwise it may only return a
    value.
    """
    if name == "check" and len(arguments) > 1:
        return proves(scope, arguments[0]) and not isinstance(arguments[0], ast.Constant)
    if name == "wait_for_text" and owner is not None:
        return scope.rests(owner)
    if name.startswith(("to_", "not_to_")) and owner is not None:
        return _is_expectation(scope, innermost(owner))
    if not re.match(r"assert[A-Z]", name) and name not in ASSERTING and not (is_found and name.startswith("assert")):
        return False
    if name in _COMPARING and len(arguments) > 1:
        return proves(scope, ast.Compare(arguments[0], [_COMPARING[name]()], [arguments[1]]))
    if name in _SAYING_NOTHING or (name == "assert_that" and any(is_named(each, _ANYTHING) for each in arguments[1:])):
        return False
    if name in ("assertTrue", "assertFalse", "assert_", "assert_that"):
        return (
            bool(arguments)
            and proves(scope, arguments[0], truth=name != "assertFalse")
            and (name != "assert_that" or len(arguments) > 1)
        )
    if name == "assertRegex" and len(arguments) > 1:
        return proves(scope, _search(arguments))
    if name in ("assertIsNotNone", "assertIsInstance"):
        return bool(arguments) and proves(scope, arguments[0]) and not scope.facts_in(arguments[0])
    asked = arguments or ([owner] if owner is not None else [])
    if any(map(scope.tells, asked)):
        return False
    return len({ast.dump(each) for each in asked}) == len(asked) and any(map(scope.rests, asked))


def _is_expectation(scope: Scope, call: ast.expr) -> bool:
    """Return whether a call is of another package's `expect`; Playwright's asks the page over its connection."""
    if not (isinstance(call, ast.Call) and is_named(call, frozenset({"expect"}))):
        return False
    callee = scope.resolve(call.func)
    scope.sources.connection |= scope.is_connected(module_of(callee))
    return own_method(callee) is None and not isinstance(callee, (LocalFunction, type))


def _search(arguments: Sequence[ast.expr]) -> ast.Call:
    """Return the call of `re.search` that assertRegex makes."""
    return ast.Call(ast.Attribute(ast.Name("re", ast.Load()), "search", ast.Load()), [arguments[1], arguments[0]], [])
