"""What waits in a replay: for a gate to open, for an effect that no gate can show, for
the end to stay, and between two clicks, as a replay is faster than the user whom it
repeats.
"""

from __future__ import annotations

from functools import partial

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.gates import BACK_S, LOOK_FOR_BLINK_S, Gate, Mismatch
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.recordings.life import State
from pytest_vnc_use.types import (
    Click,
    DesktopAction,
    Drag,
    GateAwaited,
    KeyCombo,
    MouseDown,
    MouseUp,
    Move,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.protocols import ClickRules, Controller

_LOOK_AGAIN_S = 0.25
"""The longest time between two comparisons of the screen, because a moving part such as
a caret does not end a wait for a change.
"""
_LOOK_FOR_CARET_S = 0.02
"""The same where a gate waits for a caret. Its change ends no wait where a caret was
known to blink nearby.
"""
_MOVES = (KeyCombo(("down",)), KeyCombo(("up",)))
_CHOOSES = (KeyCombo(("enter",)), KeyCombo(("return",)), *_MOVES)
"""After a text, these choose from a list that may come late, or off the screen:
suggestions, GTK's file dialog.
"""
_LIST_S = 0.5
"""The time for a list that the screen does not show, before a key moves in it: jQuery
UI asks for it after 0.3 s.
"""
_ASKS_S = 3.5
_ASKS_REST_S = 3.0
_SLOWER = 5.0
"""When a reviewer is asked: `_ASKS_S` after the wait began, once the screen has been
stable for `_ASKS_REST_S`, and the recorded one came `_SLOWER` times sooner.

A machine with a load of 8 on two cores is four to five times slower than a quiet one.
"""
_LONG_S = 2.0
"""The time after which listeners learn that the replay waits."""
_AS_RECORDED = 3.0
_MAX_WAIT_S = 600.0
"""The longest wait for a gate: this many times as long as its screen took when it was
recorded, and at most `_MAX_WAIT_S`: another machine, or a busy one, is slower.
"""
_FIRST_SCREEN = 3.0
"""How many times as long as for another gate it is waited for the first one: a program
starts. On a machine with a load of 20, Chromium showed a page's grey boxes for 10 s.
"""
_NEAR_PX = 20
"""The distance within which two clicks are near each other. For programs that is 5 of
their own pixels: 10 on a screen on which they draw everything twice as large.
"""
_APART_S = 0.52
_ELSEWHERE_S = 0.28
"""The least time between sending a release and the next press, near the same place and
elsewhere.

A release may reach the program a little late, the press not: hence 20 ms more than the
times below.

The recorded user was slower. Qt, GTK and browsers take two clicks for a double click if
they come within 0.4 to 0.5 s and a few pixels; xterm if they come within 0.25 s, at any
place. Only time separates clicks in all of them: a key between two clicks does so in
none, a click elsewhere does not in GTK 4 and xterm, moving the pointer away and back
does in Qt only (measured with Qt 6, GTK 3 and 4, Chromium and xterm). Where all
programs use Qt, a click elsewhere need not wait (`ClickRules`). Near the same place Qt
needs 0.35 s: the rest is for a program that receives the first click late, as on a busy
machine.
"""
ButtonRelease = tuple[Point | None, float]
"""The point where a button was released last, None where it is unknown, and the time on
the monotonic clock.
"""


class GateWaiter:
    """What waits for the gates of a course.

    Args:
        desktop: What is looked at.
        course: Where the replay is.
        limit_s: The longest wait for a gate that came soon when it was recorded, in
            seconds.
        watch_s: How long the end must stay, in seconds, if it became stable when it was
            recorded.
    """

    def __init__(
        self, desktop: Controller, course: Course, limit_s: float, watch_s: float
    ) -> None:
        self._desktop = desktop
        self._course = course
        self._least_limit_s = limit_s
        self._watch_s = watch_s if course.segment.end.stable_s else 0.0

    def await_gate(self) -> Mismatch | None:
        """Wait until the gate is open; return None then, else what differs."""
        limit_s = self.limit_s
        deadline = Deadline(limit_s)
        mismatch = self._await_within(limit_s)
        spent_s = min(deadline.spent_s, limit_s)
        if spent_s > self._least_limit_s:
            self._course.position.longer_wait_s = spent_s
        return mismatch

    @property
    def limit_s(self) -> float:
        """The longest wait for the gate, in seconds."""
        course = self._course
        is_first = course.position.gate.is_first
        return longest_wait_s(course.appeared_s, self._least_limit_s, is_first=is_first)

    def await_effect(self) -> None:
        """Wait for the newest step's effect where the gate cannot show it: for a stable
        screen, and for the gate again.
        """
        course = self._course
        typed = course.newest_step
        due = course.due.action if course.due else None
        is_typed = typed is not None and isinstance(typed.action, TypeText)
        chooses = is_typed and due in _CHOOSES
        if not chooses and course.position.gate.shows_effect:
            return
        # Briefly, as the wait for the same gate after it sees any later change.
        self._desktop.settle(briefly=not chooses)
        if chooses and due in _MOVES:
            self._desktop.perform(Wait(_LIST_S))
        self.await_gate()

    def watch_end(self) -> Mismatch | None:
        """Watch until the end has stayed unchanged for its time; return what differs
        then.

        After a brief difference the time starts again. A blinking caret does not close
        the end's gate. Raises DesktopError.
        """
        course = self._course
        position = course.position
        deadline = Deadline(self._watch_s + self.limit_s)
        course.life.move(State.WATCHING)
        seen_at = position.opened_at
        if self._watch_s > _LONG_S:
            course.life.announce(GateAwaited(self._watch_s))
        while deadline.remaining_s:
            rest_s = position.opened_at + self._watch_s - clock.monotonic()
            if not self._desktop.wait_changed(seen_at, max(0.0, rest_s)):
                break
            seen = self._desktop.raw_frame()
            seen_at = seen.taken_at
            if course.difference(pixels_in(seen)):
                if self._await_within(BACK_S):
                    break
                seen_at = position.opened_at
        return self.look_again()

    def watch_first(self) -> Mismatch | None:
        """Return what differs from the first screen once it had to stay. Raises
        DesktopError.
        """
        self._desktop.perform(Wait(self._course.first_stays_s))
        return self.look_again()

    def look_again(self) -> Mismatch | None:
        """Return what differs from the recorded screen now, if it does not go away
        within `BACK_S`. Raises DesktopError.
        """
        position = self._course.position
        position.opening = None
        position.watch_blinks()
        return self._await_within(BACK_S)

    def _await_within(self, limit_s: float) -> Mismatch | None:
        """Wait at most `limit_s` for the gate. A rehearsal then learns what it may."""
        course = self._course
        deadline = Deadline(limit_s)
        again_s = _look_again_s(course.position.gate)
        is_announced = False
        while True:
            seen = self._desktop.raw_frame()
            mismatch = course.difference(pixels_in(seen))
            is_late = not deadline.remaining_s
            if mismatch and not is_late:
                spent_s = deadline.spent_s
                is_late = self._is_for_review(mismatch, spent_s)
            if mismatch is None or is_late:
                mismatch = self._compare_frame(may_learn=is_late)
                if mismatch is None or is_late:
                    return mismatch
            if deadline.spent_s > _LONG_S and not is_announced:
                is_announced = True
                recorded_s = course.appeared_s
                course.life.announce(GateAwaited(deadline.remaining_s, recorded_s))
                self._move_pointer(mismatch)
            rest_s = min(again_s, deadline.remaining_s)
            self._desktop.wait_changed(seen.taken_at, rest_s)

    def _move_pointer(self, mismatch: Mismatch) -> None:
        """Move the pointer by a pixel and back if what differs is under it.

        A program may learn only from a motion what has come under the pointer:
        Chromium, after a button has moved away and back, sometimes draws it as if the
        pointer were elsewhere.
        """
        pointer = self._course.pointer
        if pointer is None or not any(box.holds(pointer) for box in mismatch.boxes):
            return
        x, y = pointer
        self._desktop.perform(Move(x - 1 if x else 1, y))
        self._desktop.perform(Move(x, y))

    def _compare_frame(self, *, may_learn: bool) -> Mismatch | None:
        """Return what differs in a new frame, which is handed on: until now, the screen
        was only looked at.
        """
        course = self._course
        frame = self._desktop.frame()
        course.position.frame = frame
        load = partial(pixels_in, frame)
        mismatch = course.compare(frame.ref, load)
        if mismatch and may_learn and course.learn(pixels_in(frame)):
            mismatch = course.compare(frame.ref, load)
        if mismatch is None:
            course.position.opened_at = frame.taken_at
        return mismatch

    def _is_for_review(self, mismatch: Mismatch, spent_s: float) -> bool:
        """Return whether a reviewer can be asked about the screen now. Where nothing has
        changed yet, the effect of the step may still come.
        """
        course = self._course
        if course.allowances.review is None or mismatch.kind == "unchanged":
            return False
        if spent_s < max(_ASKS_S, _SLOWER * course.appeared_s):
            return False
        return not self._desktop.changed_since(clock.monotonic() - _ASKS_REST_S)


def longest_wait_s(
    appeared_s: float, limit_s: float, *, is_first: bool = False
) -> float:
    """Return the longest wait for a screen, in seconds: several times as long as it took
    when it was recorded, if that is more than `limit_s`, or than several times that for
    the first screen of a test.
    """
    if is_first:
        limit_s *= _FIRST_SCREEN
    return max(limit_s, min(_AS_RECORDED * appeared_s, _MAX_WAIT_S))


def _look_again_s(gate: Gate) -> float:
    """Return the longest time between two comparisons with a gate."""
    if gate.caret:
        return _LOOK_FOR_CARET_S
    return LOOK_FOR_BLINK_S if gate.blinking else _LOOK_AGAIN_S


class SeparateClicks:
    """Performs actions so that a click does not join the last one as a double click.

    `released` is the last release before, if there was one.
    """

    def __init__(self, desktop: Controller, released: ButtonRelease | None) -> None:
        self._desktop = desktop
        self.released = released

    def forget(self) -> None:
        """Note that others have acted, anywhere on the screen."""
        self.released = None, clock.monotonic()

    def perform(self, action: DesktopAction) -> None:
        """Perform an action, after a wait where it would join the last click."""
        if not isinstance(action, (Click, Drag, MouseDown, MouseUp, TypeText)):
            self._desktop.perform(action)
            return
        where = points(action)
        if where and not isinstance(action, MouseUp):
            wait_s = self._apart_s(where[0])
            if wait_s > 0:
                self._desktop.perform(Wait(wait_s))
        self._desktop.perform(action)
        if where:
            self.released = where[-1], clock.monotonic()

    def _apart_s(self, at: Point) -> float:
        """Return how long a press must still wait; 0 or less for not at all."""
        if self.released is None:
            return 0.0
        before, released_at = self.released
        is_near = before is None or _is_near(at, before)
        desktop = self._desktop
        if (
            isinstance(desktop, ClickRules)
            and desktop.doubles_only_near
            and not is_near
        ):
            return 0.0
        apart_s = _APART_S if is_near else _ELSEWHERE_S
        return released_at + apart_s - clock.monotonic()


def _is_near(one: Point, other: Point) -> bool:
    across = abs(one[0] - other[0])
    down = abs(one[1] - other[1])
    return max(across, down) <= _NEAR_PX
