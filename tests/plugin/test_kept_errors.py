"""What a failed test worked with is let go of, also where another plugin keeps its error to the session's end."""

from __future__ import annotations

import pytest

KEEPS_ERRORS = """
import gc
import weakref
import pytest

KEPT, BIG = [], weakref.WeakSet()

class Screens:
    pass

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    KEPT.append(call.excinfo)
    return (yield)

@pytest.fixture
def screens():
    big = Screens()
    BIG.add(big)
    return big

def pytest_sessionfinish():
    gc.collect()
    print(f"errors kept: {len([each for each in KEPT if each])}, screens kept: {len(BIG)}")
"""
FAILS = """
def fail(screens):
    def within(here):
        raise ValueError("wrong")
    try:
        within(screens)
    except ValueError as exc:
        raise KeyError("worse") from exc

def test_one(vnc_settings, screens):
    fail(screens)

def test_other(vnc_settings, screens):
    assert screens is None
"""


@pytest.mark.slow
def test_frames_of_kept_errors_are_emptied(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(KEEPS_ERRORS)
    pytester.makepyfile(FAILS)
    ended = pytester.runpytest_subprocess(
        "-s", "-p", "no:cacheprovider", "-p", "no:pytest-vnc", "--vnc-server=localhost::1"
    )
    ended.assert_outcomes(failed=2)
    ended.stdout.fnmatch_lines(["*errors kept: 2, screens kept: 0*"])
