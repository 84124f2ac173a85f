"""The program that a project tests, and the desktop that shows it, read from one answer."""

from __future__ import annotations

import re
import shlex
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.paths import absolute_command

Kind = Literal["xvnc", "qt", "container", "address", "page"]

_WEB = ("http://", "https://", "file://")
_HOST = r"(?:[\w.-]+|\[[0-9a-fA-F:.%]+\])"
_ADDRESS = re.compile(rf"(?:{_HOST}(?:::\d{{1,5}}|:\d{{1,2}})|vnc://{_HOST}(?::\d{{1,5}})?)\Z")
_UNCLEAR = re.compile(r"(?P<host>[\w.-]+):(?P<port>\d{3,5})(?P<path>/\S*)?\Z")
_IMPORTS_QT = re.compile(r"^\s*(?:import|from)\s+(PySide6|PyQt6|PySide2|PyQt5)\b", re.MULTILINE)
_MOST_SOURCE = 1_000_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SHOWS_PAGE = (
    "--kiosk --no-sandbox --test-type --no-first-run --disable-gpu --disable-dev-shm-usage --disable-sync "
    "--disable-background-networking --disable-component-update --disable-extensions --password-store=basic "
    "--force-device-scale-factor=1 --user-data-dir=profile --remote-debugging-port=0"
)
"""Options for the same pixels each time: no profile of yours, no questions, no updates, no scale of the machine."""


@dataclass(frozen=True)
class Target:
    """A program and its desktop, as settings: `server`, and `app` if a program is started there.

    `qt_bindings` are the libraries of Qt that its script imports; one of them is enough.
    """

    kind: Kind
    server: str
    app: str = ""
    page: str = ""
    qt_bindings: tuple[str, ...] = ()

    @property
    def is_local_page(self) -> bool:
        """Return whether it is a page of this machine, whose server somebody must start."""
        return bool(re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])\b", self.page))


def read_target(program: str, where: str, folder: Path) -> Target:
    """Read the answer to the first question; `where` is the desktop if it was named separately, else empty.

    Raises SettingsError if the answer is unclear.
    """
    program, where = program.strip(), where.strip()
    if not program.isprintable() or not where.isprintable():
        raise SettingsError(f"the program must be one line of printable characters, got {program or where!r}")
    if not program:
        raise SettingsError("the program must be a command, a web address, container:IMAGE or host::port, got nothing")
    if program.startswith(_WEB):
        return _page(program, where)
    if program.startswith("container:"):
        server, _, command = program.partition(" ")
        return _on(where or server, command.strip(), folder)
    if not where and all(_is_address(each.strip()) for each in program.split(",")):
        return _on(program, "", folder)
    if not where and (unclear := _UNCLEAR.match(program)):
        host, port, path = unclear["host"], unclear["port"], unclear["path"] or ""
        raise SettingsError(
            f"the program must be a web address, http://{host}:{port}{path}, or a VNC server's, {host}::{port}, "
            f"got {program!r}"
        )
    return _on(where or ("qt" if _qt_bindings(program, folder) else "xvnc"), program, folder)


def started_target(asked: Target, server: str, app: str, folder: Path) -> Target:
    """Return what the first test starts, where the project may keep another server or program than was asked for.

    Raises SettingsError if the program is no command line.
    """
    if (server, app) == (asked.server, asked.app):
        return asked
    if server == "qt":
        return Target("qt", server, app, qt_bindings=_qt_bindings(app, folder))
    if server == "xvnc":
        return Target("xvnc", server, app, qt_bindings=_qt_bindings(app, folder))
    return Target("container" if server.startswith("container:") else "address", server, app)


def starts_the_same(asked: Target, app: str, folder: Path) -> bool:
    """Return whether a command line starts the program that was asked for; a browser must only show the same page."""
    if asked.page:
        return asked.page in _words(app)
    return _words(absolute_command(app, folder)) == _words(absolute_command(asked.app, folder))


def _page(address: str, where: str) -> Target:
    if " " in address:
        raise SettingsError(f"a web address must be one word, got {address!r}; write spaces as %20")
    _check_web(address)
    if where not in ("", "xvnc"):
        raise SettingsError(f"a web address is shown on --vnc=xvnc, got --vnc={where!r}; leave that out")
    browser = next(filter(shutil.which, BROWSERS), BROWSERS[0])
    return Target("page", "xvnc", f"{browser} {_SHOWS_PAGE} {shlex.quote(address)}", address)


def _check_web(address: str) -> None:
    """Raise SettingsError for an address without a host or a path, and for one with a password."""
    scheme, _, rest = address.partition("://")
    _, at, host = re.split(r"[/?#]", rest)[0].rpartition("@")
    if at:
        raise SettingsError(
            "a web address must have no name and no password, as it is written into the project's files, "
            f"got one before {at + host!r}; let the task sign in, with <secret:NAME>"
        )
    if scheme == "file":
        if not rest.strip("/"):
            raise SettingsError(f"a web address needs a path, such as file:///srv/shop.html, got {address!r}")
    elif not _has_host(address):
        raise SettingsError(f"a web address needs a host, such as http://localhost:8000/, got {address!r}")


def _has_host(address: str) -> bool:
    try:
        return bool(urlsplit(address).hostname)
    except ValueError:  # such as a bracket that is not closed
        return False


def _on(server: str, command: str, folder: Path) -> Target:
    app = _found_from_elsewhere(command, folder)
    if server == "xvnc":
        return Target("xvnc", server, app, qt_bindings=_qt_bindings(command, folder))
    if server == "qt":
        return Target("qt", server, app, qt_bindings=_qt_bindings(command, folder))
    if server.startswith("container:"):
        if server == "container:":
            raise SettingsError("an image must be named: container:IMAGE, got 'container:'")
        return Target("container", server, command)
    if all(_is_address(each.strip()) for each in server.split(",")):
        return Target("address", server, command)
    raise SettingsError(f"--vnc must be xvnc, qt, container:IMAGE, host::port or host:display, got {server!r}")


def _is_address(text: str) -> bool:
    return bool(_ADDRESS.match(text)) or _is_socket(Path(text))


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except (OSError, ValueError):  # no such file; no name of a file
        return False


def _found_from_elsewhere(command: str, folder: Path) -> str:
    """Return the command with files of this folder written as `./FILE`, because it starts in another folder."""
    words = _words(command)
    if not any("/" not in word and _is_file(folder / word) and not shutil.which(word) for word in words):
        return command
    return shlex.join(f"./{word}" if "/" not in word and _is_file(folder / word) else word for word in words)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as exc:
        raise SettingsError(f"the program must be a command line as a shell reads it ({exc}), got {command!r}") from exc


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _qt_bindings(command: str, folder: Path) -> tuple[str, ...]:
    """Return the libraries of Qt that the Python files in the command import, each once."""
    scripts = [folder / word for word in _words(command) if word.endswith((".py", ".pyw")) and _is_file(folder / word)]
    return tuple(dict.fromkeys(name for path in scripts for name in _IMPORTS_QT.findall(beginning(path))))


def beginning(path: Path) -> str:
    """Return the text of a source file, or its first million characters."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_SOURCE)
