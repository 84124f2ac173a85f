"""Decide whether a test surely asserts something about the product after its last task.

The code after the task is read, not traced, because tracing disturbs debuggers and coverage. Pytest's own hook for
assertions that pass would need an ini option. sightings.py observes whether anything of the product reached the test at
all; this module only reads. The run gives the place of the test when the task ended: the stack at that moment, with the
value of each name.

An assertion counts only if every path to a normal end passes one. So it does not count in an `if` without `else`, in a
loop that may be empty, after a `return`, or if an `except` swallows it. It must rest on a look (see looks.py). Calls
are followed into the functions of the user's own files. In doubt an assertion does not count, and a judge is asked.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence

from pytest_vnc_use.body_checks.assignments import take_over
from pytest_vnc_use.body_checks.code_places import (
    has_line_within,
    holds,
    holds_any,
    is_chain,
    is_endless,
    is_named,
    node_of,
    parts,
    sure_calls,
)
from pytest_vnc_use.body_checks.code_values import NOTHING, LocalClass, Method, own_method
from pytest_vnc_use.body_checks.code_ways import (
    CHECKED,
    NO_WAY,
    ON,
    Ways,
    assigned_in,
    captured,
    expects_any_error,
    if_seen,
    last_round,
    raises_in,
    surely,
    uses_up,
)
from pytest_vnc_use.body_checks.known_assertions import is_known_assertion
from pytest_vnc_use.body_checks.scope import LocalFunction, Scope
from pytest_vnc_use.body_checks.swallowing import swallows
from pytest_vnc_use.body_checks.truths import has_items, proves

_FAILS = frozenset({"fail", "exit"})
"""Calls of pytest, unittest and sys that fail the test."""
_GIVES_UP = frozenset({"skip", "xfail", "skipTest"})
"""Calls after which a test has neither passed nor failed."""
_RUNS_TO_THE_END = frozenset({"run", "run_until_complete", "wait_for"})
"""Calls of asyncio, anyio and trio that await their argument."""
_GOES: Ways = frozenset({"return", "break", "continue"})
_EXPECTS_ERROR = frozenset({"raises", "assertRaises", "assertRaisesRegex"})


class Flow:
    """A reader of one function's code, from a line on.

    `inner` are the ways of the call in that line; other calls in that line do not count.
    """

    def __init__(self, scope: Scope, line: int | None = None, inner: Ways = ON) -> None:
        self._scope, self._line, self._inner = scope, line, inner
        self._last_round = ""

    def block(self, body: Sequence[ast.stmt]) -> Ways:
        """Return the ways of some statements, from the line on if it is in them."""
        rest = [*body]
        if self._line is not None:
            held = [number for number, node in enumerate(rest) if holds(node, self._line)]
            for number in held[:-1]:  # these may have run before the task
                self._scope.name(rest[number], looks=False)
            rest = rest[held[-1] :] if held else []  # the last of several in one line
        ways = ON
        for node in rest:
            goes_on = ways & {"next", "next if seen"}
            if not goes_on:
                break
            then = self._statement(node)
            ways = (ways - goes_on) | (then if "next" in goes_on else if_seen(then))
        return ways

    def _statement(self, node: ast.stmt) -> Ways:
        if self._line is not None and not has_line_within(node, self._line):
            return self._line_itself(node)
        match node:
            case ast.If():
                return self._if(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node)
            case ast.With() | ast.AsyncWith():
                return self._with(node)
            case ast.Try():
                return self._try(node)
            case ast.Match():
                return self._match(node)
        if type(node).__name__ == "TryStar":
            return self._try(node)  # type: ignore[arg-type]  # Python 3.11 and newer; it has the same parts
        return self._simple(node)

    def _line_itself(self, node: ast.stmt) -> Ways:
        """Return the ways of the statement in which the task ended: the rest of its calls, then its own."""
        inner, self._line, self._inner = self._inner, None, ON
        ways: Ways = frozenset({"return"}) if isinstance(node, ast.Return) else ON
        if all(map(is_chain, parts(node))):
            if isinstance(node, (ast.Assert, ast.If, ast.While, ast.For, ast.With, ast.Match)):
                ways = self._statement(node)
            elif any(map(self._asserts_in_chain, parts(node))):
                return CHECKED
            else:
                take_over(self._scope, node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._scope.name(target, looks=False, words=True)  # it may have been read before the task
        self._scope.doubt_filled(node)
        return CHECKED if surely(inner) else ways

    def _asserts_in_chain(self, node: ast.expr) -> bool:
        """Return whether a call on the result of the task's own call asserts: `page.press().check()`."""
        calls = [*sure_calls(node)]
        return any(self._is_assertion(call, is_awaited=False) for call in calls[:-1])

    def _simple(self, node: ast.stmt) -> Ways:
        match node:
            case ast.Assert():
                return self._ways_of_assertion(node)
            case ast.Raise():
                return NO_WAY
            case ast.Break():
                return frozenset({"break"})
            case ast.Continue():
                return frozenset({"continue"})
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._scope.looks[node.name] = False
                self._scope.things[node.name] = LocalFunction(node, self._scope)
                return ON
            case ast.ClassDef():
                self._scope.looks[node.name] = False
                self._scope.things[node.name] = LocalClass(node)
                return ON
            case ast.Return():
                return CHECKED if node.value and self._calls_assert(node.value) else frozenset({"return"})
        if self._fails([node], _FAILS | _GIVES_UP):
            return NO_WAY
        ways = CHECKED if any(map(self._calls_assert, parts(node))) else ON
        take_over(self._scope, node)
        if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in parts(node)):
            return frozenset({"yield"}) if ways == ON else ways
        return ways

    def _ways_of_assertion(self, node: ast.Assert) -> Ways:
        """Return the ways of an assertion; `python -O` leaves out those that pytest has not rewritten."""
        if isinstance(node.test, ast.Constant) and not node.test.value:
            return NO_WAY
        is_there = __debug__ or "@pytest_ar" in self._scope.values
        counts = self._calls_assert(node.test) or (is_there and proves(self._scope, node.test))
        return CHECKED if counts else ON

    # --- statements that hold others ---------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> Ways:
        if self._line is None and isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse)
        if self._line is not None:
            return self.block(node.orelse if holds_any(node.orelse, self._line) else node.body)
        if_true, if_false = (proves(self._scope, node.test, truth=truth) for truth in (True, False))
        tells = self._scope.tells(node.test)
        if self._calls_assert(node.test):
            return CHECKED
        before, words = dict(self._scope.facts), dict(self._scope.words)
        body = self.block(node.body)
        words_in_body = dict(self._scope.words)
        other = self.block(node.orelse)
        self._scope.doubt(node, before, (words, words_in_body), tells=tells)
        if if_true or if_false:
            self._scope.depend(node, before)
        if (if_false and self._fails(node.body)) or (if_true and self._fails(node.orelse)):
            return CHECKED  # this is the same as an assertion
        if body & _GOES and other & _GOES and "next" not in body | other:
            return body | other  # the code ends without an error in any case
        return (if_seen(body, {"next"}) if if_true else body) | (if_seen(other, {"next"}) if if_false else other)

    def _fails(self, body: Sequence[ast.stmt], names: frozenset[str] = _FAILS) -> bool:
        """Return whether a branch ends with an error, or with a call of pytest, unittest or sys of one of the names."""
        match [*body][-1:]:
            case [ast.Raise()]:
                return True
            case [ast.Expr(value=ast.Call(func=func))] if _is_call_of(names, self._scope.resolve(func)):
                return True
            case [ast.Assert(test=ast.Constant(value=value))]:
                return not value
            case [ast.Expr(value=ast.Call(func=ast.Attribute(attr="fail") | ast.Name(id="fail")))]:
                return True
        return False

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> Ways:
        is_within, has_no_end = self._line is not None, is_endless(node)
        if not is_within and not isinstance(node, ast.While):
            take_over(self._scope, ast.For(node.target, node.iter, [], []))
        if isinstance(node, ast.While):
            self._scope.rests(node.test)  # it may give values to names
        before, words = dict(self._scope.facts), dict(self._scope.words)
        around, self._last_round = self._last_round, last_round(node)
        body = self.block(node.body)
        self._last_round = around
        decides = node.test if isinstance(node, ast.While) else node.iter
        self._scope.doubt(node, before, (words,), tells=not is_within and self._scope.tells(decides))
        if not is_within and not isinstance(node, ast.While) and self._scope.rests(node.iter):
            self._scope.depend(node, before)
        ways = body - {"next", "break", "continue", "next if seen", "break if seen"}
        if "break" in body:
            ways |= ON
        if "break if seen" in body:
            ways |= {"next if seen"}
        return ways | (NO_WAY if has_no_end else self._ways_after_all_rounds(node, body, is_within=is_within))

    def _ways_after_all_rounds(self, node: ast.For | ast.AsyncFor | ast.While, body: Ways, *, is_within: bool) -> Ways:
        if isinstance(node, ast.While):
            ends_if_seen = proves(
                self._scope, node.test, truth=False
            )  # a loop that waits ends only if it sees the condition
            return CHECKED if ends_if_seen and not uses_up(node) else self.block(node.orelse)
        asserts_each = (is_within or has_items(self._scope, node.iter)) and not body & {
            "next",
            "continue",
            "next if seen",
        }
        return CHECKED if asserts_each else self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> Ways:
        is_within = self._line is not None
        if not is_within and any(self._calls_assert(item.context_expr) for item in node.items):
            return CHECKED
        take_over(self._scope, node)
        expects = any(is_named(item.context_expr, _EXPECTS_ERROR) for item in node.items)
        is_exact = not any(map(expects_any_error, node.items))
        proves_error = self._scope.trusts_outcome if is_within else all(map(self._may_raise_of_look, node.body))
        if expects and is_exact and proves_error:
            return CHECKED
        defaults = {name: "true" in facts for name, facts in self._scope.facts.items()}
        before = dict(self._scope.facts)
        ways = self.block(node.body)
        may_be_swallowed = swallows(self._scope, node)
        if may_be_swallowed:
            self._scope.doubt(node, before, (defaults,), tells=False)
        return ways | ON if expects or may_be_swallowed else ways

    def _may_raise_of_look(self, node: ast.stmt) -> bool:
        """Return whether a statement calls something with what a look returned, and raises nothing itself."""
        inner = list(ast.walk(node))
        calls = any(isinstance(each, ast.Call) and self._scope.rests(each) for each in inner)
        return calls and not any(isinstance(each, ast.Raise) for each in inner)

    def _try(self, node: ast.Try) -> Ways:
        line = self._line
        if line is not None and holds_any(node.finalbody, line):
            return self.block(node.finalbody)
        for each in (*(handler.body for handler in node.handlers), node.orelse):
            if line is not None and holds_any(each, line):
                return self._finally(self.block(each), node)
        ways = self.block(node.body)
        asserts = "checked" in ways and "next" not in ways
        if "next" in ways and node.orelse:
            ways = (ways - ON) | self.block(node.orelse)
        known, words, facts = dict(self._scope.looks), dict(self._scope.words), dict(self._scope.facts)
        things = dict(self._scope.things)
        for handler in node.handlers:
            ways |= self.block(handler.body) - (ON if raises_in(handler, self._last_round) else NO_WAY)
        self._scope.looks.update(
            {name: True for name, looks in known.items() if looks}
        )  # a default in a handler does not undo a look
        self._scope.doubt(node, facts, (words, {} if asserts else _expected_in(node.handlers)), tells=False)
        for handler in node.handlers if asserts else ():
            assigned = assigned_in(handler.body)
            now = {name: self._scope.things.get(name, NOTHING) for name in assigned}
            repeats = any(thing is not NOTHING and thing is things.get(name, NOTHING) for name, thing in now.items())
            if not repeats and assigned.isdisjoint(assigned_in([*node.body, *node.orelse])):
                self._scope.depend(handler, facts)
        return self._finally(ways, node)

    def _finally(self, ways: Ways, node: ast.Try) -> Ways:
        after = self.block(node.finalbody)
        if "return" in after:
            return after - ON | (ways if "next" in after else NO_WAY)
        return ways if after else NO_WAY

    def _match(self, node: ast.Match) -> Ways:
        if self._line is not None:
            return next((self.block(case.body) for case in node.cases if holds_any(case.body, self._line)), ON)
        is_whole = any(isinstance(case.pattern, ast.MatchAs) and not case.pattern.pattern for case in node.cases)
        ways: Ways = NO_WAY if is_whole and not node.cases[-1].guard else ON
        tells, words, facts = self._scope.tells(node.subject), dict(self._scope.words), dict(self._scope.facts)
        seen = self._scope.rests(node.subject) and not tells
        for case in node.cases:
            for name in captured(case.pattern):
                self._scope.name(ast.Name(name, ast.Store()), looks=seen, words=tells)
            ways |= self.block(case.body)
        self._scope.doubt(node, facts, (words,), tells=tells)
        return CHECKED if seen and is_whole and any(self._fails(case.body) for case in node.cases) else ways

    # --- calls -------------------------------------------------------------------------------------------------------

    def _calls_assert(self, node: ast.AST) -> bool:
        """Return whether an expression surely calls something that asserts."""
        calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        awaited = [each.value for each in ast.walk(node) if isinstance(each, ast.Await)]
        awaited += [each.args[0] for each in calls if is_named(each, _RUNS_TO_THE_END) and each.args]
        match node:
            case ast.BoolOp(op=ast.Or(), values=[seen, *_, last]) if self._fails([ast.Expr(last)]):
                return proves(self._scope, seen)
        return any(self._is_assertion(call, is_awaited=call in awaited) for call in sure_calls(node))

    def _is_assertion(self, call: ast.Call, *, is_awaited: bool) -> bool:
        callee = self._scope.resolve(call.func)
        if isinstance(callee, LocalFunction):
            return _local_asserts(callee, call, self._scope, is_awaited=is_awaited)
        method = own_method(callee)
        if method:
            if inspect.isgeneratorfunction(method.function):
                return False  # the call only makes the generator
            if inspect.iscoroutinefunction(method.function) and not is_awaited:
                return False
            return self._scope.follows and self._called_asserts(call, method)
        if isinstance(call.func, (ast.Attribute, ast.Name)) and _is_call_of(_FAILS, callee):
            return True
        if isinstance(call.func, ast.Attribute) and self._is_of_local_class(call.func):
            return False
        if is_named(call, _EXPECTS_ERROR):
            return len(call.args) > 1 and not isinstance(call.args[1], ast.Lambda)
        arguments = [*call.args, *(each.value for each in call.keywords)]
        match call.func:
            case ast.Attribute(attr=name, value=owner):
                return is_known_assertion(self._scope, name, arguments, owner, is_found=callee is not NOTHING)
            case ast.Name(id=name):
                return is_known_assertion(self._scope, name, arguments, None, is_found=callee is not NOTHING)
        return False

    def _is_of_local_class(self, method: ast.Attribute) -> bool:
        """Return whether a method, whatever its name, is one of a class that the test itself defines."""
        owner = self._scope.resolve(method.value)
        names = [getattr(each, "name", "") for each in owner.node.body] if isinstance(owner, LocalClass) else []
        return method.attr in names

    def _called_asserts(self, call: ast.Call, method: Method) -> bool:
        """Return whether a user's function surely asserts; the same call is read only once."""
        scope, known = self._scope.within(call, method), self._scope.sources.asserting
        key = (method.function, *scope.state())
        if key not in known:
            known[key] = (asserts(method, lambda: scope), scope)
        return known[key][0]


def _local_asserts(function: LocalFunction, call: ast.Call, caller: Scope, *, is_awaited: bool) -> bool:
    """Return whether a call of a function that the test itself defines surely asserts."""
    is_made = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(function.node))
    if not caller.follows or is_made or (isinstance(function.node, ast.AsyncFunctionDef) and not is_awaited):
        return False
    scope = function.scope.copy(caller)
    names = [each.arg for each in function.node.args.args]
    for name, value in zip(names, call.args, strict=False):
        scope.take(name, caller.rests(value), caller.resolve(value), words=caller.tells(value))
    return surely(Flow(scope).block(function.node.body))


# --- whole functions --------------------------------------------------------------------------------------------------


def asserts(method: Method, scope: Callable[[], Scope]) -> bool:
    """Return whether a function, called in this scope, surely asserts."""
    node = node_of(method.function.__code__)
    return node is not None and surely(Flow(scope()).block(node.body))


# --- syntax -----------------------------------------------------------------------------------------------------------


def _expected_in(handlers: Sequence[ast.ExceptHandler]) -> dict[str, bool]:
    """Return the names that get a text or number in an `except`: it may be the expected value."""
    given = [each for handler in handlers for part in handler.body for each in ast.walk(part)]
    return {
        target.id: True
        for each in given
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value
        for target in each.targets
        if isinstance(target, ast.Name)
    }


def _is_call_of(names: frozenset[str], callee: object) -> bool:
    function = callee.function if isinstance(callee, Method) else callee
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    name = getattr(function, "__name__", type(function).__name__.strip("_").lower())
    return name in names and module in ("_pytest", "pytest", "unittest", "sys")
