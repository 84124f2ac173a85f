"""One benchmark, in a process of its own:

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


def main(arguments: Sequence[str]) -> int:
    names = sorted(
        {
            path.stem
            for path in HERE.glob("*.py")
            if "__main__" in path.read_text("utf-8")
        }
        - {"run"}
    )
    if not arguments or arguments[0] not in names:
        print(
            (
                f"there is no benchmark {arguments[0]!r}; there are:"
                if arguments
                else "benchmarks:"
            ),
            *names,
            sep="\n",
        )
        return 2 if arguments else 0
    name, *more = arguments
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / f"{name}.py"), *more]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
