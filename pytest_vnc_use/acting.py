"""One action carried out, within the time that is left, and what became of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_never

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.ports import Controller
from pytest_vnc_use.trace import RunFolder
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    DesktopAction,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    SettledReason,
    TakeScreenshot,
    Times,
    TypeText,
    Wait,
)


@dataclass(frozen=True)
class Effect:
    """What an action led to: the screen after it, the output of a function of the user's, or why it was not done."""

    frame_after: FrameRef
    output: str = ""
    error: str = ""
    settled: SettledReason | None = None
    times: Times = Times()


@dataclass(frozen=True)
class Actor:
    """Hands, eyes and the user's functions. `reveal` puts the values of declared secrets into what is typed."""

    controller: Controller
    folder: RunFolder
    functions: Mapping[str, Callable[..., object]]
    reveal: Callable[[str], str]

    def capture(self) -> FrameRef:
        """The screen now, stored in the run folder. Raises DesktopError."""
        frame = self.controller.frame()
        self.folder.store(frame)
        return frame.ref

    def carry_out(self, action: Action, frame_before: FrameRef, deadline: Deadline) -> Effect:
        """Act, wait for the screen to answer, look. Out of time, the hands are closed: nothing happens late.

        Raises DesktopError.
        """
        started = time.monotonic()
        try:
            output, error = deadline.call(lambda: self._do(action, deadline)), ""
        except ActionError as exc:
            output, error = "", str(exc)
        except DeadlineExceeded:
            if not isinstance(action, CallFunction):
                self.controller.close()
            return Effect(frame_before, error="the run's time was up before it was done")
        acted = time.monotonic()
        settled = self._settle(action, error, deadline)
        quiet = time.monotonic()
        frame = self.capture()
        times = Times(0.0, acted - started, quiet - acted, time.monotonic() - quiet)
        return Effect(frame, output, error, settled, times)

    def _settle(self, action: Action, error: str, deadline: Deadline) -> SettledReason | None:
        if error or isinstance(action, (CallFunction, TakeScreenshot)) or not deadline.remaining_s:
            return None
        return self.controller.settle().reason

    def _do(self, action: Action, deadline: Deadline) -> str:
        match action:
            case InvalidAction(problem=problem):
                raise ActionError(problem)
            case CallFunction(name=name, arguments=arguments):
                return self._call_function(name, arguments)
            case TypeText(text=text):
                shown = self.reveal(text)
                perform_text(self.controller, dataclasses.replace(action, text=shown), holds_secret=shown != text)
            case OpenAddress(address=address):
                shown = self.reveal(address)
                perform_text(self.controller, OpenAddress(shown), holds_secret=shown != address)
            case Wait(duration_s=duration_s):
                self.controller.perform(Wait(min(duration_s, deadline.remaining_s)))
            case Click() | MouseDown() | MouseUp() | Move() | Drag() | Scroll():
                self.controller.perform(action)
            case KeyCombo() | KeyDown() | KeyUp() | TakeScreenshot():
                self.controller.perform(action)
            case _:
                assert_never(action)
        return ""

    def _revealed(self, value: Any) -> Any:
        match value:
            case str():
                return self.reveal(value)
            case list() | tuple():
                return [self._revealed(item) for item in value]
            case dict():
                return {key: self._revealed(item) for key, item in value.items()}
            case _:
                return value

    def _call_function(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name not in self.functions:
            raise ActionError(f"there is no function {name!r}; there are {sorted(self.functions)}")
        try:
            return str(self.functions[name](**{key: self._revealed(value) for key, value in arguments.items()}))
        except Exception as exc:  # a user's function may raise anything, and the planner is told what
            raise ActionError(f"{name} raised {type(exc).__name__}: {exc}") from exc


def perform_text(controller: Controller, action: DesktopAction, *, holds_secret: bool) -> None:
    """Type; where the text holds a secret, an ActionError that may name characters of it is told without them."""
    try:
        controller.perform(action)
    except ActionError:
        if not holds_secret:
            raise
        raise ActionError("the desktop cannot take a character of this text, which holds a secret") from None
