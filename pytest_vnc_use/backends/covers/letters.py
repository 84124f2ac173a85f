"""Letters that come one by one, as a person types them. The screen before each is kept until a secret is complete.

Nobody knows at the first letter whether the letters will make a secret. So what moves by itself is watched before the
first letter: a watch after the last one would take letters that are drawn late for moving parts.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable

import numpy as np

from pytest_vnc_use.backends.covers.typed_text import TypedPart, parts_of
from pytest_vnc_use.backends.covers.unrest import Unrest
from pytest_vnc_use.backends.pixels import Pixels

_MOST = 128
"""The most letters that are kept; a longer secret is not recognised by its letters."""


class Letters:
    """The newest letters that were typed at one place, and the screen before each.

    `unrest` is what moved by itself before the first letter. `are_shown` is false once a letter did not appear.
    """

    def __init__(self, unrest: Unrest) -> None:
        self.unrest = unrest
        self.are_shown = True
        self._letters: deque[tuple[str, bytes, tuple[int, ...]]] = deque(maxlen=_MOST)

    def __bool__(self) -> bool:
        return bool(self._letters)

    def add(self, letter: str, before: Pixels) -> None:
        """Keep a letter that is typed now, and the screen before it."""
        self._letters.append((letter, zlib.compress(before.tobytes(), 1), before.shape))

    def take_back(self) -> None:
        """Forget the last letter."""
        if self._letters:
            self._letters.pop()

    def secret(self, hide: Callable[[str], str]) -> TypedPart | None:
        """Return the secret that the newest letters make; None if they make none yet."""
        last = parts_of("".join(letter for letter, _, _ in self._letters), hide)[-1:]
        return last[0] if last and last[0].mark else None

    def screen_before(self, count: int) -> Pixels:
        """Return the screen before the last `count` letters."""
        _, packed, shape = self._letters[-count]
        return np.frombuffer(zlib.decompress(packed), np.uint32).reshape(shape)
