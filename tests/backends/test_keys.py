"""Every spelling of a key means the same keysym, and arrives as a person would mean it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types import KeyCombo, KeyDown, KeyUp
from pytest_vnc_use.types.keys import keysym_of, name_of, parse_combo
from support import vnc_servers
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import assert_becomes, window_of, witness_on_qt, xterm

Connect = Callable[..., VNCController]

SPELLINGS = {
    "Control_L": "control ctrl Control CTRL Control_L ctrl_l ControlLeft",
    "Control_R": "Control_R ctrl_r ControlRight",
    "Alt_L": "alt Alt option Alt_L AltLeft",
    "Shift_L": "shift SHIFT Shift_L ShiftLeft",
    "Super_L": "super win meta cmd command Super_L MetaLeft windows",
    "Escape": "esc escape Escape ESC",
    "Return": "enter return Return ENTER Key_Return Qt.Key.Key_Return",
    "Up": "up arrowup ArrowUp arrow_up Up",
    "Down": "down arrowdown ArrowDown",
    "Left": "left arrowleft ArrowLeft",
    "Right": "right arrowright ArrowRight",
    "Prior": "page_up pageup PageUp Page_Up pgup Key_PageUp",
    "Next": "page_down pagedown PageDown Page_Down pgdn",
    "space": "space Space spacebar",
    "BackSpace": "backspace Backspace BackSpace",
    "Delete": "delete del Delete",
    "Insert": "insert ins",
    "Home": "home Home",
    "End": "end End",
    "Tab": "tab Tab",
    "F1": "f1 F1",
    "F12": "f12 F12",
    "F24": "f24",
    "Print": "printscreen print_screen PrintScreen prtsc prntscrn Key_Print",
    "Menu": "menu ContextMenu",
    "Pause": "pause",
    "Scroll_Lock": "scroll_lock ScrollLock",
    "1": "1 Digit_1 Digit1 digit1",
    "a": "a KeyA Key_A Qt.Key_A",
    "plus": "+ plus",
    "minus": "- minus",
    "comma": ", comma",
    "period": ". period",
    "slash": "/ slash",
    "equal": "= equal",
    "KP_Enter": "kp_enter KP_Enter NumpadEnter",
}


class Xev:
    """An xev whose window has the focus, and what it has heard."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def presses(self) -> list[str]:
        """Names of the keysyms pressed so far."""
        events = re.findall(r"KeyPress event.*?\(keysym 0x[0-9a-f]+, (\S+)\)", self._log.read_text("latin-1"), re.S)
        return [name for name in events if name != "Num_Lock"]

    def releases(self) -> list[str]:
        return re.findall(r"KeyRelease event.*?\(keysym 0x[0-9a-f]+, (\S+)\)", self._log.read_text("latin-1"), re.S)

    def hears(self, act: Callable[[], None], pressed: str) -> None:
        """Assert that `act` presses these keys in this order."""
        before = len(self.presses())
        act()
        assert_becomes(lambda: " ".join(self.presses()[before:]), pressed)


Listening = tuple[VncServer, Xev]


@pytest.fixture(scope="module", params=vnc_servers.STARTERS)
def listening(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    vnc_servers.require("xev")
    log = tmp_path_factory.mktemp("xev") / "log"
    command = ["stdbuf", "-oL", "xev", "-geometry", "1000x700+0+0", "-event", "keyboard"]
    with (
        vnc_servers.STARTERS[request.param]() as server,
        log.open("wb") as out,
        server.run(*command, stdout=out.fileno()),
    ):
        window_of(server, "Event Tester")
        yield server, Xev(log)


@pytest.mark.desktop
def test_every_spelling_arrives(listening: Listening, connected: Connect) -> None:
    server, xev = listening
    hands = connected(server)
    hands.click(300, 300)
    for name, spellings in SPELLINGS.items():
        for spelling in spellings.split():
            prefix = "Shift_L " if name == "plus" else ""
            xev.hears(lambda spelling=spelling: hands.key_combo(spelling), prefix + name)  # type: ignore[misc]


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("keys", "pressed"),
    [
        ("control+a", "Control_L a"),
        ("Control+A", "Control_L a"),
        ("ctrl + a", "Control_L a"),
        (["ctrl", "a"], "Control_L a"),
        (["ctrl+shift", "p"], "Control_L Shift_L P"),
        ("ctrl+shift+1", "Control_L Shift_L exclam"),
        ("ctrl++", "Shift_L Control_L plus"),
        ("ctrl+plus", "Shift_L Control_L plus"),
        ("+", "Shift_L plus"),
        ("A", "Shift_L A"),
        ("?", "Shift_L question"),
        ("alt+F4", "Alt_L F4"),
        ("alt f", "Alt_L f"),
        ("Ctrl Shift page down", "Control_L Shift_L Next"),
        ("alt Left", "Alt_L Left"),
        ("page down", "Next"),
        ("alt gr", "ISO_Level3_Shift"),
        ("ctrl+-", "Control_L minus"),
        ("Digit_1", "1"),
    ],
)
def test_combinations(listening: Listening, connected: Connect, keys: str | list[str], pressed: str) -> None:
    server, xev = listening
    hands = connected(server)
    hands.click(300, 300)
    action = KeyCombo((keys,) if isinstance(keys, str) else tuple(keys))
    xev.hears(lambda: hands.perform(action), pressed)
    wait_for(lambda: len(xev.releases()) >= len(xev.presses()), "the release of all keys")


@pytest.mark.desktop
def test_held_key_is_released_in_end(listening: Listening, connected: Connect) -> None:
    server, xev = listening
    hands = connected(server)
    hands.click(300, 300)
    xev.hears(lambda: hands.perform(KeyDown("shift")), "Shift_L")
    xev.hears(lambda: hands.perform(KeyCombo(("a",))), "A")
    hands.perform(KeyUp("shift"))
    hands.perform(KeyDown("ctrl"))
    hands.close()
    assert_becomes(lambda: xev.releases()[-3:], ["A", "Shift_L", "Control_L"])


@pytest.mark.desktop
def test_close_before_slow_server_releases_held_key(listening: Listening, connected: Connect) -> None:
    """Some servers read no more from a client that they cannot write to."""
    server, xev = listening
    hands = connected(server)
    hands.click(300, 300)
    xev.hears(lambda: hands.perform(KeyDown("ctrl")), "Control_L")
    released = xev.releases()
    server.process.send_signal(signal.SIGSTOP)
    with server.run("xsetroot", "-mod", "5", "16"):
        hands.wait(0.2)  # the server has to answer a sign of life, and to send the image, before it reads the release
        hands.close()
        server.process.send_signal(signal.SIGCONT)
    assert_becomes(lambda: xev.releases()[len(released) :], ["Control_L"])


@pytest.mark.desktop
@pytest.mark.parametrize("kind", vnc_servers.STARTERS)
def test_number_pad_digits_are_typed(kind: str, connected: Connect, tmp_path: Path) -> None:
    with vnc_servers.STARTERS[kind]() as server, xterm(server, f"cat > {tmp_path}/typed"):
        hands = connected(server)
        hands.click(50, 50)
        for name in ("kp_1", "numpad5", "KP_Add", "num9", "enter"):
            hands.key_combo(name)
        assert_becomes((tmp_path / "typed").read_text, "15+9\n")


@pytest.mark.desktop
def test_qts_own_server(connected: Connect, tmp_path: Path) -> None:
    lines = {"ctrl+A": "Key_A 2", "Escape": "Key_Escape 0", "ctrl+shift+x": "Key_X 3", "F12": "Key_F12 0"}
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.click(100, 20)
        for keys in lines:
            hands.key_combo(keys)

        def heard() -> list[str]:
            return [line for line in witness.read("keys").splitlines() if line in lines.values()]

        assert_becomes(heard, list(lines.values()))
        for unknown in ("printscreen", "f13", "capslock", "super"):
            with pytest.raises(ActionError, match=f"does not support the key '{unknown}'"):
                hands.key_combo(unknown)


@pytest.mark.parametrize("keys", ["hyperspace", "ctrl+hyperspace", ["ctrl", "hyperspace"]])
def test_unknown_key_is_named(keys: str | list[str]) -> None:
    with pytest.raises(ActionError, match="unknown key 'hyperspace'; a key is a single character"):
        parse_combo(keys)


@pytest.mark.parametrize("keys", ["", "ctrl+", "+a", "a+++b"])
def test_combination_with_gap(keys: str) -> None:
    with pytest.raises(ActionError, match="a key combination must be keys joined by"):
        parse_combo(keys)


@pytest.mark.parametrize("character", ["a", "ä", "я", "你", "😀"])
def test_name_of_characters_key_is_character(character: str) -> None:
    assert name_of(keysym_of(character)) == character
