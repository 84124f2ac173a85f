"""Let go of the screens of a test that failed: other plugins keep what it raised to the session's end.

pytest-rerunfailures is one of them. The frames of a traceback keep what each function worked with: a replay its
recorded screens, tens of megabytes a test.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType, TracebackType

import pytest

from pytest_vnc_use.notes import is_ours

_RAISED: pytest.StashKey[list[BaseException]] = pytest.StashKey()
_PACKAGE = str(Path(__file__).parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None:
        item.stash.setdefault(_RAISED, []).append(call.excinfo.value)
    if call.when == "teardown" and _RAISED in item.stash:
        if is_ours(item):
            for error in item.stash[_RAISED]:
                clear(error)
        del item.stash[_RAISED]
    return report


def clear(error: BaseException) -> None:
    """Empty this package's frames in the tracebacks of an error, and of all that led to it."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        for frame in _frames(each.__traceback__):
            if frame.f_code.co_filename.startswith(_PACKAGE):
                _empty(frame)
        left += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _empty(frame: FrameType) -> None:
    try:
        frame.clear()
    except RuntimeError:  # it is still at work, as that of a hook which called this one
        return
