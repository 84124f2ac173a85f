"""Text, keys, clicks, drags and scrolling arrive as they were given, as the receiving
programs say, or are rejected.
"""

from __future__ import annotations

import re
import shlex
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.backends import input as pointer_input
from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.backends.input import scroll_of
from pytest_vnc_use.backends.screen import TILE_PX, SettleRules
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import (
    ActionError,
    DesktopError,
    DesktopRefused,
    SettingsError,
)
from pytest_vnc_use.recordings.gates import gate
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.types import (
    DesktopAction,
    JsonObject,
    KeyCombo,
    KeyDown,
    KeyUp,
    Scroll,
    TypeText,
    button_of,
)
from pytest_vnc_use.types.keys import keysym_of, name_of, parse_combo
from support import vnc_servers
from support.paths import PROGRAMS
from support.rfb_server import RAW, greeting, rectangle, update
from support.stages import qemu
from support.vnc_servers import (
    VncServer,
    on_free_port,
    require,
    require_pyside,
    running,
    wait_for,
)
from support.witness_programs import (
    SELECT_PAGE,
    Witness,
    assert_becomes,
    element,
    evaluated,
    openbox,
    window_of,
    xterm,
)

Connect = Callable[..., VNCController]
ASCII = "".join(map(chr, range(0x20, 0x7F)))
LATIN_1 = "".join(map(chr, range(0xA1, 0x100))).replace("\xad", "")
LONG = "The quick brown Fox jumps over the lazy Dog!\n" * 60
SPECIAL = "@ { } \\ ~ € ß é"
TEXTS = (
    ASCII,
    "Grüße, naïve café, Ærøskøbing",
    "Ωραία Ελλάδα",
    "Съешь ещё этих мягких булок",
    "日本語 漢字 한국어",
    "שלום עולם, مرحبا بالعالم",
    "😀 👍🏽 👩‍💻",
    "e\u0301 a\u0308 n\u0303",
    "".join(map(chr, range(0x4E00, 0x4E00 + 300))),
)


@contextmanager
def witness_on_qt(directory: Path) -> Iterator[Witness]:
    require_pyside()
    command = (
        sys.executable,
        str(PROGRAMS / "witness.py"),
        str(directory),
    )
    platform = "vnc:size=800x600:port={}".format
    with on_free_port(
        lambda port: running(*command, environment={"QT_QPA_PLATFORM": platform(port)})
    ) as server:
        # the server greets before: keys would be lost
        wait_for((directory / "focused.txt").exists, "the window")
        yield Witness(server, directory)


@pytest.mark.desktop
def test_qts_server_takes_clicks_latin_1_and_lines(
    connected: Connect, tmp_path: Path
) -> None:
    with witness_on_qt(tmp_path) as witness:
        controller = connected(witness.server)
        controller.click(300, 20)
        controller.type_text("one two three")
        # a busy machine may be slower than a double click
        witness.expect("line", "one two three")
        controller.double_click(10, 20)
        controller.type_text("1")
        witness.expect("line", "1 two three")
        controller.triple_click(10, 20)
        controller.type_text("all")
        witness.expect("line", "all")
        controller.drag_and_drop(30, 60, 30, 200)
        witness.expect("order", "pears plums grapes apples")
        controller.click(300, 20)
        for text in (ASCII, LATIN_1, ""):
            controller.type_text(text, clear_first=True)
            witness.expect("line", text)
        with pytest.raises(
            ActionError, match=r"'Ω€' \(U\+03A9, U\+20AC\). Nothing was typed"
        ):
            controller.type_text("costs Ω or €")
        controller.type_text("b")
        witness.expect("line", "b")
        controller.click(100, 400)
        controller.type_text("one\ntwo\r\nthree", press_enter=True)
        witness.expect("page", "one\ntwo\nthree\n")
        with pytest.raises(ActionError, match="does not support the key 'f13'"):
            controller.key_combo("f13")


def test_keys_do_not_overtake_click(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    """openbox grabs and replays the click that gives a window the focus; keys at its
    heels would go to the other.
    """
    left = tmp_path / "left"
    right = tmp_path / "right"
    with (
        openbox(tigervnc),
        xterm(tigervnc, f"cat > {left}", "left", "40x10+0+100"),
        xterm(tigervnc, f"cat > {right}", "right", "40x10+500+100"),
    ):
        controller = connected(tigervnc)
        controller.settle()
        for _ in range(4):
            controller.perform(TypeText("left", 100, 180, press_enter=True))
            controller.click(600, 180)
            controller.type_text("right", press_enter=True)
        assert_becomes(left.read_text, "left\n" * 4)
        assert_becomes(right.read_text, "right\n" * 4)


def test_enter_after_name_saves_in_gtk_dialog(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    """GTK looks for files of the name as it is typed, and loses an Enter at its
    heels.
    """
    require("mousepad")
    command = [
        "env",
        f"HOME={tmp_path}",
        f"XDG_CONFIG_HOME={tmp_path}",
        "mousepad",
        "--disable-server",
    ]
    with openbox(tigervnc), tigervnc.run(*command, cwd=tmp_path):
        window_of(tigervnc, "Untitled 1 - Mousepad")
        controller = connected(tigervnc)
        for keys, shown in (
            ("a", "*Untitled 1 - Mousepad"),
            ("ctrl+shift+s", "Save As"),
        ):
            controller.settle()
            controller.key_combo(keys)
            window_of(tigervnc, shown)
        controller.settle()
        controller.type_text("letter.txt", press_enter=True)
        assert_becomes((tmp_path / "letter.txt").exists, True)


def test_url_waits_for_slow_address_bar(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    """A busy browser drops or shows elsewhere what is typed before ctrl+l has moved the
    focus.
    """
    url = tmp_path / "url"
    # xterm answers once it has hidden the cursor
    hidden = r"stty -echo; printf '\033[?25l\033[6n'; read -rsdR"
    drops = "while read -rsn1 -t 0.01; do :; done"
    script = (
        f"{hidden}; touch {url}; read -rsn2; sleep 1; {drops}; printf 'URL? '; read -r"
        f" line; echo $line > {url}"
    )
    with xterm(tigervnc, f"exec bash -c {shlex.quote(script)}"):
        wait_for(url.exists, "the program")
        controller = connected(tigervnc)
        controller.click(300, 200)
        controller.type_text("x")  # at the first key xterm hides the pointer
        controller.settle()
        controller.open_url("127.0.0.1:8000")
        assert_becomes(url.read_text, "127.0.0.1:8000\n")


@pytest.mark.desktop
@pytest.mark.slow
def test_text_longer_than_queue_of_keys(connected: Connect, tmp_path: Path) -> None:
    """QEMU takes a key event every 10 ms, queues about 340 and drops the rest."""
    text = f"{ASCII}the quick brown fox jumps over the lazy dog"
    with qemu(tmp_path) as stage:
        controller = connected(stage.server)
        controller.type_text(text)
        assert_becomes(stage.received, [f"key {character!r}" for character in text])
        with pytest.raises(ActionError, match=r"'é' \(U\+00E9\). Nothing was typed"):
            controller.type_text("café")


SPELLINGS = {
    "Control_L": "control ctrl Control CTRL Control_L ctrl_l ControlLeft",
    "Super_L": "super win meta cmd command Super_L MetaLeft windows",
    "Return": "enter return Return ENTER Key_Return Qt.Key.Key_Return",
    "Up": "up arrowup ArrowUp arrow_up Up",
    "Next": "page_down pagedown PageDown Page_Down pgdn",
    "space": "space Space spacebar",
    "Print": "printscreen print_screen PrintScreen prtsc prntscrn Key_Print",
    "1": "1 Digit_1 Digit1 digit1",
    "a": "a KeyA Key_A Qt.Key_A",
    "plus": "+ plus",
    "KP_Enter": "kp_enter KP_Enter NumpadEnter",
}
"""For an X keysym, all names of its key."""


IN_XTERM: dict[str, tuple[dict[str, str], str]] = {
    "tigervnc": (
        {
            "": "\n".join(TEXTS) + "\n\tone\tΩ\ttwo\n" + LONG,
            **dict.fromkeys(("de", "fr", "us"), f"{ASCII}\n{SPECIAL}\n@{{}}\\~"),
        },
        "",
    ),
    "tightvnc": ({"": f"{ASCII}\n{LATIN_1}\n{LONG}"}, "日"),
    "x11vnc": ({"": f"{ASCII}\n{LONG[:450]}"}, "café"),
}
"""What is typed in each keyboard layout; a text that the server cannot take."""


@pytest.mark.desktop
@pytest.mark.parametrize("kind", IN_XTERM)
def test_text_and_number_pad_arrive_in_xterm(
    kind: str, connected: Connect, tmp_path: Path
) -> None:
    texts, untypable = IN_XTERM[kind]
    typed = tmp_path / "typed"
    start = getattr(vnc_servers, kind)
    with start() as server, xterm(server, f"cat > {typed}"):
        controller = connected(server)
        controller.click(50, 50)
        expected = ""
        for layout, text in texts.items():
            if layout:
                server.output_of("setxkbmap", layout)
            controller.type_text(text, press_enter=True)
            expected += f"{text}\n"
            assert_becomes(typed.read_text, expected)
        if untypable:
            with pytest.raises(ActionError, match=r"U\+.*Nothing was typed"):
                controller.type_text(untypable)
        for name in ("kp_1", "numpad5", "KP_Add", "num9", "enter"):
            controller.key_combo(name)
        assert_becomes(typed.read_text, f"{expected}15+9\n")


COMBINATIONS: dict[tuple[str, ...], str] = {
    ("ctrl", "a"): "Control_L a",
    ("ctrl+shift", "p"): "Control_L Shift_L P",
    ("ctrl++",): "Shift_L Control_L plus",
    ("?",): "Shift_L question",
    ("Ctrl Shift page down",): "Control_L Shift_L Next",
    ("alt gr",): "ISO_Level3_Shift",
}


def test_keys_arrive_and_held_key_is_released(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    vnc_servers.require("xev")
    log = tmp_path / "log"

    def received(event: str) -> list[str]:
        names = re.findall(
            rf"{event} event.*?\(keysym 0x[0-9a-f]+, (\S+)\)",
            log.read_text("latin-1"),
            re.S,
        )
        return [name for name in names if name != "Num_Lock"]

    def presses(action: DesktopAction, pressed: str) -> None:
        before = len(received("KeyPress"))
        controller.perform(action)
        assert_becomes(lambda: " ".join(received("KeyPress")[before:]), pressed)

    command = [
        "stdbuf",
        "-oL",
        "xev",
        "-geometry",
        "1000x700+0+0",
        "-event",
        "keyboard",
    ]
    with log.open("wb") as out, tigervnc.run(*command, stdout=out.fileno()):
        window_of(tigervnc, "Event Tester")
        controller = connected(tigervnc)
        controller.click(300, 300)
        for name, spellings in SPELLINGS.items():
            presses(
                KeyCombo((spellings.split()[0],)),
                f"Shift_L {name}" if name == "plus" else name,
            )
        for keys, pressed in COMBINATIONS.items():
            presses(KeyCombo(keys), pressed)
        presses(KeyDown("shift"), "Shift_L")
        presses(KeyCombo(("a",)), "A")
        controller.perform(KeyUp("shift"))
        controller.perform(KeyDown("ctrl"))
        controller.close()
        assert_becomes(
            lambda: received("KeyRelease")[-3:], ["A", "Shift_L", "Control_L"]
        )
        assert len(received("KeyRelease")) == len(received("KeyPress"))


@pytest.mark.parametrize(
    "spellings",
    [
        *(text.split() for text in SPELLINGS.values()),
        ["control+a", "Control+A", "ctrl + a", ["ctrl", "a"]],
        ["alt f", "alt+f"],
        ["ctrl++", "ctrl+plus"],
    ],
)
def test_every_spelling_is_one_key(spellings: list[str | list[str]]) -> None:
    assert len(set(map(parse_combo, spellings))) == 1


SHIFT = 0xFFE1
CONTROL = 0xFFE3
F5 = 0xFFC2


UNKNOWN_KEY = "unknown key 'hyperspace'. A key is a single character"
NO_COMBINATION = "a key combination must be keys joined by"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("hyperspace", UNKNOWN_KEY),
        ("ctrl+hyperspace", UNKNOWN_KEY),
        ("", NO_COMBINATION),
        ("ctrl+", NO_COMBINATION),
        ("+a", NO_COMBINATION),
        ("a+++b", NO_COMBINATION),
    ],
)
def test_parse_invalid_combination_names_it(keys: str, problem: str) -> None:
    with pytest.raises(ActionError, match=problem):
        parse_combo(keys)


def test_key_of_character_is_named_by_it() -> None:
    assert [name_of(keysym_of(character)) for character in "aäя你😀"] == [*"aäя你😀"]


FIELDS = (
    "data:text/html,<textarea aria-label=Lines id=lines></textarea><br><input"
    " aria-label=Text id=text>"
)


KEYS = """<input aria-label=Text id=text><script>
text.onkeydown = ({key}) => { if (key.length == 1) text.title += key }</script>"""


@pytest.mark.parametrize(
    ("text", "keys"), [("Zoë's €", "Zo's "), ("é" * 9, ""), ("é." * 5, "")]
)
def test_line_with_accent_goes_by_keys(
    browser: Browser, controller: VNCController, text: str, keys: str
) -> None:
    browser.navigate(f"data:text/html;charset=utf-8,{KEYS}")
    controller.click(*element(browser, "Text").centre)
    controller.type_text(text)
    assert_becomes(lambda: evaluated(browser, "[text.value, text.title]"), [text, keys])


LATE_PASTE = """<input aria-label=Text id=text><script>
text.onpaste = event => {
  event.preventDefault();
  const pasted = event.clipboardData.getData('text');
  setTimeout(() => document.execCommand('insertText', false, pasted), 1500);
}</script>"""


def test_keys_do_not_overtake_late_paste(
    browser: Browser, controller: VNCController
) -> None:
    """What the keys before a paste change is no answer to the paste."""
    browser.navigate(f"data:text/html;charset=utf-8,{LATE_PASTE}")
    controller.click(*element(browser, "Text").centre)
    controller.type_text("Zoë's €")
    assert_becomes(lambda: evaluated(browser, "text.value"), "Zoë's €")


def test_text_by_clipboard(
    browser: Browser,
    controller: VNCController,
    tigervnc: VncServer,
    x11vnc: VncServer,
    connected: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Browsers take ctrl+v, terminals do not; it is typed on a server without a
    clipboard for any script.

    Of a layout without Latin letters TigerVNC takes about 20 of them by keys, and loses
    the others.
    """

    def value(name: str) -> object:
        return evaluated(browser, f"{name}.value")

    browser.navigate(FIELDS)
    controller.click(*element(browser, "Lines").centre)
    controller.perform(TypeText("old", clear_first=True))
    controller.perform(TypeText("two\nlines Ω", clear_first=True, paste=True))
    assert_becomes(lambda: value("lines"), "two\nlines Ω")
    controller.click(*element(browser, "Text").centre)
    for text in TEXTS[::3]:
        controller.type_text(text, clear_first=True)
        assert_becomes(lambda: value("text"), text)
    # caret and letter in one tile
    margin = -(element(browser, "Text").box.left + 2) % TILE_PX
    browser.navigate(FIELDS.replace("<input", f"<input style=margin-left:{margin}px"))
    controller.click(*element(browser, "Text").centre)
    wait_for(lambda: controller.settle().reason == "animated", "a caret that blinks")
    controller.type_text("ö")  # hardly larger than the caret
    assert_becomes(lambda: value("text"), "ö")

    monkeypatch.setattr("pytest_vnc_use.backends.input._FETCH_S", 1.0)
    for rules in ("_PASTED", "_PASTED_LATE"):
        monkeypatch.setattr(
            f"pytest_vnc_use.backends.input.{rules}",
            SettleRules(first_change_s=1.0, limit_s=2.0),
        )
    # as where a clipboard's history fetches it
    with xterm(tigervnc, f"stty -echo; cat > {tmp_path}/silent"):
        wait_for((tmp_path / "silent").exists, "the end of the echo")
        controller = connected(tigervnc)
        controller.click(50, 50)
        controller.settle()
        with pytest.raises(
            ActionError,
            match=r"no pixel changed within 1.0 s. Focus a text field first",
        ):
            controller.type_text("Ω")
    tigervnc.output_of("setxkbmap", "ru")
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        controller = connected(tigervnc, type_by="clipboard")
        controller.click(50, 50)
        controller.type_text(f"{ASCII}\n\tΩ {ASCII}", press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, f"{ASCII}\n\tΩ {ASCII}\n")
        with pytest.raises(ActionError, match=r"no program fetched .* after ctrl\+v"):
            controller.perform(TypeText("x", paste=True))
    tigervnc.output_of("setxkbmap", "us")

    with pytest.raises(
        SettingsError, match="this VNC server has no extended clipboard"
    ):
        connected(x11vnc, type_by="clipboard")


def test_paste_without_program_waits_once(tmp_path: Path) -> None:
    def seconds_until_error() -> float:
        started_at = clock.monotonic()
        with pytest.raises(ActionError, match="no program fetched the text"):
            controller.type_text("Ω")
        return clock.monotonic() - started_at

    with (
        vnc_servers.tigervnc((800, 500)) as server,
        closing(connect(server.address)) as controller,
    ):
        assert seconds_until_error() > 5
        assert seconds_until_error() < 3
        with xterm(server, f"cat > {tmp_path}/typed"):
            controller.click(50, 50)
            controller.type_text("Ω", press_enter=True)
            assert_becomes((tmp_path / "typed").read_text, "Ω\n")
        assert seconds_until_error() > 5, "programs fetch, so a busy one may be late"


DRAGGED = """data:text/html,<div role=button aria-label=Item draggable=true id=item>item</div><br>
<div role=button aria-label=Gift id=gift>none</div><script>
item.ondragstart = () => { for (const end = performance.now() + 1200; performance.now() < end;) {} };
gift.ondragover = event => event.preventDefault(); gift.ondrop = () => gift.textContent = "an item"</script>"""


def test_slow_page_gets_item_dropped_on_it(
    browser: Browser, controller: VNCController
) -> None:
    browser.navigate(DRAGGED)
    controller.settle()
    controller.drag_and_drop(
        *element(browser, "Item").centre, *element(browser, "Gift").centre
    )
    assert_becomes(lambda: browser.text().split(), ["item", "an", "item"])


class PressTimes:
    """The port MessageTap: keeps when a button was pressed and released."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self._buttons: object = []

    def hide(self, text: str) -> str:
        return text

    def note(self, messages: Iterable[JsonObject]) -> None:
        for message in messages:
            buttons = message.get("buttons", self._buttons)
            if buttons != self._buttons:
                self._buttons = buttons
                self.at_s.append(clock.monotonic())


@pytest.mark.parametrize("count", [1, 2])
def test_press_lasts_as_long_as_users(
    desktop: VncServer, connected: Connect, count: int
) -> None:
    """A touchpad or a script presses for less, and a busy `select` opens later."""
    times = PressTimes()
    controller = connected(desktop, tap=times)
    controller.click(5, 5, count=count)
    controller.mouse_down(5, 5)
    controller.mouse_up(5, 5)
    pressed_s = times.at_s[::2]
    released_s = times.at_s[1::2]
    lengths_s = [up - down for down, up in zip(pressed_s, released_s, strict=True)]
    assert len(lengths_s) == count + 1
    assert min(lengths_s) >= 0.1


def test_gate_opens_to_both_looks_of_open_select(
    browser: Browser, controller: VNCController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chromium draws another border if the button is up before the list is open."""
    browser.navigate(SELECT_PAGE)
    select = element(browser, "Delivery")
    x, y = select.centre
    looks = {}
    for number in range(60):
        # twice: the first click only closes the list
        controller.click(x, y + 300)
        controller.click(x, y + 300)
        controller.settle()
        before = pixels_in(controller.frame())
        monkeypatch.setattr(pointer_input, "HOLD_S", 0.3 * (number % 2))
        controller.click(x, y)
        controller.settle()
        shown = pixels_in(controller.frame())
        looks[int(shown[select.box.top, x])] = shown
        if len(looks) == 2:
            break
    idle = looks[0x767676]
    pressed = looks[0x8D8D8D]
    recorded = gate(pressed, (), before=before, pressed=((x, y),))
    assert recorded.mismatch(idle) is None
    assert recorded.mismatch(before)


def key(keysym: int, down: bool, scancode: int = 0) -> bytes:
    return (
        struct.pack(">BBHII", 255, 0, down, keysym, scancode)
        if scancode
        else struct.pack(">BBxxI", 4, down, keysym)
    )


def struck(*keysyms: int) -> bytes:
    return b"".join(
        [key(each, True) for each in keysyms]
        + [key(each, False) for each in reversed(keysyms)]
    )


@contextmanager
def receiving(
    name: bytes, *extensions: bytes
) -> Iterator[tuple[VNCController, Callable[..., None]]]:
    """Yield a controller of a server with a still screen, and an assertion that a call
    sends messages in one write.
    """
    screen = update(rectangle(0, 0, 8, 8, RAW, bytes(8 * 8 * 4)))
    received = list[bytes]()
    is_over = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(ConnectionError):
            connection.sendall(
                greeting(8, 8, name=name) + b"".join(map(update, extensions)) + screen
            )
            while piece := connection.recv(1 << 20):
                received.append(piece)
                if is_over.is_set():  # the end waits for an answer
                    connection.sendall(screen)

    def receives(act: Callable[[], object], *messages: bytes) -> None:
        act()
        data = b"".join(messages)
        wait_for(
            lambda: any(data in piece for piece in received),
            f"{data!r} in one of {received!r}",
        )
        received.clear()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        with closing(connect(f"127.0.0.1::{listener.getsockname()[1]}")) as controller:
            received.clear()
            yield controller, receives
            is_over.set()
        serving.join()


def test_keys_are_one_write_beside_held_keys() -> None:
    """A release that is late would let the server repeat the key."""
    with receiving(b"a server") as (controller, receives):
        typed = [
            struck(SHIFT, ord("A")),
            struck(ord("b")),
            struck(0xFF0D),
            struck(SHIFT, ord("?")),
        ]
        receives(lambda: controller.type_text("Ab\n?" * 100), *typed * 100)
        receives(lambda: controller.key_combo("ctrl+é"), struck(CONTROL, 0xE9))
        with pytest.raises(ActionError, match="cannot type the characters 'é'"):
            controller.key_combo("é")  # one alone is text
        receives(lambda: controller.key_down("w"), key(ord("w"), True))
        receives(
            lambda: controller.type_text("wow"), *(struck(ord(each)) for each in "wow")
        )
        receives(lambda: controller.key_down("shift"), key(SHIFT, True))
        receives(lambda: controller.type_text("AB"), struck(ord("A")), struck(ord("B")))
        receives(
            lambda: controller.key_combo("ctrl+shift+x"), struck(CONTROL, ord("X"))
        )
        receives(controller.close, key(SHIFT, False))


def test_qemu_gets_scan_codes_if_confirmed() -> None:
    with receiving(b"QEMU (guest)", rectangle(0, 0, 0, 0, -258)) as (
        controller,
        receives,
    ):
        receives(
            lambda: controller.type_text("?"),
            key(SHIFT, True, 0x2A),
            key(ord("?"), True, 0x35),
            key(ord("?"), False, 0x35),
            key(SHIFT, False, 0x2A),
        )
        receives(
            lambda: controller.key_combo("F5"),
            key(F5, True, 0x3F),
            key(F5, False, 0x3F),
        )
        with pytest.raises(
            ActionError,
            match=r"does not support the key 'f13'. It supports ASCII, F1 to F12",
        ):
            controller.key_combo("f13")
    with receiving(b"QEMU") as (controller, receives):  # it has a layout of its own
        receives(lambda: controller.type_text("?"), struck(SHIFT, ord("?")))


INVALID: list[tuple[Callable[[VNCController], object], str]] = [
    (
        lambda controller: controller.click(1, 1, count=4),
        "count of a click must be 1 to 3, got 4",
    ),
    (
        lambda controller: controller.click(1, 1, "back"),
        "or its number 1, 2 or 3, got 'back'",
    ),  # type: ignore[arg-type]
    (lambda controller: controller.wait(-1), "0 seconds or more, got -1"),
    (
        lambda controller: controller.scroll("sideways", magnitude=800),
        "up, down, left or right, got 'sideways'",
    ),  # type: ignore[arg-type]
    (
        lambda controller: controller.scroll(10, 20, "up", 0),
        "at least 1 click of the wheel, got 0",
    ),
]


@pytest.mark.parametrize(
    ("call", "problem"), INVALID, ids=[problem for _, problem in INVALID]
)
def test_invalid_argument_raises_action_error(
    desktop: VncServer,
    connected: Connect,
    call: Callable[[VNCController], object],
    problem: str,
) -> None:
    with pytest.raises(ActionError, match=problem):
        call(connected(desktop))


@pytest.mark.parametrize("point", [(1024, 10), (10, 768), (-1, 10), (1.5, 10)])
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(VNCController.click, id="click"),
        pytest.param(VNCController.move, id="move"),
        pytest.param(VNCController.mouse_down, id="press"),
        pytest.param(
            lambda controller, x, y: controller.drag_and_drop(1, 1, x, y), id="drag"
        ),
    ],
)
def test_point_off_screen_raises_action_error(
    desktop: VncServer,
    connected: Connect,
    act: Callable[..., object],
    point: tuple[float, float],
) -> None:
    controller = connected(desktop)
    with pytest.raises(
        ActionError, match="1024 x 768 pixels: x from 0 to 1023, y from 0 to 767"
    ):
        act(controller, *point)


@pytest.mark.parametrize(
    ("button", "name"),
    [(1, "left"), (2, "middle"), (3, "right"), ("middle", "middle")],
)
def test_button_may_be_number(button: int | str, name: str) -> None:
    assert button_of(button) == name


@pytest.mark.parametrize(
    ("arguments", "scroll"),
    [
        ((10, 20, "up", 5, "wheel", None), Scroll(10, 20, "up", 5)),
        ((10, 20, "up", 3, "keys", 250), Scroll(10, 20, "up", 2, "keys")),
        (("down", None, None, 3, "wheel", 800), Scroll(720, 450, "down", 8)),
        ((None, None, "left", 3, "wheel", 10), Scroll(720, 450, "left", 1)),
        (("down", None, None, 3, "wheel", None), Scroll(720, 450, "down", 8)),
    ],
)
def test_scroll_may_be_pixels(arguments: Any, scroll: Scroll) -> None:
    assert scroll_of(*arguments, (1440, 900)) == scroll


def test_controller_without_connection_raises() -> None:
    controller = VNCController()
    with pytest.raises(
        DesktopError, match=r"not connected. Call connect\(server, password\) first"
    ):
        controller.click(1, 2)
    with pytest.raises(DesktopRefused):
        controller.connect("127.0.0.1::1", timeout_s=2.0)
    controller.close()
