"""Perform one action of a run within its remaining time, and find what it acts on, for
reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import (
    COLOUR_BITS,
    Pixels,
    frame_of,
    pixels_in,
    pixels_of,
)
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ActionError, ActionInterrupted
from pytest_vnc_use.errors.causes import chain, named
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.same_screen import still_shows
from pytest_vnc_use.types import (
    SECRET_MARK,
    Action,
    CallFunction,
    Frame,
    FrameRef,
    InvalidAction,
    OpenUrl,
    Region,
    SettledReason,
    Step,
    TakeScreenshot,
    Times,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point, SecretText, points
from pytest_vnc_use.types.elements import ASK_S, AskAfter, Elements, ElementsOf
from pytest_vnc_use.types.protocols import (
    AwaitsScreens,
    Controller,
    SupportsElements,
    SupportsUrl,
)

CROP_PX = (160, 60)
"""Width and height of a target's image."""
_SLOW_S = 0.5
_MAX_SLOW = 3
"""The number of slow answers in a row after which no page is asked any more, so that a
heavy one is not delayed.
"""
FIELDS = frozenset(
    {"textbox", "searchbox", "combobox", "spinbutton"}  # ARIA's roles
    # AT-SPI's
    | {"text", "entry", "password text", "terminal", "combo box", "spin button"}
)
"""The roles of elements that take text."""
MAX_NAME_LENGTH = 200
"""The maximum length of a name or a role in a step."""


T = TypeVar("T")


def no_elements(action: Action) -> Elements:
    """Return no elements: there is no tree, and no thread is started to ask one."""
    return ()


def recorded_or_shown(acting: Controller, ask_desktop: ElementsOf) -> ElementsOf:
    """Return what finds the elements of an action: a recording that knows them, else
    the desktop's trees.
    """
    if not isinstance(acting, SupportsElements):
        return ask_desktop
    recording = acting

    def elements_of(action: Action) -> Elements | AskAfter:
        elements = recording.elements_of(action)
        return ask_desktop(action) if elements is None else elements

    return elements_of


class Asker:
    """The search for the elements of actions.

    It never raises and never waits longer than `ASK_S`. After several slow answers it
    stops asking.
    """

    def __init__(self, ask: ElementsOf) -> None:
        self._ask = ask
        self._slow = 0
        self._ask_after: AskAfter | None = None

    def __call__(self, action: Action, limit_s: float = ASK_S) -> Elements:
        """Return the elements that an action will act on; none if they are unknown
        yet.
        """
        self._ask_after = None
        if self._ask is no_elements:
            return ()
        if not (points(action) or isinstance(action, TypeText)):
            return ()
        answer = self._answer(lambda: self._ask(action), limit_s)
        if callable(answer):
            self._ask_after = answer
            return ()
        return answer if any(answer) else ()

    @property
    def is_waiting(self) -> bool:
        """Return whether the elements can be known once the action was performed."""
        return self._ask_after is not None

    def after(self, limit_s: float = ASK_S) -> Elements:
        """Return the elements that the performed action acted on, if only its effect
        shows them; else none.
        """
        ask_after = self._ask_after
        self._ask_after = None
        return self._answer(ask_after, limit_s) if ask_after else ()

    def _answer(self, ask: Callable[[], T], limit_s: float) -> T | tuple[()]:
        if self._slow >= _MAX_SLOW:
            return ()
        deadline = Deadline(min(ASK_S, limit_s))
        answer: T | tuple[()] = ()
        # A name is only reported, so its errors fail no step.
        with suppress(Exception):
            answer = deadline.call(ask)
        self._slow = self._slow + 1 if deadline.spent_s >= _SLOW_S else 0
        return answer


class Targets:
    """The targets of one run's steps."""

    def __init__(self, ask: ElementsOf, directory: RunDirectory) -> None:
        self._ask = Asker(ask)
        self._dir = directory
        self.seen: Frame | None = None
        """The newest frame, whose pixels need not be read again."""
        self._clicked: tuple[Point, ...] = ()
        self._field: Elements = ()

    def of(
        self, action: Action, frame: FrameRef, limit_s: float
    ) -> tuple[Elements, FrameRef | None]:
        """Return the elements and the crop of an action's target, on the screen that
        `frame` shows.

        Text without a point goes to the focus, or else to the field that the previous
        action clicked.
        """
        elements = self._ask(action, limit_s)
        targets = points(action)[:1]
        if isinstance(action, TypeText) and not targets:
            elements = elements or self._field
            targets = self._clicked
        elif not isinstance(action, (Wait, TakeScreenshot)):
            last = elements[-1:]
            self._field = last if last and last[0] and last[0].role in FIELDS else ()
            self._clicked = points(action)[-1:]
        return elements, self._crop(frame, targets[0]) if targets else None

    def after(self, limit_s: float) -> Elements:
        """Return the elements of the performed action that were unknown before it."""
        return self._ask.after(limit_s)

    def pixels_of(self, frame: FrameRef) -> Pixels:
        """Return the pixels of a frame, whose PNG is decoded only if they are not at
        hand. Their highest bytes have any value. Raises OSError, ValueError.
        """
        seen = self.seen if self.seen and self.seen.ref == frame else None
        if seen and isinstance(seen.pixels, np.ndarray):
            return seen.pixels
        return pixels_of(seen.png if seen else self._dir.load_png(frame))

    def _crop(self, frame: FrameRef, at: Point) -> FrameRef | None:
        region = around(at, (frame.width, frame.height))
        try:
            part = region.part_of(self.pixels_of(frame))
        except (OSError, ValueError):
            # A user's controller may return an invalid image.
            return None
        return self._dir.store(frame_of(part))


def around(at: Point, screen: tuple[int, int]) -> Region:
    """Return the region of `CROP_PX` around a point, moved onto a screen of that
    size.
    """
    width = min(CROP_PX[0], screen[0])
    height = min(CROP_PX[1], screen[1])
    left = min(max(at[0] - width // 2, 0), screen[0] - width)
    top = min(max(at[1] - height // 2, 0), screen[1] - height)
    return Region(left, top, left + width, top + height)


def cut_names(elements: Elements) -> Elements:
    """Return the elements with names and roles of limited length, which say how long
    they were.
    """
    limit = MAX_NAME_LENGTH
    return tuple(
        item and replace(item, role=cut(item.role, limit), name=cut(item.name, limit))
        for item in elements
    )


MAX_TEXT_LENGTH = 10_000
"""The maximum characters of an error that are kept and sent to the planner."""
MAX_OUTPUT_LENGTH = 100_000
"""The same of a function's output, such as the whole text of a page."""


class Actor:
    """The actor of a run: a controller and the user's functions.

    `reveal` puts the values of declared secrets into typed text. After each step, once
    the screen has settled, it waits `step_delay_s()`. `targets` finds what a step acts
    on.
    """

    def __init__(
        self,
        controller: Controller,
        directory: RunDirectory,
        functions: Mapping[str, Callable[..., object]],
        reveal: Callable[[str], str],
        step_delay_s: Callable[[], float],
        targets: Targets,
    ) -> None:
        self.controller = controller
        self._dir = directory
        self._functions = functions
        self._reveal = reveal
        self._step_delay_s = step_delay_s
        self._targets = targets

    def release(self) -> None:
        """Drop the newest frame, because others may keep the error of a run, and thereby
        this object.
        """
        self._targets.seen = None

    def capture_first(self) -> FrameRef:
        """Store and return the screen as a run begins; forget earlier transient frames.
        Raises DesktopError.
        """
        frame = self.capture()
        self.controller.transient_frames()
        return frame

    def capture(self) -> FrameRef:
        """Store and return the screen now. Raises DesktopError."""
        return self._keep(self.controller.frame())

    def capture_to_act_on(self) -> FrameRef:
        """Store and return the screen now, before an action that was approved. Raises
        DesktopError.
        """
        if isinstance(self.controller, AwaitsScreens):
            return self._keep(self.controller.frame_to_act_on())
        return self.capture()

    def _keep(self, frame: Frame) -> FrameRef:
        self._targets.seen = frame
        return self._dir.store(frame)

    def watch(self) -> None:
        """Raise DesktopError if the desktop is gone."""
        self.controller.changed_since(clock.monotonic())

    def other_than(self, seen: FrameRef) -> FrameRef | None:
        """Store and return the stable screen if it differs from that frame. Raises
        DesktopError.
        """
        now = self.controller.frame()
        if self._still_shows(seen, now):
            return None
        self.controller.settle(briefly=True)
        now = self.controller.frame()
        return None if self._still_shows(seen, now) else self._keep(now)

    def _still_shows(self, seen: FrameRef, now: Frame) -> bool:
        """Return whether the screen is as in an earlier frame, but for what moves and
        for a caret.
        """
        if now.ref == seen:
            return True
        if (now.ref.width, now.ref.height) != (seen.width, seen.height):
            return False
        differs = self._targets.pixels_of(seen) ^ pixels_in(now)
        return still_shows(differs & COLOUR_BITS != 0, now.moving)

    def run_step(
        self, step: Step, deadline: Deadline, *, watched: bool = False
    ) -> Step:
        """Perform the step's action, wait for the screen, capture it, and return the
        step with its result.

        When the time is up, the controller is closed, so that nothing happens late.
        `watched`: the screen is watched after the capture. Raises DesktopError.
        """
        action = step.proposal.action
        output = ""
        error = ""
        asked = clock.monotonic()
        elements, crop = self._targets.of(
            action, step.frame_before, deadline.remaining_s
        )
        step = replace(step, elements=elements, crop=crop)
        started = clock.monotonic()
        try:
            output = deadline.call(lambda: self._do(action, deadline))
        except ActionError as exc:
            error = str(exc)
        except DeadlineExceeded:
            if not isinstance(action, CallFunction):
                self.controller.close()
            return replace(
                step, error="the run's time was up before the action was done"
            )
        acted = clock.monotonic()
        try:
            settled = None if error else self._settle(action, deadline, briefly=watched)
            stable = clock.monotonic()
            frame = self.capture()
        except ActionInterrupted as exc:
            error = str(exc)
            settled = None
            stable = clock.monotonic()
            frame = self.capture()
        if not error:
            elements = self._targets.after(deadline.remaining_s) or elements
        shown = step.frame_before, frame
        stored = map(self._dir.store, self.controller.transient_frames())
        # each once
        transients = [ref for ref in dict.fromkeys(stored) if ref not in shown]
        times = Times(
            0.0,
            acted - started,
            stable - acted,
            clock.monotonic() - stable + started - asked,
        )
        url = action.url if isinstance(action, OpenUrl) and not error else ""
        if isinstance(self.controller, SupportsUrl):
            with suppress(DeadlineExceeded):
                url = deadline.call(self.controller.page_url) or url
        return replace(
            step,
            elements=elements,
            frame_after=frame,
            output=output,
            error=error,
            settled=settled,
            transient_frames=tuple(transients),
            times=times,
            url=url,
        )

    def _settle(
        self, action: Action, deadline: Deadline, *, briefly: bool
    ) -> SettledReason | None:
        if (
            isinstance(action, (CallFunction, TakeScreenshot))
            or not deadline.remaining_s
        ):
            return None
        reason = self.controller.settle(briefly=briefly).reason
        if delay_s := self._step_delay_s():
            self.controller.perform(Wait(min(delay_s, deadline.remaining_s)))
        return reason

    def _do(self, action: Action, deadline: Deadline) -> str:
        match action:
            case InvalidAction(problem=problem):
                raise ActionError(problem)
            case CallFunction():
                return self._call(action)
            case TypeText(text=text):
                revealed = self._reveal_secrets(text)
                perform_text(self.controller, replace(action, text=revealed))
            case OpenUrl(url=url):
                revealed = self._reveal_secrets(url)
                perform_text(self.controller, replace(action, url=revealed))
            case Wait(duration_s=duration_s):
                self.controller.perform(Wait(min(duration_s, deadline.remaining_s)))
            case _:
                self.controller.perform(action)
        return ""

    def _call(self, action: CallFunction) -> str:
        name = action.name
        if name not in self._functions:
            raise ActionError(
                f"unknown function {name!r}. Use one of {sorted(self._functions)}"
            )
        try:
            return str(self._functions[name](**self._arguments(action.arguments)))
        except (Exception, SystemExit) as exc:
            # a user's function may raise anything; the planner gets it
            raise ActionError(f"{name} raised {named(exc)}") from exc

    def _reveal_secrets(self, text: str) -> str:
        check_declared(text, self._reveal)
        return self._reveal(text)

    def _arguments(self, value: Any) -> Any:
        """Return the arguments of a user's function. It gets the values of secrets as
        plain text.
        """
        match value:
            case str():
                return str(self._reveal_secrets(value))
            case list() | tuple():
                return [self._arguments(item) for item in value]
            case Mapping():
                return {key: self._arguments(item) for key, item in value.items()}
            case _:
                return value


def check_declared(text: str, reveal: Callable[[str], str]) -> None:
    """Raise ActionError if the text names an undeclared secret, so that the placeholder
    itself is not typed.
    """
    for mark in SECRET_MARK.finditer(text):
        if reveal(mark.group()) == mark.group():
            raise ActionError(
                f"the secret {mark[1]!r} is not declared. Declare it:"
                f" secrets=[{mark[1]!r}] in the marker, secrets={{{mark[1]!r}: …}} in"
                f" Python, or --vnc-secret {mark[1]} (--secret of cua-vnc)"
            )


def perform_text(controller: Controller, action: TypeText | OpenUrl) -> None:
    """Type a text. Errors contain no characters of a secret, neither in the message nor
    in frames.
    """
    try:
        controller.perform(action)
    except BaseException as exc:
        # a time limit of pytest may also end the typing at any point
        text = action.text if isinstance(action, TypeText) else action.url
        if not isinstance(text, SecretText):
            raise
        for error in chain(exc):
            error.__traceback__ = None  # its frames hold the keystrokes
        if isinstance(exc, ActionError) and not isinstance(exc, ActionInterrupted):
            raise ActionError(
                "the desktop cannot type one character of this text. The text contains"
                " a secret, so the character is not shown"
            ) from None
        raise exc  # a bare `raise` would bring the frames back
