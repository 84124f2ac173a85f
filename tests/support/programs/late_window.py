"""Counts what is pressed on an X display, or puts a window over the screen once enough
was: a fault that comes late.

    late_window.py count               writes the number of presses, of keys and buttons, to the file `presses`
    late_window.py PRESSES PAINT       waits for so many presses, writes the file `happened`, then paints

PAINT is JSON: `after_s`, `for_s` (0: it stays), `box` (left, top, right, bottom),
`colour` and `text`. Without a colour it has that of the pixel at the box's left top, so
that what was there vanishes.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from Xlib import X, display as x_display, xauth
from Xlib.ext import record
from Xlib.protocol import rq

xauth.Xauthority.get_best_auth = lambda self, *_: self.entries[0][-2:]
"""The desktop's only cookie, which is for any host: python-xlib knows no such entry."""
WATCHED = {
    **dict.fromkeys(
        ("core_requests", "core_replies", "delivered_events", "errors"), (0, 0)
    ),
    **dict.fromkeys(("ext_requests", "ext_replies"), (0, 0, 0, 0)),
    **dict.fromkeys(("client_started", "client_died"), False),
    "device_events": (X.KeyPress, X.ButtonPress),
}


def watch(pressed: Any) -> None:
    there = x_display.Display()
    count = 0
    context = there.record_create_context(0, [record.AllClients], [WATCHED])

    def take(reply: Any) -> None:
        nonlocal count
        data = reply.data if reply.category == record.FromServer else b""
        while data:
            event, data = rq.EventField(None).parse_binary_value(
                data, there.display, None, None
            )
            if event.type in (X.KeyPress, X.ButtonPress):
                count += 1
                pressed(count)

    there.record_enable_context(context, take)


def paint(
    box: tuple[int, int, int, int],
    colour: str = "",
    text: str = "",
    *,
    after_s: float = 0.0,
    for_s: float = 0.0,
) -> None:
    time.sleep(after_s)
    there = x_display.Display()
    root = there.screen().root
    left, top, right, bottom = box
    pixel = int.from_bytes(
        root.get_image(left, top, 1, 1, X.ZPixmap, 0xFFFFFFFF).data[:3], "little"
    )
    if colour:
        pixel = there.screen().default_colormap.alloc_named_color(colour).pixel
    width = right - left
    height = bottom - top
    window = root.create_window(
        left, top, width, height, 0, 0, background_pixel=pixel, override_redirect=True
    )
    window.map()
    there.sync()
    ink = window.create_gc(
        foreground=there.screen().black_pixel, font=there.open_font("fixed")
    )
    window.draw_text(ink, 4, height // 2 + 5, text.encode("ascii"))
    there.sync()
    time.sleep(for_s or 3600)


def paint_at(presses: str, how: str, count: int) -> None:
    if count == int(presses):
        Path("happened").touch()
        Thread(target=paint, kwargs=json.loads(how)).start()


if sys.argv[1:] == ["count"]:
    watch(lambda count: Path("presses").write_text(str(count)))
else:
    watch(partial(paint_at, *sys.argv[1:]))
