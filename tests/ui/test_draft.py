"""Whatever stops a recording by hand, the next session continues it: pytest in processes
of its own, a user of the page that they name, and the till.
"""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.report.results import read_results
from pytest_vnc_use.types import Click, TypeText
from support.page_user import Page, Recorder, User
from support.till_by_hand import (
    ADD,
    CLAIM,
    CLAIMED,
    DONE,
    HEAD,
    PAID,
    SECRET,
    actions,
    add,
    enter,
    files_with,
    pay,
)
from support.tills import NAME, TASK, TILL
from support.vnc_servers import require_package

require_package("starlette")
pytestmark = pytest.mark.desktop

Start = Callable[..., Recorder]


def await_steps(user: User, count: int) -> None:
    user.until(lambda shown: len(shown["steps"]) == count)


def await_repeated(user: User, count: int) -> None:
    """Wait until so many steps are repeated, and the user has the desktop."""
    user.until(
        lambda shown: (
            len(shown["steps"]) == count and "repeating" not in shown["notice"]
        )
    )


def await_task(session: Recorder, task: str) -> None:
    page = session.page
    while task not in [question.get("task") for question in page.questions.values()]:
        page.read()


def drafts(directory: Path) -> list[dict[str, Any]]:
    files = sorted(directory.glob("runs/*/draft.json"))
    return [json.loads(file.read_text("utf-8")) for file in files]


def kept(directory: Path) -> list[int]:
    """Return how many steps each task of the only draft has; none without one."""
    found = drafts(directory)
    if not found:
        return []
    (draft,) = found
    return [len(task["steps"]) for task in draft["tasks"]]


def await_kept(user: User, directory: Path, *counts: int) -> None:
    """Wait until the draft has so many steps; each frame of the screen is a look."""
    while kept(directory) != [*counts]:
        user.point(0, 0)
        user.page.read()


def message(directory: Path) -> str:
    (test,) = read_results(directory / "runs" / "vnc-results.json").tests
    return f"{test.triage}: {test.message}"


@pytest.mark.slow
def test_killed_session_is_continued(start: Start, tmp_path: Path) -> None:
    session = start(PAID, "manual", "-ovnc_rehearse=1")
    with session.user() as user:
        enter(user)
        add(user)
        await_kept(user, tmp_path, 4)
        user.leave()
    session.process.send_signal(signal.SIGKILL)
    session.ended()
    session = start(PAID, "manual", "-ovnc_rehearse=1")
    choice = session.page.choose("continue")
    assert "after 4 steps" in choice["text"]
    with session.user() as user:
        await_repeated(user, 4)
        assert kept(tmp_path) == [4], "the old one stays until there is more"
        pay(user)
    done = session.ended()
    assert done.code == 0, done.out
    assert actions(tmp_path) == DONE
    assert kept(tmp_path) == [], "it goes once the recording is written"
    assert "repeated in 1 rehearsal" in done.out
    replayed = start(PAID, "replay").ended()
    assert replayed.code == 0, replayed.out


@pytest.mark.slow
def test_denied_claim_keeps_steps(start: Start, tmp_path: Path) -> None:
    session = start(CLAIMED, "manual", "--vnc-artifacts=off")
    with session.user("fails") as user:
        enter(user)
        add(user)
    done = session.ended()
    assert done.code == 1, done.out
    assert message(tmp_path).startswith("product: the user answered that the claim")
    how = "4 steps are kept: run this test with --vnc-record=manual again to continue"
    assert done.out.count(how) == 2, "below the failure, and at the end"
    assert [*tmp_path.glob("runs/*/screens/*.png")], "the draft's are kept"
    session = start(CLAIMED, "manual")
    session.page.choose("continue")
    with session.user() as user:
        await_repeated(user, 4)
        pay(user)  # what was forgotten
    done = session.ended()
    assert done.code == 0, done.out
    assert actions(tmp_path) == DONE


@pytest.mark.slow
def test_failed_body_keeps_steps_of_each_task(start: Start, tmp_path: Path) -> None:
    source = f"""{HEAD}
@pytest.mark.vnc_task("Enter alice", expect=None)
@pytest.mark.vnc_task("Add two apples and pay", expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.50"
"""
    session = start(source, "manual")
    with session.user() as user:
        enter(user)
    with session.user() as user:
        add(user)
        pay(user)
    done = session.ended()
    assert done.code == 1, done.out
    assert kept(tmp_path) == [2, 3]
    session = start(source.replace("5.50", "5.00"), "manual")
    session.page.choose("continue")
    await_task(session, "Add two apples and pay")  # the first one needs no answer
    with session.user() as user:
        await_repeated(user, 3)
    done = session.ended()
    assert done.code == 0, done.out
    assert [*actions(tmp_path), *actions(tmp_path, 1)] == DONE


@pytest.mark.slow
def test_changed_task_is_not_repeated(start: Start, tmp_path: Path) -> None:
    session = start(PAID, "manual")
    with session.user("holds") as user:
        add(user)
    assert session.ended().code == 1
    session = start(PAID.replace("Enter", "Type"), "manual")
    session.page.choose("continue")
    with session.user() as user:
        assert f"its task 1 was '{TASK}'. Start again" in user.question["notice"]
        assert user.question["steps"] == []
        enter(user)
        add(user)
        pay(user)
    done = session.ended()
    assert done.code == 0, done.out
    assert actions(tmp_path) == DONE


@pytest.mark.slow
def test_discarded_recording_keeps_no_steps(start: Start, tmp_path: Path) -> None:
    session = start(PAID, "manual")
    with session.user() as user:
        add(user)
        user.discard()
    session.ended()
    assert kept(tmp_path) == []


KEPT = "2 steps are kept: run this test with --vnc-record=manual"


@pytest.fixture
def left(start: Start, tmp_path: Path) -> Recorder:
    """A session whose user has done two steps."""
    session = start(PAID, "manual")
    with session.user() as user:
        add(user)
        await_kept(user, tmp_path, 2)
        user.leave()
    return session


@pytest.mark.slow
def test_closed_page_keeps_steps(left: Recorder, tmp_path: Path) -> None:
    left.page.__exit__()
    done = left.ended()
    assert "the page was closed, so nothing is recorded" in message(tmp_path)
    assert kept(tmp_path) == [2]
    assert KEPT in done.out


@pytest.mark.slow
def test_interrupted_session_keeps_steps_until_answered_no(
    left: Recorder, start: Start, tmp_path: Path
) -> None:
    left.process.send_signal(signal.SIGINT)
    done = left.ended()
    assert kept(tmp_path) == [2]
    assert KEPT in done.out
    session = start(PAID, "manual")
    session.page.choose("no")
    with session.user() as user:
        enter(user)
        add(user)
        pay(user)
    done = session.ended()
    assert done.code == 0, done.out
    assert actions(tmp_path) == DONE


@pytest.mark.slow
def test_corrected_claim_is_answered_where_its_steps_are_repeated(
    start: Start, tmp_path: Path
) -> None:
    new = "the till says what alice pays"
    session = start(CLAIMED, "manual")
    with session.user() as user:
        assert user.question["places"] == {CLAIM: "line 3 of test_till.py"}
        enter(user)
        add(user)
        pay(user)
        user.done(verdicts={new: "holds"}, corrected={CLAIM: new})
    done = session.ended()
    assert done.code == 1, done.out
    assert message(tmp_path).startswith("settings: the text of a claim was corrected")
    must = CLAIMED.splitlines()[2].replace(CLAIM, new)
    assert f"line 3 of test_till.py must read `{must}`" in message(tmp_path)
    source = CLAIMED.replace(CLAIM, new)
    session = start(source, "manual")
    session.page.choose("continue")
    with session.user() as user:
        user.done(verdicts={new: "holds"})
    done = session.ended()
    assert done.code == 0, done.out
    assert actions(tmp_path) == DONE
    replayed = start(source, "replay").ended()
    assert replayed.code == 0, replayed.out


@pytest.mark.slow
@pytest.mark.parametrize("ends", [True, False], ids=["done", "killed"])
def test_draft_has_no_secret(start: Start, tmp_path: Path, ends: bool) -> None:
    source = f"""{HEAD}
@pytest.mark.vnc_task("{TASK}", secrets=["TILL_NAME"], expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "{{}}"
"""
    session = start(source, "manual", TILL_NAME=SECRET)
    with session.user() as user:
        enter(user, SECRET)
        add(user)
        if ends:
            user.done()
        else:
            await_kept(user, tmp_path, 4)
            user.leave()
            session.process.send_signal(signal.SIGKILL)
    done = session.ended()
    assert SECRET not in done.out
    assert kept(tmp_path) == [4]
    typed = drafts(tmp_path)[0]["tasks"][0]["steps"][1]
    assert typed["action"]["text"] == "<secret:TILL_NAME>"
    assert files_with(tmp_path, SECRET) == []
    head = f"{HEAD}import os\nSECRET = os.environ['TILL_NAME']\n"
    passing = source.replace(HEAD, head).replace('"{}"', "f'{SECRET} pays 5.00'")
    session = start(passing, "manual", TILL_NAME=SECRET)
    session.page.choose("continue")
    with session.user() as user:
        await_repeated(user, 4)
        pay(user)
    done = session.ended()
    assert done.code == 0, done.out
    assert SECRET not in done.out
    assert actions(tmp_path)[1] == TypeText("<secret:TILL_NAME>")


@pytest.mark.slow
def test_undeclared_secret_stops_draft(start: Start, tmp_path: Path) -> None:
    session = start(PAID, "manual", VNC_USE_PASSWORD="passw0rd")
    with session.user() as user:
        add(user)
        await_kept(user, tmp_path, 2)
        enter(user, "passw0rd")
        pay(user)
    assert session.ended().code == 1
    assert kept(tmp_path) == [2]
    assert files_with(tmp_path, "passw0rd") == []


@pytest.mark.slow
def test_undo_to_second_step_repeats_two(start: Start, tmp_path: Path) -> None:
    session = start(PAID, "manual", VNC_USE_REHEARSE="0")
    with session.user() as user:
        enter(user)
        for x in (130, 150, 170):  # one apple too many
            user.click(x, 224)
        await_steps(user, 5)
        user.event("marked", {"box": [0, 0, 40, 20], "claim": ""})
        user.undo(keep=2)
    with session.user() as user:
        mask = {"box": [0, 0, 40, 20], "claim": "", "value": "", "after": 0}
        assert user.question["marked"] == [mask]
        await_repeated(user, 2)
        add(user)
        pay(user)
    done = session.ended()
    assert "1 passed" in done.out
    assert done.code == 0, done.out
    assert actions(tmp_path) == DONE
    assert len([*tmp_path.glob("runs/*/trace.jsonl")]) == 1


def edit(directory: Path, total: str) -> Recorder:
    """Edit the recording before it pays, in a test that expects this total."""
    test = directory / "test_till.py"
    test.write_text(PAID.replace("5.00", total), encoding="utf-8")
    app = shlex.join([sys.executable, str(TILL)])
    options = [
        "--vnc-server=qt",
        f"--vnc-app={app}",
        "--vnc-screen-size=800x400",
        "-pno:pytest-vnc",
    ]
    command = ("pytest_vnc_use.cli", "recordings", "edit", "test_till.py::test_till")
    options_text = f"--options={shlex.join(options)}"
    return Recorder(*command, "--at=s5", options_text, cwd=directory)


@pytest.mark.slow
def test_failed_edit_keeps_steps(start: Start, tmp_path: Path) -> None:
    session = start(PAID, "manual", VNC_USE_REHEARSE="0")
    with session.user() as user:
        enter(user)
        add(user)
        pay(user)
    assert session.ended().code == 0
    accept = [{"kind": "accept"}] * 5
    with edit(tmp_path, "9.99") as session:
        with Page(session.url) as page:
            user = User(page)
            user.click(*ADD[0])
            await_steps(user, 1)
            user.done(until=4)
            page.answer(*accept)
        how = "1 step is kept: edit the recording again to continue it"
        assert how in session.ended().out
    assert actions(tmp_path) == DONE
    with edit(tmp_path, "7.50") as session, Page(session.url) as page:
        choice = page.choose("continue")
        assert choice["title"] == "Steps of an earlier edit are kept"
        assert "after 1 step: the last ones before s5" in choice["text"]
        user = User(page)
        await_repeated(user, 1)
        user.done(until=4)
        page.answer(*accept)
        assert page.states == {"test_till.py::test_till": "passed"}
    assert actions(tmp_path) == [*DONE[:4], Click(*ADD[0]), DONE[4]]
    assert drafts(tmp_path) == []


STEPS = """count => document.querySelectorAll("#record-steps:not(.empty) li").length === count
    && !document.getElementById("record-notice").textContent"""


@pytest.mark.browser
@pytest.mark.slow
def test_page_undoes_to_step_and_corrects_claim(
    start: Start, tmp_path: Path, browser: Any, violations: Callable[[Any], int]
) -> None:
    session = start(CLAIMED, "manual")
    with browser.new_page(viewport={"width": 1500, "height": 857}) as page:
        page.set_default_timeout(120_000)
        page.goto(session.url)
        screen = page.locator("#record-screen canvas")
        page.wait_for_function(
            "() => document.querySelector('#record-screen canvas')?.width === 800"
        )
        scale = screen.bounding_box()["width"] / 802

        def click(x: int, y: int) -> None:
            screen.click(position={"x": x * scale, "y": y * scale})

        click(*NAME)
        page.keyboard.type("alice")
        click(*ADD[0])
        page.wait_for_function(STEPS, arg=3)
        assert violations(page) == 0
        undo = page.get_by_role("button", name="Undo to here")
        assert undo.count() == 2, "none at the last step"
        assert undo.first.get_attribute("title") == (
            "On a fresh desktop step 1 is repeated; the 2 steps after it are undone"
        )
        undo.first.click()
        page.get_by_text("a fresh desktop starts, on which step 1").wait_for()
        page.wait_for_function(STEPS, arg=1)
        page.get_by_role("button", name="Done…").click()
        page.get_by_role("group", name="Is this done").get_by_label("Yes").check()
        claim = page.get_by_role("group", name=CLAIM)
        fails = claim.get_by_text("The test fails as product, nothing is recorded")
        assert not fails.is_visible()
        claim.get_by_label("It does not").check()
        assert fails.is_visible()
        claim.get_by_label("It holds").check()
        assert not fails.is_visible()
        claim.get_by_role("textbox").fill("the till says open")
        text = "Write the new text into line 3 of test_till.py"
        assert claim.get_by_text(text).is_visible()
        assert violations(page) == 0
        page.get_by_role("button", name="Record", exact=True).click()
        page.get_by_text("the text of a claim was corrected").wait_for()
        page.get_by_text("1 step is kept: run this test").wait_for()
    done = session.ended()
    assert done.code == 1, done.out
    session = start(CLAIMED.replace(CLAIM, "the till says open"), "manual")
    with browser.new_page() as page:
        page.set_default_timeout(120_000)
        page.goto(session.url)
        choice = page.get_by_role("dialog", name="This recording was interrupted")
        choice.get_by_text("after 1 step").wait_for()
        assert violations(page) == 0
        choice.get_by_role("button", name="Continue it").click()
        page.get_by_role("button", name="Done…").click()
        page.get_by_role("group", name="Is this done").get_by_label("Yes").check()
        claim = page.get_by_role("group", name="the till says open")
        claim.get_by_label("It holds").check()
        page.get_by_role("button", name="Record", exact=True).click()
        done = session.ended()
    assert done.code == 0, done.out
