"""A recorded run on the till: replayed without a model, stopped where the product is
other, healed by a planner.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome
from pytest_vnc_use.errors import RecordingDrifted, RecordingError
from pytest_vnc_use.recordings.course import Allowances, Course
from pytest_vnc_use.recordings.drift import RECORDED_TOO_EARLY
from pytest_vnc_use.recordings.format import RecordedStep, Screen, Segment
from pytest_vnc_use.recordings.gates import mask_of
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.report.html import run_html
from pytest_vnc_use.report.screenshots import data_uri
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.types import (
    Action,
    Click,
    Limits,
    MouseUp,
    Region,
    TakeScreenshot,
    TypeText,
    Wait,
)
from support.memory_desktop import PaintedController, painted, replayed
from support.paths import PROGRAMS
from support.tills import ADD_WHEN_MOVED, LATER, PAY, STEPS, TASK, Steps, Tills

pytestmark = pytest.mark.desktop

AS_IT_SHOULD_BE = "alice pays 5.00"
SOON_S = 5.0
"""How long a gate is waited for that will not open."""


def contents(tills: Tills) -> dict[str, bytes]:
    """All files of the recording."""
    directory = tills.key.path.parent
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_replay_repeats_steps_without_planner(recorded: Tills) -> None:
    before = contents(recorded)
    planner = Steps()
    with recorded.agent("auto", planner) as played:
        result = played.run()
        assert (result.outcome, played.total) == (Outcome.DONE, AS_IT_SHOULD_BE)
        assert [step.proposal.action for step in result.steps] == [*STEPS]
        assert not played.recorded.write()
    trace = read_trace(result.run_dir)
    assert (planner.seen, trace.exchanges, trace.drifts) == ([], (), ())
    assert contents(recorded) == before
    steps = [
        json.loads(line.strip().rstrip(","))
        for line in recorded.key.path.read_text("utf-8").splitlines()
        if '"action"' in line
    ]
    assert [step["intent"] for step in steps] == [
        "step 1",
        "step 2",
        "step 3",
        "step 4",
    ]
    assert sum(map(len, before.values())) < 60_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "steps"),
    [("stale status", 4), ("lasting banner", 2)],
)
def test_replay_of_changed_product_drifts(
    recorded: Tills, fault: str, steps: int
) -> None:
    before = contents(recorded)
    with recorded.agent("replay", None, f"--fault={fault}", gate_s=SOON_S) as played:
        with pytest.raises(
            RecordingDrifted, match=r"(?s)^drift .*--vnc-record=rewrite"
        ):
            played.run()
        directory = played.agent.runs[-1]
    trace = read_trace(directory)
    assert len(trace.steps) == steps
    (drift,) = trace.drifts
    assert not drift.healed
    assert RunDirectory(directory).load_png(drift.recorded) != RunDirectory(
        directory
    ).load_png(drift.seen)
    html = run_html(directory, link=data_uri)
    assert "as recorded" in html
    assert drift.problem.split(":")[0] in html
    assert contents(recorded) == before


def test_drift_before_later_step_ends_with_mask_command(recorded: Tills) -> None:
    with (
        recorded.agent("replay", None, "--fault=wrong total", gate_s=1.0) as played,
        pytest.raises(RecordingDrifted) as drift,
    ):
        played.run()
    first, task, *remedies = str(drift.value).splitlines()
    assert first.startswith(
        "drift before step 3 of 4, click at (140, 224): a different effect of step 2 of"
        " 4, click at (140, 224): "
    )
    assert task == f"  task: {TASK}"
    assert (
        re.findall(r"--vnc-[=\w]+(?: --vnc-ui)?", "".join(remedies))[0]
        == "--vnc-record=accept --vnc-ui"
    )
    mask = (
        r"If that region .* mask it \(([\d,]+) px\) in the test \(all 5 gates\):"
        r"\n  cua-vnc mask (\S+) ([\d, ]+)$"
    )
    command = re.match(mask, "\n".join(remedies[-4:-2]))
    assert command, remedies
    assert command[2] == recorded.key.node_id
    regions = [Region(*map(int, text.split(","))) for text in command[3].split()]
    line_of_total = Region(62, 134, 212, 146)
    assert any(region.joined(line_of_total) == region for region in regions), (
        "the line, and not today's digit"
    )
    assert command[1] == f"{int(mask_of(regions, (400, 800)).sum()):,}"


@pytest.mark.parametrize(
    ("fault", "first", "remedy"),
    [
        ("all", "drift before step 1 of 4, type ", "check that the program, .* is run"),
        (
            "dark",
            "drift: other colours nearly everywhere from (0, 0) to (800, 400), as in"
            " another theme, before step 1 of 4, ",
            "start it with the recorded theme",
        ),
        (
            "stuck",
            "drift: nothing changed on the screen after step 3 of 4, click at (140,"
            " 224); the program still runs\n",
            "If the program hangs, or ignores the step, the product has a bug",
        ),
    ],
)
def test_screen_as_whole_offers_no_mask(
    recorded: Tills, fault: str, first: str, remedy: str
) -> None:
    if fault == "all":
        recorded.program = LATER
    with (
        recorded.agent("replay", None, f"--fault={fault}", gate_s=1.0) as played,
        pytest.raises(RecordingDrifted, match=remedy) as error,
    ):
        played.run()
    assert str(error.value).startswith(first)
    assert "mask" not in str(error.value)
    (drift,) = read_trace(played.agent.runs[-1]).drifts
    assert drift.boxes
    assert drift.masks == ()


@pytest.mark.parametrize("fault", ["deaf", "stuck"])
def test_first_step_without_effect_may_have_come_too_soon(
    recorded: Tills, fault: str
) -> None:
    with (
        recorded.agent("replay", None, f"--fault={fault}", gate_s=1.0) as played,
        pytest.raises(RecordingDrifted, match="nothing changed") as error,
    ):
        played.run()
    is_first = fault == "deaf"
    assert ("was not ready for input yet" in str(error.value)) == is_first


class Clicked(PaintedController):
    """A desktop that doubles clicks near each other only, or anywhere."""

    doubles_only_near = False


@pytest.mark.parametrize(
    ("second", "only_near", "waits_s"),
    [
        (Click(20, 0), False, 0.52),
        (Click(21, 0), False, 0.28),
        (Click(21, 0), True, 0.0),
        (MouseUp(0, 0), False, 0.0),
    ],
)
def test_click_after_click_waits(
    second: Action, only_near: bool, waits_s: float
) -> None:
    desktop = Clicked()
    desktop.doubles_only_near = only_near
    replay = Replay(desktop, Course(Segment(task="Click", end=Screen())))
    for action in (Click(0, 0), second):
        replay.perform(action)  # type: ignore[arg-type]
    waited = [
        action.duration_s for action in desktop.performed if isinstance(action, Wait)
    ]
    assert waited == ([pytest.approx(waits_s, abs=0.1)] if waits_s else [])


class Loading(PaintedController):
    """A desktop whose screen is another one after each wait."""

    @property
    def shade(self) -> int:
        return 100 * sum(isinstance(action, Wait) for action in self.performed)


def one_click(first_stays_s: float = 0.0) -> Segment:
    """A click on the screen on which a desktop begins, which changes nothing."""
    first = Screen(pixels=lambda: pixels_in(painted(0)))
    step = RecordedStep(action=Click(20, 0), screen=first)
    return Segment(task="Click", steps=(step,), end=first, first_stays_s=first_stays_s)


def rehearsed_click(desktop: PaintedController) -> list[Action]:
    """Rehearse the click; return what was done."""
    allowances = Allowances(rehearsal=Rehearsal([]))
    return replayed(Replay(desktop, Course(one_click(), allowances)))


def test_rehearsal_begins_on_screen_that_stays() -> None:
    assert rehearsed_click(PaintedController(repaint=False)) == [Click(20, 0)]


def test_replay_waits_on_first_screen_as_was_learned() -> None:
    desktop = PaintedController(repaint=False)
    replayed(Replay(desktop, Course(one_click(first_stays_s=0.1))))
    assert desktop.performed == [Wait(0.1), Click(20, 0)]


def test_rehearsal_does_not_begin_on_screen_that_loads() -> None:
    """It was recorded too early, and would repeat only where all is as slow."""
    problem = f"(?s)after it was as recorded\n.*{re.escape(RECORDED_TOO_EARLY)}"
    with pytest.raises(RecordingDrifted, match=problem):
        rehearsed_click(Loading())


@pytest.mark.slow
def test_planner_heals_changed_product_and_is_recorded(recorded: Tills) -> None:
    moved = "--fault=moved button"
    planner = Steps(Click(*ADD_WHEN_MOVED), Click(*ADD_WHEN_MOVED), Click(*PAY))
    with recorded.agent("auto", planner, moved, gate_s=SOON_S) as played:
        result = played.run()
        assert result.outcome == Outcome.DONE
        assert played.total == AS_IT_SHOULD_BE
        assert len(result.steps) == 4
        (healed,) = played.recorded.healed
        assert "before step 2 of 4" in healed
        assert played.recorded.write()
    assert [step.id for step in recorded.recording.steps] == ["s1", "s5", "s6", "s7"]
    assert [segment.id for segment in recorded.recording.segments] == ["t1"]
    assert read_trace(result.run_dir).drifts[0].healed
    first = planner.seen[0]
    assert first.task.startswith(TASK)
    assert "performed already" in first.task
    assert "text='alice'" in first.task
    assert [len(observation.turns) for observation in planner.seen] == [0, 1, 2, 3]
    with recorded.agent("replay", None, moved) as played:
        assert played.run().outcome is Outcome.DONE
        assert played.recorded.healed == []


def record_late_answer(tills: Tills) -> None:
    """Record a click whose answer takes 4 s, and a click after it."""
    planner = Steps(Click(140, 224), Wait(6), Click(700, 50))
    with tills.agent("auto", planner, "--error-after=4") as played:
        played.run()
        assert played.recorded.write()


@pytest.mark.slow
def test_gate_waits_three_times_as_long_as_it_took(tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    record_late_answer(tills)
    screens = tills.recording.segments[0].screens
    first_s, took_s, end_s = [screen.appeared_s for screen in screens]
    assert first_s == end_s == 0
    # a busy machine shows it later
    assert 4 <= took_s < 8
    late = ("replay", None, "--error-after=8")
    with tills.agent(*late, gate_s=1.0) as played:
        result = played.agent.run(TASK, limits=Limits(20, 7.0), check=True)
        assert result.outcome is Outcome.DONE
    waited = rf"\(waited {3 * took_s:.0f} s: recorded after {took_s:.0f} s\)"
    with (
        tills.agent("replay", gate_s=1.0) as played,
        pytest.raises(RecordingDrifted, match=waited),
    ):
        played.run()


def test_pointer_is_moved_where_difference_is_under_it(tmp_path: Path) -> None:
    buttons = Tills(tmp_path, (PROGRAMS / "resting_pointer.py",))
    with buttons.agent("auto", Steps(Click(160, 120))) as played:
        played.run()
        assert played.recorded.write()
    with buttons.agent("replay", None, "--late") as played:
        played.run()


def test_replay_of_other_task_raises(recorded: Tills) -> None:
    with (
        recorded.agent("replay") as played,
        pytest.raises(RecordingError, match="no recording of the task 'Pay'"),
    ):
        played.run("Pay")


def test_screen_of_other_size_performs_nothing(recorded: Tills) -> None:
    with recorded.agent("replay", None, size=(640, 400)) as played:
        with pytest.raises(
            RecordingError, match="800x400 pixels, but this one has 640x400"
        ):
            played.run()
        assert '"step_started"' not in (
            played.agent.runs[-1] / "trace.jsonl"
        ).read_text(encoding="utf-8")


@pytest.mark.slow
def test_secret_is_recorded_as_placeholder_without_waits(tills: Tills) -> None:
    secrets = {"WHO": "wonderland7"}
    steps = (TypeText("<secret:WHO>", 200, 60), TakeScreenshot(), Wait(0.1), *STEPS[1:])
    with tills.agent("auto", Steps(*steps), secrets=secrets) as played:
        played.run("Enter <secret:WHO> and pay")
        played.recorded.write()
    files = b"".join(contents(tills).values())
    assert b"<secret:WHO>" in files
    assert b"wonderland7" not in files
    recording = tills.recording
    assert [step.action for step in recording.segments[0].steps] == [
        steps[0],
        *STEPS[1:],
    ]
    with tills.agent("replay", secrets=secrets) as played:
        played.run("Enter <secret:WHO> and pay")
        assert played.total == "wonderland7 pays 5.00"
    with pytest.raises(
        RecordingError, match=r"with parameters \[\] and secrets \['WHO'\]"
    ):
        tills.agent("replay")
