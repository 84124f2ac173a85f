"""A user's session on a desktop: their input is performed there, and kept as
actions.
"""

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
from pytest_vnc_use.agent.act import Asker, cut_names, no_elements
from pytest_vnc_use.backends.pixels import Pixels, boxes_of
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.deadline import Deadline, uncounted
from pytest_vnc_use.demonstrate.gestures import (
    AGAIN_S,
    DemonstratedAction,
    Demonstration,
    GestureAction,
    Motion,
    near,
)
from pytest_vnc_use.demonstrate.hovering import Rest, differing, needed, restored
from pytest_vnc_use.errors import ActionError, SettingsError
from pytest_vnc_use.recordings.course import gate_to
from pytest_vnc_use.recordings.format import RecordedStep, Screen, Segment
from pytest_vnc_use.recordings.gates import Gate
from pytest_vnc_use.recordings.images import pixels_in, pixels_of
from pytest_vnc_use.recordings.moving import (
    MovingRegions,
    appeared_after,
    stable_screen,
)
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.types import (
    Action,
    DesktopAction,
    Drag,
    Frame,
    KeyCombo,
    MouseDown,
    MouseUp,
    Move,
    Region,
    Scroll,
    TypeText,
)
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.elements import Elements, ElementsOf
from pytest_vnc_use.types.protocols import Controller

Notify = Callable[[str], None]
INEXACT = (
    " (not straight, held still, or right after a click: it is recorded as a plain"
    " drag; look at its replay)"
)
HOVER_S = 0.5
"""The time without movement after which the pointer rests. Then it is moved there on
the desktop.
"""
_HOVER_SHOWN_S = 1.0
"""The time after a hover within which a change is its effect, such as a highlight or a
tooltip.
"""
_CAPTURE_INTERVAL_S = 0.25
_MOVES_S = 1.35
"""The time for which a moving part is watched to know it as a caret.

A part that does not change in that time is taken as still.
"""
_SAMPLE_S = 0.15
"""The longest time between two looks at a moving part."""
_FRAMES = 8
"""The maximum frames that are kept. Between actions, the session captures the screen
every `_CAPTURE_INTERVAL_S`.
"""
_AT_HAND = 4
"""The maximum screens whose pixels stay decoded: decoding one takes longer than a click
may.
"""
_REPEAT_S = 30.0
"""The longest wait for the screen before an action that is repeated."""
_BESIDE_S = 5.0
"""The same if only a clock or the like differs."""
_ECHO_PX = 80
"""The height up to which a change may be the echo of a text, or a pressed button."""


class ManualSession:
    """A session that performs a user's events on a desktop, and keeps the actions that
    they make.

    `notify` gets a message for the user, `show` the actions so far after each change,
    and `keep` the same whenever the user does nothing, so that it may take a while.
    `controller` acts on the same desktop, and captures what may be recorded of it; it
    performs under `lock`.
    """

    def __init__(
        self,
        desktop: VNCController,
        notify: Notify,
        elements_of: ElementsOf = no_elements,
        controller: Controller | None = None,
        show: Callable[[Sequence[DemonstratedAction]], None] = lambda _: None,
        keep: Callable[[Sequence[DemonstratedAction]], None] = lambda _: None,
    ) -> None:
        self.demonstration = Demonstration()
        self.lock = threading.Lock()
        self._elements_of = Asker(elements_of)
        self._desktop = desktop
        self._notify = notify
        self._show = show
        self._keep = keep
        self._controller = controller or desktop
        self._size = desktop.size
        self._next_capture_at = 0.0
        self._motions: queue.SimpleQueue[tuple[Motion | None, float]] = (
            queue.SimpleQueue()
        )
        self._frames: deque[Frame] = deque(maxlen=_FRAMES)
        self._shows_change = False
        """Whether the newest frame shows more change, since the growing action started,
        than its echo.
        """
        self._at_hand: deque[FramePixels] = deque()
        self._acted_at: float | None = None
        """When the user's newest action was performed; None before the first."""
        self._answered_s = 0.0
        """How long after it the screen last changed by it, and not by a hover."""
        self._hovered_at = -math.inf
        """When the pointer was last moved without an action."""
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

    @property
    def is_behind(self) -> bool:
        """Return whether events are still waiting: what a held key repeats is then
        late.
        """
        return not self._motions.empty()

    def run(self) -> Screen:
        """Perform events until no more come; return the screen at the end. Raises
        DesktopError, SettingsError.
        """
        while event := self._next():
            motion, at_s = event
            self._take(motion, at_s)
            self._show(self.demonstration.steps)
        last = self.demonstration.end(clock.monotonic())
        self._do(last)
        capture = partial(stable_screen, self._controller)
        screen = self._await_screen(None, capture)
        self._check_size()
        return screen

    def repeat(
        self, actions: Sequence[DemonstratedAction], masks: tuple[Region, ...] = ()
    ) -> bool:
        """Perform actions of an earlier session again, each on the screen that it was
        performed on, but for masks.

        What differs elsewhere than around the action, and is no effect of the one
        before, is waited for and then left alone: each screen is captured again. Return
        whether all were performed: the first whose screen does not come is not, and the
        user continues there.
        """
        # the types allow a wait and a missing screen: actions of a user have neither
        steps = tuple(
            RecordedStep(action=item.action, screen=item.screen)  # type: ignore[arg-type]
            for item in actions
        )
        segment = Segment(task="", steps=steps, end=Screen())
        for number, action in enumerate(actions):
            problem = self._await_gate(gate_to(segment, number, masks))
            if problem:
                self._notify(
                    f"step {number + 1} was not repeated: {problem}. Continue from here"
                )
                return False
            screen = self._await_screen(action.action, self._screen)
            self._perform(action.action)  # type: ignore[arg-type]  # as above
            self._note_acted()
            self.demonstration.steps.append(replace(action, screen=screen))
            self._show(self.demonstration.steps)
            self._desktop.wait(AGAIN_S)  # no two clicks become one
        return True

    def _await_gate(self, gate: Gate) -> str:
        """Wait for the screen before an action that is repeated; return what differs,
        "" if nothing does, or only what is beside the action.
        """
        deadline = Deadline(_REPEAT_S)
        while True:
            seen = self._controller.raw_frame()
            mismatch = gate.mismatch(pixels_in(seen))
            if mismatch is None:
                return ""
            if mismatch.is_beside and deadline.spent_s >= _BESIDE_S:
                return ""
            if not deadline.remaining_s:
                return mismatch.problem
            self._controller.wait_changed(clock.monotonic(), _CAPTURE_INTERVAL_S)

    def _next(self) -> tuple[Motion, float] | None:
        while True:
            is_due = clock.monotonic() >= self._next_capture_at
            # a moving pointer has events too
            if is_due and self._motions.empty():
                self._next_capture_at = clock.monotonic() + _CAPTURE_INTERVAL_S
                self._note_change()
                self._hover()
                self._keep(self.demonstration.steps)
            try:
                # the run's time limit counts actions and captures, not this wait
                with uncounted():
                    motion, at_s = self._motions.get(timeout=_CAPTURE_INTERVAL_S)
            except queue.Empty:
                continue
            return (motion, at_s) if motion else None

    def _note_change(self) -> None:
        """Capture a changed screen before the next action, so that the action need not
        wait for that.
        """
        seen_s = self._frames[-1].taken_at if self._frames else -math.inf
        # `changed_since` leaves out a caret, but raises if the desktop is gone
        has_changed = self._controller.changed_since(seen_s)
        if not has_changed and self._desktop.screen.changed_at <= seen_s:
            return
        frame = self._controller.frame()
        self._frames.append(frame)
        growing = self.demonstration.growing
        if growing and growing.screen:
            now = Screen(pixels=partial(pixels_in, frame))
            boxes = boxes_of(differing(growing.screen, now))
            heights = [box.height for box in boxes]
            self._shows_change = max(heights, default=0) > _ECHO_PX

    def _take(self, motion: Motion, at_s: float) -> None:
        if isinstance(motion, Move):
            self._hovers = (motion.x, motion.y), at_s
        if isinstance(motion, Scroll) and not self._desktop.quirks.wheel:
            self._notify("not done: this VNC server has no wheel; scroll with the keys")
            return
        if self._shows_change:
            self.demonstration.close()
        self._do(self.demonstration.actions(motion, at_s))

    def _do(self, gestures: Iterable[GestureAction]) -> None:
        for gesture in gestures:
            action = gesture.action
            dropped_on: Elements = ()
            if gesture.begins:
                gesture.begins.screen = self._await_screen(action, self._screen)
                gesture.begins.elements = self._elements_of(action)
                # Two clicks in the recording must not become a double click.
                if isinstance(action, MouseDown):
                    left_s = self._pressed_s + AGAIN_S - clock.monotonic()
                    self._desktop.wait(max(0.0, left_s))
            elif isinstance(action, MouseUp) and self._is_drag:
                dropped_on = self._elements_of(action)
            try:
                self._perform(action)
            except ActionError as exc:
                self._notify(f"not done: {exc}")
                self.demonstration.take_back(action)
                continue
            self._note_acted()
            if isinstance(action, MouseUp):
                self._name_target(dropped_on)

    @property
    def _is_drag(self) -> bool:
        return isinstance(self.demonstration.steps[-1].action, Drag)

    def _name_target(self, dropped_on: Elements) -> None:
        """Complete the elements of the last action, whose button was released: those
        where a drag ended, and an option that only its choice names.
        """
        step = self.demonstration.steps[-1]
        target = dropped_on
        if self._elements_of.is_waiting:
            self._controller.settle()
            target = self._elements_of.after()
        if self._is_drag:
            dragged = step.elements or (None,)
            both = (*dragged, *(target or (None,)))
            step.elements = both if any(both) else ()
        elif target:
            step.elements = target

    def _perform(self, action: DesktopAction) -> None:
        if isinstance(action, MouseDown):
            self._pressed_s = clock.monotonic()
        with self.lock:
            self._controller.perform(action)
        self._discard_frames()
        if targets := points(action):
            self._at = targets[-1]

    def _discard_frames(self) -> None:
        self._frames.clear()
        self._shows_change = False
        self._next_capture_at = clock.monotonic() + _CAPTURE_INTERVAL_S

    def _hover(self) -> None:
        """Move the pointer to where the user's is stable, so that anything that opens
        on hovering opens.
        """
        if self._hovers is None or self._at is None:
            return
        position, since = self._hovers
        has_rested = clock.monotonic() - since >= HOVER_S
        resting_at = self._hover_states[-1].at if self._hover_states else self._at
        has_moved = not near(position, resting_at)
        if self.demonstration.may_hover and has_moved and has_rested:
            self._note_answer()
            resting = self._answered(self._screen())
            self._hover_states.append(Rest(position, resting))
            self._controller.perform(Move(*position))
            self._hovered_at = clock.monotonic()
            self._discard_frames()

    def _note_acted(self) -> None:
        self._acted_at = clock.monotonic()
        self._answered_s = 0.0

    def _note_answer(self) -> None:
        """Note when the newest action was answered, as far as the screen shows it: what
        changes soon after a hover is taken for its effect.
        """
        if self._acted_at is None:
            return
        appeared_s = appeared_after(self._controller, self._acted_at)
        if self._acted_at + appeared_s > self._hovered_at + _HOVER_SHOWN_S:
            self._answered_s = appeared_s

    def _await_screen(
        self, action: Action | None, capture: Callable[[], Screen]
    ) -> Screen:
        """Return the screen as a replay will see it, and when the newest action was
        answered with it.
        """
        self._note_answer()
        screen = self._without_hovers(action, capture)
        self._note_answer()
        return self._answered(screen)

    def _answered(self, screen: Screen) -> Screen:
        """Return the screen with the time when the newest action was answered."""
        appeared_s = float(round(self._answered_s))
        return screen.model_copy(update={"appeared_s": appeared_s})

    def _without_hovers(
        self, action: Action | None, capture: Callable[[], Screen]
    ) -> Screen:
        """Return the screen without the effects of hovers that the action does not
        need.
        """
        hovers = self._hover_states
        self._hover_states = []
        if not hovers:
            return capture()
        resting = self._screen()
        kept = needed(hovers, action, resting) if action else []
        moves = []
        for hover in kept:
            moves.append(DemonstratedAction(Move(*hover.at), hover.screen))
        self.demonstration.insert(moves)
        left_out = hovers
        if kept:
            last = kept[-1]
            left_out = hovers[hovers.index(last) + 1 :]
            self._at = last.at
        has_effect = left_out and differing(left_out[0].screen, resting).any()
        if self._at is None or not has_effect:
            # At the end, wait until it is stable.
            return resting if action else capture()
        self._perform(Move(*self._at))
        self._hovered_at = clock.monotonic()
        return restored(left_out[0].screen, resting, capture())

    def _screen(self) -> Screen:
        """Return the screen that the user sees, once it is stable."""
        self._controller.settle()
        newest = self._frames[-1] if self._frames else None
        if newest is None or not self._is_current(newest):
            self._frames.append(self._controller.frame())
        *before, frame = self._frames
        self._check_size()
        moving = MovingRegions(frame)
        for earlier in before:
            # Earlier frames show another screen.
            if not self._controller.changed_since(earlier.taken_at):
                moving.add(earlier)
        deadline = Deadline(_MOVES_S)
        while not moving.has_only_carets and deadline.remaining_s:
            self._controller.wait_changed(clock.monotonic(), _SAMPLE_S)
            moving.add(self._controller.raw_frame())
        if moving.is_outdated:
            frame = self._controller.frame()
            self._frames.append(frame)
        parts = tuple(moving.dynamic_regions())
        return Screen(dynamic=parts, pixels=self._pixels_of(frame))

    def _is_current(self, frame: Frame) -> bool:
        """Return whether the screen is still as in a frame, but for the regions that
        moved then.
        """
        if self._desktop.screen.changed_at <= frame.taken_at:
            return True
        if not frame.moving:
            return False
        return not self._controller.changed_since(frame.taken_at)

    def _pixels_of(self, frame: Frame) -> FramePixels:
        self._at_hand.append(FramePixels(frame))
        if len(self._at_hand) > _AT_HAND:
            self._at_hand.popleft().release()
        return self._at_hand[-1]

    def _check_size(self) -> None:
        if self._desktop.size != self._size:
            raise SettingsError(
                f"the desktop's size changed from {self._size} to {self._desktop.size},"
                " but a recording must have one size"
            )


class FramePixels:
    """The pixels of a frame. Those of the newest frames stay decoded; of the others,
    which are many, only the PNG is kept.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = Frame(frame.ref, frame.png)
        """The image alone."""
        self._at_hand: Frame | None = frame

    def __call__(self) -> Pixels:
        """Return the pixels, from the PNG if they were not kept."""
        frame = self._at_hand
        return pixels_in(frame) if frame else pixels_of(self.frame.png)

    def release(self) -> None:
        """Keep only the PNG."""
        self._at_hand = None


def recorded_steps(
    actions: Iterable[DemonstratedAction], declared: Redactor, ambient: Redactor
) -> tuple[RecordedStep, ...]:
    """Return a user's actions as recorded. The `declared` secrets may be typed, the
    `ambient` ones may not.

    Raises SettingsError where a secret would be recorded.
    """
    steps = []
    whole = _with_whole_secrets(actions, declared, ambient)
    for number, step in enumerate(whole, 1):
        if step.screen is None:
            continue
        action = _without_secrets(number, step.action, declared, ambient)
        hidden = ambient.hide_in(declared.hide_in(step.elements))
        elements = cut_names(hidden)
        # the type allows a wait: actions of a user have none
        steps.append(
            RecordedStep(action=action, screen=step.screen, elements=elements)  # type: ignore[arg-type]
        )
    _check_pieces(steps, declared)
    return tuple(steps)


def _with_whole_secrets(
    actions: Iterable[DemonstratedAction], declared: Redactor, ambient: Redactor
) -> Iterator[DemonstratedAction]:
    """Yield the actions; texts in a row that only together contain a secret become one
    text.
    """
    runs = groupby(actions, lambda step: isinstance(step.action, TypeText))
    for is_text, run in runs:
        pieces = [*run]
        text = _typed(pieces)
        hidden = ambient.hide(declared.hide(text))
        if is_text and hidden != text:
            pieces[0].action = TypeText(text)
            del pieces[1:]
        yield from pieces


def _without_secrets(
    number: int, action: Action, declared: Redactor, ambient: Redactor
) -> Action:
    """Return the action without secrets. Raises SettingsError if it contains one that
    was not declared.
    """
    if not isinstance(action, TypeText):
        return action
    text = declared.hide(action.text)
    hidden = ambient.hide(text)
    if hidden != text:
        name = hidden.partition("<secret:")[2].partition(">")[0]
        raise SettingsError(
            f"step {number} types the value of {name!r}, so nothing is written. Declare"
            f" it: secrets={name!r} in the marker, or for all tests --vnc-secret={name}"
            f" (cua-vnc: --secret {name})"
        )
    return replace(action, text=text)


def _check_pieces(steps: Sequence[RecordedStep], declared: Redactor) -> None:
    """Raise SettingsError if a secret was typed in several pieces, because no single
    piece can be recognised.
    """
    without_deleted = ""
    for step in steps:
        if step.action == KeyCombo(("backspace",)):
            without_deleted = without_deleted[:-1]
        else:
            without_deleted += _typed([step])
    texts = (_typed(steps), without_deleted)
    if any(declared.hide(text) != text for text in texts):
        raise SettingsError(
            "a secret was typed in several pieces, so nothing is written. Type it in"
            " one go"
        )


def _typed(steps: Iterable[DemonstratedAction | RecordedStep]) -> str:
    """Return all texts of some steps as one."""
    text = ""
    for step in steps:
        if isinstance(step.action, TypeText):
            text += step.action.text
    return text
