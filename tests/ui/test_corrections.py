"""How a test must read once a claim was corrected."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.vnc_servers import require_package

require_package("starlette")
from pytest_vnc_use.ui.corrections import Corrections  # noqa: E402

CLAIM = "it says paid"
NEW = "it says open"
LINE = f'@vnc_task("Pay", expect="{CLAIM}")'


@pytest.mark.parametrize(
    ("source", "new", "text"),
    [
        (
            f"import x\n    {LINE}\n",
            NEW,
            f'line 2 of test_it.py must read `@vnc_task("Pay", expect="{NEW}")`',
        ),
        (
            f"{LINE}\n{LINE}\n",
            NEW,
            f'change the `expect` that has "{CLAIM}" to "{NEW}"',
        ),
        (
            'expect="it says "\n "paid"',
            NEW,
            f'change the `expect` that has "{CLAIM}" to "{NEW}"',
        ),
        (
            LINE,
            'it says "open"',
            'change line 1 of test_it.py to "it says "open""',
        ),
    ],
    ids=["once", "twice", "split", "quoted"],
)
def test_correction_names_line(
    tmp_path: Path, source: str, new: str, text: str
) -> None:
    module = tmp_path / "test_it.py"
    module.write_text(source, "utf-8")
    assert Corrections(module, "test_it.py").format(CLAIM, new) == text


def test_correction_without_file(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path / "gone.py", "gone.py")
    assert corrections.place_of(CLAIM) == f'the `expect` that has "{CLAIM}"'
