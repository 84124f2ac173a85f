"""A desk that serves on loopback, and what a page receives of it."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

from pytest_vnc_use.backends.typed_secrets import RedactingController
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.recordings.format import Segment
from pytest_vnc_use.runs.redactor import Redactor
from support.vnc_servers import require_package

require_package("starlette")
from pytest_vnc_use.ui.link import Link, Watcher  # noqa: E402
from pytest_vnc_use.ui.page_user import PageUser  # noqa: E402
from pytest_vnc_use.ui.server import COOKIE as COOKIE, Desk, DeskServer  # noqa: E402

WITHIN_S = 120


class Served:
    def __init__(self) -> None:
        self.desk = Desk()
        self.server = DeskServer(self.desk)
        self.token = urlsplit(self.server.url).fragment
        self.netloc = urlsplit(self.server.base_url).netloc
        self.links: list[Link] = []
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def ask(
        self, method: str, path: str, body: str = "", **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        with closing(
            http.client.HTTPConnection(self.netloc, timeout=WITHIN_S)
        ) as connection:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return (
                response.status,
                response.read().decode(errors="replace"),
                dict(response.getheaders()),
            )

    def log_in(self, token: str = "", **headers: str) -> tuple[int, str, str]:
        status, text, got = self.ask("POST", "/login", token or self.token, **headers)
        return status, text, got.get("set-cookie", "")

    def cookie(self) -> str:
        return self.log_in()[2].partition(";")[0]

    def page(self, cookie: str, **headers: str) -> Any:
        return connect(
            f"ws://{self.netloc}/page",
            additional_headers={"Cookie": cookie, **headers},
            proxy=None,
        )

    def link(self, on_stop: Any = lambda: None) -> Link:
        self.links.append(
            Link(self.server.session_url, self.desk.session_token, on_stop)
        )
        return self.links[-1]

    def end(self) -> None:
        for link in self.links:
            link.close()
        self.server.end()
        self.thread.join(WITHIN_S)


class Recording(Served):
    def __init__(
        self,
        controller: VNCController,
        task: str,
        claims: Sequence[str],
        secrets: Mapping[str, str],
    ) -> None:
        super().__init__()
        hide = Redactor(secrets).hide
        link = self.link()
        self.watcher = Watcher(link, "test_it", hide)
        self.watcher.start()
        self.user = PageUser(
            link,
            "test_it",
            secrets=secrets,
            ambient=Redactor({}),
            asks_claims=True,
        )
        self._done: queue.SimpleQueue[Segment | str | Exception] = queue.SimpleQueue()
        self.task = task
        self._claims = claims
        self._controller = RedactingController(controller, hide)
        threading.Thread(target=self._record, daemon=True).start()

    def _record(self) -> None:
        try:
            self._done.put(
                self.user.record(
                    self.task, self._claims, self._controller, self.watcher
                )
            )
        except Exception as exc:  # noqa: BLE001  # the test raises it
            self._done.put(exc)

    def open(self, page: Any) -> None:
        page.goto(self.server.url)
        page.get_by_role("heading", name=self.task).wait_for()
        page.wait_for_function(
            "() => document.querySelector('#record-screen canvas')?.width > 300"
        )

    @property
    def done(self) -> Segment | str:
        done = self._done.get(timeout=WITHIN_S)
        if isinstance(done, Exception):
            raise done
        return done

    def close(self) -> None:
        self.watcher.close()
        self.end()


def received(page: ClientConnection, kind: str) -> Any:
    while True:
        message = page.recv(WITHIN_S)
        if isinstance(message, str) and json.loads(message)["type"] == kind:
            return json.loads(message)
