"""A home that a program starts with: what is copied, and what of it is kept."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.home import copy_home, keep_home
from pytest_vnc_use.desktops.qt import QtDesktop
from pytest_vnc_use.desktops.started import StartedDesktop
from pytest_vnc_use.desktops.supervised_session import SupervisedSession
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import SettingsError
from support.vnc_servers import require, wait_for

pytestmark = [
    pytest.mark.desktop,
    pytest.mark.skipif(
        sys.platform != "linux", reason="desktops are started on Linux only"
    ),
]
WRITES_AT_HANGUP = """
import os, signal, subprocess

def write_token(*_):
    with open(os.environ["XDG_CONFIG_HOME"] + "/token", "w") as file:
        file.write("signed in\\n")
    os._exit(0)

signal.signal(signal.SIGHUP, write_token)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["HOME"] + "/ready", "w").close()
subprocess.Popen(["xterm"])
while True:
    signal.pause()
"""
"""A program that keeps its token only when it is asked to quit. A shell could not: it
sets no trap for a signal that pytest ignores, as under nohup.
"""


def make_home(directory: Path) -> Path:
    (directory / ".config" / "shop").mkdir(parents=True)
    (directory / ".config" / "shop" / "token").write_text("of alice")
    (directory / ".config" / "shop" / "token").chmod(0o640)
    (directory / "tool.sh").touch(mode=0o755)
    (directory / "newest").symlink_to("letters/2.txt")
    (directory / "elsewhere").symlink_to("/nowhere/at/all")
    return directory


@pytest.mark.parametrize("kind", [XvncDesktop, QtDesktop])
def test_start_home_has_fixed_times_modes_and_links(
    kind: type[XvncDesktop | QtDesktop],
    start: Callable[..., StartedDesktop],
    qt_program: list[str],
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    if kind is XvncDesktop:
        require("Xtigervnc")
        require("xterm")
        desktop = start(kind, ["xterm"], home=home)
    else:
        desktop = start(kind, qt_program, home=home, may_be_open=True)
    names = [".config/shop/token", "tool.sh", "newest", "elsewhere"]
    listed = desktop.run(["ls", "-ld", "--time-style=full-iso", *names]).stdout
    assert listed.count(" 2020-01-01 12:00:00.000000000 +0000 ") == 4
    modes = {line.split()[-1]: line.split()[0] for line in listed.splitlines()}
    assert modes[".config/shop/token"] == "-rw-r-----"
    assert modes["tool.sh"] == "-rwxr-xr-x"
    assert "newest -> letters/2.txt" in listed
    assert "elsewhere -> /nowhere/at/all" in listed
    assert desktop.run(["sh", "-c", 'cat "$XDG_CONFIG_HOME"/shop/*']).stdout == (
        "of alice"
    )
    desktop.write_file(".config/shop/token", "of bob")
    assert (home / ".config" / "shop" / "token").read_text() == "of alice"


def test_read_only_directory_of_home_is_removed_at_stop(tmp_path: Path) -> None:
    """Root removes it anyway."""
    (tmp_path / "home" / "cache").mkdir(parents=True)
    (tmp_path / "home" / "cache" / "token").touch(mode=0o400)
    (tmp_path / "home" / "cache").chmod(0o500)
    session = SupervisedSession(start_home=tmp_path / "home")
    copy = session.home / "cache"
    try:
        assert copy.stat().st_mode & 0o777 == 0o700
        assert (copy / "token").stat().st_mode & 0o777 == 0o400
    finally:
        session.stop()
    assert not session.directory.exists()


def test_pinned_theme_replaces_that_of_start_home(
    start: Callable[..., StartedDesktop], tmp_path: Path
) -> None:
    """A link in the home is replaced, not written through."""
    require("Xtigervnc")
    dotfile = tmp_path / "dotfile.ini"
    dotfile.write_text("[Settings]\ngtk-theme-name=HighContrast\n")
    settings = tmp_path / "home" / ".config" / "gtk-3.0" / "settings.ini"
    settings.parent.mkdir(parents=True)
    settings.symlink_to(dotfile)
    desktop = start(XvncDesktop, home=tmp_path / "home")
    theme = desktop.read_file(".config/gtk-3.0/settings.ini")
    assert "gtk-theme-name=Adwaita" in theme
    assert "HighContrast" in dotfile.read_text()


def test_copied_home_has_no_locks_sockets_or_pipes(tmp_path: Path) -> None:
    profile = make_home(tmp_path / "home") / "profile"
    profile.mkdir()
    (profile / "SingletonLock").symlink_to("elsewhere-4711")
    (profile / "DevToolsActivePort").write_text("9222")
    os.mkfifo(profile / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(profile / "socket"))
        (profile / "Cookies").touch()
        (tmp_path / "copy").mkdir()
        copy_home(tmp_path / "home", tmp_path / "copy")
    assert [*(tmp_path / "copy" / "profile").iterdir()] == [
        tmp_path / "copy" / "profile" / "Cookies"
    ]


def test_kept_home_has_no_caches_and_absolute_links(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "profile" / "Cache").mkdir(parents=True)
    keep_home(home, tmp_path / "new" / "home")
    kept = {
        path.relative_to(tmp_path / "new" / "home").as_posix()
        for path in (tmp_path / "new").rglob("*")
    }
    token = ".config/shop/token"
    assert kept >= {token, "tool.sh", "newest", "profile"}
    assert not kept & {"elsewhere", "profile/Cache"}
    kept_token = tmp_path / "new" / "home" / token
    assert kept_token.stat().st_mode & 0o777 == 0o640
    with pytest.raises(SettingsError, match="must be a new or an empty directory"):
        keep_home(home, tmp_path / "new" / "home")


def test_keep_home_lets_program_quit_first(
    start: Callable[..., StartedDesktop], tmp_path: Path
) -> None:
    require("Xtigervnc")
    require("xterm")
    (tmp_path / "empty").mkdir()
    desktop = start(
        XvncDesktop, [sys.executable, "-c", WRITES_AT_HANGUP], home=tmp_path / "empty"
    )
    wait_for(lambda: desktop.run(["ls", "ready"]).exit_code == 0, "the program")
    desktop.keep_home(tmp_path / "kept")
    token = tmp_path / "kept" / ".config" / "token"
    assert token.read_text() == "signed in\n"
