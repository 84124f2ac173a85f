"""The conftest.py of the tests of foreign_programs.py: one a program, on a desktop and
with a home of its own.

In the directory VNC_FOREIGN are `presses`, how many keys and buttons each program was
recorded with, and `happened`, which changes came to be. The lines of
VNC_FOREIGN_CHANGES name the changes, one for each repetition of a test.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from foreign_table import (
    CHANGES,
    PROGRAMS,
    Change,
    DesktopProgram,
    Page,
    in_page,
    over_window,
)

from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop, Judge, Planner
from support import paths
from support.judges import Says
from support.tills import Steps

TOOLS = paths.PROGRAMS
HOME = """mkdir -p home/.config/gtk-3.0 home/.config/glib-2.0/settings home/.cache; cd home
export HOME="$PWD" XDG_CONFIG_HOME="$PWD/.config" XDG_CACHE_HOME="$PWD/.cache" XDG_DATA_HOME="$PWD/.local/share"
export LC_ALL=C.UTF-8 LANGUAGE= TZ=UTC NO_AT_BRIDGE=1 GSETTINGS_BACKEND=keyfile
"""
SITE = "pages.localhost"
"""The name of all pages, which Chromium finds at the port of the test's own server."""


def package_dir(package: str) -> Path:
    """Return the directory of the package, once it has been fetched; nothing in it is
    run.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(cache, "pytest-vnc-use", "npm", package.replace("/", "+"))
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as made:
            pack = ["npm", "pack", package, "--silent", "--pack-destination", made]
            subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
            (packed,) = Path(made).glob("*.tgz")
            with tarfile.open(packed) as archive:
                archive.extractall(made, filter="data")
            Path(made, "package").rename(directory)
    return directory


class Handler(SimpleHTTPRequestHandler):
    """Files of a package, with a script at the head of its page; `happened` is called
    by that script.
    """

    def __init__(
        self, page: Page, script: str, happened: Callable[[], None], *args: Any
    ) -> None:
        self.page = page
        self.script = script
        self.happened = happened
        super().__init__(*args, directory=str(package_dir(page.package)))

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].lstrip("/")
        if name in self.page.extra:
            self.answer(self.page.extra[name], "text/javascript")
        elif name == self.page.path and self.script:
            text = Path(self.directory, name).read_text("utf-8")
            self.answer(
                text.replace("<head>", f"<head><script>{self.script}</script>", 1),
                "text/html",
            )
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.happened()
        self.answer("", "text/plain")

    def answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def program(name: str) -> Page | DesktopProgram:
    return PROGRAMS[name]


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    kinds = os.environ["VNC_FOREIGN_CHANGES"].split("\n")
    repetition: int = request.node.callspec.params.get("vnc_repetition", 1)
    return kinds[(repetition - 1) % len(kinds)]


@pytest.fixture
def change(kind: str) -> Change | None:
    return CHANGES.get(kind)


@pytest.fixture
def presses(name: str) -> int:
    """How many keys and buttons were pressed when it was recorded; 0 while it is."""
    count = Path(os.environ["VNC_FOREIGN"], "presses", name)
    return int(count.read_text()) if count.exists() else 0


@pytest.fixture
def happened(name: str, kind: str) -> Callable[[], None]:
    return Path(os.environ["VNC_FOREIGN"], "happened", f"{name}, {kind}").touch


@pytest.fixture
def port(
    program: Page | DesktopProgram,
    change: Change | None,
    presses: int,
    happened: Callable[[], None],
) -> Iterator[int]:
    """Yield the port of the page with its change; 0 for other programs."""
    if not isinstance(program, Page):
        yield 0
        return
    script = ""
    if change:
        values = in_page(change, program.parts[change.part], presses, (800, 600))
        script = (
            "const CHANGE ="
            f" {json.dumps(values)};\n{(TOOLS / 'changed_page.js').read_text('utf-8')}"
        )
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, program, script, happened)
    ) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def vnc_settings(vnc_settings: Settings, program: Page | DesktopProgram) -> Settings:
    return replace(vnc_settings, screen_size=program.size)


@pytest.fixture
def vnc_app(
    program: Page | DesktopProgram,
    kind: str,
    change: Change | None,
    presses: int,
    port: int,
    tmp_path: Path,
) -> Sequence[str]:
    """A script in a file, as it is longer than a command line's word may be."""
    start = tmp_path / "start.sh"
    start.write_text(
        HOME + beside(program, change, presses) + command(program, kind, port),
        encoding="utf-8",
    )
    return ["sh", str(start)]


def beside(program: Page | DesktopProgram, change: Change | None, presses: int) -> str:
    """Start what belongs beside the program: a counter of input while it is recorded,
    or a painter over it.
    """
    words = ["count"]
    if presses:
        if not change or change.when == "start" or isinstance(program, Page):
            return ""
        painted = over_window(change, program.result, program.other, program.size)
        words = [str(change.presses(presses)), json.dumps(painted)]
    return f"{shlex.join([sys.executable, str(TOOLS / 'late_window.py'), *words])} &\n"


def command(program: Page | DesktopProgram, kind: str, port: int) -> str:
    if isinstance(program, DesktopProgram):
        return program.changed.get(kind, program.command)
    rules = f"MAP {SITE} 127.0.0.1:{port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    options = [
        f"--host-resolver-rules={rules}",
        f"--force-device-scale-factor={program.scale}",
    ]
    return (
        f"exec {browser_command()} {shlex.join(options)} http://{SITE}/{program.path}"
    )


@pytest.fixture
def vnc_desktop(
    vnc_desktop: Desktop,
    name: str,
    program: Page | DesktopProgram,
    presses: int,
    change: Change | None,
    happened: Callable[[], None],
) -> Iterator[Desktop]:
    """Once the program's window has its name; then what was counted, or has happened,
    is noted.
    """
    named = shlex.quote(f'"[^"]*{program.window}[^"]*":.* [0-9]{{3,}}x[0-9]{{3,}}[+]')
    vnc_desktop.run(
        [
            "sh",
            "-c",
            f"until xwininfo -root -tree | grep -Eq {named}; do sleep 0.1; done",
        ]
    )
    if change and change.when == "start" and isinstance(program, DesktopProgram):
        happened()
    yield vnc_desktop
    if not presses:
        Path(os.environ["VNC_FOREIGN"], "presses", name).write_text(
            vnc_desktop.read_file("home/presses")
        )
    elif vnc_desktop.run(["test", "-e", "home/happened"]).exit_code == 0:
        happened()


@pytest.fixture
def vnc_planner(program: Page | DesktopProgram) -> Planner:
    return Steps(*program.steps)


@pytest.fixture
def vnc_judge(program: Page | DesktopProgram) -> Judge:
    return Says(region=program.region)
