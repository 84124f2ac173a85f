"""A user who records tests on the page: its websocket's messages, as the page in a
browser sends them.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from websockets.sync.client import connect

from support.forked_python import ForkedPython
from support.till_project import Ended

TIMEOUT_S = 120
URL = re.compile(r"http://\S+#\S+")


class Page:
    """An open page of the desk: `states` are those of the tests, `finished` is the last
    text of an ended command.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        with closing(
            http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
        ) as connection:
            connection.request("POST", "/login", parts.fragment)
            response = connection.getresponse()
            assert response.status == 204, response.read()
            cookie = response.headers["set-cookie"].partition(";")[0]
        # else `close` waits for frames that are never read
        options: Any = {"max_size": None, "max_queue": None}
        url = f"ws://{parts.netloc}/page"
        headers = {"Cookie": cookie}
        self._socket = connect(
            url, additional_headers=headers, proxy=None, **options
        ).__enter__()
        self.questions: dict[str, dict[str, Any]] = {}
        self.states: dict[str, str] = {}
        self.is_running = True
        self.problem = ""
        self.finished = ""

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.__exit__(None, None, None)

    def send(self, **message: Any) -> None:
        self._socket.send(json.dumps(message))

    def read(self) -> None:
        received = self._socket.recv(TIMEOUT_S)
        if isinstance(received, bytes):  # a frame of the live screen
            return
        message = json.loads(received)
        match message["type"]:
            case "session":
                self.is_running = message["is_running"]
                self.problem = message["problem"]
            case "state":
                self.questions = {
                    question["id"]: question for question in message["questions"]
                }
                self.states = {test["id"]: test["state"] for test in message["tests"]}
            case "tests":
                self.states |= {test["id"]: test["state"] for test in message["tests"]}
            case "question":
                self.questions[message["id"]] = message
            case "recorded":
                self.questions[message["id"]] |= {
                    "steps": message["steps"],
                    "notice": message["notice"],
                }
            case "test":
                self.states[message["id"]] = message["state"]
            case "finished":
                self.finished = message["text"]
            case "answered":
                self.questions.pop(message["id"], None)

    def asked(self, about: str | None = "record") -> dict[str, Any]:
        """Wait for a question of that kind, None for a drift, and return it."""
        while not (
            asked := [
                question
                for question in self.questions.values()
                if question.get("about") == about
            ]
        ):
            self.read()
        return asked[0]

    def choose(self, kind: str) -> dict[str, Any]:
        """Answer the question whether a draft is continued, and return it."""
        choice = self.asked("choice")
        self.send(type="answer", id=choice["id"], kind=kind)
        while choice["id"] in self.questions:
            self.read()
        return choice

    def answer(self, *answers: Mapping[str, str]) -> list[dict[str, Any]]:
        """Answer the drifts of a session one after the other, all others with no;
        return the questions at its end.
        """
        due = iter(answers)
        asked = dict[str, dict[str, Any]]()
        while self.is_running:
            for number, question in self.questions.items():
                if number not in asked and question.get("about") is None:
                    asked[number] = question
                    self.send(type="answer", id=number, **next(due, {"kind": "no"}))
            self.read()
        return list(asked.values())


class User:
    """A user who does the task that the page asks for; when the block ends it is done,
    or as `done` said.
    """

    def __init__(self, page: Page, verdict: str = "holds") -> None:
        self.page = page
        self._verdict = verdict
        self._is_answered = False
        self.question = page.asked()
        self.id = self.question["id"]

    def __enter__(self) -> User:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not kind and not self._is_answered:
            self.done()

    def event(self, *event: object) -> None:
        self.page.send(type="input", id=self.id, event=event)

    def point(self, x: int, y: int) -> None:
        self.event("move", x, y)

    def click(self, x: int, y: int, button: str = "left") -> None:
        self.point(x, y)
        self.event("down", x, y, button)
        self.event("up", x, y, button)

    def press(self, *keys: str) -> None:
        """Press keys together, in order, and release them in reverse."""
        for key in keys:
            self.event("key", key, "", False, "down")
        for key in reversed(keys):
            self.event("key", key, "", False, "up")

    def type(self, text: str) -> None:
        for character in text:
            self.press(*(["Shift", character] if character.isupper() else [character]))

    def until(self, is_reached: Callable[[dict[str, Any]], object]) -> None:
        while not is_reached(self.page.questions[self.id]):
            try:
                self.page.read()
            except TimeoutError as exc:
                shown = self.page.questions[self.id]
                raise TimeoutError(f"{shown['notice']!r}, {shown['steps']}") from exc

    def done(self, is_done: str = "holds", **answers: Any) -> None:
        verdicts = dict.fromkeys(self.question["claims"], self._verdict)
        answers = {"is_done": is_done, "verdicts": verdicts, **answers}
        self._answer("done", **answers)

    def undo(self, keep: int | None = None) -> None:
        """Undo all steps but the first; without a number, the last one."""
        count = len(self.page.questions[self.id]["steps"])
        self._answer("undo", keep=count - 1 if keep is None else keep)

    def discard(self) -> None:
        self._answer("discard", text="the recording was discarded")

    def leave(self) -> None:
        """Leave the task as it is: something else stops it."""
        self._is_answered = True

    def _answer(self, kind: str, **answer: Any) -> None:
        self._is_answered = True
        self.page.send(type="answer", id=self.id, kind=kind, **answer)
        while self.id in self.page.questions:
            self.page.read()


class Recorder:
    """A session that serves a page, on which tests are recorded or drifts are
    answered.
    """

    def __init__(self, *command: str, cwd: Path, **environment: str) -> None:
        self.process = ForkedPython(
            *command, cwd=cwd, env={**os.environ, "CI": "", **environment}
        )
        assert self.process.stdout
        self._stdout = self.process.stdout
        self._output = ""
        self._limit = threading.Timer(2 * TIMEOUT_S, self.process.kill)

    def __enter__(self) -> Recorder:
        self._limit.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._limit.cancel()
        if kind is TimeoutError:  # faulthandler writes where each thread stands
            self.process.send_signal(signal.SIGABRT)
            sys.stdout.write(self._stdout.read())
        if "page" in vars(self):
            self.page.__exit__()
        self.process.kill()
        self.process.wait()
        self._stdout.close()

    @cached_property
    def url(self) -> str:
        lines, url = read_url(self._stdout)
        self._output += "".join(lines)
        assert url, f"nobody was asked to do a task:\n{self._output}"
        return url

    @cached_property
    def page(self) -> Page:
        return Page(self.url)

    def user(self, verdict: str = "holds") -> User:
        return User(self.page, verdict)

    def ended(self) -> Ended:
        self._output += self._stdout.read()
        return Ended(self.process.wait(2 * TIMEOUT_S), self._output)


def read_url(stream: IO[str]) -> tuple[list[str], str]:
    """Return the lines up to the one with the page's URL, and the URL; "" if there is
    none.
    """
    lines = []
    for line in stream:
        lines.append(line)
        if found := URL.search(line):
            return lines, found[0]
    return lines, ""
