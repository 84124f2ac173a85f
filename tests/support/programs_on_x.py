"""Programs that people use, each with a task for a planner, on a TigerVNC desktop each.

A program is a shell's command line, in the desktop's working directory. `changed` are other versions of it: no replay
of the first version may accept them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_vnc_use import RunResult, VncUseAgent
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import Inconclusive, RecordingDrifted
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    Click,
    Decision,
    Frame,
    KeyCombo,
    Observation,
    Region,
    Report,
    TypeText,
    Verdict,
)
from pytest_vnc_use.types.protocols import Planner
from support import paths
from support.tills import Steps

PAGE = paths.PROGRAMS / "order.html"
SIZE = (1024, 768)
CLAIM = "it is done"
NOBODY = "nobody"


@dataclass(frozen=True)
class Program:
    """A program and a task for it.

    `needs` are the commands that it consists of; `saves` is the file that the task leaves, and its content. `shows`
    waits until the program is ready, where that takes longer than its window.
    """

    needs: tuple[str, ...]
    command: str
    changed: Mapping[str, str]
    steps: tuple[Action, ...]
    saves: tuple[str, str] = ("", "")
    shows: Sequence[str] = ()


def with_window(*search: str) -> tuple[str, ...]:
    """Return a command that waits for a window and acts on it; xdotool breaks off if another window goes."""
    found = shlex.join(["xdotool", "search", "--sync", "--onlyvisible", *search])
    return "sh", "-c", f"until {found}; do :; done"


def in_terminal(command: str) -> str:
    return f"xterm -geometry 80x24+60+60 -e sh -c {shlex.quote(command)}"


def nano(text: str, *options: str) -> str:
    words = shlex.join(["nano", "--ignorercfiles", *options, "list.txt"])
    return in_terminal(f"printf {shlex.quote(text)} > list.txt; exec {words}")


def vim(text: str, *options: str) -> str:
    words = shlex.join(["vim.tiny", "-u", "NONE", "-i", "NONE", *options, "list.txt"])
    return in_terminal(f"printf {shlex.quote(text)} > list.txt; exec {words}")


def mousepad(text: str, *settings: str, theme: str = "Adwaita") -> str:
    """Return the command of mousepad with settings of its own; its title would show the working directory."""
    kept = "\n".join(["[org/xfce/mousepad/preferences/window]", "path-in-title=false", *settings, ""])
    own = f'export HOME="$PWD" XDG_CONFIG_HOME="$PWD" GSETTINGS_BACKEND=keyfile GTK_THEME={theme}'
    files = f"printf {shlex.quote(kept)} > glib-2.0/settings/keyfile; printf {shlex.quote(text)} > notes.txt"
    return f"{own}; mkdir -p glib-2.0/settings; {files}; exec mousepad notes.txt"


def chromium(edit: str = "") -> str:
    """Return the command of Chromium; `edit` is for sed."""
    page = shlex.join(["sed", edit, str(PAGE)])
    options = "--no-sandbox --no-first-run --disable-gpu --disable-dev-shm-usage --disable-sync --test-type"
    private = "--user-data-dir=profile --password-store=basic --window-position=40,40 --window-size=800,600"
    return f"{page} > page.html; exec chromium {options} {private} --app=file://$PWD/page.html"


_FRUIT, _LETTER = "apples\npears\n", "Dear all,\n"
PROGRAMS: dict[str, Program] = {
    "nano in xterm": Program(
        ("xterm", "nano"),
        nano(_FRUIT),
        {"a word in the file": nano("apples\npeers\n"), "line numbers": nano(_FRUIT, "--linenumbers")},
        (KeyCombo(("down",)), TypeText("bread\ntea\n"), KeyCombo(("ctrl", "o")), KeyCombo(("enter",))),
        ("list.txt", "apples\nbread\ntea\npears\n"),
    ),
    "vim in xterm": Program(
        ("xterm", "vim.tiny"),
        vim(_FRUIT),
        {"a line more in the file": vim(f"{_FRUIT}\n"), "line numbers": vim(_FRUIT, "+set number")},
        (KeyCombo(("o",)), TypeText("bread"), KeyCombo(("escape",)), TypeText(":w\n"), TypeText("Gdd:w\n")),
        ("list.txt", "apples\nbread\n"),
    ),
    "a page in chromium": Program(
        ("chromium", "xdotool"),
        chromium(),
        {
            "a word in the page": chromium("s/pieces are/articles are/"),
            "a wrong sum": chromium("s/Number(.*)/1/"),
            "the colour of a button": chromium("s/<style>/<style> button { color: navy }/"),
        },
        (
            TypeText("apples", 150, 197),
            KeyCombo(("enter",)),
            TypeText("pears"),
            TypeText("3", 350, 197, clear_first=True, press_enter=True),
            Click(94, 342),
        ),
        shows=with_window("--name", "^Order$"),
    ),
    "mousepad": Program(
        ("mousepad",),
        mousepad(_LETTER),
        {
            "a word in the document": mousepad("Dear ail,\n"),
            "another theme": mousepad(_LETTER, theme="HighContrast"),
            "another option": mousepad(_LETTER, "statusbar-visible=true"),
        },
        (KeyCombo(("ctrl", "end")), TypeText("see you on Monday.\n"), KeyCombo(("ctrl", "s"))),
        ("notes.txt", "Dear all,\nsee you on Monday.\n"),
    ),
}


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


class Believes:
    """The port Judge: every claim holds, shown by a part of the screen where nothing moves."""

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        return Verdict(claim, "holds", "so it is believed", Region(300, 300, 700, 500), frame.ref, "believes")


@dataclass
class Driven:
    """An agent on a desktop where the program runs. Its user calls `recorded.keep()`."""

    agent: VncUseAgent
    desktop: XvncDesktop
    recorded: RecordedTest

    def run(self) -> RunResult:
        return self.agent.run("Do what the script says")

    def test(self, saves: tuple[str, str] = ("", "")) -> None:
        """Do as a test does: a run, a claim, and a look at the program's file; `saves` is as in Program."""
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

    def playing(self, name: str, mode: Mode, changed: str = "", **options: Any) -> AbstractContextManager[Driven]:
        """Play one of `PROGRAMS`, or a change of it; if it is not only replayed, with the planner of its steps."""
        program = PROGRAMS[name]
        command = program.changed[changed] if changed else program.command
        steps = () if mode == "replay" else program.steps
        return self.driven(name, command, mode, steps, first=program.shows, **options)

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
                judge=Believes(),
                hitl_mode=False,
                check=True,
                desktop=desktop,
                recorded=recorded,
            ) as agent:
                yield Driven(agent, desktop, recorded)
        finally:
            desktop.stop()
