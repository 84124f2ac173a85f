"""A page in Chromium with a seeded bug: `buggy_page.py BUG [--light]`; without a bug
"".

It serves `buggy_page.html` on a free port, shows it on the whole screen, and writes
down what the page sends, as a file of the name that it is sent to. It ends with
Chromium, whose profile is in the working directory.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

from pytest_vnc_use.cli.target import browser_command

PAGE = Path(__file__).with_suffix(".html")


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_page = self.path.startswith("/page")
        self._answer(PAGE.read_bytes() if is_page else b"", 200 if is_page else 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Path(Path(self.path).name).write_bytes(body)
        self._answer(b"", 200)

    def _answer(self, body: bytes, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(bug: str, *options: str) -> int:
    asked = urlencode(
        {"bug": bug, **dict.fromkeys((option.strip("-") for option in options), "1")}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        page = f"--app=http://127.0.0.1:{http.server_port}/page?{asked}"
        with subprocess.Popen(
            [*shlex.split(browser_command()), page], stderr=subprocess.DEVNULL
        ) as chromium:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            return chromium.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
