"""Which of the shop's seeded bugs a replay of the examples lets pass: none may.

    python tests/bench/run.py seeded_bugs [BUG …]

The examples are recorded once, with the scripts beside them, and replayed, which must pass; then they are replayed on
the shop with one bug after the other (tests/programs/buggy_shop.py), each up to the first test that fails.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from buggy_shop import BUGS

from pytest_vnc_use.report.results import ItemResult, read_results

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP = Path(__file__).parents[1] / "programs" / "buggy_shop.py"


def examined(folder: Path, *options: str) -> Sequence[ItemResult]:
    """What came of the examples' tests, up to the first that failed."""
    results = folder / "results.json"
    results.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "examples"]
    ended = subprocess.run([*pytest, f"--vnc-results={results}", *options], cwd=folder, capture_output=True, text=True)
    if not results.exists():
        raise SystemExit(f"{shlex.join(ended.args)} wrote no results:\n{ended.stdout}\n{ended.stderr}")
    return read_results(results).tests


def failure_of(tests: Sequence[ItemResult]) -> str:
    """The first failed test, what its failure means and why, as cells of a table; empty where none failed."""
    for test in tests:
        if test.is_bad:
            reason = test.message.splitlines()[0][:140].replace("|", "/")
            return f"{test.test.rpartition('::')[2]} | {test.triage} | {reason}"
    return ""


def main(names: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="seeded-bugs-") as made:
        folder = Path(made)
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__vnc_recordings__"))
        for what, mode in (("recording", "rewrite"), ("a replay without a bug", "replay")):
            if failed := failure_of(examined(folder, f"--vnc-record={mode}")):
                raise SystemExit(f"{what} failed: {failed}")
        passed = []
        print("| bug | seen by | triage | reason |\n|---|---|---|---|", flush=True)
        for name in names or BUGS:
            app = shlex.join([sys.executable, str(SHOP), name])
            failed = failure_of(examined(folder, "--vnc-record=replay", f"--vnc-app={app}"))
            passed += [] if failed else [name]
            print(f"| {name.replace('_', ' ')} | {failed or 'nobody | | '} |", flush=True)
        print(f"\n{len(names or BUGS) - len(passed)} of {len(names or BUGS)} bugs seen")
    return len(passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
