"""A step after which only a blinking caret is elsewhere: its gate opens once the caret has come there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Click, KeyCombo
from support.programs_on_x import Desk, in_terminal
from support.vnc_servers import require

NAME = "a caret is moved"
STEPS = (Click(300, 200), *(KeyCombo((key,)) for key in "abc"))
"""TigerVNC's pointer leaves the image with the first of them."""


def terminal(moves: str) -> str:
    """A blinking caret that each key makes do so."""
    keys = f'stty raw -echo; while [ -n "$(dd bs=1 count=1 2>/dev/null)" ]; do {moves}; done'
    return in_terminal(keys).replace("xterm", "xterm -bc", 1)


AT_ONCE, SLOWLY, NEVER = (terminal(moves) for moves in (r"printf '\033[5C'", r"sleep 1.5; printf '\033[5C'", ":"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """With a recording of `STEPS`, which were done on another desktop."""
    require("xterm")
    directory = tmp_path_factory.mktemp("carets")
    with Desk(directory) as desk, desk.driven(NAME, AT_ONCE, "auto", STEPS) as driven:
        driven.run()
        assert driven.recorded.keep()
    with Desk(directory) as desk:
        yield desk


@pytest.mark.slow
@pytest.mark.desktop
@pytest.mark.parametrize("command", [AT_ONCE, SLOWLY])
def test_moved_caret_is_waited_for(desk: Desk, command: str) -> None:
    recording = load(desk.key(NAME).path)
    assert recording is not None
    (run,) = recording.runs
    with desk.driven(NAME, command, "replay") as driven:
        result = driven.run()
    directory = RunDirectory(result.run_dir)
    screens = [*(step.screen for step in run.steps[2:]), run.end]
    for step, after in zip(result.steps[1:], screens, strict=True):
        (caret,) = after.dynamic
        box = slice(caret.top, caret.bottom), slice(caret.left, caret.right)
        before, seen = (pixels_of(directory.load_png(frame)) for frame in (step.frame_before, step.frame_after))
        assert (before[box] != seen[box]).any()


@pytest.mark.slow
def test_unmoved_caret_drifts(desk: Desk) -> None:
    with (
        desk.driven(NAME, NEVER, "replay", gate_s=10.0) as driven,
        pytest.raises(RecordingDrifted, match="before step 3 of 4"),
    ):
        driven.run()
