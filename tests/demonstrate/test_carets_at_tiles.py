"""A field of a browser, and a caret that continues from one tile of the screen to the next while somebody types."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from urllib.parse import quote

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.session import ManualSession
from pytest_vnc_use.types import KeyDown, KeyUp, MouseDown, MouseUp
from support.browsers import chromium
from support.vnc_servers import VncServer, require

PAGE = """<!doctype html><title>A form</title><p>Name</p>
<style>input { position: absolute; top: 109px; border: 1px solid; padding: 0 4px; font: 20px/24px sans-serif }</style>
<input><script>
  const field = document.querySelector("input"), pen = document.createElement("canvas").getContext("2d")
  pen.font = "20px sans-serif"
  field.style.left = "104px"  // the caret stands at 109, and after the text at 128
  field.style.letterSpacing = `${(19 - pen.measureText("il").width) / 2}px`
</script>"""


@pytest.mark.browser
@pytest.mark.slow
def test_caret_beside_tile_that_it_has_left_is_no_blinking_part(tigervnc: VncServer) -> None:
    """The text ends where the tile ends; the caret stands in the next one, and reaches into the tiles above."""
    require("chromium")
    address = f"data:text/html,{quote(PAGE)}"
    with chromium(tigervnc, address, "--kiosk", window_manager=True), closing(connect(tigervnc.address)) as eyes:
        session = ManualSession(eyes, print)
        person = threading.Thread(target=types_il, args=(session,))
        person.start()
        session.run()
        person.join()
    screens = [step.screen for step in session.demonstration.steps if step.screen]
    assert len(screens) == 3
    assert {part.kind for screen in screens for part in screen.dynamic} == {"caret"}


def types_il(session: ManualSession) -> None:
    """Click into the field, wait until its caret is known, type, and click again soon."""
    click(session, 200)
    time.sleep(4)
    for key in "il":
        session.receive(KeyDown(key), time.monotonic())
        session.receive(KeyUp(key), time.monotonic())
        time.sleep(0.3)
    time.sleep(0.3)
    click(session, 500)
    time.sleep(1)
    session.receive(None, time.monotonic())


def click(session: ManualSession, x: int) -> None:
    session.receive(MouseDown(x, 122), time.monotonic())
    session.receive(MouseUp(x, 122), time.monotonic())
