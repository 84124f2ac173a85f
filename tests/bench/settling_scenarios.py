"""What programs do after an action: the scenarios of `settling`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.types import Action, Click, Scroll, TypeText
from support.paths import PROGRAMS

SIZE = (1024, 768)
PAGE = Path(__file__).with_name("settling.html").as_uri()
BROWSER = tuple(shlex.split(browser_command()))
# a letter is larger than a caret
FONT = ("-fa", "DejaVu Sans Mono", "-fs", "20")
TERMINAL = ("xterm", *FONT, "-geometry", "60x20+0+0", "-e", "sh")
FORM = ("/usr/bin/python3", str(PROGRAMS / "buggy_form.py"))
GO = Click(65, 35)
NOWHERE = np.s_[:0, :0]
CORNER = np.s_[310:430, 20:320]


@dataclass(frozen=True)
class Scenario:
    """A program, a point of its first screen with the colour there, and the action.

    `moving` is where the screen never comes to rest.
    """

    command: Sequence[str]
    point: tuple[int, int]
    colour: int
    action: Action
    moving: tuple[slice, ...] = NOWHERE


def page(
    name: str, action: Action = GO, moving: tuple[slice, ...] = NOWHERE
) -> Scenario:
    command = (*BROWSER, f"{PAGE}?{name}")
    return Scenario(command, (700, 280), 0xEEEEEE, action, moving)


def terminal(line: str) -> Scenario:
    return Scenario(TERMINAL, (300, 200), 0xFFFFFF, TypeText(line))


def form(bug: str, action: Action) -> Scenario:
    return Scenario((*FORM, bug), (500, 500), 0xFFFFFF, action)


SCENARIOS = {
    "immediate": page("immediate"),
    "late": page("late"),
    "loading": page("loading"),
    "chunks": page("chunks"),
    "transition": page("transition"),
    "swap": page("swap"),
    "navigation": page("navigation"),
    "wheel": page("wheel", Scroll(300, 200, "down", 3)),
    "typing": page("typing", TypeText("twenty characters, W")),
    "search": page("search", TypeText("apples", press_enter=True)),
    "caret": page("caret", moving=CORNER),
    "spinner": page("spinner", moving=CORNER),
    "video": page("video", moving=CORNER),
    "clock": page("clock", moving=CORNER),
    "terminal, a key": terminal("W"),
    "terminal, 200 lines": terminal("seq 200\n"),
    "terminal, a window": terminal("xmessage -center hello &\n"),
    "GTK, a window": terminal(f"{' '.join(FORM)} '' &\n"),
    "GTK, a menu": form("", Click(200, 130, "right")),
    "GTK, a dialog": form("dialog_at_the_end", Click(120, 372)),
}
