"""Pixels as numbers to compare, and pictures of the difference between two screens.

Pictures are lossless WebP: a program's screen takes a third of the bytes that it takes as PNG.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image, WebPImagePlugin as WebPImagePlugin  # else Pillow loads all its formats at the first picture

from pytest_vnc_use.backends.pixels import Mask as Mask
from pytest_vnc_use.types import REDACTED_COLOUR, Frame, FrameRef, Glance

Pixels = npt.NDArray[np.uint32]
"""Shape (height, width); one number a pixel, 0xRRGGBB."""
_KEPT = 3
TILE_PX = 8
"""The side of a tile. Changes are found and stored in whole tiles."""
_COLOUR = np.uint32(0xFFFFFF)
SAME_LEVELS = 2
"""The largest difference in red, green and blue, of 255 levels, that nobody can see."""


def pixels_of(picture: bytes) -> Pixels:
    """Return the pixels of a PNG or WebP."""
    return _numbers(Image.open(io.BytesIO(picture)).convert("RGBA"))


def pixels_in(seen: Frame | Glance) -> Pixels:
    """Return the pixels of a frame or a glance. A PNG is decoded only where the pixels are not at hand."""
    if isinstance(seen.pixels, np.ndarray):
        visible: Pixels = seen.pixels & _COLOUR
        return visible
    if isinstance(seen, Frame):
        return pixels_of(seen.png)
    raise TypeError(f"a glance must have its pixels as an array, got {seen.pixels!r}")


def same_picture(one: bytes, other: bytes) -> bool:
    """Return whether two WebP files have the same visible pixels."""
    images = [np.asarray(Image.open(io.BytesIO(each)).convert("RGBA")) for each in (one, other)]
    if images[0].shape != images[1].shape:
        return False
    visible = [image[..., 3:] > 0 for image in images]
    return bool((visible[0] == visible[1]).all() and ((images[0] == images[1]) | ~visible[0]).all())


def size_of(picture: bytes) -> tuple[int, int]:
    """Return width and height of a WebP, and read nothing else.

    Raises ValueError where it is no WebP, or a decompression bomb.
    """
    try:
        return Image.open(io.BytesIO(picture), formats=["WEBP"]).size
    except (OSError, Image.DecompressionBombError) as exc:
        raise ValueError(str(exc)) from exc


def _numbers(image: Image.Image) -> Pixels:
    numbers: Pixels = np.frombuffer(image.tobytes("raw", "BGRA"), "<u4").reshape(image.height, image.width) & _COLOUR
    return numbers


def differing(one: Pixels, other: Pixels) -> Mask:
    """Mark the pixels that look different: a channel differs by more than `SAME_LEVELS`, and neither is redacted."""
    marked: Mask = one != other
    places = np.flatnonzero(marked)
    if places.size:
        found = [screen.ravel()[places].astype("<u4") for screen in (one, other)]
        levels, others = (pixels.view(np.uint8).reshape(-1, 4) for pixels in found)  # a row for a pixel's channels
        same = (np.maximum(levels, others) - np.minimum(levels, others) <= SAME_LEVELS).all(axis=1)
        for pixels in found:
            same |= pixels == REDACTED_COLOUR
        marked.ravel()[places[same]] = False
    return marked


def levels_of(pixels: Pixels) -> npt.NDArray[np.int16]:
    """Return red, green and blue of each pixel, along a third axis."""
    return np.stack([pixels >> shift & 0xFF for shift in (16, 8, 0)], axis=-1).astype(np.int16)


def webp_of(pixels: Pixels, visible: Mask | None = None) -> bytes:
    """Return the pixels as WebP. Pixels that are not `visible` are transparent."""
    alpha = np.uint32(~_COLOUR)
    numbers = pixels | alpha if visible is None else np.where(visible, pixels | alpha, np.uint32(0))
    file = io.BytesIO()
    _image(numbers, "RGBA", "BGRA").save(file, "WEBP", lossless=True)
    return file.getvalue()


def png_of(pixels: Pixels) -> bytes:
    """Return the pixels as PNG (8-bit RGB), the format of run folders."""
    file = io.BytesIO()
    _image(pixels, "RGB", "BGRX").save(file, "PNG", compress_level=1)
    return file.getvalue()


def frame_of(pixels: Pixels) -> Frame:
    """Return a frame that shows the pixels."""
    png = png_of(pixels)
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), pixels.shape[1], pixels.shape[0]), png)


def _image(pixels: Pixels, mode: str, raw_mode: str) -> Image.Image:
    height, width = pixels.shape
    return Image.frombytes(mode, (width, height), pixels.astype("<u4").tobytes(), "raw", raw_mode)


def changed_tiles(before: Pixels, now: Pixels) -> Mask:
    """Mark all pixels of each tile in which at least one differs."""
    return tiled(before != now)


def tiled(marked: Mask) -> Mask:
    """Mark all pixels of each tile in which at least one is marked."""
    height, width = marked.shape
    padded = np.pad(marked, ((0, -height % TILE_PX), (0, -width % TILE_PX)))
    rows, columns = padded.shape[0] // TILE_PX, padded.shape[1] // TILE_PX
    across = np.ascontiguousarray(padded).view(np.uint64).reshape(rows, TILE_PX, columns)  # a tile's row is 8 bytes
    tiles = np.bitwise_or.reduce(across, axis=1) != 0
    whole: Mask = tiles.repeat(TILE_PX, axis=0).repeat(TILE_PX, axis=1)[:height, :width]
    return whole


def change(before: Pixels, now: Pixels) -> tuple[bytes, tuple[int, int]] | None:
    """Return a picture of the difference, and its top left corner; None where nothing differs."""
    visible = changed_tiles(before, now)
    if not visible.any():
        return None
    rows, columns = np.flatnonzero(visible.any(axis=1)), np.flatnonzero(visible.any(axis=0))
    left, top = int(columns[0]), int(rows[0])
    box = np.s_[top : rows[-1] + 1, left : columns[-1] + 1]
    return webp_of(now[box], visible[box]), (left, top)


def painted_over(before: Pixels, picture: bytes, at: tuple[int, int]) -> Pixels:
    """Return the screen after a change.

    Raises ValueError where the picture reaches off the screen, OSError where it is no picture.
    """
    image = Image.open(io.BytesIO(picture)).convert("RGBA")
    left, top = at
    if left + image.width > before.shape[1] or top + image.height > before.shape[0]:
        raise ValueError(f"{image.width} x {image.height} pixels at {at} are not on the screen")
    box = np.s_[top : top + image.height, left : left + image.width]
    numbers = np.frombuffer(image.tobytes("raw", "BGRA"), "<u4").reshape(image.height, image.width)
    now: Pixels = before.copy()
    np.copyto(now[box], numbers & _COLOUR, where=numbers > _COLOUR)  # above the colour is the alpha
    return now


@dataclass
class Chain:
    """The screens of a recording, each painted over the one before; the first is painted on black.

    `changes` are pairs of a picture's name, empty where nothing differs, and its top left corner. Only the
    newest `_KEPT` screens are kept, so that memory does not grow with their number. Ask for the screens in order: going
    back further starts from the first.
    """

    size: tuple[int, int]
    load: Callable[[str], bytes]
    changes: Sequence[tuple[str, tuple[int, int]]]
    _screens: dict[int, Pixels] = field(default_factory=dict, init=False)

    def pixels(self, number: int) -> Pixels:
        """Return screen `number`, counted from 0. Raises as `load` and `painted_over` do."""
        newest = max((known for known in self._screens if known <= number), default=-1)
        screen = self._screens[newest] if newest >= 0 else np.zeros(self.size[::-1], np.uint32)
        for following in range(newest + 1, number + 1):
            name, at = self.changes[following]
            screen = self._screens[following] = painted_over(screen, self.load(name), at) if name else screen
            if len(self._screens) > _KEPT:
                del self._screens[next(iter(self._screens))]
        return screen
