"""The home directory of the program under test: its path, what it keeps of the tester's, what dialogs show of it."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.session import Session
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from support.vnc_servers import require, wait_for

NOON = 1577880000
"""1 January 2020, 12:00 UTC."""


@pytest.fixture
def sessions() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(sessions: ExitStack, name: str) -> Session:
    session = Session(name=name)
    sessions.callback(session.stop)
    return session


def test_home_is_empty_working_directory(sessions: ExitStack) -> None:
    session = start(sessions, "")
    assert session.run(["sh", "-c", "pwd; echo $HOME; ls -A"], 30).stdout == f"{session.home}\n{session.home}\n"
    assert session.home.name == "Home"


def test_home_of_same_name_has_same_path(sessions: ExitStack) -> None:
    name = f"test_shop.py::test_basket {os.getpid()}"
    first = start(sessions, name)
    beside, other = start(sessions, name), start(sessions, f"{name}[2]")
    assert len({first.home, beside.home, other.home}) == 3
    first.stop()
    first.directory.mkdir()
    (first.directory / "lock").touch()  # as a session that was killed leaves it
    assert start(sessions, name).home == first.home


def test_stop_leaves_later_directory_of_same_path(sessions: ExitStack) -> None:
    name = f"test_shop.py::test_order {os.getpid()}"
    first = start(sessions, name)
    shutil.rmtree(first.directory)  # as a cleaner of temporary files does
    later = start(sessions, name)
    program = later.start("program", ["sleep", "300"])
    first.stop()
    assert (later.directory, later.home.is_dir(), program.exit_code) == (first.directory, True, None)


def test_home_keeps_packages_caches_and_fonts_of_tester(
    sessions: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONUSERBASE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "fonts").mkdir()
    ran = start(sessions, "").run(
        ["sh", "-c", "echo $PYTHONUSERBASE $XDG_CACHE_HOME; readlink $XDG_DATA_HOME/fonts"], 30
    )
    assert ran.stdout == f"{site.getuserbase()} {Path.home() / '.cache'}\n{tmp_path / 'fonts'}\n"


@pytest.mark.desktop
def test_launch_gives_all_files_same_time(sessions: ExitStack, tmp_path: Path) -> None:
    require("Xtigervnc")
    require("xterm")
    outside = tmp_path / "outside"
    outside.touch()
    before = outside.stat().st_mtime
    desktop = XvncDesktop()
    sessions.callback(desktop.stop)
    desktop.write_file("letters/old.txt", "Dear all,")
    desktop.run(["ln", "-s", str(outside), "link"])
    desktop.launch(["xterm"])
    assert desktop.run(["stat", "-c", "%n %Y", ".", "letters", "letters/old.txt", "link"]).stdout.splitlines() == [
        f"{name} {NOON}" for name in (".", "letters", "letters/old.txt", "link")
    ]
    assert outside.stat().st_mtime == before
    desktop.run(["touch", "saved"])
    desktop.launch(["xterm"])
    assert desktop.run(["stat", "-c", "%Y", "saved"]).stdout == f"{NOON}\n"


def screenshots(desktop: XvncDesktop, keys: str = "") -> set[bytes]:
    """Return the screen with the dialog in both phases of a caret; with `keys`, once they have opened it."""
    with closing(connect(desktop.server, desktop.password)) as controller:
        controller.settle()
        if keys:
            controller.key_combo(keys)
            wait_for(lambda: "Save As" in desktop.run(["xwininfo", "-root", "-tree"]).stdout, "the dialog")
            controller.settle()
        shots = set()
        for _ in range(4):
            controller.wait_changed(clock.monotonic(), 0.7)
            shots.add(controller.screenshot_png())
        return shots


@pytest.mark.slow
@pytest.mark.desktop
def test_save_dialog_of_gtk_is_same_beside_another(sessions: ExitStack) -> None:
    for program in ("Xtigervnc", "mousepad", "xwininfo"):
        require(program)
    unshare = ["unshare", "--map-user=1000"]  # as root it would show a warning
    as_user = unshare if os.getuid() == 0 and subprocess.run([*unshare, "true"], check=False).returncode == 0 else []
    desktops = [XvncDesktop(start_timeout_s=60, name=f"test_{letter}") for letter in "ab"]
    for desktop in desktops:
        sessions.callback(desktop.stop)
        desktop.write_file("notes.txt", "Dear all,")
        desktop.launch([*as_user, "mousepad", "--disable-server"])
    one, other = (screenshots(desktop, "ctrl+shift+s") for desktop in desktops)
    assert one & other
