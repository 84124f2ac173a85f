"""Counts what is pressed on an X display, or puts a window over the screen once enough was: a fault that comes late.

    late_window.py count               writes the number of presses, of keys and buttons, to the file `presses`
    late_window.py PRESSES PAINT       waits for so many presses, writes the file `happened`, then paints

PAINT is JSON: `after_s`, `for_s` (0: it stays), `box` (left, top, right, bottom), `colour` and `text`. Without a colour
it has that of the pixel at the box's left top, so that what was there vanishes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

from Xlib import X, display as x_display, xauth
from Xlib.ext import record
from Xlib.protocol import rq

xauth.Xauthority.get_best_auth = lambda self, *_: self.entries[0][-2:]
"""The desktop's only cookie, which is for any host: python-xlib knows no such entry."""
WATCHED = {
    "core_requests": (0, 0),
    "core_replies": (0, 0),
    "ext_requests": (0, 0, 0, 0),
    "ext_replies": (0, 0, 0, 0),
    "delivered_events": (0, 0),
    "device_events": (X.KeyPress, X.ButtonPress),
    "errors": (0, 0),
    "client_started": False,
    "client_died": False,
}


def watch(pressed: Any) -> None:
    there, count = x_display.Display(), 0
    context = there.record_create_context(0, [record.AllClients], [WATCHED])

    def take(reply: Any) -> None:
        nonlocal count
        for event in events(there, reply):
            if event.type in (X.KeyPress, X.ButtonPress):
                count += 1
                pressed(count)

    there.record_enable_context(context, take)


def events(there: Any, reply: Any) -> Iterator[Any]:
    data = reply.data if reply.category == record.FromServer else b""
    while data:
        event, data = rq.EventField(None).parse_binary_value(data, there.display, None, None)
        yield event


def paint(
    box: tuple[int, int, int, int], colour: str = "", text: str = "", *, after_s: float = 0.0, for_s: float = 0.0
) -> None:
    time.sleep(after_s)
    there = x_display.Display()
    root, (left, top, right, bottom) = there.screen().root, box
    pixel = there.screen().default_colormap.alloc_named_color(colour).pixel if colour else pixel_at(root, left, top)
    width, height = right - left, bottom - top
    window = root.create_window(left, top, width, height, 0, 0, background_pixel=pixel, override_redirect=True)
    window.map()
    there.sync()
    ink = window.create_gc(foreground=there.screen().black_pixel, font=there.open_font("fixed"))
    window.draw_text(ink, 4, height // 2 + 5, text.encode("ascii"))
    there.sync()
    time.sleep(for_s or 3600)


def pixel_at(root: Any, left: int, top: int) -> int:
    return int.from_bytes(root.get_image(left, top, 1, 1, X.ZPixmap, 0xFFFFFFFF).data[:3], "little")


def write_count(count: int) -> None:
    Path("presses").write_text(str(count))


def paint_at(presses: int, how: dict[str, Any]) -> None:
    def pressed(count: int) -> None:
        if count == presses:
            Path("happened").touch()
            Thread(target=paint, kwargs=how).start()

    watch(pressed)


match sys.argv[1:]:
    case ["count"]:
        watch(write_count)
    case [presses, how]:
        paint_at(int(presses), json.loads(how))
