"""A GTK program with a seeded bug, on the system's Python: `buggy_form.py BUG
[--light]`; without a bug "".

A form for one order: a name, a quantity, a total, and what became of it; Save writes
`order.txt` and `parcel.txt`. With --light a label READY blinks on it. `buggy_page.html`
is the same form as a page, and has the same bugs. What it does in HARMLESS is no fault.
The caret of its field stops blinking after 10 s, its buttons show the pointer, and a
double click selects a word.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402

SIZE = (800, 600)
PRICE = 2.5
BLINK_MS = 500
MINUTE_S = 20
LOOK = b"""
* { font: 18px "DejaVu Sans"; }
window { background: white; }
#heading { font-size: 28px; }
#status { color: #1d7a46; }
#error, #toast { color: #b3261e; }
#box, #banner { background: #b3261e; color: white; }
#status.red, .red { color: #b3261e; }
"""


class Form(Gtk.Window):
    """`when(event, do, after_ms)` has something done at a "type", a "more" or a "save",
    or some time after it.
    """

    def __init__(self, *, light: bool) -> None:
        super().__init__(title="Order")
        self._fixed = Gtk.Fixed()
        self.add(self._fixed)
        self._later: list[tuple[str, Callable[[], object], int]] = []
        self.heading = self._label("heading", "Order", 60, 40)
        self.name = self._put(Gtk.Entry(), 60, 110, (300, 40))
        self.quantity = self._label("quantity", "Quantity: 1", 60, 180)
        self.more = self._put(Gtk.Button(label="More"), 300, 172, (120, 40))
        self.total = self._label("total", "Total 2.50", 60, 240)
        self.gift = self._put(Gtk.CheckButton(label="Gift wrap"), 60, 290, (160, 30))
        self.save = self._put(Gtk.Button(label="Save"), 60, 350, (120, 44))
        self.status = self._label("status", "", 220, 360)
        self.light = self._label("light", "READY" if light else "", 600, 112)
        self.pieces = 1
        self.does_blink = light
        self.written: Callable[[str], str] = str
        self.file = "order.txt"
        self.parcel = "packed"
        self.name.connect("changed", lambda _: self._tell("type"))
        self.more.connect("clicked", lambda _: self._add())
        self.save.connect("clicked", lambda _: self._save())
        GLib.timeout_add(BLINK_MS, self._blink)

    def _put(
        self, widget: Gtk.Widget, left: int, top: int, size: tuple[int, int] = (-1, -1)
    ) -> Gtk.Widget:
        widget.set_size_request(*size)
        self._fixed.put(widget, left, top)
        return widget

    def _label(self, name: str, text: str, left: int, top: int) -> Gtk.Label:
        return self._put(Gtk.Label(label=text, name=name), left, top)

    def _blink(self) -> bool:
        self.light.set_opacity(0 if self.does_blink and self.light.get_opacity() else 1)
        return True

    def _add(self) -> None:
        self.pieces += 1
        self.quantity.set_text(f"Quantity: {self.pieces}")
        self.total.set_text(f"Total {self.pieces * PRICE:.2f}")
        self._tell("more")

    def _save(self) -> None:
        gift = "gift" if self.gift.get_active() else "plain"
        text = f"{self.name.get_text()};{self.pieces};{self.pieces * PRICE:.2f};{gift}"
        Path(self.file).write_text(self.written(text), encoding="utf-8")
        Path("parcel.txt").write_text(self.parcel, encoding="utf-8")
        self.status.set_text("Saved")
        self._tell("save")

    def when(self, event: str, do: Callable[[], object], after_ms: int = 0) -> None:
        self._later.append((event, do, after_ms))

    def _tell(self, event: str) -> None:
        for due, do, after_ms in self._later:
            if due == event and after_ms:
                GLib.timeout_add(after_ms, lambda do=do: do() and False)
            elif due == event:
                do()

    def show_error(self) -> None:
        self._label("error", "Error 500", 440, 240).show()

    def hide_result(self, event: str) -> None:
        {"more": self.total, "save": self.status}[event].set_text("")

    def show_box(
        self,
        name: str,
        text: str,
        left: int,
        top: int,
        size: tuple[int, int],
        shown_ms: int = 0,
    ) -> None:
        label = self._label(name, text, left, top)
        label.set_size_request(*size)
        label.show()
        if shown_ms:
            GLib.timeout_add(shown_ms, lambda: label.destroy() and False)

    def show_clock(self) -> bool:
        now_s = time.time()
        self.light.set_text(f"12:{int(now_s // MINUTE_S) % 60:02}")
        next_ms = int(1000 * (MINUTE_S - now_s % MINUTE_S)) + 20
        GLib.timeout_add(next_ms, self.show_clock)
        return False

    def show_dialog(self) -> None:
        Gtk.MessageDialog(transient_for=self, text="Really?").show()

    def move_save(self) -> None:
        self._fixed.move(self.save, 72, 350)

    def redden(self, widget: Gtk.Widget) -> None:
        widget.get_style_context().add_class("red")

    def turn_light(self, text: str, *, does_blink: bool) -> None:
        self.light.set_text(text)
        self.does_blink = does_blink


Bug = Callable[[Form], object]
ADDED = ("toast", "Added to the basket", 440, 40, (300, 30), 6000)
HINT = ("toast", "One more apple", 440, 172, (300, 30), 10_000)
NEWS = ("toast", "Updates are there", 440, 500, (300, 30), 4000)
HARMLESS: dict[str, Bug] = {
    "animated": lambda it: None,
    "toast_of_6_s": lambda it: it.when("more", partial(it.show_box, *ADDED)),
    "tooltip_of_10_s": lambda it: it.more.connect(
        "enter-notify-event", lambda *_: it.show_box(*HINT)
    ),
    "notification_of_4_s": lambda it: GLib.timeout_add(
        random.randrange(2000, 6000), lambda: it.show_box(*NEWS)
    ),
    "minute": Form.show_clock,
}
BANNER = ("banner", "ERROR 500", 0, 400, (800, 200))
BOX = ("box", "Could not be sent", 440, 230, (300, 100), 1500)
TOAST = ("toast", "Nothing was sent", 440, 40, (300, 30), 400)
BUGS: dict[str, Bug] = {
    "banner_after_each_input": lambda it: [
        it.when(event, partial(it.show_box, *BANNER), 1000)
        for event in ("type", "more", "save")
    ],
    "more_clears_name": lambda it: it.when("more", lambda: it.name.set_text("")),
    "typing_ticks_gift_wrap": lambda it: it.when(
        "type", lambda: it.gift.set_active(True)
    ),
    "save_changes_quantity": lambda it: it.when(
        "save", lambda: it.quantity.set_text("Quantity: 99")
    ),
    "more_changes_heading": lambda it: it.when(
        "more", lambda: it.heading.set_text("Offer")
    ),
    "toast_after_more": lambda it: it.when("more", partial(it.show_box, *TOAST)),
    "toast_after_save": lambda it: it.when("save", partial(it.show_box, *TOAST)),
    "box_after_more": lambda it: it.when("more", partial(it.show_box, *BOX)),
    "box_after_save": lambda it: it.when("save", partial(it.show_box, *BOX)),
    "light_blinks_error": lambda it: it.turn_light("ERROR", does_blink=True),
    "light_shows_error": lambda it: it.turn_light("ERROR", does_blink=False),
    "light_blinks_error_after_save": lambda it: it.when(
        "save", lambda: it.turn_light("ERROR", does_blink=True)
    ),
    "light_shows_error_after_save": lambda it: it.when(
        "save", lambda: it.turn_light("ERROR", does_blink=False)
    ),
    "light_goes_out": lambda it: it.when(
        "save", lambda: it.turn_light("", does_blink=False)
    ),
    "wrong_character_at_first": lambda it: it.gift.set_label("Gift wrep"),
    "wrong_character_of_total": lambda it: it.when(
        "more", lambda: it.total.set_text("Total 6.00")
    ),
    "wrong_character_of_status": lambda it: it.when(
        "save", lambda: it.status.set_text("Savad")
    ),
    "wrong_colour_at_first": lambda it: it.redden(it.heading),
    "wrong_colour_of_status": lambda it: it.when("save", lambda: it.redden(it.status)),
    "save_moved": lambda it: it.move_save(),
    "save_moves_while_typing": lambda it: it.when("type", it.move_save),
    "stale_status": lambda it: it.when("save", lambda: it.status.set_text("")),
    "stale_quantity": lambda it: it.when(
        "more", lambda: it.quantity.set_text("Quantity: 1")
    ),
    "dialog_at_the_end": lambda it: it.when("save", it.show_dialog),
    "wrong_total_in_file": lambda it: setattr(
        it, "written", lambda text: text.replace("5.00", "2.50")
    ),
    "wrong_name_in_file": lambda it: setattr(
        it, "written", lambda text: text.replace("alice", "bob")
    ),
    "another_file": lambda it: setattr(it, "file", "orders.txt"),
    "parcel_lost": lambda it: setattr(it, "parcel", "LOST"),
}
for on, ms in product(("more", "save"), (300, 600, 1000)):
    BUGS |= {
        f"error_{ms}_ms_after_{on}": lambda it, on=on, ms=ms: it.when(
            on, it.show_error, ms
        ),
        f"result_goes_{ms}_ms_after_{on}": lambda it, on=on, ms=ms: it.when(
            on, partial(it.hide_result, on), ms
        ),
    }


def main(bug: str, *options: str) -> None:
    style = Gtk.CssProvider()
    style.load_from_data(LOOK)
    form = Form(light="--light" in options)
    Gtk.StyleContext.add_provider_for_screen(
        form.get_screen(), style, Gtk.STYLE_PROVIDER_PRIORITY_APPLICATION
    )
    form.get_settings().set_property("gtk-enable-animations", bug in HARMLESS)
    if bug:
        (BUGS | HARMLESS)[bug](form)
    form.connect("destroy", Gtk.main_quit)
    form.fullscreen()
    form.show_all()
    Gtk.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
