"""VNC servers that mean harm: what they say is made of right messages, changed; the
client is the real one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from pytest_vnc_use.backends.vnc import connect
from support import rfb_server as rfb
from support.fuzzing.trial import Target, Try, mutated

_SIZES = (0, 1, 2, 63, 64, 65, 200, 4000, 4096, 8191, 32767, 32768, 65535)
_LENGTHS = (0, 1, 4, 2**20, 2**20 + 1, 2**31 - 1, -1, -4, -5, -(2**20), -(2**31))
_UNKNOWN = (2, 5, 6, 21, -224, -258, -308, 2**31 - 1, -(2**31))


@cache
def _bomb() -> bytes:
    return zlib.compress(bytes(80_000_000), 9)


def _length(random: Random) -> int:
    if random.random() < 0.3:
        return random.choice(_SIZES)
    return random.randint(0, 64)


def _offset(random: Random) -> int:
    if random.random() < 0.1:
        return random.choice(_SIZES)
    return random.choice((0, 0, 1, 7))


def _rectangle(random: Random) -> bytes:
    width = _length(random)
    height = _length(random)
    x = _offset(random)
    y = _offset(random)
    pixels = rfb.image(
        random.randint(1, 64),
        random.randint(1, 64),
        random.choice((1, 2, 4, 16)),
        random.randrange(99),
    )
    encoding = rfb.RAW
    data = random.randbytes(min(4 * width * height, 20_000))
    match random.randrange(8):
        case 0:
            encoding = rfb.COPY
            data = struct.pack(">HH", random.choice(_SIZES), 0)
        case 1:
            encoding = rfb.ZRLE
            data = struct.pack(">I", len(_bomb())) + _bomb()
        case 2:
            encoding = rfb.TIGHT
            data = b"\0" + rfb.compact_length(len(_bomb())) + _bomb()
        case 3:
            return rfb.rectangle(0, 0, width, height, rfb.DESKTOP_SIZE) * random.choice(
                (1, 50)
            )
        case 4:
            encoding = random.choice(_UNKNOWN)
            data = b""
        case 5:
            return rfb.drawn(
                pixels,
                rfb.ZRLE,
                rfb.ZrleStream().encode(pixels, random.choice(("raw", "runs"))),
            )
        case 6:
            way = random.choice(("fill", "copy", "palette", "gradient"))
            return rfb.drawn(pixels, rfb.TIGHT, rfb.TightStream().encode(pixels, way))
    return rfb.rectangle(x, y, width, height, encoding, data)


def _message(random: Random) -> bytes:
    match random.randrange(5):
        case 0:
            return rfb.cut_text(
                random.choice(_LENGTHS),
                random.randbytes(random.choice((0, 4, 5, 5000))),
            )
        case 1:
            return rfb.BELL * random.choice((1, 2000))
        case 2:
            return rfb.update() * random.choice((1, 3000))
    found = [_rectangle(random) for _ in range(random.randint(1, 5))]
    return struct.pack(
        ">BxH", 0, random.choice((len(found), len(found), 65535))
    ) + b"".join(found)


def _session(random: Random) -> bytes:
    """Return all that a server says: a greeting and a first screen, then messages, some
    of it changed.
    """
    size = (
        (64, 64)
        if random.random() < 0.8
        else (random.choice(_SIZES), random.choice(_SIZES))
    )
    greeting = rfb.greeting(
        *size, name=random.choice((b"a", b"", b"\xff\x1b[2J", b"QEMU", b"n" * 5000))
    )
    if random.random() < 0.05:
        greeting = greeting[:-6] + struct.pack(
            ">I", random.choice((2**32 - 1, 2**20 + 1, 2**20))
        )
    first = rfb.update(rfb.rectangle(0, 0, 64, 64, rfb.RAW, bytes(64 * 64 * 4)))
    messages = b"".join(_message(random) for _ in range(random.randint(0, 4)))
    said = greeting + (first if random.random() < 0.8 else b"") + messages
    match random.randrange(4):
        case 0:
            return said[: random.randint(0, len(said))]
        case 1:
            return mutated(random, said)
    return said


@contextmanager
def _servers(_dir: Path) -> Iterator[Try]:
    def attempt(random: Random) -> None:
        said = _session(random)
        password = random.choice((None, "secret"))
        encoding: Any = random.choice((None, "raw", "zrle", "tight"))
        with (
            rfb.playing(said) as address,
            closing(
                connect(address, password, timeout_s=3.0, encoding=encoding)
            ) as screen,
        ):
            screen.frame()
            screen.click(1, 1)
            screen.settle(briefly=True)

    yield attempt


TARGETS = (Target("VNC servers", _servers, 60, most_s=25.0),)
