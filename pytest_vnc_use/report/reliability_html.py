"""The reliability of repeated tests, as a block of HTML for the head of pytest-html's report."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

from PIL import Image

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.assets import data_uri
from pytest_vnc_use.report.reliability import repetition_of
from pytest_vnc_use.report.results import Divergence, Reliability, Side
from pytest_vnc_use.runs.folder import RunFolder

_WIDTH_PX = 720
_STYLE = "border-collapse: collapse; margin: 0 0 1em"
_CELL = "border: 1px solid #ccc; padding: 4px 8px; text-align: left; vertical-align: top"


def reliability_html(found: Sequence[Reliability]) -> str:
    """Return a row for each test; below it, where two of its runs diverge: the action of each, and its screen.

    The pictures are inside the block, scaled down. All text of a task or a model is escaped.
    """
    most = max(each.repeated for each in found)
    head = "".join(f'<th style="{_CELL}">{name}</th>' for name in ("Test", "Passed", "Rate (95 %)", f"pass^{most}"))
    rows = "".join(map(_rows, found))
    return f'<h2>Reliability</h2><table class="vnc-reliability" style="{_STYLE}"><tr>{head}</tr>{rows}</table>'


def _rows(found: Reliability) -> str:
    cells = (
        found.test,
        f"{found.passed} of {found.repeated}",
        f"{found.rate:.0%} ({found.rate_low:.0%} to {found.rate_high:.0%})",
        f"{found.pass_k:.2f} ({found.pass_k_low:.2f} to {found.pass_k_high:.2f})",
    )
    row = "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells)
    parted = f'<tr><td colspan="4" style="{_CELL}">{_parted(found.divergence)}</td></tr>' if found.divergence else ""
    return f"<tr>{row}</tr>{parted}"


def _parted(divergence: Divergence) -> str:
    about = f", probably in \u201c{escape(divergence.sentence)}\u201d" if divergence.sentence else ""
    sides = "".join(f'<div style="flex: 1">{_side(side)}</div>' for side in divergence.sides)
    return f'Runs part at step {divergence.step}{about}<div style="display: flex; gap: 12px">{sides}</div>'


def _side(side: Side) -> str:
    did = f"<p><b>{escape(repetition_of(side.test))}</b> {escape(side.did)}</p>"
    return did + _picture(side) + f"<p>{escape(side.folder)}</p>"


def _picture(side: Side) -> str:
    if side.frame is None:
        return ""
    try:
        png = RunFolder(Path(side.folder)).load_png(side.frame)
    except RunFolderError as exc:
        return f"<p>no picture: {escape(str(exc))}</p>"
    return f'<img style="width: 100%" alt="the screen before the step" src="{data_uri(_scaled(png))}">'


def _scaled(png: bytes) -> bytes:
    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        picture.thumbnail((_WIDTH_PX, _WIDTH_PX))
        picture.save(file, "PNG")
    return file.getvalue()
