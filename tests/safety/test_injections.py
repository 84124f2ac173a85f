"""Orders on the screen: the figures of docs/security.md are what happens."""

from __future__ import annotations

from pathlib import Path

from support.injections import table
from support.paths import ROOT


def test_security_page_has_injection_figures(tmp_path: Path) -> None:
    """`python tests/bench/run.py injections` prints them."""
    *_, sums = table(tmp_path)
    assert (
        sums.removeprefix("| | ")
        in ROOT.joinpath("docs", "security.md").read_text("utf-8").splitlines()
    )
