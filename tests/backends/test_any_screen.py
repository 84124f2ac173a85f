"""Screens that are not plain: two pixels a point, a size that changes in a run, two monitors, other scripts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.planners.local.callables import Answer, finish
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Observation
from support import vnc_servers
from support.vnc_servers import VncServer, missing, qt_on_x, wait_for
from support.witness_programs import WITNESS, Witness, assert_becomes, chromium_page, openbox, window_of, xterm

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]


@pytest.fixture
def wide() -> Iterator[VncServer]:
    with vnc_servers.tigervnc(size=(2048, 768)) as server, openbox(server):
        yield server


@pytest.mark.browser
def test_click_lands_in_page_of_two_pixels_point(connected: Connect, tmp_path: Path) -> None:
    scale = "--force-device-scale-factor=2"
    with vnc_servers.tigervnc() as server, openbox(server), chromium_page(server, tmp_path, scale) as page:
        assert page.last("ready")[:2] == [512, 384]
        connected(server).click(400, 620)
        assert_becomes(lambda: page.last("mouseup"), [0, 1, 200, 310])


def test_click_lands_in_program_of_two_pixels_point(
    connected: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QT_SCALE_FACTOR", "2")
    with vnc_servers.tigervnc() as server, qt_on_x(server, WITNESS, str(tmp_path)):
        window_of(server, "witness")
        hands = connected(server)
        hands.click(20, 40)
        hands.type_text("large")
        Witness(server, tmp_path).expect("line", "large")


def test_run_continues_on_resized_desktop(tmp_path: Path) -> None:
    for program in ("Xtigervnc", "xrandr", "xterm"):
        vnc_servers.require(program)
    desktop = XvncDesktop(size=(1024, 768))

    def resize(seen: Observation) -> Answer:
        if not seen.turns:
            assert desktop.run(["xrandr", "-s", "800x600"]).exit_code == 0
            return Click(1023, 767)
        return Click(799, 599) if len(seen.turns) == 1 else finish()

    settings = Settings(server=desktop.server, runs_dir=str(tmp_path))
    try:
        desktop.launch(["xterm", "-geometry", "40x10"])
        with VncUseAgent(vnc_password=desktop.password, settings=settings, planner=resize) as agent:
            result = agent.run("Click into the corner")
    finally:
        desktop.stop()
    old, new = result.steps
    assert (result.outcome, new.error, bool(old.error)) == (Outcome.DONE, "", True), "a click at an old point"
    assert (new.frame_after.width, new.frame_after.height) == (800, 600)


def test_two_monitors_are_one_screen(wide: VncServer, connected: Connect, tmp_path: Path) -> None:
    wide.output_of("xrandr", "--setmonitor", "left", "1024/270x768/200+0+0", "VNC-0")
    wide.output_of("xrandr", "--setmonitor", "right", "1024/270x768/200+1024+0", "none")
    assert b"Monitors: 2" in wide.output_of("xrandr", "--listmonitors")
    hands = connected(wide)
    assert hands.size == (2048, 768)
    with xterm(wide, f"cat >{tmp_path}/typed", geometry="60x10+1100+100"):
        hands.perform(Click(1200, 200))
        hands.type_text("right\n")
        assert_becomes(lambda: (tmp_path / "typed").read_text("utf-8"), "right\n")


PYTHON = "/usr/bin/python3"
"""The system's Python, for which Debian's python3-gi is."""
ENTRY = """
import sys, gi
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk
window, entry = Gtk.Window(type=Gtk.WindowType.POPUP), Gtk.Entry()
window.set_size_request(400, 300)
box = Gtk.Fixed()
box.put(entry, 20, 20)
button = Gtk.Button(label="Save")
button.set_size_request(20, 20)
box.put(button, 200, 150)
button.connect("clicked", lambda _: open(sys.argv[1], "w", encoding="utf-8").write(entry.get_text()))
window.add(box)
window.show_all()
window.get_window().focus(0)
open(sys.argv[1], "w").write("ready")
Gtk.main()
"""


@contextmanager
def gtk_entry(server: VncServer, saved: Path, scale: int) -> Iterator[None]:
    """Show a GTK window with an entry and a small button that saves its text."""
    check = [PYTHON, "-c", "import gi; gi.require_version('Gtk', '3.0')"]
    if not Path(PYTHON).exists() or subprocess.run(check, capture_output=True, check=False).returncode:
        missing("GTK 3 for Python", "apt-get install python3-gi gir1.2-gtk-3.0")
    with server.run("env", f"GDK_SCALE={scale}", PYTHON, "-c", ENTRY, str(saved)):
        wait_for(lambda: saved.exists() and saved.read_text() == "ready", "the GTK window")
        yield


@pytest.mark.parametrize("scale", [1, 2])
def test_text_and_clicks_in_gtk(tigervnc: VncServer, connected: Connect, tmp_path: Path, scale: int) -> None:
    """The small button is at (200, 150) in GTK's units, so a click that is not scaled rightly misses it."""
    saved = tmp_path / "saved"
    with gtk_entry(tigervnc, saved, scale):
        hands = connected(tigervnc)
        hands.settle()
        for text in ("שלום עולם", "مرحبا بالعالم", "你好，世界", "@ { } \\ ~ € ß é"):
            hands.click(40 * scale, 35 * scale)
            hands.type_text(text, clear_first=True)
            hands.settle()
            hands.click(210 * scale, 160 * scale)
            assert_becomes(lambda: saved.read_text(encoding="utf-8"), text)
