"""Programs of other projects, a row each, and the changes of them that no replay may
take for what was recorded.

Pages are of npm's registry, shown in Chromium on a screen of 800x600 at scale 1, and of
1600x1200 at scale 2: the same page. Points and regions of a page are those at scale 1.
Other programs are Debian's, started by the shell as a careful user has settled them.
All packages that are needed here, beside what .ci/apt-packages has:

    apt-get install --no-install-recommends npm galculator mc less dialog vim

A change `does` something with a part of the program (`label`, `button`, `extra`,
`result`, `other`), or paints over it: from the start, or late, once half of the input
or all of it was made. In pages a script does that
(tests/support/programs/changed_page.js). What desktop programs show from the start is
changed in what starts them (`changed`); what comes late is a window over it
(tests/support/programs/late_window.py).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pytest_vnc_use.types import Action, Click, JsonObject, KeyCombo, Region, TypeText

Box = tuple[int, int, int, int]
Part = Literal["label", "button", "extra", "result", "other"]


@dataclass(frozen=True)
class Change:
    """`paints` what stands there, in `colour`, in a box of its own; `for_s` is how
    long, 0 for ever.
    """

    does: Literal["text", "character", "colour", "move", "hide", "size", "paint"]
    part: Part = "label"
    when: Literal["start", "half", "all"] = "start"
    after_s: float = 0.0
    for_s: float = 0.0
    paints: str = ""
    colour: str = ""

    def presses(self, of_all: int) -> int:
        """After how many presses of keys and buttons it begins; 0 where it is there
        from the start.
        """
        return {"start": 0, "half": max(1, of_all // 2), "all": of_all}[self.when]


ERROR = "ERROR 500: the server did not answer"
CHANGES: Mapping[str, Change] = {
    "text of a label": Change("text"),
    "one wrong character": Change("character"),
    "a colour": Change("colour", "button"),
    "a moved button": Change("move", "button"),
    "a missing element": Change("hide", "extra"),
    "another font size": Change("size"),
    "an error banner after 0.3 s": Change(
        "paint", when="all", after_s=0.3, paints=ERROR, colour="tomato"
    ),
    "an error banner after 0.6 s": Change(
        "paint", when="all", after_s=0.6, paints=ERROR, colour="tomato"
    ),
    "an error banner after 1 s": Change(
        "paint", when="all", after_s=1.0, paints=ERROR, colour="tomato"
    ),
    "a toast in between": Change(
        "paint", when="half", for_s=0.4, paints="It could not be saved", colour="gold"
    ),
    "a wrong total": Change("character", "result", when="all"),
    "a result that vanishes": Change("hide", "result", when="all", after_s=0.6),
    "a dialog at the end": Change(
        "paint",
        when="all",
        after_s=0.1,
        paints="Your session has ended",
        colour="light gray",
    ),
    "a side effect on another element": Change("character", "other", when="half"),
}


def box_of(change: Change, size: tuple[int, int]) -> Box:
    """Return the box of the change on a screen or a page of this size: a banner, a
    toast, or a dialog in the middle.
    """
    width, height = size
    match change.paints, change.for_s:
        case str(text), 0.0 if text == ERROR:
            return 0, 0, width, 48
        case _, 0.0:
            return (
                width // 2 - 160,
                height // 2 - 60,
                width // 2 + 160,
                height // 2 + 60,
            )
    return width - 280, height - 70, width - 20, height - 22


def in_page(
    change: Change, selector: str, presses: int, size: tuple[int, int]
) -> JsonObject:
    late = {
        "presses": change.presses(presses),
        "after_s": change.after_s,
        "for_s": change.for_s,
    }
    painted = {
        "box": box_of(change, size),
        "colour": change.colour.replace(" ", ""),
        "text": change.paints,
    }
    return {"does": change.does, "selector": selector, **late, **painted}


def over_window(
    change: Change, result: Box, other: Box, size: tuple[int, int]
) -> JsonObject:
    times = {"after_s": change.after_s, "for_s": change.for_s}
    if change.does == "paint":
        return {
            "box": box_of(change, size),
            "colour": change.colour,
            "text": change.paints,
            **times,
        }
    if change.does == "hide":
        return {"box": result, **times}
    left, top, *_ = result if change.part == "result" else other
    return {
        "box": (left, top, left + 14, top + 16),
        "colour": "white",
        "text": "7",
        **times,
    }


def files(**texts: str) -> str:
    """Shell words that write them; a name's last `_` is a dot."""
    return "".join(
        f"printf %s {shlex.quote(text)} > {'.'.join(name.rsplit('_', 1))}; "
        for name, text in texts.items()
    )


def terminal(command: str, *options: str) -> str:
    return (
        f"exec xterm {shlex.join(options)} -geometry 80x24+60+40 -e sh -c"
        f" {shlex.quote(command)}"
    )


def in_terminals(
    command: str, label: str, character: str, extra: str
) -> tuple[str, Mapping[str, str]]:
    """The command in xterm, and its changed versions: three commands, and the same in a
    changed xterm.
    """
    commands = {
        "text of a label": label,
        "one wrong character": character,
        "a missing element": extra,
    }
    options = {
        "a colour": ("-fg", "#802020"),
        "a moved button": ("-b", "5"),
        "another font size": ("-fn", "7x14"),
    }
    changed = {what: terminal(changed) for what, changed in commands.items()}
    return terminal(command), changed | {
        what: terminal(command, *more) for what, more in options.items()
    }


def edited(file: str, edit: str, command: str) -> str:
    """The command, which sees a file of the system's as sed makes it, and no other
    process does.
    """
    bound = f'mount --bind "$HOME/edited" {file}; {command}'
    return (
        f'sed {shlex.quote(edit)} {file} > "$HOME/edited"; exec unshare -rm sh -c'
        f" {shlex.quote(bound)}"
    )


def in_gtk(
    command: str, *, label: str, character: str, css: Mapping[str, str]
) -> dict[str, str]:
    """Changed versions of a GTK program: two commands, and the same with other style
    sheets, by the change.
    """
    styled = {
        what: f"printf %s {shlex.quote(text)} > .config/gtk-3.0/gtk.css; {command}"
        for what, text in css.items()
    }
    return {"text of a label": label, "one wrong character": character, **styled}


FRUIT = "apples\npears\n"


def cells(row: int, left: int, right: int) -> Box:
    """Return the places of characters on the screen of a terminal; rows and columns
    count from 0.
    """
    return 62 + 6 * left, 62 + 13 * row, 62 + 6 * right, 75 + 13 * row


def nano(text: str = FRUIT, options: str = "") -> str:
    return f"{files(list_txt=text)}exec nano --ignorercfiles {options} list.txt"


def vim(text: str = FRUIT, options: str = "") -> str:
    return f"{files(list_txt=text)}exec vim -u NONE -i NONE -N {options} list.txt"


def less(text: str, options: str = "") -> str:
    return f"{files(poem_txt=text)}LESSHISTFILE=- exec less {options} poem.txt"


def dialog(label: str = "Name", pear: str = "Pears", options: str = "") -> str:
    menu = f"dialog {options} --menu Fruit 12 40 3 1 Apples 2 {pear} 3 Cherries 2>fruit"
    message = (
        'dialog --msgbox "$(cat name) takes number $(cat fruit), 3.50 in all" 8 40'
    )
    return f"dialog --inputbox {label} 8 40 2>name; {menu}; {message}"


def mc(first: str = "apples", second: str = "pears", layout: str = "") -> str:
    settings = f"[Layout]\nmessage_visible=false\nfree_space=false\n{layout}\n"
    panels = (
        "[New Left Panel]\nlist_format=brief\n[New Right Panel]\nlist_format=brief\n"
    )
    written = (
        f"mkdir -p .config/mc fruit; {files(ini=settings, panels_ini=panels)}mv ini"
        " panels.ini .config/mc; "
    )
    return (
        f"{written}cd fruit; echo 12 > {first}; echo 3 > {second}; touch -d 2026-01-01"
        " *; exec mc -d"
    )


POEM = "".join(
    f"{number} bottles of {what}\n"
    for number, what in enumerate(["apples", "pears", "cherries"] * 20)
)
BAGS = POEM.replace("1 bottles of pears", "1 bags of pears")
BOTLLES = POEM.replace("21 bottles", "21 botlles")
ORANGES = "oranges\npears\n"
PEERS = "apples\npeers\n"
NANO = in_terminals(nano(), nano(ORANGES), nano(PEERS), nano(options="-x"))
VIM = in_terminals(vim(), vim(ORANGES), vim(PEERS), vim(options="+'set noshowmode'"))
LESS = in_terminals(less(POEM), less(BAGS), less(BOTLLES), less(POEM, "-P ' '"))
DIALOG = in_terminals(
    dialog(), dialog("Surname"), dialog(pear="Peers"), dialog(options="--no-cancel")
)
MC = in_terminals(
    mc(), mc("oranges"), mc(second="peers"), mc(layout="keybar_visible=false")
)


def mousepad(text: str = "Dear all,\n", *settings: str) -> str:
    kept = "\n".join(
        ["[org/xfce/mousepad/preferences/window]", "path-in-title=false", *settings, ""]
    )
    return (
        f"{files(notes_txt=text, keyfile=kept)}mv keyfile .config/glib-2.0/settings/;"
        " exec mousepad notes.txt"
    )


BUTTONS_UI = "/usr/share/galculator/ui/basic_buttons_gtk3.ui"


@dataclass(frozen=True)
class Program:
    """`result` is where the answer to the claim stands; `window` is a pattern for the
    name of the window.
    """

    claim: str
    steps: tuple[Action, ...]
    result: Box
    window: str
    size: tuple[int, int] = (800, 600)
    needs: Mapping[str, str] = field(default_factory=dict)
    """Commands, each with the Debian package that has it."""

    @property
    def missing(self) -> str:
        needs = {
            "Xtigervnc": "tigervnc-standalone-server",
            "xwininfo": "x11-utils",
            **self.needs,
        }
        return " ".join(
            package for command, package in needs.items() if not shutil.which(command)
        )

    @property
    def region(self) -> Region:
        return Region(*self.result)


@dataclass(frozen=True)
class Page(Program):
    """`package` is npm's name and version; the selectors are those of the parts that
    changes are made to.
    """

    needs: Mapping[str, str] = field(
        default_factory=lambda: {"chromium": "chromium", "npm": "npm"}
    )
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
        return replace(
            self, steps=steps, result=(left, top, right, bottom), size=size, scale=scale
        )


def at_scale(step: Action, scale: int) -> Action:
    places = {
        name: scale * value
        for name, value in vars(step).items()
        if name in ("x", "y", "to_x", "to_y") and value
    }
    return replace(step, **places)


@dataclass(frozen=True)
class DesktopProgram(Program):
    """A shell's command; `changed` are other versions of it by the change, and `other`
    is where a side effect shows.
    """

    command: str = ""
    changed: Mapping[str, str] = field(default_factory=dict)
    other: Box = (74, 62, 88, 78)
    """In a terminal, the first row."""


def parts(
    label: str, button: str, extra: str, result: str, other: str
) -> Mapping[str, str]:
    return {
        "label": label,
        "button": button,
        "extra": extra,
        "result": result,
        "other": other,
    }


LISTED = "#info p:first-child", "#filters li:nth-child(3) a", "#info p:last-child"
TODO_PARTS = parts(*LISTED, "#todo-count", "#todo-list li:first-child label")


def todo(
    framework: str,
    title: str,
    package: str = "todomvc@0.1.1",
    path: str = "",
    footer_y: int = 410,
) -> Page:
    """One of the many versions of one program: three things to do, one of them done,
    the others looked at.
    """
    things = (
        TypeText("buy milk\n", 315, 178),
        TypeText("call bob\n"),
        TypeText("read a book\n"),
    )
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
    "TodoMVC, Mithril": todo(
        "", "Mithril", "mithril@1.1.7", "examples/todomvc/index.html", 395
    ),
    "jQuery UI": Page(
        "the second part is open, and Java is chosen",
        (
            Click(300, 437),
            KeyCombo(("tab",)),
            TypeText("java"),
            KeyCombo(("down",)),
            KeyCombo(("enter",)),
        ),
        (50, 350, 735, 440),
        "jQuery UI Example Page",
        package="jquery-ui-dist@1.13.3",
        parts=parts(
            "h2", "#accordion h3", "h2", "#accordion .ui-accordion-content-active", "h1"
        ),
    ),
    "pell, an editor": Page(
        "the text is bold in the output",
        (
            Click(300, 200),
            TypeText("Dear all,"),
            KeyCombo(("ctrl", "a")),
            Click(120, 105),
        ),
        (100, 570, 400, 592),
        "pell",
        package="pell@1.0.6",
        path="demo.html",
        parts=parts(
            "h3",
            ".pell-button:nth-child(3)",
            ".pell-button:last-child",
            "#html-output",
            "#text-output",
        ),
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
            "tests/js/test.js": (
                'document.write(\'<link rel="stylesheet" href="../dist/css/uikit.css">'
                "<script src=\"../dist/js/uikit.js\"></scr' + 'ipt>');"
            )
        },
    ),
}


Versions = tuple[str, Mapping[str, str]]


def in_xterm(
    name: str,
    claim: str,
    steps: tuple[Action, ...],
    result: Box,
    versions: Versions,
    window: str = ".",
) -> DesktopProgram:
    """Return a program of the package of its name, in a terminal: its command and the
    changed ones.
    """
    needs = {"xterm": "xterm", name: name}
    return DesktopProgram(
        claim,
        steps,
        result,
        window,
        (640, 480),
        needs,
        command=versions[0],
        changed=versions[1],
    )


_GTK = {
    "a colour": "button { color: #b01030 }",
    "a moved button": "button { margin-left: 3px }",
    "another font size": "* { font-size: 11pt }",
}
DESKTOP_PROGRAMS: Mapping[str, DesktopProgram] = {
    "nano": in_xterm(
        "nano",
        "four lines were written",
        (
            KeyCombo(("down",)),
            TypeText("bread\ntea\n"),
            KeyCombo(("ctrl", "o")),
            KeyCombo(("enter",)),
        ),
        cells(21, 31, 48),
        NANO,
    ),
    "vim": in_xterm(
        "vim",
        "two lines were written",
        (
            KeyCombo(("o",)),
            TypeText("bread"),
            KeyCombo(("escape",)),
            TypeText(":w\n"),
            TypeText("Gdd:w\n"),
        ),
        cells(23, 0, 30),
        VIM,
    ),
    "less": in_xterm(
        "less",
        "the second bottles of pears after line 30 are shown",
        (TypeText("/pears\n"), TypeText("30n"), KeyCombo(("space",)), TypeText("g")),
        cells(0, 0, 25),
        LESS,
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
        (
            KeyCombo(("f7",)),
            TypeText("letters\n"),
            KeyCombo(("down",)),
            KeyCombo(("insert",)),
            KeyCombo(("insert",)),
        ),
        cells(19, 13, 28),
        MC,
        "mc ",
    ),
    "mousepad": DesktopProgram(
        "the letter is saved",
        (
            KeyCombo(("ctrl", "end")),
            TypeText("see you on Monday.\n"),
            KeyCombo(("ctrl", "s")),
        ),
        (80, 136, 260, 156),
        "notes",
        needs={"mousepad": "mousepad"},
        command=mousepad(),
        changed=in_gtk(
            mousepad(),
            label=mousepad("Hello all,\n"),
            character=mousepad("Dear ail,\n"),
            css={
                **_GTK,
                "a colour": "textview text { color: #b01030 }",
                "a moved button": "menubar { padding: 2px }",
            },
        )
        | {"a missing element": mousepad("Dear all,\n", "menubar-visible=false")},
        other=(110, 120, 124, 136),
    ),
    "galculator": DesktopProgram(
        "the sum is 15",
        (
            Click(268, 415),
            Click(334, 415),
            Click(464, 455),
            Click(399, 415),
            Click(530, 435),
        ),
        (240, 167, 558, 220),
        "galculator",
        needs={"galculator": "galculator"},
        command="exec galculator",
        changed=in_gtk(
            "exec galculator",
            label=edited(BUTTONS_UI, "s/>sqrt</>root</", "exec galculator"),
            character=edited(BUTTONS_UI, "s/>sqrt</>sprt</", "exec galculator"),
            css={**_GTK, "a missing element": "menubar { opacity: 0 }"},
        ),
        other=(262, 327, 276, 343),
    ),
}
PROGRAMS: dict[str, Page | DesktopProgram] = {}
for name, page in PAGES.items():
    for scale in (1, 2):
        PROGRAMS[f"{name}, scale {scale}"] = page.scaled(scale)
PROGRAMS |= DESKTOP_PROGRAMS
