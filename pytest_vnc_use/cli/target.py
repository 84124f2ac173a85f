"""The program that `cua-vnc init` is given, and the desktop that shows it."""

from __future__ import annotations

import re
import shlex
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.settings.settings import LOCAL_SERVERS

Kind = Literal["xvnc", "qt", "container", "address", "page"]
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SHOWS_PAGE = (
    "--kiosk --no-sandbox --test-type --no-first-run --disable-gpu"
    " --disable-dev-shm-usage --disable-sync --disable-background-networking"
    " --disable-component-update --disable-extensions --password-store=basic"
    " --disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"
    " --force-device-scale-factor=1"
)
"""Options for the same pixels each time: no questions, no updates, no scale of the
machine. The suggestions of the address bar, which is not shown, would be two pages that
take as much of the processor as all else that Chromium does to start.
"""
PREFERENCES = '{"credentials_enable_service":false}'
"""A profile's `Default/Preferences` with which a browser offers to save no password. No
option does that: with --guest it asks where to save each download, with
--enable-automation it shows a bar, and with --incognito a second command opens another
session.
"""


def browser_command(browser: str = "chromium", profile: str = "profile") -> str:
    """Return the command of a browser that shows only the page whose URL follows, with
    a new profile in this directory of the working directory.
    """
    preferences = PREFERENCES.replace('"', '\\"')
    return (
        f"sh -c 'mkdir -p {profile}/Default"
        f""" && echo "{preferences}" >{profile}/Default/Preferences"""
        f""" && exec "$@"' sh {browser} {_SHOWS_PAGE}"""
        f" --user-data-dir={profile} --remote-debugging-port=0"
    )


_HOST = r"(?:[\w.-]+|\[[0-9a-fA-F:.%]+\])"
_ADDRESS = re.compile(
    rf"(?:{_HOST}(?:::\d{{1,5}}|:\d{{1,2}})|vnc://{_HOST}(?::\d{{1,5}})?)\Z"
)
_UNCLEAR = re.compile(r"(?P<host>[\w.-]+):(?P<port>\d{3,5})(?P<path>/\S*)?\Z")
_IMPORTS_QT = re.compile(
    r"^\s*(?:import|from)\s+(PySide6|PyQt6|PySide2|PyQt5)\b", re.MULTILINE
)


@dataclass(frozen=True)
class Target:
    """A program and its desktop, as settings.

    `app` is the command that starts the program; for a browser, `page` is the URL that
    it shows. `qt_binding` is the Python package of Qt that the program imports.
    """

    kind: Kind
    server: str
    app: str = ""
    page: str = ""
    qt_binding: str = ""

    @property
    def is_local_page(self) -> bool:
        """Whether it is a page of this machine, whose server must be started before the
        tests.
        """
        return bool(re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])\b", self.page))


def read_target(program: str, where: str, directory: Path) -> Target:
    """Return the program and its desktop. `where` is the value of --vnc, or empty.
    Raises SettingsError if PROGRAM is unclear.
    """
    program = program.strip()
    where = where.strip()
    if not program or not program.isprintable() or not where.isprintable():
        raise SettingsError(
            "PROGRAM must be one line of printable characters, got"
            f" {program or where!r}"
        )
    if program.startswith(("http://", "https://", "file://")):
        return _page(program, where)
    if program.startswith("container:"):
        server, _, command = program.partition(" ")
        return _on(where or server, command.strip(), directory)
    if not where and _is_server(program):
        return Target("address", program)
    if not where and (unclear := _UNCLEAR.match(program)):
        host = unclear["host"]
        port = unclear["port"]
        path = unclear["path"] or ""
        raise SettingsError(
            f"PROGRAM must be a URL, http://{host}:{port}{path}, or a VNC server's"
            f" address, {host}::{port}, got {program!r}"
        )
    if not where:
        where = "qt" if _qt_binding(split_command(program), directory) else "xvnc"
    return _on(where, program, directory)


def _page(url: str, where: str) -> Target:
    try:
        parts = urlsplit(url)
        has_location = bool(parts.hostname or (parts.scheme == "file" and parts.path))
        has_user = "@" in parts.netloc
    except ValueError:  # such as a bracket that is not closed
        has_location = False
        has_user = False
    if has_user:
        raise SettingsError(
            "a URL must not contain a user name or a password, because project files"
            " show it. Let the task sign in with <secret:NAME>"
        )
    if " " in url or not has_location:
        raise SettingsError(
            "a URL must be like http://localhost:8000/ or file:///srv/shop.html, got"
            f" {url!r}"
        )
    if where not in ("", "xvnc"):
        raise SettingsError(
            f"a URL needs --vnc=xvnc, got --vnc={where!r}. Remove --vnc"
        )
    browser = next(filter(shutil.which, _BROWSERS), _BROWSERS[0])
    app = f"{browser_command(browser)} {shlex.quote(url)}"
    return Target("page", "xvnc", app, url)


def _on(server: str, command: str, directory: Path) -> Target:
    if server.startswith("container:") and server != "container:":
        return Target("container", server, command)
    if _is_server(server):
        return Target("address", server, command)
    if server not in LOCAL_SERVERS:
        raise SettingsError(
            "--vnc must be xvnc, qt, container:IMAGE, host::port or host:display, got"
            f" {server!r}"
        )
    # The program starts in another directory, where a file of this one needs a slash.
    argv = split_command(command)
    paths = []
    for arg in argv:
        is_file = "/" not in arg and _is_kind(directory / arg, stat.S_ISREG)
        is_relative = is_file and not shutil.which(arg)
        paths.append(f"./{arg}" if is_relative else arg)
    app = command if paths == argv else shlex.join(paths)
    return Target(
        "qt" if server == "qt" else "xvnc",
        server,
        app,
        qt_binding=_qt_binding(argv, directory),
    )


def _is_server(text: str) -> bool:
    return all(
        _ADDRESS.match(name) or _is_kind(Path(name), stat.S_ISSOCK)
        for name in map(str.strip, text.split(","))
    )


def _is_kind(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except (OSError, ValueError):  # there is no such file; no file can have that name
        return False


def split_command(command: str) -> list[str]:
    """Split a command line as a shell does. Raises SettingsError if it cannot be."""
    try:
        return shlex.split(command)
    except ValueError as exc:
        raise SettingsError(
            f"PROGRAM must be a command line that a shell can split ({exc}), got"
            f" {command!r}"
        ) from exc


def _qt_binding(argv: list[str], directory: Path) -> str:
    """Return the first Qt library that a Python file in the command line imports; empty
    without one.
    """
    for arg in argv:
        path = directory / arg
        if not arg.endswith((".py", ".pyw")) or not _is_kind(path, stat.S_ISREG):
            continue
        if imported := _IMPORTS_QT.search(path.read_text("utf-8", "replace")):
            return imported[1]
    return ""
