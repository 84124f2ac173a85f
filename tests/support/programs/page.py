"""A page in Chromium: `page.py FILE [NAME …]`.

It serves the page of a file on a free port, with the names in its query, shows it on
the whole screen, and keeps what the page sends, as a file of the name that it is sent
to. It ends with Chromium, whose profile is in the working directory.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from pytest_vnc_use.cli.target import browser_command


class Site(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Path(Path(self.path).name).write_bytes(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(file: Path, *names: str) -> int:
    site = partial(Site, directory=file.parent)
    with ThreadingHTTPServer(("127.0.0.1", 0), site) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        page = (
            f"--app=http://127.0.0.1:{http.server_port}/{file.name}?{'&'.join(names)}"
        )
        with subprocess.Popen(
            [*shlex.split(browser_command()), page], stderr=subprocess.DEVNULL
        ) as chromium:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            return chromium.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
