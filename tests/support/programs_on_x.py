"""Recordings and replays of programs on TigerVNC. A program is a command of the shell, in its working directory."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_vnc_use import RunResult, VncUseAgent
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import Inconclusive, RecordingDrifted
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Action, Decision, Observation, Region
from pytest_vnc_use.types.protocols import Planner
from support.judges import Says
from support.tills import Steps

SIZE = (1024, 768)
CLAIM = "it is done"
NOBODY = "nobody"


def with_window(*search: str) -> tuple[str, ...]:
    """Return a command that waits for a window and acts on it; xdotool breaks off if another window goes."""
    found = shlex.join(["xdotool", "search", "--sync", "--onlyvisible", *search])
    return "sh", "-c", f"until {found}; do :; done"


def in_terminal(command: str) -> str:
    return f"xterm -geometry 80x24+60+60 -e sh -c {shlex.quote(command)}"


class GoesOn(Steps):
    """A planner that takes over from a replay. It leaves out the steps that were performed already.

    `thinks_s` is its time for each decision.
    """

    def __init__(self, *actions: Action, thinks_s: float = 0.0) -> None:
        super().__init__(*actions)
        self._thinks_s = thinks_s

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        time.sleep(self._thinks_s)
        done = observation.task.partition("the screen shows:")[2].count("\n")
        return Steps(*self._actions[done:]).decide(observation, timeout_s=timeout_s)


@dataclass
class Driven:
    agent: VncUseAgent
    desktop: XvncDesktop
    recorded: RecordedTest

    def run(self) -> RunResult:
        return self.agent.run("Do what the script says")

    def test(self, saves: tuple[str, str] = ("", "")) -> None:
        """Do as a test does: a run, a claim, and a look at the program's file; `saves` are its name and content."""
        self.run()
        assert self.agent.assess(CLAIM)
        file, text = saves
        assert not file or self.desktop.read_file(file) == text

    def seen_by(self, saves: tuple[str, str] = ("", "")) -> str:
        """Return who sees a difference from the recording in such a test: a gate, the claim, its body, or nobody."""
        try:
            self.test(saves)
        except RecordingDrifted as drifted:
            return f"a gate: {str(drifted).splitlines()[0]}"
        except Inconclusive:
            return f"the claim: {self.agent.verdicts[-1].reason.partition(';')[0]}"
        except AssertionError:
            return "the test's body"
        return NOBODY


@dataclass
class Desk:
    """A desktop for one program after the other, in a `with` statement; `directory` holds recordings and runs."""

    directory: Path
    size: tuple[int, int] = SIZE
    environment: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None: ...

    def key(self, name: str) -> Key:
        return Key(self.directory / "test_real.py", f"test_real.py::{name}")

    @contextmanager
    def driven(
        self,
        name: str,
        command: str,
        mode: Mode,
        steps: Sequence[Action] = (),
        *,
        first: Sequence[str] = (),
        gate_s: float = 30.0,
        thinks_s: float = 0.0,
    ) -> Iterator[Driven]:
        """Yield the program started, and then the command `first` performed.

        `steps` are the planner's, if there is one, and `thinks_s` is what it takes for each.
        """
        recorded = RecordedTest(self.key(name), mode)
        planner: Planner = GoesOn(*steps, thinks_s=thinks_s) if steps else NoPlanner()
        settings = Settings(runs_dir=str(self.directory / "runs"), watch=False, gate_seconds=gate_s)
        desktop = XvncDesktop(size=self.size, environment=self.environment)
        try:
            desktop.launch(["sh", "-c", command])
            if first and (ran := desktop.run(first)).exit_code:
                raise AssertionError(ran)
            with VncUseAgent(
                settings=replace(settings, server=desktop.server),
                vnc_password=desktop.password,
                planner=planner,
                judge=Says(region=Region(300, 300, 700, 500)),
                hitl_mode=False,
                check=True,
                desktop=desktop,
                recorded=recorded,
            ) as agent:
                yield Driven(agent, desktop, recorded)
        finally:
            desktop.stop()
