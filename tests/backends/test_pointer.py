"""Clicks, drags and scrolling, as programs count them; buttons by numbers, and a controller that connects later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.backends.input import scroll_of
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError, DesktopError, DesktopRefused
from pytest_vnc_use.types import Click, Drag, MouseDown, MouseUp, Move, Scroll, ScrollMeans, button_of
from support import vnc_servers
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import Page, assert_becomes, witness_on_qt, witness_on_x

Connect = Callable[..., VNCController]
PAD = (100, 300)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("button", "number"), [("left", 0), ("middle", 1), ("right", 2)])
def test_buttons_and_counts(
    desktop: VncServer, chromium: Page, connected: Connect, button: str, number: int, count: int
) -> None:
    hands = connected(desktop)
    hands.settle()
    before = len(chromium.all("mouseup"))
    hands.perform(Click(*PAD, button=button, count=count))  # type: ignore[arg-type]
    expected = [[number, nth, *PAD] for nth in range(1, count + 1)]
    assert_becomes(lambda: chromium.all("mouseup")[before:], expected)
    hands.wait(0.6)  # the next click is another one, not the second of a double click


def test_pointer_moves_before_it_presses(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    hands = connected(desktop)
    hands.perform(Move(500, 600))
    hands.perform(MouseDown(50, 290))
    hands.perform(Move(70, 310))
    hands.perform(MouseUp(90, 330))
    assert_becomes(lambda: chromium.last("mouseup"), [0, 1, 90, 330])
    assert chromium.last("mousedown") == [0, 1, 50, 290]


def test_html_drag_and_drop(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    connected(desktop).perform(Drag(50, 230, 500, 230))
    assert_becomes(lambda: chromium.last("drop"), "item")


def test_wheel_scrolls_at_point(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    hands = connected(desktop)
    hands.perform(Scroll(700, 600, "down", 5))
    wait_for(lambda: (chromium.last("scroll") or [0, 0])[1] > 200, "scrolling down")
    hands.settle()
    hands.perform(Scroll(700, 600, "up", 20))
    assert_becomes(lambda: chromium.last("scroll"), [0, 0])


@pytest.mark.parametrize(("connected_for", "asked_for"), [("wheel", "keys"), ("keys", "wheel")])
def test_scrolling_by_keys(
    desktop: VncServer, chromium: Page, connected: Connect, connected_for: ScrollMeans, asked_for: ScrollMeans
) -> None:
    """Three notches of the wheel do not scroll as far as a page."""
    hands = connected(desktop, scroll_by=connected_for)
    hands.click(800, 600)
    hands.perform(Scroll(800, 600, "down", 3, by=asked_for))
    wait_for(lambda: (chromium.last("scroll") or [0, 0])[1] > 400, "a page down")
    hands.settle()
    hands.perform(Scroll(800, 600, "up", 3, by=asked_for))
    assert_becomes(lambda: chromium.last("scroll"), [0, 0])


@pytest.mark.desktop
def test_selecting_by_clicks_in_qt(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.type_text("one two three")
        hands.double_click(10, 20)
        hands.type_text("1")
        witness.expect("line", "1 two three")
        hands.triple_click(10, 20)
        hands.type_text("all")
        witness.expect("line", "all")


@pytest.mark.desktop
@pytest.mark.parametrize("kind", ["qt", "tigervnc", "x11vnc"])  # Xtightvnc is too old for Qt 6
def test_dragging_in_qt(kind: str, connected: Connect, tmp_path: Path) -> None:
    with ExitStack() as stack:
        if kind == "qt":
            witness = stack.enter_context(witness_on_qt(tmp_path))
        else:
            server = stack.enter_context(vnc_servers.STARTERS[kind]())
            witness = stack.enter_context(witness_on_x(server, tmp_path))
        connected(witness.server).drag_and_drop(30, 60, 30, 200)
        witness.expect("order", "pears plums grapes apples")


@pytest.mark.desktop
def test_scrolling_qts_own_server_goes_by_keys(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.click(100, 400)
        hands.type_text("line\n" * 60)
        hands.key_combo("ctrl+home")
        assert_becomes(lambda: witness.read("scroll"), "0")
        hands.scroll(100, 400, "down", 3)
        wait_for(lambda: int(witness.read("scroll") or 0) > 3, "a page down")  # empty while it is written


@pytest.mark.parametrize("point", [(1024, 10), (10, 768), (-1, 10), (10, -1), (1.5, 10), ("10", 10)])
def test_point_off_screen(desktop: VncServer, connected: Connect, point: tuple[int, int]) -> None:
    hands = connected(desktop)
    message = r"must be on the screen of 1024 x 768 pixels: x from 0 to 1023, y from 0 to 767"
    for call in (hands.click, hands.move, hands.mouse_down, hands.mouse_up):
        with pytest.raises(ActionError, match=message):
            call(*point)
    with pytest.raises(ActionError, match=message):
        hands.drag_and_drop(1, 1, *point)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda hands: hands.click(1, 1, count=4), "count of a click must be 1 to 3, got 4"),
        *(
            (lambda hands, button=button: hands.click(1, 1, button), f"or its number 1, 2 or 3, got {button!r}")
            for button in (0, 4, "back", None)
        ),
        (lambda hands: hands.wait(-1), "0 seconds or more, got -1"),
        (lambda hands: hands.scroll("sideways", magnitude=800), "up, down, left or right, got 'sideways'"),
        (lambda hands: hands.scroll(10, None, "up"), "must have a direction"),
        (lambda hands: hands.scroll(10, 20, None), "got None"),
        (lambda hands: hands.scroll("up", magnitude=0), "at least 1 pixel, got 0"),
        (lambda hands: hands.scroll(10, 20, "up", 0), "at least 1 click of the wheel, got 0"),
    ],
)
def test_invalid_argument_raises_action_error(
    desktop: VncServer, connected: Connect, call: Callable[[VNCController], None], problem: str
) -> None:
    with pytest.raises(ActionError, match=problem):
        call(connected(desktop))


@pytest.mark.parametrize(("button", "name"), [(1, "left"), (2, "middle"), (3, "right"), ("middle", "middle")])
def test_button_may_be_its_number(button: Any, name: str) -> None:
    assert button_of(button) == name


@pytest.mark.parametrize(
    ("given", "scroll"),
    [
        ((10, 20, "up", 5, "wheel", None), Scroll(10, 20, "up", 5)),
        ((10, 20, "up", 3, "keys", 250), Scroll(10, 20, "up", 2, "keys")),
        (("down", None, None, 3, "wheel", 800), Scroll(720, 450, "down", 8)),
        (("down", 800, None, 3, "wheel", None), Scroll(720, 450, "down", 8)),
        ((None, None, "left", 3, "wheel", 10), Scroll(720, 450, "left", 1)),
        (("down", None, None, 3, "wheel", None), Scroll(720, 450, "down", 8)),
    ],
)
def test_scroll_has_notches_or_pixels(given: Any, scroll: Scroll) -> None:
    assert scroll_of(*given, (1440, 900)) == scroll


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
