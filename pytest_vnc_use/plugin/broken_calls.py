"""Calls of a test to its agent and its desktop that broke, which the test's own code may have caught.

A plugin, registered by on_demand.py. A call that broke explains what fails later and may rest on it, see
triaging.py; a test that would pass with one that may have decided it fails by it. What a call answered is no such
thing, whatever it answered: that a file is missing is evidence about the product. What is made good, and what nothing
rests on, counts for nothing: see `BrokenCalls`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.body_checks.code_places import Lines, function_at, is_named, lines_now
from pytest_vnc_use.body_checks.consequences import (
    EXPECTING,
    Consequences,
    calls_around,
    consequences_of,
    frames_at,
    in_doubt,
    may_decide,
)
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.plugin.stash import is_ours
from pytest_vnc_use.sightings import SIGHTINGS

if TYPE_CHECKING:
    from pytest_vnc_use.errors import VncUseError

_RUNS = ("run", "reenact")
_CHECKS = ("verify", "saw", "check")
_OF_HANDS = ("click", "type_text", "key", "scroll", "drag", "perform")
_CHANGING = ("write_file", "launch", "reset")
_ASKED = ("read_file", "run", "elements", "program_fault", "logs")
WATCHED = {
    "vnc_agent": (*_RUNS, *_CHECKS, "extract", "screenshot", *_OF_HANDS),
    "vnc_desktop": (*_CHANGING, *_ASKED),
}
"""The methods of a fixture's value that are watched while the fixture lives, also where it is a user's own."""
Method = tuple[str, str]
"""The name of the fixture, and of the method."""
_ACTS = {("vnc_agent", name) for name in (*_RUNS, *_OF_HANDS)} | {("vnc_desktop", name) for name in _CHANGING}
"""Methods that do something to the program: where one broke, all that is seen later may be as it is because of that."""
_LOOKS = {("vnc_agent", name) for name in ("verify", "saw", "extract", "screenshot")} | {
    ("vnc_desktop", name) for name in ("write_file", *_ASKED)
}
"""Methods by which something of the product comes to the test, and `write_file`: what that wrote is the test's own."""
_OURS = f"{__name__.partition('.')[0]}."
_LONGEST_CALL = 200
_WENT_ON = "the test's code caught that and went on"


class _Watched:
    """A method whose calls by others are noted; in pytest's words on an assertion, and to who asks it, the method."""

    def __init__(self, method: Callable[..., object], name: Method, calls: BrokenCalls) -> None:
        self.__wrapped__ = self._method = method
        self._name, self._calls = name, calls

    def __call__(self, *args: object, **options: object) -> object:
        __tracebackhide__ = True
        if sys._getframe(1).f_globals.get("__name__", "").startswith(_OURS):  # who made it deals with its errors
            return self._calls.note_end(self._name, self._method(*args, **options))
        answer: object = None
        try:
            answer = self._calls.make(self._method, self._name, *args, **options)
            return answer
        finally:
            if self._name in _LOOKS:
                SIGHTINGS.note_call(self._name[1], args, answer)

    def __getattr__(self, name: str) -> object:
        return getattr(self._method, name)

    def __repr__(self) -> str:
        return repr(self._method)


@dataclass(frozen=True)
class _Broken:
    """A call that broke: the how many-th it was, where it was made, and the names of the classes of what it raised.

    `error` is another than the one that was raised: it holds no frames of the test's, and names the call. A test may
    not pass with one that `must_work`.
    """

    number: int
    method: Method
    lines: Lines
    error: VncUseError
    kinds: frozenset[str]
    must_work: bool

    @cached_property
    def found(self) -> tuple[list[Consequences], bool]:
        return consequences_of(self.lines, raised=True)

    def is_in_place(self, lines: Lines) -> bool:
        """Whether a call stands in its place: in the same line, or where only the one that broke leads to."""
        pairs = zip(reversed(self.lines), reversed(lines), strict=False)
        file, line = next((there for here, there in pairs if here != there), ("", 0))
        function = function_at(file, line)
        return not file or any(each.function is function and each.includes(line) for each in self.found[0])

    @cached_property
    def is_check(self) -> bool:
        """Whether it would have failed the test by itself: a soft check, or a verdict that nobody asks."""
        is_dropped = all(isinstance(each.start, (ast.Expr, ast.Return)) for each in self.found[0])
        return self.method[0] == "vnc_agent" and (
            self.method[1] == "check" or (self.method[1] in _CHECKS and is_dropped)
        )

    @cached_property
    def named(self) -> set[str]:
        """By which calls, `raises` or `suppress`, the test says that it expects this class of error."""
        around = [call for call in calls_around(self.lines) if _classes(call) & (self.kinds - _ANY)]
        return {"raises" if is_named(call, EXPECTING) else "suppress" for call in around}

    @property
    def is_asserted(self) -> bool:
        """Whether the test asserts that something is raised there, whatever it is."""
        around = [call for call in calls_around(self.lines) if is_named(call, EXPECTING)]
        return any(_classes(call) & self.kinds for call in around)


_ANY = frozenset({"Exception", "BaseException", "object"})


def _classes(call: ast.Call) -> set[str]:
    """The names of the classes that `pytest.raises` and its like are given."""
    given = [part for arg in call.args for part in (arg.elts if isinstance(arg, ast.Tuple) else [arg])]
    given += [each.value for each in call.keywords if each.arg == "expected_exception"]
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in given}


class BrokenCalls:
    """The calls of a test that broke, and those that worked.

    One that broke counts for what fails, or passes, only where that may rest on it: by what it gave, or raised, or by
    what it did not do. It is made good by a call in its place that worked; what it did not do also by a later call of
    the same method that worked, or by a task that was done; what it may have left in an object by these too.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._broken: dict[tuple[Method, Lines], _Broken] = {}
        self._worked: dict[tuple[Method, Lines], int] = {}
        self._raised: BaseException | None = None
        self._count = self._last_done = 0

    def make(self, call: Callable[..., object], method: Method, *args: object, **options: object) -> object:
        """Make a call, and note whether it broke. Raises what it raises."""
        __tracebackhide__ = True
        lines = lines_now()
        try:
            answer = call(*args, **options)
        except BaseException as exc:  # a planner of the user's may raise anything, and whatever it is goes on its way
            self._note(_call_of(method[1], args, options), method, lines, exc)
            raise
        self._count += 1
        self._worked[method, lines] = self._count
        return self.note_end(method, answer)

    def note_end(self, method: Method, answer: object) -> object:
        """Note that a task was done."""
        if method == ("vnc_agent", "run") and str(getattr(answer, "outcome", "")) == "done":
            self._count += 1
            self._last_done = self._count
        return answer

    def _note(self, made: str, method: Method, lines: Lines, error: BaseException) -> None:
        if error is self._raised:  # by a call within this one, such as of `perform` in `click`
            self._broken.popitem()
        if found := _broken(made, method, error):
            self._count += 1
            self._broken.pop((method, lines), None)
            kinds = frozenset(kind.__name__ for kind in type(error).__mro__)
            must_work = not _is_answer(method[1], error)
            self._broken[method, lines] = _Broken(self._count, method, lines, found, kinds, must_work)
            self._raised = error

    # --- what they led to --------------------------------------------------------------------------------------------

    def behind(self, error: BaseException) -> tuple[VncUseError, ...]:
        """Those that may have led to what a test raised, oldest first."""
        at = frames_at(error)

        def led_to_it(call: _Broken) -> bool:
            if self._left_undone(call):
                return True
            if self._is_expected(call) or self._is_repaired(call):
                return False
            if any(may_decide(consequences_of(lines)[0], at, is_kept=False) for _, lines in self._in_place(call)):
                return False
            found, is_kept = call.found
            return may_decide(found, at, is_kept=is_kept and not self._is_past(call))

        return tuple(each.error for each in self._broken.values() if in_doubt(led_to_it, each))

    def check(self) -> None:
        """Raise, at the end of a test that would pass, the first call that broke and may have decided that."""
        left = [
            each.error for each in self._broken.values() if each.must_work and in_doubt(self._may_have_decided, each)
        ]
        if left:
            more = f" (as {len(left) - 1} more)" if left[1:] else ""
            raise type(left[0])(f"{left[0]}{more}; a call that broke shows nothing of the product, so nothing passes")

    def _may_have_decided(self, call: _Broken) -> bool:
        if self._left_undone(call):
            return True
        if self._is_expected(call) or self._is_repaired(call):
            return False
        found, is_kept = call.found
        other = [*self._later(call), *(lines for _, lines in self._in_place(call))]
        instead = [each for lines in other for each in consequences_of(lines)[0]]
        made_too = [node for each in instead for node in each.assertions]
        if any(node not in made_too for each in found for node in each.assertions):
            return True
        is_check = call.is_check and not self._later(call)
        return is_check or call.is_asserted or (is_kept and not self._is_past(call))

    def _left_undone(self, call: _Broken) -> bool:
        """Whether it was to do something, and nothing shows that it was done after all, or need not be."""
        if call.method not in _ACTS or self._is_past(call) or self._is_expected(call):
            return False
        if any(method in _ACTS for method, _ in self._in_place(call)):
            return False
        return call.method[1] in _RUNS or "suppress" not in call.named

    def _after(self, call: _Broken) -> list[tuple[Method, Lines]]:
        """What worked after it."""
        return [key for key, number in self._worked.items() if number > call.number]

    def _later(self, call: _Broken) -> list[Lines]:
        return [lines for method, lines in self._after(call) if method == call.method]

    def _in_place(self, call: _Broken) -> list[tuple[Method, Lines]]:
        return [(method, lines) for method, lines in self._after(call) if call.is_in_place(lines)]

    def _is_past(self, call: _Broken) -> bool:
        return bool(self._later(call)) or self._last_done > call.number

    def _is_repaired(self, call: _Broken) -> bool:
        return any(method == call.method for method, _ in self._in_place(call))

    def _is_expected(self, call: _Broken) -> bool:
        """Whether the test asserts that it breaks so; which is nothing to pass by where no call worked after it."""
        return "raises" in call.named and bool(self._after(call))


CALLS = pytest.StashKey[BrokenCalls]()
"""Those of the test that runs in this process, in the stash of its config."""


def of_test(config: pytest.Config) -> BrokenCalls:
    return config.stash.setdefault(CALLS, BrokenCalls())


def _call_of(name: str, args: tuple[object, ...], options: dict[str, object]) -> str:
    try:
        told = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items())]
    except Exception:  # noqa: BLE001  # a user's own class may raise anything
        told = ["…"]
    return f"{name}({', '.join(told)})"


def _broken(made: str, method: Method, error: BaseException) -> VncUseError | None:
    """What is told of a call that broke; None for an answer about the product, or about how a run ended."""
    from pytest_vnc_use import errors, faults
    from pytest_vnc_use.triage import rules

    ours = isinstance(error, errors.VncUseError)
    is_end = method[1] in _RUNS and isinstance(error, (errors.TaskFailed, errors.AnswerRefused))
    if isinstance(error, errors.ProductFailed) or is_end or not (ours or faults.asked(error)):
        return None
    rule = rules.rule_for(rules.Failure(error))
    raised = type(error) if ours else rules.CLASSES[rule.triage or "infra"]
    kind: type[VncUseError] = next(each for each in raised.__mro__ if each.__module__ == errors.__name__)
    return kind(f"{cut(made, _LONGEST_CALL)} broke: {cut(faults.named(error))}; {_WENT_ON}")


def _is_answer(name: str, error: BaseException) -> bool:
    """Whether it says that there is no such value on the screen, or no such action: a test may pass with that."""
    from pytest_vnc_use.errors import ActionError, Inconclusive

    return type(error) is ActionError or (name == "extract" and type(error) is Inconclusive)


# --- hooks ------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    of_test(item.config).forget()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    thing = yield
    if fixturedef.argname in WATCHED:
        patch = pytest.MonkeyPatch()
        request.addfinalizer(patch.undo)
        calls = of_test(request.config)
        for name in WATCHED[fixturedef.argname]:
            _watch(thing, (fixturedef.argname, name), calls, patch)
    return thing


def _watch(thing: object, name: Method, calls: BrokenCalls, patch: pytest.MonkeyPatch) -> None:
    method = getattr(thing, name[1], None)
    if not callable(method):
        return
    try:
        patch.setattr(thing, name[1], _Watched(method, name, calls))
    except (AttributeError, TypeError):  # a user's own that takes no attribute is not watched
        return


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if is_ours(item):
        of_test(item.config).check()
    return result
