"""Perform one action of a run within its remaining time, and find what it acts on, for reports."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from pytest_vnc_use import clock
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
from pytest_vnc_use.types.elements import ASK_S, Elements
from pytest_vnc_use.types.protocols import Controller, SupportsUrl

CROP_PX = (160, 60)
"""Width and height of a target's image."""
_SLOW_S, _MAX_SLOW = 0.5, 3
"""After three slow answers in a row, stop asking, so that a heavy page is not delayed."""
FIELDS = frozenset(
    {"textbox", "searchbox", "combobox", "spinbutton"}  # ARIA's roles
    | {"text", "entry", "password text", "terminal", "combo box", "spin button"}  # AT-SPI's
)
"""The roles of elements that take text."""
MAX_NAME_LENGTH = 200
"""The maximum length of a name or a role in a step."""

ElementsOf = Callable[[Action], Elements]
"""A function that finds the elements of an action in a desktop's trees. It may be slow, and may raise any exception."""


def no_elements(action: Action) -> Elements:
    """Return no elements: there is no tree, and no thread is started to ask one."""
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
        if self._ask is no_elements or self._slow >= _MAX_SLOW:
            return ()
        if not (points(action) or isinstance(action, TypeText)):
            return ()
        deadline = Deadline(min(ASK_S, limit_s))
        try:
            elements = deadline.call(lambda: self._ask(action))
        except Exception:  # noqa: BLE001  # A name is only reported, so its errors fail no step.
            elements = ()
        self._slow = self._slow + 1 if deadline.spent_s >= _SLOW_S else 0
        return elements if any(elements) else ()


class Targets:
    """The targets of one run's steps."""

    def __init__(self, ask: ElementsOf, directory: RunDirectory) -> None:
        self._ask = Asker(ask)
        self._dir = directory
        self.seen: Frame | None = None
        """The newest frame, whose pixels need not be read again."""
        self._clicked: tuple[Point, ...] = ()
        self._field: Elements = ()

    def of(self, action: Action, frame: FrameRef, limit_s: float) -> tuple[Elements, FrameRef | None]:
        """Return the elements and the crop of an action's target, on the screen that `frame` shows.

        Text without a point goes to the focus, or else to the field that the previous action clicked.
        """
        elements, targets = self._ask(action, limit_s), points(action)[:1]
        if isinstance(action, TypeText) and not targets:
            elements, targets = elements or self._field, self._clicked
        elif not isinstance(action, (Wait, TakeScreenshot)):
            last = elements[-1:]
            self._field = last if last and last[0] and last[0].role in FIELDS else ()
            self._clicked = points(action)[-1:]
        return elements, self._crop(frame, targets[0]) if targets else None

    def _crop(self, frame: FrameRef, at: Point) -> FrameRef | None:
        region = around(at, (frame.width, frame.height))
        seen = self.seen if self.seen and self.seen.ref == frame else None
        size, file = (region.right - region.left, region.bottom - region.top), io.BytesIO()
        if seen and isinstance(seen.pixels, np.ndarray):
            image = Image.frombytes("RGB", size, region.part_of(seen.pixels).astype("<u4").tobytes(), "raw", "BGRX")
        else:
            try:
                whole = Image.open(io.BytesIO(seen.png if seen else self._dir.load_png(frame)))
                image = whole.crop((region.left, region.top, region.right, region.bottom)).convert("RGB")
            except (OSError, ValueError):  # A user's controller may return an invalid image.
                return None
        image.save(file, "PNG")
        png = file.getvalue()
        return self._dir.store(Frame(FrameRef(hashlib.sha256(png).hexdigest(), *size), png))


def around(at: Point, screen: tuple[int, int]) -> Region:
    """Return the region of `CROP_PX` around a point, moved onto a screen of that size."""
    width, height = (min(crop, side) for crop, side in zip(CROP_PX, screen, strict=True))
    left = min(max(at[0] - width // 2, 0), screen[0] - width)
    top = min(max(at[1] - height // 2, 0), screen[1] - height)
    return Region(left, top, left + width, top + height)


def cut_names(elements: Elements) -> Elements:
    """Return the elements with names and roles of limited length, which say how long they were."""
    limit = MAX_NAME_LENGTH
    return tuple(item and replace(item, role=cut(item.role, limit), name=cut(item.name, limit)) for item in elements)


MAX_TEXT_LENGTH = 10_000
"""The maximum characters of an error that are kept and sent to the planner."""
MAX_OUTPUT_LENGTH = 100_000
"""The same of a function's output, such as the whole text of a page."""


class Actor:
    """The actor of a run: a controller and the user's functions.

    `reveal` puts the values of declared secrets into typed text. After each step, once the screen has settled, it waits
    `step_delay_s()`. `targets` finds what a step acts on.
    """

    def __init__(
        self,
        controller: Controller,
        directory: RunDirectory,
        functions: Mapping[str, Callable[..., object]],
        reveal: Callable[[str], str],
        step_delay_s: Callable[[], float] = float,
        targets: Targets | None = None,
    ) -> None:
        self.controller, self._dir, self._functions, self._reveal = controller, directory, functions, reveal
        self._step_delay_s, self._targets = step_delay_s, targets

    def capture_first(self) -> FrameRef:
        """Store and return the screen as a run begins; forget earlier transient frames. Raises DesktopError."""
        frame = self.capture()
        self.controller.transient_frames()
        return frame

    def capture(self) -> FrameRef:
        """Store and return the screen now. Raises DesktopError."""
        frame = self.controller.frame()
        if self._targets:
            self._targets.seen = frame
        return self._dir.store(frame)

    def watch(self) -> None:
        """Raise DesktopError if the desktop is gone."""
        self.controller.changed_since(clock.monotonic())

    def other_than(self, seen: FrameRef) -> FrameRef | None:
        """Store and return the stable screen if it differs from that frame. Raises DesktopError."""
        for is_stable in (False, True):
            now = self.controller.frame()
            if now.ref == seen or still_shows(self._dir.load_png(seen), now):
                return None
            if not is_stable:
                self.controller.settle(briefly=True)
        return self._dir.store(now)

    def run_step(self, step: Step, deadline: Deadline, *, watched: bool = False) -> Step:
        """Perform the step's action, wait for the screen, capture it, and return the step with its result.

        When the time is up, the controller is closed, so that nothing happens late. `watched`: the screen is watched
        after the capture. Raises DesktopError.
        """
        action, output, error = step.proposal.action, "", ""
        asked = clock.monotonic()
        if self._targets:
            elements, crop = self._targets.of(action, step.frame_before, deadline.remaining_s)
            step = replace(step, elements=elements, crop=crop)
        started = clock.monotonic()
        try:
            output = deadline.call(lambda: self._do(action, deadline))
        except ActionError as exc:
            error = str(exc)
        except DeadlineExceeded:
            if not isinstance(action, CallFunction):
                self.controller.close()
            return replace(step, error="the run's time was up before the action was done")
        acted = clock.monotonic()
        try:
            settled = None if error else self._settle(action, deadline, briefly=watched)
            stable, frame = clock.monotonic(), self.capture()
        except ActionInterrupted as exc:
            error = str(exc)
            settled, stable, frame = None, clock.monotonic(), self.capture()
        kept = dict.fromkeys(map(self._dir.store, self.controller.transient_frames()))  # each once
        times = Times(0.0, acted - started, stable - acted, clock.monotonic() - stable + started - asked)
        url = action.url if isinstance(action, OpenUrl) and not error else ""
        if isinstance(self.controller, SupportsUrl):
            with suppress(DeadlineExceeded):
                url = deadline.call(self.controller.page_url) or url
        return replace(
            step,
            frame_after=frame,
            output=output,
            error=error,
            settled=settled,
            transient_frames=tuple(ref for ref in kept if ref not in (step.frame_before, frame)),
            times=times,
            url=url,
        )

    def _settle(self, action: Action, deadline: Deadline, *, briefly: bool) -> SettledReason | None:
        if isinstance(action, (CallFunction, TakeScreenshot)) or not deadline.remaining_s:
            return None
        reason = self.controller.settle(briefly=briefly).reason
        if delay_s := self._step_delay_s():
            self.controller.perform(Wait(min(delay_s, deadline.remaining_s)))
        return reason

    def _do(self, action: Action, deadline: Deadline) -> str:
        match action:
            case InvalidAction(problem=problem):
                raise ActionError(problem)
            case CallFunction(name=name, arguments=arguments):
                if name not in self._functions:
                    raise ActionError(f"unknown function {name!r}. Use one of {sorted(self._functions)}")
                try:
                    return str(self._functions[name](**self._arguments(arguments)))
                except (Exception, SystemExit) as exc:  # a user's function may raise anything; the planner gets it
                    raise ActionError(f"{name} raised {named(exc)}") from exc
            case TypeText(text=text):
                perform_text(self.controller, replace(action, text=self._reveal_secrets(text)))
            case OpenUrl(url=url):
                perform_text(self.controller, replace(action, url=self._reveal_secrets(url)))
            case Wait(duration_s=duration_s):
                self.controller.perform(Wait(min(duration_s, deadline.remaining_s)))
            case _:
                self.controller.perform(action)
        return ""

    def _reveal_secrets(self, text: str) -> str:
        check_declared(text, self._reveal)
        return self._reveal(text)

    def _arguments(self, value: Any) -> Any:
        """Return the arguments of a user's function. It gets the values of secrets as plain text."""
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
    """Raise ActionError if the text names an undeclared secret, so that the placeholder itself is not typed."""
    for mark in SECRET_MARK.finditer(text):
        if reveal(mark.group()) == mark.group():
            raise ActionError(
                f"the secret {mark[1]!r} is not declared. Declare it: secrets=[{mark[1]!r}] in the marker, "
                f"secrets={{{mark[1]!r}: …}} in Python, or --vnc-secret {mark[1]} (--secret of cua-vnc)"
            )


def perform_text(controller: Controller, action: TypeText | OpenUrl) -> None:
    """Type a text. Errors contain no characters of a secret, neither in the message nor in frames."""
    try:
        controller.perform(action)
    except BaseException as exc:  # a time limit of pytest may also end the typing at any point
        if not isinstance(action.text if isinstance(action, TypeText) else action.url, SecretText):
            raise
        for error in chain(exc):
            error.__traceback__ = None  # its frames hold the keystrokes
        if isinstance(exc, ActionError) and not isinstance(exc, ActionInterrupted):
            raise ActionError(
                "the desktop cannot type one character of this text. The text contains a secret, so the "
                "character is not shown"
            ) from None
        raise exc  # a bare `raise` would bring the frames back
