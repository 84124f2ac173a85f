"""The pages of a browser through Chrome DevTools. They are found over HTTP, and each is
asked over its own WebSocket.

Source of commands and events: https://chromedevtools.github.io/devtools-protocol/,
where "HTTP Endpoints" says how pages are found.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import CommandRefused, DesktopError, PageGone, SettingsError
from pytest_vnc_use.types import JsonObject

T = TypeVar("T")

_HOST = {"Host": "localhost"}
"""The host in requests. Against DNS rebinding, Chrome answers only to this name or to an
IP address.
"""
_MAX_BYTES = 32 * 2**20
_CLOSE_S = 1.0
_NAVIGATED = (
    "Inspected target navigated or closed",
    "Execution context was destroyed",
    "Cannot find default execution context",
)


class PageTarget(NamedTuple):
    """A page that DevTools offers."""

    id: str
    url: str


class DevTools:
    """The DevTools that listen at `address`: `host:port`, `http://host:port` or
    `ws://host:port/…`.
    """

    def __init__(self, address: str) -> None:
        """Parse the address; nothing is connected yet. Raises SettingsError."""
        self.address = address
        problem: ValueError | None = None
        try:
            url = urlsplit(address if "://" in address else f"http://{address}")
            if url.scheme in ("http", "ws") and url.hostname and url.port:
                self._host = url.hostname
                self._port = url.port
                return
        except ValueError as exc:
            problem = exc
        raise SettingsError(
            "the address of Chrome's DevTools must be host:port or http://host:port,"
            f" got {address!r}"
        ) from problem

    def pages(self, deadline: Deadline) -> list[PageTarget]:
        """Return the browser's pages, the one last used first. Raises DesktopError."""
        return self._ask("/json/list", _pages_in, deadline)

    def websocket(self, deadline: Deadline) -> str:
        """Return the URL of the browser's WebSocket. Raises DesktopError."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        path = self._ask(
            "/json/version",
            lambda version: urlsplit(version["webSocketDebuggerUrl"]).path,
            deadline,
        )
        return f"ws://{host}:{self._port}{path}"

    def _ask(self, path: str, read: Callable[[Any], T], deadline: Deadline) -> T:
        """Return what `read` makes of the JSON at this path. No proxy is asked. Raises
        DesktopError.
        """

        def get() -> bytes:
            timeout_s = max(deadline.remaining_s, 0.001)
            connection = HTTPConnection(self._host, self._port, timeout=timeout_s)
            with closing(connection):
                connection.request("GET", path, headers=_HOST)
                return connection.getresponse().read(_MAX_BYTES)

        try:
            return read(json.loads(deadline.call(get)))
        except DeadlineExceeded:
            raise DesktopError(
                f"no browser answered at {self.address!r} in time"
            ) from None
        except OSError as exc:
            raise DesktopError(
                f"no browser answers at {self.address!r} ({exc}). Start Chrome or"
                " Chromium there with --remote-debugging-port and a separate"
                " --user-data-dir"
            ) from exc
        except (HTTPException, ValueError, KeyError, TypeError) as exc:
            raise DesktopError(
                f"the server at {self.address!r} is not Chrome's DevTools: {exc!r}"
            ) from exc

    @contextmanager
    def open(self, target: PageTarget, deadline: Deadline) -> Iterator[Page]:
        """Open a page, for questions until the deadline. Raises DesktopError."""
        try:
            remaining_s = max(deadline.remaining_s, 0.001)
            connection = socket.create_connection((self._host, self._port), remaining_s)
            connection.settimeout(None)
            uri = f"ws://localhost/devtools/page/{target.id}"
            websocket = connect(
                uri,
                sock=connection,
                open_timeout=remaining_s,
                close_timeout=_CLOSE_S,
                max_size=_MAX_BYTES,
            )
        except TimeoutError as exc:
            raise DesktopError(
                f"the browser at {self.address!r} refused a DevTools connection to its"
                f" page {target.url!r}"
            ) from exc
        except (OSError, EOFError, WebSocketException) as exc:
            # EOFError before websockets 14
            raise PageGone(
                f"the page {target.url!r} cannot be reached through DevTools: {exc}"
            ) from exc
        with websocket:
            yield Page(websocket, target, deadline)


def _pages_in(entries: Sequence[JsonObject]) -> list[PageTarget]:
    pages = [entry for entry in entries if entry["type"] == "page"]
    return [PageTarget(entry["id"], entry["url"]) for entry in pages]


class Page:
    """A connection to one page, for commands and events. Each method returns or raises
    DesktopError by the deadline.
    """

    def __init__(
        self, websocket: ClientConnection, target: PageTarget, deadline: Deadline
    ) -> None:
        self._websocket = websocket
        self._target = target
        self._deadline = deadline
        self._numbers = itertools.count(1)
        self._answers: dict[int, JsonObject] = {}
        self._events: deque[JsonObject] = deque()

    def call(self, method: str, **parameters: object) -> JsonObject:
        """Return the result of one command. Raises CommandRefused, DesktopError."""
        answer = self._answer(self._send(method, parameters))
        if "error" in answer:
            raise CommandRefused(
                f"{self} rejects {method} through DevTools:"
                f" {answer['error'].get('message')}"
            )
        result: JsonObject = answer["result"]
        return result

    def call_each(
        self, method: str, parameters: Iterable[JsonObject]
    ) -> list[JsonObject | None]:
        """Return the results of one command for each set of parameters, sent all at
        once; None for rejected ones.
        """
        numbers = [self._send(method, arguments) for arguments in parameters]
        return [self._answer(number).get("result") for number in numbers]

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of a JavaScript expression, or of its promise, in the
        page's main world.

        If the page opens another document meanwhile, that document evaluates the
        expression again. So the expression must change nothing.
        """
        self._send("Inspector.enable", {})  # reports a crash, an earlier one too
        while True:
            try:
                answer = self.call(
                    "Runtime.evaluate",
                    expression=expression,
                    returnByValue=True,
                    awaitPromise=True,
                )
            except CommandRefused as exc:
                if not any(reason in str(exc) for reason in _NAVIGATED):
                    raise
                continue
            if details := answer.get("exceptionDetails"):
                problem = details.get("exception", details).get("description")
                raise DesktopError(f"{self} cannot be read: {problem}")
            return answer["result"].get("value")

    def wait_event(self, *methods: str) -> JsonObject:
        """Return the next event with one of these names, and drop the others before it.
        Raises DesktopError.
        """
        while True:
            while self._events:
                event = self._events.popleft()
                if event["method"] in methods:
                    return event
            self._receive()

    def _send(self, method: str, parameters: JsonObject) -> int:
        number = next(self._numbers)
        try:
            self._websocket.send(
                json.dumps({"id": number, "method": method, "params": parameters})
            )
        except ConnectionClosed as exc:
            raise PageGone(f"{self} was closed") from exc
        return number

    def _answer(self, number: int) -> JsonObject:
        while number not in self._answers:
            self._receive()
        return self._answers.pop(number)

    def _receive(self) -> None:
        try:
            message = json.loads(self._websocket.recv(self._deadline.remaining_s))
        except TimeoutError as exc:
            raise DesktopError(
                f"{self} did not answer within {self._deadline.spent_s:.0f} s: its"
                " script is busy, it loads from a slow server, or it shows a dialog"
                " that waits for an answer"
            ) from exc
        except ConnectionClosed as exc:
            raise PageGone(f"{self} was closed") from exc
        if "id" in message:
            self._answers[message["id"]] = message
        elif message["method"] == "Inspector.targetCrashed":
            raise DesktopError(f"{self} has crashed. Load it again")
        else:
            self._events.append(message)

    def __str__(self) -> str:
        return f"the page {self._target.url!r}"
