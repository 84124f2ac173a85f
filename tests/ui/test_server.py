"""The desk's server, over real sockets: who may open it, and what passes between
sessions and pages.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.question import Answer, Question
from pytest_vnc_use.report.results import (
    RESULTS,
    ItemResult,
    session_results,
    write_results,
)
from pytest_vnc_use.types import (
    Click,
    FrameRef,
    Judged,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
    Verdict,
)
from pytest_vnc_use.ui import server
from pytest_vnc_use.ui.link import GONE, Link, Watcher
from pytest_vnc_use.ui.server import CLOSED, NO_PAGE, Desk, DeskServer
from support.desks import COOKIE, WITHIN_S, Served, received
from support.forked_python import run_python
from support.page_user import Page, read_url
from support.vnc_servers import wait_for


@contextmanager
def asking(link: Link, tmp_path: Path) -> Iterator[queue.Queue[Answer]]:
    """Ask a question from another thread, as a test does."""
    image, answers = tmp_path / "image.png", queue.Queue[Answer]()
    image.write_bytes(b"\x89PNG")
    question = Question(
        "test_it", "it differs", (Region(1, 2, 3, 4),), (image, image, image)
    )
    thread = threading.Thread(
        target=lambda: answers.put(link.ask(question, str)), daemon=True
    )
    thread.start()
    yield answers
    thread.join(WITHIN_S)


def test_token_logs_in_once_and_from_own_page(served: Served) -> None:
    assert served.log_in("wrong")[0] == 403
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
    ):
        assert served.log_in(**headers)[0] == 403
    # as with `ssh -L`
    forwarded = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}
    status, _, cookie = served.log_in(**forwarded)
    assert status == 204
    assert cookie.startswith(f"{COOKIE}=")
    assert {"httponly", "samesite=strict"} <= {
        part.strip().lower() for part in cookie.split(";")
    }
    status, text, _ = served.log_in()
    assert (status, "used already" in text) == (403, True)


def test_websockets_need_cookie_and_token(served: Served) -> None:
    for cookie, headers in (
        ("", {}),
        (f"{COOKIE}=wrong", {}),
        (served.cookie(), {"Origin": "http://evil.example"}),
    ):
        with pytest.raises(InvalidStatus), served.page(cookie, **headers):
            pass
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        with (
            pytest.raises(InvalidStatus),
            connect(served.server.session_url, additional_headers=headers, proxy=None),
        ):
            pass


def test_files_forbid_foreign_scripts_and_frames(served: Served) -> None:
    status, _, headers = served.ask("GET", "/")
    policy = headers["content-security-policy"]
    assert (
        status,
        "script-src 'self'" in policy,
        "frame-ancestors 'none'" in policy,
    ) == (200, True, True)
    with pytest.raises(SettingsError, match="needs TLS"):
        DeskServer(Desk(), "0.0.0.0")


def test_ended_session_is_shown_on_late_page(served: Served) -> None:
    link, cookie = served.link(), served.cookie()
    with served.page(cookie) as page:
        received(page, "state")
        link.send(type="collected", tests=["test_it"], recorded=[])
        assert [test["id"] for test in received(page, "tests")["tests"]] == ["test_it"]
        link.send(type="test", test="test_it", state="running")
        assert received(page, "test")["state"] == "running"
        link.send(
            type="test",
            test="test_it",
            state="failed",
            claim="it is paid",
            verdict="fails",
        )
        assert received(page, "test")["verdict"] == "fails"
        link.send(type="test", test="test_it", state="running")
        assert received(page, "test")["verdict"] == ""
        link.send(
            type="step",
            test="test_it",
            number=1,
            caption="click",
            points=[[1, 2]],
            is_done=False,
        )
        link.close()
        assert "the session ended" in received(page, "test")["message"]
    with served.page(cookie) as late:
        (test,) = received(late, "state")["tests"]
        assert [step["number"] for step in test["steps"]] == [1]


def test_paused_step_waits_for_next_or_stop(served: Served) -> None:
    stopped = threading.Event()
    link = served.link(stopped.set)
    with served.page(served.cookie()) as page:
        received(page, "state")
        page.send(json.dumps({"type": "pause", "on": True}))
        wait_for(lambda: link.is_paused, "the pause")
        for message in ({"type": "next", "test": "test_it"}, {"type": "stop"}):
            waiting = threading.Thread(
                target=link.wait_while_paused, args=("test_it",), daemon=True
            )
            waiting.start()
            while not received(page, "test").get("is_waiting"):
                pass
            assert waiting.is_alive()
            page.send(json.dumps(message))
            waiting.join(WITHIN_S)
            assert not waiting.is_alive()
            assert not received(page, "test")["is_waiting"]
        assert stopped.wait(WITHIN_S)
        assert not link.is_paused


WAITS = """
import pathlib, time
def test_it():
    while not pathlib.Path("goes_on").exists():
        time.sleep(0.1)
"""


def test_page_stops_session(tmp_path: Path) -> None:
    """Ctrl-C is ignored, as a shell has it for what it starts in the background."""
    (tmp_path / "test_it.py").write_text(WAITS, encoding="utf-8")
    command = [
        "sh",
        "-c",
        'trap "" INT; exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "pytest",
        "--vnc-ui",
    ]
    environment = {**os.environ, "CI": ""}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        _, url = read_url(process.stdout)
        with ExitStack() as ending, Page(url) as page:
            ending.callback((tmp_path / "goes_on").touch)
            while "running" not in page.states.values():
                page.read()
            page.send(type="stop")
            out = process.stdout.read()
        assert process.wait(WITHIN_S) == pytest.ExitCode.INTERRUPTED, out


def test_page_says_that_pytest_found_no_tests(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest_vnc_use.cli",
        "ui",
        "--options=--no-such-option",
    ]
    environment = {**os.environ, "CI": ""}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            _, url = read_url(process.stdout)
            with Page(url) as page:
                page.send(type="run", tests=[])
                while not page.problem:
                    page.read()
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
    assert page.problem == "pytest ended with exit code 4, and the terminal shows why"


def test_page_shows_results_of_directory_in_environment(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_a(): pass\n")
    failed = ItemResult("test_it.py::test_a", "failed")
    results = session_results("", "", (failed,))
    write_results(tmp_path / "elsewhere" / RESULTS, results)
    environment = {**os.environ, "CI": "", "VNC_USE_RUNS_DIR": "elsewhere"}
    command = [sys.executable, "-m", "pytest_vnc_use.cli", "ui"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            _, url = read_url(process.stdout)
            with Page(url) as page:
                while not page.states:
                    page.read()
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
    assert page.states == {"test_it.py::test_a": "failed"}


def test_question_on_both_pages_ends_with_session(
    served: Served, tmp_path: Path
) -> None:
    link, cookie = served.link(), served.cookie()
    with (
        served.page(cookie) as one,
        served.page(cookie) as other,
        asking(link, tmp_path) as answers,
    ):
        question = received(one, "question")
        assert (question["problem"], len(question["images"])) == ("it differs", 3)
        assert received(other, "question")["id"] == question["id"]
        one.send(
            json.dumps(
                {
                    "type": "answer",
                    "id": question["id"],
                    "kind": "bug",
                    "text": "wrong word",
                }
            )
        )
        assert answers.get(timeout=WITHIN_S) == Answer("bug", "wrong word")
        assert received(other, "answered")["id"] == question["id"]
        wait_for(lambda: not served.desk.questions, "the end of the question")
        with asking(link, tmp_path):
            question = received(one, "question")
            link.close()
            assert received(one, "answered")["id"] == question["id"]


def test_watcher_tells_what_happens_and_sends_frames(served: Served) -> None:
    link, screen, ref = served.link(), Framebuffer(), FrameRef("digest", 64, 48)
    screen.resize(64, 48)
    watcher = Watcher(
        link, "test_it", lambda text: text.replace("hunter2", "<secret:SHOP>")
    )
    proposal, ruling = (
        Proposal(Click(1, 2), "type hunter2"),
        Ruling("allow", "harmless"),
    )
    with served.page(served.cookie()) as page:
        received(page, "state")
        assert link.wait_watched(WITHIN_S)
        watcher.stored = lambda _: b"stored"
        for event in (
            RunStarted("run", "Sign in", "2026-11-26T00:00:00+00:00", "recording", ref),
            StepStarted(1, 1, proposal, ruling),
            StepFinished(Step(1, 1, proposal, ruling, ref, ref, error="no hunter2")),
            Judged(Verdict("it is there", "holds", "seen")),
            RunEnded(Outcome.DONE, "done"),
        ):
            watcher.observe(event)
        assert received(page, "test")["task"] == "Sign in"
        steps = [received(page, "step"), received(page, "step")]
        assert [
            (step["caption"], step["points"], step["is_done"]) for step in steps
        ] == [
            ("type <secret:SHOP>", [[1, 2]], False),
            ("type <secret:SHOP>", [[1, 2]], True),
        ]
        assert steps[1]["error"] == "no <secret:SHOP>"
        while not (shown_test := received(page, "test")).get("outcome"):
            pass
        assert (shown_test["claim"], shown_test["verdict"], shown_test["outcome"]) == (
            "it is there",
            "holds",
            "done",
        )
        watcher.screen = lambda: screen
        watcher.start()
        while not isinstance(frame := page.recv(WITHIN_S), bytes) or frame.endswith(
            b"stored"
        ):
            pass
        assert b'"width": 64, "height": 48' in frame
        watcher.close()


def test_ci_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "woodpecker")
    rejected = "need a user at a browser, but CI='woodpecker'"
    assert main(["ui"]) == 2
    assert rejected.replace("need", "needs") in capsys.readouterr().err
    done = run_python("pytest", "--vnc-ui", cwd=tmp_path, timeout=WITHIN_S)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stderr
    assert rejected in done.stderr
    monkeypatch.setenv("CI", "false")
    done = run_python("pytest", "--vnc-ui", cwd=tmp_path, timeout=WITHIN_S)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stderr
    assert "watch the tests at" in done.stdout


def test_closed_page_answers_no_and_ends_pause(served: Served, tmp_path: Path) -> None:
    served.desk.absent_s = 0.1
    link, cookie = served.link(), served.cookie()
    with served.page(cookie) as page, asking(link, tmp_path) as answers:
        received(page, "question")
        page.send(json.dumps({"type": "pause", "on": True}))
        wait_for(lambda: link.is_paused, "the pause")
        recorded = queue.Queue[dict[str, Any]]()
        with link.asking(recorded.put, about="record", test="test_it"):
            received(page, "question")
            page.close()
            assert answers.get(timeout=WITHIN_S) == Answer("no", CLOSED)
            assert recorded.get(timeout=WITHIN_S)["text"] == CLOSED
        link.wait_while_paused("test_it")


def test_question_without_page_is_no_until_one_opens(
    served: Served, tmp_path: Path
) -> None:
    link, cookie, unseen = served.link(), served.cookie(), threading.Event()
    link.on_unseen = unseen.set
    for absent_s in (0.1, 600.0):  # the second is not waited for
        served.desk.absent_s = absent_s
        with asking(link, tmp_path) as answers:
            assert answers.get(timeout=WITHIN_S) == Answer("no", NO_PAGE)
            assert unseen.is_set()
    with served.page(cookie) as page, asking(link, tmp_path) as answers:
        page.send(
            json.dumps(
                {
                    "type": "answer",
                    "id": received(page, "question")["id"],
                    "kind": "accept",
                }
            )
        )
        assert answers.get(timeout=WITHIN_S).kind == "accept"


def test_lost_connection_keeps_question(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CLOSED_PAGE_S", 0.0)
    link, cookie = served.link(), served.cookie()
    with asking(link, tmp_path) as answers:
        with served.page(cookie) as lost:
            wait_for(lambda: served.desk.questions, "the question")
            lost.socket.shutdown(socket.SHUT_RDWR)
            wait_for(lambda: not served.desk.pages, "the end of the connection")
        with served.page(cookie) as page:
            (question,) = received(page, "state")["questions"]
            page.send(
                json.dumps({"type": "answer", "id": question["id"], "kind": "accept"})
            )
            assert answers.get(timeout=WITHIN_S).kind == "accept"


def test_dead_desk_stops_no_test(served: Served, tmp_path: Path) -> None:
    link = served.link()
    with asking(link, tmp_path) as answers:
        served.end()
        assert answers.get(timeout=WITHIN_S) == Answer("no", GONE["text"])
    link.is_paused = True
    link.wait_while_paused("test_it")
    link.send(type="test", test="test_it", state="passed")
    assert not link.watched


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failing_listener_ends_questions(served: Served, tmp_path: Path) -> None:
    kinds = queue.Queue[str]()

    def fail(message: dict[str, Any]) -> None:
        kinds.put(message["type"])
        if message["type"] == "input":
            raise ValueError("no such event")

    link, cookie = served.link(), served.cookie()
    with served.page(cookie) as page, asking(link, tmp_path) as answers:
        received(page, "question")
        with link.asking(fail, about="record", test="test_it") as number:
            received(page, "question")
            page.send(json.dumps({"type": "input", "id": number, "event": []}))
            assert answers.get(timeout=WITHIN_S) == Answer("no", GONE["text"])
            assert [kinds.get(timeout=WITHIN_S) for _ in range(2)] == [
                "input",
                "answer",
            ]


def test_desk_ends_with_session_that_never_connected() -> None:
    command = [sys.executable, "-m", "pytest_vnc_use.ui"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as desk:
        assert desk.stdin
        assert desk.stdout
        assert desk.stdout.readline()
        assert desk.poll() is None
        desk.stdin.close()
        assert desk.wait(WITHIN_S) == 0


COUNT_QUESTIONS = """
window.questions = 0;
window.WebSocket = class extends WebSocket {
  constructor(url) {
    super(url);
    this.addEventListener("message", ({ data }) => {
      window.questions += typeof data === "string" && JSON.parse(data).type === "question";
    });
  }
};
"""
DRAW_LATER = """
window.requestAnimationFrame = (draw) => { window.draw = draw; };
"""


@pytest.mark.browser
@pytest.mark.slow
def test_page_drawing_late_shows_second_choice(served: Served, browser: Any) -> None:
    link = served.link()

    def choose(title: str, button: str) -> Future[Mapping[str, Any]]:
        choices = [{"number": title, "text": button, "image": ""}]
        question = {"about": "choice", "title": title, "now": "", "choices": choices}
        return pool.submit(link.put_question, **question)

    with ThreadPoolExecutor() as pool, browser.new_page() as page:
        page.add_init_script(COUNT_QUESTIONS)
        page.goto(served.server.url)
        assert link.wait_watched(WITHIN_S)
        first = choose("first", "before step 2")
        page.get_by_role("heading", name="first").wait_for()
        page.evaluate(DRAW_LATER)
        page.get_by_role("button", name="before step 2").click()
        assert first.result(WITHIN_S)["kind"] == "first"
        second = choose("second", "at the end")
        page.wait_for_function("() => window.questions === 2", polling=50)
        page.evaluate("() => window.draw()")
        page.get_by_role("button", name="at the end").click()
        assert second.result(WITHIN_S)["kind"] == "second"


@pytest.mark.browser
@pytest.mark.slow
def test_page_shows_start_then_newest_task(served: Served, browser: Any) -> None:
    link, ref = served.link(), FrameRef("digest", 64, 48)
    watcher = Watcher(link, "test_it", str)
    proposal, ruling = Proposal(Click(1, 2), "click"), Ruling("allow", "harmless")

    def start_task(task: str) -> None:
        started_at = "2026-11-26T00:00:00+00:00"
        watcher.observe(RunStarted("run", task, started_at, "recording", ref))

    with browser.new_page() as page:
        page.goto(served.server.url)
        link.send(type="test", test="test_it", state="running")
        page.get_by_text("its desktop and program start, please wait").wait_for()
        start_task("Sign in")
        watcher.observe(StepStarted(1, 1, proposal, ruling))
        watcher.observe(StepStarted(2, 2, proposal, ruling))
        page.locator("#steps li").nth(1).wait_for()
        start_task("Sign out")
        page.locator("#task", has_text="Sign out").wait_for()
        assert page.locator("#steps li").count() == 0
        watcher.observe(StepStarted(1, 1, proposal, ruling))
        page.locator("#steps li").wait_for()
