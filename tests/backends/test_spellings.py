"""Buttons by their numbers, scrolls by pixels, and a controller that connects later."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.backends.input import scroll_of
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError, DesktopError, DesktopRefused
from pytest_vnc_use.types import Scroll, button_of

SIZE = (1440, 900)


@pytest.mark.parametrize(("button", "name"), [(1, "left"), (2, "middle"), (3, "right"), ("middle", "middle")])
def test_button_may_be_its_number(button: Any, name: str) -> None:
    assert button_of(button) == name


@pytest.mark.parametrize("button", [0, 4, "back", None])
def test_another_button_is_refused(button: Any) -> None:
    with pytest.raises(ActionError, match=f"or its number 1, 2 or 3, got {button!r}"):
        button_of(button)


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
    assert scroll_of(*given, SIZE) == scroll


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("sideways", None, None, 3, "wheel", 800), "up, down, left or right, got 'sideways'"),
        ((10, None, "up", 3, "wheel", None), "must have a direction"),
        ((10, 20, None, 3, "wheel", None), "got None"),
        (("up", None, None, 3, "wheel", 0), "at least 1 pixel, got 0"),
        ((10, 20, "up", 0, "wheel", None), "at least 1 click of the wheel, got 0"),
    ],
)
def test_scroll_that_makes_no_sense_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ActionError, match=problem):
        scroll_of(*given, SIZE)


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
