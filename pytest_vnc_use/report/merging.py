"""The results of the jobs that a session was split into, as those of one session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_vnc_use.report.reliability import reliabilities
from pytest_vnc_use.report.results import NO_TESTS, ItemResult, SessionResults, session_results


def merged(parts: Mapping[str, SessionResults], problems: Sequence[str] = ()) -> SessionResults:
    """Return the results of all parts, by the name of each, with each test once; at least one part must be given.

    The problems of each part follow `problems`. A test that is in several parts is a problem too; its bad result is
    kept. So it is if no part has a test.
    """
    tests: dict[str, tuple[str, ItemResult]] = {}
    doubled: list[str] = []
    for name, part in parts.items():
        for test in part.tests:
            before = tests.get(test.test)
            if before:
                doubled.append(f"{test.test} is in {before[0]} and in {name}: each test must be in one of them")
            if before is None or (test.is_bad and not before[1].is_bad):
                tests[test.test] = name, test
    results = session_results(
        min(part.started_at for part in parts.values()),
        max(part.ended_at for part in parts.values()),
        [test for _, test in tests.values()],
    )
    old = {each.test: each for part in parts.values() for each in part.reliability}
    again = reliabilities(results.tests, 2 if old else 1)
    reliability = tuple(
        replace(each, divergence=old[each.test].divergence) if each.divergence is None and each.test in old else each
        for each in again
    )
    of_parts = [f"{name}: {problem}" for name, part in parts.items() for problem in part.problems]
    missing = () if tests else (NO_TESTS,)
    return replace(results, reliability=reliability, problems=(*problems, *of_parts, *doubled, *missing))
