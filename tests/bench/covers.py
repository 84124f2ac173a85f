"""Covers over typed secrets: which replays of sound programs drift, which wrong characters are seen beneath a cover.

    python tests/bench/run.py covers [KIND …] [--times N]

A form shows a code that is typed into it; after Enter it greets with the code. Each kind of program is recorded once,
then replayed N times as it is, and with one character wrong: at once, 0.3 s and 2 s after it was typed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ratios import head, machine, row

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop
from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.planners.local.nobody import NoPlanner
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import KeyCombo, TypeText
from pytest_vnc_use.types.protocols import Planner
from support.qt_desktop import QtDesktop
from support.tills import Steps

FORMS = Path(__file__).with_name("cover_forms")
SECRETS = {"CODE": "8264017359"}
TASK = "Sign in with <secret:CODE>"
WRONG = [{"wrong": at, "late": late_ms} for at, late_ms in (("0", "0"), ("9", "0"), ("9", "300"), ("9", "2000"))]
CHROMIUM = "--no-sandbox --test-type --no-first-run --disable-gpu --disable-dev-shm-usage --window-size=700,400"


@dataclass(frozen=True)
class Kind:
    """A kind of program, where its field is, its options, and whether Enter is pressed after the code."""

    program: str
    field: tuple[int, int]
    options: dict[str, str]
    enters: bool = True

    def desktop(self, options: dict[str, str]) -> XvncDesktop | QtDesktop:
        """Return a desktop on which the program was started."""
        given = [f"--{name}={value}" for name, value in options.items()]
        match self.program:
            case "qt":
                desktop: XvncDesktop | QtDesktop = QtDesktop(size=(800, 450))
                command = [sys.executable, str(FORMS / "form_qt.py"), *given]
            case "gtk":
                desktop = XvncDesktop(size=(800, 450))
                command = ["/usr/bin/python3", str(FORMS / "form_gtk.py"), *given]
            case "terminal":
                desktop = XvncDesktop(size=(800, 450))
                command = ["xterm", "-e", sys.executable, str(FORMS / "form_terminal.py"), *given]
            case _:
                desktop = XvncDesktop(size=(800, 450))
                query = "&".join(each.removeprefix("--") for each in given)
                command = ["chromium", *CHROMIUM.split(), f"--app={(FORMS / 'form.html').as_uri()}?{query}"]
        desktop.launch(command)
        return desktop


KINDS = {
    "GTK": Kind("gtk", (200, 68), {}),
    "GTK, a light blinks": Kind("gtk", (200, 68), {"blink": "500"}),
    "GTK, a light blinks, no Enter": Kind("gtk", (200, 68), {"blink": "700"}, enters=False),
    "GTK, dots": Kind("gtk", (200, 68), {"hidden": "1"}),
    "Qt": Kind("qt", (200, 68), {}),
    "Qt, a light blinks, no Enter": Kind("qt", (200, 68), {"blink": "500"}, enters=False),
    "terminal": Kind("terminal", (300, 200), {}),
    "Chromium": Kind("page", (200, 100), {}),
    "Chromium, a light blinks, no Enter": Kind("page", (200, 100), {"blink": "500"}, enters=False),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="covers")
    parser.add_argument("kinds", nargs="*", help="kinds of programs, as the table names them")
    parser.add_argument("--runs", type=Path, help="a folder that keeps recordings and runs")
    parser.add_argument("--times", type=int, default=5, help="so many replays of each sound program")
    asked = parser.parse_args(arguments)
    print(f"{machine()}\n\n{head('program', 'sound, replayed', 'drifted', 'a replay takes', 'wrong', 'seen')}")
    faults = 0
    for name in asked.kinds or KINDS:
        with tempfile.TemporaryDirectory(prefix="covers-") as own:
            faults += _tried(name, asked.runs / name if asked.runs else Path(own), asked.times)
    return int(faults > 0)


def _tried(name: str, folder: Path, times: int) -> int:
    """Print the row of one kind; return how many replays ended as they should not."""
    kind, took_s = KINDS[name], []
    typed = TypeText("<secret:CODE>", *kind.field)
    _run(kind, folder, "rewrite", kind.options, Steps(typed, *([KeyCombo(("enter",))] if kind.enters else [])))
    drifted = 0
    for _ in range(times):
        began_s = time.monotonic()
        drifted += _run(kind, folder, "replay", kind.options)
        took_s.append(time.monotonic() - began_s)
    wrong = [each for each in WRONG if "hidden" not in kind.options]
    seen = sum(_run(kind, folder, "replay", {**kind.options, **each}) for each in wrong)
    print(row(name, times, drifted, f"{sorted(took_s)[times // 2]:.1f} s", len(wrong), seen), flush=True)
    return drifted + len(wrong) - seen


def _run(kind: Kind, folder: Path, mode: Mode, options: dict[str, str], planner: Planner | None = None) -> bool:
    """Carry out the test once; return whether it drifted from its recording."""
    desktop = kind.desktop(options)
    try:
        recorded = RecordedTest(Key(folder / "test_it.py", "test_it.py::test_it", secrets=("CODE",)), mode)
        agent = VncUseAgent(
            settings=Settings(server=desktop.server, runs_dir=str(folder / "runs"), watch=False, gate_seconds=6.0),
            vnc_password=desktop.password,
            planner=planner or NoPlanner(),
            hitl_mode=False,
            secrets=SECRETS,
            check=True,
            desktop=desktop,
            recorded=recorded,
        )
        with closing(agent):
            agent.run(TASK)
            if mode == "rewrite":
                recorded.keep()
    except RecordingDrifted as drifted:
        if "wrong" not in options:
            print(drifted, file=sys.stderr)
        return True
    finally:
        desktop.stop()
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
