"""Let go of the screens of a test that failed: other plugins keep what it raised to the session's end.

pytest-rerunfailures is one of them. The frames of a traceback keep what each function worked with: a replay its
recorded screens, tens of megabytes a test. They are emptied once the test has ended and all has been told; not those
of a fixture's error, which pytest raises again for each test that asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from traceback import walk_tb

import pytest

from pytest_vnc_use.plugin.stash import is_ours

_RAISED: pytest.StashKey[list[BaseException]] = pytest.StashKey()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    before = call.excinfo
    report = yield
    if call.when == "call" and is_ours(item):  # what triage.py put in the place of what was raised, and that
        raised = [each.value for each in (before, call.excinfo) if each is not None]
        item.stash[_RAISED] = [*item.stash.get(_RAISED, []), *raised]
    if call.when == "teardown":
        for error in item.stash.get(_RAISED, []):
            empty_frames(error)
        item.stash[_RAISED] = []
    return report


def empty_frames(error: BaseException) -> None:
    """Empty the frames of an error's traceback, and of all that led to it."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            for frame, _ in walk_tb(each.__traceback__):
                with contextlib.suppress(RuntimeError):  # it is still at work
                    frame.clear()
                _ = frame.f_locals  # before Python 3.13 a dict of its own, which is made anew from what is left
            left += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
