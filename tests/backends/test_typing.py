"""Text arrives as it was given, or is refused before anything is typed; proven by the program that got it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import ActionError, SettingsError
from pytest_vnc_use.types import Move, TypeText
from support import vnc_servers
from support.slow_link import slow_link
from support.stages.qemu import qemu
from support.stages.stage import Wish
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import Page, assert_becomes, openbox, witness_on_qt, witness_on_x, xterm

pytestmark = pytest.mark.desktop

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
IN_XTERM: list[tuple[str, str, str, str]] = [
    ("tigervnc", "", "\n".join(TEXTS) + "\n\tone\tΩ\ttwo\n" + LONG, ""),
    *(("tigervnc", layout, f"{ASCII}\n{SPECIAL}\n@{{}}\\~", "") for layout in ("us", "de", "fr", "de,ru")),
    ("tightvnc", "", f"{ASCII}\n{LATIN_1}\n{LONG}", "日"),
    ("x11vnc", "", f"{ASCII}\n{LONG}", "café"),
]
"""Server, keyboard layout, text, and a text that the server cannot take."""


@pytest.mark.parametrize(("kind", "layout", "text", "untypable"), IN_XTERM)
def test_text_arrives_in_xterm(
    kind: str, layout: str, text: str, untypable: str, connected: Connect, tmp_path: Path
) -> None:
    with vnc_servers.STARTERS[kind]() as server:
        if layout:
            server.output_of("setxkbmap", layout)
        with xterm(server, f"cat > {tmp_path}/typed"):
            hands = connected(server)
            hands.click(50, 50)
            hands.type_text(text, press_enter=True)
            if untypable:
                with pytest.raises(ActionError, match=r"U\+.*Nothing was typed"):
                    hands.type_text(untypable)
            assert_becomes((tmp_path / "typed").read_text, f"{text}\n")


def test_text_arrives_in_chromium(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    hands = connected(desktop)
    hands.click(100, 20)
    for text in TEXTS:
        hands.type_text(text, clear_first=True)
        assert_becomes(lambda text=text: chromium.last("text"), text)  # type: ignore[misc]
    hands.click(100, 100)
    for lines in ("first Ω\nsecond\n日\nfourth", LONG[:180]):
        hands.type_text(lines, clear_first=True)
        assert_becomes(lambda: chromium.last("lines"), lines, timeout_s=30)


def test_text_arrives_in_qt_as_x_client(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    with witness_on_x(tigervnc, tmp_path) as witness:
        hands = connected(tigervnc)
        hands.click(100, 20)
        for text in TEXTS:
            hands.type_text(text, clear_first=True)
            witness.expect("line", text)


def test_qt_server_takes_latin_1_and_lines(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.click(100, 20)
        for text in (ASCII, LATIN_1, ""):
            hands.type_text(text, clear_first=True)
            witness.expect("line", text)
        with pytest.raises(ActionError, match=r"'Ω€' \(U\+03A9, U\+20AC\). Nothing was typed"):
            hands.type_text("costs Ω or €")
        hands.type_text("b")
        witness.expect("line", "b")
        hands.click(100, 400)
        hands.type_text(f"one\ntwo\r\nthree\n{LONG[:900]}", press_enter=True)
        witness.expect("page", f"one\ntwo\nthree\n{LONG[:900]}\n")


def test_half_surrogate_pair_types_nothing_keeps_connection(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    acts: tuple[Callable[[VNCController], None], ...] = (
        lambda hands: hands.type_text("no \ud83d", press_enter=True, clear_first=True),
        lambda hands: hands.type_text("no \udcff"),  # as variables hold bytes that are no UTF-8
        lambda hands: hands.key_combo("\ud83d"),
        lambda hands: hands.key_combo(["ctrl", "\ud83d"]),
        lambda hands: hands.key_down("\ud83d"),
        lambda hands: hands.open_address("no \ud83d"),
    )
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        for act in acts:
            with pytest.raises(ActionError, match=r"'\\ud83d'|'\\udcff' \(U\+DCFF\)"):
                act(hands)
        hands.type_text("hi", press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, "hi\n")


@pytest.mark.slow
def test_pasted_text_that_changes_nothing_is_reported(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    """As where a clipboard's history fetches it, and no text field."""
    with pytest.raises(ActionError, match="no program fetched the text"):
        connected(tigervnc).type_text("Ω")
    with xterm(tigervnc, f"stty -echo; cat > {tmp_path}/typed"):
        wait_for((tmp_path / "typed").exists, "the end of the echo")
        hands = connected(tigervnc)
        hands.click(50, 50)
        hands.settle()
        with pytest.raises(ActionError, match=r"no pixel changed within 4.0 s; is a text field focused\?"):
            hands.type_text("Ω")


@pytest.mark.slow
def test_long_text_over_slow_link(tigervnc: VncServer, tmp_path: Path) -> None:
    text = f"{ASCII}\nΩραία, Grüße\n" * 5
    with (
        xterm(tigervnc, f"cat > {tmp_path}/typed"),
        slow_link(tigervnc.address, delay_s=0.05, bits_a_second=1e6) as link,
        closing(connect(link.address)) as hands,
    ):
        hands.click(50, 50)
        hands.type_text(text)
        assert_becomes((tmp_path / "typed").read_text, text)


def test_all_text_by_clipboard(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    """Of a layout without Latin letters TigerVNC takes about 20 of them by keys, and loses the others."""
    tigervnc.output_of("setxkbmap", "ru")
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc, type_by="clipboard")
        hands.click(50, 50)
        hands.type_text(f"{ASCII}\n\tΩ {ASCII}", press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, f"{ASCII}\n\tΩ {ASCII}\n")


def test_paste_goes_by_ctrl_v(
    desktop: VncServer, chromium: Page, tigervnc: VncServer, x11vnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    """Browsers take it, terminals do not; it is typed on a server without a clipboard for any script."""
    hands = connected(desktop)
    hands.click(100, 100)
    hands.perform(TypeText("old", clear_first=True))
    hands.perform(TypeText("two\nlines Ω", clear_first=True, paste=True))
    assert_becomes(lambda: chromium.last("lines"), "two\nlines Ω")
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        with pytest.raises(ActionError, match=r"no program fetched .* after ctrl\+v"):
            hands.perform(TypeText("x", paste=True))
    with xterm(x11vnc, f"cat > {tmp_path}/there"):
        hands = connected(x11vnc)
        hands.click(50, 50)
        hands.perform(TypeText("typed", press_enter=True, paste=True))
        assert_becomes((tmp_path / "there").read_text, "typed\n")


def test_server_without_clipboard_to_type_by(x11vnc: VncServer, connected: Connect) -> None:
    with pytest.raises(SettingsError, match="this VNC server has no extended clipboard"):
        connected(x11vnc, type_by="clipboard")


def test_keys_do_not_overtake_click(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    """openbox grabs and replays the click that gives a window the focus; keys at its heels would go to the other."""
    left, right = tmp_path / "left", tmp_path / "right"
    with (
        openbox(tigervnc),
        xterm(tigervnc, f"cat > {left}", "left", "40x10+0+100"),
        xterm(tigervnc, f"cat > {right}", "right", "40x10+500+100"),
    ):
        hands = connected(tigervnc)
        hands.settle()
        for _ in range(8):
            hands.perform(TypeText("left", 100, 180, press_enter=True))
            hands.click(600, 180)
            hands.type_text("right", press_enter=True)
        assert_becomes(left.read_text, "left\n" * 8)
        assert_becomes(right.read_text, "right\n" * 8)


@pytest.mark.slow
def test_last_keys_arrive_on_busy_screen(tigervnc: VncServer, tmp_path: Path) -> None:
    """A socket that is closed while the server still writes is reset, and what it has not read yet is lost."""
    typed, busy = tmp_path / "typed", "while :; do head -c 4000 /dev/urandom | od -c >/dev/tty; done"
    lines = [f"line {number}" for number in range(60)]
    with xterm(tigervnc, f"(exec 3<&0; {busy}) & cat >{typed}"):
        wait_for(typed.exists, "the start of the program")
        for line in lines:
            with closing(connect(tigervnc.address)) as hands:
                hands.perform(Move(100, 100))
                hands.perform(TypeText(line, press_enter=True))
        wait_for(lambda: lines[-1] in typed.read_text(), "the arrival of the last line", 10)
    assert typed.read_text().splitlines() == lines


@pytest.mark.slow
def test_text_longer_than_queue_of_keys(connected: Connect, tmp_path: Path) -> None:
    """QEMU takes a key event every 10 ms, queues about 340 and drops the rest."""
    text = "".join(map(chr, range(0x20, 0x7F))) + "the quick brown fox jumps over the lazy dog"
    with qemu(tmp_path, Wish()) as stage:
        hands = connected(stage.server)
        hands.type_text(text)
        assert_becomes(stage.heard, [f"key {character!r}" for character in text])
        with pytest.raises(ActionError, match=r"'é' \(U\+00E9\). Nothing was typed"):
            hands.type_text("café")
