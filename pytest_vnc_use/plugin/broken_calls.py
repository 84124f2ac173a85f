"""Calls of a test to its agent and its desktop that broke, which the test's own code may have caught.

A plugin, registered by on_demand.py. A call that broke, and that did not work when it was made again, explains
an assertion that fails later, see triaging.py; a test that would pass with one fails by it. What a call answered is no
such thing, whatever it answered: that a file is missing is evidence about the product.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.plugin.stash import is_ours
from pytest_vnc_use.sightings import SIGHTINGS

if TYPE_CHECKING:
    from pytest_vnc_use.errors import VncUseError

_OF_AGENT = ("run", "reenact", "verify", "saw", "check", "extract", "screenshot", "perform")
_OF_HANDS = ("click", "type_text", "key", "scroll", "drag")
_OF_DESKTOP = ("read_file", "write_file", "run", "launch", "reset", "elements", "program_fault", "logs")
_LOOKS = {
    "vnc_agent": frozenset({"verify", "saw", "extract", "screenshot"}),
    "vnc_desktop": frozenset({"read_file", "write_file", "run", "elements", "program_fault", "logs"}),
}
WATCHED = {"vnc_agent": (*_OF_AGENT, *_OF_HANDS), "vnc_desktop": _OF_DESKTOP}
"""The methods of a fixture's value that are watched while the fixture lives, also where it is a user's own."""
_OURS = f"{__name__.partition('.')[0]}."
_LONGEST_CALL = 200
_WENT_ON = "the test's code caught that and went on"


class _Watched:
    """A method whose calls by others are noted; in pytest's words on an assertion, and to who asks it, the method."""

    def __init__(self, method: Callable[..., object], name: str, calls: BrokenCalls, *, looks: bool) -> None:
        self.__wrapped__ = self._method = method
        self._name, self._calls, self._looks = name, calls, looks

    def __call__(self, *args: object, **options: object) -> object:
        __tracebackhide__ = True
        if sys._getframe(1).f_globals.get("__name__", "").startswith(_OURS):  # who made it deals with its errors
            return self._method(*args, **options)
        answer: object = None
        try:
            answer = self._calls.make(self._method, self._name, *args, **options)
            return answer
        finally:
            if self._looks:
                SIGHTINGS.note_call(self._name, args, answer)

    def __getattr__(self, name: str) -> object:
        return getattr(self._method, name)

    def __repr__(self) -> str:
        return repr(self._method)


class BrokenCalls:
    """The calls of a test that broke, oldest first, but for those that worked later, with the same arguments.

    An error here is another than the one that was raised: it holds no frames of the test's, and names the call.
    """

    def __init__(self) -> None:
        self._broken: dict[str, tuple[VncUseError, bool]] = {}
        self._raised: BaseException | None = None

    @property
    def errors(self) -> tuple[VncUseError, ...]:
        return tuple(error for error, _ in self._broken.values())

    def forget(self) -> None:
        self._broken, self._raised = {}, None

    def make(self, call: Callable[..., object], name: str, *args: object, **options: object) -> object:
        """Make a call, and note whether it broke. Raises what it raises."""
        __tracebackhide__ = True
        made = _call_of(name, args, options)
        try:
            answer = call(*args, **options)
        except BaseException as exc:  # a planner of the user's may raise anything, and whatever it is goes on its way
            self._note(made, name, exc)
            raise
        self._broken.pop(made, None)
        return answer

    def _note(self, made: str, name: str, error: BaseException) -> None:
        if error is self._raised:  # by a call within this one, such as of `perform` in `click`
            self._broken.popitem()
        if found := _broken(made, error):
            self._broken.pop(made, None)
            self._broken[made] = found, not _is_answer(name, error)
            self._raised = error

    def check(self) -> None:
        """Raise, at the end of a test that would pass, the first call that broke."""
        left = [error for error, must_work in self._broken.values() if must_work]
        if left:
            more = f" (as {len(left) - 1} more)" if left[1:] else ""
            raise type(left[0])(f"{left[0]}{more}; a call that broke shows nothing of the product, so nothing passes")


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


def _broken(made: str, error: BaseException) -> VncUseError | None:
    """What is told of a call that broke; None for an answer about the product, or about how a run ended."""
    from pytest_vnc_use import errors, faults
    from pytest_vnc_use.triage import rules

    ours = isinstance(error, errors.VncUseError)
    is_end = made.startswith(("run(", "reenact(")) and isinstance(error, (errors.TaskFailed, errors.AnswerRefused))
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
            _watch(thing, fixturedef.argname, name, calls, patch)
    return thing


def _watch(thing: object, fixture: str, name: str, calls: BrokenCalls, patch: pytest.MonkeyPatch) -> None:
    method = getattr(thing, name, None)
    if not callable(method):
        return
    try:
        patch.setattr(thing, name, _Watched(method, name, calls, looks=name in _LOOKS[fixture]))
    except (AttributeError, TypeError):  # a user's own that takes no attribute is not watched
        return


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if is_ours(item):
        of_test(item.config).check()
    return result
