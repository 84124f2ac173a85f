"""Screens as they are sent to models that speak of the picture's own pixels: scaled down, and their points back."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from pytest_vnc_use.planners.common.arguments import Unreadable
from pytest_vnc_use.types import Action, Click, Drag, FrameRef, KeyDown, KeyUp, MouseDown, MouseUp, Move, Scroll


@dataclass(frozen=True)
class PictureLimit:
    """The largest picture that a service looks at as it is: its longest side, and the square patches that cover it."""

    longest_side: int
    patch: int
    patches: int

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """The largest size of the same shape within the limit, in pixels."""
        longest = max(width, height)
        sides = range(min(self.longest_side, longest), 0, -1)
        sizes = ((max(1, round(width * side / longest)), max(1, round(height * side / longest))) for side in sides)
        return next(size for size in sizes if self._covering(*size) <= self.patches)

    def _covering(self, width: int, height: int) -> int:
        return math.ceil(width / self.patch) * math.ceil(height / self.patch)

    def fit(self, png: bytes) -> bytes:
        """The PNG in the largest size within the limit; unchanged where that is its own."""
        return resized(png, self.fitted(*png_size(png)))


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG in pixels."""
    with Image.open(io.BytesIO(png)) as picture:
        size: tuple[int, int] = picture.size
    return size


def resized(png: bytes, size: tuple[int, int]) -> bytes:
    """The PNG in another size; unchanged where that is its own."""
    with Image.open(io.BytesIO(png)) as picture:
        if picture.size == size:
            return png
        file = io.BytesIO()
        picture.resize(size, Image.Resampling.LANCZOS).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class SentScreen:
    """A screen, and the size in which a model was sent the picture of it."""

    screen: FrameRef
    width: int
    height: int

    @classmethod
    def within(cls, limit: PictureLimit, screen: FrameRef) -> SentScreen:
        return cls(screen, *limit.fitted(screen.width, screen.height))

    @classmethod
    def shown_by(cls, png: bytes, limit: PictureLimit, screen: FrameRef) -> SentScreen:
        """As above, of a picture that may be smaller than the screen."""
        return cls(screen, *limit.fitted(*png_size(png)))

    def point(self, x: Any, y: Any) -> tuple[int, int]:
        """The pixel of the screen under a pixel of the picture. Raises Unreadable where it is none of the picture's."""
        return _scaled("x", x, self.width, self.screen.width), _scaled("y", y, self.height, self.screen.height)


def _scaled(name: str, value: Any, sent: int, real: int) -> int:
    number = number_of(name, value)
    if not 0 <= number <= sent:
        raise Unreadable(f"{name!r} must lie on the screenshot, 0 to {sent - 1}, got {value!r}")
    return min(int((number + 0.5) * real / sent), real - 1)


def number_of(name: str, value: Any) -> float:
    """A finite number, also where it came as text. Raises Unreadable."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise Unreadable(f"{name!r} must be a number, got {value!r}")
    return number


# --- the pointer and the keys around an action -----------------------------------------------------------------------


def while_held(keys: Sequence[str], *actions: Action) -> tuple[Action, ...]:
    """The actions between the keys going down, in order, and coming up, in reverse."""
    return (*map(KeyDown, keys), *actions, *map(KeyUp, reversed(keys)))


def pointer_after(actions: Iterable[Action], pointer: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Where the pointer is after the actions, as far as they tell; before them it was at `pointer`."""
    for action in actions:
        match action:
            case Click(x=x, y=y) | Move(x=x, y=y) | Scroll(x=x, y=y) | MouseDown(x=x, y=y) | MouseUp(x=x, y=y):
                pointer = x, y
            case Drag(to_x=x, to_y=y):
                pointer = x, y
            case _:
                pass
    return pointer
