"""A user's session on a desktop: their input is performed there, and kept as actions."""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from pytest_vnc_use import clock
from pytest_vnc_use.agent.act import Asker, ElementsOf, cut_names, no_elements
from pytest_vnc_use.backends.pixels import Pixels, boxes_of
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.deadline import Deadline, uncounted
from pytest_vnc_use.demonstrate.gestures import AGAIN_S, DemonstratedAction, Demonstration, GestureAction, Motion, near
from pytest_vnc_use.demonstrate.hovering import Rest, differing, needed, restored
from pytest_vnc_use.errors import ActionError, SettingsError
from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep, Screen
from pytest_vnc_use.recordings.images import pixels_in, pixels_of
from pytest_vnc_use.recordings.moving import Moving, stable_screen
from pytest_vnc_use.recordings.replay import gate_to
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import (
    Action,
    DesktopAction,
    Drag,
    Frame,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TypeText,
)
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.protocols import Controller

Notify = Callable[[str], None]
INEXACT = " (not straight, held still, or right after a click: it is recorded as a plain drag; look at its replay)"
HOVER_S = 0.5
"""The time without movement after which the pointer rests. Then it is moved there on the desktop."""
_CAPTURE_INTERVAL_S = 0.25
_MOVES_S, _SAMPLE_S = 1.35, 0.15
"""The time for which a moving part is watched to know it as a caret.

A part that does not change in that time counts as resting.
"""
_FRAMES = 8
"""The maximum frames that are kept. Between actions, the session captures the screen every `_CAPTURE_INTERVAL_S`."""
_AT_HAND = 4
"""The most screens whose pixels are kept as they are: decoding one takes longer than a click may."""
_REPEAT_S, _BESIDE_S = 30.0, 5.0
"""The longest wait for the screen before an action that is repeated; the same if only a clock or the like differs."""
_ECHO_PX = 80
"""The height up to which a change may be the echo of a text, or a pressed button."""


class ManualSession:
    """A session that performs a user's events on a desktop, and keeps the actions that they make.

    `notify` gets a message for the user, `show` the actions so far after each change. `controller` acts on
    the same desktop, and captures what may be recorded of it; it performs under `lock`.
    """

    def __init__(
        self,
        desktop: VNCController,
        notify: Notify,
        elements_of: ElementsOf = no_elements,
        controller: Controller | None = None,
        show: Callable[[Sequence[DemonstratedAction]], None] = lambda _: None,
    ) -> None:
        self.demonstration = Demonstration()
        self.lock = threading.Lock()
        self._elements_of = Asker(elements_of)
        self._desktop, self._notify, self._show = desktop, notify, show
        self._controller = controller or desktop
        self._size = desktop.size
        self._next_capture_at = 0.0
        self._motions: queue.SimpleQueue[tuple[Motion | None, float]] = queue.SimpleQueue()
        self._down: set[str] = set()
        self._frames: deque[Frame] = deque(maxlen=_FRAMES)
        self._shows_change = False
        """Whether the newest frame shows more change, since the growing action started, than its echo."""
        self._at_hand: deque[_Pixels] = deque()
        self._pressed_s = -math.inf
        """When a button was last pressed on the desktop."""
        self._at: tuple[int, int] | None = None
        """The pointer position on the desktop, without hovers."""
        self._hover_states: list[Rest] = []
        self._hovers: tuple[tuple[int, int], float] | None = None
        """The position of the user's pointer, and since when."""

    def receive(self, motion: Motion | None, at_s: float) -> None:
        """Take in an event; None means that no more come. Any thread may call it."""
        self._motions.put((motion, at_s))

    def run(self) -> Screen:
        """Perform events until no more come; return the screen at the end. Raises DesktopError, SettingsError."""
        while event := self._next():
            self._take(*event)
            self._show(self.demonstration.steps)
        self._do(self.demonstration.end(clock.monotonic()))
        screen = self._await_screen(None, partial(stable_screen, self._controller))
        self._check_size()
        return screen

    def repeat(self, actions: Sequence[DemonstratedAction]) -> bool:
        """Perform actions of an earlier session again, each on the screen that it was performed on.

        What differs elsewhere than around the action, and is no effect of the one before, is waited for and then left
        alone. Return whether all were performed: the first whose screen does not come is not, and the user continues
        there.
        """
        steps = tuple(RecordedStep(action=item.action, screen=item.screen) for item in actions)  # type: ignore[arg-type]  # a user makes no waits, and each was looked at
        for number, action in enumerate(actions):
            gate, deadline = gate_to(RecordedRun(task="", steps=steps, end=Screen()), number), Deadline(_REPEAT_S)
            while mismatch := gate.mismatch(pixels_in(self._controller.raw_frame())):
                if mismatch.is_beside and deadline.spent_s >= _BESIDE_S:
                    break
                if not deadline.remaining_s:
                    self._notify(f"step {number + 1} was not repeated: {mismatch.problem}. Continue from here")
                    return False
                self._controller.wait_changed(clock.monotonic(), _CAPTURE_INTERVAL_S)
            self._perform(action.action)  # type: ignore[arg-type]  # as above
            self.demonstration.steps.append(action)
            self._show(self.demonstration.steps)
            self._desktop.wait(AGAIN_S)  # no two clicks become one
        return True

    def _next(self) -> tuple[Motion, float] | None:
        while True:
            if self._motions.empty() and clock.monotonic() >= self._next_capture_at:  # a moving pointer has events too
                self._next_capture_at = clock.monotonic() + _CAPTURE_INTERVAL_S
                self._note_change()
                self._hover()
            try:
                with uncounted():  # what is done and looked at counts in the run's limit
                    motion, at_s = self._motions.get(timeout=_CAPTURE_INTERVAL_S)
            except queue.Empty:
                continue
            return (motion, at_s) if motion else None

    def _note_change(self) -> None:
        """Capture a changed screen before the next action, so that the action need not wait for that."""
        seen_s = self._frames[-1].taken_at if self._frames else -math.inf
        # `changed_since` leaves out a caret, but raises if the desktop is gone
        if not self._controller.changed_since(seen_s) and self._desktop.screen.changed_at <= seen_s:
            return
        self._frames.append(self._controller.frame())
        growing = self.demonstration.growing
        if growing and growing.screen:
            differs = differing(growing.screen, Screen(pixels=partial(pixels_in, self._frames[-1])))
            self._shows_change = any(box.bottom - box.top > _ECHO_PX for box in boxes_of(differs))

    def _take(self, motion: Motion, at_s: float) -> None:
        if isinstance(motion, Move):
            self._hovers = (motion.x, motion.y), at_s
        if isinstance(motion, Scroll) and not self._desktop.quirks.wheel:
            self._notify("not done: this VNC server has no wheel; scroll with the keys")
        elif not self._is_late_repetition(motion):
            if self._shows_change:
                self.demonstration.close()
            self._do(self.demonstration.actions(motion, at_s))

    def _is_late_repetition(self, motion: Motion) -> bool:
        """Return whether a held key has repeated while other events were still waiting."""
        repeated = isinstance(motion, KeyDown) and motion.key in self._down
        if isinstance(motion, KeyDown):
            self._down.add(motion.key)
        elif isinstance(motion, KeyUp):
            self._down.discard(motion.key)
        return repeated and not self._motions.empty()

    def _do(self, gestures: Iterable[GestureAction]) -> None:
        for gesture in gestures:
            if gesture.begins:
                gesture.begins.screen = self._await_screen(gesture.action, self._screen)
                gesture.begins.elements = self._elements_of(gesture.action)
                if isinstance(gesture.action, MouseDown):  # Two clicks in the recording must not become a double click.
                    self._desktop.wait(max(0.0, self._pressed_s + AGAIN_S - clock.monotonic()))
            elif isinstance(gesture.action, MouseUp) and isinstance(
                (drag := self.demonstration.steps[-1]).action, Drag
            ):
                both = drag.elements or (None,), self._elements_of(gesture.action) or (None,)
                drag.elements = both[0] + both[1] if both != ((None,), (None,)) else ()
            try:
                self._perform(gesture.action)
            except ActionError as exc:
                self._notify(f"not done: {exc}")
                self.demonstration.take_back(gesture.action)

    def _perform(self, action: DesktopAction) -> None:
        if isinstance(action, MouseDown):
            self._pressed_s = clock.monotonic()
        with self.lock:
            self._controller.perform(action)
        self._discard_frames()
        self._at = next(iter(points(action)[-1:]), self._at)

    def _discard_frames(self) -> None:
        self._frames.clear()
        self._shows_change, self._next_capture_at = False, clock.monotonic() + _CAPTURE_INTERVAL_S

    def _hover(self) -> None:
        """Move the pointer to where the user's is stable, so that anything that opens on hovering opens."""
        if self._hovers is None or self._at is None or not self.demonstration.may_hover:
            return
        position, since = self._hovers
        is_current = near(position, self._hover_states[-1].at if self._hover_states else self._at)
        if not is_current and clock.monotonic() - since >= HOVER_S:
            self._hover_states.append(Rest(position, self._screen()))
            self._controller.perform(Move(*position))
            self._discard_frames()

    def _await_screen(self, action: Action | None, capture: Callable[[], Screen]) -> Screen:
        """Return the screen as a replay will see it: without the hovers that have no effect."""
        hovers, self._hover_states = self._hover_states, []
        if not hovers:
            return capture()
        resting = self._screen()
        kept = needed(hovers, action, resting) if action else []
        self.demonstration.insert([DemonstratedAction(Move(*hover.at), hover.screen) for hover in kept])
        left_out = hovers[hovers.index(kept[-1]) + 1 :] if kept else hovers
        self._at = kept[-1].at if kept else self._at
        if not left_out or self._at is None or not differing(left_out[0].screen, resting).any():
            return resting if action else capture()  # At the end, wait until it is stable.
        self._perform(Move(*self._at))
        return restored(left_out[0].screen, resting, capture())

    def _screen(self) -> Screen:
        """Return the screen that the user sees, once it is stable."""
        self._controller.settle()
        if not self._frames or not self._is_current(self._frames[-1]):
            self._frames.append(self._controller.frame())
        frame = self._frames[-1]
        self._check_size()
        moving = Moving(frame)
        for earlier in [*self._frames][:-1]:
            if not self._controller.changed_since(earlier.taken_at):  # Earlier frames show another screen.
                moving.add(earlier)
        deadline = Deadline(_MOVES_S)
        while not moving.is_known and deadline.remaining_s:
            self._controller.wait_changed(clock.monotonic(), _SAMPLE_S)
            moving.add(self._controller.raw_frame())
        return Screen(dynamic=tuple(moving.parts()), pixels=self._pixels_of(frame))

    def _is_current(self, frame: Frame) -> bool:
        """Return whether the screen is still as in a frame, but for the regions that moved then."""
        if self._desktop.screen.changed_at <= frame.taken_at:
            return True
        return bool(frame.moving) and not self._controller.changed_since(frame.taken_at)

    def _pixels_of(self, frame: Frame) -> _Pixels:
        self._at_hand.append(_Pixels(frame))
        if len(self._at_hand) > _AT_HAND:
            self._at_hand.popleft().frame = None
        return self._at_hand[-1]

    def _check_size(self) -> None:
        if self._desktop.size != self._size:
            raise SettingsError(
                f"the desktop's size changed from {self._size} to {self._desktop.size}, but a recording must have "
                "one size"
            )


class _Pixels:
    """The pixels of a frame. Those of the newest are at hand; of all others, which are many, only the PNG is kept."""

    def __init__(self, frame: Frame) -> None:
        self.frame: Frame | None = frame
        self._png = frame.png

    def __call__(self) -> Pixels:
        frame = self.frame
        return pixels_in(frame) if frame else pixels_of(self._png)


def recorded_steps(
    actions: Iterable[DemonstratedAction], declared: Redactor, ambient: Redactor
) -> tuple[RecordedStep, ...]:
    """Return a user's actions as recorded. The `declared` secrets may be typed, the `ambient` ones may not.

    Raises SettingsError where a secret would be recorded.
    """
    steps = tuple(
        RecordedStep(
            action=_without_secrets(number, step.action, declared, ambient),  # type: ignore[arg-type]  # a user makes no waits
            screen=step.screen,
            elements=cut_names(ambient.hide_in(declared.hide_in(step.elements))),
        )
        for number, step in enumerate(_with_whole_secrets(actions, declared, ambient), 1)
        if step.screen is not None
    )
    _check_pieces(steps, declared)
    return steps


def _with_whole_secrets(
    actions: Iterable[DemonstratedAction], declared: Redactor, ambient: Redactor
) -> Iterator[DemonstratedAction]:
    """Yield the actions; texts in a row that only together contain a secret become one text."""
    for is_text, run in groupby(actions, lambda step: isinstance(step.action, TypeText)):
        pieces = [*run]
        text = _typed(pieces)
        if is_text and ambient.hide(declared.hide(text)) != text:
            pieces[0].action = TypeText(text)
            del pieces[1:]
        yield from pieces


def _without_secrets(number: int, action: Action, declared: Redactor, ambient: Redactor) -> Action:
    """Return the action without secrets. Raises SettingsError if it contains one that was not declared."""
    if not isinstance(action, TypeText):
        return action
    text = declared.hide(action.text)
    if (hidden := ambient.hide(text)) != text:
        name = hidden.partition("<secret:")[2].partition(">")[0]
        raise SettingsError(
            f"step {number} types the value of {name!r}, so nothing is written. Declare it: "
            f"--secret {name}, or secrets={name!r} in the marker"
        )
    return replace(action, text=text)


def _check_pieces(steps: Sequence[RecordedStep], declared: Redactor) -> None:
    """Raise SettingsError if a secret was typed in several pieces, because no single piece can be recognised."""
    without_deleted = ""
    for step in steps:
        if step.action == KeyCombo(("backspace",)):
            without_deleted = without_deleted[:-1]
        else:
            without_deleted += _typed([step])
    if any(declared.hide(text) != text for text in (_typed(steps), without_deleted)):
        raise SettingsError("a secret was typed in several pieces, so nothing is written. Type it in one go")


def _typed(steps: Iterable[DemonstratedAction | RecordedStep]) -> str:
    return "".join(step.action.text for step in steps if isinstance(step.action, TypeText))
