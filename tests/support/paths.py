"""The paths of this project's folders and programs."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"
PROGRAMS = Path(__file__).with_name("programs")
PAD = PROGRAMS / "pad.py"
