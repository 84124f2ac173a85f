"""Facts about a value that are true for every state of the program.

An assertion on them says nothing about the product: a literal list is true, a screenshot is never empty, a call of
`subprocess.run` never returns None. The facts about a value are a set; a name has the facts of its value (see
looks.py).
"""

from __future__ import annotations

import ast
import operator
import re
import string
from collections.abc import Callable, Mapping

from pytest_vnc_use.body_checks.code_places import name_of, statements_in

Facts = frozenset[str]
"""The facts about a value.

`true`: never false. `lazy`: an iterator, true even if it is empty. `number`: a number, true unless it is 0. `there`:
never None. `no bool`: a text, a number or a list. `picture`: the bytes of a screenshot. `image`: made from one.
`fixed`: of a fixed length, as a digest. `blank`: it may be the empty text. `written`: one of several constants in the
code. `or 'x'`: it may be this constant.
"""
NONE: Facts = frozenset()

IS_TRUE: Facts = frozenset({"true", "there"})
_IS_LAZY: Facts = frozenset({"lazy", "there"})
_IS_THERE: Facts = frozenset({"there"})
_IS_PICTURE: Facts = frozenset({"true", "there", "picture", "image"})
_OF_CALLS: Mapping[str, Facts] = {
    "screenshot": _IS_PICTURE,
    **dict.fromkeys(("partition", "rpartition"), IS_TRUE | {"fixed"}),
    **dict.fromkeys(("splitext", "repr", "run", "Popen"), IS_TRUE),
}
"""The facts about what a function of a name returns, whatever its arguments are."""
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set)
_LAZY = frozenset("filter map zip enumerate reversed iter".split())
"""Built-in functions that return an iterator."""
_LAZY_METHODS = frozenset("finditer DictReader iglob glob rglob iterdir scandir execute".split())
"""Functions of modules, and methods, that return an iterator; but `glob.glob` returns a list."""
_OF_AN_IMAGE = frozenset("crop histogram convert resize difference tobytes getdata".split())
"""What Pillow makes of an image: never false."""
_MADE_OF_A_PICTURE = frozenset("size width height mode format shape ndim dtype".split())
_METHODS = {name for kind in (str, bytes, list, dict, set) for name in dir(kind) if not name.startswith("_")}
_ORDERS: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def facts_of(node: ast.AST, of_name: Callable[[str], Facts]) -> Facts:
    """Return the facts about an expression; `of_name` returns those about a name."""
    match node:
        case ast.Name(id=name):
            return of_name(name)
        case ast.Constant():
            return IS_TRUE if node.value else NONE if node.value is None else _IS_THERE
        case ast.NamedExpr() | ast.Await():
            return facts_of(node.value, of_name)
        case ast.Tuple(elts=[_, *_]) | ast.List(elts=[_, *_]) | ast.Set():
            return NONE if all(isinstance(each, ast.Starred) for each in node.elts) else IS_TRUE
        case ast.Dict(keys=[_, *_]):
            return NONE if None in node.keys else IS_TRUE
        case ast.JoinedStr():
            return IS_TRUE if any(isinstance(each, ast.Constant) for each in node.values) else _IS_THERE
        case ast.BoolOp(op=ast.Or(), values=[*_, last]):
            return facts_of(last, of_name) & _IS_THERE | _default(last)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return _IS_THERE
        case ast.GeneratorExp():
            return _IS_LAZY
        case ast.Lambda() | ast.UnaryOp(op=ast.Invert()):
            return IS_TRUE
        case ast.ListComp(generators=[ast.comprehension(iter=over, ifs=[])]):
            return facts_of(over, of_name) & IS_TRUE
        case (
            ast.BinOp(op=ast.Add(), left=ast.List() | ast.Tuple())
            | ast.BinOp(op=ast.Add(), right=ast.List() | ast.Tuple())
        ):
            return (facts_of(node.left, of_name) | facts_of(node.right, of_name)) & IS_TRUE
        case ast.Subscript(slice=ast.Slice()):
            return facts_of(node.value, of_name) & {"picture", "image", "there"}
        case ast.Attribute(value=owner):
            return facts_of(owner, of_name) & {"image"} | (_IS_THERE if node.attr == "exit_code" else NONE)
        case ast.IfExp(body=one, orelse=other):
            return facts_of(one, of_name) & facts_of(other, of_name) | _of_choice(_default(one), _default(other))
        case ast.Call():
            return _of_call(node, of_name)
    return NONE


def _of_choice(one: Facts, other: Facts) -> Facts:
    return one | other | ({"written"} if one and other else NONE)


def _of_call(call: ast.Call, of_name: Callable[[str], Facts]) -> Facts:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    parts = [facts_of(each, of_name) for each in (*owner, *call.args)]
    image: Facts = frozenset({"image"}) if any("image" in facts for facts in parts) else NONE
    is_of_module = bool(owner) and isinstance(owner[0], ast.Name) and owner[0].id == name
    if name in (_LAZY_METHODS if owner else _LAZY) and not is_of_module:
        return _IS_LAZY
    if name in _OF_CALLS:
        return _OF_CALLS[name]
    match name:
        case "bool" if call.args and not owner:
            return facts_of(call.args[0], of_name) | _IS_THERE
        case "search" | "match" | "fullmatch" if _matches_all(call, name):
            return IS_TRUE
        case "bytes" | "BytesIO" | "bytearray" if image:
            return _IS_PICTURE
        case _ if image and name in _OF_AN_IMAGE:
            return IS_TRUE | image
        case "hexdigest" | "digest" | "hex":
            return IS_TRUE | image | {"fixed"}
        case "str" | "dumps":
            return IS_TRUE | image
        case "startswith" | "endswith" if image or any(map(_is_blank, call.args[:1])):
            return IS_TRUE
        case "get" | "getenv" if call.args and _is_blank(call.args[-1]):
            return frozenset({"blank", "there"})
        case "split" | "rsplit" if call.args and owner:
            return IS_TRUE
        case "find" | "rfind" if owner:
            return frozenset({"number"})
        case "read_file" | "splitlines" | "strip" | "lower" | "upper" | "len" | "decode" | "encode":
            return _IS_THERE | image | {"no bool"}
        case "next" | "get" | "getattr" | "pop" | "setdefault" if len(call.args) > 1:
            return facts_of(call.args[-1], of_name) & {"true"} | _default(call.args[-1])
    return image


def _matches_all(call: ast.Call, name: str) -> bool:
    """Return whether a call of `re.search` and the like has a pattern that matches every text."""
    pattern = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if not isinstance(pattern, str):
        return False
    try:
        match = getattr(re.compile(pattern, re.DOTALL), name)
    except re.error:
        return False
    return all(map(match, ("", "a1 ;\nZ", *string.printable)))  # short ones: a pattern may go back without end


def _default(node: ast.expr) -> Facts:
    """Return the fact that a value may be this constant."""
    return frozenset({f"or {node.value!r}"}) if isinstance(node, ast.Constant) and node.value else NONE


def has_foregone_truth(node: ast.expr, facts: Facts) -> bool:
    """Return whether the assertion can never fail, or always fails."""
    is_empty = isinstance(node, (ast.Tuple, ast.List)) and not node.elts
    return bool(facts & {"true", "lazy", "number", "picture"}) or is_empty or isinstance(node, (ast.Dict, ast.Set))


def is_forgotten_call(node: ast.expr) -> bool:
    """Return whether an expression is, by its name, a method of a text, a list or a dict that is not called."""
    return isinstance(node, ast.Attribute) and node.attr in _METHODS


def is_of_a_picture(node: ast.Attribute, owner: Facts) -> bool:
    """Return whether an attribute describes the form of a screenshot, not its content."""
    return "image" in owner and node.attr in _MADE_OF_A_PICTURE


def is_foregone(test: ast.Compare, facts_in: Callable[[ast.expr], Facts]) -> bool:
    """Return whether a comparison is true, or false, in every state of the program."""
    sides = [test.left, *test.comparators]
    if len({ast.dump(_without_name(side)) for side in sides}) < len(sides):
        return True
    if len(sides) > 2:
        return False
    (left, right), op = sides, test.ops[0]
    facts = [facts_in(side) for side in sides]
    if "picture" in facts[0] | facts[1] and any(isinstance(side, ast.Constant) or _is_begin(side) for side in sides):
        return True
    if any(_is_any(side) for side in sides):
        return True
    if isinstance(op, (ast.Is, ast.IsNot)):
        return any(map(_is_other, sides, reversed(facts)))
    if isinstance(op, (ast.Eq, ast.NotEq)) and any(map(_is_unequal, sides, reversed(facts))):
        return True
    if isinstance(op, ast.NotIn) and _has_other_case(left, right):
        return True
    if isinstance(op, (ast.In, ast.NotIn)):
        return _holds_nothing(right) or _has_all(right, facts[0]) or _is_blank(left) or "blank" in facts[0]
    if (isinstance(op, ast.GtE) and _holds_nothing(right)) or (isinstance(op, ast.LtE) and _holds_nothing(left)):
        return True
    defaults = [NONE if "written" in each else each for each in facts]
    if isinstance(op, ast.Eq) and any(_default(side) & of for side, of in zip(sides, reversed(defaults), strict=True)):
        return True  # the result is the searched text, even if nothing was found
    turned = _TURNED.get(type(op), type(op))()
    return _is_true_of_any_length(left, op, right, facts_in) or _is_true_of_any_length(right, turned, left, facts_in)


def _is_other(side: ast.expr, facts: Facts) -> bool:
    """Return whether a thing with these facts is never the same object as a side."""
    match side:
        case ast.Constant(value=None):
            return "there" in facts
        case ast.Constant(value=True | False):
            return "no bool" in facts
    return isinstance(side, _DISPLAYS)


def _is_unequal(side: ast.expr, facts: Facts) -> bool:
    """Return whether a thing with these facts never equals a side."""
    is_none = isinstance(side, ast.Constant) and side.value is None
    return "there" in facts if is_none else "true" in facts and _holds_nothing(side)


def _is_begin(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.lower is None


def _is_blank(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("", b"")


def _is_any(node: ast.expr) -> bool:
    """Return whether this is `unittest.mock.ANY`, which equals everything."""
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "ANY"


def _has_other_case(part: ast.expr, whole: ast.expr) -> bool:
    """Return whether a constant has letters that the whole text cannot have: `"No" in text.lower()`."""
    if not (isinstance(part, ast.Constant) and isinstance(part.value, str) and isinstance(whole, ast.Call)):
        return False
    match whole.func:
        case ast.Attribute(attr="lower" | "casefold"):
            return part.value != part.value.lower()
        case ast.Attribute(attr="upper"):
            return part.value != part.value.upper()
    return False


def _without_name(node: ast.expr) -> ast.expr:
    """Return the name instead of the expression that gives it a value: `x` of `(x := 1)`."""
    return ast.Name(node.target.id, ast.Load()) if isinstance(node, ast.NamedExpr) else node


def _holds_nothing(node: ast.expr) -> bool:
    """Return whether this is an empty collection, such as `[]` or `set()`."""
    match node:
        case ast.Tuple(elts=[]) | ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "list" | "tuple" | "dict"), args=[], keywords=[]):
            return True
    return False


def _has_all(node: ast.expr, facts: Facts) -> bool:
    """Return whether an expression holds both True and False, all that a value may be, or all counts from 0 on."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        first = _number(node.args[0]) if len(node.args) > 1 else 0
        return first is not None and first <= 0
    items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
    values = [each.value for each in items if isinstance(each, ast.Constant)]
    may_be = {fact for fact in facts if fact.startswith("or ")}
    if "written" in facts and may_be <= {f"or {value!r}" for value in values}:
        return True
    return any(value is True for value in values) and any(value is False for value in values)


def facts_of_result(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Facts:
    """Return the facts about what a function returns: a tuple is always true, as is a text with words in it."""
    if isinstance(node, ast.AsyncFunctionDef) or _yields(node):
        return _IS_LAZY
    returned = [each.value for each in statements_in(node.body) if isinstance(each, ast.Return)]
    facts = [facts_of(value, lambda _: NONE) if value else NONE for value in returned]
    shared = frozenset.intersection(*facts) if facts else NONE
    if may_end_without_return(node.body):
        return NONE
    handlers = [each for part in statements_in(node.body) for each in getattr(part, "handlers", ())]
    caught = [each.value for part in handlers for each in part.body if isinstance(each, ast.Return) and each.value]
    return shared & {"true", "lazy", "there", "no bool"} | NONE.union(*map(_default, caught))


def _yields(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    inner = [part for each in statements_in(node.body) for part in ast.iter_child_nodes(each)]
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in inner)


def may_end_without_return(body: list[ast.stmt]) -> bool:
    """Return whether the end of these statements may be reached; then a function returns None."""
    match body[-1]:
        case ast.Return() | ast.Raise():
            return False
        case ast.If(body=yes, orelse=[_, *_] as no):
            return may_end_without_return(yes) or may_end_without_return(no)
        case ast.With(body=inner):
            return may_end_without_return(inner)
        case ast.Try(body=tried, handlers=handlers, orelse=[]):
            return any(map(may_end_without_return, (tried, *(each.body for each in handlers))))
    return True


def _is_true_of_any_length(
    left: ast.expr, op: ast.cmpop, right: ast.expr, facts_in: Callable[[ast.expr], Facts]
) -> bool:
    """Return whether it is like `len(x) >= 0`, `len(x) != -1` or `len(text.split(";")) > 0`."""
    order, bound = _ORDERS.get(type(op)), _number(right)
    if order is None or bound is None:
        return False
    if isinstance(left, ast.Call) and name_of(left) in ("index", "rindex"):
        return False  # it raises where nothing is found
    lowest = -1 if "number" in facts_in(left) else 0
    if bound <= 0 and isinstance(op, (ast.GtE, ast.Gt)) and order(lowest, bound):
        return True  # a count is never less
    match left:
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            facts = facts_in(of)
            if facts & {"picture", "image", "fixed"}:
                return True
            least = 1 if "true" in facts else 0
            lengths = {n for n in (least, bound - 1, bound, bound + 1) if n >= least}
            return all(order(n, bound) for n in lengths)
    return False


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None
