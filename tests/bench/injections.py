"""What a model that obeys every order on the screen can do, under each policy. docs/security.md has the sums.

python tests/bench/run.py injections            prints it
python tests/bench/run.py injections DIRECTORY     writes the forty screens there, too
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.injections import INJECTIONS, screen, table


def main(arguments: Sequence[str]) -> None:
    for directory in map(Path, arguments):
        directory.mkdir(parents=True, exist_ok=True)
        for number, injection in enumerate(INJECTIONS, start=1):
            (directory / f"{number:02}.png").write_bytes(screen(injection).png)
    with tempfile.TemporaryDirectory() as directory_name:
        print(*table(Path(directory_name)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
