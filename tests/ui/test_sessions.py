"""The desk as a user has it: a browser beside real test sessions on the till."""

from __future__ import annotations

import base64
import getpass
import os
import queue
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.recordings.question import Answer, Offer, Question
from pytest_vnc_use.recordings.store import Key, load, save
from pytest_vnc_use.types import Click, KeyCombo, Region, TypeText
from support.desks import WITHIN_S, Served
from support.forked_python import ForkedPython, made_once
from support.page_user import Page, User, read_url
from support.till_project import PLANS, TEST, Project, project_in
from support.tills import TILL
from support.vnc_servers import require, require_package

require_package("starlette")
LONG_MS = 90_000
PNG = encode_png(np.zeros((40, 60), np.uint32))
JUDGE = """
from support.judges import Says

@pytest.fixture
def vnc_judge():
    return Says(region=None)
"""
ADDING = ((230, 224), (250, 224))
ACCEPTED = [{"kind": "accept"}] * 4
pytestmark = [pytest.mark.desktop, pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def record(path: Path) -> Path:
        made = project_in(path)
        ended = made.run("--vnc-record=auto")
        assert ended.code == 0, ended.out
        (made.path / "conftest.py").unlink()
        return made.path

    return made_once(tmp_path_factory, "project_of_desk", record)


@pytest.fixture
def project(recorded_once: Path, tmp_path: Path) -> Project:
    shutil.copytree(
        recorded_once, tmp_path / "project", ignore=shutil.ignore_patterns("screens")
    )
    return Project(tmp_path / "project")


def options(fault: str = "") -> list[str]:
    app = [sys.executable, str(TILL)]
    if fault:
        app.append(f"--fault={fault}")
    return [
        "-p",
        "no:pytest-vnc",
        "--vnc-server=qt",
        f"--vnc-app={shlex.join(app)}",
        "--vnc-screen-size=800x400",
    ]


def accepting(fault: str) -> list[str]:
    """The command of a session that asks on the page about drifts."""
    gates = ["--vnc-record=accept", "-ovnc_gate_seconds=2"]
    return ["pytest", "--vnc-ui", *gates, *options(fault)]


@contextmanager
def started(project: Project, *command: str) -> Iterator[tuple[ForkedPython, str]]:
    """Yield the process and the page's URL, once it is printed."""
    environment = {**os.environ, "CI": ""}
    process = ForkedPython(*command, cwd=project.path, env=environment, stderr=2)
    assert process.stdout
    with process.stdout as lines:
        try:
            _, url = read_url(lines)
            yield process, url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def test_page_runs_pauses_and_shows_test(
    project: Project, browser: Any, violations: Callable[[Any], int]
) -> None:
    with started(
        project, "pytest_vnc_use.cli", "ui", "--options", shlex.join(options())
    ) as (process, url):
        page = browser.new_page()
        page.goto(url)
        assert "#" not in page.url
        run = page.get_by_role("button", name="Run test_till", exact=True)
        run.wait_for(timeout=LONG_MS)
        of_file = page.get_by_role("button", name="Run test_till.py", exact=True)
        assert of_file.bounding_box()["width"] == run.bounding_box()["width"]
        page.locator("#tests .passed").wait_for()  # as the recording's session ended
        assert violations(page) == 0
        page.locator("#run-all:enabled").wait_for(timeout=LONG_MS)
        page.get_by_role("button", name="Pause").click()
        run.click()
        page.get_by_text("paused before this step").wait_for(timeout=LONG_MS)
        page.locator("#large canvas").wait_for(timeout=LONG_MS)
        page.keyboard.press("n")
        page.locator("#steps li").nth(1).wait_for(timeout=LONG_MS)
        page.get_by_role("button", name="Pause").click()
        page.locator("#tests .passed").wait_for(timeout=LONG_MS)
        assert page.locator("#steps li").count() == 4
        assert page.locator("#steps img").count() == 4, (
            "the program names no element, so its places are shown"
        )
        assert page.evaluate(COLOURS) > 3
        page.locator("#run-all:enabled").wait_for(timeout=LONG_MS)
        page.get_by_role("button", name="Pause").click()
        run.click()
        page.get_by_text("paused before this step").wait_for(timeout=LONG_MS)
        page.get_by_role("button", name="Stop").click()
        page.locator("#run-all:enabled").wait_for(timeout=LONG_MS)
        page.locator('#pause[aria-pressed="false"]').wait_for()
        assert page.get_by_text("paused before this step").count() == 0
        assert page.locator("#tests .waiting").count() == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130  # as shells have it after Ctrl-C


IS_CROPPED = """() => {
    const image = document.querySelector("#now")
    return image.width > image.parentElement.clientWidth
}"""
COLOURS = """() => {
    const canvas = document.querySelector("#large canvas")
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
    return new Set(new Uint32Array(data.buffer)).size
}"""


def test_accepted_on_page_updates_recording(
    project: Project, browser: Any, violations: Callable[[Any], int]
) -> None:
    before = project.file.read_bytes()
    with started(project, *accepting("spelling")) as (process, url):
        assert process.stdout
        waits = next(line for line in process.stdout if "a question waits at" in line)
        assert waits.strip().endswith(url)
        page = browser.new_page()
        page.goto(url)
        page.get_by_role("dialog").wait_for(timeout=LONG_MS)
        page.locator("#doing", has_text="waits for your answer").wait_for(
            state="attached"
        )
        assert page.evaluate("() => document.querySelector('#now').naturalWidth") == 800
        for name in ("Slider", "Blink", "Difference", "Side by side"):
            page.get_by_role("button", name=name).click()
        assert page.evaluate(IS_CROPPED)
        page.get_by_role("button", name="Whole screen").click()
        assert not page.evaluate(IS_CROPPED)
        assert violations(page) == 0
        page.get_by_role("button", name="Accept: the screen now is right").click()
        assert process.wait(120) == 0
        page.locator("#tests .passed").wait_for()
    assert project.file.read_bytes() != before


def test_steps_by_hand_become_part_of_recording(project: Project) -> None:
    command = accepting("moved button")
    with started(project, *command) as (process, url), Page(url) as page:
        question = page.asked(None)
        refused = {"model": "no planner is set (--vnc-planner=gemini)"}
        assert question["refused"] == refused
        page.send(type="answer", id=question["id"], kind="hand")
        with User(page) as user:
            for click in ADDING:
                user.click(*click)
        choice = page.asked("choice")
        offered = [each["number"] for each in choice["choices"]]
        assert offered == [1, 2, 3, 4], "the button has moved on all screens"
        page.send(type="answer", id=choice["id"], kind="3")
        for _ in range(2):  # the button has no focus any more once it is paid
            question = page.asked(None)
            page.send(type="answer", id=question["id"], kind="accept")
            while question["id"] in page.questions:
                page.read()
        assert process.wait(120) == 0
    recording = load(project.file)
    assert recording
    (run,) = recording.segments
    name, *clicks = [step.action for step in run.steps]
    assert name == TypeText("alice", 200, 60)
    assert clicks == [*(Click(*click) for click in ADDING), Click(380, 224)]
    assert {change.by for change in recording.history} == {getpass.getuser()}
    steps = [change.steps for change in recording.history if change.steps]
    assert steps == ["2 by hand for 2 recorded from step 2"]
    again = project.run("--vnc-record=replay", till="--fault='moved button'")
    assert again.code == 0, again.out


@pytest.mark.parametrize(
    ("conftest", "option", "why"),
    [
        ("", "--vnc-planner=gemini", "GOOGLE_API_KEY"),
        (PLANS, "--vnc-max-steps=9", "no judge is set (--vnc-judge=gemini), and what"),
    ],
    ids=["no key", "no judge"],
)
def test_model_that_cannot_continue_is_refused_with_reason(
    project: Project, conftest: str, option: str, why: str
) -> None:
    project.write("test_till.py", TEST.replace("expect=None", 'expect="it is paid"'))
    project.write("conftest.py", PLANS + JUDGE)
    ended = project.run("--vnc-record=rewrite")
    assert ended.code == 0, ended.out
    project.write("conftest.py", conftest)
    command = [*accepting("moved button"), option]
    with started(project, *command) as (_, url), Page(url) as page:
        question = page.asked(None)
        page.send(type="answer", id=question["id"], kind="no")
    assert [*question["refused"]] == ["model"]
    assert why in question["refused"]["model"]


def test_button_pressed_while_list_changes_is_clicked(
    served: Served, browser: Any
) -> None:
    link = served.link()
    page = browser.new_page()
    for name in ("one", "two", "three"):
        link.send(type="test", test=f"test_it.py::{name}", state="running")
    with page.expect_websocket() as sockets:
        page.goto(served.server.url)

    def redraw(state: str) -> None:
        """Have the page draw the list again with another state of the first test."""
        with sockets.value.expect_event(
            "framereceived", lambda message: state in str(message)
        ):
            link.send(type="test", test="test_it.py::one", state=state)
        page.evaluate(
            "() => new Promise((drawn) => requestAnimationFrame(() =>"
            " requestAnimationFrame(drawn)))"
        )

    tests = page.locator("#tests")
    tests.get_by_role("button", name="two").hover()
    page.mouse.down()
    redraw("passed")
    page.mouse.up()
    page.get_by_role("heading", name="test_it.py::two").wait_for()
    tests.get_by_text("passed").wait_for()
    tests.get_by_role("button", name="three").focus()
    page.keyboard.down("Space")
    redraw("failed")
    page.keyboard.up("Space")
    page.get_by_role("heading", name="test_it.py::three").wait_for()
    tests.get_by_text("failed").wait_for()
    page.close()


@pytest.fixture
def narrow(served: Served, browser: Any) -> Iterator[Any]:
    """The page on a phone."""
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(served.server.url)
    yield page
    page.close()


@pytest.fixture
def press(narrow: Any, violations: Callable[[Any], int]) -> Callable[[str], None]:
    """`press(button)`: press it by key, once nothing on the page breaks a rule of
    accessibility.
    """

    def pressed(name: str) -> None:
        button = narrow.get_by_role("button", name=name)
        button.wait_for()
        assert violations(narrow) == 0
        button.focus()
        narrow.keyboard.press("Enter")

    return pressed


def test_drift_is_answered_by_keyboard(
    served: Served, narrow: Any, press: Callable[[str], None], tmp_path: Path
) -> None:
    link = served.link()
    image = tmp_path / "image.png"
    image.write_bytes(PNG)
    question = Question(
        "test_it",
        "it differs",
        (Region(1, 2, 3, 4),),
        (image, image, image),
        offer=Offer(refused={"model": "no planner is set"}),
    )
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(link.ask, question, str)
        narrow.get_by_role("dialog").wait_for()
        for _ in range(3):
            narrow.keyboard.press("Escape")  # a question stays until it is answered
        press("It is a bug…")
        narrow.keyboard.type("misspelt")
        narrow.keyboard.press("Enter")
        assert answer.result(WITHIN_S) == Answer("bug", "misspelt")
        answer = pool.submit(link.ask, question, str)
        narrow.get_by_text("Let the model continue: no planner is set.").wait_for()
        press("Continue by hand…")
        assert answer.result(WITHIN_S).kind == "hand"


BOX_TOP = """() => {
    const image = document.getElementById("now");
    const { top, height } = image.getBoundingClientRect();
    const box = image.parentElement.querySelector(".box").getBoundingClientRect();
    return (box.top - top) * image.naturalHeight / height;
}"""


def test_box_is_where_screen_differs(
    served: Served, narrow: Any, tmp_path: Path
) -> None:
    link = served.link()
    image = tmp_path / "image.png"
    image.write_bytes(encode_png(np.zeros((900, 1400), np.uint32)))
    box = Region(377, 679, 822, 714)
    question = Question("test_it", "it differs", (box,), (image, image, image))
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(link.ask, question, str)
        narrow.locator("#now + .box").wait_for()
        shown_at = narrow.evaluate(BOX_TOP)
        narrow.get_by_role("button", name="No", exact=True).click()
        assert answer.result(WITHIN_S) == Answer("no")
    assert shown_at == pytest.approx(box.top, abs=0.5)


def test_gate_to_continue_at_is_chosen_by_keyboard(
    served: Served, narrow: Any, press: Callable[[str], None]
) -> None:
    png = base64.b64encode(PNG).decode()
    choices = [
        {"number": 1, "text": "before step 2", "image": ""},
        {"number": 2, "text": "at the end", "image": png},
    ]
    question = {"about": "choice", "title": "Where?", "now": png, "choices": choices}
    with ThreadPoolExecutor() as pool:
        choice = pool.submit(served.link().put_question, **question)
        narrow.get_by_role("button", name="at the end").locator("img").wait_for()
        press("at the end")
        assert choice.result(WITHIN_S)["kind"] == "2"


def test_steps_by_hand_are_ended_and_undone_by_keyboard(
    served: Served, narrow: Any, press: Callable[[str], None]
) -> None:
    link = served.link()
    events = queue.Queue[dict[str, Any]]()
    png = base64.b64encode(PNG).decode()
    question: dict[str, Any] = {
        "about": "record",
        "notice": "",
        "crops": {},
        "task": "Pay",
        "test": "test_it",
        "claims": [],
        "asks_claims": False,
        "secrets": [],
        "steps": ["click"],
    }
    left = [
        {"number": 1, "text": "step 2: press return", "gate": "s2", "image": png},
        {"number": 2, "text": "at the end", "gate": "end1", "image": png},
    ]
    link.send(type="test", test="test_it", state="running")
    due = narrow.get_by_text("step 2: press return")
    with link.asking(events.put, **question, by_hand=left):
        due.wait_for()
        press("Continue the replay")
        assert events.get(timeout=WITHIN_S)["kind"] == "done"
    with link.asking(events.put, **question, no_undo=""):
        due.wait_for(state="hidden")
        press("Undo")
        assert events.get(timeout=WITHIN_S)["kind"] == "undo"
    narrow.get_by_text("Undo: a fresh desktop starts").wait_for()
    link.send(type="test", test="test_it", state="failed")
    narrow.get_by_role("heading", name="Pay").wait_for(state="hidden")


KILLED = """
import os, signal

def test_fine(vnc_agent): vnc_agent.click(10, 10)

def test_killed(vnc_agent): os.kill(os.getpid(), signal.SIGKILL)
"""


def test_crashed_worker_is_shown(tmp_path: Path, browser: Any) -> None:
    require("Xtigervnc")
    project = Project(tmp_path)
    project.write("test_workers.py", KILLED)
    desktop = ["--vnc-server=xvnc", "--vnc-app=xterm"]
    command = ["pytest", "-p", "no:pytest-vnc", "--vnc-ui", "-n1", *desktop]
    with started(project, *command) as (process, url):
        page = browser.new_page()
        page.goto(url)
        assert process.stdout
        assert process.wait(600) == pytest.ExitCode.TESTS_FAILED, process.stdout.read()
        page.get_by_text(": 1 passed, 1 failed; no session runs").wait_for()
        page.get_by_role("button", name="error test_killed").click()
        crashed = "crashed while running 'test_workers.py::test_killed'"
        page.get_by_text(crashed).wait_for()


UNCHECKED = TEST.partition("    assert")[0] + "    pass\n"
"""Without its assertion on the file, which misses the sum of the recorded steps."""


@contextmanager
def editing(project: Project, *at: str, code: int = 0) -> Iterator[Page]:
    """Yield the page of `cua-vnc recordings edit`, whose exit code is pytest's."""
    text = shlex.join([*options(), "-ovnc_gate_seconds=2"])
    command = ["recordings", "edit", "test_till.py::test_till", *at]
    command.append(f"--options={text}")
    with started(project, "pytest_vnc_use.cli", *command) as (process, url):
        with Page(url) as page:
            yield page
        assert process.wait(600) == code


def end(page: Page, *answers: dict[str, str]) -> str:
    """Answer the drifts of the session to its end; return the state of the test."""
    page.answer(*answers)
    return page.states["test_till.py::test_till"]


def gates(question: dict[str, Any]) -> list[str]:
    """Return the gates that are left in a replay which a user continues."""
    return [due["gate"] for due in question["by_hand"]]


def step_ids(file: Path) -> list[str]:
    recording = load(file)
    assert recording
    return [step.id for step in recording.steps]


def first_images(file: Path) -> list[bytes]:
    """Return the screens of the first two gates."""
    return [file.with_name(name).read_bytes() for name in ("s1.webp", "s2.webp")]


def test_step_is_inserted_at_gate(project: Project) -> None:
    project.write("test_till.py", UNCHECKED)
    images = first_images(project.file)
    with editing(project, "--at", "s3") as page:
        user = User(page)
        assert gates(user.question) == ["s3", "s4", "end1"]
        user.press("F5")
        user.done()
        assert end(page, *ACCEPTED) == "passed"
    assert step_ids(project.file) == ["s1", "s2", "s5", "s3", "s4"]
    assert first_images(project.file) == images


def test_step_is_skipped_at_gate(project: Project) -> None:
    project.write("test_till.py", UNCHECKED)
    images = first_images(project.file)
    with editing(project, "--at", "s3") as page:
        User(page).done(until=3)
        assert end(page, *ACCEPTED) == "passed"
    assert step_ids(project.file) == ["s1", "s2", "s4"]
    assert first_images(project.file) == images


def test_edit_stops_again_where_user_says(project: Project) -> None:
    project.write("test_till.py", UNCHECKED)
    before = project.file.read_bytes()
    with editing(project) as page:
        user = User(page)
        assert gates(user.question) == ["s1", "s2", "s3", "s4", "end1"]
        user.done(stop="s4")
        again = User(page)
        assert gates(again.question) == ["s4", "end1"]
        again.done()
        assert end(page) == "passed"
    assert project.file.read_bytes() == before


def test_edit_that_is_left_after_a_step_writes_nothing(project: Project) -> None:
    before = project.file.read_bytes()
    with editing(project, "--at", "s3", code=1) as page:
        user = User(page)
        user.click(140, 224)
        user.until(lambda asked: len(asked["steps"]) == 1)
        page.send(type="answer", id=user.id, kind="no", text="the user left it")
        assert end(page) == "failed"
    assert project.file.read_bytes() == before


def test_steps_by_hand_in_replay_are_undone(project: Project) -> None:
    project.write("test_till.py", UNCHECKED)
    runs = [*project.path.glob("runs/*/trace.jsonl")]
    with editing(project, "--at", "s3") as page:
        user = User(page)
        user.press("F5")
        user.until(lambda asked: len(asked["steps"]) == 1)
        user.press("F6")
        user.until(lambda asked: len(asked["steps"]) == 2)
        assert user.question["no_undo"] == ""
        user.undo(keep=1)
        again = User(page)
        again.until(lambda asked: len(asked["steps"]) == 1 and not asked["notice"])
        again.press("F8")
        again.until(lambda asked: len(asked["steps"]) == 2)
        again.done()
        assert end(page) == "passed"
    after = load(project.file)
    assert after
    actions = [step.action for step in after.steps]
    assert actions[2:4] == [KeyCombo(("f5",)), KeyCombo(("f8",))]
    assert len(actions) == 6
    assert len([*project.path.glob("runs/*/trace.jsonl")]) == len(runs) + 1


def test_named_recording_is_edited_in_a_test(project: Project) -> None:
    own = load(project.file)
    assert own
    key = Key.of_name("pay", project.path / "test_till.py", project.path)
    save(key.path, own.model_copy(update={"test": key.test}))
    shutil.rmtree(project.file.parent)
    named = UNCHECKED.replace("expect=None", 'expect=None, recording="pay"')
    project.write("test_till.py", named)
    with editing(project, "--at", "pay/s3") as page:
        user = User(page)
        assert gates(user.question) == ["pay/s3", "pay/s4", "pay/end1"]
        user.press("F5")
        user.done()
        assert end(page) == "passed"
    assert step_ids(key.path) == ["s1", "s2", "s5", "s3", "s4"]
