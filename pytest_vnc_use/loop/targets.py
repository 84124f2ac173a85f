"""Find what a step acts on, for reports: its elements and a picture of the place.

The elements are asked for just before the action, within a limit. No replay, gate or policy uses them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import Action, Frame, FrameRef, Region, TakeScreenshot, TypeText, Wait
from pytest_vnc_use.types.action_points import Point, points
from pytest_vnc_use.types.elements import ASK_S, Elements
from pytest_vnc_use.types.protocols import Controller, TellsElements

CROP_PX = (160, 60)
"""Width and height of the picture of the place."""
_SLOW_S, _MOST_SLOW = 0.5, 3
"""After three slow answers in a row, stop asking, so that a heavy page is not delayed."""
FIELDS = frozenset(
    {"textbox", "searchbox", "combobox", "spinbutton"}  # ARIA's roles
    | {"text", "entry", "password text", "terminal", "combo box", "spin button"}  # AT-SPI's
)
"""The roles of elements that take text."""
LONGEST_NAME = 200
"""The most characters of a name, or of a role, that a step keeps."""

ElementsOf = Callable[[Action], Elements]
"""A function that finds the elements of an action in a desktop's trees. It may be slow, and may raise any exception."""


def no_elements(action: Action) -> Elements:
    """Return no elements: there is no tree."""
    return ()


class Asker:
    """The search for the elements of actions.

    It never raises and never waits longer than `ASK_S`. After several slow answers it stops asking.
    """

    def __init__(self, ask: ElementsOf) -> None:
        self._ask = ask
        self._slow = 0

    def __call__(self, action: Action, limit_s: float = ASK_S) -> Elements:
        """Return the elements that an action will act on; none if they are unknown."""
        if self._slow >= _MOST_SLOW or not (points(action) or isinstance(action, TypeText)):
            return ()
        deadline = Deadline(min(ASK_S, limit_s))
        try:
            found = deadline.call(lambda: self._ask(action))
        except Exception:  # noqa: BLE001  # a name is only told: whatever a page or a program answers fails no step
            found = ()
        self._slow = self._slow + 1 if deadline.spent_s >= _SLOW_S else 0
        return found if any(found) else ()


def elements_of(acting: Controller, ask: ElementsOf) -> ElementsOf:
    """Return the function that finds the elements: the controller's, or else the desktop's."""

    def find(action: Action) -> Elements:
        elements = acting.elements_of(action) if isinstance(acting, TellsElements) else None
        return ask(action) if elements is None else elements

    return find


@dataclass(frozen=True)
class StepTarget:
    """The target of a step, and how long it took to find it. `crop` is None if the step has no place."""

    elements: Elements = ()
    crop: FrameRef | None = None
    asked_s: float = 0.0


class Targets:
    """The targets of one run's steps."""

    def __init__(self, ask: ElementsOf, folder: RunFolder) -> None:
        self._ask = Asker(ask)
        self._folder = folder
        self._seen: Frame | None = None
        self._clicked: tuple[Point, ...] = ()
        self._field: Elements = ()

    def see(self, frame: Frame) -> None:
        """Keep the newest frame, so that its pixels need not be read again."""
        self._seen = frame

    def of(self, action: Action, frame: FrameRef, limit_s: float) -> StepTarget:
        """Return the target of an action, on the screen that `frame` shows.

        Text without a place goes to the focus, or else to the field that the action before clicked.
        """
        started = clock.monotonic()
        elements, places = self._ask(action, limit_s), points(action)[:1]
        if isinstance(action, TypeText) and not places:
            elements, places = elements or self._field, self._clicked
        elif not isinstance(action, (Wait, TakeScreenshot)):
            last = elements[-1:]
            self._field = last if last and last[0] and last[0].role in FIELDS else ()
            self._clicked = points(action)[-1:]
        crop = self._crop(frame, places[0]) if places else None
        return StepTarget(elements, crop, clock.monotonic() - started)

    def _crop(self, frame: FrameRef, at: Point) -> FrameRef | None:
        region = around(at, (frame.width, frame.height))
        seen = self._seen if self._seen and self._seen.ref == frame else None
        try:
            png = _cut_out(seen.png if seen else self._folder.load_png(frame), seen.pixels if seen else None, region)
        except (OSError, ValueError):  # a user's own controller may return an invalid picture
            return None
        size = region.right - region.left, region.bottom - region.top
        return self._folder.store(Frame(FrameRef(hashlib.sha256(png).hexdigest(), *size), png))


def around(at: Point, screen: tuple[int, int]) -> Region:
    """Return the region of `CROP_PX` around a point, moved onto a screen of that size."""
    width, height = (min(crop, most) for crop, most in zip(CROP_PX, screen, strict=True))
    left = min(max(at[0] - width // 2, 0), screen[0] - width)
    top = min(max(at[1] - height // 2, 0), screen[1] - height)
    return Region(left, top, left + width, top + height)


def _cut_out(png: bytes, pixels: object, region: Region) -> bytes:
    if isinstance(pixels, np.ndarray):
        size = region.right - region.left, region.bottom - region.top
        image = Image.frombytes("RGB", size, region.part_of(pixels).astype("<u4").tobytes(), "raw", "BGRX")
    else:
        whole = Image.open(io.BytesIO(png))
        image = whole.crop((region.left, region.top, region.right, region.bottom)).convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def cut_names(elements: Elements) -> Elements:
    """Return the elements with names and roles of limited length, which say how long they were."""
    most = LONGEST_NAME
    return tuple(each and replace(each, role=cut(each.role, most), name=cut(each.name, most)) for each in elements)
