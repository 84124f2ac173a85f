"""A page with bills in Chromium for tests of values: a title and an amount, of which the
last ones are shown.

It adds each bill to `bills.csv`. It ends with Chromium, whose profile is in the working
directory.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from pytest_vnc_use.cli.target import browser_command

PAGE = """<!DOCTYPE html>
<style>
  body { font: 16px sans-serif; margin: 0 }
  * { position: absolute; caret-color: transparent; transition: none }
  input { left: 160px; width: 300px; height: 30px; outline: none }
  span, p { margin: 0; left: 160px; width: 300px; height: 30px }
  label { left: 40px }
</style>
<label style="top: 40px">Title</label><input id="title" style="top: 40px">
<label style="top: 100px">Amount</label><input id="amount" style="top: 100px">
<button style="left: 160px; top: 160px; width: 160px; height: 40px">Save</button>
<label style="top: 240px">Last bill</label><p id="last" style="top: 240px"></p>
<label style="top: 300px">Sum</label><p id="sum" style="top: 300px"></p>
<script>
  const $ = (id) => document.getElementById(id);
  document.querySelector("button").onclick = () => {
    const bill = [$("title").value, $("amount").value];
    fetch("/", { method: "POST", body: JSON.stringify(bill) });
    [$("last").textContent, $("sum").textContent] = bill;
    $("title").value = $("amount").value = "";
  };
</script>
"""


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(PAGE.encode() if self.path == "/" else b"")

    def do_POST(self) -> None:
        title, amount = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Path("bills.csv").open("a", encoding="utf-8") as file:
            file.write(f"{title};{amount}\n")
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        page = f"--app=http://127.0.0.1:{http.server_port}/"
        with subprocess.Popen(
            [*shlex.split(browser_command()), page], stderr=subprocess.DEVNULL
        ) as chromium:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            return chromium.wait()


if __name__ == "__main__":
    sys.exit(main())
