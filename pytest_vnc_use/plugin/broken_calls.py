"""The broken calls of a test to its agent and its desktop; the test's own code may have caught their errors.

A plugin, registered by on_demand.py. A broken call explains a later failure that may depend on it, see triage.py. A
test that would pass fails if a broken call may have decided that. A call that answered is not broken, whatever the
answer: a missing file is evidence about the product. A call does not count if a later call replaced it, or if nothing
depends on it: see `BrokenCalls`.
"""

from __future__ import annotations

import ast
import sys
import threading
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
from pytest_vnc_use.body_checks.sightings import SIGHTINGS
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.plugin.stash import is_ours

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
"""The methods that are watched while their fixture lives, also if its value is a user's own object."""
Method = tuple[str, str]
"""The name of the fixture, and the name of the method."""
_ACTS = {("vnc_agent", name) for name in (*_RUNS, *_OF_HANDS)} | {("vnc_desktop", name) for name in _CHANGING}
"""Methods that do something to the program: if one broke, every later look at the program may be affected by it."""
_LOOKS = {("vnc_agent", name) for name in ("verify", "saw", "extract", "screenshot")} | {
    ("vnc_desktop", name) for name in ("write_file", *_ASKED)
}
"""Methods that read something of the product, and `write_file`, whose text is the test's own."""
_OURS = f"{__name__.partition('.')[0]}."
_LONGEST_CALL = 200
_WENT_ON = "the test's code caught that and went on"


class _WatchedMethod:
    """A wrapper that notes calls of a method.

    Pytest's assertion messages, and code that inspects it, see the method.
    """

    def __init__(self, method: Callable[..., object], name: Method, calls: BrokenCalls) -> None:
        self.__wrapped__ = self._method = method
        self._name, self._calls = name, calls

    def __call__(self, *args: object, **options: object) -> object:
        __tracebackhide__ = True
        if sys._getframe(1).f_globals.get("__name__", "").startswith(_OURS):  # the caller handles its errors
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
    """A broken call: its number, its place in the code, and the class names of the error that it raised.

    `is_aside` is true where another thread than the main one made the call: nothing shows where its error went. `error`
    is a copy of the raised error: it holds no frames of the test, and names the call. A test may not pass with
    a broken call that `must_work`.
    """

    number: int
    method: Method
    lines: Lines
    error: VncUseError
    kinds: frozenset[str]
    must_work: bool
    is_aside: bool = False

    @cached_property
    def found(self) -> tuple[list[Consequences], bool]:
        """The consequences of the call in the test's code, and whether its result is kept."""
        return consequences_of(self.lines, raised=True)

    def is_in_place(self, lines: Lines) -> bool:
        """Return whether another call replaces it: in the same line, or in code that runs only after the failure."""
        pairs = zip(reversed(self.lines), reversed(lines), strict=False)
        file, line = next((there for here, there in pairs if here != there), ("", 0))
        function = function_at(file, line)
        return not file or any(each.function is function and each.includes(line) for each in self.found[0])

    @cached_property
    def is_check(self) -> bool:
        """Return whether the call would have failed the test by itself: a soft check, or a verdict that is not read."""
        is_dropped = all(isinstance(each.start, (ast.Expr, ast.Return)) for each in self.found[0])
        return self.method[0] == "vnc_agent" and (
            self.method[1] == "check" or (self.method[1] in _CHECKS and is_dropped)
        )

    @cached_property
    def named(self) -> set[str]:
        """Return how the test says that it expects this class of error: by `raises`, by `suppress`, or both."""
        around = [call for call in calls_around(self.lines) if _classes(call) & (self.kinds - _ANY)]
        return {"raises" if is_named(call, EXPECTING) else "suppress" for call in around}

    @property
    def is_asserted(self) -> bool:
        """Return whether the test asserts that an error is raised there, of any class."""
        around = [call for call in calls_around(self.lines) if is_named(call, EXPECTING)]
        return any(_classes(call) & self.kinds for call in around)


_ANY = frozenset({"Exception", "BaseException", "object"})


def _classes(call: ast.Call) -> set[str]:
    """Return the names of the classes that are passed to `pytest.raises` and similar calls."""
    given = [part for arg in call.args for part in (arg.elts if isinstance(arg, ast.Tuple) else [arg])]
    given += [each.value for each in call.keywords if each.arg == "expected_exception"]
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in given}


class BrokenCalls:
    """The calls of a test that broke, and those that worked.

    A broken call counts for a failure, or a pass, only if that may depend on its result, on its error, or on the
    missing action. A call in its place that worked replaces it. A later call of the same method that worked, or a task
    that was done, replaces the missing action, and any trace of the call in an object.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all calls."""
        self._broken: dict[tuple[Method, Lines], _Broken] = {}
        self._worked: dict[tuple[Method, Lines], int] = {}
        self._raised: BaseException | None = None
        self._count = self._last_done = 0

    def make(self, call: Callable[..., object], method: Method, *args: object, **options: object) -> object:
        """Make a call, and note whether it broke. Raises the error of the call."""
        __tracebackhide__ = True
        lines = lines_now()
        try:
            answer = call(*args, **options)
        except BaseException as exc:  # a user's planner may raise anything; it is raised again
            self._note(_call_of(method[1], args, options), method, lines, exc)
            raise
        self._count += 1
        self._worked[method, lines] = self._count
        return self.note_end(method, answer)

    def note_end(self, method: Method, answer: object) -> object:
        """Note the end of a task that was done, and return the answer."""
        if method == ("vnc_agent", "run") and str(getattr(answer, "outcome", "")) == "done":
            self._count += 1
            self._last_done = self._count
        return answer

    def _note(self, made: str, method: Method, lines: Lines, error: BaseException) -> None:
        if error is self._raised:  # an inner call raised it, such as `perform` in `click`
            self._broken.popitem()
        if found := _broken(made, method, error):
            self._count += 1
            self._broken.pop((method, lines), None)
            kinds = frozenset(kind.__name__ for kind in type(error).__mro__)
            must_work = not _is_answer(method[1], error)
            is_aside = threading.current_thread() is not threading.main_thread()
            self._broken[method, lines] = _Broken(self._count, method, lines, found, kinds, must_work, is_aside)
            self._raised = error

    # --- consequences ------------------------------------------------------------------------------------------------

    def behind(self, error: BaseException) -> tuple[VncUseError, ...]:
        """Return the broken calls that may have led to an error of the test, oldest first."""
        at = frames_at(error)

        def led_to_it(call: _Broken) -> bool:
            if self._left_undone(call):
                return True
            if self._is_expected(call) or self._is_repaired(call):
                return False
            if any(may_decide(consequences_of(lines)[0], at, is_kept=False) for _, lines in self._in_place(call)):
                return False
            found, is_kept = call.found
            is_left = not self._is_past(call)
            return (call.is_aside and is_left) or may_decide(found, at, is_kept=is_kept and is_left)

        return tuple(each.error for each in self._broken.values() if in_doubt(led_to_it, each))

    def check(self) -> None:
        """Raise, at the end of a test that would pass, the first broken call that may have decided that."""
        left = [
            each.error for each in self._broken.values() if each.must_work and in_doubt(self._may_have_decided, each)
        ]
        if left:
            more = f" (as {len(left) - 1} more)" if left[1:] else ""
            raise type(left[0])(f"{left[0]}{more}. The test fails because of this call: no later call replaced it")

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
        """Return whether the call was an action, and nothing shows that it was done later or was not needed."""
        if call.method not in _ACTS or self._is_past(call) or self._is_expected(call):
            return False
        if any(method in _ACTS for method, _ in self._in_place(call)):
            return False
        return call.method[1] in _RUNS or "suppress" not in call.named

    def _after(self, call: _Broken) -> list[tuple[Method, Lines]]:
        """Return the calls that worked after this one."""
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
        """Return whether the test asserts this error.

        A test cannot pass on that alone: a later call must have worked.
        """
        return "raises" in call.named and bool(self._after(call))


CALLS = pytest.StashKey[BrokenCalls]()
"""The calls of the test that runs in this process, in the stash of its config."""


def of_test(config: pytest.Config) -> BrokenCalls:
    """Return the calls of the test that runs in this process."""
    return config.stash.setdefault(CALLS, BrokenCalls())


def _call_of(name: str, args: tuple[object, ...], options: dict[str, object]) -> str:
    try:
        arguments = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items())]
    except Exception:  # noqa: BLE001  # a user's own class may raise anything
        arguments = ["…"]
    return f"{name}({', '.join(arguments)})"


def _broken(made: str, method: Method, error: BaseException) -> VncUseError | None:
    """Return the error of a broken call; None if it is an answer about the product, or about how a run ended."""
    from pytest_vnc_use import errors
    from pytest_vnc_use.errors import faults
    from pytest_vnc_use.triage import rules

    ours = isinstance(error, errors.VncUseError)
    is_end = method[1] in _RUNS and isinstance(error, (errors.TaskFailed, errors.AnswerRefused))
    if isinstance(error, errors.ProductFailed) or is_end or not (ours or faults.asked(error)):
        return None
    rule = rules.rule_for(rules.FailureFacts(error))
    raised = type(error) if ours else rules.CLASSES[rule.triage or "infra"]
    kind: type[VncUseError] = next(each for each in raised.__mro__ if each.__module__ == errors.__name__)
    return kind(f"{cut(made, _LONGEST_CALL)} broke: {cut(faults.named(error))}; {_WENT_ON}")


def _is_answer(name: str, error: BaseException) -> bool:
    """Return whether the error says that the screen has no such value, or that there is no such action.

    A test may pass with such an error.
    """
    from pytest_vnc_use.errors import ActionError, Inconclusive

    return type(error) is ActionError or (name == "extract" and type(error) is Inconclusive)


# --- hooks ------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the calls of the last test."""
    of_test(item.config).forget()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Watch the methods of an agent and a desktop while their fixture lives."""
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
        patch.setattr(thing, name[1], _WatchedMethod(method, name, calls))
    except (AttributeError, TypeError):  # a user's own object that takes no attributes is not watched
        return


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that would pass with a broken call that may have decided that."""
    result = yield
    if is_ours(item):
        of_test(item.config).check()
    return result
