"""Sessions of pytest on the pad, and their results for each test."""

from __future__ import annotations

from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results
from support.paths import PAD_LINE

QUIET = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc")
ON_PAD = (*QUIET, "--vnc-server=qt", f"--vnc-app={PAD_LINE}", "--vnc-scope=session")


def results() -> dict[str, ItemResult]:
    """Return the results of the session in this directory, by each test's name without `test_`."""
    return {test.test.rpartition("::test_")[2]: test for test in read_results(Path("runs/vnc-results.json")).tests}
