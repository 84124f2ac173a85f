"""A Controller whose pictures never show a typed secret."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from pytest_vnc_use import clock
from pytest_vnc_use.backends.covers.carets import Caret, CaretWatch
from pytest_vnc_use.backends.covers.changes import differing
from pytest_vnc_use.backends.covers.covers import Covers, Typing
from pytest_vnc_use.backends.covers.letters import Letters
from pytest_vnc_use.backends.covers.typed_text import TypedPart, parts_of
from pytest_vnc_use.backends.covers.unrest import Unrest
from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels, encode_png
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.keyboard.keystrokes import ADDRESS_BAR, Means, TellsMeans
from pytest_vnc_use.same_screen import within_caret
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
"""The time in which a program shows something of a secret; a prompt for a password shows nothing."""
_GROWS_S = 1.0
"""The time without a change after which a readable text counts as complete."""
_BLINKS_S = 1.6
"""The time in which a caret blinks once: 1 s in Qt and Chromium, 1.2 s in GTK."""
_LOOK_AGAIN_S = 0.05
_RESTLESS_S, _MOST_RESTLESS_S = 1.2, 3.2
"""The time of the watch for moving parts, before a secret is typed; the second number holds if a part moved."""
_MOST_WATCHES = 3
"""The most watches for a caret after an action: one may miss it, or the text may change again."""
_SLOW_S = 5.0
"""The longest wait for the letters before the last one."""


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
        self._letters: Letters | None = None
        self._watches = 0
        self._open: Typing | None = None
        """The secret that was typed last, or begun, until the next action: the program may show more of it late."""
        self._is_learnt = False
        self._typed_at = (math.inf, -math.inf)
        """The moments when the action with the last secret began, and when its look was learnt, on the monotonic clock.
        """

    def over(self, desktop: Controller) -> CoveringController:
        """Return a controller over another connection to the same desktop, with the same covers."""
        return CoveringController(desktop, self._covers, self._hide)

    # --- eyes --------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """Return the screen now, covered. Raises DesktopError."""
        frame = self.desktop.frame()
        if self._has_watched(_pixels_in(frame)):
            frame = self.desktop.frame()
        self._moving = frame.moving
        return _with_pixels(frame, self._covers.covered(_pixels_in(frame)))

    def glance(self) -> Glance:
        """Return the pixels of the screen now, covered. Raises DesktopError."""
        glance = self.desktop.glance()
        if self._has_watched(_pixels_in(glance)):
            glance = self.desktop.glance()
        covered = self._covers.covered(_pixels_in(glance))
        return glance if covered is None else replace(glance, pixels=covered)

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call, covered, oldest first.

        A moment while a secret was typed has the covers of the whole secret, so that the program's speed reveals
        nothing.
        """
        return tuple(map(self._covered_moment, self.desktop.transient_frames()))

    def _has_watched(self, screen: Pixels) -> bool:
        """Learn more of a secret that shows late; watch for a caret after an action that changed text."""
        typing = self._open
        if typing and screen.shape == typing.before.shape and (not self._is_learnt or self._covers.has_grown(screen)):
            self._is_learnt = self._covers.learn(replace(typing, looks=[screen & COLOUR_BITS]), self._watch_fields)
            return self._is_learnt
        if self._watches and self._covers.watch(screen, self._watch_fields):
            self._watches -= 1
            return True
        return False

    def _covered_moment(self, frame: Frame) -> Frame:
        painted = self._covers.covered(_pixels_in(frame))
        if self._typed_at[0] <= frame.taken_at <= self._typed_at[1]:
            painted = self._covers.as_learnt(_pixels_in(frame) if painted is None else painted)
        return _with_pixels(frame, painted)

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
            self._open, self._watches = None, _MOST_WATCHES
        if any(part.mark for part in parts):
            self._typed_at = clock.monotonic(), math.inf
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
            self._perform_letter(action)
            return
        if action == KeyCombo(("backspace",)) and self._letters:
            self._letters.take_back()
        elif not isinstance(action, (Wait, TakeScreenshot)):
            self._letters = None
        self.desktop.perform(action)

    def _perform_letter(self, letter: TypeText) -> None:
        """Type one letter; learn the secret if it is the last letter of one."""
        self.desktop.settle(briefly=True)
        if not self._letters:
            self._letters = Letters(self._unrest())
        self._await_letter(self._letters)  # the letter before may not be there yet
        self._letters.add(letter.text, self._look())
        self.desktop.perform(letter)
        if secret := self._letters.secret(self._hide):
            letters, self._letters = self._letters, None
            self._typed_at = clock.monotonic(), math.inf
            before, last = (letters.screen_before(count) for count in (len(secret.text), 1))
            self._await_letter(letters)
            typing = Typing(secret, before, [last], letters.unrest)
            typing.looks.append(self._answer(typing))
            self._learn(typing)

    def _await_letter(self, letters: Letters) -> None:
        """Wait until the last letter is on the screen, unless an earlier one did not appear."""
        if letters and letters.are_shown:
            letters.are_shown = self._await_new(letters.screen_before(1), letters.unrest)

    def _type(self, parts: Sequence[TypedPart], *, press_enter: bool, clear_first: bool) -> None:
        if clear_first:
            self.desktop.perform(TypeText("", clear_first=True))
        for number, part in enumerate(parts, 1):
            if part.mark:
                self._type_secret(part)
            elif number < len(parts):
                self._type_before_secret(part)
            else:
                self.desktop.perform(TypeText(part.text))
        if press_enter:
            self.desktop.perform(TypeText("", press_enter=True))
            self._open = None

    def _type_before_secret(self, text: TypedPart) -> None:
        """Type a text that a secret follows, and wait for it: what appears after the secret was begun is covered."""
        self.desktop.settle(briefly=True)
        unrest = self._unrest()
        self.desktop.perform(TypeText(text.text))
        self._answer(Typing(text, unrest.newest, [], unrest))

    def _type_secret(self, secret: TypedPart) -> None:
        """Type a secret; look at the screen before its last character, because that may lead to another screen."""
        self.desktop.settle(briefly=True)
        unrest = self._unrest()
        typing = self._open = Typing(secret, unrest.newest, [], unrest)
        for piece in filter(None, (secret.text[:-1], secret.text[-1:])):
            self.desktop.perform(TypeText(SecretText(piece, secret.mark)))
            typing.looks.append(self._answer(typing))
        self._learn(typing)

    def _learn(self, typing: Typing) -> None:
        self._open = typing
        self._is_learnt = self._covers.learn(typing, self._watch_fields)
        self._typed_at = self._typed_at[0], clock.monotonic()

    def _answer(self, typing: Typing) -> Pixels:
        """Return the screen once it shows the typed text; wait longer for the first answer than for the second."""
        deadline = Deadline(_SLOW_S)
        self.desktop.settle()
        if not typing.looks:
            self._await_new(typing.before, typing.unrest)
        seen = self._look()
        while deadline.remaining_s:
            self.desktop.settle()
            before, seen = seen, self._look()
            if before.shape != seen.shape or within_caret(differing(before, seen)):
                break
        return seen

    def _await_new(self, before: Pixels, unrest: Unrest) -> bool:
        """Wait until the screen shows anything new; return whether it does. A prompt for a password shows nothing."""
        deadline = Deadline(_SHOWS_S)
        while not (is_new := unrest.is_new(before, self._look())) and deadline.remaining_s:
            self.desktop.wait_changed(clock.monotonic(), _LOOK_AGAIN_S)
        return is_new

    def _look(self) -> Pixels:
        seen: Pixels = _pixels_in(self.desktop.glance()) & COLOUR_BITS
        return seen

    def _unrest(self) -> Unrest:
        """Watch parts that move by themselves; watch longer if one moved."""
        unrest = Unrest(self._look(), _RESTLESS_S)
        is_quiet = not self._moving and not self.desktop.changed_since(clock.monotonic() - _RESTLESS_S)
        deadline = Deadline(0.0 if is_quiet else _MOST_RESTLESS_S)
        while deadline.remaining_s and not (unrest.is_known and deadline.spent_s > _RESTLESS_S):
            self.desktop.wait_changed(clock.monotonic(), _LOOK_AGAIN_S)
            unrest.look(self._look(), clock.monotonic())
        return unrest

    def _watch_fields(self, fields: Sequence[Region]) -> tuple[Caret | None, Pixels]:
        """Watch fields until a caret has blinked in one; return it, None if there is none, and the screen."""
        watch, deadline, screen = CaretWatch(fields), Deadline(_BLINKS_S), self._look()
        while deadline.remaining_s and not (watch.caret and deadline.spent_s > _GROWS_S):
            watch.look(screen)
            self.desktop.wait_changed(clock.monotonic(), _LOOK_AGAIN_S)
            now = self._look()
            if now.shape != screen.shape:
                return None, now
            screen = now
        return watch.caret, screen

    # --- what the desktop knows --------------------------------------------------------------------------------------

    def page_url(self) -> str:
        """Return the address of the browser's page; "" if it is unknown."""
        return self.desktop.page_url() if isinstance(self.desktop, TellsUrl) else ""

    def elements_of(self, action: Action) -> Elements | None:
        """Return the elements that an action acts on; None if the desktop must be asked."""
        return self.desktop.elements_of(action) if isinstance(self.desktop, TellsElements) else None

    @property
    def means(self) -> Means:
        """Return how the desktop takes input, if that is known."""
        return self.desktop.means if isinstance(self.desktop, TellsMeans) else Means()

    @property
    def doubles_only_near(self) -> bool:
        """Return whether no program there takes two clicks at different places for a double click."""
        return isinstance(self.desktop, ClickRules) and self.desktop.doubles_only_near


def _with_pixels(frame: Frame, painted: Pixels | None) -> Frame:
    if painted is None:
        return frame
    png = encode_png(painted)
    ref = FrameRef(hashlib.sha256(png).hexdigest(), frame.ref.width, frame.ref.height)
    return replace(frame, ref=ref, png=png, pixels=painted)


def _pixels_in(seen: Frame | Glance) -> Pixels:
    """Return the pixels of a frame or a glance. A PNG is decoded only if the pixels are not at hand."""
    if isinstance(seen.pixels, np.ndarray):
        return seen.pixels
    if isinstance(seen, Frame):
        image = Image.open(io.BytesIO(seen.png)).convert("RGBA")
        pixels: Pixels = np.frombuffer(image.tobytes("raw", "BGRA"), "<u4").reshape(image.height, image.width)
        return pixels
    raise TypeError(f"a glance must have its pixels as an array, got {seen.pixels!r}")
