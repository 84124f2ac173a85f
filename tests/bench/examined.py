"""What came of the examples' tests, replayed from the recordings that come with them, in a folder of their own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results

EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def examples() -> Iterator[Path]:
    """A folder with a copy of the examples, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="examples-") as made:
        shutil.copytree(EXAMPLES, Path(made) / "examples")
        yield Path(made)


def replayed(folder: Path, *options: str) -> Sequence[ItemResult]:
    """What came of each test."""
    results = folder / "results.json"
    results.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples", "--vnc-record=replay"]
    ended = subprocess.run([*pytest, f"--vnc-results={results}", *options], cwd=folder, capture_output=True, text=True)
    if not results.exists():
        raise SystemExit(f"{shlex.join(ended.args)} wrote no results:\n{ended.stdout}\n{ended.stderr}")
    shutil.rmtree(folder / "runs", ignore_errors=True)
    return read_results(results).tests


def failure_of(tests: Sequence[ItemResult]) -> str:
    """The first failed test, what its failure means and why, as cells of a table; empty where none failed."""
    for test in tests:
        if test.is_bad:
            reason = test.message.splitlines()[0][:140].replace("|", "/")
            return f"{test.test.rpartition('::')[2]} | {test.triage} | {reason}"
    return ""
