"""The live screen: the pixels as the server last sent them, and where callers wait for
the server.

The reactor's thread writes; the caller's thread reads and waits. One condition guards
all of it. When a screen is settled after an action follows from a record of its changes
per tile of 32 x 32 pixels, and from rules.

Transient frames are screens shown briefly between two looks, such as a toast, a splash,
"loading …". A screen is kept if one of its tiles has shown the same for `SHOWN_S` and
is now drawn over. So spinners, videos and transitions are not kept, however long they
last. A screen is also kept if one of its tiles, changed once, then shows again what it
showed at the look before: a toast that a busy machine paints late and removes in time.
Carets and clocks are kept a few times: each tile counts only `MAX_PER_TILE` times.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import (
    COLOUR_BITS,
    Pixels,
    Rectangle,
    box_of,
    encode_png,
)
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.same_screen import within_caret
from pytest_vnc_use.types import (
    Frame,
    FrameRef,
    RawFrame,
    Region,
    Settled,
    SettledReason,
)

Tiles = npt.NDArray[np.bool_]

TILE_PX = 32
REST_S = 1.5
"""A tile without a change for this time is stable; a clock that ticks each second is
not.
"""
_BUTTON_PX = (160, 32)
"""The distance from the clicked pixel, across and down, within which a button shows
that it was clicked.
"""
_LINE_TILES = 3
"""The maximum rows of tiles that a line of text touches, with the caret or a prompt
below it.
"""
_MAX_SIZE_RATIO = 4
"""A change of more than this many times the pixels of earlier ones is of another kind:
text beside a caret.
"""
_SIZE_HALVES_S = 3.0
_RHYTHMS = (6, 0.4), (4, 1.0)
"""The numbers of changes, and the seconds that these take at least, by which a tile is
known as moving.

The first is that of spinners and videos; CSS transitions mostly end sooner. The second
is that of clocks and carets: a blink takes 500 ms in chromium, 300 and 600 in xterm.
"""


class Activity:
    """The counts and times of changes per tile.

    `last_s` is the time of each tile's last change. All times are in seconds on one
    monotonic clock.

    A tile is dynamic while it changes in one of `_RHYTHMS`, and is never stable for
    `REST_S`. Changes count from `restart` on. A tile that moved when `learn` was called
    stays known until it is stable or changes differently.
    """

    def __init__(self, width: int, height: int) -> None:
        shape = (-(-height // TILE_PX), -(-width // TILE_PX))
        self._count = np.zeros(shape, np.int64)
        self._first_s = np.zeros(shape)
        self.last_s = np.full(shape, -np.inf)
        self._size = np.zeros(shape)
        self.known = np.zeros(shape, np.bool_)
        """The tiles that moved on their own at the last `learn` and have not stopped
        since.
        """

    def restart(self) -> None:
        """Reset the counts; keep the times of the last changes, and the tiles known to
        move.
        """
        self._count[:] = 0

    def learn(self, now_s: float) -> None:
        """Note that the tiles that move now are dynamic."""
        self.known = self.moving(now_s)

    def add(self, x: int, y: int, changed: Tiles, now_s: float) -> None:
        """Count the tiles under the pixels `changed`, an array of shape (height, width)
        with its corner at (x, y).
        """
        sizes = _sums(_sums(changed.view(np.uint8), y, axis=0), x, axis=1)
        top = y // TILE_PX
        left = x // TILE_PX
        window = np.s_[top : top + sizes.shape[0], left : left + sizes.shape[1]]
        touched = sizes > 0
        self._end_rhythms(window, touched, sizes, now_s)
        self._first_s[window][touched & (self._count[window] == 0)] = now_s
        self.last_s[window][touched] = now_s
        self._count[window] += touched

    def _end_rhythms(
        self, window: Any, touched: Tiles, sizes: npt.NDArray[np.int64], now_s: float
    ) -> None:
        """End the rhythm of tiles that change after a pause, or by far more than
        before; keep the sizes of changes.
        """
        since_s = np.where(touched, now_s - self.last_s[window], 0.0)
        before = self._size[window] * 0.5 ** (since_s / _SIZE_HALVES_S)
        is_larger = touched & (before > 0) & (sizes > _MAX_SIZE_RATIO * before)
        is_new = (since_s > REST_S) | is_larger
        self.known[window][is_new] = False
        self._count[window][is_new] = 0
        # the first change may be an action's effect, so its size is not kept
        is_first = (self._count[window] == 0) & ~self.known[window]
        self._size[window] = np.where(is_first, 0.0, np.maximum(before, sizes))

    def moving(self, now_s: float) -> Tiles:
        """Return the tiles that always change."""
        span_s = self.last_s - self._first_s
        in_rhythm = self.known
        for updates, min_s in _RHYTHMS:
            in_rhythm = in_rhythm | ((self._count >= updates) & (span_s >= min_s))
        moving: Tiles = in_rhythm & (now_s - self.last_s <= REST_S)
        return moving

    def around(self, point: tuple[int, int] | None) -> Tiles:
        """Return the tiles that a button under a pixel may cover; none if there is no
        pixel.
        """
        tiles = np.zeros_like(self.known)
        if point is not None:
            x, y = point
            across, down = _BUTTON_PX
            left = max(0, x - across) // TILE_PX
            right = max(0, x + across) // TILE_PX
            top = max(0, y - down) // TILE_PX
            bottom = max(0, y + down) // TILE_PX
            tiles[top : bottom + 1, left : right + 1] = True
        return tiles

    def line_since(self, time_s: float, except_tiles: Tiles) -> Tiles:
        """Return the tiles that changed from `time_s` on, if they may all be one line
        of text; else none.
        """
        tiles: Tiles = (self.last_s >= time_s) & ~except_tiles
        rows = np.flatnonzero(tiles.any(axis=1))
        is_line = rows.size and np.ptp(rows) < _LINE_TILES
        return tiles if is_line else np.zeros_like(tiles)

    def last_change_s(self, except_tiles: Tiles | np.bool_ = np.False_) -> float:
        """Return when a tile outside `except_tiles` last changed; minus infinity if
        none ever did.
        """
        return float(np.max(self.last_s, where=~except_tiles, initial=-np.inf))


def _sums(counts: npt.NDArray[Any], offset: int, axis: int) -> npt.NDArray[np.int64]:
    """Return the sums per tile along one axis, whose first element is at `offset`."""
    starts = np.arange(-(offset % TILE_PX), counts.shape[axis], TILE_PX).clip(min=0)
    sums: npt.NDArray[np.int64] = np.add.reduceat(
        counts, starts, axis=axis, dtype=np.int64
    )
    return sums


@dataclass(frozen=True)
class SettleRules:
    """The waiting times for a screen, in seconds.

    A first change is awaited until `first_change_s` after the action began, or after a
    button was pressed or released. Then the screen must be stable for `stable_s`; moving
    tiles do not count. A button that only shows its press has not answered yet. Nor has
    a line that only shows the typed text. With `any_change` both are enough. `limit_s`
    limits the whole wait.
    """

    first_change_s: float = 0.5
    stable_s: float = 0.2
    limit_s: float = 5.0
    any_change: bool = False

    def shortened(self) -> SettleRules:
        """Return shorter rules for a screen that the caller continues to watch.

        Of 150 frames these rules missed the end of 39; the watch missed none.
        """
        return replace(
            self, first_change_s=0.6 * self.first_change_s, stable_s=0.5 * self.stable_s
        )


@dataclass(frozen=True)
class ActionWindow:
    """The times when the last action started and finished, on the monotonic clock.

    `clicked` is the pixel that it clicked. `entered` is set if its last key is Enter,
    which sends a line of text or presses a default button.
    """

    started_at: float
    finished_at: float
    clicked: tuple[int, int] | None = None
    entered: bool = False


def decide(
    activity: Activity, mark: ActionWindow, rules: SettleRules, now_s: float
) -> tuple[SettledReason, float]:
    """Return why an unchanging screen counts as settled, and from when on."""
    moving = activity.moving(now_s)
    last_change_s = activity.last_change_s(except_tiles=moving)
    stable_s = max(last_change_s, mark.finished_at) + rules.stable_s
    feedback: Tiles | np.bool_ = np.False_  # such as a pressed button, or typed text
    if mark.entered and not rules.any_change:
        feedback = activity.line_since(mark.started_at, except_tiles=moving)
    elif not rules.any_change:
        feedback = activity.around(mark.clicked)
    if activity.last_change_s(except_tiles=moving | feedback) >= mark.started_at:
        return "animated" if moving.any() else "settled", stable_s
    # A button answers its release, which comes a while after the press.
    began_at = mark.finished_at if mark.clicked else mark.started_at
    until_s = max(stable_s, began_at + rules.first_change_s)
    if last_change_s >= mark.started_at:
        return "animated" if moving.any() else "settled", until_s
    has_new_motion = (moving & ~activity.known).any()
    return "animated" if has_new_motion else "nothing_changed", until_s


SHOWN_S = 0.2
"""The minimum time that counts; text to be read is shown longer."""
MAX_PER_TILE = 3
MAX_FRAMES = 8
MAX_BRIEF = 2
"""The most frames that no tile has shown for `SHOWN_S`: an animation has many."""
MAX_BYTES = 128 << 20

Times = npt.NDArray[np.float64]
"""The time when each tile last changed, on the monotonic clock."""


@dataclass(frozen=True, eq=False)
class PointerShape:
    """The pixels of a pointer, which of them cover the screen, and which one points,
    from the top left.
    """

    pixels: Pixels
    mask: npt.NDArray[np.bool_]
    hot_x: int
    hot_y: int

    @classmethod
    def of(
        cls, hot_x: int, hot_y: int, width: int, height: int, image: bytes, mask: bytes
    ) -> PointerShape:
        """Return the shape in a message: 4 bytes a pixel, and a bit a pixel in rows of
        whole bytes.
        """
        pixels = np.frombuffer(image, "<u4").reshape(height, width)
        rows = np.frombuffer(mask, np.uint8).reshape(height, (width + 7) // 8)
        bits = np.unpackbits(rows, axis=1)[:, :width]
        return cls(pixels, bits.astype(np.bool_), hot_x, hot_y)

    def drawn_on(self, pixels: Pixels, x: int, y: int) -> Pixels:
        """Return a copy of the pixels with the pointer on them, as far as it is on the
        screen; it points at (x, y).
        """
        drawn: Pixels = pixels.copy()
        left = x - self.hot_x
        top = y - self.hot_y
        # how much of the pointer is beyond the left and upper edge of the screen
        cut_left = max(0, -left)
        cut_top = max(0, -top)
        target = drawn[top + cut_top :, left + cut_left :]
        height, width = target.shape
        visible = np.s_[cut_top : cut_top + height, cut_left : cut_left + width]
        mask = self.mask[visible]
        target[: mask.shape[0], : mask.shape[1]][mask] = self.pixels[visible][mask]
        return drawn


@dataclass(frozen=True, eq=False)
class Capture:
    """Pixels that no longer change, with the facts that a Frame holds about them."""

    pixels: Pixels
    taken_at: float
    moving: Tiles
    pointer: tuple[PointerShape, int, int] | None = None

    def frame(
        self,
        *,
        pointer: bool = False,
        encode: Callable[[Pixels], bytes] = encode_png,
    ) -> Frame:
        """Return these pixels as a frame, whose PNG `encode` makes; with `pointer`, draw
        the pointer on it if it is known.
        """
        pixels = self.pixels
        if pointer and self.pointer:
            shape, x, y = self.pointer
            pixels = shape.drawn_on(pixels, x, y)
        png = encode(pixels)
        height, width = self.pixels.shape
        moving = tuple(regions(self.moving, width, height))
        digest = hashlib.sha256(png).hexdigest()
        return Frame(
            FrameRef(digest, width, height), png, self.taken_at, moving, pixels
        )


def regions(tiles: Tiles, width: int, height: int) -> Iterator[Region]:
    """Yield rectangles, within a screen of this size, that cover the marked tiles and
    no others.
    """
    open_runs: dict[tuple[int, int], int] = {}
    for number, row in enumerate(np.pad(tiles, ((0, 1), (1, 1)))):
        edges = np.flatnonzero(row[1:] != row[:-1]).tolist()
        runs = set(zip(edges[::2], edges[1::2], strict=True))
        for left, right in sorted(open_runs.keys() - runs):
            top = open_runs.pop((left, right))
            yield Region(
                left * TILE_PX,
                top * TILE_PX,
                min(right * TILE_PX, width),
                min(number * TILE_PX, height),
            )
        open_runs |= dict.fromkeys(runs - open_runs.keys(), number)


class NewestImage:
    """The PNG of the newest screen: while nothing changes, it is encoded once."""

    def __init__(self) -> None:
        # one attribute: a thread may close the desktop while another one encodes
        self._newest: tuple[Pixels, bytes] | None = None

    def encode(self, pixels: Pixels) -> bytes:
        """Return the PNG of a screen. Nothing may write to its pixels later."""
        newest = self._newest
        if newest is None or not np.array_equal(pixels, newest[0]):
            newest = (pixels, encode_png(pixels))
            self._newest = newest
        return newest[1]

    def forget(self) -> None:
        """Forget the screen, and free its memory."""
        self._newest = None


class Drawing(NamedTuple):
    """An update that draws within a box, in `tiles` and as a `region` of pixels: what
    it showed `before`, at a time; which tiles of the screen moved then; which of those
    that are drawn over had changed since the look, and which of these have shown the
    same for `SHOWN_S`.
    """

    tiles: Region
    region: Region
    before: Pixels
    at_s: float
    moving: Tiles
    changed: Tiles
    stable: Tiles


def differing_tiles(some: Pixels, others: Pixels) -> Tiles:
    """Return which tiles differ in a pixel, in parts of a screen whose corner is a
    tile's.
    """
    differs = ((some ^ others) & COLOUR_BITS) != 0
    return _sums(_sums(differs.view(np.uint8), 0, axis=0), 0, axis=1) > 0


class TransientFrames:
    """The newest transient frames, limited in number and bytes. For one thread at a
    time.
    """

    def __init__(self) -> None:
        self._looked: Capture | None = None
        """The newest look, after which changes count once `take` is called."""
        self._base: Pixels | None = None
        """The screen at the look after which changes count; None before the first, and
        once the screen has another size.
        """
        self._known_s = np.inf
        """The time of that look, or of the newest kept frame that is not brief."""
        self._counts = np.zeros((0, 0), np.int64)
        """How often a frame was kept because of each tile."""
        self._changes = np.zeros((0, 0), np.int64)
        """How many updates have changed each tile since that look."""
        self._kept: list[tuple[Pixels, Capture]] = []
        """The screen of the look before, and the transient frame."""
        self._brief: list[Capture] = []
        """Those of them in which no tile has shown the same for `SHOWN_S`."""

    def look(self, capture: Capture) -> None:
        """Note a look: changes after the first one, and after the newest one before
        `take`, may be transient.
        """
        self._looked = capture
        if self._base is None:
            self._begin()

    def resize(self, tiles: Tiles) -> None:
        """Note that the screen has other tiles; frames that were kept of the old ones
        stay.
        """
        self._base = None
        self._looked = None
        self._counts = np.zeros(tiles.shape, np.int64)
        self._changes = np.zeros(tiles.shape, np.int64)

    def before_drawing(
        self, drawn: Tiles, pixels: Pixels, last_s: Times, moving: Tiles, now_s: float
    ) -> Drawing | None:
        """Return the drawing over the tiles `drawn`, if it may end a transient frame."""
        changed = drawn & (last_s >= self._known_s) & ~moving
        changed &= self._counts < MAX_PER_TILE
        if not changed.any():
            return None
        stable = changed & (last_s <= now_s - SHOWN_S)
        tiles = box_of(drawn)
        left = tiles.left * TILE_PX
        top = tiles.top * TILE_PX
        region = Region(left, top, tiles.right * TILE_PX, tiles.bottom * TILE_PX)
        before = region.part_of(pixels).copy()
        return Drawing(tiles, region, before, now_s, moving, changed, stable)

    def after_drawing(
        self, drawing: Drawing | None, pixels: Pixels, changed: Tiles
    ) -> None:
        """Count the tiles that an update has `changed`. Keep the screen before it as a
        transient frame, if one of the tiles has shown the same for `SHOWN_S`, or has
        changed only twice, and shows again what it showed at the look.
        """
        self._changes += changed
        if drawing is None:
            return
        ended = drawing.stable | self._gone(drawing, pixels)
        if not ended.any():
            return
        self._counts += ended
        screen = pixels.copy()
        drawing.region.part_of(screen)[:] = drawing.before
        capture = Capture(screen, drawing.at_s, drawing.moving)
        if drawing.stable.any():
            self._known_s = drawing.at_s
        else:
            self._brief.append(capture)
        if self._base is None:
            self._base = capture.pixels
        self._kept.append((self._base, capture))
        limit = min(MAX_FRAMES, MAX_BYTES // pixels.nbytes)
        while len(self._brief) > MAX_BRIEF or len(self._kept) > limit:
            self._drop_one()

    def _gone(self, drawing: Drawing, pixels: Pixels) -> Tiles:
        """Return the tiles that have changed to something and back."""
        gone = np.zeros_like(drawing.changed)
        if self._base is None:
            return gone
        looked = drawing.region.part_of(self._base)
        came = differing_tiles(looked, drawing.before)
        stayed = differing_tiles(looked, drawing.region.part_of(pixels))
        drawing.tiles.part_of(gone)[:] = came & ~stayed
        gone &= drawing.changed & (self._changes == 2)
        return gone

    def _drop_one(self) -> None:
        """Drop the oldest brief frame; without one, the oldest."""
        dropped = self._brief.pop(0) if self._brief else self._kept[0][1]
        self._kept = [kept for kept in self._kept if kept[1] is not dropped]

    def take(self) -> tuple[Capture, ...]:
        """Return the transient frames since the last call, oldest first, without those
        where only a caret differs.
        """
        captures: list[Capture] = []
        for base, capture in self._kept:
            differs = ((base ^ capture.pixels) & COLOUR_BITS) != 0
            if not differs.any() or not within_caret(differs):
                captures.append(capture)
        self._kept = []
        self._brief = []
        self._begin()
        return tuple(captures)

    def _begin(self) -> None:
        """Let changes count from the newest look on, if there was a new one."""
        capture = self._looked
        if capture:
            self._looked = None
            self._base = capture.pixels
            self._known_s = capture.taken_at
            self._counts = np.zeros(capture.moving.shape, np.int64)
            self._changes = np.zeros(capture.moving.shape, np.int64)


class Framebuffer:
    """The pixels of a screen, the times of their changes, and the reason why the
    connection ended.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.release()
        self._size = (0, 0)
        self._mark = ActionWindow(0.0, 0.0)
        self._acting = False
        self._error: VncUseError | None = None
        self.pointer_shape: PointerShape | None = None
        """The shape of the pointer; None if the server has not sent it."""
        self.pointer_at: tuple[int, int] | None = None
        """The pixel to which the pointer was sent."""

    def release(self) -> None:
        """Drop the pixels, because others may keep the error of a test, and thereby this
        object. What still comes after `fail` is ignored.
        """
        with self._condition:
            self._complete = False
            self._pixels = np.zeros((0, 0), np.uint32)
            self._missing = np.zeros((0, 0), np.bool_)
            self._activity = Activity(0, 0)
            self._transients = TransientFrames()

    def resize(self, width: int, height: int) -> None:
        """Restart with another size; the screen is incomplete until every pixel has
        been sent once.
        """
        with self._condition:
            if self._error is not None:
                return
            everything = np.ones_like(self._activity.last_s, np.bool_)
            drawing = self._before_drawing(everything)
            if drawing:
                # On a screen of another size no tile can show again what it showed.
                unchanged = np.zeros_like(everything)
                self._transients.after_drawing(drawing, drawing.before, unchanged)
            self._size = (width, height)
            self._pixels = np.zeros((height, width), np.uint32)
            self._missing = np.ones((height, width), np.bool_)
            self._complete = False
            self._activity = Activity(width, height)
            self._transients.resize(self._activity.known)

    def apply(self, rectangles: Sequence[Rectangle]) -> None:
        """Draw one whole update; its rectangles must be on the screen."""
        with self._condition:
            if self._error is not None:
                return
            covered = np.zeros_like(self._activity.last_s, np.bool_)
            for area, _ in rectangles:
                bottom = -(-(area.y + area.height) // TILE_PX)
                right = -(-(area.x + area.width) // TILE_PX)
                covered[area.y // TILE_PX : bottom, area.x // TILE_PX : right] = True
            drawing = self._before_drawing(covered)
            before_s = self._activity.last_s.copy()
            for rectangle in rectangles:
                area = rectangle.area
                target = self._pixels[area.slices]
                new = rectangle.pixels(self._pixels)
                changed = ((target ^ new) & COLOUR_BITS) != 0
                target[:] = new
                self._activity.add(area.x, area.y, changed, clock.monotonic())
                if not self._complete:
                    self._missing[area.slices] = False
            changed_tiles = self._activity.last_s > before_s
            self._transients.after_drawing(drawing, self._pixels, changed_tiles)
            self._complete = self._complete or not self._missing.any()
            self._condition.notify_all()

    def fail(self, error: VncUseError) -> None:
        """Wake every waiter with the reason why nothing more will come; the first
        reason stays.
        """
        with self._condition:
            self._error = self._error or error
            self._condition.notify_all()

    def wake(self) -> None:
        """Let waiters check their condition again."""
        with self._condition:
            self._condition.notify_all()

    def _before_drawing(self, drawn: Tiles) -> Drawing | None:
        if not self._complete:
            return None
        return self._transients.before_drawing(
            drawn,
            self._pixels,
            self._activity.last_s,
            self._moving(),
            clock.monotonic(),
        )

    def _moving(self) -> Tiles:
        return self._activity.moving(clock.monotonic())

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        with self._condition:
            return self._size

    @property
    def is_complete(self) -> bool:
        """Whether every pixel has been sent since the screen got its size."""
        with self._condition:
            return self._complete

    def raise_if_lost(self) -> None:
        """Raise the DesktopError that ended the connection, if one did."""
        if self._error is not None:
            raise self._error

    @property
    def changed_at(self) -> float:
        """The time when a pixel last changed, on the monotonic clock."""
        with self._condition:
            return self._activity.last_change_s()

    def last_capture(self) -> Capture:
        """Return a copy of the pixels as they were last seen, even if the connection
        ended. Raises DesktopError if it was closed.
        """
        with self._condition:
            if not self._pixels.size:
                self.raise_if_lost()
            capture = Capture(
                self._pixels.copy(), clock.monotonic(), self._moving(), self.pointer
            )
            self._transients.look(capture)
            return capture

    def pixels(self, *, pointer: bool = False) -> Pixels:
        """Return a copy of the pixels now, which does not count as a look; with
        `pointer`, draw the pointer on it.
        """
        with self._condition:
            pixels: Pixels = self._pixels.copy()
            drawn = self.pointer if pointer else None
        if not drawn:
            return pixels
        shape, x, y = drawn
        return shape.drawn_on(pixels, x, y)

    def raw_frame(self, *, pointer: bool = False) -> RawFrame:
        """Return the same pixels with the time now."""
        return RawFrame(self.pixels(pointer=pointer))

    def regions_since(self, time_s: float) -> tuple[float, list[tuple[Region, Pixels]]]:
        """Return the time now, and copies of all regions in which a pixel changed from
        `time_s` on.
        """
        with self._condition:
            changed = regions(self._activity.last_s >= time_s, *self.size)
            parts = [(region, self.part(region)) for region in changed]
            return clock.monotonic(), parts

    def part(self, region: Region) -> Pixels:
        """Return a copy of a region of the screen."""
        with self._condition:
            copied: Pixels = region.part_of(self._pixels).copy()
            return copied

    @property
    def pointer(self) -> tuple[PointerShape, int, int] | None:
        """The pointer's shape and the pixel that it points at; None while either is
        unknown.
        """
        shape = self.pointer_shape
        at = self.pointer_at
        return (shape, *at) if shape and at else None

    def transients(self) -> tuple[Capture, ...]:
        """Return the captures of transient frames, oldest first; each is returned
        once.
        """
        with self._condition:
            return self._transients.take()

    def only_colour(self, timeout_s: float) -> str:
        """Return the one colour (`#000000`) that all pixels keep for `timeout_s`; "" as
        soon as there are several.
        """

        def has_several() -> bool:
            first = self._pixels[0, 0]
            # on most screens a few rows are enough to find several
            few = ((self._pixels[::16] ^ first) & COLOUR_BITS).any()
            return bool(few or ((self._pixels ^ first) & COLOUR_BITS).any())

        if self.wait_until(has_several, timeout_s):
            return ""
        return f"#{self._pixels[0, 0] & COLOUR_BITS:06x}"

    def forget(self) -> None:
        """Count every pixel as missing until it is sent again; keep the known pixels,
        to find what changed.
        """
        with self._condition:
            self._missing[:] = True
            self._complete = False

    def wait_until(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Wait at most `timeout_s` until `predicate` is true, and return whether it is.

        Raises the DesktopError that ended the connection.
        """
        # `wait_for` would use a clock that a test may stop
        deadline_s = clock.monotonic() + timeout_s
        with self._condition:
            self.raise_if_lost()
            while not predicate():
                remaining_s = deadline_s - clock.monotonic()
                if remaining_s <= 0:
                    return False
                self._condition.wait(remaining_s)
                self.raise_if_lost()
            return True

    def wait_complete(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until every pixel has been sent once; return whether
        it was. Raises DesktopError.
        """
        return self.wait_until(lambda: self._complete, timeout_s)

    def pause(self, duration_s: float) -> None:
        """Let time pass. Raises DesktopError as soon as the connection ends."""
        self.wait_until(lambda: False, duration_s)

    def mark_connected(self) -> None:
        """Note that no action was performed yet: a program that has just started may
        still draw its first screen.
        """
        with self._condition:
            now_s = clock.monotonic()
            self._mark = ActionWindow(now_s, now_s)

    def mark_started(self) -> None:
        """Note that an action, or a phase of one, starts now: later changes may be its
        effect.
        """
        with self._condition:
            now_s = clock.monotonic()
            if not self._acting:
                self._activity.learn(now_s)
            self._mark = ActionWindow(now_s, now_s)
            self._acting = True

    def mark_finished(
        self,
        *,
        clicked: tuple[int, int] | None = None,
        entered: bool = False,
        only_waited: bool = False,
    ) -> None:
        """Note that the action is performed, with the facts of an ActionWindow; look
        for animation from now on.

        If it was only a wait, tiles that moved meanwhile are dynamic.
        """
        with self._condition:
            self._mark = ActionWindow(
                self._mark.started_at, clock.monotonic(), clicked, entered
            )
            if only_waited:
                self._activity.learn(self._mark.finished_at)
            else:
                self._activity.restart()
            self._acting = False

    def changed_since(self, time_s: float) -> bool:
        """Return whether a pixel changed after `time_s`, outside moving tiles. Raises
        DesktopError.
        """
        with self._condition:
            self.raise_if_lost()
            return self._activity.last_change_s(except_tiles=self._moving()) > time_s

    def wait_changed(self, time_s: float, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until `changed_since` is true, and return whether it
        is.

        Raises DesktopError as soon as the connection ends.
        """
        deadline_s = clock.monotonic() + timeout_s
        with self._condition:
            while not self.changed_since(time_s):
                remaining_s = deadline_s - clock.monotonic()
                if remaining_s <= 0:
                    return False
                # there is no event when something becomes stable
                self._condition.wait(min(remaining_s, REST_S))
            return True

    def wait_drawn(self, time_s: float, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until a pixel changed after `time_s`, also of a
        moving tile; return whether one did.

        Raises DesktopError as soon as the connection ends.
        """
        return self.wait_until(
            lambda: self._activity.last_change_s() > time_s, timeout_s
        )

    def wait_wider(self, before: RawFrame, columns: int, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until the screen differs from `before` in more than
        this number of columns of pixels; return whether it does.

        Raises DesktopError as soon as the connection ends.
        """
        old: Any = before.pixels

        def is_wider() -> bool:
            if old.shape != self._pixels.shape:
                return True
            differs = ((old ^ self._pixels) & COLOUR_BITS) != 0
            return int(differs.any(axis=0).sum()) > columns

        return self.wait_until(is_wider, timeout_s)

    def wait_settled(self, rules: SettleRules) -> Settled:
        """Wait until the screen is settled by `rules`. Raises DesktopError as soon as
        the connection ends.
        """
        started_s = clock.monotonic()
        with self._condition:
            while True:
                self.raise_if_lost()
                now_s = clock.monotonic()
                reason, settled_s = decide(self._activity, self._mark, rules, now_s)
                if now_s >= settled_s:
                    return Settled(reason, now_s - started_s)
                if now_s >= started_s + rules.limit_s:
                    return Settled("limit", now_s - started_s)
                self._condition.wait(min(settled_s, started_s + rules.limit_s) - now_s)
