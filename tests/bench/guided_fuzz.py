"""Hostile input, guided by the code that it reaches: the targets of fuzz.py, under atheris. Run as a script:

python tests/bench/run.py guided_fuzz [--target NAME] [--seconds S]

Each target runs in a process of its own, for S seconds. atheris makes bytes, and a case draws its random numbers from
them, so a case that reaches new code is kept and changed further. A case that breaks a promise ends its target: the
error is printed, and the case as base64, which `--again BASE64` tries once more. Needs `pip install atheris` (Linux).
"""

from __future__ import annotations

import argparse
import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: pip install atheris")

_IS_FUZZED = "--here" in sys.argv
with atheris.instrument_imports(include=["pytest_vnc_use"]) if _IS_FUZZED else nullcontext():
    from support.fuzzing.everything import TARGETS
    from support.fuzzing.trial import Trial

_HANGS_S = 60
_LONGEST_CASE = 4096


class DrawnFrom(Random):
    """Random numbers that are drawn from given bytes, then from a generator that these bytes seed."""

    def __new__(cls, data: bytes) -> DrawnFrom:
        return super().__new__(cls)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._data, self._at = data, 0

    def getrandbits(self, k: int, /) -> int:
        """Return a number of so many bits."""
        drawn = self._data[self._at : self._at + -(-k // 8)]
        self._at += len(drawn)
        if 8 * len(drawn) < k:
            return super().getrandbits(k)
        return int.from_bytes(drawn, "big") >> (-k % 8)

    def random(self) -> float:
        """Return a number from 0 up to, and without, 1."""
        return self.getrandbits(24) / (1 << 24)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--again", help="the one case to try, of one target")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args(arguments)
    names = told.target or list(TARGETS)
    if told.here:
        _fuzz(names[0], told.seconds)
    if told.again is not None:
        with tempfile.TemporaryDirectory() as place, Trial(TARGETS[names[0]], Path(place)) as trial:
            trial.attempt(DrawnFrom(base64.b64decode(told.again)))
        return 0
    print("| target | cases | edges reached | features |\n|---|---|---|---|", flush=True)
    return max([_in_a_process(name, told.seconds) for name in names])


def _in_a_process(name: str, seconds: int) -> int:
    command = [sys.executable, __file__, "--here", f"--seconds={seconds}", "--target", name]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    reached = re.findall(r"^#(\d+)\s.* cov: (\d+) ft: (\d+)", ran.stderr, re.M)
    print(f"| {name} | {' | '.join(reached[-1]) if reached else 'none | |'} |", flush=True)
    if ran.returncode:
        found = ran.stdout.strip()[-2000:] + ran.stderr.strip()[-2000:]
        print(f"{name} broke a promise:\n{found}", flush=True)
    return ran.returncode


def _fuzz(name: str, seconds: int) -> None:
    place = tempfile.TemporaryDirectory()  # atheris ends this process; the folder is in its parent's own
    trial = Trial(TARGETS[name], Path(place.name)).__enter__()
    options = [f"-max_total_time={seconds}", f"-timeout={_HANGS_S}", f"-max_len={_LONGEST_CASE}", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *options], lambda data: trial.attempt(DrawnFrom(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
