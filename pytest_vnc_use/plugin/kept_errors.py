"""The release of the screens of a failed test: other plugins keep the test's exception until the session ends.

pytest-rerunfailures is one of them. The frames of a traceback keep the local variables of each function. A replay has
its recorded screens there, tens of megabytes a test. So this plugin empties the frames, also of a user's exception:
a list of the test can hold the same screens. The exception, its text and its lines stay. It happens after all reports
and after a debugger had the frames. A fixture's error keeps its frames, because pytest raises it again for each test
that asks for the fixture.
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
    """Remember the errors of the test's call; empty their frames after the teardown."""
    before = call.excinfo
    report = yield
    if call.when == "call" and is_ours(item):  # the raised error, and the one that triage.py put in its place
        raised = [each.value for each in (before, call.excinfo) if each is not None]
        item.stash[_RAISED] = [*item.stash.get(_RAISED, []), *raised]
    if call.when == "teardown":
        for error in item.stash.get(_RAISED, []):
            empty_frames(error)
        item.stash[_RAISED] = []
    return report


def empty_frames(error: BaseException) -> None:
    """Empty the frames of an error's traceback, and of all errors that led to it."""
    from pytest_vnc_use.errors.faults import chain

    for each in chain(error):
        for frame, _ in walk_tb(each.__traceback__):
            with contextlib.suppress(RuntimeError):  # the frame is still running
                frame.clear()
            _ = frame.f_locals  # before Python 3.13 this is a dict of its own; reading it makes it anew
