"""The base of an agent that decides for itself: write `act`, and call `run`, or let the
class plan tests.
"""

from __future__ import annotations

import base64
import inspect
import json
import logging
import os
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from pytest_vnc_use.backends.browser import Browser
from pytest_vnc_use.errors import ActionError, VncUseError
from pytest_vnc_use.errors.causes import named
from pytest_vnc_use.harness.mouse_actions import (
    MouseClickAction,
    MouseDragAction,
    Position,
    ScrollAction,
)
from pytest_vnc_use.harness.planning import Acting, HarnessPlanner, current_acting
from pytest_vnc_use.runs.directory import to_json, write_atomically
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.runs.uitask_trace import ERROR, FINAL, PARTIAL
from pytest_vnc_use.types import (
    DesktopAction,
    HistoryDirection,
    KeyCombo,
    Move,
    TraverseHistory,
    TypeText,
    Wait,
)

if TYPE_CHECKING:
    from pytest_vnc_use.harness.desk import HarnessDesktop

_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
EXECUTION_FILE = FINAL
PARTIAL_EXECUTION_FILE = PARTIAL
ERROR_FILE = ERROR


def _is_in_test() -> bool:
    """Return whether a test of a session with this plugin runs in this process."""
    has_plugin = "pytest_vnc_use.plugin" in sys.modules
    return has_plugin and "PYTEST_CURRENT_TEST" in os.environ


def record_action(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Record each call of an Agent's method as one action, with its arguments, and its
    error if it failed.

    Actions within the method are part of it and are not recorded separately. If the
    class plans a test, they are the steps of the run instead.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *arguments = bound.arguments.items()
        is_recorded = not self._depth and not self._is_planning
        self._depth += 1
        try:
            result = method(self, *args, **kwargs)
        except Exception as exc:
            if is_recorded:
                self._record(method.__name__, dict(arguments), named(exc))
            raise
        finally:
            self._depth -= 1
        if is_recorded:
            self._record(method.__name__, dict(arguments))
        return result

    return call


@dataclass(kw_only=True)
class Agent(ABC):
    """A custom agent, for a desktop at `vnc_scheme://vnc_host:vnc_port` with DevTools
    at `cdp_port`.

    A subclass may be a dataclass too; if its `__post_init__` does not call
    `super().__post_init__()`, the first action connects. The scheme `vnc` stands for a
    server without WebSockets, and 0 as `cdp_port` for no DevTools. The VNC password
    comes from the environment, as for `cua-vnc`. `secrets` maps names to values:
    `<secret:NAME>` is typed as the value, and only the name is written.

    `pytest --vnc-planner=module:MyAgent` has the class plan tests: each test gets a new
    agent, made with a temporary `output_dir` and, where it has such a field, the
    `task`; its other fields need defaults. Its actions are then steps of a run, with
    the policy, the report and the run directory of the test.
    """

    output_dir: Path
    vnc_scheme: Literal["ws", "wss", "vnc"] = "ws"
    vnc_host: str = "localhost"
    vnc_port: int = 5902
    cdp_port: int = 9222
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    error: BaseException | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """The error that ended the newest run; None if none did."""
    _desk: HarnessDesktop | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _records: tuple[dict[str, Any], ...] = field(
        default=(), init=False, repr=False, compare=False
    )
    _pointer: Position | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _depth: int = field(default=0, init=False, repr=False, compare=False)
    _is_planning: bool = field(
        default_factory=lambda: current_acting() is not None,
        init=False,
        repr=False,
        compare=False,
    )

    success_sentinel = ">code#1</"
    """The text in the page's HTML by which `check_task_success` knows that the task is
    done.
    """

    def __post_init__(self) -> None:
        """Make the output directory, and connect. Raises DesktopError."""
        self.output_dir = self._made_output_dir()
        if not self._is_planning:
            self._hands()

    @abstractmethod
    def act(self) -> bool:
        """Perform the next part of the task; return whether the task is done. It is
        called until it returns True.
        """

    def run(self, max_steps: int, record: bool = True) -> bool:
        """Call `act` up to `max_steps` times, and return whether it reported the task
        as done.

        The actions are in `partial_execution.json` while it runs and in
        `execution.json` at the end. After an exception it returns False: the exception
        is in `error`, its traceback in `error.txt`. While a test of a session with this
        plugin runs, it is raised again, so that no test passes by it. With `record`,
        what client and server send is in `recording/`. In any case the connection is
        closed at the end; a later action opens another one.
        """
        directory = self._made_output_dir()
        for name in (EXECUTION_FILE, PARTIAL_EXECUTION_FILE, ERROR_FILE):
            (directory / name).unlink(missing_ok=True)
        self._records = ()
        self.error = None
        try:
            try:
                if record:
                    self.start_recording()
                done = any(self.act() for _ in range(max_steps))
            finally:
                self.close()
        except BaseException as exc:  # whatever it was, Ctrl-C too
            self.error = exc
            text = Redactor(self.secrets).hide(traceback.format_exc())
            self._write(ERROR_FILE, text)
            if _is_in_test() or not isinstance(exc, Exception):
                raise
            _log.error("%s", text)  # its traceback may hold secrets
            return False
        self._write_records(EXECUTION_FILE)
        (directory / PARTIAL_EXECUTION_FILE).unlink(missing_ok=True)
        return done

    @record_action
    def mouse_move(self, position: Position) -> None:
        """Move the pointer without pressing a button."""
        self._perform(Move(position.x, position.y), pointer=position)

    @record_action
    def mouse_click(self, action: MouseClickAction) -> None:
        """Click a button, up to three times."""
        click = action.at(self._pointer)
        self._perform(click, pointer=Position(click.x, click.y))

    @record_action
    def mouse_drag(self, action: MouseDragAction) -> None:
        """Press a button at one point, move to another, and release it there."""
        self._perform(*action.steps(), pointer=action.end)

    @record_action
    def mouse_scroll(self, action: ScrollAction) -> None:
        """Move to a point and scroll there."""
        self._perform(action.turn(), pointer=action.position)

    @record_action
    def press_keys(self, keys: Sequence[str]) -> None:
        """Press keys together: `["Ctrl+Shift+P"]`, `["alt f"]`, `["ctrl", "a"]`,
        `["Digit_1"]`.

        A number, `["-12"]`, stands for its characters. An empty key and `"none"` are no
        keys.
        """
        names = [keys] if isinstance(keys, str) else keys
        is_list = isinstance(names, Sequence)
        if not is_list or not all(isinstance(name, str) for name in names):
            raise TypeError(
                "press_keys needs names of keys, such as ['ctrl', 'a'] or ['-12'], got"
                f" {keys!r}."
            )
        given = filter(None, names)
        pressed = [name for name in given if name.strip().lower() != "none"]
        if pressed:
            self._perform(KeyCombo(tuple(pressed)))

    @record_action
    def type_text(self, text: str) -> None:
        """Type at the focus. What the server has no keys for is pasted."""
        self._perform(TypeText(text))

    @record_action
    def page_navigation(self, direction: HistoryDirection) -> None:
        """Go back or forward in the focused browser. Raises ValueError for another
        direction.
        """
        if direction not in ("back", "forward"):
            raise ValueError(
                f"A page navigation goes 'back' or 'forward', got {direction!r}."
            )
        self._perform(TraverseHistory(direction))

    @record_action
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._perform(Wait(seconds))

    @record_action
    def finish(self, params: Mapping[str, Any] | None = None) -> bool:
        """Record the result of the task. Return True, so that `act` can end with
        `return self.finish({"total": 3})`.
        """
        if self._is_planning and (acting := current_acting()):
            acting.params = dict(params or {})
        return True

    def screenshot(self) -> str:
        """Return the screen now, or the screen after the last action if the class plans
        a test, as PNG in base64.
        """
        return base64.b64encode(self._hands().png()).decode("ascii")

    def client_resolution(self) -> tuple[int, int]:
        """Return width and height of the screen in pixels."""
        return self._hands().size

    def check_task_success(self) -> bool | None:
        """Return whether the page's HTML contains `success_sentinel`; None if no
        DevTools answer, and if the class plans a test, whose claims are judged.

        Override it to look elsewhere. It is called after each recorded action, as the
        action's `task_marked_complete`.
        """
        if not self.cdp_port or self._is_planning:
            return None
        try:
            html = Browser(f"{self.vnc_host}:{self.cdp_port}", timeout_s=2.0).html()
        except VncUseError:
            return None
        return self.success_sentinel in html

    def start_recording(self) -> None:
        """Reconnect, and write everything that client and server then send into
        `recording/`.
        """
        if self._desk is None or self._desk.recorder is None:
            self.close()
            # these numbers are positions in an earlier recording, as those of an
            # earlier run's file are
            self._records = tuple(
                {**record, "server_bytes": None} for record in self._records
            )
            directory = self._made_output_dir()
            (directory / EXECUTION_FILE).unlink(missing_ok=True)
            self._connect(directory / "recording")

    def stop_recording(self) -> None:
        """End the recording and its connection; a second call does nothing.

        Raises RunDirectoryUnwritable if the recording is not whole.
        """
        if self._desk and self._desk.recorder:
            self.close()

    def close(self) -> None:
        """End the connection, and a recording of it; a second call does nothing."""
        desk = self._desk
        self._desk = None
        if desk:
            desk.close()

    def _hands(self) -> Acting | HarnessDesktop:
        acting = current_acting() if self._is_planning else None
        return acting or self._desk or self._connect()

    def _connect(self, recording: Path | None = None) -> HarnessDesktop:
        if self._is_planning:
            raise ActionError(
                f"{type(self).__name__} plans a test: only the thread that calls `act`"
                " may act, because the policy and the limits hold there, and the test"
                " runs and records it."
            )
        # this imports Twisted and numpy, in 0.3 s, which the import of a test need not
        # wait for
        from pytest_vnc_use.harness.desk import HarnessDesktop

        self._desk = HarnessDesktop(
            f"{self.vnc_scheme}://{self.vnc_host}:{self.vnc_port}",
            self.secrets,
            recording,
        )
        return self._desk

    def _perform(
        self, *actions: DesktopAction, pointer: Position | None = None
    ) -> None:
        for action in actions:
            self._hands().perform(action)
        self._pointer = pointer or self._pointer

    def _record(self, name: str, arguments: Mapping[str, Any], error: str = "") -> None:
        screen = self._desk.screen() if self._desk else {}
        redactor = Redactor(self.secrets)
        record = {
            "action": name,
            "params": redactor.hide_json(to_json(arguments)),
            "task_marked_complete": self.check_task_success(),
        }
        if error:
            record["error"] = redactor.hide(error)
        self._records = (*self._records, record | screen)
        self._write_records(PARTIAL_EXECUTION_FILE)

    def _write_records(self, name: str) -> None:
        lines = ",\n".join(
            json.dumps(record, ensure_ascii=False) for record in self._records
        )
        self._write(name, f"[\n{lines}\n]\n")

    def _write(self, name: str, text: str) -> None:
        path = self._made_output_dir() / name
        write_atomically(path, text.encode("utf-8", "replace"))

    def _made_output_dir(self) -> Path:
        """Make and return the output directory. A subclass's `__post_init__` may not
        have made it.
        """
        directory = Path(self.output_dir)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    @classmethod
    def as_planner(cls) -> HarnessPlanner:
        """Return a planner that has an agent of this class perform each task."""
        return HarnessPlanner(cls)
