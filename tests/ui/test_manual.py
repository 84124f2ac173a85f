"""`--vnc-record=manual`: pytest in a process of its own, a user of the page that it
names, and the till.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.store import load, save
from pytest_vnc_use.report.results import read_results
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import REDACTED_COLOUR, Click, Region, TypeText
from support.page_user import Recorder
from support.till_by_hand import (
    CLAIMED,
    HEAD,
    PAID,
    PAYING,
    SECRET,
    TASK,
    actions,
    add,
    enter,
    file_in,
    pay,
    recording_in,
)
from support.vnc_servers import require_package

require_package("starlette")
pytestmark = pytest.mark.desktop

CALLED = f"""
def test_called(vnc_agent):
    vnc_agent.run("{TASK}", expect=None)
    vnc_agent.verify("the till says paid")
"""
ENDED = CLAIMED.replace(', expect="the till says paid"', "")


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
    named = load(file_in(tmp_path).parents[2] / "shared/enter/recording.json")
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
            user.done()
    done = session.ended()
    assert done.code == 0, done.out
    shared = file_in(tmp_path).parents[2] / "shared" / "enter" / "recording.json"
    named = load(shared)
    assert named
    assert named.masks == (Region(*mask),)
    assert named.segments[0].confirmed_by == "user"
    own = recording_in(tmp_path)
    assert (own.uses, own.masks, len(own.segments)) == (("enter",), (), 1)


@pytest.mark.slow
def test_end_that_user_vouched_for_replays(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    mask = Region(700, 300, 710, 340)
    called = file_in(tmp_path).parent.with_name("test_called") / "recording.json"
    save(
        called,
        Recording(
            test="test_till.py::test_called", screen_size=(800, 400), masks=(mask,)
        ),
    )
    source = f"{CLAIMED}\n{ENDED.replace(HEAD, '').replace('test_till', 'test_end')}\n{CALLED}"
    session = start(source, "manual", "-ovnc_rehearse=1")
    regions = {"the till says paid": [10, 280, 400, 300]}
    for answers in (
        {"regions": regions},
        dict[str, Any](),
        {"masks": [[600, 300, 610, 320]]},
    ):
        with session.user() as user:
            enter(user, "alice")
            add(user)
            pay(user)
            user.done(**answers)
    question = session.page.asked("claim")
    session.page.send(type="answer", id=question["id"], kind="holds")
    done = session.ended()
    assert done.code == 0, done.out
    assert recording_in(tmp_path).segments[0].confirmed_by == "user"
    assert recording_in(tmp_path).segments[0].claims[0].region == Region(
        10, 280, 400, 300
    )
    assert done.out.count("do the task at") == 1, "a rehearsal needs no user"
    assert (
        "rehearsal 1 of 1: the recording is replayed, to see that it repeats\n"
        in done.out
    )
    assert "vnc-use: 3 recordings repeated in 1 rehearsal" in done.out
    verified = load(called)
    assert verified
    # both are as small as a caret, so the claim's evidence may be elsewhere
    masks = (mask, Region(600, 300, 610, 320))
    assert verified.masks == masks, "they outlive a new recording"
    (claim,) = verified.segments[0].claims
    assert (claim.claim, claim.verdict) == ("the till says paid", "holds")
    assert claim.reason == "according to the user who recorded it: it holds"
    for replays in (source, ENDED):
        done = start(replays, "replay").ended()
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
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [
        path
        for path in files
        if SECRET in path.name or SECRET.encode() in path.read_bytes()
    ]
    ends = [run.end.pixels() for run in recording_in(tmp_path).segments]
    assert all((end[50:70, 70:350] == REDACTED_COLOUR).all() for end in ends)
    done = start(source, "replay", TILL_NAME=SECRET).ended()
    assert done.code == 0, done.out


NOT_DONE = "the user answered that the task is not done, so nothing is recorded"
CLAIM = 'expect="the till says paid"'
UNRECORDED = [
    ("expect=None", "alice", "holds", "holds", "product: assert False"),
    (
        CLAIM,
        "",
        "holds",
        "fails",
        "product: the user answered that the claim does not hold, so",
    ),
    (CLAIM, "", "holds", "unsure", "inconclusive: "),
    (CLAIM, "", "fails", "holds", NOT_DONE),
    ("expect=()", "", "fails", "", NOT_DONE),
    ("expect=()", "", "unsure", "", "inconclusive: "),
    (
        "expect=()",
        "",
        "discard",
        "",
        "the recording was discarded, so nothing is recorded",
    ),
    (
        "expect=None",
        "bob",
        "holds",
        "",
        "step 2 was shown, but must not be performed: denied",
    ),
    ("expect=None", None, "holds", "", "gave_up: nothing was done"),
    (
        'secrets=["TILL_NAME"], expect=None',
        "w0|nder-land",
        "holds",
        "",
        "typed in several pieces",
    ),
    (
        "expect=None",
        "passw0rd",
        "holds",
        "",
        "'VNC_USE_PASSWORD', so nothing is written",
    ),
    # another test declares it
    ("expect=None", SECRET, "holds", "", "'TILL_NAME', so nothing is written"),
]
"""Of each test: its arguments, what is typed, the answers of the user, and what the
failure says.
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows", [UNRECORDED[:6], UNRECORDED[6:]], ids=["answers", "input"]
)
def test_failed_test_is_not_recorded(
    start: Callable[..., Recorder],
    tmp_path: Path,
    rows: list[tuple[str, str | None, str, str, str]],
) -> None:
    (tmp_path / "policy.toml").write_text(
        'on_deny = "continue"\n[[rule]]\nname = "no bob"\ntext = "bob"\ndecision ='
        ' "deny"\n',
        encoding="utf-8",
    )
    tests = [
        f'@pytest.mark.vnc_task("{TASK}", {arguments})\ndef test_{number}(): assert'
        f" {why != 'product: assert False'}\n"
        for number, (arguments, *_, why) in enumerate(rows)
    ]
    session = start(
        "\n".join([HEAD, *tests]),
        "manual",
        "--vnc-policy=policy.toml",
        TILL_NAME=SECRET,
        VNC_USE_PASSWORD="passw0rd",
    )
    for _, typed, is_done, verdict, _ in rows:
        with session.user(verdict) as user:
            if typed is None:
                user.point(100, 100)
                continue
            enter(user, typed.partition("|")[0])
            if "|" in typed:
                user.press("End")
                user.type(typed.partition("|")[2])
            add(user)
            pay(user)
            if is_done == "discard":
                user.discard()
            else:
                user.done(is_done)
    done = session.ended()
    assert (done.code, (tmp_path / "__vnc_recordings__").exists()) == (
        1,
        False,
    ), done.out
    results = read_results(tmp_path / "runs" / "vnc-results.json").tests
    for result, (*_, cause) in zip(results, rows, strict=True):
        assert cause in f"{result.triage}: {result.message}"
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
        user.until(
            lambda question: (
                len(question["steps"]) == 4 and "repeating" not in question["notice"]
            )
        )
        user.click(380, 224)
    done = session.ended()
    assert (done.code, "1 passed" in done.out) == (0, True), done.out
    clicks = [Click(200, 60), *(Click(x, 224) for x in (110, 130, 380))]
    assert [
        action for action in actions(tmp_path) if isinstance(action, Click)
    ] == clicks
    (run,) = recording_in(tmp_path).segments
    assert (run.planner, run.confirmed_by) == ("manual", "body")
    (file,) = (tmp_path / "runs").glob("*/trace.jsonl")  # the first attempt left none
    trace = read_trace(file.parent)
    assert trace.ended
    assert trace.ended.message == "recorded by hand in 5 steps"
    assert [step.proposal.action for step in trace.steps] == actions(tmp_path)
    shown = [step.frame_after for step in trace.steps]
    assert [step.frame_before for step in trace.steps[1:]] == shown[:-1]
    assert all(
        (file.parent / "screens" / f"{frame.digest}.png").exists() for frame in shown
    )
    again = start(PAID, "replay").ended()
    assert again.code == 0, again.out


def test_demonstrate_with_xdist_is_refused(start: Callable[..., Recorder]) -> None:
    done = start(PAID, "manual", "-n1").ended()
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.out
    assert "--vnc-record=manual needs one process" in done.out
    assert "add -n 0 where addopts has them" in done.out
