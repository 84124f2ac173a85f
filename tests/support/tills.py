"""Agents that record and replay on a program: the till on Qt's own VNC platform, or
another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_vnc_use import RunResult, VncUseAgent
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.closed import Circumstances
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.reviewer import ReviewedTest
from pytest_vnc_use.recordings.store import Key, load
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Action, Click, Proposal, TypeText
from pytest_vnc_use.types.protocols import Planner
from support.agents import agent_of
from support.memory_desktop import ListPlanner, act, finished
from support.paths import PROGRAMS
from support.qt_desktop import QtDesktop

TILL = PROGRAMS / "till.py"
LATER = (TILL, "--later")
TASK = "Enter alice, add two apples and pay"
NAME = (200, 60)
ADD = (140, 224)
PAY = (380, 224)
ADD_WHEN_MOVED = (240, 224)
STEPS = (TypeText("alice", *NAME), Click(*ADD), Click(*ADD), Click(*PAY))


class Steps(ListPlanner):
    """A planner of one action a turn, then finished."""

    name = "steps"

    def __init__(self, *actions: Action) -> None:
        self.actions = actions
        proposals = [
            Proposal(action, f"step {number}")
            for number, action in enumerate(actions, 1)
        ]
        super().__init__([*map(act, proposals), finished("paid")])


@dataclass
class Played:
    """A till and an agent on it. Its user calls `recorded.write()`."""

    agent: VncUseAgent
    desktop: Any
    recorded: RecordedTest

    def run(self, task: str = TASK) -> RunResult:
        return self.agent.run(task, check=True)

    @property
    def total(self) -> str:
        return str(self.desktop.read_file("total.txt"))


@contextmanager
def playing(
    desktop: Any,
    command: Sequence[str],
    settings: Settings,
    recorded: RecordedTest,
    *,
    first: Sequence[str] = (),
    **options: Any,
) -> Iterator[Played]:
    """Start the program on the desktop, and then perform the command `first`; `options`
    are the agent's.
    """
    try:
        desktop.launch(command)
        if first and (ran := desktop.run(first)).exit_code:
            raise AssertionError(ran)
        settings = replace(settings, server=desktop.server)
        with agent_of(
            settings, desktop=desktop, recorded_test=recorded, can_ask=False, **options
        ) as agent:
            yield Played(agent, desktop, recorded)
    finally:
        desktop.stop()


@dataclass
class Tills:
    """A starter of tills, one after the other, each for one agent. `runs` holds their
    run directories.
    """

    directory: Path
    program: Sequence[Path | str] = (TILL,)

    @property
    def key(self) -> Key:
        return Key(self.directory / "test_till.py", "test_till.py::test_till")

    @property
    def recording(self) -> Recording:
        recording = load(self.key.path)
        assert recording
        return recording

    @property
    def runs(self) -> Path:
        return self.directory / "runs"

    def agent(
        self,
        mode: Mode,
        planner: Planner | None = None,
        *till: str,
        gate_s: float = 30.0,
        size: tuple[int, int] = (800, 400),
        secrets: Mapping[str, str] | None = None,
        rehearsal: Rehearsal | None = None,
        reviewed: ReviewedTest | None = None,
        redacts: bool = False,
        **options: Any,
    ) -> AbstractContextManager[Played]:
        key = Key(self.key.module, self.key.test, secrets=tuple(secrets or ()))
        settings = Settings(
            runs_dir=str(self.runs),
            watch=False,
            gate_seconds=gate_s,
            show_secrets=not redacts,
        )
        desktop = QtDesktop(size=size)
        try:
            recorded = RecordedTest(
                key,
                mode,
                rehearsal=rehearsal,
                reviewed=reviewed,
                redacts=redacts,
                circumstances=Circumstances(desktop),
            )
        except RecordingError:
            desktop.stop()
            raise
        options |= {"planner": planner or NoPlanner(), "secrets": secrets}
        return playing(
            desktop,
            [sys.executable, *map(str, self.program), *till],
            settings,
            recorded,
            **options,
        )
