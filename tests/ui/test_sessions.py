"""The desk as a user has it: a browser beside real test sessions on the till."""

from __future__ import annotations

import base64
import getpass
import os
import queue
import re
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
from support.page_user import Page, User
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
    app = shlex.join(
        [sys.executable, str(TILL), *([f"--fault={fault}"] if fault else [])]
    )
    return [
        "-p",
        "no:pytest-vnc",
        "--vnc-server=qt",
        f"--vnc-app={app}",
        "--vnc-screen-size=800x400",
    ]


@contextmanager
def started(project: Project, *command: str) -> Iterator[tuple[ForkedPython, str]]:
    """Yield the process and the page's URL, once it is printed."""
    process = ForkedPython(
        *command, cwd=project.path, env={**os.environ, "CI": ""}, stderr=2
    )
    assert process.stdout
    with process.stdout as lines:
        try:
            url = next(
                filter(None, (re.search(r"http://\S+#\S+", line) for line in lines))
            )
            yield process, url[0]
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
        assert (
            page.get_by_text("paused before this step").count()
            == page.locator("#tests .waiting").count()
            == 0
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


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
    command = [
        "pytest",
        "--vnc-ui",
        "--vnc-record=accept",
        "-ovnc_gate_seconds=2",
        *options("spelling"),
    ]
    with started(project, *command) as (process, url):
        assert process.stdout
        assert (
            next(line for line in process.stdout if "a question waits at" in line)
            .strip()
            .endswith(url)
        )
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
    command = [
        "pytest",
        "--vnc-ui",
        "--vnc-record=accept",
        "-ovnc_gate_seconds=2",
        *options("moved button"),
    ]
    with started(project, *command) as (process, url), Page(url) as page:
        question = page.asked(None)
        assert question["refused"] == {
            "model": "no planner is set (--vnc-planner=gemini)"
        }
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
    clicks = [Click(*click) for click in ADDING]
    assert [step.action for step in run.steps] == [
        TypeText("alice", 200, 60),
        *clicks,
        Click(380, 224),
    ]
    assert {each.by for each in recording.history} == {getpass.getuser()}
    assert [each.steps for each in recording.history if each.steps] == [
        "2 by hand for 2 recorded from step 2"
    ]
    again = project.run("--vnc-record=replay", till="--fault='moved button'")
    assert again.code == 0, again.out


def test_model_that_cannot_continue_is_refused_with_reason(project: Project) -> None:
    project.write("test_till.py", TEST.replace("expect=None", 'expect="it is paid"'))
    project.write("conftest.py", PLANS + JUDGE)
    ended = project.run("--vnc-record=rewrite")
    assert ended.code == 0, ended.out
    for conftest, option, why in (
        ("", "--vnc-planner=gemini", "GOOGLE_API_KEY"),
        (PLANS, "--vnc-max-steps=9", "no judge is set (--vnc-judge=gemini), and what"),
    ):
        project.write("conftest.py", conftest)
        command = [
            "pytest",
            "--vnc-ui",
            "--vnc-record=accept",
            "-ovnc_gate_seconds=2",
            option,
            *options("moved button"),
        ]
        with started(project, *command) as (_, url), Page(url) as page:
            question = page.asked(None)
            assert [*question["refused"]] == ["model"]
            assert why in question["refused"]["model"]
            page.send(type="answer", id=question["id"], kind="no")


def test_button_pressed_while_list_changes_is_clicked(
    served: Served, browser: Any
) -> None:
    link, page = served.link(), browser.new_page()
    for name in ("one", "two", "three"):
        link.send(type="test", test=f"test_it.py::{name}", state="running")
    with page.expect_websocket() as sockets:
        page.goto(served.server.url)
    for name, state, press, release in (
        ("two", "passed", page.mouse.down, page.mouse.up),
        (
            "three",
            "failed",
            lambda: page.keyboard.down("Space"),
            lambda: page.keyboard.up("Space"),
        ),
    ):
        button = page.locator("#tests").get_by_role("button", name=name)
        button.hover()
        button.focus()
        press()
        with sockets.value.expect_event(
            "framereceived", lambda message, state=state: state in str(message)
        ):
            link.send(type="test", test="test_it.py::one", state=state)
        page.evaluate(
            "() => new Promise((drawn) => requestAnimationFrame(() =>"
            " requestAnimationFrame(drawn)))"
        )
        release()
        page.get_by_role("heading", name=f"test_it.py::{name}").wait_for()
        page.locator("#tests").get_by_text(state).wait_for()
    page.close()


def test_drift_is_continued_by_keyboard(
    served: Served, browser: Any, violations: Callable[[Any], int], tmp_path: Path
) -> None:
    link, events = served.link(), queue.Queue[dict[str, Any]]()
    image = tmp_path / "image.png"
    image.write_bytes(PNG)
    refused = {"model": "no planner is set"}
    question = Question(
        "test_it",
        "it differs",
        (Region(1, 2, 3, 4),),
        (image, image, image),
        offer=Offer(refused=refused),
    )
    png = base64.b64encode(PNG).decode()
    choices = [
        {"number": 1, "text": "before step 2", "image": ""},
        {"number": 2, "text": "at the end", "image": png},
    ]
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(served.server.url)

    def press(button: str, heading: str = "") -> None:
        page.get_by_role("button", name=button).wait_for()
        assert violations(page) == 0, heading
        page.get_by_role("button", name=button).focus()
        page.keyboard.press("Enter")

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(link.ask, question, str)
        page.get_by_role("dialog").wait_for()
        for _ in range(3):
            page.keyboard.press("Escape")  # a question stays until it is answered
        press("It is a bug…")
        page.keyboard.type("misspelt")
        page.keyboard.press("Enter")
        assert answer.result(WITHIN_S) == Answer("bug", "misspelt")
        answer = pool.submit(link.ask, question, str)
        page.get_by_text("Let the model continue: no planner is set.").wait_for()
        press("Continue by hand…")
        assert answer.result(WITHIN_S).kind == "hand"
        choice = pool.submit(
            link.put_question, about="choice", title="Where?", now=png, choices=choices
        )
        page.get_by_role("button", name="at the end").locator("img").wait_for()
        press("at the end")
        assert choice.result(WITHIN_S)["kind"] == "2"
    facts = {
        "task": "Pay",
        "test": "test_it",
        "claims": [],
        "asks_claims": False,
        "secrets": [],
        "steps": ["click"],
    }
    link.send(type="test", test="test_it", state="running")
    left = [
        {"number": 1, "text": "step 2: press return", "gate": "s2", "image": png},
        {"number": 2, "text": "at the end", "gate": "end1", "image": png},
    ]
    for more, button, kind in (
        ({"by_hand": left}, "Continue the replay", "done"),
        ({"no_undo": ""}, "Undo", "undo"),
    ):
        with link.asking(
            events.put, about="record", notice="", crops={}, **facts, **more
        ):
            due = page.get_by_text("step 2: press return")
            due.wait_for(state="visible" if "by_hand" in more else "hidden")
            press(button)
            assert events.get(timeout=WITHIN_S)["kind"] == kind
    page.get_by_text("Undo: a fresh desktop starts").wait_for()
    link.send(type="test", test="test_it", state="failed")
    page.get_by_role("heading", name="Pay").wait_for(state="hidden")
    page.close()


KILLED = """
import os, signal

def test_fine(vnc_agent): vnc_agent.click(10, 10)

def test_killed(vnc_agent): os.kill(os.getpid(), signal.SIGKILL)
"""


def test_crashed_worker_is_shown(tmp_path: Path, browser: Any) -> None:
    require("Xtigervnc")
    project = Project(tmp_path)
    project.write("test_workers.py", KILLED)
    command = [
        "pytest",
        "-p",
        "no:pytest-vnc",
        "--vnc-ui",
        "-n1",
        "--vnc-server=xvnc",
        "--vnc-app=xterm",
    ]
    with started(project, *command) as (process, url):
        page = browser.new_page()
        page.goto(url)
        assert process.stdout
        assert process.wait(600) == pytest.ExitCode.TESTS_FAILED, process.stdout.read()
        page.get_by_text(": 1 passed, 1 failed; no session runs").wait_for()
        page.get_by_role("button", name="error test_killed").click()
        page.get_by_text(
            "crashed while running 'test_workers.py::test_killed'"
        ).wait_for()


@contextmanager
def editing(project: Project, *at: str) -> Iterator[Page]:
    """Yield the page of `cua-vnc recordings edit`."""
    text = shlex.join([*options(), "-ovnc_gate_seconds=2"])
    command = ["recordings", "edit", "test_till.py::test_till", *at]
    command.append(f"--options={text}")
    with (
        started(project, "pytest_vnc_use.cli", *command) as (_, url),
        Page(url) as page,
    ):
        yield page


@pytest.mark.parametrize(
    ("stop", "key", "answer", "added", "dropped"),
    [
        ("s3", "F5", {}, 1, 0),
        ("s3", "", {"until": 3}, 0, 1),
        ("", "", {"stop": "s4"}, 0, 0),
    ],
    ids=["insert", "skip", "stop again"],
)
def test_recording_is_edited_at_a_step(
    project: Project,
    stop: str,
    key: str,
    answer: dict[str, Any],
    added: int,
    dropped: int,
) -> None:
    # without an assertion on the file: it would miss the sum of the recorded steps
    project.write("test_till.py", TEST.partition("    assert")[0] + "    pass\n")
    before = load(project.file)
    images = {path.name: path.read_bytes() for path in project.file.parent.iterdir()}
    assert before
    at = ["--at", stop] if stop else []
    with editing(project, *at) as page:
        question = page.asked("record")
        due = [each["gate"] for each in question["by_hand"]]
        first = int((stop or "s1").removeprefix("s"))
        assert due == [*(f"s{number}" for number in range(first, 5)), "end1"]
        user = User(page)
        if key:
            user.press(key)
        user.done(**answer)
        while "stop" in answer and question["id"] in page.questions:
            page.read()
        if "stop" in answer:
            question = page.asked("record")
            assert [each["gate"] for each in question["by_hand"]] == ["s4", "end1"]
            page.send(type="answer", id=question["id"], kind="done")
        page.answer(*[{"kind": "accept"}] * 4)
        assert page.states["test_till.py::test_till"] == "passed"
    after = load(project.file)
    assert after
    kept = [step.id for step in before.steps]
    if dropped:
        kept.remove("s3")
    assert [step.id for step in after.steps if step.id in kept] == kept
    assert len(after.steps) == len(kept) + added
    if added == dropped == 0:
        assert project.file.read_bytes() == images["recording.json"]
    for name in images.keys() - {"recording.json", "s3.webp", "s4.webp", "end1.webp"}:
        assert project.file.with_name(name).read_bytes() == images[name]


def test_edit_that_is_left_after_a_step_writes_nothing(project: Project) -> None:
    before = project.file.read_bytes()
    with editing(project, "--at", "s3") as page:
        user = User(page)
        user.click(140, 224)
        user.until(lambda asked: len(asked["steps"]) == 1)
        page.send(type="answer", id=user.id, kind="no", text="the user left it")
        page.answer()
        assert page.states["test_till.py::test_till"] == "failed"
    assert project.file.read_bytes() == before


def test_steps_by_hand_in_replay_are_undone(project: Project) -> None:
    project.write("test_till.py", TEST.partition("    assert")[0] + "    pass\n")
    runs = [*project.path.glob("runs/*/trace.jsonl")]
    with editing(project, "--at", "s3") as page:
        user = User(page)
        for number, key in enumerate(("F5", "F6", "F7"), 1):
            user.press(key)
            user.until(lambda asked, count=number: len(asked["steps"]) == count)
        assert user.question["no_undo"] == ""
        page.send(type="answer", id=user.id, kind="undo", keep=1)
        while user.id in page.questions:
            page.read()
        again = User(page)
        again.until(lambda asked: len(asked["steps"]) == 1 and not asked["notice"])
        again.press("F8")
        again.until(lambda asked: len(asked["steps"]) == 2)
        again.done()
        page.answer()
        assert page.states["test_till.py::test_till"] == "passed"
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
    named = TEST.partition("    assert")[0] + "    pass\n"
    named = named.replace("expect=None", 'expect=None, recording="pay"')
    project.write("test_till.py", named)
    with editing(project, "--at", "pay/s3") as page:
        user = User(page)
        gates = [each["gate"] for each in user.question["by_hand"]]
        assert gates == ["pay/s3", "pay/s4", "pay/end1"]
        user.press("F5")
        user.done()
        page.answer()
        assert page.states["test_till.py::test_till"] == "passed"
    after = load(key.path)
    assert after
    assert [step.id for step in after.steps] == ["s1", "s2", "s5", "s3", "s4"]
