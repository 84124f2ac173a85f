"""Clicks and text arrive on screens that are not the usual: large pixels, other scripts and keyboard layouts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from support.vnc_servers import VncServer, missing, wait_for
from support.witness_programs import assert_becomes

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]
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
