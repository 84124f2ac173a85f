"""A user of the page that a session of pytest serves, in Chromium: does the tasks by
hand and answers questions, and counts both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from suite_changes import SIGN_IN, Act, Flow

from pytest_vnc_use.backends.devtools import DevTools
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.report.results import ItemResult, read_results
from support.page_user import URL
from support.playwright_browser import chromium

LIMIT_S = 120
POLL_MS = 100
PORT_FILE = "vnc-use-*/Home/profile/DevToolsActivePort"
SAME_PX = 20
"""How far an element may be from where it was clicked, as with a longer label."""
ASKED = "id => document.getElementById('%s').dataset.id === id"
"""Whether the page shows a question: it draws later than the message arrives, and what
is clicked before that goes to the question before.
"""
# A user sees what is painted: on a busy machine a new page is there long before.
SHOWN = """(() => {
    const isPainted = document.readyState === "complete"
        && performance.getEntriesByName("first-contentful-paint").length;
    const found = isPainted && document.querySelector(%s);
    const box = found && found.getBoundingClientRect();
    return box && box.width ? [box.x + box.width / 2, box.y + box.height / 2] : null;
})()"""
TEXT_AT = """((found) => found ? (found.value ?? found.innerText).trim() : "")(
    document.elementFromPoint(%s))"""
SEEN = """document.readyState === "complete"
    && new RegExp(%s).test(document.body.innerText)"""


class UserStuck(Exception):
    """The user waited for what did not come."""


Clicked = dict[str, dict[str, tuple[float, float]]]
"""Where each test's elements were when they were clicked, by their selectors."""


class BrowserUser:
    """A user of one session's page; `flows` are what they do in each test.

    `actions` are clicks, texts and keys on the desktop, `answers` presses on the
    page around it.

    A difference is accepted, unless an element that the recording clicks has moved: then
    the user continues by hand. Claims are answered truthfully: those of tests in
    `false` do not hold. `inserted` is done where a replay stops for the user.
    """

    def __init__(
        self,
        flows: Mapping[str, Flow],
        clicked: Clicked,
        false: Sequence[str],
        inserted: Flow = (),
    ) -> None:
        self._flows = flows
        self._inserted = inserted
        self._clicked = clicked
        self._false = false
        self._directory = Path()
        self.actions = 0
        self.answers = 0

    def session(
        self,
        repository: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
    ) -> Sequence[ItemResult]:
        """Start Python with these arguments, and answer on its page until the session
        of pytest has ended.
        """
        # Of this session alone, so that its programs are found.
        self._directory = Path(tempfile.mkdtemp(dir=repository.parent))
        results = self._directory / "results.json"
        log = self._directory / "log.txt"
        env = {
            **os.environ,
            **environment,
            "CI": "",
            "TMPDIR": str(self._directory),
            "PYTEST_ADDOPTS": f"--vnc-results={results}",
        }
        with (
            log.open("w") as output,
            subprocess.Popen(
                [sys.executable, *arguments],
                cwd=repository,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            ) as process,
            chromium() as browser,
            browser.new_page(viewport={"width": 1300, "height": 1000}) as page,
        ):
            try:
                self._attend(page, process, log, results)
            finally:
                process.terminate()
        if not results.exists():
            raise UserStuck(f"pytest left no results:\n{log.read_text()}")
        return read_results(results).tests

    def _attend(
        self, page: Any, process: subprocess.Popen[bytes], log: Path, results: Path
    ) -> None:
        questions: dict[str, dict[str, Any]] = {}

        def receive(payload: str | bytes) -> None:
            if isinstance(payload, bytes):  # a frame of the live screen
                return
            message = json.loads(payload)
            asked = message.get("questions", [])
            if message["type"] == "question":
                asked = [message]
            for question in asked:
                questions.setdefault(question["id"], question)
            if message["type"] == "recorded":
                questions[message["id"]]["steps"] = message["steps"]

        page.on("websocket", lambda socket: socket.on("framereceived", receive))
        page.set_default_timeout(1000 * LIMIT_S)
        while not (url := URL.search(log.read_text("utf-8"))):
            if process.poll() is not None:
                return
            page.wait_for_timeout(POLL_MS)
        page.goto(url[0])
        answered: set[str] = set()
        # `recordings edit` serves its page for longer.
        while process.poll() is None and not results.exists():
            page.wait_for_timeout(POLL_MS)
            for number in questions.keys() - answered:
                answered.add(number)
                self._answer(page, questions[number])

    def _answer(self, page: Any, question: dict[str, Any]) -> None:
        """Answer a question of any kind, once the page shows it."""
        about = question.get("about")
        shown = ASKED % (about or "question")
        page.wait_for_function(shown, arg=question["id"])
        holds = question.get("test") not in self._false
        match about:
            case "record":
                self._do_task(page, question)
            case "claim":
                self._press(page, "It holds" if holds else "It does not")
            case "choice":
                # All that was left is done: the recording continues at its end, which
                # stands before "Nowhere".
                self.answers += 1
                page.locator("#choices button").nth(-2).click()
            case None if question["claim"]:
                self._press(page, "Yes, it holds" if holds else "No")
            case None if self._has_moved(question):
                can_continue = "hand" not in question["refused"]
                self._press(page, "Continue by hand…" if can_continue else "No")
            case None if name := self._value_at(question):
                self._press(page, f"It shows the value {name}")
            case None:
                self._press(page, "Accept: the screen now is right")

    def _has_moved(self, question: dict[str, Any]) -> bool:
        """Return whether an element that the recording clicks there is elsewhere."""
        if question["moved"] or not question["acts"]:
            return bool(question["moved"])
        for selector, (x, y) in self._clicked.get(question["test"], {}).items():
            # A list is true, so that an element that is not there is not waited for.
            shown = self._ask_program(f"[{SHOWN % json.dumps(selector)}]")[0]
            if shown and max(abs(shown[0] - x), abs(shown[1] - y)) > SAME_PX:
                return True
        return False

    def _value_at(self, question: dict[str, Any]) -> str:
        """Return the name of the value that the first difference shows; "" for none."""
        if not question["values"]:
            return ""
        left, top, right, bottom = question["boxes"][0]
        at = f"{(left + right) / 2}, {(top + bottom) / 2}"
        shown = self._ask_program(f"[{TEXT_AT % at}]")[0]
        for name, text in question["values"].items():
            if text.startswith(repr(shown)):
                return str(name)
        return ""

    def _press(self, page: Any, name: str) -> None:
        self.answers += 1
        page.get_by_role("button", name=name, exact=True).click()

    def _do_task(self, page: Any, question: dict[str, Any]) -> None:
        """Do a task, or what is left of it, and say that it is done."""
        page.wait_for_function(
            "() => document.querySelector('#record-screen canvas')?.width > 300"
        )
        is_sign_in = "password" in question["task"]
        flow = SIGN_IN if is_sign_in else self._flows[question["test"]]
        steps = [place for place, (kind, _) in enumerate(flow) if kind != "see"]
        if self._inserted:
            for act in self._inserted:
                self._act(page, question, act)
            self._inserted = ()
            self.answers += 1
            page.get_by_role("button", name="Continue with it").first.click()
            return
        # the last place is the end
        due = question["by_hand"][:-1] if "by_hand" in question else steps
        first = steps[-len(due)] if due else len(flow)
        for act in flow[first:]:
            self._act(page, question, act)
        if "by_hand" in question:
            self._press(page, "Continue the replay")
            return
        self._press(page, "Done…")
        for yes in page.locator("#record-questions [value=holds]").all():
            self.answers += 1
            yes.check()
        self._press(page, "Record")

    def _act(self, page: Any, question: dict[str, Any], act: Act) -> None:
        kind, what = act
        if kind == "see":
            self._ask_program(SEEN % json.dumps(what))
            return
        shown = question["steps"]
        self.actions += 1
        if kind == "click":
            x, y = self._ask_program(SHOWN % json.dumps(what))
            self._clicked.setdefault(question["test"], {})[what] = (x, y)
            canvas = page.locator("#record-screen canvas")
            scale = canvas.evaluate("(canvas) => canvas.clientWidth / canvas.width")
            canvas.click(position={"x": x * scale, "y": y * scale})
        elif kind == "type":
            # At once, as it is pasted: a key that comes late begins another step.
            page.keyboard.insert_text(what)
        else:
            page.keyboard.press(what)
        deadline = time.monotonic() + LIMIT_S
        while question["steps"] == shown:
            if time.monotonic() > deadline:
                raise UserStuck(f"{question['test']}: {act} is no step on the page")
            page.wait_for_timeout(POLL_MS)

    def _ask_program(self, expression: str) -> Any:
        """Return what a script says in the program's page, once that is true there."""
        deadline = Deadline(LIMIT_S)
        while deadline.remaining_s:
            files = [*self._directory.glob(PORT_FILE)]
            with suppress(DesktopError, FileNotFoundError, IndexError, ValueError):
                newest = max(files, key=lambda file: file.stat().st_mtime)
                port = newest.read_text("utf-8").split()[0]
                tools = DevTools(f"127.0.0.1:{port}")
                target = tools.pages(deadline)[0]
                with tools.open(target, deadline) as page:
                    if value := page.evaluate(expression):
                        return value
            time.sleep(POLL_MS / 1000)
        raise UserStuck(f"the program did not show {expression}")
