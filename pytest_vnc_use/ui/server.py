"""Serve the page, and relay messages between pages and test sessions.

Other users of the machine can connect to loopback too. So a page needs a cookie, which
it gets for the one-time token of the printed URL, and a session needs the session
token. Texts of models, tests and programs are sent as JSON, frames as PNG; the page
shows them as text and images only.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pytest_vnc_use.errors import RecordingError, SettingsError, install_hint
from pytest_vnc_use.recordings.store import gates_of
from pytest_vnc_use.ui.approve import WaitingRuns
from pytest_vnc_use.ui.commits import CommitReview
from pytest_vnc_use.ui.review import CiReview
from pytest_vnc_use.ui.rounds import Rounds
from pytest_vnc_use.ui.runner import PytestRunner

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import FileResponse, Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ImportError as exc:
    raise SettingsError(
        f"the page needs Starlette and uvicorn ({exc}). {install_hint('ui')}"
    ) from exc

COOKIE = "vnc_use_desk"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:"
        " data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';"
        " form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGE = Path(__file__).with_name("page")
_FILES = {
    "/": "index.html",
    "/desk.css": "desk.css",
    "/desk.js": "desk.js",
    "/screens.js": "screens.js",
    "/record.js": "record.js",
    "/approve.js": "approve.js",
    "/review.js": "review.js",
}
MAX_FRAMES = 30
"""The maximum messages queued for a page. A page with more gets no frames, and a whole
screen once it has caught up.
"""
MAX_STEPS = 500
"""The maximum steps kept of one test."""
CLOSED_PAGE_WAIT_S = 10.0
"""How long a question waits after a user closed the last page, perhaps to reload it."""
PAGE_WAIT_S = 300.0
"""How long a question waits for a page if none was opened, or the connection to the
last one was lost.
"""
_LAST_MESSAGES_S = 10.0
"""How long a finished session waits until the pages have all messages."""
_POLL_S = 2.0
"""The interval at which waiting runs are searched for while a page is open."""
PAGE_CLOSED = "the page was closed"
NO_PAGE_OPEN = "no page was open"
_CLOSE_CODES = (1000, 1001)
"""The websocket codes for a page that was closed or left. Others, such as uvicorn's
1005, are for a lost connection.
"""
ACCEPT = "--vnc-record=accept"
_ANSWERS_TO_REVIEW = ("accept", "mask", "mask_gate", "value", "bug", "no")
_LARGE_FACTS = ("steps", "plan")
"""The facts of a test that are not sent with each change."""


class OpenQuestion(NamedTuple):
    """A question that pages show."""

    asker: WebSocket | None
    """The session that asked it; None for a run that waits in its directory."""
    facts: dict[str, Any]


class OpenPage:
    """One open page, with its queue of messages."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.outgoing: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.is_behind = False
        """Whether the newest message was a frame that was dropped."""

    def put(self, message: str | bytes) -> None:
        """Queue a message, but drop a frame if the page is too slow."""
        is_frame = isinstance(message, bytes)
        self.is_behind = is_frame and self.outgoing.qsize() >= MAX_FRAMES
        if not self.is_behind:
            self.outgoing.put_nowait(message)

    async def send_all(self) -> None:
        """Send the queued messages until cancelled."""
        while True:
            message = await self.outgoing.get()
            if isinstance(message, bytes):
                await self.websocket.send_bytes(message)
            else:
                await self.websocket.send_text(message)
            self.outgoing.task_done()


class Desk:
    """The state that pages show: tests, steps and open questions, as sessions report
    them.
    """

    def __init__(self, runner: PytestRunner | None = None) -> None:
        self.runner = runner
        self.token = secrets.token_urlsafe(32)
        self.session_token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.pages: set[OpenPage] = set()
        self.sessions: set[WebSocket] = set()
        """The connected processes of test sessions: with pytest-xdist, several."""
        self.tests: dict[str, dict[str, Any]] = {}
        """The facts of each test, by node ID."""
        self.last_results: dict[str, dict[str, Any]] = {}
        """The facts of tests from an earlier session, by node ID."""
        self.questions: dict[str, OpenQuestion] = {}
        self.is_paused = False
        self._stop_before: dict[str, Any] = {}
        """The message by which a session stops the edited test at a gate."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when neither a page nor a session is left."""

        self.page_wait_s = PAGE_WAIT_S
        self._denial: asyncio.Task[None] | None = None
        """Denies the open questions, unless a page is opened in time."""
        self._denies_at_once = False
        """Whether a question was denied because no page was opened. Later ones are then
        denied at once, until a page is opened.
        """

        self.waiting_runs: WaitingRuns | None = None
        self._polling: asyncio.Task[None] | None = None
        self.review: CiReview | CommitReview | None = None
        self._review_lock = asyncio.Lock()

    # Authentication.

    def is_local(self, connection: HTTPConnection) -> bool:
        """Return whether the headers Host and Origin name this server.

        Those of another site's page do not, nor do those of a DNS rebinding attack.
        """
        host = connection.headers.get("host", "")
        names = (*LOOPBACK, connection.app.state.host)
        if urlsplit(f"//{host}").hostname not in names:
            return False
        origin = connection.headers.get("origin")
        return origin is None or urlsplit(origin).netloc == host

    def has_cookie(self, connection: HTTPConnection) -> bool:
        """Return whether the request has the cookie."""
        cookie = connection.cookies.get(COOKIE, "")
        return hmac.compare_digest(cookie.encode(), self._cookie.encode())

    async def log_in(self, request: Request) -> Response:
        """Exchange the one-time token for the cookie."""
        token = b""
        if int(request.headers.get("content-length", "0")) < 1000:
            token = await request.body()
        is_valid = hmac.compare_digest(token, self.token.encode())
        if not self.token or not is_valid or not self.is_local(request):
            problem = "This link was used already, or is wrong: see the terminal."
            return Response(problem, 403, HEADERS)
        self.token = ""
        response = Response(status_code=204, headers=HEADERS)
        response.set_cookie(
            COOKIE,
            self._cookie,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    # Pages.

    async def serve_page(self, websocket: WebSocket) -> None:
        """Send the state to a page, and handle its messages until it closes."""
        if not self.is_local(websocket) or not self.has_cookie(websocket):
            await websocket.close(4403)
            return
        await websocket.accept()
        if self.runner:
            # Only now is it certain that the event loop runs.
            loop = asyncio.get_running_loop()
            self.runner.on_end = partial(
                loop.call_soon_threadsafe, self._broadcast_session
            )
        self._denies_at_once = False
        if self._denial:
            self._denial.cancel()
        page = OpenPage(websocket)
        self.pages.add(page)
        if self.waiting_runs and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(
                self._poll_waiting_runs(self.waiting_runs)
            )

        page.put(self._state_message())
        if self.review:
            page.put(json.dumps(self.review.facts()))
        self._request_frames()
        sending = asyncio.create_task(page.send_all())
        is_closed = False
        try:
            while True:
                message = json.loads(await websocket.receive_text())
                await self._handle_page_message(message)
        except WebSocketDisconnect as exc:
            is_closed = exc.code in _CLOSE_CODES
        except (RuntimeError, ValueError, KeyError, TypeError):
            # RuntimeError: the page closed while a message was sent to it.
            # The others: the message is invalid.
            pass
        finally:
            sending.cancel()
            self.pages.discard(page)
            self._request_frames()
            if not self.pages:
                self._deny_without_page(is_closed=is_closed)

    async def serve_image(self, request: Request) -> Response:
        """Return an image of the review."""
        if not self.is_local(request) or not self.has_cookie(request):
            return Response("open the page first", 403, HEADERS)
        file = self.review.image(request.path_params["name"]) if self.review else None
        if file is None:
            return Response("no such image", 404, HEADERS)
        return FileResponse(file, headers=HEADERS)

    async def _handle_page_message(self, message: dict[str, Any]) -> None:
        """Do what a page requests. Messages of unknown types are ignored."""
        match message["type"]:
            case "run" | "replay" | "edit":
                if self.runner and not self.runner.is_running:
                    self._start_session(self.runner, message)
            case "stop":
                if self.runner and self.runner.is_running:
                    self.runner.stop()
                else:
                    await self._send_to_sessions({"type": "stop"})
                await self._set_paused(False)
            case "pause":
                await self._set_paused(bool(message["on"]))
            case "next":
                await self._send_to_sessions({"type": "next", "test": message["test"]})
            case "stop_before":
                await self._send_to_sessions(message)
            case "answer":
                await self._answer(message["id"], {"text": "", "acts": [], **message})
            case "input":
                question = self.questions.get(message["id"])
                if question and question.asker:
                    await _send(question.asker, message)
            case "whole":
                self._request_frames()

    def _start_session(self, runner: PytestRunner, message: dict[str, Any]) -> None:
        """Start the test session that a page requests."""
        self._stop_before = {}
        match message["type"]:
            case "run":
                options = [ACCEPT] if message.get("accept") else []
                runner.run([str(test) for test in message["tests"]], options)
                self._broadcast_session()
            case "replay":
                if self._rounds and self._rounds.due:
                    at_once = int(message["at_once"])
                    self._start_round(self._rounds, runner, at_once)
            case "edit":
                self.edit(str(message["test"]))

    def edit(self, test: str, gate: str = "") -> None:
        """Replay a test, and have the user act at `gate`, by default its first."""
        assert self.runner
        try:
            gate = gate or gates_of(test)[0]
        except (OSError, RecordingError) as exc:
            self._update_test(self._test(test), message=str(exc))
            return
        self._stop_before = {
            "type": "stop_before",
            "on": True,
            "test": test,
            "gate": gate,
        }
        self.runner.run([test], [ACCEPT])
        self._broadcast_session()

    @property
    def _rounds(self) -> Rounds | None:
        return self.review.rounds if isinstance(self.review, CiReview) else None

    def _start_round(self, rounds: Rounds, runner: PytestRunner, at_once: int) -> None:
        """Replay the tests that new answers let continue, without asking a user."""
        tests = rounds.start()
        for test in tests:
            self._update_test(self._test(test), state="", triage="", message="")
        options = [ACCEPT]
        if at_once > 1:
            options += ["-n", str(at_once)]
        runner.run(tests, options)
        self._broadcast_groups()
        self._broadcast_session()

    async def _set_paused(self, on: bool) -> None:
        self.is_paused = on
        await self._send_to_sessions({"type": "pause", "on": on})
        self._broadcast_session()

    # Questions.

    def _put_question(self, websocket: WebSocket, message: dict[str, Any]) -> None:
        """Show a question of a session. One of a replay is answered by the round that
        runs, if any.
        """
        rounds = self._rounds
        if rounds and rounds.replayed and "about" not in message:
            answer = rounds.ask(message)
            reply = {"kind": answer.kind, "text": answer.text, "id": message["id"]}
            self._broadcast_groups()
            _send_soon(websocket, {"type": "answer", **reply})
            return
        self.questions[message["id"]] = OpenQuestion(websocket, message)
        self.broadcast(message)
        if not self.pages and (self._denial is None or self._denial.done()):
            delay_s = 0.0 if self._denies_at_once else self.page_wait_s
            self._denial = asyncio.create_task(self._deny_after(delay_s, NO_PAGE_OPEN))

    async def _answer(self, question_id: str, answer: dict[str, Any]) -> None:
        """Pass an answer to what asked: a group of the review, a session, or a run that
        waits in its directory.
        """
        kind = answer["kind"]
        review = self.review
        if isinstance(review, CiReview) and question_id in review.rounds.groups:
            if kind in _ANSWERS_TO_REVIEW:
                async with self._review_lock:  # Two pages may answer at once.
                    await asyncio.to_thread(
                        review.answer, question_id, kind, answer["text"], answer["acts"]
                    )
                self._broadcast_groups()
            return
        question = self.questions.get(question_id)
        if question is None:
            return
        self._drop_question(question_id)
        if question.asker:
            await _send(question.asker, {**answer, "type": "answer", "id": question_id})
        elif self.waiting_runs:
            problem = self.waiting_runs.answer(question.facts, kind)
            if problem:
                self._broadcast_result(question.facts["run"], problem)

    def _drop_question(self, question_id: str) -> None:
        """Remove a question that is answered or obsolete."""
        del self.questions[question_id]
        self.broadcast({"type": "answered", "id": question_id})

    def _deny_without_page(self, *, is_closed: bool) -> None:
        """Deny open questions, now that no page is open, unless another is opened soon.

        The wait is short if the user closed the page, long if its connection was lost.
        """
        delay_s = self.page_wait_s
        if is_closed:
            delay_s = min(delay_s, CLOSED_PAGE_WAIT_S)
        if not self.questions and not self.is_paused:
            delay_s = 0.0
        reason = PAGE_CLOSED if is_closed else NO_PAGE_OPEN
        self._denial = asyncio.create_task(self._deny_after(delay_s, reason))

    async def _deny_after(self, delay_s: float, reason: str) -> None:
        """After a delay, answer all questions of sessions with no, and end a pause."""
        await asyncio.sleep(delay_s)
        for question_id, question in list(self.questions.items()):
            if question.asker:
                self._denies_at_once = True
                await self._answer(question_id, {"kind": "no", "text": reason})
        if self.is_paused:
            await self._set_paused(False)
        self._check_idle()

    async def _poll_waiting_runs(self, waiting: WaitingRuns) -> None:
        """Show the runs that wait in their directories, while a page is open."""
        loop = asyncio.get_running_loop()

        def send_result(run: str, text: str) -> None:
            loop.call_soon_threadsafe(self._broadcast_result, run, text)

        waiting.on_result = send_result
        while self.pages:
            self._show_waiting_runs(await asyncio.to_thread(waiting.questions))
            await asyncio.sleep(_POLL_S)

    def _show_waiting_runs(self, by_run: Mapping[str, dict[str, Any]]) -> None:
        """Replace the shown questions of waiting runs. A run of a connected session is
        left out: the session asks itself.
        """
        asked = [
            question.facts.get("run")
            for question in self.questions.values()
            if question.asker
        ]
        due = {}
        for run, facts in by_run.items():
            if run not in asked:
                due[facts["id"]] = OpenQuestion(None, facts)
        for question_id, question in list(self.questions.items()):
            if question.asker is None and question_id not in due:
                self._drop_question(question_id)
        for question_id, question in due.items():
            if self.questions.get(question_id) != question:
                self.questions[question_id] = question
                self.broadcast(question.facts)

    # Sessions.

    async def serve_session(self, websocket: WebSocket) -> None:
        """Handle the messages of one process of a test session until it ends."""
        token = websocket.headers.get("authorization", "").removeprefix("Bearer ")
        is_valid = hmac.compare_digest(token.encode(), self.session_token.encode())
        if not is_valid or websocket.headers.get("origin"):
            await websocket.close(4403)
            return
        await websocket.accept()
        self.sessions.add(websocket)
        try:
            await _send(websocket, {"type": "pause", "on": self.is_paused})
            await _send(websocket, {"type": "watch", "on": bool(self.pages)})
            if self._stop_before:
                await _send(websocket, self._stop_before)
            while True:
                received = await websocket.receive()
                if received["type"] == "websocket.disconnect":
                    break
                frame = received.get("bytes")
                if frame is not None:
                    self._broadcast_frame(frame)
                    continue
                message = json.loads(received["text"])
                if message["type"] == "finished":
                    await self._broadcast_last(message)
                    await websocket.close()
                    break
                self._handle_session_message(websocket, message)
        except (RuntimeError, ValueError, KeyError):
            # RuntimeError: the session closed while a message was sent to it.
            # The others: the message is invalid.
            pass
        finally:
            self.sessions.remove(websocket)
            for question_id, question in list(self.questions.items()):
                if question.asker is websocket:
                    self._drop_question(question_id)
            message = "the session ended before the test did"
            for test in self.tests.values():
                if test.get("session") == id(websocket) and test["state"] == "running":
                    self._update_test(test, state="", is_waiting=False, message=message)
            self._broadcast_session()
            self._check_idle()

    def _handle_session_message(
        self, websocket: WebSocket, message: dict[str, Any]
    ) -> None:
        """Update the state by a message of a session, and show it on the pages."""
        match message["type"]:
            case "hello":
                self._broadcast_session()
            case "collected":
                tests = []
                for name in message["tests"]:
                    is_new = name not in self.tests
                    test = self._test(name)
                    if is_new:
                        test.update(self.last_results.get(name, {}))
                    test["is_recorded"] = name in message["recorded"]
                    tests.append(test)
                self.broadcast({"type": "tests", "tests": tests})
            case "question":
                self._put_question(websocket, message)
            case "stops":
                self._update_test(self._test(message["test"]), stops=message["stops"])
            case "answered" if message["id"] in self.questions:
                self._drop_question(message["id"])
            case "recorded" if message["id"] in self.questions:
                facts = self.questions[message["id"]].facts
                facts["steps"] = message["steps"]
                facts["notice"] = message["notice"]
                facts["crops"] |= message["crops"]
                self.broadcast(message)
            case "step":
                test = self._test(message["test"])
                facts = _facts_in(message)
                others = [
                    step for step in test["steps"] if step["number"] != facts["number"]
                ]
                test["steps"] = [*others[-MAX_STEPS:], facts]
                self.broadcast(message)
            case "test":
                test = self._test(message["test"])
                facts = _facts_in(message)
                if message.get("state") == "running":
                    # Pages keep a fact until they get another, so those of an earlier
                    # run are emptied, not removed.
                    earlier = test.keys() - {"id", "is_recorded"}
                    test.update(dict.fromkeys(earlier, ""))
                    facts |= {"steps": [], "session": id(websocket)}
                self._update_test(test, **facts)

    def _broadcast_frame(self, frame: bytes) -> None:
        """Send a frame to the pages; request a whole screen if a page dropped it."""
        for page in self.pages:
            page.put(frame)
        if any(page.is_behind for page in self.pages):
            self._request_frames()

    async def _broadcast_last(self, message: dict[str, Any]) -> None:
        """Send the last message of a session, and wait until the pages have it."""
        self.broadcast(message)
        sent = asyncio.gather(*[page.outgoing.join() for page in self.pages])
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(sent, _LAST_MESSAGES_S)

    def _request_frames(self) -> None:
        """Have sessions send frames while a page is open, first a whole screen."""
        for websocket in self.sessions:
            _send_soon(websocket, {"type": "watch", "on": bool(self.pages)})

    async def _send_to_sessions(self, message: dict[str, Any]) -> None:
        for websocket in list(self.sessions):
            await _send(websocket, message)

    def _check_idle(self) -> None:
        if not self.pages and not self.sessions:
            self.on_idle()

    # Messages to pages.

    def broadcast(self, message: dict[str, Any]) -> None:
        """Send a message to all pages."""
        text = json.dumps(message)
        for page in self.pages:
            page.put(text)

    def _state_message(self) -> str:
        state = {
            "type": "state",
            "tests": list(self.tests.values()),
            "questions": [question.facts for question in self.questions.values()],
            "can_run": bool(self.runner),
            "can_distribute": bool(self.runner and self.runner.can_distribute),
            **self._session_facts(),
        }
        return json.dumps(state)

    def _broadcast_session(self) -> None:
        """Show whether a session runs; if none does, end the round."""
        session = self._session_facts()
        rounds = self._rounds
        if rounds and rounds.replayed and not session["is_running"]:
            rounds.end(self.tests)
            self._broadcast_groups()
        self.broadcast({"type": "session", **session})

    def _session_facts(self) -> dict[str, Any]:
        is_running = bool(self.sessions)
        problem = ""
        if self.runner:
            is_running = is_running or self.runner.is_running
            problem = self.runner.problem
        return {
            "is_running": is_running,
            "is_paused": self.is_paused,
            "problem": problem,
        }

    def _broadcast_groups(self) -> None:
        if self.review:
            self.broadcast(self.review.facts())

    def _broadcast_result(self, run: str, text: str) -> None:
        """Show the result of an answer about a waiting run."""
        self.broadcast({"type": "result", "run": run, "text": text})

    def _test(self, name: str) -> dict[str, Any]:
        """Return the facts of a test, new ones if it is unknown."""
        return self.tests.setdefault(name, {"id": name, "state": "", "steps": []})

    def _update_test(self, test: dict[str, Any], **changes: Any) -> None:
        """Update the facts of a test, and send them to the pages."""
        test |= changes
        facts = {
            name: value for name, value in test.items() if name not in _LARGE_FACTS
        }
        self.broadcast({"type": "test", **facts, **changes})


async def _send(websocket: WebSocket, message: dict[str, Any]) -> None:
    """Send a message to a session, unless it has just closed."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.send_text(json.dumps(message))


_sending: set[asyncio.Task[None]] = set()
"""The running tasks of `_send_soon`: asyncio keeps only weak references to tasks."""


def _send_soon(websocket: WebSocket, message: dict[str, Any]) -> None:
    task = asyncio.create_task(_send(websocket, message))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


def _facts_in(message: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a test or a step in a message."""
    return {
        name: value for name, value in message.items() if name not in ("type", "test")
    }


async def _serve_file(request: Request) -> Response:
    if not request.app.state.desk.is_local(request):
        return Response("wrong host", 400, HEADERS)
    return FileResponse(_PAGE / _FILES[request.url.path], headers=HEADERS)


def application(desk: Desk, host: str) -> Starlette:
    """Return the application; `host` is the name under which pages are opened."""
    app = Starlette(
        routes=[
            *[Route(path, _serve_file) for path in _FILES],
            Route("/login", desk.log_in, methods=["POST"]),
            Route("/image/{name}", desk.serve_image),
            WebSocketRoute("/page", desk.serve_page),
            WebSocketRoute("/session", desk.serve_session),
        ]
    )
    app.state.desk = desk
    app.state.host = host
    return app


class DeskServer:
    """The server of a desk, on loopback; another `host` needs a certificate."""

    def __init__(
        self,
        desk: Desk,
        host: str = "127.0.0.1",
        port: int = 0,
        cert: str = "",
        key: str = "",
    ) -> None:
        if host not in LOOPBACK and not cert:
            raise SettingsError(
                f"--host={host} can be reached from other machines, so it needs TLS."
                " Give --cert and --key, or remove --host and use ssh -L"
            )
        self._desk = desk
        self._scheme = "https" if cert else "http"
        self._host = host
        family = socket.AF_INET
        if ":" in host:
            self._host = f"[{host}]"
            family = socket.AF_INET6
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as exc:
            raise SettingsError(
                f"the page cannot listen on {host!r}, port {port}: {exc}"
            ) from exc
        config = uvicorn.Config(
            application(desk, host),
            log_level="error",
            lifespan="off",
            ssl_certfile=cert or None,
            ssl_keyfile=key or None,
            # In some versions the default uses a deprecated part of websockets.
            ws="websockets-sansio",
            ws_max_size=1 << 26,
            # The large messages are images, which are compressed.
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    @property
    def base_url(self) -> str:
        """The URL of the page, without a token."""
        port = self._socket.getsockname()[1]
        return f"{self._scheme}://{self._host}:{port}"

    @property
    def url(self) -> str:
        """The URL to open in a browser. Its token is valid once; as a fragment, no
        browser sends it to a server.
        """
        return f"{self.base_url}/#{self._desk.token}"

    @property
    def session_url(self) -> str:
        """The websocket URL for test sessions."""
        return f"{self.base_url.replace('http', 'ws', 1)}/session"

    def end_when_idle(self) -> None:
        """End once neither a page nor a session is left."""
        self._desk.on_idle = self.end

    def end(self) -> None:
        """Make `run` return soon. Thread-safe."""
        self._server.should_exit = True

    def run(self) -> None:
        """Serve until `end`, Ctrl-C or SIGTERM."""
        self._server.run(sockets=[self._socket])
