"""Which expressions of a test rest on a look at the program, and which on what was known before or the planner says.

`assert True`, `assert result.outcome == "done"` and `assert page.total` with a forgotten call cannot fail where the
product is broken. An expression rests on a look where it calls something after the task that may read the product's
state, or where a fixture's object is asked that may have changed meanwhile. Only code is read here; nothing is called.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from pytest_vnc_use.code_places import is_own, names_of, node_of

NOTHING = object()
"""What stands for a name or a call of which nothing is known."""

_DEEPEST = 6
"""So many calls are followed, one within the other."""
_PACKAGE = __name__.partition(".")[0]
_RUNS = frozenset({"run", "reenact", "approve", "deny", "resume"})
_SILENT = frozenset(
    "click type_text key scroll drag perform check unmet close stop reset write write_text write_bytes write_file "
    "writelines mkdir touch append add update extend setattr setitem setenv sleep debug info warning log".split()
)
"""Methods that do something and tell nothing of the product."""
_UNTELLING = frozenset("isinstance issubclass hasattr callable id type print dir vars locals globals".split())
_PURE = frozenset(
    "time datetime random secrets uuid json re math decimal fractions operator itertools functools copy string "
    "textwrap collections dataclasses pprint types typing enum io base64 hashlib statistics numbers pytest _pytest "
    "unittest numpy pandas PIL".split()
)
"""Modules whose functions tell no more than their arguments do, unless they read a file."""
_READS = ("load", "read", "open", "from", "genfrom", "memmap")
_PATH_LOOKS = frozenset(
    "read_text read_bytes open exists is_file is_dir is_symlink stat lstat iterdir glob rglob samefile".split()
)
_OF_A_VERDICT = frozenset({"kind", "reason", "claim"})
_PLAIN = (str, bytes, int, float, complex, bool, type(None), tuple, frozenset, Enum, PurePath, ModuleType, type)


@dataclass(frozen=True)
class Instance:
    """An object of which only the class is known."""

    of: type


@dataclass(frozen=True)
class Method:
    """A function of the user's, and the object that it belongs to, if any."""

    function: FunctionType
    owner: object = NOTHING


@dataclass
class Scope:
    """What is known of the names in a piece of code.

    `values` are the names' values when the task ended, those in `live` of objects that a look at may tell more of now;
    `looks` says of the names that were given since whether they rest on a look, `things` what they stand for where that
    is known. With `trusts_outcome` the run's own words count:
    it did not end as its planner said. `funcargs` are the test's, for calls whose arguments cannot be told apart.
    """

    values: Mapping[str, object]
    trusts_outcome: bool = False
    funcargs: Mapping[str, object] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    depth: int = 0
    looks: dict[str, bool] = field(default_factory=dict)
    things: dict[str, object] = field(default_factory=dict)
    pictures: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    # --- what names stand for ----------------------------------------------------------------------------------------

    def resolve(self, node: ast.AST) -> object:
        """What an expression stands for, as far as can be told without carrying anything out."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                if name in self.things:
                    return self.things[name]
                return NOTHING if name in self.looks else self.values.get(name, NOTHING)
            case ast.Attribute():
                return _member(self.resolve(node.value), node.attr)
            case ast.BinOp():
                left = self.resolve(node.left)
                return left if isinstance(left, (PurePath, Instance)) else NOTHING
            case ast.Call():
                made = self.resolve(node.func)
                return Instance(made) if isinstance(made, type) else NOTHING
            case ast.Await() | ast.NamedExpr():
                return self.resolve(node.value)
        return NOTHING

    def method(self, call: ast.Call) -> Method | None:
        """The function of the user's that a call goes to; None for all others."""
        return own_method(self.resolve(call.func))

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Take over what a name stands for from now on."""
        self.name(target, looks=self.rests(value), thing=self.resolve(value))
        if isinstance(target, ast.Name) and _is_picture(value, self):
            self.pictures.add(target.id)

    def name(self, target: ast.AST, *, looks: bool, thing: object = NOTHING) -> None:
        """The same for all names of a target, of which `thing` is what a single one stands for."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.looks[node.id] = looks
                self.pictures.discard(node.id)
                self.things.pop(node.id, None)
                if node is target and thing is not NOTHING:
                    self.things[node.id] = thing

    def within(self, call: ast.Call, method: Method) -> Scope:
        """The scope of a function that is called."""
        scope = Scope(names_of(method.function), self.trusts_outcome, self.funcargs, depth=self.depth + 1)
        names = inspect.getfullargspec(method.function)
        positional = [*names.args]
        if method.owner is not NOTHING and positional:
            scope._take(positional.pop(0), False, method.owner)
        for name in (*positional, *names.kwonlyargs):
            scope._take(name, _is_live(self.funcargs.get(name)), self.funcargs.get(name, NOTHING))
        for name, value in _arguments(call, positional):
            scope._take(name, self.rests(value), self.resolve(value))
        return scope

    def _take(self, name: str, looks: bool, thing: object) -> None:
        self.looks[name] = looks
        if thing is not NOTHING:
            self.things[name] = thing

    # --- what can fail where the product is broken -------------------------------------------------------------------

    def proves(self, test: ast.expr) -> bool:
        """Whether the truth of an expression says something of the product."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return self.proves(test.operand)
            case ast.BoolOp():
                told = [self.proves(value) for value in test.values]
                return any(told) if isinstance(test.op, ast.And) else all(told)
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Set() | ast.JoinedStr() | ast.GeneratorExp():
                return False  # always true, or always false
            case ast.Attribute() if test.attr in _OF_A_VERDICT:
                return False
            case ast.Name() | ast.Attribute():
                return self.rests(test) and _has_truth(self.resolve(test)) and not _is_picture(test, self)
            case ast.Compare():
                return self._compares(test)
        return self.rests(test) and not _is_picture(test, self)

    def _compares(self, test: ast.Compare) -> bool:
        sides = [test.left, *test.comparators]
        if len({ast.dump(side) for side in sides}) < len(sides) or _is_always_true(test):
            return False
        if any(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops):
            sides = [side for side in sides if not isinstance(side, ast.Name) or self.looks.get(side.id)]
        return any(self.rests(side) and not self._is_size_of_picture(side) for side in sides)

    def _is_size_of_picture(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and len(node.args) == 1 and _is_picture(node.args[0], self)

    def rests(self, node: ast.AST) -> bool:
        """Whether the value of an expression comes from a look at the program."""
        match node:
            case ast.Constant() | ast.Lambda():
                return False
            case ast.Name(id=name):
                return self._name_rests(name)
            case ast.Attribute():
                return self._attribute_rests(node)
            case ast.Call():
                return self._call_rests(node)
            case ast.BoolOp(op=ast.Or()):
                return all(map(self.rests, node.values))
            case ast.IfExp():
                return self.rests(node.body) and self.rests(node.orelse)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension_rests(node)
        return any(self.rests(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))

    def _name_rests(self, name: str) -> bool:
        thing = self.things.get(name, NOTHING if name in self.looks else self.values.get(name, NOTHING))
        if self.trusts_outcome and type(thing).__name__ == "RunResult":
            return True
        if name in self.looks:
            return self.looks[name]
        return name in self.live and _is_live(thing)

    def _comprehension_rests(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> bool:
        rests = False
        for each in node.generators:
            over = self.rests(each.iter)
            self.name(each.target, looks=over)
            rests = rests or over
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return rests or any(map(self.rests, parts))

    def _attribute_rests(self, node: ast.Attribute) -> bool:
        owner = self.resolve(node.value)
        if _is_of_package(owner):
            return self.trusts_outcome and type(owner).__name__ == "RunResult"
        member = _member(owner, node.attr)
        if isinstance(member, property) and isinstance(member.fget, FunctionType) and is_own(member.fget.__code__):
            scope = Scope(names_of(member.fget), self.trusts_outcome, self.funcargs, depth=self.depth + 1)
            scope._take(next(iter(inspect.signature(member.fget).parameters)), False, owner)
            return scope.returns_look(member.fget)
        if isinstance(member, (FunctionType, BuiltinFunctionType, Method, MethodType)):
            return False  # whose call was forgotten
        if member is not NOTHING and not hasattr(type(member), "__get__"):
            return _is_live(member)
        return self.rests(node.value)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call_rests(self, call: ast.Call) -> bool:
        callee, name = self.resolve(call.func), _name_of(call)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if method := own_method(callee):
            return self.depth < _DEEPEST and self.within(call, method).returns_look(method.function)
        if name in _SILENT or name in _UNTELLING:
            return False
        if owner is not None and _is_of_package(self.resolve(owner)):
            return self._is_look_of_package(self.resolve(owner), name)
        if owner is not None and self._is_on_path(owner):
            return name in _PATH_LOOKS and ast.unparse(owner) not in self.written
        if self._tells_its_arguments(callee, name, owner):
            told = [*call.args, *(each.value for each in call.keywords), *([owner] if owner else [])]
            return any(map(self.rests, told))
        return True

    def _is_look_of_package(self, owner: object, name: str) -> bool:
        is_agent = hasattr(type(owner), "approve") or type(owner).__name__ == "RunResult"
        return self.trusts_outcome if is_agent and name in _RUNS else type(owner).__name__ != "RunResult"

    def _is_on_path(self, owner: ast.expr) -> bool:
        thing = self.resolve(owner)
        return isinstance(thing, PurePath) or (isinstance(thing, Instance) and issubclass(thing.of, PurePath))

    def _tells_its_arguments(self, callee: object, name: str, owner: ast.expr | None) -> bool:
        """Whether a function is one that looks at nothing but what it is given."""
        if owner is not None and self._is_known(owner):
            return True
        if callee is NOTHING:
            return name in _RUNS or (owner is None and name in self.looks)
        if getattr(builtins, name, None) is callee:
            return callee is not open
        place = getattr(callee, "__module__", None) or getattr(owner and self.resolve(owner), "__module__", None)
        module = str(place or "").partition(".")[0]
        reads = module in ("numpy", "pandas", "PIL") and name.startswith(_READS)
        return not reads and (isinstance(callee, type) or module.removeprefix("_") in _PURE or module in _PURE)

    def _is_known(self, owner: ast.expr) -> bool:
        """Whether an object was there before the task, or was made since without a look: a text, a run's result."""
        root = owner
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(root, ast.Call):
            return self._is_known(root.func) if isinstance(root.func, ast.Attribute) else not self.rests(root)
        if isinstance(root, ast.Name) and root.id in self.looks and root.id not in self.things:
            return not self.looks[root.id]
        return isinstance(root, (ast.Constant, ast.JoinedStr)) or (
            owner is root and isinstance(self.resolve(root), (str, bytes, int, float, tuple, frozenset, type(None)))
        )

    def returns_look(self, function: FunctionType) -> bool:
        """Whether what a function of the user's returns may rest on a look."""
        node = node_of(function.__code__)
        if node is None or self.depth > _DEEPEST:
            return False
        returned: list[bool] = []
        for each in _in_order(node.body):
            match each:
                case ast.Return(value=ast.expr() as value):
                    returned.append(self.rests(value))
                case ast.Assign() | ast.AnnAssign(value=ast.expr()) | ast.With() | ast.AsyncWith() | ast.For():
                    take_over(self, each)
                case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                    returned.append(self.rests(value))
        return any(returned)


def take_over(scope: Scope, node: ast.stmt) -> None:
    """Take over the names that a statement gives."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                scope.assign(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            scope.assign(target, value)
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            scope.looks[name] = scope.looks.get(name, False) or scope.rests(value)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars:
                    scope.assign(item.optional_vars, item.context_expr)
        case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
            scope.name(target, looks=scope.rests(over))
        case ast.Import(names=names):
            for name in names:
                top = name.name if name.asname else name.name.partition(".")[0]
                _know(scope, name.asname or top, sys.modules.get(top, NOTHING))
        case ast.ImportFrom(names=names, module=module):
            for name in names:
                _know(scope, name.asname or name.name, _member(sys.modules.get(module or "", NOTHING), name.name))
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _name_of(each) in ("write_bytes", "write_text", "touch"):
            scope.written.add(ast.unparse(each.func.value) if isinstance(each.func, ast.Attribute) else "")


def _know(scope: Scope, name: str, thing: object) -> None:
    scope.looks[name] = False
    scope.things[name] = thing


def own_method(callee: object) -> Method | None:
    """A function of the user's, without what other packages' decorators put around it."""
    function: object = callee
    owner: object = NOTHING
    if isinstance(callee, Method):
        function, owner = callee.function, callee.owner
    elif isinstance(callee, MethodType):
        function, owner = callee.__func__, callee.__self__
    while isinstance(function, FunctionType) and not is_own(function.__code__) and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not isinstance(function, FunctionType):
        return None
    return Method(function, owner) if is_own(function.__code__) else None


def _member(owner: object, name: str) -> object:
    if owner is NOTHING:
        return NOTHING
    if isinstance(owner, ModuleType):
        return vars(owner).get(name, NOTHING)
    found = inspect.getattr_static(owner.of if isinstance(owner, Instance) else owner, name, NOTHING)
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return Method(found.__func__, owner) if isinstance(found.__func__, FunctionType) else NOTHING
    if isinstance(found, FunctionType) and not isinstance(owner, type):
        return Method(found, owner)
    return found


def _arguments(call: ast.Call, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """What is given for which parameter, as far as can be told."""
    for name, value in zip(names, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield name, value
    yield from ((each.arg, each.value) for each in call.keywords if each.arg)


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements within, as they stand; not those of functions that are only defined."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            for inner in getattr(node, name, ()):
                yield from _in_order([inner] if isinstance(inner, ast.stmt) else inner.body)


def _name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_picture(node: ast.AST, scope: Scope) -> bool:
    if isinstance(node, ast.Name):
        return node.id in scope.pictures
    return isinstance(node, ast.Call) and _name_of(node) == "screenshot"


def _is_always_true(test: ast.Compare) -> bool:
    """`len(x) >= 0`, `len(x) > -1`."""
    match test:
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return True
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.Gt()], comparators=[ast.UnaryOp()]):
            return True
    return False


def _class_of(thing: object) -> type:
    return thing.of if isinstance(thing, Instance) else type(thing)


def _is_of_package(thing: object) -> bool:
    return _class_of(thing).__module__.partition(".")[0] == _PACKAGE and not isinstance(thing, Method)


def _is_live(thing: object) -> bool:
    """Whether a fixture's object may have changed since the test got it."""
    if thing is NOTHING or isinstance(thing, (*_PLAIN, FunctionType, MethodType, BuiltinFunctionType)):
        return False
    module = _class_of(thing).__module__.partition(".")[0]
    return module not in (_PACKAGE, "_pytest", "pytest")


def _has_truth(thing: object) -> bool:
    """Whether `assert thing` can fail."""
    return thing is NOTHING or hasattr(_class_of(thing), "__bool__") or hasattr(_class_of(thing), "__len__")
