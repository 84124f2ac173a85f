"""A desk that serves on loopback, and what a page receives of it."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

from support.vnc_servers import require_package, wait_for

require_package("starlette")
from pytest_vnc_use.ui.link import Link  # noqa: E402
from pytest_vnc_use.ui.server import COOKIE as COOKIE, Desk, DeskServer  # noqa: E402

WITHIN_S = 60


class Served:
    """A desk that serves on loopback."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.server = DeskServer(self.desk)
        self.token = urlsplit(self.server.url).fragment
        self.netloc = urlsplit(self.server.address).netloc
        self.links: list[Link] = []
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
        with closing(http.client.HTTPConnection(self.netloc, timeout=WITHIN_S)) as connection:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace"), dict(response.getheaders())

    def log_in(self, token: str = "", **headers: str) -> tuple[int, str, str]:
        status, text, got = self.ask("POST", "/login", token or self.token, **headers)
        return status, text, got.get("set-cookie", "")

    def cookie(self) -> str:
        return self.log_in()[2].partition(";")[0]

    def page(self, cookie: str, **headers: str) -> Any:
        return connect(f"ws://{self.netloc}/page", additional_headers={"Cookie": cookie, **headers}, proxy=None)

    def link(self, on_stop: Any = lambda: None) -> Link:
        self.links.append(Link(self.server.session_url, self.desk.session_token, "gw0", on_stop))
        return self.links[-1]

    def end(self) -> None:
        for link in self.links:
            link.close()
        self.server.end()
        self.thread.join(WITHIN_S)

    def wait_for_question(self) -> None:
        wait_for(lambda: self.desk.questions, "the question")


def received(page: ClientConnection, kind: str) -> Any:
    """Return the next message of a kind."""
    while True:
        message = page.recv(WITHIN_S)
        if isinstance(message, str) and json.loads(message)["type"] == kind:
            return json.loads(message)
