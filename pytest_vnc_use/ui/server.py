"""The server of the desk: the page, and the websockets between pages and test sessions.

Other users of the machine reach loopback too. So a page needs a cookie, for which the
one-time token of the printed URL is exchanged, and a session needs the session token.
Texts of models, tests and programs travel as JSON, frames as PNG, and the page shows
them as text and images only.
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
MAX_FRAMES = 30
"""The maximum messages that wait for one page. It gets no more frames then, and a whole
screen once it has caught up.
"""
MAX_STEPS = 500
"""The maximum steps kept of one test."""
CLOSED_PAGE_S = 10.0
"""How long a question waits after its last page was closed: a page may be loaded again.
"""
ABSENT_S = 300.0
"""How long a question waits for a page if none is open, or if the connection to the last
one was lost.
"""
CLOSED = "the page was closed"
NO_PAGE = "no page was open"
_CLOSES = (1000, 1001)
"""The codes of a websocket whose page was closed or left; others, uvicorn has 1005, are
of a lost connection.
"""
LOOK_S = 2.0
"""How often the runs that wait in their directories are looked for while a page is
open.
"""
_FILES = {
    "/": "index.html",
    "/desk.css": "desk.css",
    "/desk.js": "desk.js",
    "/screens.js": "screens.js",
    "/record.js": "record.js",
    "/approve.js": "approve.js",
    "/review.js": "review.js",
}
_LARGE = ("steps", "plan")
"""The facts of a test that a page gets once, and not with each change."""
ACCEPT = "--vnc-record=accept"
_ANSWERS_TO_REVIEW = ("accept", "mask", "mask_gate", "value", "bug", "no")
_PAGE = Path(__file__).with_name("page")


class OpenQuestion(NamedTuple):
    """A question that pages show, and the session that asked it; None for a run that
    waits in its directory.
    """

    asker: WebSocket | None
    facts: dict[str, Any]


class OpenPage:
    """One open page: messages in order, and frames as far as it keeps up."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.outgoing: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.is_behind = False
        """Whether the newest message was a frame, and was dropped."""

    def put(self, message: str | bytes) -> None:
        """Queue a message; drop a frame that a slow page would get late."""
        is_frame = isinstance(message, bytes)
        self.is_behind = is_frame and self.outgoing.qsize() >= MAX_FRAMES
        if not self.is_behind:
            self.outgoing.put_nowait(message)

    async def send_all(self) -> None:
        """Send what is queued until the page closes."""
        while True:
            message = await self.outgoing.get()
            if isinstance(message, bytes):
                await self.websocket.send_bytes(message)
            else:
                await self.websocket.send_text(message)
            self.outgoing.task_done()


class Desk:
    """The state that pages show: the tests, their steps and open questions, as sessions
    report them.
    """

    def __init__(self, runner: PytestRunner | None = None) -> None:
        self.runner = runner
        self.token = secrets.token_urlsafe(32)
        self.session_token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.pages: set[OpenPage] = set()
        self.sessions: dict[WebSocket, str] = {}
        """The connected processes of test sessions, each with its pytest-xdist worker,
        "" for the session's own.
        """
        self.tests: dict[str, dict[str, Any]] = {}
        self.last_results: dict[str, dict[str, Any]] = {}
        """What is known of tests from an earlier session, by node ID."""
        self.questions: dict[str, OpenQuestion] = {}
        self.waiting: WaitingRuns | None = None
        self.review: CiReview | CommitReview | None = None
        self._reviewing = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self.is_paused = False
        self._edited: dict[str, str] = {}
        """The test that is edited, and the gate at which its replay stops."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when neither a page nor a session is left."""
        self._leaving: asyncio.Task[None] | None = None
        self.absent_s = ABSENT_S
        self._is_absent = False
        """Whether a question has waited for a page in vain. Then later ones are answered
        with no at once, until a page opens.
        """

    # Authentication.

    def is_local(self, connection: HTTPConnection) -> bool:
        """Return whether the request names this server. That of another site's page, or
        of a name that resolves to this machine by DNS rebinding, does not.
        """
        host = connection.headers.get("host", "")
        names = (*LOOPBACK, connection.app.state.host)
        if urlsplit(f"//{host}").hostname not in names:
            return False
        origin = connection.headers.get("origin")
        return origin is None or urlsplit(origin).netloc == host

    def is_known(self, connection: HTTPConnection) -> bool:
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
        """Show the state to a page, and do what it asks."""
        if not self.is_local(websocket) or not self.is_known(websocket):
            await websocket.close(4403)
            return
        await websocket.accept()
        if self.runner:
            loop = asyncio.get_running_loop()
            self.runner.on_end = partial(loop.call_soon_threadsafe, self._send_session)
        page = OpenPage(websocket)
        is_closed = False
        self.pages.add(page)
        self._is_absent = False
        if self._leaving:
            self._leaving.cancel()
        if self.waiting and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_for_waiting(self.waiting))
        page.put(self._state())
        if self.review:
            page.put(json.dumps(self.review.facts()))
        self._watch()
        sending = asyncio.create_task(page.send_all())
        try:
            while True:
                await self._obey(json.loads(await websocket.receive_text()))
        except WebSocketDisconnect as exc:
            is_closed = exc.code in _CLOSES
        except (RuntimeError, ValueError, KeyError, TypeError):
            # RuntimeError: it closed while a message was sent; the others: no message
            # of this page
            pass
        finally:
            sending.cancel()
            self.pages.discard(page)
            self._watch()
            if not self.pages:
                self._wait_for_page(is_closed=is_closed)

    def _wait_for_page(self, *, is_closed: bool) -> None:
        """Have open questions wait for another page, now that the last one is gone:
        shortly if a user has closed it, longer if its connection was lost.
        """
        after_s = self.absent_s
        if is_closed:
            after_s = min(after_s, CLOSED_PAGE_S)
        if not self.questions and not self.is_paused:
            after_s = 0.0
        leave = self._leave(after_s, CLOSED if is_closed else NO_PAGE)
        self._leaving = asyncio.create_task(leave)

    def _state(self) -> str:
        state = {
            "type": "state",
            "tests": list(self.tests.values()),
            "questions": [question.facts for question in self.questions.values()],
            "can_run": bool(self.runner),
            "can_distribute": bool(self.runner and self.runner.can_distribute),
            **self._session(),
        }
        return json.dumps(state)

    def _send_session(self) -> None:
        """Show whether a session runs; once none does, its round is over."""
        session = self._session()
        rounds = self._rounds
        if rounds and rounds.replayed and not session["is_running"]:
            rounds.end(self.tests)
            self._send_groups()
        self.broadcast({"type": "session", **session})

    @property
    def _rounds(self) -> Rounds | None:
        return self.review.rounds if isinstance(self.review, CiReview) else None

    def _send_groups(self) -> None:
        if self.review:
            self.broadcast(self.review.facts())

    def _start_round(self, rounds: Rounds, runner: PytestRunner, at_once: int) -> None:
        """Replay the tests that may come further now; no user is asked."""
        tests = rounds.start()
        for test in tests:
            self._change(self._test(test), state="", triage="", message="")
        options = [ACCEPT]
        if at_once > 1:
            options += ["-n", str(at_once)]
        runner.run(tests, options)
        self._send_groups()
        self._send_session()

    def _session(self) -> dict[str, Any]:
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

    async def _leave(self, after_s: float, why: str) -> None:
        """Answer the open questions of sessions with no after a time, and end a pause. A
        page that opens before that cancels this.
        """
        await asyncio.sleep(after_s)
        for question_id, question in list(self.questions.items()):
            if question.asker:
                self._is_absent = True
                await self._answer(question_id, {"kind": "no", "text": why})
        if self.is_paused:
            await self._pause(False)
        self._check_idle()

    def _check_idle(self) -> None:
        if not self.pages and not self.sessions:
            self.on_idle()

    async def _obey(self, message: dict[str, Any]) -> None:
        """Do what a page asks for."""
        match message["type"]:
            case "run" | "replay" | "edit":
                if self.runner and not self.runner.is_running:
                    self._run(self.runner, message)
            case "stop":
                if self.runner and self.runner.is_running:
                    self.runner.stop()
                else:
                    await self._to_sessions({"type": "stop"})
                await self._pause(False)
            case "pause":
                await self._pause(bool(message["on"]))
            case "next":
                await self._to_sessions({"type": "next", "test": message["test"]})
            case "stop_before":
                await self._to_sessions(message)
            case "answer":
                await self._answer(message["id"], {"text": "", "acts": [], **message})
            case "input":
                question = self.questions.get(message["id"])
                if question and question.asker:
                    await _send(question.asker, message)
            case "whole":
                self._watch()
            case _:
                pass  # nothing that a page of this version sends

    def _run(self, runner: PytestRunner, message: dict[str, Any]) -> None:
        """Start the session that a page wants."""
        self._edited = {}
        match message["type"]:
            case "run":
                options = [ACCEPT] if message.get("accept") else []
                runner.run([str(test) for test in message["tests"]], options)
                self._send_session()
            case "replay":
                if self._rounds and self._rounds.due:
                    at_once = int(message["at_once"])
                    self._start_round(self._rounds, runner, at_once)
            case "edit":
                self.edit(str(message["test"]))

    def edit(self, test: str, gate: str = "") -> None:
        """Replay a test, and have the user act at one of its gates; by default at the
        first.
        """
        assert self.runner
        try:
            self._edited = {"test": test, "gate": gate or gates_of(test)[0]}
        except (OSError, RecordingError) as exc:
            self._change(self._test(test), message=str(exc))
            return
        self.runner.run([test], [ACCEPT])
        self._send_session()

    async def _pause(self, on: bool) -> None:
        self.is_paused = on
        await self._to_sessions({"type": "pause", "on": on})
        self._send_session()

    async def image(self, request: Request) -> Response:
        """Return an image of a difference that is reviewed."""
        if not self.is_local(request) or not self.is_known(request):
            return Response("open the page first", 403, HEADERS)
        file = self.review.image(request.path_params["name"]) if self.review else None
        if file is None:
            return Response("no such image", 404, HEADERS)
        return FileResponse(file, headers=HEADERS)

    async def _answer(self, question_id: str, answer: dict[str, Any]) -> None:
        kind = answer["kind"]
        review = self.review
        if isinstance(review, CiReview) and question_id in review.rounds.groups:
            if kind in _ANSWERS_TO_REVIEW:
                async with self._reviewing:  # two pages may answer
                    await asyncio.to_thread(
                        review.answer, question_id, kind, answer["text"], answer["acts"]
                    )
                self._send_groups()
            return
        question = self.questions.get(question_id)
        if question is None:
            return
        self._drop_question(question_id)
        if question.asker:
            await _send(question.asker, {**answer, "type": "answer", "id": question_id})
        elif self.waiting:
            problem = self.waiting.answer(question.facts, kind)
            if problem:
                self._send_result(question.facts["run"], problem)

    def _send_result(self, run: str, text: str) -> None:
        """Show what became of an answer about a run that waits in its directory."""
        self.broadcast({"type": "result", "run": run, "text": text})

    async def _look_for_waiting(self, waiting: WaitingRuns) -> None:
        """Show the runs that wait in their directories, while a page is open."""
        loop = asyncio.get_running_loop()

        def send_result(run: str, text: str) -> None:
            loop.call_soon_threadsafe(self._send_result, run, text)

        waiting.on_result = send_result
        while self.pages:
            self._show_waiting(await asyncio.to_thread(waiting.questions))
            await asyncio.sleep(LOOK_S)

    def _show_waiting(self, by_run: Mapping[str, dict[str, Any]]) -> None:
        """Show the questions of the runs that wait now, but for those that a session
        asks itself.
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

    def _drop_question(self, question_id: str) -> None:
        """Remove a question that has its answer, or needs none any more."""
        del self.questions[question_id]
        self.broadcast({"type": "answered", "id": question_id})

    def broadcast(self, message: dict[str, Any]) -> None:
        """Send a message to all pages."""
        text = json.dumps(message)
        for page in self.pages:
            page.put(text)

    # Sessions.

    async def serve_session(self, websocket: WebSocket) -> None:
        """Receive the messages of a process of a test session."""
        token = websocket.headers.get("authorization", "").removeprefix("Bearer ")
        is_valid = hmac.compare_digest(token.encode(), self.session_token.encode())
        if not is_valid or websocket.headers.get("origin"):
            await websocket.close(4403)
            return
        await websocket.accept()
        self.sessions[websocket] = ""
        try:
            await _send(websocket, {"type": "pause", "on": self.is_paused})
            await _send(websocket, {"type": "watch", "on": bool(self.pages)})
            if self._edited:
                stop = {"type": "stop_before", "on": True, **self._edited}
                await _send(websocket, stop)
            while True:
                received = await websocket.receive()
                if received["type"] == "websocket.disconnect":
                    break
                frame = received.get("bytes")
                if frame is not None:
                    self._show(frame)
                    continue
                message = json.loads(received["text"])
                if message["type"] == "finished":
                    await self._send_last(message)
                    await websocket.close()
                    break
                self._note(websocket, message)
        except (RuntimeError, ValueError, KeyError):
            # RuntimeError: it closed while a message was sent; the others: no message
            # of this version
            pass
        finally:
            del self.sessions[websocket]
            for question_id, question in list(self.questions.items()):
                if question.asker is websocket:
                    self._drop_question(question_id)
            message = "the session ended before the test did"
            for test in self.tests.values():
                if test.get("session") == id(websocket) and test["state"] == "running":
                    self._change(test, state="", is_waiting=False, message=message)
            self._send_session()
            self._check_idle()

    async def _send_last(self, message: dict[str, Any]) -> None:
        """Send a last message to the pages, and wait until they have all messages."""
        self.broadcast(message)
        sent = asyncio.gather(*[page.outgoing.join() for page in self.pages])
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(sent, CLOSED_PAGE_S)

    def _show(self, frame: bytes) -> None:
        """Send a frame to the pages; get a whole screen for one that drops it."""
        for page in self.pages:
            page.put(frame)
        if any(page.is_behind for page in self.pages):
            self._watch()

    def _note(self, websocket: WebSocket, message: dict[str, Any]) -> None:
        """Take in a message of a session, and show it on the pages."""
        match message["type"]:
            case "hello":
                self.sessions[websocket] = str(message["worker"])
                self._send_session()
            case "collected":
                tests = []
                for name in message["tests"]:
                    if name not in self.tests:
                        self._test(name).update(self.last_results.get(name, {}))
                    test = self._test(name)
                    test["is_recorded"] = name in message["recorded"]
                    tests.append(test)
                self.broadcast({"type": "tests", "tests": tests})
            case "question":
                self._put_question(websocket, message)
            case "stops":
                self._change(self._test(message["test"]), stops=message["stops"])
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
                    # pages get "" for what was known of an earlier run
                    earlier = test.keys() - {"id", "is_recorded"}
                    test.update(dict.fromkeys(earlier, ""))
                    facts |= {"steps": [], "session": id(websocket)}
                self._change(test, **facts)

    def _put_question(self, websocket: WebSocket, message: dict[str, Any]) -> None:
        """Show a question of a session; in a round, answer one about a screen."""
        rounds = self._rounds
        if rounds and rounds.replayed and "about" not in message:
            answer = rounds.ask(message)
            reply = {"kind": answer.kind, "text": answer.text, "id": message["id"]}
            self._send_groups()
            _send_soon(websocket, {"type": "answer", **reply})
            return
        self.questions[message["id"]] = OpenQuestion(websocket, message)
        self.broadcast(message)
        if not self.pages and (self._leaving is None or self._leaving.done()):
            after_s = 0.0 if self._is_absent else self.absent_s
            self._leaving = asyncio.create_task(self._leave(after_s, NO_PAGE))

    def _test(self, name: str) -> dict[str, Any]:
        return self.tests.setdefault(name, {"id": name, "state": "", "steps": []})

    def _change(self, test: dict[str, Any], **changes: Any) -> None:
        """Change what is known of a test, and send it to the pages."""
        test |= changes
        facts = {name: value for name, value in test.items() if name not in _LARGE}
        self.broadcast({"type": "test", **facts, **changes})

    def _watch(self) -> None:
        """Have frames sent, whole screens first, while a page is open."""
        for websocket in self.sessions:
            _send_soon(websocket, {"type": "watch", "on": bool(self.pages)})

    async def _to_sessions(self, message: dict[str, Any]) -> None:
        for websocket in list(self.sessions):
            await _send(websocket, message)


async def _send(websocket: WebSocket, message: dict[str, Any]) -> None:
    # it has just closed, and `serve_session` ends too
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.send_text(json.dumps(message))


_sending: set[asyncio.Task[None]] = set()
"""The messages on their way: without a reference a task may be collected."""


def _send_soon(websocket: WebSocket, message: dict[str, Any]) -> None:
    task = asyncio.create_task(_send(websocket, message))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


def _facts_in(message: dict[str, Any]) -> dict[str, Any]:
    """Return what a message states about a test, or about its step."""
    return {
        name: value for name, value in message.items() if name not in ("type", "test")
    }


async def _file(request: Request) -> Response:
    if not request.app.state.desk.is_local(request):
        return Response("wrong host", 400, HEADERS)
    return FileResponse(_PAGE / _FILES[request.url.path], headers=HEADERS)


def application(desk: Desk, host: str) -> Starlette:
    """Return the application; `host` is the name under which pages are opened."""
    app = Starlette(
        routes=[
            *[Route(path, _file) for path in _FILES],
            Route("/login", desk.log_in, methods=["POST"]),
            Route("/image/{name}", desk.image),
            WebSocketRoute("/page", desk.serve_page),
            WebSocketRoute("/session", desk.serve_session),
        ]
    )
    app.state.desk = desk
    app.state.host = host
    return app


class DeskServer:
    """The server on any free port of loopback, or `host`, which needs a certificate."""

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
            # its default was, and is in some versions, a deprecated part of websockets
            ws="websockets-sansio",
            ws_max_size=1 << 26,
            # what is large are images, which are compressed
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """The address without a token."""
        port = self._socket.getsockname()[1]
        return f"{self._scheme}://{self._host}:{port}"

    @property
    def url(self) -> str:
        """The address for a browser; its token is used once, and is not sent to any
        server.
        """
        return f"{self.address}/#{self._desk.token}"

    @property
    def session_url(self) -> str:
        """The WebSocket URL at which test sessions connect."""
        return f"{self.address.replace('http', 'ws', 1)}/session"

    def end_when_idle(self) -> None:
        """End once neither a page nor a session is left."""
        self._desk.on_idle = self.end

    def end(self) -> None:
        """End soon; any thread may call this."""
        self._server.should_exit = True

    def run(self) -> None:
        """Serve until `end`, Ctrl-C or SIGTERM."""
        self._server.run(sockets=[self._socket])
