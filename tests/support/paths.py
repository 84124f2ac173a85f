"""Where things of this project are, and the commands of programs under test."""

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"
PROGRAMS = Path(__file__).with_name("programs")
PAD = [sys.executable, str(PROGRAMS / "pad.py")]
"""The command of the pad, a small Qt program."""
PAD_LINE = shlex.join(PAD)
"""The same as a command line, for `--vnc-app`."""
