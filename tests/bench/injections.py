"""What a model that obeys every order on the screen can do, under each policy.
docs/security.md has the sums.

python tests/bench/run.py injections
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from support.injections import table

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(*table(Path(directory)), sep="\n")
