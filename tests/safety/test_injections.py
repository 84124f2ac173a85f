"""Orders on the screen: the figures of docs/security.md are what happens."""

from __future__ import annotations

import subprocess
import sys

from support.paths import ROOT, TESTS


def test_security_page_has_injection_figures() -> None:
    bench = [sys.executable, str(TESTS / "bench" / "run.py"), "injections"]
    done = subprocess.run(bench, capture_output=True, text=True, check=True)
    sums = done.stdout.splitlines()[-1].removeprefix("| | ")
    security = (ROOT / "docs" / "security.md").read_text("utf-8")
    assert sums in security.splitlines()
