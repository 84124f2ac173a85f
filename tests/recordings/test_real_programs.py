"""Real programs on TigerVNC: what was recorded passes again, also where harmless things
are other.

All of it many times over: tests/bench/run.py foreign_programs, harmless.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Click, KeyCombo, Region, Step, TypeText
from support.programs_on_x import CHANGES, NEEDS, Desk, in_terminal, record, replay
from support.vnc_servers import require

pytestmark = pytest.mark.desktop

SOON_S = 5.0
"""How long a gate is waited for that will not open."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "is_drift"),
    [
        ("the window manager puts the window elsewhere", True),
        ("a caret blinks that did not", False),
        ("up to 2 s before each reaction", False),
    ],
)
def test_harmless_change_is_never_product(
    tmp_path: Path, what: str, *, is_drift: bool
) -> None:
    for program in NEEDS:
        require(program)
    change = CHANGES[what]
    desk = Desk(tmp_path)
    record(desk, change)
    assert replay(desk, change, "replay", gate_s=SOON_S)[0] == (
        "inconclusive" if is_drift else "passed"
    )
    assert replay(desk, change, "auto", gate_s=SOON_S)[0] == (
        "healed" if is_drift else "passed"
    )


CARET = "a caret is moved"
CARET_STEPS = (Click(300, 200), *(KeyCombo((key,)) for key in "abc"))
"""TigerVNC's pointer leaves the image with the first of them."""


def terminal(moves: str) -> str:
    """A blinking caret that each key makes do so."""
    keys = (
        f'stty raw -echo; while [ -n "$(dd bs=1 count=1 2>/dev/null)" ]; do {moves};'
        " done"
    )
    return in_terminal(keys).replace("xterm", "xterm -bc", 1)


@pytest.mark.slow
def test_moved_caret_is_waited_for(tmp_path: Path) -> None:
    require("xterm")
    with Desk(tmp_path).driven(
        CARET, terminal(r"printf '\033[5C'"), "auto", CARET_STEPS
    ) as driven:
        driven.run()
        assert driven.recorded.write()
    recording = load(Desk(tmp_path).key(CARET).path)
    assert recording is not None
    (run,) = recording.segments
    slowly = terminal(r"sleep 1.5; printf '\033[5C'")
    with Desk(tmp_path).driven(CARET, slowly, "replay") as driven:
        result = driven.run()
    directory = RunDirectory(result.run_dir)
    carets = []
    for screen in (*(step.screen for step in run.steps[2:]), run.end):
        (caret,) = screen.dynamic
        carets.append(caret.region)

    def moved(step: Step, caret: Region) -> bool:
        """Return whether the caret of the screen after the step was not there before."""
        before = pixels_of(directory.load_png(step.frame_before))
        seen = pixels_of(directory.load_png(step.frame_after))
        return bool((caret.part_of(before) != caret.part_of(seen)).any())

    assert all(map(moved, result.steps[1:], carets))
    assert len(carets) == len(result.steps) - 1


SUGGESTS = """
import os, time, tty
tty.setcbreak(0)
typed_at = 0
print("ready")
while key := os.read(0, 16):
    if key.startswith(b"\\33"):
        print(" chosen" if time.monotonic() - typed_at > 0.35 else " too early", flush=True)
    else:
        os.write(1, key)
        typed_at = time.monotonic()
"""


@pytest.mark.slow
def test_replay_waits_for_list_off_screen(tmp_path: Path) -> None:
    require("xterm")
    command = shlex.join(
        ["xterm", "-geometry", "80x24+100+100", "-e", sys.executable, "-c", SUGGESTS]
    )
    steps = (Click(300, 200), TypeText("java"), KeyCombo(("down",)))
    desk = Desk(tmp_path)
    with desk.driven("list", command, "auto", steps) as driven:
        driven.run()
        assert driven.recorded.write()
    with desk.driven("list", command, "replay", gate_s=SOON_S) as driven:
        driven.run()
