"""Real programs on TigerVNC: what was recorded passes again, also where harmless things are other.

All of it many times over: tests/bench/run.py foreign_programs, harmless.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.types import Click, TypeText
from support.programs_on_x import NOBODY, PROGRAMS, Desk, Program, in_terminal
from support.screen_changes import CHANGES, NEEDS, record, replay
from support.vnc_servers import require

pytestmark = pytest.mark.desktop

SOON_S = 5.0
"""How long a gate is waited for that will not open."""


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("name", ["nano in xterm", "a page in chromium", "mousepad"])
def test_real_program_replays_other_version_drifts(tmp_path: Path, name: str) -> None:
    program = PROGRAMS[name]
    for needed in program.needs:
        require(needed)
    with (
        Desk(tmp_path) as desk,
        desk.playing(name, "auto") as driven,
    ):
        driven.test(program.saves)
        assert driven.recorded.keep()
    with Desk(tmp_path) as desk:
        for _ in range(3):
            with desk.playing(name, "replay") as driven:
                assert driven.seen_by(program.saves) == NOBODY
        with desk.playing(name, "replay", next(iter(program.changed)), gate_s=SOON_S) as driven:
            assert driven.seen_by(program.saves) != NOBODY


@pytest.mark.slow
def test_separate_clicks_are_no_double_click(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """xterm selects a word by two clicks within 0.25 s, be they on different words."""
    require("xterm")
    steps = (Click(300, 200), TypeText("two apples\n"), Click(300, 300), Click(90, 80))
    monkeypatch.setitem(PROGRAMS, "clicks", Program(("xterm",), in_terminal("cat"), {}, steps))
    with Desk(tmp_path) as desk, desk.playing("clicks", "auto") as driven:
        driven.test()
        assert driven.recorded.keep()
    with Desk(tmp_path) as desk:
        for _ in range(3):
            with desk.playing("clicks", "replay") as driven:
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
        assert replay(desk, change, "replay", gate_s=SOON_S)[0] in ("passed", "inconclusive")
        assert replay(desk, change, "auto", gate_s=SOON_S)[0] in ("passed", "healed")
