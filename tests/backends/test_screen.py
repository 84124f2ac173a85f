"""The screen: what the server shows, when it has settled, what moves on its own, and
what comes and goes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_vnc_use.backends import pixels as pixels_module
from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.backends.screen import (
    MAX_BRIEF,
    MAX_FRAMES,
    MAX_PER_TILE,
    TILE_PX,
    ActionWindow,
    Activity,
    Capture,
    Framebuffer,
    PointerShape,
    SettleRules,
    TransientFrames,
    decide,
    regions,
)
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ConnectionLost
from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.types import Region
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import xterm

Connect = Callable[..., VNCController]


@pytest.mark.parametrize(("at", "covered"), [((1, 1), 9), ((0, 0), 4), ((4, 0), 4)])
def test_pointer_at_edge_is_cut(at: tuple[int, int], covered: int) -> None:
    shape = PointerShape.of(1, 1, 3, 3, b"\x07\x07\x07\0" * 9, b"\xe0" * 3)
    drawn = shape.drawn_on(np.zeros((5, 5), np.uint32), *at)
    assert np.count_nonzero(drawn == 0x070707) == covered


def test_resize_after_release_keeps_no_pixels() -> None:
    screen = Framebuffer()
    screen.resize(64, 48)
    screen.fail(ConnectionLost("it is closed"))
    screen.release()
    screen.resize(640, 480)
    assert not screen.pixels().size
    with pytest.raises(ConnectionLost, match="it is closed"):
        screen.last_capture()


def test_resting_connection_gets_no_changes_until_refresh(
    tigervnc: VncServer, connected: Connect
) -> None:
    resting = connected(tigervnc)
    watching = connected(tigervnc)
    resting.rest()
    tigervnc.paint(5)  # the server still owes an answer to the last request
    wait_for(lambda: resting.screen.changed_at > 0, "the last answer")
    answered_at = resting.screen.changed_at
    before = watching.raw_frame()
    tigervnc.paint(9)
    assert watching.wait_changed(before.taken_at, 10)
    assert resting.screen.changed_at == answered_at
    resting.refresh()
    assert resting.frame() == watching.frame()


def test_screen_is_encoded_again_only_if_it_changes(
    tigervnc: VncServer, connected: Connect
) -> None:
    controller = connected(tigervnc)
    tigervnc.paint(5)
    controller.settle()
    first = controller.frame()
    assert controller.frame().png is first.png
    tigervnc.paint(9)
    assert controller.wait_changed(first.taken_at, 10)
    assert not np.array_equal(pixels_of(controller.frame().png), pixels_of(first.png))


RULES = SettleRules()
WHOLE = np.ones((10, 10), np.bool_)
Change = tuple[int, int, float]


def seen(*changes: Change) -> Activity:
    """Changes of 10 x 10 pixels, each with its corner and its time."""
    activity = Activity(320, 320)
    for x, y, now_s in changes:
        activity.add(x, y, WHOLE, now_s)
    return activity


ACTION = ActionWindow(10.0, 10.0)
LONG = ActionWindow(10.0, 14.0)
PRESSED = ActionWindow(10.0, 10.0, (100, 100))
ENTERED = ActionWindow(10.0, 10.0, entered=True)
BRIEFLY = RULES.shortened()
PATIENT = SettleRules(first_change_s=2.0, stable_s=1.0)
SPINS = [(0, 0, 10.0 + number * 0.05) for number in range(9)]
QUICK = [(0, 0, 10.0 + 0.3 * number / 19) for number in range(20)]
LINE = (10, 100, 10.01)
CARET_BELOW = (10, 120, 10.02)
DECISIONS: list[
    tuple[str, list[Change], ActionWindow, SettleRules, float, str, float]
] = [
    ("first change is awaited", [], ACTION, RULES, 10.1, "nothing_changed", 10.5),
    ("change in a long action", [(0, 0, 11.0)], LONG, RULES, 14.0, "settled", 14.2),
    (
        "quiet after the last change",
        [(0, 0, 10.1), (99, 99, 10.2)],
        ACTION,
        RULES,
        10.2,
        "settled",
        10.4,
    ),
    (
        "change before the action",
        [(0, 0, 9.9)],
        ACTION,
        RULES,
        10.0,
        "nothing_changed",
        10.5,
    ),
    ("animation that began", SPINS, ACTION, RULES, 10.4, "animated", 10.5),
    (
        "answer beside it",
        [(100, 100, 10.1), *SPINS],
        ACTION,
        RULES,
        10.4,
        "animated",
        10.3,
    ),
    ("quick changes", QUICK, ACTION, RULES, 10.3, "settled", 10.5),
    ("pressed button", [(90, 90, 10.02)], PRESSED, RULES, 10.1, "settled", 10.5),
    ("pressed button, late", [(90, 90, 10.4)], PRESSED, RULES, 10.4, "settled", 10.6),
    (
        "its answer",
        [(90, 90, 10.02), (90, 200, 10.03)],
        PRESSED,
        RULES,
        10.1,
        "settled",
        10.23,
    ),
    ("entered line", [LINE, CARET_BELOW], ENTERED, RULES, 10.1, "settled", 10.5),
    (
        "answer below the line",
        [LINE, (200, 250, 10.3)],
        ENTERED,
        RULES,
        10.3,
        "settled",
        10.5,
    ),
    ("brief wait for a change", [], ACTION, BRIEFLY, 10.0, "nothing_changed", 10.3),
    ("quiet by a setting", [(0, 0, 10.5)], ACTION, PATIENT, 10.5, "settled", 11.5),
]


@pytest.mark.parametrize(
    ("changes", "window", "rules", "now_s", "reason", "at_s"),
    [pytest.param(*row, id=name) for name, *row in DECISIONS],
)
def test_decide_gives_reason_and_time(
    changes: list[Any],
    window: Any,
    rules: SettleRules,
    now_s: float,
    reason: str,
    at_s: float,
) -> None:
    decision = decide(seen(*changes), window, rules, now_s)
    assert decision == (reason, pytest.approx(at_s))


def test_known_motion_is_no_answer() -> None:
    activity = seen(*SPINS)
    activity.learn(10.5)
    activity.restart()
    activity.add(0, 0, WHOLE, 10.6)
    assert decide(activity, ActionWindow(10.5, 10.5), RULES, 10.6) == (
        "nothing_changed",
        pytest.approx(11.0),
    )
    activity.add(10, 290, WHOLE, 10.6)  # an entered line is none either
    assert decide(activity, ActionWindow(10.5, 10.5, entered=True), RULES, 10.6)[
        1
    ] == pytest.approx(11.0)
    activity.add(100, 100, WHOLE, 10.6)
    assert decide(activity, ActionWindow(10.5, 10.5), RULES, 10.6)[0] == "animated"


@pytest.mark.parametrize("interval_s", [0.5, 1.0])
def test_caret_or_clock_is_known_after_four_changes(interval_s: float) -> None:
    ticks = [(0, 0, 10.0 + interval_s * number) for number in range(4)]
    assert not seen(*ticks[:3]).moving(ticks[2][2]).any()
    assert seen(*ticks).moving(ticks[3][2])[0, 0]


def test_text_beside_caret_is_no_blink() -> None:
    activity = Activity(320, 320)
    caret = np.ones((18, 1), np.bool_)
    for number in range(5):
        activity.add(4, 4, caret, 10.0 + number * 0.5)
    activity.learn(12.1)
    activity.restart()
    activity.add(4, 4, WHOLE, 12.2)
    assert decide(activity, ActionWindow(12.1, 12.1), RULES, 12.2)[0] == "settled"


@pytest.fixture
def answering(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> Iterator[VNCController]:
    """An xterm that answers a line half a second after its Enter, by a file of that
    name and a new screen.
    """
    # it never scrolls
    answer = (
        r"sleep 0.5; touch $line; printf '\033[H\033[2J'; n=$((n + 20)); seq $n $((n +"
        r" 13))"
    )
    controller = connected(
        tigervnc, settle_rules=SettleRules(first_change_s=10.0, limit_s=30.0)
    )
    # If the pointer is there before the window, its tiles change with the first Enter,
    # which counts as an answer.
    controller.move(900, 700)
    with xterm(tigervnc, f"cd {tmp_path}; n=0; while read line; do {answer}; done"):
        controller.click(100, 100)
        yield controller


def test_settle_waits_for_answer_beyond_echo(
    answering: VNCController, tmp_path: Path
) -> None:
    answering.type_text("a", press_enter=True)
    settled = answering.settle()
    # on a busy machine xterm draws the answer in many pieces
    assert settled.reason in ("settled", "animated")
    assert settled.duration_s < 9.0
    assert (tmp_path / "a").exists()


def test_settle_waits_for_answer_to_keypad_enter(
    answering: VNCController, tmp_path: Path
) -> None:
    answering.type_text("a")
    answering.key_combo("kp_enter")
    settled = answering.settle()
    assert settled.reason in ("settled", "animated")
    assert settled.duration_s < 9.0
    assert (tmp_path / "a").exists()


def test_settle_counts_from_enter_after_text(
    tigervnc: VncServer, connected: Connect, tmp_path: Path
) -> None:
    """Enter is struck once the text is shown, and only then can the answer begin."""
    answer = "sleep 1.4; touch answered; seq 14"
    with xterm(tigervnc, f"cd {tmp_path}; read line; {answer}; sleep 60"):
        rules = SettleRules(first_change_s=2.0, stable_s=1.0)
        controller = connected(tigervnc, settle_rules=rules)
        controller.click(100, 100)
        controller.settle()
        controller.type_text("text", press_enter=True)
        controller.settle()
        assert (tmp_path / "answered").exists()


def test_settle_moving_screen_ends_at_limit(
    tigervnc: VncServer, connected: Connect
) -> None:
    with xterm(
        tigervnc, "n=0; while true; do n=$((n+1)); seq $n $((n+30)); sleep 0.1; done"
    ):
        controller = connected(
            tigervnc, settle_rules=SettleRules(stable_s=60, limit_s=0.3)
        )
        controller.move(600, 300)
        settled = controller.settle()
        assert settled.reason == "limit"
        assert 0.25 < settled.duration_s < 60


def test_regions_cover_tiles_within_screen() -> None:
    tiles = np.zeros((3, 4), np.bool_)
    tiles[0, :2] = tiles[1, :2] = tiles[1, 3] = tiles[2, 3] = True
    assert list(regions(tiles, 120, 90)) == [
        Region(0, 0, 64, 64),
        Region(96, 32, 120, 90),
    ]
    assert list(regions(np.ones((3, 4), np.bool_), 120, 90)) == [Region(0, 0, 120, 90)]
    assert list(regions(np.zeros((3, 4), np.bool_), 120, 90)) == []


@pytest.mark.parametrize("size", [(1, 1), (37, 5), (1, 65), (2000, 1300)])
@pytest.mark.parametrize("deflate", [pixels_module.deflate, zlib], ids=["isal", "zlib"])
def test_png_holds_pixels_and_their_checksums(
    deflate: ModuleType, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow does not look at all checksums; other readers do."""
    monkeypatch.setattr(pixels_module, "deflate", deflate)
    pixels = np.random.default_rng(1).integers(0, 2**32, size[::-1], np.uint32)
    png = encode_png(pixels)
    assert np.array_equal(pixels_of(png), pixels & 0xFFFFFF)
    body = png[8 + 25 :]
    (length,) = struct.unpack(">I", body[:4])
    checksum = zlib.crc32(body[4 : 8 + length]).to_bytes(4, "big")
    assert checksum == body[8 + length : 12 + length]
    assert len(zlib.decompress(body[8 : 8 + length])) == size[1] * (size[0] * 3 + 1)


COLUMNS = 20


class Tiles:
    """A screen of 4 x 20 tiles, on which tiles are painted at given times; the colours
    of a tile that have passed.
    """

    def __init__(self, moving: tuple[int, int] | None = None) -> None:
        self.passed = TransientFrames()
        self.pixels = np.zeros((4 * TILE_PX, COLUMNS * TILE_PX), np.uint32)
        self.last_s = np.zeros((4, COLUMNS))
        self.moving = np.zeros((4, COLUMNS), np.bool_)
        if moving:
            self.moving[moving] = True
        self.look(10.0)

    def look(self, now_s: float) -> None:
        self.passed.look(
            Capture(self.pixels.copy(), now_s, self.last_s > 0, self.moving)
        )

    def paint(
        self, now_s: float, colour: int, *tiles: tuple[int, int], size_px: int = TILE_PX
    ) -> None:
        drawn = np.zeros((4, COLUMNS), np.bool_)
        for row, column in tiles:
            drawn[row, column] = True
        drawing = self.passed.before_drawing(
            drawn, self.pixels, self.last_s, self.moving, now_s
        )
        for row, column in tiles:
            top = row * TILE_PX
            left = column * TILE_PX
            self.pixels[top : top + size_px, left : left + size_px] = colour
        self.last_s[drawn] = now_s
        self.passed.after_drawing(drawing, self.pixels, drawn)


def test_toast_is_kept_once_beside_changing_region() -> None:
    screen = Tiles()
    screen.paint(10.1, 7, (0, 18), (0, 19))
    for tick in range(12):
        screen.paint(10.1 + tick * 0.03, tick, (2, 2), (2, 3))
    screen.paint(10.46, 0, (0, 18), (0, 19))
    screen.paint(10.5, 8, (3, 3))  # it is still there
    (toast,) = screen.passed.take()
    assert toast.taken_at == 10.46
    assert (toast.pixels[:TILE_PX, 18 * TILE_PX :] == 7).all()
    assert not screen.passed.take()


def test_toast_that_is_painted_late_is_kept() -> None:
    screen = Tiles()
    screen.paint(10.1, 7, (0, 18), (0, 19))
    screen.paint(10.11, 5, (2, 2))
    screen.paint(10.12, 6, (2, 2))
    screen.paint(10.13, 0, (0, 18), (0, 19))
    (toast,) = screen.passed.take()
    assert toast.taken_at == 10.13
    assert (toast.pixels[:TILE_PX, 18 * TILE_PX :] == 7).all()


def slide(screen: Tiles, from_s: float, colours: Sequence[int]) -> None:
    """Have something pass all tiles of a row, which shows each of these colours."""
    for column in range(COLUMNS):
        for frame, colour in enumerate((*colours, 0)):
            at_s = from_s + 0.01 * (column + frame)
            screen.paint(at_s, colour, (1, column))


def test_what_slides_across_is_no_transient() -> None:
    screen = Tiles()
    slide(screen, 10.1, [5, 6])
    assert not screen.passed.take()


def test_brief_frames_do_not_displace_toast() -> None:
    screen = Tiles()
    screen.paint(10.1, 7, (0, 18), (0, 19))
    screen.paint(10.4, 0, (0, 18), (0, 19))
    slide(screen, 10.5, [5])
    kept = screen.passed.take()
    assert len(kept) == 1 + MAX_BRIEF
    assert int(kept[0].pixels.max()) == 7


EVERY_TILE = list(product(range(4), range(COLUMNS)))


@pytest.mark.parametrize(
    ("is_known", "count", "interval_s", "size_px", "tiles"),
    [
        (False, 200, 0.1, TILE_PX, EVERY_TILE),
        (True, 10, 1.0, TILE_PX, [(1, 1)]),
        (False, 10, 0.5, 11, [(1, 1)]),
    ],
    ids=["animation", "known to move", "caret"],
)
def test_moving_region_is_no_transient(
    is_known: bool,
    count: int,
    interval_s: float,
    size_px: int,
    tiles: list[tuple[int, int]],
) -> None:
    screen = Tiles((1, 1) if is_known else None)
    for tick in range(count):
        screen.paint(10.5 + tick * interval_s, tick % 2 or 3, *tiles, size_px=size_px)
    assert not screen.passed.take()


def test_transients_are_limited_in_number() -> None:
    clock = Tiles()
    for tick in range(30):
        clock.paint(11.0 + tick, tick + 1, (1, 1))
    assert [int(seen.pixels.max()) for seen in clock.passed.take()] == [1, 2, 3][
        :MAX_PER_TILE
    ]
    screen = Tiles()
    for tick in range(COLUMNS):
        screen.paint(11.0 + tick, tick + 1, (0, tick))
        screen.paint(11.5 + tick, 0, (0, tick))
    kept = screen.passed.take()
    assert [int(seen.pixels.max()) for seen in kept] == list(
        range(COLUMNS + 1 - MAX_FRAMES, COLUMNS + 1)
    )
