"""A desktop's processes, home and drawing: nothing outlives it or fills the disk;
programs meet the same new user.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.desktops import environment, supervisor
from pytest_vnc_use.desktops.environment import make_environment, missing_faces
from pytest_vnc_use.desktops.supervised_session import (
    SupervisedSession,
    remove_leftovers,
)
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import DesktopError, SettingsError
from support.leftovers import is_running
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="desktops are started on Linux only"
)


@pytest.fixture
def session(start: Callable[..., SupervisedSession]) -> SupervisedSession:
    return start(SupervisedSession)


def test_command_that_cannot_start_is_named(session: SupervisedSession) -> None:
    with pytest.raises(DesktopError, match="cannot start"):
        session.start("program", ["/etc/passwd"])
    with pytest.raises(DesktopError, match="cannot start"):
        session.run(["no-such-program"], timeout_s=10)
    with pytest.raises(DesktopError, match="'echo': an argument has a null character"):
        session.run(["echo", "a\0b"], timeout_s=10)


def test_long_output_of_program_is_bounded(session: SupervisedSession) -> None:
    program = session.start("program", ["sh", "-c", "echo first; yes; "])
    wait_for(lambda: "bytes are left out here" in program.output, "it")
    file = session.directory / "logs" / "program.txt"
    sizes = []
    for _ in range(20):
        sizes.append(file.stat().st_size)
        time.sleep(0.02)
    assert max(sizes) < 2_200_000
    assert program.output.startswith("first\ny\n")
    assert len(program.output) < 1_100_000


def test_long_output_keeps_both_ends_within_limit(session: SupervisedSession) -> None:
    script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"
    ran = session.run(["sh", "-c", script], timeout_s=60)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("first\nxxx")
    assert ran.stdout.endswith("xxx\nlast\n")
    left_out = 3_000_012 - supervisor.HEAD - supervisor.TAIL
    assert f"(... {left_out} bytes are left out here)" in ran.stdout
    assert len(ran.stdout) < supervisor.HEAD + supervisor.TAIL + 100


def test_leftovers_of_killed_session_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may be another user's: it is not followed."""
    kept = tmp_path / "project" / "vnc-use-kept"
    temporary = tmp_path / "temporary"
    for directory in (kept, temporary / "vnc-use-left"):
        directory.mkdir(parents=True)
        (directory / "lock").touch()
    (temporary / "vnc-use-evil").symlink_to(kept)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_leftovers()
    assert (kept / "lock").exists()
    assert not (temporary / "vnc-use-left").exists()


NOON = 1577880000
"""1 January 2020, 12:00 UTC."""


@pytest.mark.desktop
def test_launch_gives_all_files_same_time(
    start: Callable[..., XvncDesktop], tmp_path: Path
) -> None:
    require("Xtigervnc")
    require("xterm")
    outside = tmp_path / "outside"
    outside.touch()
    before = outside.stat().st_mtime
    desktop = start(XvncDesktop)
    desktop.write_file("letters/old.txt", "Dear all,")
    desktop.run(["ln", "-s", str(outside), "link"])
    desktop.launch(["xterm"])
    names = (".", "letters", "letters/old.txt", "link")
    assert desktop.run(["stat", "-c", "%n %Y", *names]).stdout.splitlines() == [
        f"{name} {NOON}" for name in names
    ]
    assert outside.stat().st_mtime == before


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of programs, for a user who has set all of it otherwise."""
    for name, value in {
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "TZ": "Asia/Tokyo",
        "GTK_THEME": "HighContrast",
        "QT_SCALE_FACTOR": "2",
        "QT_FONT_DPI": "150",
        "FONTCONFIG_FILE": "/of/the/user",
    }.items():
        monkeypatch.setenv(name, value)
    return make_environment(tmp_path, tmp_path, pinned=True)


@pytest.mark.desktop
def test_pinned_environment_fixes_theme_locale_and_zone(pinned: dict[str, str]) -> None:
    fixed = {
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "QT_STYLE_OVERRIDE": "Fusion",
        "QT_FONT_DPI": "96",
        "XCURSOR_THEME": "Adwaita",
        "XCURSOR_SIZE": "24",
    }
    assert {name: pinned[name] for name in fixed} == fixed
    assert Path(pinned["FONTCONFIG_FILE"]).is_file()
    assert not {"LC_ALL", "GTK_THEME", "QT_SCALE_FACTOR"} & pinned.keys()


@pytest.mark.desktop
@pytest.mark.parametrize("version", ["gtk-3.0", "gtk-4.0"])
def test_pinned_environment_fixes_look_of_gtk(
    pinned: dict[str, str], version: str
) -> None:
    settings = Path(pinned["XDG_CONFIG_HOME"], version, "settings.ini")
    lines = settings.read_text("utf-8").splitlines()
    assert {
        "gtk-theme-name=Adwaita",
        "gtk-icon-theme-name=Adwaita",
        "gtk-cursor-theme-name=Adwaita",
        "gtk-font-name=DejaVu Sans 10",
    } <= set(lines)


FAMILIES = {
    "Arial": "DejaVu Sans",
    "Times New Roman": "DejaVu Serif",
    "Consolas": "DejaVu Sans Mono",
}


@pytest.mark.desktop
@pytest.mark.parametrize(("family", "resolved"), FAMILIES.items())
def test_usual_families_are_dejavu_grey_and_unhinted(
    family: str, resolved: str
) -> None:
    require("fc-match")
    config = Path(environment.__file__).with_name("fonts.conf")
    form = "%{family[0]} %{antialias} %{hinting} %{rgba} %{embeddedbitmap} %{dpi}"
    ran = subprocess.run(
        ["fc-match", "-f", form, family],
        env={**os.environ, "FONTCONFIG_FILE": str(config)},
        capture_output=True,
        text=True,
    )
    assert ran.stdout == f"{resolved} True False 5 False 96"


def test_process_that_left_its_session_ends_with_program(
    session: SupervisedSession,
) -> None:
    # with no environment either
    script = "env -i setsid sh -c 'echo $$ > left; exec sleep 1000' & exec sleep 1000"
    session.start("program", ["sh", "-c", f"exec 2>&1; {script}"])
    file = session.home / "left"
    wait_for(lambda: file.exists() and file.read_text().strip(), "its start")
    pid = int(file.read_text())
    assert is_running(pid)
    session.end_program()
    assert not is_running(pid)


def test_program_leads_its_own_session_in_empty_home(
    session: SupervisedSession,
) -> None:
    code = (
        "import os, sys; print(os.getsid(0) == os.getpgrp() == os.getpid(),"
        " os.listdir()); sys.exit(7)"
    )
    before = len([*Path("/proc/self/fd").iterdir()])
    ends = []
    for _ in range(3):
        program = session.start("program", [sys.executable, "-c", code])
        wait_for(lambda: program.exit_code is not None, "its end")  # noqa: B023  # waited for at once
        ends.append((program.end, program.output))
        session.end_program()
    assert ends == [("exited with 7", "True []\n")] * 3
    assert len([*Path("/proc/self/fd").iterdir()]) <= before


def test_command_runs_in_home(session: SupervisedSession) -> None:
    ran = session.run(["sh", "-c", "pwd; echo $HOME"], 30)
    assert ran.stdout == f"{session.home}\n{session.home}\n"
    assert session.home.name == "Home"


def test_command_timeout_ends_it_background_may_print(
    session: SupervisedSession,
) -> None:
    started = time.monotonic()
    with pytest.raises(DesktopError, match="did not end within 1 s"):
        session.run(["sh", "-c", "trap '' TERM; yes & yes >&2"], timeout_s=1)
    assert time.monotonic() - started < 15
    script = "(while :; do echo more; sleep 0.05; echo x >> still; done) & echo done"
    assert "done\n" in session.run(["sh", "-c", script], timeout_s=30).stdout
    still = session.home / "still"
    wait_for(
        lambda: still.exists() and len(still.read_text()) > 8, "what it prints later"
    )


def test_session_of_same_name_has_same_home(
    start: Callable[..., SupervisedSession],
) -> None:
    name = f"test_shop.py::test_basket {os.getpid()}"
    first, beside, other = (
        start(SupervisedSession, name=each) for each in (name, name, f"{name}[2]")
    )
    assert len({first.home, beside.home, other.home}) == 3
    first.stop()
    first.directory.mkdir()
    (first.directory / "lock").touch()  # as a session that was killed leaves it
    again = start(SupervisedSession, name=name)
    assert again.home == first.home


def test_program_gets_packages_caches_and_fonts_without_secrets(
    start: Callable[..., SupervisedSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "VNC_USE_PASSWORD",
        "WAYLAND_DISPLAY",
    ):
        monkeypatch.setenv(name, "not for the program")
    for name in ("PYTHONUSERBASE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHOP_MODE", "test")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "fonts").mkdir()
    session = start(SupervisedSession, {"SHOP_SIZE": "3"})
    assert "not for the program" not in session.environment.values()
    script = (
        "echo $SHOP_MODE $SHOP_SIZE $PYTHONUSERBASE $XDG_CACHE_HOME; readlink"
        " $XDG_DATA_HOME/fonts"
    )
    found = (
        f"test 3 {site.getuserbase()} {Path.home() / '.cache'}\n{tmp_path / 'fonts'}\n"
    )
    assert session.run(["sh", "-c", script], 30).stdout == found


def test_missing_dejavu_names_faces_and_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dejavu").mkdir()
    (tmp_path / "dejavu" / "DejaVuSans.ttf").touch()
    expected = ["DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "DejaVuSerif.ttf"]
    assert missing_faces([tmp_path, tmp_path / "none"]) == expected
    monkeypatch.setattr(environment, "_FONT_FILES", ("Absent.ttf",))
    with pytest.raises(
        SettingsError,
        match=r"Absent\.ttf is not installed.*apt-get install fonts-dejavu-core",
    ):
        make_environment(tmp_path, tmp_path, pinned=True)
