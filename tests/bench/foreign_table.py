"""Programs that nobody here wrote, a row each: pages from npm's registry, programs from Debian.

Pages are shown in Chromium on a screen of 800x600 at scale 1, and of 1600x1200 at scale 2: the same page. Points and
regions of a page are those at scale 1. All Debian packages that are needed here, beside what .ci/apt-packages has:

    apt-get install --no-install-recommends npm galculator mc dialog
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foreign_changes import Box

from pytest_vnc_use.types import Action, Click, KeyCombo, Region, TypeText


@dataclass(frozen=True)
class Program:
    """`result` is where the answer to the claim stands; `window` is a pattern for the name of the window."""

    claim: str
    steps: tuple[Action, ...]
    result: Box
    window: str
    size: tuple[int, int] = (800, 600)
    needs: Mapping[str, str] = field(default_factory=dict)
    """Commands, each with the Debian package that has it."""

    @property
    def missing(self) -> str:
        needs = {"Xtigervnc": "tigervnc-standalone-server", "xwininfo": "x11-utils", **self.needs}
        return " ".join(package for command, package in needs.items() if not shutil.which(command))

    @property
    def region(self) -> Region:
        return Region(*self.result)


@dataclass(frozen=True)
class Page(Program):
    """`package` is npm's name and version; the selectors are those of the parts that changes are made to."""

    needs: Mapping[str, str] = field(default_factory=lambda: {"chromium": "chromium", "npm": "npm"})
    package: str = ""
    path: str = "index.html"
    scale: int = 1
    parts: Mapping[str, str] = field(default_factory=dict)

    def scaled(self, scale: int) -> Page:
        steps = tuple(at_scale(step, scale) for step in self.steps)
        left, top, right, bottom = (scale * edge for edge in self.result)
        size = (scale * self.size[0], scale * self.size[1])
        return replace(self, steps=steps, result=(left, top, right, bottom), size=size, scale=scale)


def at_scale(step: Action, scale: int) -> Action:
    places = {name: scale * value for name, value in vars(step).items() if name in ("x", "y", "to_x", "to_y") and value}
    return replace(step, **places)


@dataclass(frozen=True)
class DesktopProgram(Program):
    """A shell's command; `other` is where a side effect shows."""

    command: str = ""
    other: Box = (74, 62, 88, 78)
    """In a terminal, the first row."""


TODO_PARTS = {
    "label": "#info p:first-child",
    "button": "#filters li:nth-child(3) a",
    "extra": "#info p:last-child",
    "result": "#todo-count",
    "other": "#todo-list li:first-child label",
}


def todo(framework: str, title: str, package: str = "todomvc@0.1.1", path: str = "", footer_y: int = 410) -> Page:
    """One of the many versions of one program: three things to do, one of them done, the others looked at."""
    return Page(
        "two things are left to do",
        (
            TypeText("buy milk\n", 315, 178),
            TypeText("call bob\n"),
            TypeText("read a book\n"),
            Click(148, 242),
            Click(372, footer_y),
        ),
        (130, footer_y - 70, 260, footer_y - 48),
        title,
        package=package,
        path=path or f"examples/{framework}/index.html",
        parts=TODO_PARTS,
    )


PAGES: Mapping[str, Page] = {
    "TodoMVC, Backbone": todo("backbone", "Backbone.js"),
    "TodoMVC, AngularJS": todo("angularjs", "AngularJS"),
    "TodoMVC, Knockout": todo("knockoutjs", "Knockout.js"),
    "TodoMVC, React": todo("react", "React"),
    "TodoMVC, no framework": todo("vanillajs", "VanillaJS"),
    "TodoMVC, Mithril": todo("", "Mithril", "mithril@1.1.7", "examples/todomvc/index.html", 395),
    "jQuery UI": Page(
        "the second part is open, and Java is chosen",
        (Click(300, 437), KeyCombo(("tab",)), TypeText("java"), KeyCombo(("down",)), KeyCombo(("enter",))),
        (50, 350, 735, 440),
        "jQuery UI Example Page",
        package="jquery-ui-dist@1.13.3",
        parts={
            "label": "h2",
            "button": "#accordion h3",
            "extra": "h2",
            "result": "#accordion .ui-accordion-content-active",
            "other": "h1",
        },
    ),
    "pell, an editor": Page(
        "the text is bold in the output",
        (Click(300, 200), TypeText("Dear all,"), KeyCombo(("ctrl", "a")), Click(120, 105)),
        (100, 570, 400, 592),
        "pell",
        package="pell@1.0.6",
        path="demo.html",
        parts={
            "label": "h3",
            "button": ".pell-button:nth-child(3)",
            "extra": ".pell-button:last-child",
            "result": "#html-output",
            "other": "#text-output",
        },
    ),
}


def file(name: str, text: str) -> str:
    """Return the shell's words that write a file."""
    return f"printf %s {shlex.quote(text)} > {name}; "


def cells(row: int, left: int, right: int) -> Box:
    """Return the region of characters on the screen of a terminal; rows and columns count from 0."""
    return 62 + 6 * left, 62 + 13 * row, 62 + 6 * right, 75 + 13 * row


def in_xterm(
    name: str, claim: str, steps: tuple[Action, ...], result: Box, command: str, window: str = "."
) -> DesktopProgram:
    """Return a program of the package of its name, in a terminal."""
    command = f"exec xterm -geometry 80x24+60+40 -e sh -c {shlex.quote(command)}"
    return DesktopProgram(claim, steps, result, window, (640, 480), {"xterm": "xterm", name: name}, command=command)


DIALOG = r"""dialog --inputbox Name 8 40 2>name; dialog --menu Fruit 12 40 3 1 Apples 2 Pears 3 Cherries 2>fruit
dialog --msgbox "$(cat name) takes number $(cat fruit), 3.50 in all" 8 40"""
MC = (
    "mkdir -p .config/mc fruit; "
    + file(".config/mc/ini", "[Layout]\nmessage_visible=false\nfree_space=false\n")
    + file(".config/mc/panels.ini", "[New Left Panel]\nlist_format=brief\n[New Right Panel]\nlist_format=brief\n")
    + "cd fruit; echo 12 > apples; echo 3 > pears; touch -d 2026-01-01 *; exec mc -d"
)
MOUSEPAD = "[org/xfce/mousepad/preferences/window]\npath-in-title=false\n"
DESKTOP_PROGRAMS: Mapping[str, DesktopProgram] = {
    "nano": in_xterm(
        "nano",
        "four lines were written",
        (KeyCombo(("down",)), TypeText("bread\ntea\n"), KeyCombo(("ctrl", "o")), KeyCombo(("enter",))),
        cells(21, 31, 48),
        file("list.txt", "apples\npears\n") + "exec nano --ignorercfiles list.txt",
    ),
    "dialog": in_xterm(
        "dialog",
        "alice takes number 2",
        (TypeText("alice\n"), KeyCombo(("down",)), KeyCombo(("enter",))),
        cells(8, 21, 52),
        DIALOG,
    ),
    "mc": in_xterm(
        "mc",
        "5 bytes in 2 files are marked",
        (KeyCombo(("f7",)), TypeText("letters\n"), KeyCombo(("down",)), KeyCombo(("insert",)), KeyCombo(("insert",))),
        cells(19, 13, 28),
        MC,
        "mc ",
    ),
    "mousepad": DesktopProgram(
        "the letter is saved",
        (KeyCombo(("ctrl", "end")), TypeText("see you on Monday.\n"), KeyCombo(("ctrl", "s"))),
        (80, 136, 260, 156),
        "notes",
        needs={"mousepad": "mousepad"},
        command=file("notes.txt", "Dear all,\n")
        + file(".config/glib-2.0/settings/keyfile", MOUSEPAD)
        + "exec mousepad notes.txt",
        other=(110, 120, 124, 136),
    ),
    "galculator": DesktopProgram(
        "the sum is 15",
        (Click(268, 415), Click(334, 415), Click(464, 455), Click(399, 415), Click(530, 435)),
        (240, 167, 558, 220),
        "galculator",
        needs={"galculator": "galculator"},
        command="exec galculator",
        other=(262, 327, 276, 343),
    ),
}
SCALES = (1, 2)
PROGRAMS: Mapping[str, Program] = {
    **{f"{name}, scale {scale}": page.scaled(scale) for name, page in PAGES.items() for scale in SCALES},
    **DESKTOP_PROGRAMS,
}
