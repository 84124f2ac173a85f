"""What came of the examples' tests, replayed from the recordings that come with them, in a directory of their own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results

TREE = Path(__file__).parents[2]
"""The checkout that this benchmark is of."""


@contextmanager
def examples(tree: Path = TREE) -> Iterator[Path]:
    """A directory with a copy of the examples of a checkout, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="examples-") as made:
        shutil.copytree(tree / "examples", Path(made) / "examples")
        yield Path(made)


def replayed(directory: Path, *options: str, tree: Path = TREE) -> Sequence[ItemResult]:
    """Return the outcome of each test, performed by the package of that checkout."""
    results = directory / "results.json"
    results.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples", "--vnc-record=replay"]
    path = os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [*pytest, f"--vnc-results={results}", *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if not results.exists():
        raise SystemExit(f"{shlex.join(ended.args)} wrote no results:\n{ended.stdout}\n{ended.stderr}")
    shutil.rmtree(directory / "runs", ignore_errors=True)
    return read_results(results).tests


def failure_of(tests: Sequence[ItemResult]) -> str:
    """The first failed test, what its failure means and why, as cells of a table; empty where none failed."""
    for test in tests:
        if test.is_bad:
            reason = test.message.splitlines()[0][:140].replace("|", "/")
            return f"{test.test.rpartition('::')[2]} | {test.triage} | {reason}"
    return ""
