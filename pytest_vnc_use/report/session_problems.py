"""The problems of a session that no result of a test with a desktop shows. A failed session never looks green."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_FAILED = 1
_WORDS = {
    2: "pytest was interrupted (exit status 2): tests may be missing",
    3: "pytest ended with an internal error (exit status 3): tests may be missing",
    4: "pytest ended with a usage error (exit status 4): tests may be missing",
}
_FINE = (0, 5)
"""All passed; no test was collected, as in a job of many that got none."""


def session_problems(exit_status: int, uncollected: Sequence[str], failed: int, *, has_bad: bool) -> Iterator[str]:
    """Yield the other problems of a session; `has_bad`: one of its tests with a desktop failed.

    `uncollected` are the node ids that could not be collected, `failed` counts the failed tests without a desktop.
    """
    yield from (f"{nodeid or 'the session'} could not be collected" for nodeid in uncollected)
    if failed:
        yield f"{failed} {'test' if failed == 1 else 'tests'} without a desktop failed"
    if exit_status in _WORDS:
        yield _WORDS[exit_status]
    elif exit_status not in (*_FINE, _FAILED):
        yield f"pytest ended with exit status {exit_status}: tests may be missing"
    elif exit_status == _FAILED and not (uncollected or failed or has_bad):
        yield "pytest ended with exit status 1, but no test here failed"
