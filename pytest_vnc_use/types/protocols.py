"""The protocols that exchangeable components must implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pytest_vnc_use.types import (
    Action,
    ApprovalRequest,
    Decision,
    DesktopAction,
    Frame,
    JsonObject,
    Observation,
    RawFrame,
    Reading,
    Report,
    RunEvent,
    Settled,
    Verdict,
)
from pytest_vnc_use.types.elements import Elements


@dataclass(frozen=True)
class CommandResult:
    """A command that ended, and its output as text. `exit_code` is -n if signal n ended
    it.
    """

    exit_code: int
    stdout: str
    stderr: str


class Controller(Protocol):
    """Capture and input of one desktop. Every method returns or raises within its
    timeout; none hangs.

    A `timestamp` is a time of the monotonic clock, such as a frame's `taken_at`.
    """

    def changed_since(self, timestamp: float) -> bool:
        """Return whether a pixel changed after `timestamp`, outside regions that keep
        changing. Raises DesktopError.

        Carets, spinners, videos and clocks are recognised once they have moved for a
        second or a few. A region that stopped moving counts as changed.
        """

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for a change after `timestamp`; return whether there
        was one. Raises DesktopError.
        """

    def raw_frame(self) -> RawFrame:
        """Return the screen as it is now, without taking a frame. Raises
        DesktopError.
        """

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames between the frames that were taken, oldest first,
        each only once.

        A transient frame appeared, stayed for at least 0.2 s, and disappeared, such as
        a toast or a loading page. Moving regions cause none. The number and the size of
        the frames are limited; the newest ones are kept.
        """

    def frame(self) -> Frame:
        """Return the screen as it is now. Raises DesktopError."""

    def perform(self, action: DesktopAction) -> None:
        """Perform one action. Raises ActionError if it cannot be done, DesktopError if
        the desktop is gone.
        """

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen has answered the last action and is stable. Raises
        DesktopError.

        With `briefly` a shorter wait is enough, because the caller continues watching
        the screen.
        """

    def close(self) -> None:
        """End the connection; a second call does nothing."""


class MessageTap(Protocol):
    """A log of the messages that a connection sends."""

    def hide(self, text: str) -> str:
        """Return a text without secrets."""

    def note(self, messages: Iterable[JsonObject]) -> None:
        """Store messages that are sent together."""


@runtime_checkable
class AwaitsScreens(Protocol):
    """A Controller whose `frame` waits for the next screen of a recording."""

    def frame_to_act_on(self) -> Frame:
        """Return the screen now, without waiting, for the step that is about to act on
        it. Raises DesktopError.
        """


@runtime_checkable
class SupportsUrl(Protocol):
    """A Controller that can read the browser on its desktop."""

    def page_url(self) -> str:
        """Return the URL of the browser's page; "" if the browser cannot be asked."""


@runtime_checkable
class SupportsElements(Protocol):
    """A Controller that knows the elements of an action without the desktop, such as
    from a recording.
    """

    def elements_of(self, action: Action) -> Elements | None:
        """Return the elements that an action acts on; None if only the desktop knows
        them.
        """


@runtime_checkable
class ClickRules(Protocol):
    """The double-click rules of the programs on a desktop. A Controller may implement
    it too.
    """

    @property
    def doubles_only_near(self) -> bool:
        """Whether two clicks at different points never count as a double click, however
        fast they come.
        """


Connect = Callable[[str, str | None], Controller]
"""A function that connects to the VNC server at an address, with a password if needed.
Raises DesktopError.
"""


class Desktop(Protocol):
    """A desktop with the program under test, however it was started."""

    @property
    def server(self) -> str:
        """The address where its VNC server listens, as `host::port` or the path of a
        unix socket.
        """

    @property
    def password(self) -> str | None:
        """The password of its VNC server; None if it needs none, or if only the user
        knows it.
        """

    def read_file(self, name: str, *, timeout_s: float = 5.0) -> str:
        """Return the text of a file in the program's working directory. Raises
        FileMissing, DesktopError.

        A missing file is waited for, up to `timeout_s`, and text in an empty one for
        a second.
        """

    def write_file(self, name: str, text: str) -> None:
        """Write a text file in the program's working directory. Raises DesktopError."""

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> CommandResult:
        """Run a command on the desktop, in the program's working directory, until it
        ends.

        Its background processes stay alive and end with the desktop. Raises
        DesktopError if the command cannot be started, or has not ended within
        `timeout_s`; then it is killed.
        """

    def launch(self, command: Sequence[str]) -> None:
        """Start the program under test and wait until it appears on the screen.

        Its output is kept, and `program_exit_reason` reports its end. Raises
        ProgramMissing if the program cannot be found or run, ProgramCrashed if it fails
        before it shows anything, DesktopError if the desktop fails or the program ends
        without a failure.
        """

    def program_exit_reason(self) -> str:
        """Return how the program under test ended: "" while it runs, or if none was
        started.

        Otherwise it is a line such as "the program 'python shop' exited with -11
        (SIGSEGV)", and the last lines of the program's output.
        """

    def exit_reason(self) -> str:
        """Return how the desktop ended: "" while it runs, or if that is unknown.

        Otherwise it is a line such as "the VNC server 'Xtigervnc …' exited with -9
        (SIGKILL)", and the last lines of its output. The program then ended because of
        it, and `program_exit_reason` is "".
        """

    def logs(self) -> Mapping[str, str]:
        """Return the output of each process so far, by its role, such as `program`. It
        is still there after a stop.
        """

    def stop(self) -> None:
        """End everything that was started; a second call does nothing."""


class Planner(Protocol):
    """A planner that asks a model, or a script, for the next action.

    It keeps no state between calls: everything it needs is in the observation.
    """

    @property
    def name(self) -> str:
        """The name of the planner in the report, such as `gemini
        (gemini-3.8-flash)`.
        """

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the decision for the next turn within `timeout_s`. Raises
        PlannerError.
        """


@runtime_checkable
class EndsRun(Protocol):
    """A Planner that keeps something open during a run, such as a thread."""

    def end_run(self) -> None:
        """Close it; it can be opened again."""


@runtime_checkable
class Replaying(Protocol):
    """A Planner that reads its decisions from a recording until a live planner takes
    over.
    """

    @property
    def is_live(self) -> bool:
        """True if a live planner has taken over."""


class Judge(Protocol):
    """A judge that decides whether a claim about the screen holds."""

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        """Return the verdict within `timeout_s`, and call `report` for each exchange.
        Raises PlannerError.
        """


@runtime_checkable
class Reader(Protocol):
    """A reader of values on the screen. A Judge may implement it too."""

    def read(
        self,
        question: str,
        schema: JsonObject,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report,
    ) -> Reading:
        """Return a value that fits the JSON Schema within `timeout_s`, and call
        `report` for each exchange.

        Raises PlannerError, and Inconclusive if the answer cannot be read.
        """


class Approver(Protocol):
    """A user, or a substitute, who approves or denies one action."""

    def approve(self, request: ApprovalRequest) -> bool:
        """Return whether the action may be performed."""


class RunObserver(Protocol):
    """An observer that gets every event of a run as it happens."""

    def observe(self, event: RunEvent) -> None:
        """Note an event."""


class ForwardingController:
    """A Controller that forwards everything to another one, `desktop`. Override what
    differs.
    """

    def __init__(self, desktop: Controller) -> None:
        self.desktop = desktop

    def frame(self) -> Frame:
        """Return the screen now. Raises DesktopError."""
        return self.desktop.frame()

    def perform(self, action: DesktopAction) -> None:
        """Perform one action. Raises ActionError if it cannot be done, DesktopError if
        the desktop is gone.
        """
        self.desktop.perform(action)

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen is stable. Raises DesktopError."""
        return self.desktop.settle(briefly=briefly)

    def changed_since(self, timestamp: float) -> bool:
        """Return whether the screen changed after `timestamp`, outside moving regions.
        Raises DesktopError.
        """
        return self.desktop.changed_since(timestamp)

    def wait_changed(self, timestamp: float, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for a change after `timestamp`; return whether there
        was one. Raises DesktopError.
        """
        return self.desktop.wait_changed(timestamp, timeout_s)

    def raw_frame(self) -> RawFrame:
        """Return the pixels of the screen now, without taking a frame. Raises
        DesktopError.
        """
        return self.desktop.raw_frame()

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call, oldest first."""
        return self.desktop.transient_frames()

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self.desktop.close()
