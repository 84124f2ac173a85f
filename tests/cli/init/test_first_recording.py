"""From `cua-vnc init` to a recorded, replayed, passing test: mousepad, and a page in Chromium."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.types import Click, TypeText
from support.person import demonstrate
from support.vnc_servers import require

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

QUIET = ("-p", "no:pytest-vnc")
PAGE = "<!doctype html><title>A form</title><h1>Name</h1><input style='font: 30px sans-serif'>"


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(PAGE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(site))) as http:
        thread = Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()
        thread.join()


def types_hello(viewer: VNCController, *, at: tuple[int, int]) -> None:
    viewer.perform(Click(*at))
    viewer.settle()
    viewer.perform(TypeText("Hello"))


def recorded_and_replayed(folder: Path, program: str, show: Callable[[VNCController], None]) -> None:
    """Three commands: init, record, replay."""
    init = [sys.executable, "-m", "pytest_vnc_use.cli", "init", program, "--task", "Type Hello"]
    done = subprocess.run(init, cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, test, option = done.stdout.splitlines()[-1].split()
    assert option == "--vnc-record=demonstrate"
    code, said = demonstrate(folder, show, test, *QUIET)
    assert code == 0, said
    assert "1 recording written" in said
    replay = subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET],
        cwd=folder,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert replay.returncode == 0, replay.stdout
    assert "1 run planned by recording" in replay.stdout


def test_mousepad(tmp_path: Path) -> None:
    require("Xtigervnc")
    require("mousepad")
    recorded_and_replayed(tmp_path, "mousepad", partial(types_hello, at=(700, 450)))


def test_a_page_in_chromium(tmp_path: Path, page: str) -> None:
    require("Xtigervnc")
    require("chromium")
    recorded_and_replayed(tmp_path, page, partial(types_hello, at=(100, 110)))
