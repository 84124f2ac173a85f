"""The end of a replay: it is watched for as long as its recording was, also while the test's body runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.moving import QUIET_S
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import CallFunction, Click, Region
from support.fixed_judge import Says
from support.tills import LATER, Played, Steps, Tills

pytestmark = pytest.mark.desktop

SAVE = Click(140, 224)
STATE, RESULT = Region(500, 120, 740, 160), Region(60, 120, 300, 160)
LATE = [f"--error-after={after}" for after in (0.3, 0.6, 1.0)]
GOES = [f"--vanish-after={after}" for after in (0.3, 0.9)]
BLINKS = "--blink=READY"


def record(directory: Path, *options: str, judge: Says | None = None) -> Tills:
    tills = Tills(directory, LATER)
    with tills.agent("auto", Steps(SAVE), *options, judge=judge) as played:
        played.run()
        if judge:
            assert played.agent.assess("it is ready")
        played.agent.end_body()
        assert played.recorded.keep()
    return tills


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return record(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return record(tmp_path_factory.mktemp("judged"), judge=Says(region=RESULT))


@pytest.fixture(scope="module")
def blinking(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    return record(tmp_path_factory.mktemp("blinking"), BLINKS, judge=Says(region=STATE))


def test_recording_stores_time_of_stable_end(saved: Tills) -> None:
    recording = load(saved.key.path)
    assert recording is not None
    (run,) = recording.runs
    assert (run.end.quiet_s, run.stays) == (QUIET_S, True)


@pytest.mark.slow
@pytest.mark.parametrize("later", [*LATE, *GOES])
def test_change_after_last_gate_fails_test(saved: Tills, later: str) -> None:
    with saved.agent("replay", None, later) as played:
        assert played.run().outcome is Outcome.DONE  # the body runs meanwhile
        with pytest.raises(
            RecordingDrifted, match=r"(?s)^drift at the end: .* px.*did not stay as recorded.*--vnc-record=rewrite"
        ):
            played.agent.end_body()
    (drift,) = read_trace(played.agent.runs[-1]).drifts
    assert drift.recorded != drift.seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later", "act"),
    [
        (LATE[-1], lambda agent: agent.assess("it is ready")),
        (GOES[-1], lambda agent: agent.assess("it is ready")),
        (LATE[-1], lambda agent: agent.click(600, 350)),
    ],
    ids=["claim, late error", "claim, vanished", "hand"],
)
def test_end_is_watched_before_claims_and_hands(
    judged: Tills, later: str, act: Callable[[VncUseAgent], object]
) -> None:
    with judged.agent("replay", None, later) as played:
        played.run()
        with pytest.raises(RecordingDrifted, match=r"drift at the end: .*did not stay as recorded"):
            act(played.agent)


@pytest.mark.slow
def test_late_error_of_task_closes_gate_of_next_task(tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    with tills.agent("auto", Steps(SAVE)) as played:
        played.run()
        played.run("Save it again")
        assert played.recorded.keep()
    with tills.agent("replay", None, LATE[0], gate_s=4.0) as played:
        played.recorded.task_follows = True
        assert played.run().outcome is Outcome.DONE
        with pytest.raises(RecordingDrifted, match=r"^drift (at the end|before step 1 of 1): "):
            played.run("Save it again")


@pytest.mark.slow
def test_body_may_change_screen_if_it_did_when_recorded(saved: Tills, tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    with tills.agent("auto", Steps(SAVE)) as played:
        played.run()
        gone(played)
        played.agent.end_body()
        assert played.recorded.keep()
    recording = load(tills.key.path)
    assert recording is not None
    assert not recording.runs[0].stays
    with tills.agent("replay") as played:
        played.run()
        gone(played)
        played.agent.end_body()
    with saved.agent("replay") as played:
        played.run()
        gone(played)
        with pytest.raises(RecordingDrifted, match=r"drift at the end: .*did not stay as recorded"):
            played.agent.end_body()
    with tills.agent("replay", None, LATE[-1]) as played, pytest.raises(RecordingDrifted, match=r"^drift at the end: "):
        played.run()  # here the body cannot run meanwhile


def gone(played: Played) -> None:
    """Have the program show something else, as a body may do that talks to a server."""
    moment = time.monotonic()
    played.desktop.write_file("go", "")
    assert played.agent.controller.wait_changed(moment, 10.0)


def test_transient_at_end_is_listed(saved: Tills) -> None:
    with saved.agent("replay", None, LATE[0], "--error-for=0.5") as played:
        played.run()
        played.agent.end_body()
    (told,) = played.recorded.transients
    assert "the screen showed an unrecorded transient frame" in told
    (transient,) = read_trace(played.agent.runs[-1]).transients
    assert transient.region.meets(Region(0, 260, 800, 400))


def test_blinking_status_has_two_variants_and_is_evidence(blinking: Tills) -> None:
    recording = load(blinking.key.path)
    assert recording is not None
    for screen in (recording.runs[0].steps[0].screen, recording.runs[0].end):
        (part,) = screen.dynamic
        assert (part.kind, len(part.variants)) == ("blinks", 2)
        assert part.region.meets(STATE)
    with blinking.agent("replay", None, BLINKS) as played:
        played.run()
        assert played.agent.assess("it is ready").kind == "holds"
        played.agent.end_body()


@pytest.mark.slow
@pytest.mark.parametrize("other", ["--blink=ERROR", "--steady=ERROR", "--steady=READY"])
def test_status_that_blinks_otherwise_drifts(blinking: Tills, other: str) -> None:
    with (
        blinking.agent("replay", None, other, gate_s=5.0) as played,
        pytest.raises(RecordingDrifted, match="before step 1 of 1") as drift,
    ):
        played.run()
    assert "recorded variants" in str(drift.value)


@pytest.mark.parametrize(("now", "drifts"), [("packed", False), ("LOST", True)])
def test_other_answer_of_function_drifts(tmp_path: Path, now: str, drifts: bool) -> None:
    tills, answers = Tills(tmp_path, LATER), ["packed"]

    def order_status(number: int) -> str:
        """The status of an order."""
        return answers[0]

    call = CallFunction("order_status", {"number": 17})
    with tills.agent("auto", Steps(call, SAVE), functions=[order_status]) as played:
        played.run()
        assert played.recorded.keep()
    answers[0] = now
    with tills.agent("replay", functions=[order_status]) as played:
        if drifts:
            with pytest.raises(RecordingDrifted, match="order_status answered 'LOST', but in the recording 'packed'"):
                played.run()
        else:
            assert played.run().outcome is Outcome.DONE
