"""What the policy sees of an action is what goes over the wire: for every action, and every kind of server."""

from __future__ import annotations

import socketserver
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

import pytest

from pytest_vnc_use.backends.client import Clipboard
from pytest_vnc_use.backends.settling import SettleRules
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.keyboard.keystrokes import KeyEvent, Offer, in_keys, inputs_of
from pytest_vnc_use.keyboard.names import key_name, on_us_keyboard
from pytest_vnc_use.safety.keyboard_state import KeyboardState
from pytest_vnc_use.safety.sight import Sight
from pytest_vnc_use.types import (
    Click,
    DesktopAction,
    Drag,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    TypingMeans,
    Wait,
)
from support.rfb_server import RAW, cut_text, greeting, rectangle, update
from support.vnc_servers import wait_for
from support.wire import serving

SIZE = 8
SOON = SettleRules(first_change_s=0.05, quiet_s=0.02)
"""The screen shows nothing of most actions."""
TAKES_SCANCODES = rectangle(0, 0, 0, 0, -258)
CLIPBOARD = cut_text(
    -4, struct.pack(">I", Clipboard.CAPS | Clipboard.REQUEST | Clipboard.NOTIFY | Clipboard.PROVIDE | Clipboard.TEXT)
)
INSERT = 0xFF63


@dataclass
class Ear:
    """The ear of a server of a `name`: it hears its keyboard and its clipboard; `first` is its own greeting."""

    name: bytes
    first: bytes = b""
    events: list[KeyEvent] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def server_of(ear: Ear) -> type[socketserver.BaseRequestHandler]:
    class Server(socketserver.StreamRequestHandler):
        """An RFB server that fetches each text that is offered, and repaints its screen where it is pasted."""

        def handle(self) -> None:
            self.shade = 0
            self.wfile.write(greeting(SIZE, SIZE, name=ear.name) + ear.first)
            self.rfile.read(12 + 1 + 1)
            while kind := self.rfile.read(1):
                self.hear(kind[0])

        def hear(self, kind: int) -> None:
            match kind:
                case 0:
                    self.rfile.read(19)
                case 2:
                    _, count = struct.unpack(">BH", self.rfile.read(3))
                    self.rfile.read(4 * count)
                case 3:
                    if not struct.unpack(">BHHHH", self.rfile.read(9))[0]:
                        self.paint()
                case 4:
                    down, keysym = struct.unpack(">BxxI", self.rfile.read(7))
                    self.key(keysym, bool(down))
                case 5:
                    self.rfile.read(5)
                case 6:
                    self.clipboard(self.rfile.read(-struct.unpack(">xxxi", self.rfile.read(7))[0]))
                case 255:
                    _, down, keysym, _ = struct.unpack(">BHII", self.rfile.read(11))
                    self.key(keysym, bool(down))

        def key(self, keysym: int, down: bool) -> None:
            ear.events.append(KeyEvent(keysym, down))
            if keysym == INSERT and down:
                self.shade += 40
                self.paint()

        def clipboard(self, body: bytes) -> None:
            flags = int.from_bytes(body[:4], "big")
            if flags & Clipboard.NOTIFY and not flags & Clipboard.CAPS:
                self.wfile.write(cut_text(-4, struct.pack(">I", Clipboard.REQUEST | Clipboard.TEXT)))
            elif flags & Clipboard.PROVIDE and not flags & Clipboard.CAPS:
                ear.texts.append(zlib.decompress(body[4:])[4:-1].decode())

        def paint(self) -> None:
            self.wfile.write(update(rectangle(0, 0, SIZE, SIZE, RAW, bytes([self.shade % 256]) * (SIZE * SIZE * 4))))

    return Server


KINDS: dict[str, tuple[Ear, TypingMeans]] = {
    "ascii": (Ear(b"a server"), "keys"),
    "qt": (Ear(b"Qt for Embedded Linux VNC Server"), "keys"),
    "qemu": (Ear(b"QEMU"), "keys"),
    "qemu with scan codes": (Ear(b"QEMU (guest)", update(TAKES_SCANCODES)), "keys"),
    "clipboard": (Ear(b"tiger", CLIPBOARD), "keys"),
    "clipboard only": (Ear(b"tiger", CLIPBOARD), "clipboard"),
}


@contextmanager
def hearing(kind: str) -> Iterator[tuple[VNCController, Ear]]:
    known, type_by = KINDS[kind]
    ear = replace(known, events=[], texts=[])
    with serving(server_of(ear)) as address, closing(connect(address, type_by=type_by, settle_rules=SOON)) as hands:
        yield hands, ear


SEQUENCES: dict[str, Sequence[DesktopAction]] = {
    "the pointer": [
        Click(1, 1),
        Click(2, 2, "middle", 2),
        MouseDown(1, 1),
        MouseUp(2, 2),
        Move(3, 3),
        Drag(1, 1, 4, 4),
    ],
    "nothing": [Wait(0.0), TakeScreenshot()],
    "text": [TypeText("rm -rf\n\tA!"), TypeText("x", 3, 3, press_enter=True), TypeText("")],
    "text that replaces": [TypeText("new", clear_first=True), TypeText("", clear_first=True, press_enter=True)],
    "text beyond ASCII": [TypeText("é\nя b"), TypeText("Grüße", press_enter=True), KeyCombo(("é",)), KeyCombo(("ж",))],
    "text that nobody types": [TypeText("a\x07b"), TypeText("c")],
    "combinations": [
        KeyCombo(("ctrl", "shift", "p")),
        KeyCombo(("Control_R+alt", "KP_Delete")),
        KeyCombo(("A",)),
        KeyCombo(("ctrl", "+")),
        KeyCombo(("ctrl alt f5",)),
        KeyCombo(("kp_5",)),
        KeyCombo(("a", "b")),
        KeyCombo(("super",)),
        KeyCombo(("f13",)),
        KeyCombo(("nosuchkey",)),
    ],
    "keys held": [
        KeyDown("shift"),
        TypeText("Ab1!"),
        KeyCombo(("ctrl", "x")),
        KeyCombo(("é",)),
        KeyUp("shift"),
        KeyDown("w"),
        TypeText("wow"),
        KeyDown("ctrl"),
        TypeText("a", clear_first=True),
        Click(1, 1),
        KeyUp("Control_L"),
        KeyDown("KP_5"),
        KeyUp("KP_5"),
    ],
    "pages": [OpenAddress("http://shop/?q=1"), TraverseHistory("back"), TraverseHistory("forward")],
    "a page beyond ASCII": [OpenAddress("http://shop/ж")],
    "scrolling": [
        Scroll(1, 1, "down", 3),
        Scroll(1, 1, "up", 11, by="keys"),
        Scroll(1, 1, "left", 2, by="keys"),
        Scroll(1, 1, "right", 1),
    ],
}


def test_every_action_is_held_against_the_wire() -> None:
    tried = {type(action) for actions in SEQUENCES.values() for action in actions}
    assert tried == set(get_args(DesktopAction))


@pytest.mark.parametrize("actions", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_sees_what_goes_over_the_wire(kind: str, actions: Sequence[DesktopAction]) -> None:
    with hearing(kind) as (hands, ear):
        keyboard = KeyboardState(hands.means)
        for action in actions:
            inputs = list(in_keys(inputs_of(action, keyboard.held, keyboard.means), keyboard.held))
            sight = Sight(action, keyboard)
            ear.events.clear()
            ear.texts.clear()
            assert _perform(hands, action) or not [each for each in inputs if isinstance(each, KeyEvent)]
            pressed_keys = [each for each in inputs if isinstance(each, KeyEvent)]
            wait_for(partial(_has_heard, ear, len(pressed_keys)), f"{action} on the wire")
            assert ear.events == pressed_keys, action
            assert ear.texts == [each.text for each in inputs if isinstance(each, Offer)], action
            if inputs:
                pressed = [event.keysym for event in ear.events if event.down]
                down = [*pressed, *keyboard.held] if sight.keys else []
                assert {key for keys in sight.keys for key in keys} == on_us_keyboard(map(key_name, down)), action
            keyboard = keyboard.after(action)


def _has_heard(ear: Ear, count: int) -> bool:
    return len(ear.events) >= count


def _perform(hands: VNCController, action: DesktopAction) -> bool:
    """Perform an action until the server has heard all of it. Return whether it was carried out."""
    try:
        hands.perform(action)
        return True
    except ActionError:
        return False
    finally:
        hands.frame()
