"""Programs that nobody here wrote, a row each: pages from npm's registry, programs from Debian.

Pages are shown in Chromium on a screen of 800x600 at scale 1, and of 1600x1200 at scale 2: the same page. Points and
regions of a page are those at scale 1. All Debian packages that are needed here, beside what .ci/apt-packages has:

    apt-get install --no-install-recommends npm galculator mc less dialog vim
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import foreign_commands as commands
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
    extra: Mapping[str, str] = field(default_factory=dict)
    """Files that the page names and its package does not have."""

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
    """A shell's command; `changed` are other versions of it by the change, and `other` is where a side effect shows."""

    command: str = ""
    changed: Mapping[str, str] = field(default_factory=dict)
    other: Box = (74, 62, 88, 78)
    """In a terminal, the first row."""


def parts(label: str, button: str, extra: str, result: str, other: str) -> Mapping[str, str]:
    return {"label": label, "button": button, "extra": extra, "result": result, "other": other}


LISTED = "#info p:first-child", "#filters li:nth-child(3) a", "#info p:last-child"
TODO_PARTS = parts(*LISTED, "#todo-count", "#todo-list li:first-child label")


def todo(framework: str, title: str, package: str = "todomvc@0.1.1", path: str = "", footer_y: int = 410) -> Page:
    """One of the many versions of one program: three things to do, one of them done, the others looked at."""
    things = TypeText("buy milk\n", 315, 178), TypeText("call bob\n"), TypeText("read a book\n")
    return Page(
        "two things are left to do",
        (*things, Click(148, 242), Click(372, footer_y)),
        (130, footer_y - 70, 260, footer_y - 48),
        title,
        package=package,
        path=path or f"examples/{framework}/index.html",
        parts=TODO_PARTS,
    )


SLIDE = ".slides section:nth-child(2)"
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
        parts=parts("h2", "#accordion h3", "h2", "#accordion .ui-accordion-content-active", "h1"),
    ),
    "pell, an editor": Page(
        "the text is bold in the output",
        (Click(300, 200), TypeText("Dear all,"), KeyCombo(("ctrl", "a")), Click(120, 105)),
        (100, 570, 400, 592),
        "pell",
        package="pell@1.0.6",
        path="demo.html",
        parts=parts("h3", ".pell-button:nth-child(3)", ".pell-button:last-child", "#html-output", "#text-output"),
    ),
    "reveal.js": Page(
        "the second slide is shown",
        (KeyCombo(("right",)), KeyCombo(("left",)), KeyCombo(("right",))),
        (200, 200, 600, 400),
        "reveal.js",
        package="reveal.js@4.6.1",
        parts=parts(SLIDE, ".controls .navigate-right", ".progress", SLIDE, SLIDE),
    ),
    "UIkit, accordion": Page(
        "the first item is open",
        (Click(200, 390), Click(200, 500), Click(200, 130)),
        (25, 110, 745, 310),
        "Accordion",
        package="uikit@3.21.0",
        path="tests/accordion.html",
        parts=parts("h3", ".uk-accordion-title", "h1", ".uk-open p", "h1"),
        extra={
            "tests/js/test.js": 'document.write(\'<link rel="stylesheet" href="../dist/css/uikit.css">'
            "<script src=\"../dist/js/uikit.js\"></scr' + 'ipt>');"
        },
    ),
}


Versions = tuple[str, Mapping[str, str]]


def in_xterm(
    name: str, claim: str, steps: tuple[Action, ...], result: Box, versions: Versions, window: str = "."
) -> DesktopProgram:
    """Return a program of the package of its name, in a terminal: its command and the changed ones."""
    needs = {"xterm": "xterm", name: name}
    return DesktopProgram(claim, steps, result, window, (640, 480), needs, command=versions[0], changed=versions[1])


_GTK = {
    "a colour": "button { color: #b01030 }",
    "a moved button": "button { margin-left: 3px }",
    "another font size": "* { font-size: 11pt }",
}
DESKTOP_PROGRAMS: Mapping[str, DesktopProgram] = {
    "nano": in_xterm(
        "nano",
        "four lines were written",
        (KeyCombo(("down",)), TypeText("bread\ntea\n"), KeyCombo(("ctrl", "o")), KeyCombo(("enter",))),
        commands.cells(21, 31, 48),
        commands.NANO,
    ),
    "vim": in_xterm(
        "vim",
        "two lines were written",
        (KeyCombo(("o",)), TypeText("bread"), KeyCombo(("escape",)), TypeText(":w\n"), TypeText("Gdd:w\n")),
        commands.cells(23, 0, 30),
        commands.VIM,
    ),
    "less": in_xterm(
        "less",
        "the second bottles of pears after line 30 are shown",
        (TypeText("/pears\n"), TypeText("30n"), KeyCombo(("space",)), TypeText("g")),
        commands.cells(0, 0, 25),
        commands.LESS,
    ),
    "dialog": in_xterm(
        "dialog",
        "alice takes number 2",
        (TypeText("alice\n"), KeyCombo(("down",)), KeyCombo(("enter",))),
        commands.cells(8, 21, 52),
        commands.DIALOG,
    ),
    "mc": in_xterm(
        "mc",
        "5 bytes in 2 files are marked",
        (KeyCombo(("f7",)), TypeText("letters\n"), KeyCombo(("down",)), KeyCombo(("insert",)), KeyCombo(("insert",))),
        commands.cells(19, 13, 28),
        commands.MC,
        "mc ",
    ),
    "mousepad": DesktopProgram(
        "the letter is saved",
        (KeyCombo(("ctrl", "end")), TypeText("see you on Monday.\n"), KeyCombo(("ctrl", "s"))),
        (80, 136, 260, 156),
        "notes",
        needs={"mousepad": "mousepad"},
        command=commands.mousepad(),
        changed=commands.in_gtk(
            commands.mousepad(),
            label=commands.mousepad("Hello all,\n"),
            character=commands.mousepad("Dear ail,\n"),
            css={**_GTK, "a colour": "textview text { color: #b01030 }", "a moved button": "menubar { padding: 2px }"},
        )
        | {"a missing element": commands.mousepad("Dear all,\n", "menubar-visible=false")},
        other=(110, 120, 124, 136),
    ),
    "galculator": DesktopProgram(
        "the sum is 15",
        (Click(268, 415), Click(334, 415), Click(464, 455), Click(399, 415), Click(530, 435)),
        (240, 167, 558, 220),
        "galculator",
        needs={"galculator": "galculator"},
        command="exec galculator",
        changed=commands.in_gtk(
            "exec galculator",
            label=commands.edited(commands.BUTTONS_UI, "s/>sqrt</>root</", "exec galculator"),
            character=commands.edited(commands.BUTTONS_UI, "s/>sqrt</>sprt</", "exec galculator"),
            css={**_GTK, "a missing element": "menubar { opacity: 0 }"},
        ),
        other=(262, 327, 276, 343),
    ),
}
PROGRAMS: Mapping[str, Program] = {
    **{f"{name}, scale {scale}": page.scaled(scale) for name, page in PAGES.items() for scale in (1, 2)},
    **DESKTOP_PROGRAMS,
}
