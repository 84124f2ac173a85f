"""One benchmark, or one after the other, each in a process of its own:

python tests/bench/run.py            names them
python tests/bench/run.py NAME [ARGUMENT …]
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case []:
            print(*sorted(names()), sep="\n")
            return 0
        case [name, *more] if name in names():
            return run(name, *more)
        case _:
            print(f"there is no benchmark {arguments[0]!r}; there are {', '.join(sorted(names()))}")
            return 2


def names() -> set[str]:
    return {path.stem for path in HERE.glob("*.py") if "__main__" in path.read_text("utf-8")} - {"run"}


def run(name: str, *arguments: str) -> int:
    print(f"## {name}\n", flush=True)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": path})
    print(flush=True)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
