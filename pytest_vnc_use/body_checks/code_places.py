"""The places of a test in its own code, the source of functions, and functions for their syntax."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
import sysconfig
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_OTHERS = frozenset(
    Path(folder).resolve()
    for folder in {
        str(Path(__file__).parents[1]),
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})


Lines = tuple[tuple[str, int], ...]
"""Files, each with a line number."""


@dataclass(frozen=True)
class CodePlace:
    """A line of a running function, and the values of its names at that moment.

    `own` are the function's own names.
    """

    code: CodeType
    line: int
    values: Mapping[str, object]
    own: Mapping[str, object]


def places_now() -> tuple[CodePlace, ...]:
    """Return the current places of the calling functions in the user's own files, the innermost first."""
    found: list[CodePlace] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "_pytest.runner":
        if is_own(frame.f_code):
            own = dict(frame.f_locals)
            values = ChainMap(own, frame.f_globals, vars(builtins))
            found.append(CodePlace(frame.f_code, frame.f_lineno, values, own))
        frame = frame.f_back
    return tuple(found)


def lines_now() -> Lines:
    """Return the current lines of the calling functions in the user's own files, the innermost first.

    A lambda or a comprehension counts as the place that called it, unless no function of the user called it, as in a
    thread.
    """
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "_pytest.runner":
        if is_own(frame.f_code):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    named = [(code, line) for code, line in found if not code.co_name.startswith("<")]
    return tuple((code.co_filename, line) for code, line in named or found)


def names_of(function: FunctionType) -> Mapping[str, object]:
    """Return the values of the names in a function before it is called."""
    cells: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return ChainMap(cells, function.__globals__, vars(builtins))


def is_own(code: CodeType) -> bool:
    """Return whether the code is in a file of the user's project: not in Python, an installed package or this one."""
    return is_own_file(code.co_filename)


@lru_cache(1024)
def is_own_file(name: str) -> bool:
    """Return whether the file is of the user's project: not of Python, an installed package or this one."""
    path = Path(name).resolve()
    return not name.startswith("<") and _INSTALLED.isdisjoint(path.parts) and _OTHERS.isdisjoint(path.parents)


def node_of(code: CodeType) -> FunctionNode | None:
    """Return the source of a function; None if there is none. A lambda is a function that returns its expression."""
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename))
    known = _lambdas(source) if code.co_name == "<lambda>" else _functions(source)
    return known.get((code.co_name, code.co_firstlineno))


def function_at(file: str, line: int) -> FunctionNode | None:
    """Return the source of the innermost function around a line; None if there is none."""
    linecache.checkcache(file)
    around = [node for node in _functions("".join(linecache.getlines(file))).values() if holds(node, line)]
    return max(around, key=lambda node: node.lineno, default=None)


@lru_cache(64)
def _functions(source: str) -> Mapping[tuple[str, int], FunctionNode]:
    """Return the functions by name and first line, which is that of the first decorator."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    return {
        (node.name, min(each.lineno for each in (node, *node.decorator_list))): node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


@lru_cache(64)
def _lambdas(source: str) -> Mapping[tuple[str, int], FunctionNode]:
    """Return the lambdas by name and line, except those that share a line."""
    try:
        found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Lambda)]
    except SyntaxError:
        return {}
    lines = [each.lineno for each in found]
    return {
        ("<lambda>", each.lineno): ast.copy_location(
            ast.FunctionDef("<lambda>", each.args, [ast.copy_location(ast.Return(each.body), each)], []), each
        )
        for each in found
        if lines.count(each.lineno) == 1
    }


@lru_cache(64)
def empty_at_first(source: str) -> frozenset[str]:
    """Return the names to which a module assigns an empty list, dict or set."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return frozenset()
    given = [(node.targets[0], node.value) for node in body if isinstance(node, ast.Assign)]
    given += [(node.target, node.value) for node in body if isinstance(node, ast.AnnAssign) and node.value]
    return frozenset(
        name.id for name, value in given if isinstance(name, ast.Name) and ast.unparse(value) in ("[]", "{}", "set()")
    )


# --- syntax -----------------------------------------------------------------------------------------------------------


def holds(node: ast.stmt, line: int) -> bool:
    """Return whether the line is one of the statement's."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def holds_any(body: Sequence[ast.stmt], line: int) -> bool:
    """Return whether the line is in one of the statements."""
    return any(holds(node, line) for node in body)


def has_line_within(node: ast.stmt, line: int) -> bool:
    """Return whether the line belongs to an inner statement."""
    bodies = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    bodies += [each.body for name in ("handlers", "cases") for each in getattr(node, name, [])]
    return any(holds_any(body, line) for body in bodies)


def parts(node: ast.stmt) -> Iterator[ast.expr]:
    """Return the expressions of a statement itself."""
    return (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


def sure_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that are made whenever the expression is evaluated."""
    match node:
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.BoolOp():
            yield from sure_calls(node.values[0])
            return
        case ast.IfExp():
            yield from sure_calls(node.test)
            return
        case ast.Call():
            yield node
    for child in ast.iter_child_nodes(node):
        yield from sure_calls(child)


def is_named(node: ast.AST, names: frozenset[str]) -> bool:
    """Return whether the node is a call of a function or method with one of these names."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in names
    return False


def is_given_away(name: str, function: FunctionNode) -> bool:
    """Return whether a function passes a name, or a method of it, to an inner function or one that is not built in."""
    for node in ast.walk(function):
        within = isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)) and node is not function
        if within and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node)):
            return True
        if isinstance(node, ast.Call) and not hasattr(builtins, name_of(node)):
            given = [*node.args, *(each.value for each in node.keywords)]
            if any(isinstance(root := innermost(each), ast.Name) and root.id == name for each in given):
                return True
    return False


def innermost(node: ast.expr) -> ast.expr:
    """Return the expression without its attributes and subscripts, such as `a` for `a.b[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def is_endless(node: ast.stmt) -> bool:
    """Return whether the statement is a loop such as `while True`."""
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def is_chain(node: ast.expr) -> bool:
    """Return whether each call in an expression is made on the result of the last: the innermost comes first."""
    now, chain = node, set[int]()
    while isinstance(now, (ast.Compare, ast.Attribute, ast.Subscript, ast.Call, ast.Await, ast.UnaryOp)):
        chain.add(id(now))
        now = _before(now)
    return all(id(each) in chain for each in ast.walk(node) if isinstance(each, ast.Call))


def _before(node: ast.Compare | ast.Attribute | ast.Subscript | ast.Call | ast.Await | ast.UnaryOp) -> ast.expr:
    match node:
        case ast.Compare(left=ast.Constant(), comparators=[other]):
            return other
        case ast.Compare():
            return node.left
        case ast.UnaryOp():
            return node.operand
        case ast.Call():
            return node.func
    return node.value


def arguments_of(call: ast.Call, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each parameter with its argument, as far as the source shows."""
    for name, value in zip(names, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield name, value
    yield from ((each.arg, each.value) for each in call.keywords if each.arg)


def statements_in(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all inner statements in order, but not those of functions that are only defined."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            for inner in getattr(node, name, ()):
                yield from statements_in([inner] if isinstance(inner, ast.stmt) else inner.body)


def name_of(call: ast.Call) -> str:
    """Return the name of the function or method that is called; "" if it has none."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def written_by(call: ast.Call) -> ast.expr | None:
    """Return the file that a call writes, or opens for writing; None if it does neither."""
    opens = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    writes = any(set(mode) & set("wax") and len(mode) < 4 for mode in opens)
    match call.func:
        case ast.Attribute(attr="write_bytes" | "write_text" | "touch", value=path):
            return path
        case ast.Attribute(attr="open", value=path) if writes:
            return path
        case ast.Name(id="open") if writes and call.args:
            return call.args[0]
    return None


def returns_the_same(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function returns one constant, independent of its looks."""
    last = [each for part in ast.walk(node) if isinstance(part, ast.Try) for each in part.finalbody]
    returned = [each for each in statements_in(last or node.body) if isinstance(each, ast.Return)]
    values = {each.value.value for each in returned if isinstance(each.value, ast.Constant)}
    return bool(returned) and len(values) == 1 and all(isinstance(each.value, ast.Constant) for each in returned)
