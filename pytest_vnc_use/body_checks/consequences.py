"""The consequences of a line in a test's own code: what the code stores, returns and asserts because of it.

Only source is read. A statement depends on a line if it uses a result of the line. It also depends if it runs only
because of the line: in an `if` that reads the result, after a `return` that the result decides, in an `except` for the
line's error. A new value of a name is noticed only at the top level of a function. If unsure, treat the statement as
dependent.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from traceback import walk_tb
from types import FrameType
from typing import Literal, TypeGuard, TypeVar

from pytest_vnc_use.body_checks.code_places import (
    FunctionNode,
    Lines,
    function_at,
    holds,
    holds_any,
    is_named,
    is_own,
    name_of,
    parts,
)
from pytest_vnc_use.body_checks.code_values import is_live
from pytest_vnc_use.body_checks.known_calls import PUTS, RUNS, SILENT, UNTELLING

T = TypeVar("T")
Way = Literal["return", "break", "continue", "raise"]
Ways = frozenset[Way]
"""The ways in which a piece of code may be left because of the line."""
NO_WAY: Ways = frozenset()
_OF_LOOPS: Ways = frozenset({"break", "continue"})
_RAISED: Ways = frozenset({"raise"})
_NAMED_ASSERTIONS = re.compile(r"_*(assert|expect|fail|should|verify|check|to_|not_to_)", re.IGNORECASE)
_ENDS_TEST = frozenset({"fail", "skip", "xfail", "exit", "skipTest"})
_TELLING = frozenset("error exception critical warn attach verify saw extract screenshot elements read_file".split())
_NO_CARRIERS = (RUNS | SILENT | UNTELLING | _TELLING) - PUTS
"""Calls that keep nothing of their arguments that a later assertion could use."""
EXPECTING = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_CATCHING = EXPECTING | {"suppress", "ignored"}
_FIXTURES = frozenset({"vnc_agent", "vnc_desktop"})
_ASKING = frozenset({"holds", "kind"})
"""Attributes that ask an unsure verdict without raising anything."""


@dataclass
class Consequences:
    """The statements of a function that depend on `line`, if any, and on the given `names`.

    `raised`: the line raised an error. `of_verdict`: the line returned an unsure verdict; asking for its truth raises.
    """

    function: FunctionNode
    line: int = 0
    raised: bool = False
    of_verdict: bool = False
    names: set[str] = field(default_factory=set)
    """The names that hold a result of the line, as paths: `text`, `self.text`."""
    dependent: list[ast.stmt] = field(default_factory=list)
    start: ast.stmt | None = None
    """The statement at the line, the outermost of several."""
    gives: bool = False
    """True if the caller may get a result of the line; `raises` is the same for an exception."""
    raises: bool = False
    keeps: bool = False
    """True if the result may be stored where other functions can read it."""

    def __post_init__(self) -> None:
        nodes = [*ast.walk(self.function)]
        shared = {name for each in nodes if isinstance(each, (ast.Global, ast.Nonlocal)) for name in each.names}
        stored = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        self._own, self._given = stored - shared, frozenset(self.names)
        self._block(self.function.body, is_under=False, is_caught=False)

    def includes(self, line: int) -> bool:
        """Return whether a statement at the line depends on it."""
        return any(_is_at(each, line) for each in self.dependent)

    @property
    def assertions(self) -> list[ast.stmt]:
        """Return the statements that may fail the test because of the line."""
        return [each for each in self.dependent if self._asserts(each)]

    # --- ways through the code ---------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], *, is_under: bool, is_caught: bool) -> Ways:
        ways = NO_WAY
        for node in body:
            after = is_under or bool(ways)
            depends = self._depends(node, is_under=after)
            ways |= self._way(node, depends=depends, is_caught=is_caught)
            ways |= self._within(node, is_under=after, depends=depends, is_caught=is_caught)
        return ways

    def _depends(self, node: ast.stmt, *, is_under: bool) -> bool:
        if is_start := _is_at(node, self.line):
            self.start = self.start or node
        depends = is_start or is_under or any(map(self._uses, _header(node)))
        if depends and node not in self.dependent:
            self.dependent.append(node)
        if depends:
            self._store(node)
        elif isinstance(node, ast.Assign) and node in self.function.body:
            anew = {path_of(each) for each in node.targets if isinstance(each, ast.Name)} - self._given
            self.names = {each for each in self.names if each.partition(".")[0] not in anew}
        return depends

    def _way(self, node: ast.stmt, *, depends: bool, is_caught: bool) -> Ways:
        """Return how the statement itself may leave the code around it."""
        if not depends:
            return NO_WAY
        match node:
            case ast.Return():
                return frozenset({"return"})
            case ast.Break():
                return frozenset({"break"})
            case ast.Continue():
                return frozenset({"continue"})
            case ast.Expr(value=ast.Call() as call) if name_of(call) in _ENDS_TEST:
                return frozenset({"return"})
        if not self._may_raise(node):
            return NO_WAY
        self.raises = self.raises or not is_caught
        return _RAISED if is_caught else NO_WAY

    def _may_raise(self, node: ast.stmt) -> bool:
        if isinstance(node, (ast.Assert, ast.Raise)) or (self.raised and _is_at(node, self.line)):
            return True
        return self.of_verdict and _asks_truth(node)

    def _within(self, node: ast.stmt, *, is_under: bool, depends: bool, is_caught: bool) -> Ways:
        match node:
            case ast.If():
                taken = [self._block(each, is_under=depends, is_caught=is_caught) for each in (node.body, node.orelse)]
                return taken[0] | taken[1]
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, depends=depends, is_caught=is_caught)
            case ast.With() | ast.AsyncWith():
                ways = self._block(node.body, is_under=is_under, is_caught=True)
                if any(is_named(item.context_expr, _CATCHING) for item in node.items):
                    return ways - _RAISED
                self.raises = self.raises or "raise" in ways
                return ways if is_caught else ways - _RAISED
            case ast.Match():
                return frozenset[Way]().union(
                    *(self._block(case.body, is_under=depends, is_caught=is_caught) for case in node.cases)
                )
        if type(node).__name__ in ("Try", "TryStar"):
            return self._try(node, is_under=is_under, is_caught=is_caught)  # type: ignore[arg-type]  # the same parts
        return NO_WAY

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, *, depends: bool, is_caught: bool) -> Ways:
        ways = self._block(node.body, is_under=depends, is_caught=is_caught)
        depends = self._depends(node, is_under=depends or bool(ways))
        ways |= self._block(node.body, is_under=depends, is_caught=is_caught)
        otherwise = self._block(node.orelse, is_under=depends or "break" in ways, is_caught=is_caught)
        return (ways - _OF_LOOPS) | otherwise

    def _try(self, node: ast.Try, *, is_under: bool, is_caught: bool) -> Ways:
        catches = bool(node.handlers)
        ways = self._block(node.body, is_under=is_under, is_caught=is_caught or catches)
        left = is_under or "raise" in ways
        ways = ways - _RAISED if catches else ways
        for handler in node.handlers:
            if left and handler.name:
                self.names.add(handler.name)
            ways |= self._block(handler.body, is_under=left, is_caught=is_caught)
        ways |= self._block(node.orelse, is_under=left, is_caught=is_caught)
        return ways | self._block(node.finalbody, is_under=is_under, is_caught=is_caught)

    # --- values ------------------------------------------------------------------------------------------------------

    def _uses(self, node: ast.AST) -> bool:
        return any(map(self._touches, _paths_in(node)))

    def _touches(self, path: str) -> bool:
        if self.of_verdict and "verdicts" in path.split(".")[1:]:
            return True
        return any(f"{path}.".startswith(f"{each}.") or each.startswith(f"{path}.") for each in self.names)

    def _store(self, node: ast.stmt) -> None:
        """Note the names, objects and results to which a dependent statement gives a value."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.names.add(node.name)
            return
        for part in _header(node):
            for each in ast.walk(part):
                if isinstance(getattr(each, "ctx", None), ast.Store) and (path := path_of(each)):
                    self._put(path)
                elif isinstance(each, (ast.Yield, ast.YieldFrom)) and each.value:
                    self.gives = True
        if isinstance(node, ast.Return) and node.value:
            self.gives = True
        if isinstance(node, ast.Expr) and isinstance(call := _awaited(node), ast.Call):
            self._hand_on(node, call)

    def _put(self, path: str) -> None:
        self.names.add(path)
        self.keeps = self.keeps or path.partition(".")[0] not in self._own

    def _hand_on(self, node: ast.Expr, call: ast.Call) -> None:
        """Note that a called function may keep its arguments."""
        if name_of(call) in _NO_CARRIERS:
            return
        given = [*call.args, *(each.value for each in call.keywords)]
        calls = [each for arg in given for each in ast.walk(arg) if isinstance(each, ast.Call)]
        made_here = bool(calls) and _is_at(node, self.line)
        if not (made_here or any(map(self._uses, given)) or (given and name_of(call) in PUTS)):
            return
        owner = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if owner:
            self._put(owner)
        elif not hasattr(builtins, name_of(call)):
            self.keeps = True

    def _asserts(self, node: ast.stmt) -> bool:
        match node:
            case ast.Assert():
                return True
            case ast.Raise():
                return node.exc is not None
            case ast.Expr() if isinstance(call := _awaited(node), ast.Call):
                name, is_helper = name_of(call), path_of(call.func) in (name_of(call), f"self.{name_of(call)}")
                if _NAMED_ASSERTIONS.match(name) or name in _ENDS_TEST:
                    return True
                return is_helper and not (name in _NO_CARRIERS or hasattr(builtins, name)) and self._uses(call)
        return False


# --- through several functions ----------------------------------------------------------------------------------------


def consequences_of(lines: Lines, *, raised: bool = False, of_verdict: bool = False) -> tuple[list[Consequences], bool]:
    """Return what depends on a call through those lines, function by function, the innermost first.

    The second value is whether the result may be stored for any function: in an object, or as a fixture's value.
    """
    found: list[Consequences] = []
    names: set[str] = set()
    for file, line in lines:
        function = function_at(file, line)
        if function is None:
            return found, True
        now = Consequences(function, line, raised, of_verdict, names)
        found.append(now)
        if not (now.gives or now.raises or now.keeps):
            break
        raised, names = now.raises, _handed_over(lines[len(found) :]) if now.keeps else set()
    gets_out = len(found) == len(lines) and (not found or found[-1].gives)
    return found, gets_out or any(each.keeps for each in found)


def _handed_over(lines: Lines) -> set[str]:
    """Return the objects that the next function passes to its call or calls on: the call may have changed them."""
    function = function_at(*lines[0]) if lines else None
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)] if function else []
    here = [each for each in calls if each.lineno <= lines[0][1] <= (each.end_lineno or 0)]
    owners = [each.func.value for each in here if isinstance(each.func, ast.Attribute)]
    given = [*owners, *(part for each in here for part in (*each.args, *(word.value for word in each.keywords)))]
    return {path for part in given if (path := path_of(part))} - _FIXTURES


def may_decide(found: Sequence[Consequences], at: Sequence[tuple[FrameType, int]], *, is_kept: bool) -> bool:
    """Return whether they may have led to an error that came through those frames.

    Each frame comes with its line, the outermost first.
    """
    of_verdict = any(each.of_verdict for each in found)
    for number, (frame, line) in enumerate(at):
        function = function_at(frame.f_code.co_filename, line)
        if function is None:
            continue
        if any(each.function is function and each.includes(line) for each in found):
            return True
        names = _carriers(frame, is_outermost=number == 0) if is_kept else set()
        if (names or of_verdict) and Consequences(function, of_verdict=of_verdict, names=names).includes(line):
            return True
    return False


def _carriers(frame: FrameType, *, is_outermost: bool) -> set[str]:
    """Return the names in a function that may lead to a value that was kept elsewhere."""
    code, local = frame.f_code, frame.f_locals
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if is_outermost else ()
    names = {name for name in given if isinstance(local.get(name), (bool, int, float, str, tuple, list, dict))}
    names |= {name for name in (*code.co_cellvars, *code.co_freevars) if isinstance(local.get(name), (list, dict, set))}
    names |= {name for name, thing in local.items() if is_live(thing) and type(thing).__module__ != "builtins"}
    names |= {name for name in code.co_names if is_live(frame.f_globals.get(name))}
    return names - _FIXTURES


def calls_around(lines: Lines) -> Iterator[ast.Call]:
    """Yield the calls that end an exception, such as `pytest.raises`, around the calls at those lines."""
    for file, line in lines:
        function = function_at(file, line)
        for node in ast.walk(function) if function else ():
            if isinstance(node, (ast.With, ast.AsyncWith)) and holds_any(node.body, line):
                yield from (call for item in node.items if is_catching(call := item.context_expr))
            elif is_catching(node) and node.lineno <= line <= (node.end_lineno or 0):
                yield node


def is_catching(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether the node is a call such as `pytest.raises` or `suppress`."""
    return is_named(node, _CATCHING)


def in_doubt(rests: Callable[[T], bool], on: T) -> bool:
    """Return the answer of `rests`; True if the source cannot be read."""
    try:
        return rests(on)
    except Exception:  # noqa: BLE001  # reading a test's code, or its objects, may fail in any way
        return True


def frames_at(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the frames of the user's own files that an error came through, each with its line, the outermost first."""
    return [(frame, line) for frame, line in walk_tb(error.__traceback__) if is_own(frame.f_code)]


# --- syntax -----------------------------------------------------------------------------------------------------------


def path_of(node: ast.AST) -> str:
    """Return the path of a name, such as `self.rows`, also for a part of it; "" for an expression without a name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name) if path := path_of(owner):
            return f"{path}.{name}"
        case ast.Subscript(value=owner) | ast.Starred(value=owner):
            return path_of(owner)
    return ""


def _paths_in(node: ast.AST) -> Iterator[str]:
    """Yield the paths that an expression reads; for a method call, the whole object."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner)) if path_of(owner):
            yield from _paths_in(owner)
            for part in (*node.args, *node.keywords):
                yield from _paths_in(part)
        case ast.Name() | ast.Attribute() | ast.Subscript() if path := path_of(node):
            if not isinstance(getattr(node, "ctx", None), ast.Store):
                yield path
            slices = [each.slice for each in ast.walk(node) if isinstance(each, ast.Subscript)]
            for each in slices:
                yield from _paths_in(each)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _paths_in(child)


def _header(node: ast.stmt) -> list[ast.AST]:
    """Return the expressions of the statement itself, without those of the statements in it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [*node.body]
        case ast.With() | ast.AsyncWith():
            return [part for item in node.items for part in ast.iter_child_nodes(item)]
        case ast.Match():
            return [node.subject, *(case.guard for case in node.cases if case.guard)]
    return [*parts(node)]


def _is_at(node: ast.stmt, line: int) -> bool:
    """Return whether the line is one of the statement's own; an inner statement in the same line counts too."""
    if isinstance(node, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Match, ast.With, ast.AsyncWith)):
        last = max([node.lineno, *(getattr(part, "end_lineno", 0) for part in _header(node))])
        is_before_body = not isinstance(node, (ast.With, ast.AsyncWith)) or line < node.body[0].lineno
        return node.lineno <= line <= last and is_before_body
    return type(node).__name__ not in ("Try", "TryStar") and holds(node, line)


def _asks_truth(node: ast.stmt) -> bool:
    """Return whether a statement may ask a verdict for its truth value, other than by `holds` or `kind`."""
    inner = [each for part in _header(node) for each in ast.walk(part)]
    asks = isinstance(node, (ast.If, ast.While, ast.Assert)) or any(
        isinstance(each, (ast.BoolOp, ast.IfExp))
        or (isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not))
        or (isinstance(each, ast.Call) and name_of(each) in ("bool", "all", "any", "filter"))
        for each in inner
    )
    return asks and not any(isinstance(each, ast.Attribute) and each.attr in _ASKING for each in inner)


def _awaited(node: ast.Expr) -> ast.expr:
    return node.value.value if isinstance(node.value, ast.Await) else node.value
