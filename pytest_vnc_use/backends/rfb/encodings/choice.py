"""The encodings that a server is asked for: raw pixels if the link is fast, else those that save bytes."""

from __future__ import annotations

from collections.abc import Sequence

from vncdotool.const import Encoding

from pytest_vnc_use import clock
from pytest_vnc_use.types import EncodingChoice

_PIXELS: dict[EncodingChoice, Sequence[Encoding]] = {
    "raw": [Encoding.RAW],
    "zrle": [Encoding.COPY_RECTANGLE, Encoding.ZRLE, Encoding.RAW],
    "tight": [Encoding.COPY_RECTANGLE, Encoding.TIGHT, Encoding.ZRLE, Encoding.RAW],
}
_PSEUDO = (
    Encoding.PSEUDO_CURSOR,  # keeps the pointer out of the frame
    Encoding.PSEUDO_DESKTOP_SIZE,
    Encoding.PSEUDO_EXTENDED_CLIPBOARD,
    Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT,
)  # no LastRect: it makes TigerVNC hunt for solid rectangles, 2.4 times slower; no quality: it allows lossy pixels;
# no ContinuousUpdates: a request is always outstanding, so over a link of 20 ms ten changes in 100 ms come no sooner
_FAST_BYTES_A_SECOND = 15e6
"""Measured on TigerVNC: on a slower link a whole screen arrives sooner compressed than raw."""

LARGEST_RAW_BYTES = 24 << 20
"""The largest screen that is asked for in raw pixels.

TigerVNC 1.12 ends a connection for which more than 32 MiB wait: its client was slower than it for a moment.
"""


def first_choice(choice: EncodingChoice, screen_bytes: int, *, is_near: bool) -> EncodingChoice:
    """Return the encoding to begin with; `auto` if the link is to be measured; a near one is not."""
    if choice != "auto":
        return choice
    if screen_bytes > LARGEST_RAW_BYTES:
        return "tight"
    return "raw" if is_near else "auto"


def offered(choice: EncodingChoice) -> list[Encoding]:
    """Return the encodings to ask for, the preferred one first; for `auto` those that measure the link."""
    return [*_PIXELS["raw" if choice == "auto" else choice], *_PSEUDO]


class Trial:
    """A measurement of how fast raw pixels arrive: the bytes after the first ones, and the time that they took."""

    PIXELS = 1 << 16
    """The number of pixels to ask for: 0.1 s at 20 Mbit/s, and well under a millisecond over loopback."""

    def __init__(self) -> None:
        self._began_s = self._ended_s = 0.0
        self._bytes = 0

    def received(self, count: int) -> None:
        """Note that `count` bytes arrived just now."""
        self._ended_s = clock.monotonic()
        if self._began_s:
            self._bytes += count
        else:
            self._began_s = self._ended_s

    def choice(self) -> EncodingChoice:
        """Return the encoding that suits the link."""
        return "raw" if self._bytes >= _FAST_BYTES_A_SECOND * (self._ended_s - self._began_s) else "tight"
