"""A GTK program for settling.py, on the system's Python: a button `Dialog`, a menu and a field, at the places given.

    gtk_window.py LEFT TOP [SECONDS]

Its window, of 300 x 200 pixels, has its top left corner there and no frame; it ends after SECONDS.
"""

from __future__ import annotations

import sys
from typing import Any

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402

WORDS = "\n".join(f"line {number} of a dialog" for number in range(10))


def main(left: int, top: int, seconds: int = 0) -> None:
    window = Gtk.Window(title="gtk", decorated=False)
    window.set_default_size(300, 200)
    window.move(left, top)
    fixed = Gtk.Fixed()
    window.add(fixed)
    button = Gtk.Button(label="Dialog")
    button.connect("clicked", lambda _: dialog(window))
    fixed.put(button, 10, 50)
    fixed.put(Gtk.Entry(), 10, 120)
    fixed.put(menu_bar(), 0, 0)
    window.connect("destroy", Gtk.main_quit)
    if seconds:
        GLib.timeout_add_seconds(seconds, Gtk.main_quit)
    window.show_all()
    Gtk.main()


def dialog(parent: Any) -> None:
    shown = Gtk.MessageDialog(transient_for=parent, modal=True, text="A dialog", secondary_text=WORDS)
    shown.add_button("Close", Gtk.ResponseType.CLOSE)
    shown.connect("response", lambda *_: shown.destroy())
    shown.show()


def menu_bar() -> Any:
    bar, items = Gtk.MenuBar(), Gtk.Menu()
    top = Gtk.MenuItem(label="Menu")
    top.set_submenu(items)
    for number in range(8):
        items.append(Gtk.MenuItem(label=f"item {number} of a menu"))
    bar.append(top)
    return bar


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
