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
from websockets.sync.client import ClientConnection, connect

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
from pytest_vnc_use.ui.runner import VARIABLE
from pytest_vnc_use.ui.server import NO_PAGE_OPEN, PAGE_CLOSED, Desk, DeskServer
from support.desks import COOKIE, WITHIN_S, Served, received
from support.forked_python import run_python
from support.page_user import Page, read_url
from support.vnc_servers import wait_for


@contextmanager
def asking(link: Link, tmp_path: Path) -> Iterator[queue.Queue[Answer]]:
    """Ask a question from another thread, as a test does."""
    answers = queue.Queue[Answer]()
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG")
    question = Question(
        "test_it", "it differs", (Region(1, 2, 3, 4),), (image, image, image)
    )

    def ask() -> None:
        answers.put(link.ask(question, str))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    yield answers
    thread.join(WITHIN_S)


def send_answer(
    page: ClientConnection, question: Mapping[str, Any], kind: str, text: str = ""
) -> None:
    answer = {"type": "answer", "id": question["id"], "kind": kind, "text": text}
    page.send(json.dumps(answer))


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("wrong", {}),
        ("", {"Host": "evil.example"}),
        ("", {"Origin": "http://evil.example"}),
        ("", {"Origin": "http://127.0.0.1:1"}),
    ],
)
def test_login_wrong_token_or_page_is_rejected(
    served: Served, token: str, headers: dict[str, str]
) -> None:
    assert served.log_in(token, **headers)[0] == 403


def test_token_logs_in_once_and_from_own_page(served: Served) -> None:
    # as with `ssh -L`
    forwarded = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}
    status, _, cookie = served.log_in(**forwarded)
    assert status == 204
    assert cookie.startswith(f"{COOKIE}=")
    parts = [part.strip().lower() for part in cookie.split(";")]
    assert "httponly" in parts
    assert "samesite=strict" in parts
    status, text, _ = served.log_in()
    assert status == 403
    assert "used already" in text


@pytest.mark.parametrize("cookie", ["", f"{COOKIE}=wrong"])
def test_page_needs_cookie(served: Served, cookie: str) -> None:
    with pytest.raises(InvalidStatus), served.page(cookie):
        pass


def test_page_of_other_origin_is_rejected(served: Served) -> None:
    cookie = served.cookie()
    with pytest.raises(InvalidStatus), served.page(cookie, Origin="http://evil.test"):
        pass


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_session_needs_token(served: Served, headers: dict[str, str]) -> None:
    url = served.server.session_url
    with (
        pytest.raises(InvalidStatus),
        connect(url, additional_headers=headers, proxy=None),
    ):
        pass


def test_files_forbid_foreign_scripts_and_frames(served: Served) -> None:
    status, _, headers = served.ask("GET", "/")
    assert status == 200
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


def test_server_of_other_machines_needs_tls() -> None:
    with pytest.raises(SettingsError, match="needs TLS"):
        DeskServer(Desk(), "0.0.0.0")


def test_ended_session_is_shown_on_late_page(served: Served) -> None:
    link = served.link()
    cookie = served.cookie()
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


@pytest.mark.parametrize(
    ("message", "is_stop"),
    [({"type": "next", "test": "test_it"}, False), ({"type": "stop"}, True)],
    ids=["next", "stop"],
)
def test_paused_step_waits_for_next_or_stop(
    served: Served, message: dict[str, str], *, is_stop: bool
) -> None:
    stopped = threading.Event()
    link = served.link(stopped.set)
    with served.page(served.cookie()) as page:
        received(page, "state")
        page.send(json.dumps({"type": "pause", "on": True}))
        wait_for(lambda: link.is_paused, "the pause")
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
        if is_stop:
            assert stopped.wait(WITHIN_S)
        assert link.is_paused == (not is_stop)


UI = (sys.executable, "-m", "pytest_vnc_use.cli", "ui")


@contextmanager
def started(
    directory: Path, *command: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], Page]]:
    """Yield a process in that directory, and the page whose URL it prints."""
    with subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, "CI": "", **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        try:
            _, url = read_url(process.stdout)
            with Page(url) as page:
                yield process, page
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()


WAITS = """
import pathlib, time
def test_it():
    while not pathlib.Path("goes_on").exists():
        time.sleep(0.1)
"""


def test_page_stops_session(tmp_path: Path) -> None:
    """Ctrl-C is ignored, as a shell has it for what it starts in the background."""
    (tmp_path / "test_it.py").write_text(WAITS, encoding="utf-8")
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    pytest_line = [sys.executable, "-m", "pytest", "--vnc-ui"]
    with (
        started(tmp_path, *ignoring, *pytest_line) as (process, page),
        ExitStack() as end,
    ):
        end.callback((tmp_path / "goes_on").touch)
        while "running" not in page.states.values():
            page.read()
        page.send(type="stop")
        assert process.wait(WITHIN_S) == pytest.ExitCode.INTERRUPTED


COLLECTS = """
import pathlib, threading
pathlib.Path("collecting").touch()
threading.Event().wait(60)
"""


def test_interrupt_while_collecting_prints_one_line(tmp_path: Path) -> None:
    """Ctrl-C at a terminal reaches the whole process group."""
    (tmp_path / "test_it.py").write_text(COLLECTS, encoding="utf-8")
    with subprocess.Popen(
        UI,
        cwd=tmp_path,
        env={**os.environ, "CI": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        read_url(process.stdout)
        wait_for((tmp_path / "collecting").exists, "the collection")
        os.killpg(process.pid, signal.SIGINT)
        output = process.stdout.read()
    assert output == "ended\n"
    assert process.returncode == 130


ENDS_SLOWLY = """
import os, pathlib, signal, threading, time
import pytest
COUNT = pathlib.Path("interrupts")
def note(*_):
    with COUNT.open("a") as file:
        file.write("1")
    if COUNT.read_text() == "1":
        raise KeyboardInterrupt
@pytest.fixture
def slow():
    yield
    time.sleep(float(os.environ["ENDS_IN_S"]))
def test_it(slow):
    signal.signal(signal.SIGINT, note)
    pathlib.Path("running").touch()
    threading.Event().wait(60)
"""


@contextmanager
def running_slowly(directory: Path, ends_in_s: int) -> Iterator[subprocess.Popen[str]]:
    """Yield `cua-vnc ui`, in a process group, while it runs a test that ends slowly."""
    (directory / "test_it.py").write_text(ENDS_SLOWLY, encoding="utf-8")
    with started(directory, "setsid", *UI, ENDS_IN_S=str(ends_in_s)) as (process, page):
        while page.is_running:  # it lists the tests
            page.read()
        page.send(type="run", tests=[])
        wait_for((directory / "running").exists, "the test")
        yield process


@pytest.mark.parametrize("ending", ["SIGINT", "SIGHUP", "SIGTERM"])
def test_end_of_ui_interrupts_session_once(tmp_path: Path, ending: str) -> None:
    """A terminal sends these signals to the whole process group."""
    with running_slowly(tmp_path, 2) as process:
        os.killpg(process.pid, signal.Signals[ending])
        assert process.wait(WITHIN_S) == 130
    assert (tmp_path / "interrupts").read_text() == "1"


def test_second_interrupt_of_ui_ends_session(tmp_path: Path) -> None:
    with running_slowly(tmp_path, 60) as process:
        process.send_signal(signal.SIGINT)
        wait_for((tmp_path / "interrupts").exists, "the teardown")
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) == 130


def test_page_says_that_pytest_found_no_tests(tmp_path: Path) -> None:
    with started(tmp_path, *UI, "--options=--no-such-option") as (_, page):
        page.send(type="run", tests=[])
        while not page.problem:
            page.read()
    assert page.problem == "pytest ended with exit code 4, and the terminal shows why"


def test_page_shows_results_of_directory_in_environment(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_a(): pass\n")
    failed = ItemResult("test_it.py::test_a", "failed")
    results = session_results("", "", (failed,))
    write_results(tmp_path / "elsewhere" / RESULTS, results)
    with started(tmp_path, *UI, VNC_USE_RUNS_DIR="elsewhere") as (_, page):
        while not page.states:
            page.read()
    assert page.states == {"test_it.py::test_a": "failed"}


def test_question_on_both_pages_ends_with_session(
    served: Served, tmp_path: Path
) -> None:
    link = served.link()
    cookie = served.cookie()
    with (
        served.page(cookie) as one,
        served.page(cookie) as other,
        asking(link, tmp_path) as answers,
    ):
        question = received(one, "question")
        assert question["problem"] == "it differs"
        assert len(question["images"]) == 3
        assert received(other, "question")["id"] == question["id"]
        send_answer(one, question, "bug", "wrong word")
        assert answers.get(timeout=WITHIN_S) == Answer("bug", "wrong word")
        assert received(other, "answered")["id"] == question["id"]
        wait_for(lambda: not served.desk.questions, "the end of the question")
        with asking(link, tmp_path):
            question = received(one, "question")
            link.close()
            assert received(one, "answered")["id"] == question["id"]


ALLOWED = Ruling("allow", "harmless")
SCREEN = FrameRef("digest", 64, 48)


def started_run(task: str) -> RunStarted:
    return RunStarted("run", task, "2026-11-26T00:00:00+00:00", "recording", SCREEN)


@contextmanager
def watching(served: Served, link: Link) -> Iterator[Any]:
    """Yield a page, of which the session knows."""
    with served.page(served.cookie()) as page:
        received(page, "state")
        assert link.wait_watched(WITHIN_S)
        yield page


def test_watcher_tells_what_happens(served: Served) -> None:
    link = served.link()
    watcher = Watcher(
        link, "test_it", lambda text: text.replace("hunter2", "<secret:SHOP>")
    )
    proposal = Proposal(Click(1, 2), "type hunter2")
    step = Step(1, 1, proposal, ALLOWED, SCREEN, SCREEN, error="no hunter2")
    with watching(served, link) as page:
        watcher.observe(started_run("Sign in"))
        watcher.observe(StepStarted(1, 1, proposal, ALLOWED))
        watcher.observe(StepFinished(step))
        watcher.observe(Judged(Verdict("it is there", "holds", "seen")))
        watcher.observe(RunEnded(Outcome.DONE, "done"))
        assert received(page, "test")["task"] == "Sign in"
        begun = received(page, "step")
        ended = received(page, "step")
        assert begun["caption"] == ended["caption"] == "type <secret:SHOP>"
        assert begun["points"] == ended["points"] == [[1, 2]]
        assert not begun["is_done"]
        assert ended["is_done"]
        assert ended["error"] == "no <secret:SHOP>"
        test = received(page, "test")
        while not test.get("outcome"):
            test = received(page, "test")
        assert test["claim"] == "it is there"
        assert test["verdict"] == "holds"
        assert test["outcome"] == "done"


def frame_on(page: ClientConnection) -> bytes:
    """Return the next frame that the page receives."""
    message = page.recv(WITHIN_S)
    while not isinstance(message, bytes):
        message = page.recv(WITHIN_S)
    return message


def test_watcher_without_live_screen_sends_stored_frames(served: Served) -> None:
    link = served.link()
    watcher = Watcher(link, "test_it", str)
    watcher.stored = lambda _: b"stored"
    step = Step(1, 1, Proposal(Click(1, 2)), ALLOWED, SCREEN, SCREEN)
    with watching(served, link) as page:
        watcher.observe(started_run("Sign in"))
        watcher.observe(StepFinished(step))
        assert frame_on(page).endswith(b"stored")


def test_watcher_sends_live_frames(served: Served) -> None:
    screen = Framebuffer()
    screen.resize(64, 48)
    link = served.link()
    watcher = Watcher(link, "test_it", str)
    watcher.screen = lambda: screen
    with watching(served, link) as page:
        watcher.observe(started_run("Sign in"))
        watcher.start()
        frame = frame_on(page)
        watcher.close()
    assert b'"width": 64, "height": 48' in frame


@pytest.fixture
def in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "woodpecker")


@pytest.mark.usefixtures("in_ci")
def test_ui_in_ci_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui"]) == 2
    rejected = "needs a user at a browser, but CI='woodpecker'"
    assert rejected in capsys.readouterr().err


def watched_session(directory: Path) -> subprocess.CompletedProcess[str]:
    return run_python("pytest", "--vnc-ui", cwd=directory, timeout=WITHIN_S)


@pytest.mark.usefixtures("in_ci")
def test_watched_session_in_ci_is_rejected(tmp_path: Path) -> None:
    done = watched_session(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stderr
    assert "need a user at a browser, but CI='woodpecker'" in done.stderr


def test_watched_session_with_ci_false_prints_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "false")
    done = watched_session(tmp_path)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stderr
    assert "watch the tests at" in done.stdout


@pytest.mark.parametrize(
    ("session", "problem"),
    [
        ("", "`cua-vnc ui` has ended ("),
        ('["ws://127.0.0.1:9/session", "token"]', "the page's server cannot be"),
    ],
)
def test_session_whose_desk_is_gone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: str, problem: str
) -> None:
    file = tmp_path / "session.json"
    if session:
        file.write_text(session)
    monkeypatch.setenv(VARIABLE, str(file))
    done = run_python("pytest", cwd=tmp_path, timeout=WITHIN_S)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stderr
    assert f"ERROR: {problem}" in done.stderr
    assert "Start `cua-vnc ui` again" in done.stderr


def test_closed_page_answers_no_and_ends_pause(served: Served, tmp_path: Path) -> None:
    served.desk.page_wait_s = 0.1
    link = served.link()
    cookie = served.cookie()
    with served.page(cookie) as page, asking(link, tmp_path) as answers:
        received(page, "question")
        page.send(json.dumps({"type": "pause", "on": True}))
        wait_for(lambda: link.is_paused, "the pause")
        recorded = queue.Queue[dict[str, Any]]()
        with link.asking(recorded.put, about="record", test="test_it"):
            received(page, "question")
            page.close()
            assert answers.get(timeout=WITHIN_S) == Answer("no", PAGE_CLOSED)
            assert recorded.get(timeout=WITHIN_S)["text"] == PAGE_CLOSED
        link.wait_while_paused("test_it")


def test_question_without_page_is_no_until_one_opens(
    served: Served, tmp_path: Path
) -> None:
    link = served.link()
    cookie = served.cookie()
    unseen = threading.Event()
    link.on_unseen = unseen.set
    served.desk.page_wait_s = 0.1
    with asking(link, tmp_path) as answers:
        assert answers.get(timeout=WITHIN_S) == Answer("no", NO_PAGE_OPEN)
        assert unseen.is_set()
    served.desk.page_wait_s = 600.0  # for which the next question does not wait
    with asking(link, tmp_path) as answers:
        assert answers.get(timeout=WITHIN_S) == Answer("no", NO_PAGE_OPEN)
    with served.page(cookie) as page, asking(link, tmp_path) as answers:
        send_answer(page, received(page, "question"), "accept")
        assert answers.get(timeout=WITHIN_S).kind == "accept"


def test_lost_connection_keeps_question(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CLOSED_PAGE_WAIT_S", 0.0)
    cookie = served.cookie()
    with asking(served.link(), tmp_path) as answers:
        with served.page(cookie) as lost:
            wait_for(lambda: served.desk.questions, "the question")
            lost.socket.shutdown(socket.SHUT_RDWR)
            wait_for(lambda: not served.desk.pages, "the end of the connection")
        with served.page(cookie) as page:
            (question,) = received(page, "state")["questions"]
            send_answer(page, question, "accept")
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

    link = served.link()
    cookie = served.cookie()
    with served.page(cookie) as page, asking(link, tmp_path) as answers:
        received(page, "question")
        with link.asking(fail, about="record", test="test_it") as number:
            received(page, "question")
            page.send(json.dumps({"type": "input", "id": number, "event": []}))
            assert answers.get(timeout=WITHIN_S) == Answer("no", GONE["text"])
            assert kinds.get(timeout=WITHIN_S) == "input"
            assert kinds.get(timeout=WITHIN_S) == "answer"


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
    link = served.link()
    watcher = Watcher(link, "test_it", str)
    click = Proposal(Click(1, 2), "click")
    with browser.new_page() as page:
        page.goto(served.server.url)
        link.send(type="test", test="test_it", state="running")
        page.get_by_text("its desktop and program start, please wait").wait_for()
        watcher.observe(started_run("Sign in"))
        watcher.observe(StepStarted(1, 1, click, ALLOWED))
        watcher.observe(StepStarted(2, 2, click, ALLOWED))
        page.locator("#steps li").nth(1).wait_for()
        watcher.observe(started_run("Sign out"))
        page.locator("#task", has_text="Sign out").wait_for()
        assert page.locator("#steps li").count() == 0
        watcher.observe(StepStarted(1, 1, click, ALLOWED))
        page.locator("#steps li").wait_for()
