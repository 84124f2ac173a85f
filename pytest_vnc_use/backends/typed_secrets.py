"""Redaction of typed secrets on the screen: the field that shows one is one flat colour
in every frame.

What changes while a secret is typed, without what moved before, is the field. It is
known before Enter is pressed, and redacted for as long as what surrounds it is there.
Nothing is recognised elsewhere: no text is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.input import ADDRESS_BAR
from pytest_vnc_use.backends.pixels import Mask, Pixels, boxes_of, frame_of, pixels_in
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import (
    REDACTED_COLOUR,
    SECRET_MARK,
    Action,
    Click,
    DesktopAction,
    Frame,
    FrameRef,
    KeyCombo,
    OpenUrl,
    RawFrame,
    Region,
    TakeScreenshot,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point, SecretText, points
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import (
    ClickRules,
    Controller,
    ForwardingController,
    SupportsElements,
    SupportsUrl,
)

Edges = npt.NDArray[np.uint8]

MAX_SHARE = 0.05
"""The largest share of the screen that fields take. Where more changes, the secret may
be anywhere in it.
"""
_TOO_LARGE = (
    "Typing {mark} changed {share:.0%} of the screen, from ({box.left}, {box.top}) to"
    " ({box.right}, {box.bottom}), but a field takes {limit:.0%} at most, so the secret"
    " cannot be redacted. Add what else changes there to the masks of the test's"
    " recording (cua-vnc mask), or set vnc_show_secrets=true to show typed secrets."
)
_APART_PX = (4, 24)
"""The number of equal rows, and of equal columns, between two changes that makes them
two.
"""
_SAME_EDGES = 0.95
"""If at least this share of its edges is the same before and after, a region only took
another colour.
"""
_FRAME_PX = 16
"""The largest distance of a field's frame above and below its text."""
_NEAR_PX, _AROUND_PX = 6, 40
"""The distances between which a field's surroundings are. Nearer is its frame, which
shows the focus.

The first is also the margin of a field without a frame, because letters are taller than
the dots that stand for them.
"""
_FEWEST_EDGES = 40
"""The fewest pixels of edges by which surroundings are recognised; with fewer, they
reach further.
"""
_IS_THERE = 0.5
"""The share of its surroundings' edges that shows that a field is there."""
_CARET_TILES_PX = (64, 96)
"""The largest moving region that may be a caret, in whole tiles. Text appears where it
was, so it counts as resting.
"""


class _Field:
    """A field in which a secret was typed, on a screen that shows it, and the edges of
    what was drawn around it.
    """

    def __init__(self, box: Region, screen: Pixels) -> None:
        self.box, self.screen_shape = box, screen.shape
        size, reach_px, is_enough = screen.shape[::-1], _AROUND_PX, False
        while not is_enough:
            self.around, near = box.grown(reach_px, *size), box.grown(_NEAR_PX, *size)
            self.edges, (x, y) = (
                _edges(self.around.part_of(screen)),
                (
                    self.around.left,
                    self.around.top,
                ),
            )
            self.edges[
                near.top - y : near.bottom - y, near.left - x : near.right - x
            ] = 0
            is_enough = bool(
                self.edges.astype(bool).sum() >= _FEWEST_EDGES
            ) or reach_px > max(size)
            reach_px *= 2

    def is_on(self, screen: Pixels) -> bool:
        """Return whether a screen shows what surrounds the field, in any colours."""
        if screen.shape != self.screen_shape:
            return False
        drawn = self.edges > 0
        same = _edges(self.around.part_of(screen))[drawn] == self.edges[drawn]
        return not same.size or bool(same.mean() >= _IS_THERE)


@dataclass(eq=False)
class Redactions:
    """The fields of one desktop in which secrets were typed. `is_typed` is true once
    one was, even if none shows it.
    """

    fields: list[_Field] = field(default_factory=list)
    is_typed: bool = False


class RedactingController(ForwardingController):
    """A Controller around another one, whose frames show no field in which a secret was
    typed.

    `hide` replaces each secret's value with its placeholder. `masks` are those of the
    test's recording, where a program repeats a secret: once one was typed, they are
    redacted too.
    """

    def __init__(
        self,
        desktop: Controller,
        hide: Callable[[str], str],
        redactions: Redactions | None = None,
        masks: tuple[Region, ...] = (),
    ) -> None:
        super().__init__(desktop)
        self._hide, self._masks = hide, masks
        self._redactions = redactions or Redactions()
        self._at: Point | None = None
        self._letters, self._before_letters = "", Frame(FrameRef("", 0, 0), b"")
        """The letters that were typed one by one since another action, and the screen
        before them.
        """
        self._before: Frame | None = None
        """The screen before the newest secret, until the next action: it may show late.
        """
        self._seen: list[_Field] = []
        """Where the newest secret was seen."""

    def over(self, desktop: Controller) -> RedactingController:
        """Return a controller over another connection to the same desktop, with the
        same redactions.
        """
        return RedactingController(desktop, self._hide, self._redactions, self._masks)

    def frame(self) -> Frame:
        """Return the screen now, redacted. Raises DesktopError."""
        frame = self.desktop.frame()
        self._redact_late(frame)
        return self._redacted_frame(frame)

    def raw_frame(self) -> RawFrame:
        """Return the pixels of the screen now, redacted. Raises DesktopError."""
        raw_frame = self.desktop.raw_frame()
        self._redact_late(raw_frame)
        boxes, redacted = self._redacted(raw_frame)
        return replace(raw_frame, pixels=redacted) if boxes else raw_frame

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call, redacted, oldest first."""
        return tuple(map(self._redacted_frame, self.desktop.transient_frames()))

    def _redacted_frame(self, frame: Frame) -> Frame:
        boxes, redacted = self._redacted(frame)
        if not boxes:
            return frame
        shown, fields = frame_of(redacted), boxes[: len(boxes) - len(self._masks)]
        return replace(
            frame, ref=shown.ref, png=shown.png, pixels=redacted, redacted=fields
        )

    def _redacted(self, seen: Frame | RawFrame) -> tuple[tuple[Region, ...], Pixels]:
        """Return what is redacted on a screen, the fields before the masks, and its
        pixels then.
        """
        screen = pixels_in(seen)
        boxes = (
            *(field.box for field in self._redactions.fields if field.is_on(screen)),
            *self._masks,
        )
        if not self._redactions.is_typed or not boxes:
            return (), screen
        redacted: Pixels = screen.copy()
        for box in boxes:
            box.part_of(redacted)[:] = REDACTED_COLOUR
        return boxes, redacted

    def perform(self, action: DesktopAction) -> None:
        """Perform one action.

        Raises ActionError if it cannot be done, DesktopError if the desktop is gone,
        SettingsError if a secret changed more than a field.
        """
        if isinstance(action, (Wait, TakeScreenshot)):
            self.desktop.perform(action)
            return
        text = getattr(action, "url" if isinstance(action, OpenUrl) else "text", "")
        self._before = None
        self._at = next(iter(points(action)[-1:]), self._at)
        if hidden := self._hidden(text):
            self._letters = ""
            self._type_secret(action, text, hidden)
            return
        if action == TypeText(text) and len(text) == 1:  # as a user types
            if not self._letters:
                self._before_letters = self.desktop.frame()
            self._letters += text
        else:
            self._letters = (
                self._letters[:-1] if action == KeyCombo(("backspace",)) else ""
            )
        self.desktop.perform(action)
        if hidden := self._hidden(self._letters):
            self._letters = ""
            self._begin(self._before_letters)
            self.desktop.settle()
            self._redact(
                hidden, self._before_letters, [pixels_in(self.desktop.raw_frame())]
            )

    def _hidden(self, text: str) -> str:
        """Return a text that holds a secret with the placeholder instead; "" if it
        holds none.
        """
        hidden = self._hide(text.redacted if isinstance(text, SecretText) else text)
        return hidden if hidden != text and SECRET_MARK.search(hidden) else ""

    def _type_secret(self, action: DesktopAction, text: str, hidden: str) -> None:
        """Type a text that holds a secret, and redact what that changes before anything
        after it is typed.

        Look before the last character too: it may lead to another screen, as the last
            digit of a code does.
        """
        if isinstance(action, TypeText):
            for point in points(action):
                self.desktop.perform(Click(*point))
            if action.clear_first:
                self.desktop.perform(TypeText("", clear_first=True))
        else:
            self.desktop.perform(KeyCombo((ADDRESS_BAR,)))
        marks = [*SECRET_MARK.finditer(hidden)]
        start, end = marks[0].start(), len(text) - len(hidden) + marks[-1].end()
        mark = hidden[start : marks[-1].end()]
        self.desktop.settle(briefly=True)
        if start:
            self.desktop.perform(TypeText(text[:start]))
            self.desktop.settle(briefly=True)
        before = self.desktop.frame()
        self._begin(before)
        screens: list[Pixels] = []
        for piece in filter(None, (text[start : end - 1], text[end - 1 : end])):
            self.desktop.perform(TypeText(SecretText(piece, mark)))
            self.desktop.settle(briefly=not screens)
            screens.append(pixels_in(self.desktop.raw_frame()))
        self._redact(mark, before, screens)
        if text[end:] or getattr(action, "press_enter", True):
            self._before = None
            self.desktop.perform(
                TypeText(text[end:], press_enter=getattr(action, "press_enter", True))
            )

    def _begin(self, before: Frame) -> None:
        self._before, self._seen, self._redactions.is_typed = before, [], True

    def _redact(self, mark: str, before: Frame, screens: Sequence[Pixels]) -> None:
        """Redact what a secret changed from one screen to the next ones. Raises
        SettingsError if it is no field.
        """
        boxes, shown = self._changed(before, screens)
        self._add(boxes, shown)
        if (share := _share(boxes, shown)) > MAX_SHARE:
            whole = reduce(Region.joined, boxes)
            raise SettingsError(
                _TOO_LARGE.format(mark=mark, share=share, box=whole, limit=MAX_SHARE)
            )

    def _redact_late(self, seen: Frame | RawFrame) -> None:
        """Redact what shows late, beside what was seen of the secret before. A larger
        change is another screen.
        """
        if self._before is None or not all(
            each.is_on(pixels_in(seen)) for each in self._seen
        ):
            return
        now = pixels_in(seen)
        boxes, shown = self._changed(self._before, [now])
        if self._seen:
            size, fields = now.shape[::-1], [each.box for each in self._seen]
            beside = [
                box
                for box in boxes
                if any(each.grown(_APART_PX[1], *size).meets(box) for each in fields)
            ]
            boxes = [
                box
                for box in beside
                if not any(each.joined(box) == each for each in fields)
            ]
        if _share(boxes, shown) <= MAX_SHARE:
            self._add(boxes, shown)

    def _add(self, boxes: Sequence[Region], screen: Pixels) -> None:
        fields = [_Field(_field_around(box, screen), screen) for box in boxes]
        self._seen += fields
        self._redactions.fields += fields

    def _changed(
        self, before: Frame, screens: Sequence[Pixels]
    ) -> tuple[list[Region], Pixels]:
        """Return the boxes in which screens differ from the one before, and the last of
        them that has the field.
        """
        first = pixels_in(before)
        shown = [first]
        for screen in screens:
            if screen.shape != first.shape or (
                len(shown) > 1 and (shown[-1] != screen).mean() > MAX_SHARE
            ):
                break  # the last character led to another screen
            shown.append(screen)
        changed: Mask = np.logical_or.reduce([first != screen for screen in shown])
        for mask in self._masks:  # they are redacted anyway
            mask.part_of(changed)[:] = False
        moving = np.zeros(first.shape, np.bool_)
        for region in before.moving:
            if not region.is_within(_CARET_TILES_PX):
                region.part_of(moving)[:] = True
        x, y = self._at or (-1, -1)
        if moving[y : y + 1, x : x + 1].any():  # the last click was there
            moving[:] = False
        boxes = [
            box
            for box in boxes_of(changed, _APART_PX)
            if box.part_of(moving).mean() < 0.5
        ]
        return [
            box
            for box in boxes
            if not all(_is_recoloured(box, first, screen) for screen in shown)
        ], shown[-1]

    def page_url(self) -> str:
        """Return the address of the browser's page; "" if it is unknown."""
        return self.desktop.page_url() if isinstance(self.desktop, SupportsUrl) else ""

    def elements_of(self, action: Action) -> Elements | None:
        """Return the elements that an action acts on; None if the desktop must be
        asked.
        """
        return (
            self.desktop.elements_of(action)
            if isinstance(self.desktop, SupportsElements)
            else None
        )

    @property
    def doubles_only_near(self) -> bool:
        """Return whether no program there takes two clicks at different positions for a
        double click.
        """
        return isinstance(self.desktop, ClickRules) and self.desktop.doubles_only_near


def _share(boxes: Sequence[Region], screen: Pixels) -> float:
    return (
        sum((box.right - box.left) * (box.bottom - box.top) for box in boxes)
        / screen.size
    )


def _edges(pixels: Pixels) -> Edges:
    """Return for each pixel whether it differs from the one to the left (1) and from
    the one above (2).
    """
    edges = np.zeros(pixels.shape, np.uint8)
    edges[:, 1:] = pixels[:, 1:] != pixels[:, :-1]
    edges[1:] |= (pixels[1:] != pixels[:-1]).astype(np.uint8) << 1
    return edges


def _is_recoloured(box: Region, before: Pixels, now: Pixels) -> bool:
    """Return whether a box shows the same in other colours, such as a button that was
    enabled.
    """
    around = box.grown(_NEAR_PX, *now.shape[::-1])
    earlier, later = (_edges(around.part_of(screen)) for screen in (before, now))
    drawn = (earlier | later) > 0
    return bool((earlier == later)[drawn].sum() >= _SAME_EDGES * drawn.sum())


def _field_around(box: Region, screen: Pixels) -> Region:
    """Return a box of text up to the frame of its field, or with a margin where nothing
    is close above and below.
    """
    near = box.grown(_NEAR_PX, *screen.shape[::-1])
    colours, counts = np.unique(near.part_of(screen), return_counts=True)
    plain = screen == colours[counts.argmax()]
    columns = plain[box.top : box.bottom].all(axis=0)
    left, right = (
        box.left - _space(columns[: box.left][::-1]),
        box.right + _space(columns[box.right :]),
    )
    rows = plain[:, left:right].all(axis=1)
    above, below = _space(rows[: box.top][::-1]), _space(rows[box.bottom :])
    return (
        near
        if max(above, below) > _FRAME_PX
        else Region(left, box.top - above, right, box.bottom + below)
    )


def _space(plain: Mask) -> int:
    """Return how many pixels are plain up to what is drawn next."""
    return int(plain.size if plain.all() else np.argmin(plain))
