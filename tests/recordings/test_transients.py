"""What a replay shows in between, and its recording did not: told, and no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.runs.folder import RunFolder, read_trace
from support.tills import STEPS, Steps, Tills

pytestmark = pytest.mark.desktop


def replayed(tills: Tills, *till: str) -> tuple[list[str], Path]:
    """Replay the recording to the test's end; return what was told of it, and its run folder."""
    with tills.agent("replay", None, *till) as played:
        result = played.run()
        played.agent.end_body()
        return played.recorded.transients, result.run_folder


@pytest.mark.parametrize(
    ("fault", "when", "corner"),
    [
        ("toast", "after step 2 of 4", (500, 300)),
        ("banner", "after step 2 of 4", (60, 120)),
        ("error box", "after the last step", (500, 300)),
    ],
)
def test_what_is_there_for_a_moment_is_told_with_its_picture(
    recorded: Tills, fault: str, when: str, corner: tuple[int, int]
) -> None:
    told, folder = replayed(recorded, f"--fault={fault}")
    assert told, fault
    assert when in told[0] or "after step 4 of 4" in told[0]
    assert "the screen showed an unrecorded transient frame, from (" in told[0]
    transients = read_trace(folder).transients
    assert [each.problem for each in transients] == told
    regions = [each.region for each in transients]
    assert any(0 <= each.left - corner[0] < 200 and 0 <= each.top - corner[1] < 40 for each in regions), regions
    assert all(RunFolder(folder).load_png(each.seen) for each in transients)


@pytest.mark.slow
def test_nothing_is_told_of_a_replay_that_shows_what_was_recorded(recorded: Tills) -> None:
    assert replayed(recorded)[0] == []
    assert replayed(recorded, "--slow=1")[0] == []


@pytest.mark.slow
def test_what_was_recorded_as_passing_may_pass_again(tills: Tills) -> None:
    with tills.agent("auto", Steps(*STEPS), "--fault=toast") as played:
        played.run()
        assert played.recorded.keep()
    recording = load(tills.key.path)
    assert recording is not None
    assert [len(step.transients) > 0 for step in recording.runs[0].steps] == [False, True, True, False]
    assert replayed(tills, "--fault=toast")[0] == []


@pytest.mark.slow
def test_a_window_that_is_drawn_late_and_piece_by_piece_is_none(tills: Tills) -> None:
    with tills.agent("auto", Steps(*STEPS), "--panel=0") as played:
        played.run()
        assert played.recorded.keep()
    assert replayed(tills, "--panel=0.6", "--slow=0.5")[0] == []
