"""The elements of pages and programs, from their accessibility trees.

No replay, gate or policy imports this module. A step keeps its elements only for
readers; nothing is searched by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from pytest_vnc_use.types.actions import Action
from pytest_vnc_use.types.frames import Region


@dataclass(frozen=True)
class Element:
    """An element on the screen: its `role`, its accessible `name`, and the `box` of its
    visible part.
    """

    role: str
    name: str
    box: Region

    @property
    def centre(self) -> tuple[int, int]:
        """The pixel of the screen to click."""
        x = (self.box.left + self.box.right) // 2
        y = (self.box.top + self.box.bottom) // 2
        return x, y


ASK_S = 1.0
"""The maximum time that a step waits for its elements."""
Elements = tuple[Union[Element, None], ...]
"""The elements that an action acts on: one for each of its points (None if unknown), or
for typed text the one with the focus.
"""

AskAfter = Callable[[], Elements]
"""A function that finds the elements of an action after it was performed: the option of a
`select` that a click chooses is not known before.
"""
ElementsOf = Callable[[Action], Union[Elements, AskAfter]]
"""A function that finds the elements of an action before it is performed. It may be
slow, and may raise any exception.
"""
