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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.input import ADDRESS_BAR
from pytest_vnc_use.backends.pixels import (
    Mask,
    Pixels,
    boxes_of,
    frame_of,
    most_common,
    pixels_in,
)
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
"""An array of shape (height, width), see `_edges`."""

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
two: two fields, and not two letters of one.
"""
_SAME_EDGES = 0.95
"""If at least this share of its edges is the same before and after, a region only took
another colour.
"""
_FRAME_PX = 16
"""The largest distance of a field's frame above and below its text."""
_NEAR_PX = 6
_AROUND_PX = 40
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
_MOVED_SHARE = 0.5
"""If at least this share of a change moved before, it moves on its own."""
_CARET_TILES_PX = (64, 96)
"""The largest moving region that may be a caret, in whole tiles. Text appears where it
was, so it counts as resting.
"""

_NO_SCREEN = Frame(FrameRef("", 0, 0), b"")


class _Field:
    """A field in which a secret was typed, on a screen that shows it, and the edges of
    what was drawn around it.

        ┌ around ────────────────┐
        │  Password              │     `near` holds the field with its frame, which
        │  ┌ near ────┐          │     shows the focus: the edges there do not count
        │  │ ••••     │  [Enter] │
        │  └──────────┘          │
        └────────────────────────┘
    """

    def __init__(self, box: Region, screen: Pixels) -> None:
        self.box = box
        self._screen_shape = screen.shape
        near = box.grown(_NEAR_PX, screen.shape)
        reach_px = _AROUND_PX
        while True:
            self._around = box.grown(reach_px, screen.shape)
            self._edges = _edges(self._around.part_of(screen))
            inside = near.moved(-self._around.left, -self._around.top)
            inside.part_of(self._edges)[:] = 0
            is_enough = np.count_nonzero(self._edges) >= _FEWEST_EDGES
            if is_enough or reach_px > max(screen.shape):
                break
            reach_px *= 2

    def is_on(self, screen: Pixels) -> bool:
        """Return whether a screen shows what surrounds the field, in any colours."""
        if screen.shape != self._screen_shape:
            return False
        drawn = self._edges > 0
        now = _edges(self._around.part_of(screen))
        same = now[drawn] == self._edges[drawn]
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
        self._hide = hide
        self._masks = masks
        self._redactions = redactions or Redactions()
        self._at: Point | None = None
        """Where an action pointed last: a text is typed there."""
        self._letters = ""
        """The letters that were typed one by one since another action."""
        self._before_letters = _NO_SCREEN
        """The screen before them."""
        self._before: Frame | None = None
        """The screen before the newest secret, until the next action: it may show late.
        """
        self._seen: list[_Field] = []
        """Where the newest secret was seen."""

    @property
    def has_typed_secret(self) -> bool:
        """Whether a secret was typed on the desktop, even if nothing shows it now."""
        return self._redactions.is_typed

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
        redacted = self._redacted(raw_frame)
        return replace(raw_frame, pixels=redacted.pixels) if redacted else raw_frame

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call, redacted, oldest first."""
        return tuple(map(self._redacted_frame, self.desktop.transient_frames()))

    def _redacted_frame(self, frame: Frame) -> Frame:
        redacted = self._redacted(frame)
        if redacted is None:
            return frame
        shown = frame_of(redacted.pixels)
        return replace(
            frame,
            ref=shown.ref,
            png=shown.png,
            pixels=redacted.pixels,
            redacted=redacted.fields,
        )

    def _redacted(self, seen: Frame | RawFrame) -> _Redacted | None:
        """Return a screen without the fields that it shows, and without the masks; None
        where it has none.
        """
        if not self._redactions.is_typed:
            return None
        screen = pixels_in(seen)
        known = self._redactions.fields
        fields = tuple(field.box for field in known if field.is_on(screen))
        boxes = (*fields, *self._masks)
        if not boxes:
            return None
        redacted: Pixels = screen.copy()
        for box in boxes:
            box.part_of(redacted)[:] = REDACTED_COLOUR
        return _Redacted(fields, redacted)

    def perform(self, action: DesktopAction) -> None:
        """Perform one action.

        Raises ActionError if it cannot be done, DesktopError if the desktop is gone,
        SettingsError if a secret changed more than a field.
        """
        if isinstance(action, (Wait, TakeScreenshot)):
            self.desktop.perform(action)
            return
        self._before = None
        for point in points(action):
            self._at = point
        text = _text_of(action)
        hidden = self._hidden(text)
        if hidden and isinstance(action, (TypeText, OpenUrl)):
            self._letters = ""
            self._type_secret(action, text, hidden)
            return
        self._note_letters(action, text)
        self.desktop.perform(action)
        hidden = self._hidden(self._letters)
        if hidden:
            self._letters = ""
            self._begin(self._before_letters)
            self.desktop.settle()
            screen = pixels_in(self.desktop.raw_frame())
            self._redact(hidden, self._before_letters, [screen])

    def _note_letters(self, action: DesktopAction, text: str) -> None:
        """Note the letters that a user types one by one, before the next one."""
        is_letter = len(text) == 1 and action == TypeText(text)
        if is_letter and not self._letters:
            self._before_letters = self.desktop.frame()
        if is_letter:
            self._letters += text
        elif action == KeyCombo(("backspace",)):
            self._letters = self._letters[:-1]
        else:
            self._letters = ""

    def _hidden(self, text: str) -> str:
        """Return a text that holds a secret with the placeholder instead; "" if it
        holds none.
        """
        hidden = self._hide(text.redacted if isinstance(text, SecretText) else text)
        has_secret = hidden != text and SECRET_MARK.search(hidden)
        return hidden if has_secret else ""

    def _type_secret(self, action: TypeText | OpenUrl, text: str, hidden: str) -> None:
        """Type a text that holds a secret, and redact what that changes before anything
        after it is typed.

            hidden   id=<secret:PIN>&go      from the start of the first placeholder to
            text     id=1234&go              the end of the last: what follows is equal
                        start  end
        """
        marks = [*SECRET_MARK.finditer(hidden)]
        start = marks[0].start()
        hidden_end = marks[-1].end()
        end = len(text) - (len(hidden) - hidden_end)
        mark = hidden[start:hidden_end]

        self._focus(action)
        self.desktop.settle(briefly=True)
        if start:
            self.desktop.perform(TypeText(text[:start]))
            self.desktop.settle(briefly=True)
        before = self.desktop.frame()
        self._begin(before)
        # Look before the last character too: it may lead to another screen, as the last
        # digit of a code does.
        screens: list[Pixels] = []
        for piece in (text[start : end - 1], text[end - 1 : end]):
            if piece:
                self.desktop.perform(TypeText(SecretText(piece, mark)))
                self.desktop.settle(briefly=not screens)
                screens.append(pixels_in(self.desktop.raw_frame()))
        self._redact(mark, before, screens)

        press_enter = isinstance(action, OpenUrl) or action.press_enter
        if text[end:] or press_enter:
            self._before = None
            self.desktop.perform(TypeText(text[end:], press_enter=press_enter))

    def _focus(self, action: TypeText | OpenUrl) -> None:
        """Set the focus to where an action types, and clear it if it asks for that."""
        if isinstance(action, OpenUrl):
            self.desktop.perform(KeyCombo((ADDRESS_BAR,)))
            return
        for point in points(action):
            self.desktop.perform(Click(*point))
        if action.clear_first:
            self.desktop.perform(TypeText("", clear_first=True))

    def _begin(self, before: Frame) -> None:
        """Note that a secret is typed from now on."""
        self._before = before
        self._seen = []
        self._redactions.is_typed = True

    def _redact(self, mark: str, before: Frame, screens: Sequence[Pixels]) -> None:
        """Redact what a secret changed from one screen to the next ones. Raises
        SettingsError if it is no field.
        """
        boxes, shown = self._changed(before, screens)
        self._add(boxes, shown)
        share = _share(boxes, shown)
        if share > MAX_SHARE:
            whole = reduce(Region.joined, boxes)
            raise SettingsError(
                _TOO_LARGE.format(mark=mark, share=share, box=whole, limit=MAX_SHARE)
            )

    def _redact_late(self, seen: Frame | RawFrame) -> None:
        """Redact what shows late, beside what was seen of the secret before. A larger
        change is another screen.
        """
        if self._before is None:
            return
        now = pixels_in(seen)
        if not all(field.is_on(now) for field in self._seen):
            return
        boxes, shown = self._changed(self._before, [now])
        if self._seen:
            boxes = self._beside_seen(boxes, now)
        if _share(boxes, shown) <= MAX_SHARE:
            self._add(boxes, shown)

    def _beside_seen(self, boxes: Sequence[Region], screen: Pixels) -> list[Region]:
        """Return the boxes beside what was seen of the secret, or more than that."""
        fields = [field.box for field in self._seen]
        near = [field.grown(_APART_PX[1], screen.shape) for field in fields]
        beside = []
        for box in boxes:
            is_known = box.is_part_of_any(fields)
            if box.meets_any(near) and not is_known:
                beside.append(box)
        return beside

    def _add(self, boxes: Sequence[Region], screen: Pixels) -> None:
        """Redact the fields with these boxes of text."""
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
            if screen.shape != first.shape:
                break
            is_second = len(shown) > 1
            if is_second and (shown[-1] != screen).mean() > MAX_SHARE:
                break  # the last character led to another screen
            shown.append(screen)

        changed: Mask = np.logical_or.reduce([first != screen for screen in shown])
        for mask in self._masks:  # they are redacted anyway
            mask.part_of(changed)[:] = False
        moving = self._moving(before, first.shape)
        boxes = []
        for box in boxes_of(changed, _APART_PX):
            moved_before = box.part_of(moving).mean() >= _MOVED_SHARE
            has_text = not all(_is_recoloured(box, first, screen) for screen in shown)
            if has_text and not moved_before:
                boxes.append(box)
        return boxes, shown[-1]

    def _moving(self, before: Frame, shape: tuple[int, ...]) -> Mask:
        """Mark what moved before a secret was typed, apart from carets; nothing where
        the last click was in it.
        """
        moving = np.zeros(shape, np.bool_)
        for region in before.moving:
            if not region.is_within(_CARET_TILES_PX):
                region.part_of(moving)[:] = True
        if self._at:
            x, y = self._at
            if moving[y : y + 1, x : x + 1].any():
                moving[:] = False
        return moving

    def close(self) -> None:
        """End the connection, and drop the screens; a second call does nothing."""
        self._before = None
        self._before_letters = _NO_SCREEN
        self.desktop.close()

    def page_url(self) -> str:
        """Return the address of the browser's page; "" if it is unknown."""
        return self.desktop.page_url() if isinstance(self.desktop, SupportsUrl) else ""

    def elements_of(self, action: Action) -> Elements | None:
        """Return the elements that an action acts on; None if the desktop must be
        asked.
        """
        if isinstance(self.desktop, SupportsElements):
            return self.desktop.elements_of(action)
        return None

    @property
    def doubles_only_near(self) -> bool:
        """Return whether no program there takes two clicks at different positions for a
        double click.
        """
        return isinstance(self.desktop, ClickRules) and self.desktop.doubles_only_near


class _Redacted(NamedTuple):
    """The fields that a screen shows, and its pixels without them."""

    fields: tuple[Region, ...]
    pixels: Pixels


def _text_of(action: DesktopAction) -> str:
    """Return the text that an action types; "" for none."""
    match action:
        case TypeText():
            return action.text
        case OpenUrl():
            return action.url
        case _:
            return ""


def _share(boxes: Sequence[Region], screen: Pixels) -> float:
    """Return the share of the screen that boxes take, from 0 to 1."""
    return sum(box.area for box in boxes) / screen.size


def _edges(pixels: Pixels) -> Edges:
    """Return for each pixel whether it differs from the one to the left (1) and from
    the one above (2): the outlines of what is drawn, in any colours.

    >>> _edges(np.array([[7, 7, 5], [7, 5, 5]], np.uint32))
    array([[0, 0, 1],
           [0, 3, 0]], dtype=uint8)
    """
    edges = np.zeros(pixels.shape, np.uint8)
    edges[:, 1:] = pixels[:, 1:] != pixels[:, :-1]
    is_other_above = pixels[1:] != pixels[:-1]
    edges[1:] |= is_other_above.astype(np.uint8) << 1
    return edges


def _is_recoloured(box: Region, before: Pixels, now: Pixels) -> bool:
    """Return whether a box shows the same in other colours, such as a button that was
    enabled.
    """
    around = box.grown(_NEAR_PX, now.shape)
    earlier = _edges(around.part_of(before))
    later = _edges(around.part_of(now))
    drawn = (earlier | later) > 0
    same = np.count_nonzero((earlier == later) & drawn)
    return bool(same >= _SAME_EDGES * np.count_nonzero(drawn))


def _field_around(box: Region, screen: Pixels) -> Region:
    """Return a box of text up to the frame of its field, or with a margin where nothing
    is close above and below.

        ┌────────────────┐      The most common colour around the text is the field's.
        │[••••]          │      From the box [ ] it reaches to the frame on each side.
        └────────────────┘
    """
    near = box.grown(_NEAR_PX, screen.shape)
    plain = screen == most_common(near.part_of(screen))
    columns = plain[box.top : box.bottom].all(axis=0)
    left = box.left - _space(columns[: box.left][::-1])
    right = box.right + _space(columns[box.right :])
    rows = plain[:, left:right].all(axis=1)
    above = _space(rows[: box.top][::-1])
    below = _space(rows[box.bottom :])
    if max(above, below) > _FRAME_PX:
        return near
    return Region(left, box.top - above, right, box.bottom + below)


def _space(plain: Mask) -> int:
    """Return how many pixels are plain up to what is drawn next.

    >>> _space(np.array([True, True, False, True]))
    2
    """
    return int(plain.size if plain.all() else np.argmin(plain))
