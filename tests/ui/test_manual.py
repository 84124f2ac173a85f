"""`--vnc-record=manual`: pytest in a process of its own, a user of the page that it
names, and the till.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.store import load, save
from pytest_vnc_use.report.results import read_results
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import REDACTED_COLOUR, Click, Region, TypeText
from support.page_user import Recorder, User
from support.till_by_hand import (
    ALICE,
    CLAIM,
    CLAIMED,
    HEAD,
    PAID,
    PAYING,
    SECRET,
    actions,
    add,
    enter,
    files_with,
    pay,
)
from support.tills import PAY, TASK, Tills
from support.vnc_servers import require_package

require_package("starlette")
pytestmark = pytest.mark.desktop

CALLED = f"""
def test_called(vnc_agent):
    vnc_agent.run("{TASK}", expect=None)
    vnc_agent.verify("{CLAIM}")
"""
ENDED = CLAIMED.replace(f', expect="{CLAIM}"', "")


def do_all(user: User) -> None:
    enter(user)
    add(user)
    pay(user)


IN_FIXTURE = """
import pytest

@pytest.fixture
def entered(vnc_agent):
    vnc_agent.run("Enter <secret:TILL_NAME>", recording="enter")

def test_till(entered): pass
"""


@pytest.mark.slow
def test_secret_of_all_tests_is_typed_by_hand_in_fixture(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    session = start(
        IN_FIXTURE,
        "manual",
        "--vnc-secret=TILL_NAME",
        "-ovnc_rehearse=1",
        TILL_NAME=SECRET,
    )
    with session.user() as user:
        enter(user, SECRET)
        user.done()
    done = session.ended()
    assert done.code == 0, done.out
    named = load(tmp_path / "__vnc_recordings__/shared/enter/recording.json")
    assert named
    assert TypeText("<secret:TILL_NAME>") in [step.action for step in named.steps]
    assert named.redacts


NAMED = f"""{HEAD}
@pytest.mark.vnc_task("Enter alice", recording="enter")
@pytest.mark.vnc_task("Pay for two apples", expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

@pytest.mark.vnc_task("Enter alice", recording="enter")
@pytest.mark.vnc_task("Pay for two apples", expect=None)
def test_again(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
"""


@pytest.mark.slow
def test_named_task_is_done_by_hand_once(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    session = start(NAMED, "manual", "-ovnc_rehearse=1")
    mask = [700, 300, 710, 340]
    with session.user() as user:
        enter(user, "alice")
        user.done(masks=[mask])
    for _ in range(2):
        with session.user() as user:
            add(user)
            pay(user)
    done = session.ended()
    assert done.code == 0, done.out
    shared = tmp_path / "__vnc_recordings__/shared/enter/recording.json"
    named = load(shared)
    assert named
    assert named.masks == (Region(*mask),)
    assert named.segments[0].confirmed_by == "user"
    own = Tills(tmp_path).recording
    assert own.uses == ("enter",)
    assert own.masks == ()
    assert len(own.segments) == 1


@pytest.mark.slow
def test_end_that_user_vouched_for_replays(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    mask = Region(700, 300, 710, 340)
    other_mask = Region(600, 300, 610, 320)
    shown = Region(10, 280, 400, 300)
    called = tmp_path / "__vnc_recordings__/test_till/test_called/recording.json"
    masked = Recording(
        test="test_till.py::test_called", screen_size=(800, 400), masks=(mask,)
    )
    save(called, masked)
    ended = ENDED.replace(HEAD, "").replace("test_till", "test_end")
    source = f"{CLAIMED}\n{ended}\n{CALLED}"
    session = start(source, "manual", "-ovnc_rehearse=1")
    with session.user() as user:
        do_all(user)
        user.done(regions={CLAIM: [*astuple(shown)]})
    with session.user() as user:
        do_all(user)
    with session.user() as user:
        do_all(user)
        user.done(masks=[[*astuple(other_mask)]])
    question = session.page.asked("claim")
    session.page.send(type="answer", id=question["id"], kind="holds")
    done = session.ended()
    assert done.code == 0, done.out
    (segment,) = Tills(tmp_path).recording.segments
    assert segment.confirmed_by == "user"
    assert segment.claims[0].region == shown
    assert done.out.count("do the task at") == 1, "a rehearsal needs no user"
    rehearsed = "rehearsal 1 of 1: the recording is replayed, to see that it repeats\n"
    assert rehearsed in done.out
    assert "vnc-use: 3 recordings repeated in 1 rehearsal" in done.out
    verified = load(called)
    assert verified
    # both are as small as a caret, so the claim's evidence may be elsewhere
    assert verified.masks == (mask, other_mask), "they outlive a new recording"
    (claim,) = verified.segments[0].claims
    assert claim.claim == CLAIM
    assert claim.verdict == "holds"
    assert claim.reason == "according to the user who recorded it: it holds"
    done = start(source, "replay").ended()
    assert done.code == 0, done.out
    done = start(ENDED, "replay").ended()
    assert done.code == 0, done.out


@pytest.mark.slow
def test_several_tasks_with_secret_replay(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    source = f"""{HEAD}
@pytest.mark.vnc_task("Enter <secret:TILL_NAME>", secrets=["TILL_NAME"], expect=None)
@pytest.mark.vnc_task("Enter it again, add two apples and pay", secrets=["TILL_NAME"], expect=None)
def test_till(vnc_agent, vnc_desktop):
    vnc_agent.run("Add one more and pay", expect=None)
    assert vnc_desktop.read_file("total.txt").endswith("pays 7.50")
"""
    session = start(source, "manual", TILL_NAME=SECRET)
    with session.user() as user:
        enter(user, f"x{SECRET}")
    with session.user() as user:
        user.click(200, 60)
        user.event("secret", "PATH")
        user.until(lambda shown: "not done" in shown["notice"])
        user.event("secret", "TILL_NAME")
        user.until(lambda shown: len(shown["steps"]) == 2)
        assert "not done" in user.page.questions[user.id]["notice"], "it stays"
        add(user)
        pay(user)
    with session.user() as user:
        user.click(130, 224)
        user.click(380, 224)
    done = session.ended()
    assert done.code == 0, done.out
    assert [actions(tmp_path, run) for run in range(3)] == [
        [Click(200, 60), TypeText("x<secret:TILL_NAME>")],
        [Click(200, 60), TypeText("<secret:TILL_NAME>"), *PAYING],
        [Click(130, 224), Click(380, 224)],
    ]
    assert SECRET not in done.out
    assert files_with(tmp_path, SECRET) == []
    assert [*tmp_path.rglob(f"*{SECRET}*")] == []
    ends = [run.end.pixels() for run in Tills(tmp_path).recording.segments]
    assert all((end[50:70, 70:350] == REDACTED_COLOUR).all() for end in ends)
    done = start(source, "replay", TILL_NAME=SECRET).ended()
    assert done.code == 0, done.out


NO_BOB = """
on_deny = "continue"

[[rule]]
name = "no bob"
text = "bob"
decision = "deny"
"""


def type_in_two_pieces(user: User) -> None:
    enter(user, SECRET[:2])
    user.press("End")
    user.type(SECRET[2:])


class Unrecorded(NamedTuple):
    """A test that fails, and what its failure says."""

    marker: str
    cause: str
    verdict: str = "holds"
    """What the user answers about the claims."""
    end: Callable[[User], None] = User.done
    do: Callable[[User], None] = do_all
    body: str = "pass"


NOT_DONE = "the user answered that the task is not done, so nothing is recorded"
CLAIMS = f'expect="{CLAIM}"'
ANSWERS = [
    Unrecorded("expect=None", "product: assert 0", body="assert 0"),
    Unrecorded(CLAIMS, "product: the user answered that the claim does not", "fails"),
    Unrecorded(CLAIMS, "inconclusive: ", "unsure"),
    Unrecorded(CLAIMS, NOT_DONE, end=lambda user: user.done("fails")),
    Unrecorded("expect=()", NOT_DONE, end=lambda user: user.done("fails")),
    Unrecorded("expect=()", "inconclusive: ", end=lambda user: user.done("unsure")),
]
INPUT = [
    Unrecorded(
        "expect=()",
        "the recording was discarded, so nothing is recorded",
        end=User.discard,
    ),
    Unrecorded(
        "expect=None",
        "step 2 was shown, but must not be performed: denied",
        do=lambda user: enter(user, "bob"),
    ),
    Unrecorded(
        "expect=None",
        "gave_up: nothing was done",
        do=lambda user: user.point(100, 100),
    ),
    Unrecorded(
        'secrets=["TILL_NAME"], expect=None',
        "typed in several pieces",
        do=type_in_two_pieces,
    ),
    Unrecorded(
        "expect=None",
        "'VNC_USE_PASSWORD', so nothing is written",
        do=lambda user: enter(user, "passw0rd"),
    ),
    # another test declares it
    Unrecorded(
        "expect=None",
        "'TILL_NAME', so nothing is written",
        do=lambda user: enter(user, SECRET),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [ANSWERS, INPUT], ids=["answers", "input"])
def test_failed_test_is_not_recorded(
    start: Callable[..., Recorder], tmp_path: Path, rows: list[Unrecorded]
) -> None:
    (tmp_path / "policy.toml").write_text(NO_BOB, encoding="utf-8")
    source = HEAD
    for number, row in enumerate(rows):
        source += f'@pytest.mark.vnc_task("{TASK}", {row.marker})\n'
        source += f"def test_{number}(): {row.body}\n"
    session = start(
        source,
        "manual",
        "--vnc-policy=policy.toml",
        TILL_NAME=SECRET,
        VNC_USE_PASSWORD="passw0rd",
    )
    for row in rows:
        with session.user(row.verdict) as user:
            row.do(user)
            row.end(user)
    done = session.ended()
    assert done.code == 1, done.out
    assert not (tmp_path / "__vnc_recordings__").exists()
    results = read_results(tmp_path / "runs" / "vnc-results.json").tests
    messages = [f"{result.triage}: {result.message}" for result in results]
    pairs = zip(rows, messages, strict=True)
    assert [message for row, message in pairs if row.cause not in message] == []
    assert SECRET not in done.out


@pytest.mark.slow
def test_demonstration_with_undo_is_recorded_and_replays(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    session = start(PAID, "manual", VNC_USE_REHEARSE="0")
    with session.user() as user:
        enter(user, "alice")
        for x in (110, 130, 150):  # one apple too many
            user.click(x, 224)
        user.until(lambda question: len(question["steps"]) == 5)
        user.undo()
    with session.user() as user:
        user.until(lambda question: len(question["steps"]) == 4)
        user.until(lambda question: "repeating" not in question["notice"])
        pay(user)
    done = session.ended()
    assert "1 passed" in done.out
    assert done.code == 0, done.out
    adding = [Click(110, 224), Click(130, 224)]
    assert actions(tmp_path) == [*ALICE, *adding, Click(*PAY)]
    (run,) = Tills(tmp_path).recording.segments
    assert run.planner == "manual"
    assert run.confirmed_by == "body"
    (file,) = (tmp_path / "runs").glob("*/trace.jsonl")  # the first attempt left none
    trace = read_trace(file.parent)
    assert trace.ended
    assert trace.ended.message == "recorded by hand in 5 steps"
    assert [step.proposal.action for step in trace.steps] == actions(tmp_path)
    shown = [step.frame_after for step in trace.steps]
    assert [step.frame_before for step in trace.steps[1:]] == shown[:-1]
    images = [file.parent / "screens" / f"{frame.digest}.png" for frame in shown]
    assert all(image.exists() for image in images)
    again = start(PAID, "replay").ended()
    assert again.code == 0, again.out


def test_demonstrate_with_xdist_is_refused(start: Callable[..., Recorder]) -> None:
    done = start(PAID, "manual", "-n1").ended()
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.out
    assert "--vnc-record=manual needs one process" in done.out
    assert "add -n 0 where addopts has them" in done.out
