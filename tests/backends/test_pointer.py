"""Clicks, drags and scrolling, as programs count them; buttons by numbers, and a controller that connects later.

Clicks are counted by a Qt program that waits for each next one, as a busy machine may be slower than a double click.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.backends.input import scroll_of
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError, DesktopError, DesktopRefused
from pytest_vnc_use.types import Button, Click, Drag, MouseDown, MouseUp, Move, Scroll, ScrollMeans, button_of
from support import vnc_servers
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import Page, assert_becomes, witness_on_qt, witness_on_x

Connect = Callable[..., VNCController]
PAD = (100, 300)


def test_clicks_drags_and_wheel_in_chromium(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    hands = connected(desktop)
    hands.settle()
    buttons: dict[Button, int] = {"left": 0, "middle": 1, "right": 2}
    for button, number in buttons.items():
        hands.perform(Click(*PAD, button=button))
        assert_becomes(lambda: chromium.last("mouseup"), [number, 1, *PAD])  # waited for at once
    hands.perform(Move(500, 600))
    hands.perform(MouseDown(50, 290))
    hands.perform(Move(70, 310))
    hands.perform(MouseUp(90, 330))
    assert_becomes(lambda: chromium.last("mouseup"), [0, 1, 90, 330])
    assert chromium.last("mousedown") == [0, 1, 50, 290]
    hands.perform(Drag(50, 230, 500, 230))
    assert_becomes(lambda: chromium.last("drop"), "item")
    hands.perform(Scroll(700, 600, "down", 5))
    wait_for(lambda: (chromium.last("scroll") or [0, 0])[1] > 200, "scrolling down")
    hands.settle()
    hands.perform(Scroll(700, 600, "up", 20))
    assert_becomes(lambda: chromium.last("scroll"), [0, 0])


def test_scrolling_by_keys(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    """Three notches of the wheel do not scroll as far as a page."""
    choices: list[tuple[ScrollMeans, ScrollMeans]] = [("wheel", "keys"), ("keys", "wheel")]
    for connected_for, asked_for in choices:
        hands = connected(desktop, scroll_by=connected_for)
        hands.click(800, 600)
        hands.perform(Scroll(800, 600, "down", 3, by=asked_for))
        wait_for(lambda: (chromium.last("scroll") or [0, 0])[1] > 400, "a page down")
        hands.settle()
        hands.perform(Scroll(800, 600, "up", 3, by=asked_for))
        assert_becomes(lambda: chromium.last("scroll"), [0, 0])


@pytest.mark.desktop
@pytest.mark.parametrize("kind", ["qt", "tigervnc"])  # Xtightvnc is too old for Qt 6
def test_clicks_count_and_drags_arrive_in_qt(kind: str, connected: Connect, tmp_path: Path) -> None:
    with ExitStack() as stack:
        if kind == "qt":
            witness = stack.enter_context(witness_on_qt(tmp_path))
        else:
            witness = stack.enter_context(witness_on_x(stack.enter_context(vnc_servers.tigervnc()), tmp_path))
        hands = connected(witness.server)
        hands.click(300, 20)
        hands.type_text("one two three")
        witness.expect("line", "one two three")
        hands.double_click(10, 20)
        hands.type_text("1")
        witness.expect("line", "1 two three")
        hands.triple_click(10, 20)
        hands.type_text("all")
        witness.expect("line", "all")
        hands.drag_and_drop(30, 60, 30, 200)
        witness.expect("order", "pears plums grapes apples")
        if kind == "qt":  # it has no wheel
            hands.click(100, 400)
            hands.type_text("line\n" * 60)
            hands.key_combo("ctrl+home")
            assert_becomes(lambda: witness.read("scroll"), "0")
            hands.scroll(100, 400, "down", 3)
            wait_for(lambda: int(witness.read("scroll") or 0) > 3, "a page down")  # empty while it is written
        else:
            hands.click(300, 20)
            for text in ("Ωραία Ελλάδα", "日本語 漢字 한국어", "😀 👍🏽 👩‍💻", "e\u0301 a\u0308 n\u0303"):
                hands.type_text(text, clear_first=True)
                witness.expect("line", text)


INVALID: list[tuple[Callable[[VNCController], object], str]] = [
    (lambda hands: hands.click(1, 1, count=4), "count of a click must be 1 to 3, got 4"),
    (lambda hands: hands.click(1, 1, 4), "or its number 1, 2 or 3, got 4"),
    (lambda hands: hands.click(1, 1, "back"), "or its number 1, 2 or 3, got 'back'"),  # type: ignore[arg-type]
    (lambda hands: hands.wait(-1), "0 seconds or more, got -1"),
    (lambda hands: hands.scroll("sideways", magnitude=800), "up, down, left or right, got 'sideways'"),  # type: ignore[arg-type]
    (lambda hands: hands.scroll(10, None, "up"), "must have a direction"),
    (lambda hands: hands.scroll(10, 20, None), "got None"),
    (lambda hands: hands.scroll("up", magnitude=0), "at least 1 pixel, got 0"),
    (lambda hands: hands.scroll(10, 20, "up", 0), "at least 1 click of the wheel, got 0"),
]


def test_invalid_argument_or_point_raises_action_error(desktop: VncServer, connected: Connect) -> None:
    hands = connected(desktop)
    for call, problem in INVALID:
        with pytest.raises(ActionError, match=problem):
            call(hands)
    for point in ((1024, 10), (10, 768), (-1, 10), (10, -1), (1.5, 10), ("10", 10)):
        calls: list[Any] = [hands.click, hands.move, hands.mouse_down, partial(hands.drag_and_drop, 1, 1)]
        for act in calls:
            with pytest.raises(ActionError, match="1024 x 768 pixels: x from 0 to 1023, y from 0 to 767"):
                act(*point)


def test_button_may_be_number_and_scroll_pixels() -> None:
    assert [button_of(button) for button in (1, 2, 3, "middle")] == ["left", "middle", "right", "middle"]
    scrolls: list[tuple[Any, Scroll]] = [
        ((10, 20, "up", 5, "wheel", None), Scroll(10, 20, "up", 5)),
        ((10, 20, "up", 3, "keys", 250), Scroll(10, 20, "up", 2, "keys")),
        (("down", None, None, 3, "wheel", 800), Scroll(720, 450, "down", 8)),
        ((None, None, "left", 3, "wheel", 10), Scroll(720, 450, "left", 1)),
        (("down", None, None, 3, "wheel", None), Scroll(720, 450, "down", 8)),
    ]
    for arguments, scroll in scrolls:
        assert scroll_of(*arguments, (1440, 900)) == scroll


def test_controller_without_connection_says_so() -> None:
    hands = VNCController()
    with pytest.raises(DesktopError, match=r"not connected: call connect\(server, password\) first"):
        hands.click(1, 2)
    with pytest.raises(DesktopError, match="not connected"):
        hands.screenshot_png()
    hands.close()
    with pytest.raises(DesktopRefused):
        hands.connect("127.0.0.1::1", timeout_s=2.0)
    hands.close()
    assert not hasattr(hands, "unknown")
