"""Clicks, drags and scrolling, as programs count them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types import Click, Drag, MouseDown, MouseUp, Move, Scroll, ScrollMeans
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
def test_dragging_in_qt(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        connected(witness.server).drag_and_drop(30, 60, 30, 200)
        witness.expect("order", "pears plums grapes apples")


@pytest.mark.desktop
@pytest.mark.parametrize("kind", ["tigervnc", "x11vnc"])  # Xtightvnc is too old for Qt 6
def test_dragging_in_qt_as_x_client(kind: str, connected: Connect, tmp_path: Path) -> None:
    with vnc_servers.STARTERS[kind]() as server, witness_on_x(server, tmp_path) as witness:
        connected(server).drag_and_drop(30, 60, 30, 200)
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


def test_arguments_that_make_no_sense(desktop: VncServer, connected: Connect) -> None:
    hands = connected(desktop)
    with pytest.raises(ActionError, match="count of a click must be 1 to 3, got 4"):
        hands.click(1, 1, count=4)
    with pytest.raises(ActionError, match="'middle' or 'right', or its number 1, 2 or 3, got 'fourth'"):
        hands.click(1, 1, "fourth")  # type: ignore[arg-type]
    with pytest.raises(ActionError, match="at least 1 click of the wheel, got 0"):
        hands.scroll(1, 1, "down", 0)
    with pytest.raises(ActionError, match="0 seconds or more, got -1"):
        hands.wait(-1)
