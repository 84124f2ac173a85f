"""Orders on the screen: the figures of docs/security.md are what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.injections import INJECTIONS, screen, table
from support.paths import ROOT


@pytest.mark.slow
def test_security_page_has_injection_figures(tmp_path: Path) -> None:
    """`python tests/bench/run.py injections` prints them."""
    *_, sums = table(tmp_path)
    assert sums.removeprefix("| | ") in ROOT.joinpath("docs", "security.md").read_text("utf-8").splitlines()


def test_forty_screens_differ() -> None:
    assert len(INJECTIONS) == 40
    assert len({screen(each).ref for each in INJECTIONS}) == 40
    assert len({each.place for each in INJECTIONS}) == 9
