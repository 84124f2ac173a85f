"""The look of a cover: a fine pattern in two colours, which is the keyed hash of the pixels beneath.

So a comparison of two pictures also compares what is beneath the covers: it shows only whether that is the same. The
key is derived from the secret, slowly. Without the secret, someone can only test guesses of the whole secret. Each
guess costs one slow key derivation.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache

import numpy as np

from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.types import COVER_COLOURS, Region

TILE_PX = 8
"""The side of a tile of the pattern: it has a bit for each pixel of it."""
CODE_KEY = b""
"""The key of every one-time code, because a code is always different: its cover always looks the same."""
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 32}


@lru_cache(64)
def key_of(mark: str, value: str) -> bytes:
    """Return the key of a secret's cover. `mark` is its placeholder, so that no table of keys fits two names."""
    return hashlib.scrypt(value.encode("utf-8", "surrogateescape"), salt=f"cover of {mark}".encode(), **_SCRYPT)


def paint(screen: Pixels, beneath: Pixels, region: Region, key: bytes) -> None:
    """Paint a cover on a region of a screen. The pattern depends on what is `beneath` each tile, and on its place."""
    for top in range(region.top // TILE_PX * TILE_PX, region.bottom, TILE_PX):
        for left in range(region.left // TILE_PX * TILE_PX, region.right, TILE_PX):
            right, bottom = min(left + TILE_PX, region.right), min(top + TILE_PX, region.bottom)
            tile = Region(max(left, region.left), max(top, region.top), right, bottom)
            target = tile.part_of(screen)
            target[:] = _pattern(tile, beneath, key)[: target.shape[0], : target.shape[1]]


def _pattern(tile: Region, beneath: Pixels, key: bytes) -> Pixels:
    if key == CODE_KEY:
        bits = np.indices((TILE_PX, TILE_PX)).sum(axis=0) % 2
    else:
        content = (tile.part_of(beneath) & COLOUR_BITS).astype("<u4").tobytes()
        place = struct.pack("<4I", tile.left, tile.top, tile.right, tile.bottom)
        digest = hashlib.blake2b(place + content, key=key, digest_size=TILE_PX).digest()
        bits = np.unpackbits(np.frombuffer(digest, np.uint8)).reshape(TILE_PX, TILE_PX)
    pattern: Pixels = np.array(COVER_COLOURS, np.uint32)[bits]
    return pattern
