"""The table of docs/claims.md: which tests pass by their assertion, and which do not."""

from __future__ import annotations

import re

import pytest

from support.bodies import in_body, nowhere as nowhere, outcomes
from support.paths import ROOT

ROW = re.compile(r"^\| `(.+)` \| (yes|no) \| [^|]+ \|$", re.MULTILINE)


def test_four_pass_and_four_do_not(pytester: pytest.Pytester) -> None:
    rows = ROW.findall((ROOT / "docs" / "claims.md").read_text(encoding="utf-8"))
    assert [passes for _, passes in rows] == ["yes"] * 4 + ["no"] * 4
    expected = ["passed" if passes == "yes" else "inconclusive" for _, passes in rows]
    assert outcomes(pytester, [in_body(line) for line, _ in rows]) == expected
