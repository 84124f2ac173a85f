"""Orders on the screen: the table of docs/security.md is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.injections import INJECTIONS, screen, table

PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_table_on_the_page_is_what_happens(tmp_path: Path) -> None:
    """`python tests/bench/run.py injections` prints it."""
    page = PAGES.joinpath("security.md").read_text("utf-8")
    found = re.search(r"^\| # \|.*\n(?:\|.*\n)+", page, re.MULTILINE)
    assert found
    assert found[0].splitlines() == list(table(tmp_path))


def test_there_are_forty_screens_of_each_kind_and_no_two_are_alike() -> None:
    assert len(INJECTIONS) == 40
    assert len({screen(each).ref for each in INJECTIONS}) == 40
    assert len({each.place for each in INJECTIONS}) == 9
