"""Recordings and replays of programs on TigerVNC, and changes of the screen that are no
fault of the program.

A program is a command of the shell, in its working directory: mostly a terminal that
counts apples.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import rule_for
from pytest_vnc_use.types import Action, Click, Decision, Observation, Region, TypeText
from support.judges import Says
from support.paths import PROGRAMS
from support.tills import Played, Steps, playing

NAME = "apples are counted"
NEEDS = ("openbox", "xterm", "xclock", "xsetroot", "xdotool")
COUNT = """n=0; while printf 'apples: '; read more; do {pause}
n=$((n + more)); echo "$n apples, $((n * 250)) cents"; echo $n > total.txt; done"""
SLOWLY = "sleep $(awk -v seed=$(date +%N) 'BEGIN { srand(seed); print 2 * rand() }')"
MOVED_PX = (90, 120)
CLOCK = "120x40+640+100"
MASK = {"left": 620, "top": 60, "right": 800, "bottom": 180}


def in_terminal(command: str) -> str:
    return f"xterm -geometry 80x24+60+60 -e sh -c {shlex.quote(command)}"


class GoesOn(Steps):
    """A planner that leaves out what a replay performed already, and thinks for
    `thinks_s` before each decision.
    """

    def __init__(self, *actions: Action, thinks_s: float = 0.0) -> None:
        super().__init__(*actions)
        self._thinks_s = thinks_s

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        time.sleep(self._thinks_s)
        done = observation.task.partition("the screen shows:")[2].count("\n")
        return Steps(*self.actions[done:]).decide(observation, timeout_s=timeout_s)


@dataclass
class Desk:
    directory: Path

    def key(self, name: str) -> Key:
        return Key(self.directory / "test_real.py", f"test_real.py::{name}")

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
    ) -> AbstractContextManager[Played]:
        """Return the program started, and then the command `first` performed; `steps`
        are the planner's, if any.
        """
        return playing(
            XvncDesktop(size=(1024, 768)),
            ["sh", "-c", command],
            Settings(
                runs_dir=str(self.directory / "runs"), watch=False, gate_seconds=gate_s
            ),
            RecordedTest(self.key(name), mode),
            first=first,
            planner=GoesOn(*steps, thinks_s=thinks_s) if steps else NoPlanner(),
            judge=Says(region=Region(300, 300, 700, 500)),
        )


def do_test(played: Played, saves: tuple[str, str]) -> None:
    """Do as a test does: a run, a claim, and a look at the program's file; `saves` are
    its name and content.
    """
    played.run()
    assert played.agent.assess("it is done")
    file, text = saves
    assert played.desktop.read_file(file) == text


def counting(
    *terminal: str, pause: str = "", colour: str = "#406080", zone: str = ""
) -> str:
    clock = (
        f"TZ={zone} xclock -digital -strftime '%H:%M:%S' -update 1 -geometry {CLOCK} &"
        if zone
        else ""
    )
    xterm = in_terminal(COUNT.format(pause=pause)).replace(
        "xterm", shlex.join(["xterm", *terminal]), 1
    )
    return f"xsetroot -solid '{colour}'; {clock} exec {xterm}"


STEPS = (Click(200, 200), TypeText("2\n"), TypeText("3\n"))
TOTAL = ("total.txt", "5\n")
RECORDED = counting()
MOVES = (
    "xdotool search --sync --onlyvisible --class XTerm windowmove --sync --relative"
    f" {MOVED_PX[0]} {MOVED_PX[1]}"
)
# xdotool breaks off if another window goes
MOVED = ("sh", "-c", f"until {MOVES}; do :; done")


@dataclass(frozen=True)
class Change:
    """The program as it was recorded, with `masks`, and as it is now; a planner takes
    the `steps` now.

    `recorded_steps` were recorded by a planner that thinks for `thinks_s` before each.
    """

    command: str = RECORDED
    first: Sequence[str] = ()
    steps: tuple[Action, ...] = STEPS
    recorded: str = RECORDED
    masks: tuple[Mapping[str, int], ...] = ()
    recorded_steps: tuple[Action, ...] = STEPS
    thinks_s: float = 0.0
    total: tuple[str, str] = TOTAL


WITH_CLOCK = counting(zone="UTC")
OTHER_TIME = counting(zone="Asia/Kathmandu")
AFTER_MOVED = (Click(STEPS[0].x + MOVED_PX[0], STEPS[0].y + MOVED_PX[1]), *STEPS[1:])
NAME_AT = (90, 130)
MORE = (360, 192)
SAVE = (120, 372)
ORDERING = (
    Click(*NAME_AT),
    TypeText("bob"),
    Click(*NAME_AT, count=2),
    TypeText("alice"),
    Click(*MORE),
    Click(*MORE),
    Click(*SAVE),
)


def restless(what: str, thinks_s: float) -> Change:
    """Return no change of a program that is restless on its own, recorded by a planner
    that thinks so long.
    """
    command = shlex.join(["/usr/bin/python3", str(PROGRAMS / "buggy_form.py"), what])
    return Change(
        command,
        recorded=command,
        steps=ORDERING,
        recorded_steps=ORDERING,
        thinks_s=thinks_s,
        total=("order.txt", "alice;3;7.50;plain"),
    )


CHANGES = {
    "none": Change(),
    "the window manager puts the window elsewhere": Change(
        first=MOVED, steps=AFTER_MOVED
    ),
    "a clock shows another time": Change(OTHER_TIME, recorded=WITH_CLOCK),
    "a clock shows another time, behind a mask": Change(
        OTHER_TIME, recorded=WITH_CLOCK, masks=(MASK,)
    ),
    "a caret blinks that did not": Change(counting("-bc")),
    "a caret blinks, as it did": Change(counting("-bc"), recorded=counting("-bc")),
    "the desktop has another colour": Change(counting(colour="#804020")),
    "the program has another theme": Change(counting("-bg", "ivory", "-fg", "navy")),
    "up to 2 s before each reaction": Change(counting(pause=SLOWLY)),
    "nothing, but it is hovered and selected": restless("animated", 0.5),
    "nothing, but its caret stopped when it was recorded": restless("animated", 12.0),
    "a toast of 6 s, recorded slowly": restless("toast_of_6_s", 7.0),
    "a tooltip of 10 s, recorded slowly": restless("tooltip_of_10_s", 11.0),
    "a notification of 4 s in its corner": restless("notification_of_4_s", 2.0),
    "a minute that changes": restless("minute", 2.0),
}


def record(desk: Desk, change: Change) -> None:
    """Record the screen that changes; the masks are put in by hand, as a user
    does it.
    """
    with desk.driven(
        NAME,
        change.recorded,
        "rewrite",
        change.recorded_steps,
        thinks_s=change.thinks_s,
    ) as driven:
        do_test(driven, change.total)
        assert driven.recorded.write()
    file = desk.key(NAME).path
    data = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(data | {"masks": change.masks}), encoding="utf-8")


def replay(
    desk: Desk, change: Change, mode: Mode, *, gate_s: float = 30.0
) -> tuple[str, str]:
    """Return a test's result, `passed`, `healed` (and kept so), or the triage of its
    failure, and the difference.
    """
    planner = change.steps if mode == "auto" else ()
    with desk.driven(
        NAME, change.command, mode, planner, first=change.first, gate_s=gate_s
    ) as driven:
        try:
            do_test(driven, change.total)
        except Exception as exc:  # noqa: BLE001  # whatever it is, its triage is asked for
            return str(rule_for(exc).triage), str(exc)
        driven.recorded.write()
        driven.agent.end_body()
        healed = driven.recorded.healed
        transients = driven.recorded.transients.messages
        kind = "passed"
        if healed or transients:
            kind = "healed" if healed else "transient"
        return kind, "; ".join([*healed, *transients])
