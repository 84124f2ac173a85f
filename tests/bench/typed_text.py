"""1,000 characters typed into real programs, and received: two tables in Markdown. Run as a script:

    python tests/bench/run.py typed_text

First mixed Unicode on TigerVNC, against vncdotool's `keyPress`, called once a character with the pause that its own
`vncdo type` makes. Our time counts until the program has all of it; theirs until the last call returns. Of what did not
arrive exactly, told is how much is in order. Then ASCII, on the other servers.
"""

from __future__ import annotations

import difflib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

from peers import vncdotool_client
from ratios import head, machine, row

from pytest_vnc_use.backends.vnc import connect
from support import vnc_servers
from support.stages.qemu import qemu
from support.stages.stage import Wish
from support.vnc_servers import VncServer
from support.witness_programs import Witness, chromium_page, openbox, witness_on_qt, witness_on_x, xterm

LENGTH = 1000
_LATIN = 'The quick Fox ~!@#$%^&*()_+{}|:"<>? Grüße, naïve ñandú, e\u0301 n\u0303; '
_OTHERS = "Ωραία; Съешь ещё; 日本語 한국어; 😀 👍🏽 👩\u200d💻; "
MIXED = ((_LATIN + _OTHERS) * LENGTH)[:LENGTH]
ASCII = ("".join(map(chr, range(0x20, 0x7F))) * LENGTH)[:LENGTH]
PAUSE_S = 0.01
"""The default of `vncdo --delay`; programs around `keyPress` mostly pause for 0.03 to 0.1 s."""
FIELD = (100, 20)

Received = Callable[[], str]
Field = tuple[VncServer, Received]


def main() -> None:
    print(f"{machine()}, {LENGTH} characters, n = 1\n")
    theirs = f"`keyPress` + {PAUSE_S * 1000:.0f} ms each"
    print(head("mixed Unicode on TigerVNC", "received", "s", theirs, "received"))
    for name, field in ON_TIGERVNC.items():
        print(row(name, *compared(field)), flush=True)
    print(f"\n{head('ASCII', 'received', 's')}")
    for name, field in ELSEWHERE.items():
        with field() as (server, received):
            spent_s, arrived = typed(server, received, ASCII)
        print(row(name, exactness(arrived, ASCII), f"{spent_s:.2f}"), flush=True)


def compared(field: Callable[[], AbstractContextManager[Field]]) -> Sequence[str]:
    with field() as (server, received):
        spent_s, arrived = typed(server, received, MIXED)
    with field() as (server, received):
        theirs_s = pressed_one_by_one(server, MIXED)
        their = exactness(at_rest(received), MIXED)
    return exactness(arrived, MIXED), f"{spent_s:.2f}", f"{theirs_s:.1f} ({theirs_s / spent_s:.0f}×)", their


def typed(server: VncServer, received: Received, text: str) -> tuple[float, str]:
    """Seconds until the program has it all, and what it has in the end."""
    with closing(connect(server.address)) as hands:
        hands.click(*FIELD)
        hands.settle()
        began_s = time.perf_counter()
        hands.type_text(text, press_enter=True)
        spent_s = time.perf_counter() - began_s
        while len(received()) < len(text) and time.perf_counter() < began_s + 60:
            time.sleep(0.005)
            spent_s = time.perf_counter() - began_s
        return spent_s, at_rest(received)


def pressed_one_by_one(server: VncServer, text: str) -> float:
    with vncdotool_client(server.address) as client:
        client.mouseMove(*FIELD)
        client.mousePress(1)
        time.sleep(1)
        began_s = time.perf_counter()
        for character in text:
            client.keyPress(character)
            time.sleep(PAUSE_S)
        client.keyPress("enter")
        return time.perf_counter() - began_s


def at_rest(received: Received) -> str:
    """Return the text that the program has once nothing has come for two seconds."""
    text, since_s = received(), time.perf_counter()
    while time.perf_counter() < since_s + 2:
        time.sleep(0.05)
        if received() != text:
            text, since_s = received(), time.perf_counter()
    return text


def exactness(arrived: str, text: str) -> str:
    if arrived.rstrip("\n") == text.rstrip("\n"):
        return "all, exactly"
    alike = difflib.SequenceMatcher(None, text, arrived, autojunk=False).get_matching_blocks()
    return f"{sum(block.size for block in alike)} of {len(text)}"


@contextmanager
def in_xterm(start: vnc_servers.Starter) -> Iterator[Field]:
    with tempfile.TemporaryDirectory() as directory, start() as server, xterm(server, f"cat > {directory}/typed"):
        yield server, (Path(directory) / "typed").read_text


@contextmanager
def in_chromium() -> Iterator[Field]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        vnc_servers.tigervnc() as server,
        openbox(server),
        chromium_page(server, Path(directory)) as page,
    ):
        yield server, lambda: page.last("text") or ""


@contextmanager
def in_qt(witness: Callable[[Path], AbstractContextManager[Witness]]) -> Iterator[Field]:
    with tempfile.TemporaryDirectory() as directory, witness(Path(directory)) as running:
        yield running.server, partial(running.read, "line")


@contextmanager
def witness_on_tigervnc(directory: Path) -> Iterator[Witness]:
    with vnc_servers.tigervnc() as server, witness_on_x(server, directory) as witness:
        yield witness


@contextmanager
def in_a_guest_of_qemu() -> Iterator[Field]:
    with tempfile.TemporaryDirectory() as directory, qemu(Path(directory), Wish()) as stage:
        told = Path(directory) / "typed"
        yield stage.server, lambda: told.read_bytes()[1:].decode("latin-1").replace("\r", "\n")


ON_TIGERVNC: dict[str, Callable[[], AbstractContextManager[Field]]] = {
    "xterm": partial(in_xterm, vnc_servers.tigervnc),
    "Chromium": in_chromium,
    "Qt": partial(in_qt, witness_on_tigervnc),
}
ELSEWHERE: dict[str, Callable[[], AbstractContextManager[Field]]] = {
    "TightVNC, xterm": partial(in_xterm, vnc_servers.tightvnc),
    "x11vnc, xterm": partial(in_xterm, vnc_servers.x11vnc),
    "Qt's own VNC server": partial(in_qt, witness_on_qt),
    "QEMU, text console": in_a_guest_of_qemu,
}

if __name__ == "__main__":
    main()
