"""Real programs on TigerVNC: what was recorded passes again, also where harmless things are other.

All of it many times over: tests/bench/run.py foreign_programs, harmless.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.types import Click, TypeText
from support.programs_on_x import NOBODY, Desk, in_terminal
from support.screen_changes import CHANGES, NEEDS, record, replay
from support.vnc_servers import require

pytestmark = pytest.mark.desktop


@pytest.mark.slow
def test_separate_clicks_are_no_double_click(tmp_path: Path) -> None:
    """xterm selects a word by two clicks within 0.25 s, be they on different words."""
    require("xterm")
    steps = (Click(300, 200), TypeText("two apples\n"), Click(300, 300), Click(90, 80))
    with Desk(tmp_path) as desk, desk.driven("clicks", in_terminal("cat"), "auto", steps) as driven:
        driven.test()
        assert driven.recorded.keep()
    with Desk(tmp_path) as desk:
        for _ in range(3):
            with desk.driven("clicks", in_terminal("cat"), "replay") as driven:
                assert driven.seen_by() == NOBODY


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        "the window manager puts the window elsewhere",
        "the window manager has another theme",
        "a clock shows another time",
        "a caret blinks that did not",
        "the desktop has another colour",
        "up to 2 s before each reaction",
    ],
)
def test_harmless_change_is_never_product(tmp_path: Path, what: str) -> None:
    for program in NEEDS:
        require(program)
    change = CHANGES[what]
    with Desk(tmp_path) as desk:
        record(desk, change)
    with change.desk(tmp_path) as desk:
        assert replay(desk, change, "replay", gate_s=5.0)[0] in ("passed", "inconclusive")
        assert replay(desk, change, "auto", gate_s=5.0)[0] in ("passed", "healed")
