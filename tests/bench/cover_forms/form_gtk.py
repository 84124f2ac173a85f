"""The form of covers.py as a GTK program, on the system's Python: options as `--NAME=VALUE`."""

from __future__ import annotations

import sys

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402


class Form(Gtk.Window):  # type: ignore[misc]  # GTK has no types
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__()
        self.set_default_size(700, 400)
        fixed = Gtk.Fixed()
        self.add(fixed)
        self._options = options
        self._code, self._light, self._page = Gtk.Entry(), Gtk.Label(label=""), Gtk.Label(label="")
        self._code.set_size_request(300, 36)
        self._code.set_visibility("hidden" not in options)
        self._code.connect("changed", self._spoil_later)
        self._code.connect("activate", self._greet)
        fixed.put(self._code, 60, 50)
        fixed.put(self._light, 380, 58)
        fixed.put(self._page, 60, 220)
        if "blink" in options:
            GLib.timeout_add(int(options["blink"]), self._blink)

    def _blink(self) -> bool:
        self._light.set_text("" if self._light.get_text() else "READY")
        return True

    def _spoil_later(self, _: object) -> None:
        text, options = self._code.get_text(), self._options
        if "wrong" in options and len(text) == 10:
            GLib.timeout_add(int(options.get("late", "0")), self._spoil, text, int(options.pop("wrong")))

    def _spoil(self, text: str, at: int) -> None:
        place = self._code.get_position()
        self._code.set_text(f"{text[:at]}3{text[at + 1 :]}")
        self._code.set_position(place)

    def _greet(self, _: object) -> None:
        self._page.set_text(f"{self._code.get_text()} is signed in")
        self._code.set_text("")


if __name__ == "__main__":
    form = Form(dict(option.removeprefix("--").split("=") for option in sys.argv[1:]))
    form.connect("destroy", Gtk.main_quit)
    form.show_all()
    Gtk.main()
