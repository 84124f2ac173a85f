"""A GTK program whose screen changes though it has no fault, on the system's Python:
`restless_form.py [WHAT]`.

A form for apples; Save writes `total.txt`. WHAT is `toast` (6 s, after More), `tooltip`
(10 s, while the pointer is on More), `notification` (4 s, in the corner, some seconds
after the start) or `minute` (a clock whose minute takes 20 s). The caret of its field
stops blinking after 10 s, its buttons show the pointer, and a double click selects a
word.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402

PRICE = 250
MINUTE_S = 20
LOOK = b"""
* { font: 18px "DejaVu Sans"; }
.passing { background: #ffe0a0; color: black; }
"""


class Form(Gtk.Window):
    def __init__(self, what: str) -> None:
        super().__init__(title="Apples")
        self._what = what
        self._count = 0
        self._fixed = Gtk.Fixed()
        self.add(self._fixed)
        self._name = self._put(Gtk.Entry(text="name"), 60, 60, 300, 40)
        more = self._put(Gtk.Button(label="More"), 60, 140, 160, 48)
        more.connect("clicked", lambda _: self._add())
        self._put(Gtk.Button(label="Save"), 300, 140, 160, 48).connect(
            "clicked", lambda _: self._save()
        )
        self._total = self._put(Gtk.Label(label="0 apples", xalign=0), 60, 220, 400, 40)
        self._passing = self._put(Gtk.Label(label=""), 480, 320, 260, 60)
        self._passing.get_style_context().add_class("passing")
        self._clock = self._put(Gtk.Label(label=""), 640, 20, 120, 30)
        if what == "tooltip":
            more.connect(
                "enter-notify-event", lambda *_: self._show("One more apple", 10)
            )
        if what == "notification":
            GLib.timeout_add(
                random.randrange(2000, 6000), lambda: self._show("Updates are there", 4)
            )
        if what == "minute":
            self._tick()

    def _put(
        self, widget: Gtk.Widget, left: int, top: int, width: int, height: int
    ) -> Gtk.Widget:
        widget.set_size_request(width, height)
        self._fixed.put(widget, left, top)
        return widget

    def _show(self, text: str, seconds: float) -> bool:
        self._passing.set_text(text)
        self._passing.show()
        GLib.timeout_add(int(1000 * seconds), self._passing.hide)
        return False

    def _tick(self) -> bool:
        now_s = time.time()
        self._clock.set_text(f"12:{int(now_s // MINUTE_S) % 60:02}")
        GLib.timeout_add(int(1000 * (MINUTE_S - now_s % MINUTE_S)) + 20, self._tick)
        return False

    def _add(self) -> None:
        self._count += 1
        self._total.set_text(f"{self._count} apples, {self._count * PRICE} cents")
        if self._what == "toast":
            self._show("Added to the basket", 6)

    def _save(self) -> None:
        Path("total.txt").write_text(
            f"{self._name.get_text()}: {self._count}\n", encoding="utf-8"
        )
        self._total.set_text("saved")


if __name__ == "__main__":
    style = Gtk.CssProvider()
    style.load_from_data(LOOK)
    form = Form(sys.argv[1] if sys.argv[1:] else "")
    Gtk.StyleContext.add_provider_for_screen(
        form.get_screen(), style, Gtk.STYLE_PROVIDER_PRIORITY_APPLICATION
    )
    form.set_default_size(800, 400)
    form.connect("destroy", Gtk.main_quit)
    form.show_all()
    form._passing.hide()
    Gtk.main()
