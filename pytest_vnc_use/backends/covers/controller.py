"""A Controller that shows nobody what a typed secret looks like."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from pytest_vnc_use.backends.covers.changes import Mask, boxes_of, differing
from pytest_vnc_use.backends.covers.covers import Covers, Typing
from pytest_vnc_use.backends.covers.letters import Letters
from pytest_vnc_use.backends.covers.typed_text import Part, parts_of
from pytest_vnc_use.backends.screen.png import encode_png
from pytest_vnc_use.backends.screen.rectangles import COLOUR_BITS, Pixels
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.keyboard.keystrokes import ADDRESS_BAR, Means, TellsMeans
from pytest_vnc_use.same_screen import CARET_PX, within_caret
from pytest_vnc_use.types import (
    Action,
    Click,
    DesktopAction,
    Frame,
    FrameRef,
    Glance,
    KeyCombo,
    OpenAddress,
    Region,
    TakeScreenshot,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.forwarding import ForwardingController
from pytest_vnc_use.types.protocols import ClickRules, Controller, TellsElements, TellsUrl
from pytest_vnc_use.types.secret_text import SecretText

_SHOWS_S = 1.0
"""The time that a program has to show something of a secret; a prompt for a password never does."""
_BLINKS_S = 1.2
"""The time in which a caret blinks once: 0.5 s in Qt and Chromium, 0.8 s in GTK."""
_LOOK_AGAIN_S = 0.05
_RESTLESS_S = 0.2
"""The time in which an animation moves, where one is known to be on the screen."""


class CoveringController(ForwardingController):
    """A Controller around another one, whose pictures have covers over typed secrets.

    A text that holds a secret is typed in parts, with looks at the screen between them, to learn what the secret looks
    like there. `hide` puts the placeholder of each secret in the place of its value.
    """

    def __init__(self, desktop: Controller, covers: Covers, hide: Callable[[str], str]) -> None:
        super().__init__(desktop)
        self._covers = covers
        self._hide = hide
        self._moving: tuple[Region, ...] = ()
        self._letters = Letters()
        self._may_watch = False
        self._unlearnt: Typing | None = None
        """A secret that was typed, or begun, and of which nothing has been seen yet."""

    def over(self, desktop: Controller) -> CoveringController:
        """Return eyes and hands over another way to the same desktop, which share what is covered."""
        return CoveringController(desktop, self._covers, self._hide)

    # --- eyes --------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """Return the screen now, covered. Raises DesktopError."""
        frame = self.desktop.frame()
        if self._has_watched(_pixels_in(frame)):
            frame = self.desktop.frame()
        self._moving = frame.moving
        return self._covered_frame(frame)

    def glance(self) -> Glance:
        """Return the pixels of the screen now, covered. Raises DesktopError."""
        glance = self.desktop.glance()
        if self._has_watched(_pixels_in(glance)):
            glance = self.desktop.glance()
        covered = self._covered(_pixels_in(glance))
        return glance if covered is None else replace(glance, pixels=covered)

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call, covered, oldest first."""
        return tuple(map(self._covered_frame, self.desktop.transient_frames()))

    def _has_watched(self, screen: Pixels) -> bool:
        """Watch for a caret beneath a cover, once after each action that changed the text there."""
        if self._may_watch and self._covers.watch(screen, self._caret_in):
            self._may_watch = False
            return True
        return False

    def _covered_frame(self, frame: Frame) -> Frame:
        covered = self._covered(_pixels_in(frame))
        if covered is None:
            return frame
        png = encode_png(covered)
        ref = FrameRef(hashlib.sha256(png).hexdigest(), frame.ref.width, frame.ref.height)
        return replace(frame, ref=ref, png=png, pixels=covered)

    def _covered(self, screen: Pixels) -> Pixels | None:
        typing = self._unlearnt
        if typing and screen.shape == typing.before.shape:
            late = replace(typing, looks=[screen & COLOUR_BITS])
            self._unlearnt = None if self._covers.learn(late, lambda _: None) else typing
        return self._covers.covered(screen)

    # --- hands -------------------------------------------------------------------------------------------------------

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError if it cannot be done, DesktopError if the desktop is gone."""
        match action:
            case TypeText(text=text):
                parts = parts_of(text, self._hide)
            case OpenAddress(address=address):
                parts = parts_of(address, self._hide)
            case _:
                parts = []
        if not isinstance(action, (Wait, TakeScreenshot)):
            self._unlearnt, self._may_watch = None, True
        if not any(part.mark for part in parts):
            self._perform_other(action)
        elif isinstance(action, OpenAddress):
            self.desktop.perform(KeyCombo((ADDRESS_BAR,)))
            self.desktop.settle(briefly=True)
            self._type(parts, press_enter=True, clear_first=False)
        elif isinstance(action, TypeText):
            if action.x is not None and action.y is not None:
                self.desktop.perform(Click(action.x, action.y))
            self._type(parts, press_enter=action.press_enter, clear_first=action.clear_first)

    def _perform_other(self, action: DesktopAction) -> None:
        """Carry out an action that holds no secret; it may be a letter of one."""
        is_letter = isinstance(action, TypeText) and action == TypeText(action.text) and len(action.text) == 1
        if isinstance(action, TypeText) and is_letter:
            self.desktop.settle(briefly=True)  # the letter before may not be there yet
            self._letters.add(action.text, self._look())
        elif action == KeyCombo(("backspace",)):
            self._letters.take_back()
        elif not isinstance(action, (Wait, TakeScreenshot)):
            self._letters.forget()
        self.desktop.perform(action)
        secret = self._letters.secret(self._hide) if is_letter else None
        if secret:
            before, last = (self._letters.screen_before(count) for count in (len(secret.text), 1))
            typing = self._unlearnt = Typing(secret, before, [last], self._restless(self._look()))
            typing.looks.append(self._answer(typing))
            self._letters.forget()
            if self._covers.learn(typing, self._caret_in):
                self._unlearnt = None

    def _type(self, parts: Sequence[Part], *, press_enter: bool, clear_first: bool) -> None:
        if clear_first:
            self.desktop.perform(TypeText("", clear_first=True))
        for part in parts:
            if part.mark:
                self._type_secret(part)
            else:
                self.desktop.perform(TypeText(part.text))
        if press_enter:
            self.desktop.perform(TypeText("", press_enter=True))
            self._unlearnt = None

    def _type_secret(self, secret: Part) -> None:
        """Type a secret, its last character after a look at the others: that one may lead to another screen."""
        self.desktop.settle(briefly=True)
        before = self._look()
        typing = self._unlearnt = Typing(secret, before, [], self._restless(before))
        for piece in filter(None, (secret.text[:-1], secret.text[-1:])):
            self.desktop.perform(TypeText(SecretText(piece, secret.mark)))
            typing.looks.append(self._answer(typing))
        if self._covers.learn(typing, self._caret_in):
            self._unlearnt = None

    def _answer(self, typing: Typing) -> Pixels:
        """Return the screen once it shows what was typed; wait longer for the first answer than for the second."""
        typed_s = time.monotonic()
        self.desktop.settle()
        seen = self._look()
        if not typing.looks and not differing(typing.before, seen).any():
            self.desktop.wait_changed(typed_s, _SHOWS_S)
            self.desktop.settle()
            seen = self._look()
        return seen

    def _look(self) -> Pixels:
        seen: Pixels = _pixels_in(self.desktop.glance()) & COLOUR_BITS
        return seen

    def _restless(self, first: Pixels) -> Mask:
        """Mark the moving regions in which more than a caret moves; text may be typed beside a caret."""
        marked = np.zeros(first.shape, np.bool_)
        if not self._moving:
            return marked
        self.desktop.wait_changed(time.monotonic(), _RESTLESS_S)
        moved = differing(first, self._look())
        for region in self._moving:
            if not within_caret(region.part_of(moved)):
                region.part_of(marked)[:] = True
        return marked

    def _caret_in(self, fields: Sequence[Region]) -> Region | None:
        """Watch the fields until a caret has blinked in one; return its box, or None where none does."""
        first, deadline = self._look(), Deadline(_BLINKS_S)
        while deadline.remaining_s:
            self.desktop.wait_changed(time.monotonic(), _LOOK_AGAIN_S)
            now = self._look()
            if now.shape != first.shape:
                return None
            for field in fields:
                for box in boxes_of(field.part_of(differing(first, now))):
                    if box.is_within(CARET_PX):
                        x, y = field.left, field.top
                        return Region(x + box.left, y + box.top, x + box.right, y + box.bottom)
        return None

    # --- what the desktop knows --------------------------------------------------------------------------------------

    def page_url(self) -> str:
        """Return the address of the browser's page; "" where nobody knows it."""
        return self.desktop.page_url() if isinstance(self.desktop, TellsUrl) else ""

    def elements_of(self, action: Action) -> Elements | None:
        """Return the elements that an action acts on; None if the desktop is to be asked."""
        return self.desktop.elements_of(action) if isinstance(self.desktop, TellsElements) else None

    @property
    def means(self) -> Means:
        """Return how the desktop takes input, where that is known."""
        return self.desktop.means if isinstance(self.desktop, TellsMeans) else Means()

    @property
    def doubles_only_near(self) -> bool:
        """Return whether no program there takes two clicks at different places for a double click."""
        return isinstance(self.desktop, ClickRules) and self.desktop.doubles_only_near


def _pixels_in(seen: Frame | Glance) -> Pixels:
    """Return the pixels of a frame or a glance. A PNG is decoded only where the pixels are not at hand."""
    if isinstance(seen.pixels, np.ndarray):
        return seen.pixels
    if isinstance(seen, Frame):
        image = Image.open(io.BytesIO(seen.png)).convert("RGBA")
        pixels: Pixels = np.frombuffer(image.tobytes("raw", "BGRA"), "<u4").reshape(image.height, image.width)
        return pixels
    raise TypeError(f"a glance must have its pixels as an array, got {seen.pixels!r}")
