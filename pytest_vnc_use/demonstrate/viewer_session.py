"""A person's session in a VNC viewer: their input is sent to a desktop, and kept as actions."""

from __future__ import annotations

import math
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from pytest_vnc_use import clock
from pytest_vnc_use.agent.act import Asker, ElementsOf, cut_names, no_elements
from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.backends.viewer_server import ViewerServer
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.demonstrate.gestures import AGAIN_S, DemonstratedAction, Demonstration, GestureAction, Motion, near
from pytest_vnc_use.demonstrate.hovering import Rest, differing, needed, restored
from pytest_vnc_use.errors import ActionError, SettingsError
from pytest_vnc_use.recordings.format import PERSON, RecordedRun, RecordedStep, Screen
from pytest_vnc_use.recordings.gates import Moving, screen_at_rest
from pytest_vnc_use.recordings.images import pixels_of
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.runs.transcript import action_line
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
from pytest_vnc_use.types.verdicts import VIEWER_OPEN

Say = Callable[[str], None]
_INEXACT = "  (not straight, held still, or right after a click: it is recorded as a plain drag; look at its replay)"
HOVER_S = 0.5
"""The time without movement after which the pointer rests. Then it is moved there on the desktop."""
_LOOK_AGAIN_S = 0.25
_MOVES_S, _SAMPLE_S = 1.35, 0.15
"""The time for which a moving part is watched to know it as a caret.

A part that does not change in that time counts as resting.
"""
LAST_CALL_S = 30.0
"""The time before the limit at which the person is told to close the viewer, if the limit is at least twice as long."""
_LOOKS = 8
"""The most looks that are kept. Between actions, the session looks at the screen every `_LOOK_AGAIN_S`."""
_ECHO_PX = 80
"""The height up to which a change may be the echo of a text, or a pressed button."""


class ViewerSession:
    """A session that performs a viewer's events on a desktop, and keeps the actions that they make.

    `eyes` act on the same desktop, and see what may be recorded of it.
    """

    def __init__(
        self,
        desktop: VNCController,
        say: Say,
        limit_s: float,
        elements_of: ElementsOf = no_elements,
        eyes: Controller | None = None,
    ) -> None:
        self.demonstration = Demonstration()
        self._elements_of = Asker(elements_of)
        self._desktop, self._say = desktop, say
        self._eyes = eyes or desktop
        self._deadline = Deadline(limit_s)
        self._must_call = limit_s >= 2 * LAST_CALL_S
        self._size = desktop.size
        self._motions: queue.SimpleQueue[tuple[Motion | None, float]] = queue.SimpleQueue()
        self._down: set[str] = set()
        self._looks: deque[Frame] = deque(maxlen=_LOOKS)
        self._let_go_s = -math.inf
        """When a button was last released on the desktop."""
        self._at: tuple[int, int] | None = None
        """The pointer's place on the desktop, without the places where it only rests."""
        self._rests: list[Rest] = []
        self._hovers: tuple[tuple[int, int], float] | None = None
        """The place of the viewer's pointer, and since when it is there."""

    def hear(self, motion: Motion | None, at_s: float) -> None:
        """Take in an event; None means that no more come. Any thread may call it."""
        self._motions.put((motion, at_s))

    def run(self) -> Screen:
        """Perform events until no more come; return the screen at the end.

        Raises DeadlineExceeded, DesktopError, SettingsError.
        """
        while motion := self._next():
            self._take(*motion)
        self._do(self.demonstration.end(clock.monotonic()))
        screen = self._look(None, partial(screen_at_rest, self._eyes))
        self._check_size()
        return screen

    def _next(self) -> tuple[Motion, float] | None:
        while left_s := self._deadline.remaining_s:
            if self._must_call and left_s <= LAST_CALL_S:
                self._must_call = False
                self._say(f"{left_s:.0f} s are left: close the viewer by then, or nothing is recorded")
            try:
                motion, at_s = self._motions.get(timeout=_LOOK_AGAIN_S)
            except queue.Empty:
                self._looks.append(self._eyes.frame())
                self._rest()
            else:
                return (motion, at_s) if motion else None
        raise DeadlineExceeded(VIEWER_OPEN)

    def _take(self, motion: Motion, at_s: float) -> None:
        if isinstance(motion, Move):
            self._hovers = (motion.x, motion.y), at_s
        if isinstance(motion, Scroll) and not self._desktop.quirks.wheel:
            self._say("not done: this VNC server has no wheel; scroll with the keys")
        elif not self._is_late_repetition(motion):
            if self._has_changed():
                self.demonstration.close()
            self._do(self.demonstration.actions(motion, at_s))

    def _has_changed(self) -> bool:
        """Return whether the person may have seen more change, since the growing action began, than its echo."""
        growing = self.demonstration.growing
        if not self._looks or growing is None or growing.screen is None:
            return False
        differs = differing(growing.screen, Screen(pixels=partial(pixels_of, self._looks[-1].png)))
        return any(box.bottom - box.top > _ECHO_PX for box in boxes_of(differs))

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
                gesture.begins.screen = self._look(gesture.action, self._screen)
                gesture.begins.elements = self._elements_of(gesture.action)
                if isinstance(gesture.action, MouseDown):  # clicks that are two in the recording are two there
                    self._desktop.wait(max(0.0, self._let_go_s + AGAIN_S - clock.monotonic()))
            elif isinstance(gesture.action, MouseUp) and isinstance(
                (drag := self.demonstration.steps[-1]).action, Drag
            ):
                both = drag.elements or (None,), self._elements_of(gesture.action) or (None,)
                drag.elements = both[0] + both[1] if both != ((None,), (None,)) else ()
            try:
                self._perform(gesture.action)
            except ActionError as exc:
                self._say(f"not done: {exc}")
                self.demonstration.take_back()

    def _perform(self, action: DesktopAction) -> None:
        self._eyes.perform(action)
        self._looks.clear()
        self._at = next(iter(points(action)[-1:]), self._at)
        if isinstance(action, MouseUp):
            self._let_go_s = clock.monotonic()

    def _rest(self) -> None:
        """Move the pointer to where it rests, so that anything that opens on hovering opens."""
        if self._hovers is None or self._at is None or not self.demonstration.may_rest:
            return
        place, since = self._hovers
        is_there = near(place, self._rests[-1].at if self._rests else self._at)
        if not is_there and clock.monotonic() - since >= HOVER_S:
            self._rests.append(Rest(place, self._screen()))
            self._eyes.perform(Move(*place))
            self._looks.clear()

    def _look(self, action: Action | None, look: Callable[[], Screen]) -> Screen:
        """Return the screen as a replay will see it.

        In a replay the pointer rests only where that matters.
        """
        rests, self._rests = self._rests, []
        if not rests:
            return look()
        resting = self._screen()
        kept = needed(rests, action, resting) if action else []
        self.demonstration.insert([DemonstratedAction(Move(*rest.at), rest.screen) for rest in kept])
        left_out = rests[rests.index(kept[-1]) + 1 :] if kept else rests
        self._at = kept[-1].at if kept else self._at
        if not left_out or self._at is None or not differing(left_out[0].screen, resting).any():
            return resting if action else look()  # at the end, watch for quiet
        self._perform(Move(*self._at))
        return restored(left_out[0].screen, resting, look())

    def _screen(self) -> Screen:
        """Return the screen that the person sees, once it is stable."""
        self._eyes.settle()
        frame = self._eyes.frame()
        self._check_size()
        moving = Moving(frame)
        for look in self._looks:
            if not self._eyes.changed_since(look.taken_at):  # before, it was another screen
                moving.add(look)
        deadline = Deadline(_MOVES_S)
        while not moving.is_known and deadline.remaining_s:
            self._eyes.wait_changed(clock.monotonic(), _SAMPLE_S)
            moving.add(self._eyes.glance())
        return Screen(dynamic=tuple(moving.parts()), pixels=partial(pixels_of, frame.png))

    def _check_size(self) -> None:
        if self._desktop.size != self._size:
            raise SettingsError(
                f"the desktop's size changed from {self._size} to {self._desktop.size}, but a recording must have "
                "one size"
            )


@dataclass(frozen=True)
class Showing:
    """The terms of a demonstration: the viewer's address and password, and the secrets that must not be written.

    The `declared` secrets may be typed, the `ambient` ones may not. The `invitation` is printed with the viewer's
    address. `elements_of` asks what an action is about to act on.
    """

    say: Say
    invitation: str
    declared: Redactor
    ambient: Redactor
    listen: str = "localhost::0"
    password: str | None = None
    elements_of: ElementsOf = no_elements

    def of(
        self,
        desktop: VNCController,
        limit_s: float = math.inf,
        until: Callable[[ViewerSession], AbstractContextManager[object]] = nullcontext,
        eyes: Controller | None = None,
    ) -> RecordedRun:
        """Return a person's demonstration: it lasts until they close the viewer, or `until` ends the session.

        Each recorded action is printed. `eyes` as in ViewerSession. Raises as ViewerSession.run does.
        """
        session = ViewerSession(desktop, self.say, limit_s, self.elements_of, eyes)
        screen_at_rest(desktop)  # so that moving parts are known from the start
        server = ViewerServer(desktop.screen, desktop.name, self.listen, self.password, session.hear)
        with closing(server), until(session):
            self.say(f"{self.invitation}: vncviewer {server.address}")
            end = session.run()
        return RecordedRun(task="", planner=PERSON, steps=self._steps_of(session.demonstration), end=end)

    def _steps_of(self, demonstration: Demonstration) -> tuple[RecordedStep, ...]:
        shown = [*self._with_whole_secrets(demonstration.steps)]
        steps = tuple(
            RecordedStep(
                action=self._without_secrets(number, step.action),  # type: ignore[arg-type]  # a user makes no waits
                screen=step.screen,
                elements=cut_names(self.ambient.hide_in(self.declared.hide_in(step.elements))),
            )
            for number, step in enumerate(shown, 1)
            if step.screen is not None
        )
        self._check_pieces(steps)
        for number, step in enumerate(steps, 1):
            self.say(f"{number} {action_line(step.action, step.elements)}")
            if not shown[number - 1].is_exact:
                self.say(_INEXACT)
        return steps

    def _with_whole_secrets(self, actions: Iterable[DemonstratedAction]) -> Iterator[DemonstratedAction]:
        """Yield the actions; texts in a row that only together contain a secret become one text."""
        for is_text, run in groupby(actions, lambda each: isinstance(each.action, TypeText)):
            pieces = [*run]
            text = _typed(pieces)
            if is_text and self.ambient.hide(self.declared.hide(text)) != text:
                pieces[0].action = TypeText(text)
                del pieces[1:]
            yield from pieces

    def _without_secrets(self, number: int, action: Action) -> Action:
        """Return the action without secrets. Raises SettingsError if it contains one that was not declared."""
        if not isinstance(action, TypeText):
            return action
        text = self.declared.hide(action.text)
        if (found := self.ambient.hide(text)) != text:
            name = found.partition("<secret:")[2].partition(">")[0]
            raise SettingsError(
                f"step {number} types the value of {name!r}, so nothing is written: declare it as a secret, with "
                f"--secret {name}, or as secrets={name!r} in the marker"
            )
        return replace(action, text=text)

    def _check_pieces(self, steps: Sequence[RecordedStep]) -> None:
        """Raise SettingsError if a secret was typed in several pieces, because no single piece can be recognised."""
        without_deleted = ""
        for step in steps:
            if step.action == KeyCombo(("backspace",)):
                without_deleted = without_deleted[:-1]
            else:
                without_deleted += _typed([step])
        if any(self.declared.hide(text) != text for text in (_typed(steps), without_deleted)):
            raise SettingsError("a secret was typed in several pieces, so nothing is written: type it in one go")


def _typed(steps: Iterable[DemonstratedAction | RecordedStep]) -> str:
    return "".join(step.action.text for step in steps if isinstance(step.action, TypeText))
