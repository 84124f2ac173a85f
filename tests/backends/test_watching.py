"""Eyes that stay open: what changed since a moment, and what moves on its own and is left out, on real desktops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ConnectionLost
from pytest_vnc_use.types import Frame
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import openbox, xterm

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]
BLINKING = r"printf '\033[?12h'; exec cat"
CLOCK = r"while true; do printf '\r%s' $(date +%T.%1N); sleep 0.8; done"
SPINNER = r"while true; do for c in / - '\' '|'; do printf '\r%s' $c; sleep 0.02; done; done"


def test_change_is_known_and_waited_for(tigervnc: VncServer, connected: Connect) -> None:
    hands = connected(tigervnc)
    frame = hands.frame()
    assert not hands.wait_changed(frame.taken_at, 0.1)
    painter = threading.Timer(0.2, tigervnc.paint, (5,))
    painter.start()
    assert hands.wait_changed(frame.taken_at, 20.0)
    painter.join()
    assert hands.changed_since(frame.taken_at)
    assert not hands.changed_since(hands.frame().taken_at)


def test_server_gone_is_told_at_once(tigervnc: VncServer, connected: Connect) -> None:
    hands = connected(tigervnc)
    killer = threading.Timer(0.2, tigervnc.kill)
    killer.start()
    with pytest.raises(ConnectionLost):
        hands.wait_changed(time.monotonic(), 20.0)
    killer.join()
    with pytest.raises(ConnectionLost):
        hands.changed_since(0.0)


@pytest.mark.parametrize("command", [BLINKING, CLOCK, SPINNER], ids=["a caret", "a clock", "a spinner"])
def test_what_moves_is_known_soon_and_left_out(tigervnc: VncServer, connected: Connect, command: str) -> None:
    with openbox(tigervnc), xterm(tigervnc, command):  # without a window manager xterm's caret does not blink
        hands = connected(tigervnc)
        hands.click(200, 200)
        hands.settle()
        wait_for(lambda: only_what_moves_has_changed(hands), "that only this changes", 30.0)
        moment = moving(hands).taken_at
        tigervnc.paint(5)
        assert hands.wait_changed(moment, 20.0)


def only_what_moves_has_changed(hands: VNCController) -> bool:
    """Over 1.2 s; on a busy machine a clock may stop for so long that its continuing is a change."""
    moment = hands.frame().taken_at
    time.sleep(1.2)
    frame = hands.frame()
    return bool(frame.moving and frame.changed) and not hands.changed_since(moment)


def moving(hands: VNCController) -> Frame:
    frame = hands.frame()
    assert frame.moving
    return frame


def test_it_is_still_known_after_action(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, SPINNER):
        hands = connected(tigervnc)
        hands.click(100, 100)
        hands.settle()
        wait_for(lambda: hands.frame().moving, "that something moves")
        hands.move(900, 700)
        assert hands.settle().reason == "nothing_changed"


def test_what_came_to_rest_has_changed(tigervnc: VncServer, connected: Connect) -> None:
    spinner = (
        r"for n in 1 2 3 4 5 6 7 8 9; do for c in / - '\' '|'; do printf '\r%s' $c; sleep 0.05; done; done; exec cat"
    )
    with xterm(tigervnc, spinner):
        hands = connected(tigervnc)
        wait_for(lambda: hands.frame().moving, "that something moves")
        moment = time.monotonic()
        assert hands.wait_changed(moment, 20.0)
        assert not hands.frame().moving
