"""Which of the shop's seeded bugs a replay of the examples lets pass: none may.

    python tests/bench/run.py seeded_bugs [BUG …]

The examples are replayed without a model from the recordings that come with them, which must pass; then on the shop
with one bug after the other (tests/programs/buggy_shop.py), each up to the first test that fails.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from buggy_shop import BUGS
from examined import examples, failure_of, replayed

SHOP = Path(__file__).parents[1] / "programs" / "buggy_shop.py"


def main(names: list[str]) -> int:
    passed = []
    with examples() as folder:
        if failed := failure_of(replayed(folder)):
            raise SystemExit(f"a replay without a bug failed: {failed}")
        print("| bug | seen by | triage | reason |\n|---|---|---|---|", flush=True)
        for name in names or BUGS:
            app = shlex.join([sys.executable, str(SHOP), name])
            failed = failure_of(replayed(folder, "-x", f"--vnc-app={app}"))
            passed += [] if failed else [name]
            print(f"| {name.replace('_', ' ')} | {failed or 'nobody | | '} |", flush=True)
    print(f"\n{len(names or BUGS) - len(passed)} of {len(names or BUGS)} bugs seen")
    return len(passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
