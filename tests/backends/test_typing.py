"""Text arrives as it was given, or is refused before anything is typed; proven by the program that got it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import ActionError, SettingsError
from pytest_vnc_use.types import Move, TypeText
from support.slow_link import slow_link
from support.stages.qemu import qemu
from support.stages.stage import Wish
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import Page, assert_becomes, openbox, witness_on_qt, witness_on_x, xterm

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]
ASCII = "".join(map(chr, range(0x20, 0x7F)))
LATIN_1 = "".join(map(chr, range(0xA1, 0x100))).replace("\xad", "")
TEXTS = {
    "ascii": ASCII,
    "latin": "Grüße, naïve café, Ærøskøbing",
    "greek": "Ωραία Ελλάδα",
    "cyrillic": "Съешь ещё этих мягких булок",
    "cjk": "日本語 漢字 한국어",
    "right to left": "שלום עולם, مرحبا بالعالم",
    "emoji": "😀 👍🏽 👩‍💻",
    "combining": "e\u0301 a\u0308 n\u0303",
    "many": "".join(map(chr, range(0x4E00, 0x4E00 + 300))),
}


@pytest.fixture(params=TEXTS)
def text(request: pytest.FixtureRequest) -> str:
    return TEXTS[request.param]


def test_xterm_on_tigervnc(tigervnc: VncServer, connected: Connect, tmp_path: Path, text: str) -> None:
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        hands.type_text(text, press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, text + "\n")


@pytest.mark.browser
def test_chromium_on_tigervnc(desktop: VncServer, chromium: Page, connected: Connect, text: str) -> None:
    hands = connected(desktop)
    hands.click(100, 20)
    hands.type_text(text, clear_first=True)
    assert_becomes(lambda: chromium.last("text"), text)


def test_lines_in_chromium(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    hands = connected(desktop)
    hands.click(100, 100)
    hands.type_text("first Ω\nsecond\n日\nfourth", clear_first=True)
    assert_becomes(lambda: chromium.last("lines"), "first Ω\nsecond\n日\nfourth")


def test_qt_as_an_x_client(tigervnc: VncServer, connected: Connect, tmp_path: Path, text: str) -> None:
    with witness_on_x(tigervnc, tmp_path) as witness:
        hands = connected(tigervnc)
        hands.click(100, 20)
        hands.type_text(text)
        witness.expect("line", text)


def test_pasting_where_nobody_takes_it(tigervnc: VncServer, connected: Connect) -> None:
    with pytest.raises(ActionError, match="no program fetched the text"):
        connected(tigervnc).type_text("Ω")


@pytest.mark.parametrize(
    "act",
    [
        lambda hands: hands.type_text("no \ud83d", press_enter=True, clear_first=True),
        lambda hands: hands.type_text("no \udcff"),  # as variables hold bytes that are no UTF-8
        lambda hands: hands.key_combo("\ud83d"),
        lambda hands: hands.key_combo(["ctrl", "\ud83d"]),
        lambda hands: hands.key_down("\ud83d"),
        lambda hands: hands.open_address("no \ud83d"),
    ],
)
def test_half_surrogate_pair_types_nothing_keeps_connection(
    tigervnc: VncServer, connected: Connect, tmp_path: Path, act: Callable[[VNCController], None]
) -> None:
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        with pytest.raises(ActionError, match=r"'\\ud83d'|'\\udcff' \(U\+DCFF\)"):
            act(hands)
        hands.type_text("hi", press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, "hi\n")


@pytest.mark.slow
def test_pasting_where_nobody_shows_it(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    """As where a clipboard's history fetches it, and no text field."""
    with xterm(tigervnc, f"stty -echo; cat > {tmp_path}/typed"):
        wait_for((tmp_path / "typed").exists, "the end of the echo")
        hands = connected(tigervnc)
        hands.click(50, 50)
        hands.settle()
        with pytest.raises(ActionError, match=r"no pixel changed within 4.0 s; is a text field focused\?"):
            hands.type_text("Ω")


@pytest.mark.parametrize("text", [ASCII, LATIN_1])
def test_qts_own_server_takes_latin_1(connected: Connect, tmp_path: Path, text: str) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.click(100, 20)
        hands.type_text(text)
        witness.expect("line", text)


def test_qts_own_server_gets_no_more_than_that(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        with pytest.raises(ActionError, match=r"'Ω€' \(U\+03A9, U\+20AC\). Nothing was typed"):
            hands.type_text("costs Ω or €")
        hands.type_text("b")
        witness.expect("line", "b")


def test_clearing(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.type_text("before")
        hands.type_text("after", clear_first=True)
        witness.expect("line", "after")
        hands.type_text("", clear_first=True)
        witness.expect("line", "")


def test_lines_are_keys(connected: Connect, tmp_path: Path) -> None:
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.click(100, 400)
        hands.type_text("one\ntwo\r\nthree", press_enter=True)
        witness.expect("page", "one\ntwo\nthree\n")


def test_tabs_are_keys(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        hands.type_text("\tone\tΩ\ttwo\n")
        assert_becomes((tmp_path / "typed").read_text, "\tone\tΩ\ttwo\n")


def test_tightvnc_takes_latin_1(tightvnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    with xterm(tightvnc, f"cat > {tmp_path}/typed"):
        hands = connected(tightvnc)
        hands.click(50, 50)
        hands.type_text(ASCII, press_enter=True)
        hands.type_text(LATIN_1, press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, f"{ASCII}\n{LATIN_1}\n")
        with pytest.raises(ActionError, match=r"'日' \(U\+65E5\). Nothing was typed"):
            hands.type_text("日")


def test_x11vnc_takes_ascii(x11vnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    with xterm(x11vnc, f"cat > {tmp_path}/typed"):
        hands = connected(x11vnc)
        hands.click(50, 50)
        hands.type_text(ASCII, press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, f"{ASCII}\n")
        with pytest.raises(ActionError, match=r"'é' \(U\+00E9\). Nothing was typed"):
            hands.type_text("café")


@pytest.mark.slow
def test_a_long_text_arrives_whole(x_desktop: VncServer, connected: Connect, tmp_path: Path) -> None:
    text = "The quick brown Fox jumps over the lazy Dog!\n" * 60
    with xterm(x_desktop, f"cat > {tmp_path}/typed"):
        hands = connected(x_desktop)
        hands.click(50, 50)
        hands.type_text(text)
        assert_becomes((tmp_path / "typed").read_text, text)


@pytest.mark.slow
def test_a_long_text_over_a_slow_link(tigervnc: VncServer, tmp_path: Path) -> None:
    text = f"{ASCII}\nΩραία, Grüße\n" * 5
    with (
        xterm(tigervnc, f"cat > {tmp_path}/typed"),
        slow_link(tigervnc.address, delay_s=0.05, bits_a_second=1e6) as link,
        closing(connect(link.address)) as hands,
    ):
        hands.click(50, 50)
        hands.type_text(text)
        assert_becomes((tmp_path / "typed").read_text, text)


def test_a_long_text_in_chromium(desktop: VncServer, chromium: Page, connected: Connect) -> None:
    text = "The quick brown Fox jumps over the lazy Dog!\n" * 4
    hands = connected(desktop)
    hands.click(100, 100)
    hands.type_text(text, clear_first=True)
    assert_becomes(lambda: chromium.last("lines"), text, timeout_s=30)


def test_a_long_text_on_qts_own_server(connected: Connect, tmp_path: Path) -> None:
    text = "The quick brown Fox jumps over the lazy Dog!\n" * 20
    with witness_on_qt(tmp_path) as witness:
        hands = connected(witness.server)
        hands.click(100, 400)
        hands.type_text(text)
        witness.expect("page", text)


@pytest.mark.parametrize("layout", ["de", "fr"])
def test_another_layout_than_that_of_the_us(
    tigervnc: VncServer, connected: Connect, tmp_path: Path, layout: str
) -> None:
    tigervnc.output_of("setxkbmap", layout)
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc)
        hands.click(50, 50)
        hands.type_text(ASCII, press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, ASCII + "\n")


def test_all_text_by_the_clipboard(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
    """Of a layout without Latin letters TigerVNC takes about 20 of them by keys, and loses the others."""
    tigervnc.output_of("setxkbmap", "ru")
    with xterm(tigervnc, f"cat > {tmp_path}/typed"):
        hands = connected(tigervnc, type_by="clipboard")
        hands.click(50, 50)
        hands.type_text(f"{ASCII}\n\tΩ {ASCII}", press_enter=True)
        assert_becomes((tmp_path / "typed").read_text, f"{ASCII}\n\tΩ {ASCII}\n")


def test_a_server_without_a_clipboard_to_type_by(x11vnc: VncServer, connected: Connect) -> None:
    with pytest.raises(SettingsError, match="this VNC server has no extended clipboard"):
        connected(x11vnc, type_by="clipboard")


def test_keys_do_not_overtake_a_click(tigervnc: VncServer, connected: Connect, tmp_path: Path) -> None:
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
@pytest.mark.desktop
def test_the_last_keys_of_a_connection_arrive_while_the_screen_is_busy(tigervnc: VncServer, tmp_path: Path) -> None:
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
def test_a_text_longer_than_the_queue_of_keys(connected: Connect, tmp_path: Path) -> None:
    """QEMU takes a key event every 10 ms, queues about 340 and drops the rest."""
    text = "".join(map(chr, range(0x20, 0x7F))) + "the quick brown fox jumps over the lazy dog"
    with qemu(tmp_path, Wish()) as stage:
        hands = connected(stage.server)
        hands.type_text(text)
        assert_becomes(stage.heard, [f"key {character!r}" for character in text])
        with pytest.raises(ActionError, match=r"'é' \(U\+00E9\). Nothing was typed"):
            hands.type_text("café")
