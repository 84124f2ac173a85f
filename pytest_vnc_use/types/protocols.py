"""The ports: what each exchangeable part of the package must do, one to four methods each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pytest_vnc_use.types import (
    ApprovalAsked,
    Decision,
    DesktopAction,
    Frame,
    Glance,
    JsonObject,
    Observation,
    Reading,
    Report,
    RunEvent,
    Settled,
    Verdict,
)


@dataclass(frozen=True)
class Ran:
    """A command that ended: `exit_code` is -n where signal n ended it; what it wrote, as text."""

    exit_code: int
    stdout: str
    stderr: str


class Watching(Protocol):
    """Eyes that stay open between two looks. Moments are those of the monotonic clock, such as a frame's `taken_s`."""

    def changed_since(self, moment_s: float) -> bool:
        """Whether a pixel changed after that moment, outside what keeps changing by itself. Raises DesktopError.

        Carets, spinners, videos and clocks are known once they have been seen to move for a second or a few; what
        stopped moving has changed.
        """

    def wait_changed(self, moment_s: float, timeout_s: float) -> bool:
        """The same, waited for. Raises DesktopError."""

    def glance(self) -> Glance:
        """Return what the screen shows now; it does not count as a frame that was taken. Raises DesktopError."""

    def transient_frames(self) -> tuple[Frame, ...]:
        """Frames that came and went between those that were taken, oldest first; each told once.

        Came, stayed for 0.2 s or longer, and went: a toast, a page that says it loads. What moves by itself makes none.
        Bounded in number and bytes; the newest stay.
        """


class Controller(Watching, Protocol):
    """Eyes and hands on one desktop. Every method returns or raises within its timeout; none hangs."""

    def frame(self) -> Frame:
        """The screen now. Raises DesktopError."""

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError where it cannot be done, DesktopError where the desktop is gone."""

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen has answered the last action and is quiet. Raises DesktopError.

        `briefly` where whoever sees the frame goes on watching: a shorter wait will do.
        """

    def close(self) -> None:
        """End the connection; a second call does nothing."""


@runtime_checkable
class TellsUrl(Protocol):
    """A Controller that knows the browser on its desktop."""

    def page_url(self) -> str:
        """The address of the page that it shows; "" where it cannot be asked."""


@runtime_checkable
class ClickRules(Protocol):
    """What the programs of a desktop take for a double click; a Controller may be one too."""

    @property
    def doubles_only_near(self) -> bool:
        """Whether two clicks at different places are a double click in none of them, however soon they come."""


Connect = Callable[[str, str | None], Controller]
"""Eyes and hands on the VNC server at an address, which may ask for a password. Raises DesktopError."""


class Desktop(Protocol):
    """The thing being driven, by whatever means it was started."""

    @property
    def server(self) -> str:
        """Where its VNC server listens, as `host::port` or the path of a unix socket."""

    @property
    def password(self) -> str | None:
        """What its VNC server asks for; None where it asks for nothing, or nobody but the user knows."""

    def read_file(self, name: str) -> str:
        """Text of a file, relative to the program's working folder. Raises FileNotFoundError, DesktopError."""

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the program's working folder. Raises DesktopError."""

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> Ran:
        """Run a command on the desktop, in the program's working folder, until it ends.

        What it starts in the background lives on, and ends with the desktop. Raises DesktopError where it cannot be
        started, or has not ended within `timeout_s`; then it is killed.
        """

    def launch(self, command: Sequence[str]) -> None:
        """Start the program under test and wait until it shows. Its output is kept, its end told by `program_fault`.

        Raises ProgramMissing where it cannot be found or run, ProgramCrashed where it fails before it shows anything,
        DesktopError where that is the desktop's fault, or where it ends without one.
        """

    def program_fault(self) -> str:
        """What became of the program under test: "" while it runs, or where none was started.

        Else a line such as "the program 'python shop' exited with -11 (SIGSEGV)", and the last lines of its output.
        """

    def fault(self) -> str:
        """What became of the desktop itself: "" while it is there, or where nobody here knows.

        Else a line such as "the VNC server 'Xtigervnc …' exited with -9 (SIGKILL)", and the last lines of its output.
        The program then ended because of it, and `program_fault` is "".
        """

    def logs(self) -> Mapping[str, str]:
        """What each process has printed so far, by its role, such as `program`; still there once stopped."""

    def reset(self) -> None:
        """End what was launched and run, empty the working folder, and prove that the screen is as it was at the start.

        Where no program was launched that leaves it as it was. Raises DesktopError where it cannot be done or proven.
        """

    def stop(self) -> None:
        """End what was started; a second call does nothing."""


class Planner(Protocol):
    """Asks a model, or a script, what to do next. Keeps no state between calls: all it needs is in the observation."""

    @property
    def name(self) -> str:
        """What stands in the report as the one who decided, such as `gemini (gemini-3.8-flash)`."""

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Answer within `timeout_s`. Raises PlannerError."""


class Judge(Protocol):
    """Says whether a claim about the screen holds."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        """Answer within `timeout_s`, and tell `report` of each exchange with a model. Raises PlannerError."""


@runtime_checkable
class Reader(Protocol):
    """Reads a value off the screen; a Judge may be one too."""

    def read(self, question: str, schema: JsonObject, frame: Frame, *, timeout_s: float, report: Report) -> Reading:
        """Answer within `timeout_s` with a value of that JSON Schema, and tell `report` of each exchange.

        Raises PlannerError, and Inconclusive where the answer cannot be read.
        """


class Approver(Protocol):
    """A person, or what stands for one, who is asked about one action."""

    def approve(self, asked: ApprovalAsked) -> bool: ...


class RunObserver(Protocol):
    """Is told of everything that happens in a run, as it happens."""

    def observe(self, event: RunEvent) -> None: ...
