"""The end of a replay is watched, also while the test's body runs; the first screen is
waited for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pytest_vnc_use import Outcome, VncUseAgent, deadline
from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings import waiting
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.format import Screen, Segment
from pytest_vnc_use.recordings.life import Life, State
from pytest_vnc_use.recordings.moving import STABLE_S
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import CallFunction, Click, Frame, FrameRef, RawFrame, Region
from support.judges import Says
from support.tills import LATER, TASK, Played, Steps, Tills

desktop = pytest.mark.desktop
SAVE = Click(140, 224)
STATE = Region(500, 120, 740, 160)
RESULT = Region(60, 120, 300, 160)
SOON = "--error-after=0.3"
FAILS = "--go-fails"
BLINKS = "--blink=READY"


def record(directory: Path, *options: str, region: Region = RESULT) -> Tills:
    tills = Tills(directory, LATER)
    with tills.agent(
        "auto", Steps(SAVE), *options, judge=Says(region=region)
    ) as played:
        played.run()
        assert played.agent.assess("it is ready")
        played.agent.end_body()
        assert played.recorded.write()
    return tills


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return record(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def blinking(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return record(tmp_path_factory.mktemp("blinking"), BLINKS, region=STATE)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], [FAILS]], ids=["result", "error"])
@desktop
def test_change_after_last_gate_fails_test(saved: Tills, options: list[str]) -> None:
    with saved.agent("replay", None, *options) as played:
        assert played.run().outcome is Outcome.DONE
        gone(played)
        with pytest.raises(
            RecordingDrifted,
            match=(
                r"(?s)^drift at the end: .* px.*did not stay as"
                r" recorded.*--vnc-record=rewrite"
            ),
        ):
            played.agent.end_body()
    (drift,) = read_trace(played.agent.runs[-1]).drifts
    assert drift.recorded != drift.seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [lambda agent: agent.assess("it is ready"), lambda agent: agent.click(600, 350)],
    ids=["claim", "hand"],
)
@desktop
def test_end_is_watched_before_claims_and_hands(
    saved: Tills, act: Callable[[VncUseAgent], object]
) -> None:
    with saved.agent("replay") as played:
        played.run()
        gone(played)
        with pytest.raises(
            RecordingDrifted, match=r"drift at the end: .*did not stay as recorded"
        ):
            act(played.agent)


@pytest.mark.slow
@desktop
def test_late_error_of_task_closes_next_gate(tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    with tills.agent("auto", Steps(SAVE)) as played:
        played.run()
        played.run("Save it again")
        assert played.recorded.write()
    with tills.agent("replay") as played:
        assert played.run(TASK).outcome is Outcome.DONE
        assert played.run("Save it again").outcome is Outcome.DONE
    with tills.agent("replay", None, FAILS, gate_s=4.0) as played:
        played.recorded.queue_tasks(2)
        assert played.run().outcome is Outcome.DONE
        gone(played)
        with pytest.raises(
            RecordingDrifted,
            match=r"^drift (at the end|before step 1 of 1, click at .*): ",
        ):
            played.run("Save it again")


@pytest.mark.slow
@desktop
def test_body_may_change_screen_as_when_recorded(tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    with tills.agent("auto", Steps(SAVE)) as played:
        played.run()
        gone(played)
        played.agent.end_body()
        assert played.recorded.write()
    assert not tills.recording.segments[0].stays
    with tills.agent("replay") as played:
        played.run()
        gone(played)
        played.agent.end_body()
    with (
        tills.agent("replay", None, SOON) as played,
        pytest.raises(RecordingDrifted, match=r"^drift at the end: "),
    ):
        played.run()  # here the body cannot run meanwhile


def gone(played: Played) -> None:
    """Have the program show something else, as a body may do that talks to a server."""
    timestamp = time.monotonic()
    played.desktop.write_file("go", "")
    assert played.agent.controller.wait_changed(timestamp, 10.0)


@desktop
def test_transient_at_end_is_listed(saved: Tills) -> None:
    (recorded,) = saved.recording.segments
    assert (recorded.end.stable_s, recorded.stays) == (STABLE_S, True)
    with saved.agent("replay", None, SOON, "--error-for=0.5") as played:
        played.run()
        played.agent.end_body()
    (note,) = played.recorded.transients.messages
    assert "the screen showed a transient that is not recorded" in note
    (transient,) = read_trace(played.agent.runs[-1]).transients
    assert transient.region.meets(Region(0, 260, 800, 400))


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["step", "end"])
@desktop
def test_blinking_status_has_two_variants(blinking: Tills, gate: str) -> None:
    (recorded,) = blinking.recording.segments
    screen = recorded.end if gate == "end" else recorded.steps[0].screen
    (part,) = screen.dynamic
    assert (part.kind, len(part.variants)) == ("blinks", 2)
    assert part.region.meets(STATE)


@pytest.mark.slow
@desktop
def test_blinking_status_is_evidence(blinking: Tills) -> None:
    with blinking.agent("replay", None, BLINKS) as played:
        played.run()
        assert played.agent.assess("it is ready").kind == "holds"
        played.agent.end_body()


@pytest.mark.slow
@pytest.mark.parametrize("other", ["--blink=ERROR", "--steady=READY"])
@desktop
def test_status_that_blinks_otherwise_drifts(blinking: Tills, other: str) -> None:
    with (
        blinking.agent("replay", None, other, gate_s=5.0) as played,
        pytest.raises(RecordingDrifted, match="before step 1 of 1") as drift,
    ):
        played.run()
    assert "recorded variants" in str(drift.value)


@pytest.mark.slow
@desktop
def test_other_answer_of_function_drifts(tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    answers = ["packed"]

    def order_status(number: int) -> str:
        """The status of an order."""
        return answers[0]

    with tills.agent(
        "auto",
        Steps(CallFunction("order_status", {"number": 17})),
        functions=[order_status],
    ) as played:
        played.run()
        assert played.recorded.write()
    with tills.agent("replay", functions=[order_status]) as played:
        assert played.run().outcome is Outcome.DONE
        answers[0] = "LOST"
    with (
        tills.agent("replay", functions=[order_status]) as played,
        pytest.raises(
            RecordingDrifted,
            match="order_status answered 'LOST', but in the recording 'packed'",
        ),
    ):
        played.run()


END = Screen(stable_s=STABLE_S, pixels=lambda: np.zeros((2, 2), np.uint32))
BANNER = 9


class Watched:
    """A desktop whose screen changes at these moments, as a replay asks for it, and its
    clock.
    """

    def __init__(self, changes: dict[float, int]) -> None:
        self.now_s = 0.0
        self._changes = changes

    def monotonic(self) -> float:
        return self.now_s

    def shown(self) -> np.ndarray[Any, Any]:
        shade = [shade for at_s, shade in self._changes.items() if at_s <= self.now_s][
            -1:
        ]
        return np.full((2, 2), *(shade or [0]), np.uint32)

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        due_s = min(
            (at_s for at_s in self._changes if at_s > timestamp), default=float("inf")
        )
        is_due = due_s <= self.now_s + timeout_s
        self.now_s = max(self.now_s, due_s) if is_due else self.now_s + timeout_s
        return is_due

    def changed_since(self, timestamp: float) -> bool:
        return any(timestamp < at_s <= self.now_s for at_s in self._changes)

    def raw_frame(self) -> RawFrame:
        return RawFrame(self.shown(), self.now_s)

    def frame(self) -> Frame:
        return Frame(FrameRef("0" * 64, 2, 2), b"", self.now_s, pixels=self.shown())


@pytest.mark.parametrize(
    ("changes", "stable_s", "setting_s", "watched_s"),
    [
        ({}, STABLE_S, STABLE_S, STABLE_S),
        # a caret, not yet known as one
        ({0.5: 1, 1.1: 0, 1.7: 1, 2.3: 0}, STABLE_S, STABLE_S, STABLE_S),
        ({0.5: BANNER, 0.9: 0}, STABLE_S, STABLE_S, 0.9 + STABLE_S),
        ({}, STABLE_S, 5.0, 5.0),
        ({}, 0.0, 5.0, 0.0),
    ],
)
def test_watch_lasts_as_set_and_restarts_after_change(
    changes: dict[float, int],
    stable_s: float,
    setting_s: float,
    watched_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(changes)
    monkeypatch.setattr(waiting, "clock", watched)
    run = Segment(task="Watch", end=END.model_copy(update={"stable_s": stable_s}))
    course = Course(run, life=Life(State.FINISHED))
    replay = Replay(cast(Any, watched), course, limit_s=10, watch_s=setting_s)
    assert replay.watch_end() is None
    assert watched.now_s == pytest.approx(watched_s)


@pytest.mark.parametrize(
    ("first_screen_s", "closed_s"),
    [(0.6, 30.0), (None, 30.0), (12.0, 36.0)],
    ids=["soon", "unknown", "late"],
)
def test_first_screen_is_waited_for_longer(
    first_screen_s: float | None, closed_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched({0.0: BANNER})
    for module in (waiting, deadline):
        monkeypatch.setattr(module, "clock", watched)
    Replay(
        cast(Any, watched),
        Course(Segment(task="Start", end=END, first_screen_s=first_screen_s)),
        limit_s=10,
    ).frame()
    assert watched.now_s == pytest.approx(closed_s, abs=0.3)
