"""A TigerVNC desktop put back to its start: what a test may have left, and what cannot be undone and is told."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop
from pytest_vnc_use.errors import DesktopError
from support.leftovers import processes_naming
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.desktop

BARE = {"Xtigervnc", "openbox", "sh"}


@pytest.fixture
def desktop() -> Iterator[XvncDesktop]:
    """A bare desktop of 1024 x 768 pixels."""
    yield from started()


@pytest.fixture(scope="module")
def kept() -> Iterator[XvncDesktop]:
    """The same, for all tests of this file that put it back to its start."""
    yield from started()


def started() -> Iterator[XvncDesktop]:
    for program in ("Xtigervnc", "openbox", "xterm"):
        require(program)
    desktop = XvncDesktop(size=(1024, 768))
    yield desktop
    desktop.stop()


def processes_of(desktop: XvncDesktop) -> dict[int, str]:
    return processes_naming(Path(desktop.server).parent)


def pid_of(desktop: XvncDesktop, name: str) -> int:
    return next(pid for pid, found in processes_of(desktop).items() if found == name)


def picture_of(desktop: XvncDesktop) -> bytes:
    with closing(connect(desktop.server, desktop.password)) as controller:
        return controller.frame().png


# --- what ends, what stays -------------------------------------------------------------------------------------------


def test_programs_and_what_they_left_in_the_background_end_and_the_desktop_stays(desktop: XvncDesktop) -> None:
    before, bare = picture_of(desktop), processes_of(desktop)
    desktop.launch(["sh", "-c", "(setsid sleep 300 &) ; exec xterm"])
    desktop.run(["sh", "-c", "(setsid xterm -T stray &) ; setsid sleep 300 & echo done"])
    wait_for(lambda: list(processes_of(desktop).values()).count("xterm") == 2, "the second window")
    desktop.reset()
    assert processes_of(desktop) == bare
    assert picture_of(desktop) == before
    assert desktop.program_fault() == ""


def test_the_working_folder_is_empty_but_for_the_logs_of_the_desktop(desktop: XvncDesktop, tmp_path: Path) -> None:
    (tmp_path / "not-the-desktops.txt").write_text("precious")
    desktop.launch(["sh", "-c", "echo hello; exec xterm"])
    desktop.write_file("orders/today.csv", "apples;2")
    desktop.run(["sh", "-c", f"mkfifo pipe; ln -s {tmp_path} link; ln -s {tmp_path} logs/link; touch logs/more.txt"])
    desktop.reset()
    found = desktop.run(["sh", "-c", "find . -type f | sort"]).stdout.split()
    assert found == ["./logs/VNC-server.txt", "./logs/window-manager.txt"]
    assert (tmp_path / "not-the-desktops.txt").read_text() == "precious"


def test_a_program_deaf_to_sigterm_ends_too(desktop: XvncDesktop) -> None:
    desktop.run(["sh", "-c", "setsid sh -c 'trap \"\" TERM; while :; do sleep 300; done' & echo"])
    wait_for(lambda: "sleep" in processes_of(desktop).values(), "the sleep to start")
    desktop.reset()
    assert set(processes_of(desktop).values()) == BARE


# --- what a test can change on the screen ----------------------------------------------------------------------------

SHELL = {
    "background": "xsetroot -solid red",
    "size": "xrandr -s 800x600",
    "keyboard map": "xmodmap -e 'keycode 38 = b B'",
    "modifiers": "xmodmap -e 'clear Lock'",
    "caps lock": "xdotool key Caps_Lock",
    "num lock": "xdotool key Num_Lock",
    "held button": "xdotool mousemove 30 30 mousedown 1",
    "pointer": "xdotool mousemove 99 99",
    "menu of the window manager": "xdotool click 3",
    "workspace": "xdotool click 4",
    "clipboard": "echo secret | xclip -selection clipboard",
    "selection": "echo secret | xclip",
    "resources": "echo 'XTerm*background: red' | xrdb -merge",
    "property": "xprop -root -format WALLPAPER 8s -set WALLPAPER red",
}


@pytest.mark.parametrize("change", SHELL.values(), ids=SHELL.keys())
def test_what_a_command_changed_is_as_it_was(kept: XvncDesktop, change: str) -> None:
    require(change.split(" | ")[-1].split()[0])
    before = told(kept)
    ran = kept.run(["sh", "-c", change])
    assert ran.exit_code == 0, ran.stderr
    wait_for(lambda: told(kept) != before, "the change")
    kept.reset()
    assert told(kept) == before


def told(desktop: XvncDesktop) -> list[str]:
    """Return what X's own programs, and the framebuffer, say of the screen."""
    asked = (
        "xprop -root | sort; xrandr; xmodmap -pke; xmodmap -pm; xset q; xdotool getmouselocation 2>&1; xwininfo -root"
    )
    ran = desktop.run(["sh", "-c", f"{asked}; xclip -o; xclip -selection clipboard -o; xwd -root -silent | sha256sum"])
    return [line for line in ran.stdout.splitlines() if not line.startswith(("_NET_ACTIVE_WINDOW", "_NET_WM_USER"))]


HANDS: dict[str, Callable[[VNCController], object]] = {
    "keys kept down": lambda hands: (hands.key_down("shift"), hands.key_down("ctrl")),
    "button kept down": lambda hands: hands.mouse_down(30, 30),
    "caps lock": lambda hands: hands.key_combo("capslock"),
    "switcher of windows": lambda hands: (hands.key_down("alt"), hands.key_combo("tab")),
}


@pytest.mark.parametrize("act", HANDS.values(), ids=HANDS.keys())
def test_what_hands_left_is_as_it_was(kept: XvncDesktop, act: Callable[[VNCController], object]) -> None:
    kept.launch(["xterm"])
    with closing(connect(kept.server, kept.password)) as controller:
        act(controller)
    kept.reset()
    assert line_typed(kept) == "two apples\n"


def test_keys_that_a_program_keeps_down_are_released(kept: XvncDesktop) -> None:
    require("xdotool")
    kept.run(["xdotool", "keydown", "Shift_L", "keydown", "Control_L"])
    kept.reset()
    assert line_typed(kept) == "two apples\n"


def line_typed(desktop: XvncDesktop) -> str:
    desktop.launch(["xterm", "-e", "head -1 > typed.txt"])
    with closing(connect(desktop.server, desktop.password)) as controller:
        controller.type_text("two apples", press_enter=True)
    try:
        wait_for(desktop.program_fault, "the line to arrive")
    except AssertionError as late:
        asked = "cat typed.txt; xset q; xdotool getwindowfocus; xwininfo -root -tree"
        raise AssertionError(f"{late}:\n{desktop.run(['sh', '-c', asked]).stdout}") from None
    return desktop.read_file("typed.txt")


# --- what cannot be undone -------------------------------------------------------------------------------------------

FOR_GOOD = {
    "setxkbmap de": "keyboard map, ",
    "xset r off": "key repeat, bell or lights, ",
    "xset m 9 9": "pointer's speed, ",
    "xmodmap -e 'pointer = 3 2 1'": "pointer's buttons, ",
    "xhost +": "access control, ",
    "xprop -root -remove _OB_THEME": "property _OB_THEME",
}


def test_what_cannot_be_undone_is_told(desktop: XvncDesktop) -> None:
    for change in FOR_GOOD:
        require(change.split()[0])
    desktop.run(["sh", "-c", "; ".join(FOR_GOOD)])
    with pytest.raises(DesktopError, match=r"differs from its start: the test changed .* for good") as caught:
        desktop.reset()
    assert [named for named in FOR_GOOD.values() if named not in str(caught.value)] == []


def test_a_program_that_cannot_be_found_is_seen(desktop: XvncDesktop) -> None:
    """One that was started from elsewhere, as by the test itself, and belongs to nothing of the desktop's."""
    lines = desktop.run(["env"]).stdout.splitlines()
    there = dict(line.split("=", 1) for line in lines if line.startswith(("DISPLAY=", "XAUTHORITY=")))
    with subprocess.Popen(["xterm", "-T", "stray"], env={"PATH": os.environ["PATH"], **there}) as stray:
        wait_for(lambda: "0x" in desktop.run(["xprop", "-root", "_NET_CLIENT_LIST"]).stdout, "the window")
        with pytest.raises(DesktopError, match=r"the test changed .*property _NET_CLIENT_LIST.* for good"):
            desktop.reset()
        stray.kill()


@pytest.mark.parametrize("name", ["openbox", "Xtigervnc"])
def test_a_desktop_that_died_is_told(desktop: XvncDesktop, name: str) -> None:
    assert desktop.alive
    os.kill(pid_of(desktop, name), signal.SIGKILL)
    wait_for(lambda: not desktop.alive, "the end to be noticed")
    with pytest.raises(DesktopError, match=rf"{name}.*exited with|X server"):
        desktop.reset()


def test_a_working_folder_that_is_gone_is_told(desktop: XvncDesktop) -> None:
    desktop.run(["sh", "-c", "rm -r $PWD"])
    with pytest.raises(DesktopError, match="cannot empty the program's working folder"):
        desktop.reset()


def test_a_stopped_desktop_is_neither_reset_nor_given_a_program(desktop: XvncDesktop) -> None:
    desktop.stop()
    with pytest.raises(DesktopError, match="cannot reset: the desktop is stopped"):
        desktop.reset()
    with pytest.raises(DesktopError, match="cannot launch 'xterm': the desktop is stopped"):
        desktop.launch(["xterm"])
    assert not desktop.alive
