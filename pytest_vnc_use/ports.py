"""The ports: what each exchangeable part of the package must do, one to four methods each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_vnc_use.types import (
    ApprovalAsked,
    Decision,
    DesktopAction,
    Frame,
    Observation,
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


class Controller(Protocol):
    """Eyes and hands on one desktop. Every method returns or raises within its timeout; none hangs."""

    def frame(self) -> Frame:
        """The screen now. Raises DesktopError."""

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError where it cannot be done, DesktopError where the desktop is gone."""

    def settle(self) -> Settled:
        """Wait until the screen has answered the last action and is quiet. Raises DesktopError."""

    def close(self) -> None:
        """End the connection; a second call does nothing."""


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

    def program_fault(self) -> str:
        """What became of the program under test: "" while it runs, or where none was started.

        Else a line such as "the program 'python shop' exited with -11 (SIGSEGV)", and the last lines of its output.
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


class Approver(Protocol):
    """A person, or what stands for one, who is asked about one action."""

    def approve(self, asked: ApprovalAsked) -> bool: ...


class RunObserver(Protocol):
    """Is told of everything that happens in a run, as it happens."""

    def observe(self, event: RunEvent) -> None: ...
