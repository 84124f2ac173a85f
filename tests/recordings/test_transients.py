"""What a replay shows in between, and its recording did not: told, and no more than that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.types import Decision, Observation
from support.tills import STEPS, Steps, Tills

pytestmark = pytest.mark.desktop


def replayed(tills: Tills, *till: str) -> tuple[list[str], Path]:
    """Replay the recording to the test's end; return what was told of it, and its run directory."""
    with tills.agent("replay", None, *till) as played:
        result = played.run()
        played.agent.end_body()
        return played.recorded.transients, result.run_dir


@pytest.mark.parametrize(
    ("fault", "when", "corner"),
    [
        ("toast", "after step 2 of 4", (500, 300)),
        ("banner", "after step 2 of 4", (60, 120)),
        ("error box", "after the last step", (500, 300)),
    ],
)
def test_transient_is_listed_with_its_frame(recorded: Tills, fault: str, when: str, corner: tuple[int, int]) -> None:
    told, directory = replayed(recorded, f"--fault={fault}")
    assert told, fault
    assert when in told[0] or "after step 4 of 4" in told[0]
    assert "the screen showed an unrecorded transient frame, from (" in told[0]
    transients = read_trace(directory).transients
    assert [each.problem for each in transients] == told
    regions = [each.region for each in transients]
    assert any(0 <= each.left - corner[0] < 200 and 0 <= each.top - corner[1] < 40 for each in regions), regions
    assert all(RunDirectory(directory).load_png(each.seen) for each in transients)


@pytest.mark.slow
def test_unchanged_or_slow_replay_lists_no_transient(recorded: Tills) -> None:
    assert replayed(recorded)[0] == []
    assert replayed(recorded, "--slow=1")[0] == []


@pytest.mark.slow
def test_recorded_transient_may_pass_again(tills: Tills) -> None:
    with tills.agent("auto", Steps(*STEPS), "--fault=toast") as played:
        played.run()
        assert played.recorded.keep()
    recording = load(tills.key.path)
    assert recording is not None
    assert any(step.transients for step in recording.runs[0].steps), "of step 2, 3 or both, as they were looked at"
    assert replayed(tills, "--fault=toast")[0] == []


@pytest.mark.slow
def test_window_drawn_in_pieces_is_no_transient(tills: Tills) -> None:
    with tills.agent("auto", Steps(*STEPS), "--panel=0") as played:
        played.run()
        assert played.recorded.keep()
    assert replayed(tills, "--panel=0.6", "--slow=0.5")[0] == []


class Slow(Steps):
    """A planner that thinks for so long before each step after the first two."""

    def __init__(self, thinks_s: float) -> None:
        super().__init__(*STEPS)
        self._thinks_s = thinks_s

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        if len(observation.turns) >= 2:
            time.sleep(self._thinks_s)
        return super().decide(observation, timeout_s=timeout_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "thinks_s", "corner", "acts_beside_it"),
    [("long toast", 6.5, (520, 305), True), ("toast on Pay", 3.5, (540, 208), False)],
)
def test_recorded_toast_delays_only_steps_on_it(
    tills: Tills, fault: str, thinks_s: float, corner: tuple[int, int], acts_beside_it: bool
) -> None:
    with tills.agent("auto", Slow(thinks_s), f"--fault={fault}") as played:
        played.run()
        assert played.recorded.keep()
    with tills.agent("replay", None, f"--fault={fault}") as played:
        result = played.run()
        played.agent.end_body()
        assert played.recorded.transients == []
    x, y = corner
    before_paying = pixels_of(RunDirectory(result.run_dir).load_png(result.steps[3].frame_before))
    assert (before_paying[y, x] == 0xFFE0A0) == acts_beside_it
