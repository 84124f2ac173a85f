"""The reliability of repeated tests, as a block of HTML for the head of pytest-html's report."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.assets import data_uri
from pytest_vnc_use.report.page.png_pixels import open_png
from pytest_vnc_use.report.reliability import repetition_of
from pytest_vnc_use.report.results import DivergentRun, Reliability
from pytest_vnc_use.report.templates import render
from pytest_vnc_use.runs.folder import RunFolder

_WIDTH_PX = 720


def reliability_html(found: Sequence[Reliability]) -> str:
    """Return a row for each test; below it, where two of its runs diverge: the action of each, and its screen.

    The pictures are inside the block, scaled down.
    """
    most = max(each.repeated for each in found)
    heads = ("Test", "Passed", "Rate (95 %)", f"pass^{most}")
    return render("reliability", heads=heads, rows=[_row(each) for each in found])


def _row(found: Reliability) -> Mapping[str, object]:
    cells = (
        found.test,
        f"{found.passed} of {found.repeated}",
        f"{found.rate:.0%} ({found.rate_low:.0%} to {found.rate_high:.0%})",
        f"{found.pass_k:.2f} ({found.pass_k_low:.2f} to {found.pass_k_high:.2f})",
    )
    if (divergence := found.divergence) is None:
        return {"cells": cells, "sides": ()}
    about = f", probably in \u201c{divergence.sentence}\u201d" if divergence.sentence else ""
    sides = [_side(side) for side in divergence.sides]
    return {"cells": cells, "divergence": f"Runs part at step {divergence.step}{about}", "sides": sides}


def _side(side: DivergentRun) -> Mapping[str, str]:
    address = problem = ""
    try:
        address = data_uri(_scaled(RunFolder(Path(side.folder)).load_png(side.frame))) if side.frame else ""
    except RunFolderError as exc:
        problem = f"no picture: {exc}"
    name = repetition_of(side.test)
    return {"name": name, "did": side.did, "address": address, "problem": problem, "folder": side.folder}


def _scaled(png: bytes) -> bytes:
    file = io.BytesIO()
    picture = open_png(png)
    picture.thumbnail((_WIDTH_PX, _WIDTH_PX))
    picture.save(file, "PNG")
    return file.getvalue()
