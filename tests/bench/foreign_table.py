"""Programs that nobody here wrote, a row each: pages from npm's registry, programs from Debian.

Pages are shown in Chromium on a screen of 800×600 at scale 1, and of 1600×1200 at scale 2: the same page. Points and
regions of a page are those at scale 1. All Debian packages that are needed here, beside what .ci/apt-packages has:

    apt-get install --no-install-recommends npm galculator gedit kcalc libreoffice-calc libreoffice-writer \
        libreoffice-gtk3 mc less dialog bc sc vim
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from foreign_changes import CHANGES, Box

from pytest_vnc_use.types import Action, Click, Drag, KeyCombo, Region, TypeText


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
        """The Debian packages that are not installed."""
        needs = {"Xtigervnc": "tigervnc-standalone-server", "xdotool": "xdotool", **self.needs}
        return " ".join(package for command, package in needs.items() if not shutil.which(command))

    @property
    def region(self) -> Region:
        return Region(*self.result)


@dataclass(frozen=True)
class Page(Program):
    """`package` is npm's name and version; the selectors are those of the parts that changes are made to."""

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
    other: Box = (0, 0, 0, 0)


# --- pages -----------------------------------------------------------------------------------------------------------

CHROMIUM = {"chromium": "chromium", "npm": "npm"}
TODO_PARTS = {
    "label": "#info p:first-child",
    "button": "#filters li:nth-child(3) a",
    "extra": "#info p:last-child",
    "result": "#todo-count",
    "other": "#todo-list li:first-child label",
}


def todo(framework: str, title: str, package: str = "todomvc@0.1.1", path: str = "") -> Page:
    """One of the many versions of one program: three things to do, one of them done, the others looked at."""
    return Page(
        "two things are left to do",
        (
            TypeText("buy milk\n", 315, 178),
            TypeText("call bob\n"),
            TypeText("read a book\n"),
            Click(148, 242),
            Click(372, 410),
        ),
        (130, 340, 260, 362),
        title,
        needs=CHROMIUM,
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
    "TodoMVC, Vue": todo("vue", "Vue.js"),
    "TodoMVC, Ractive": todo("ractive", "Ractive.js"),
    "TodoMVC, CanJS": todo("canjs", "CanJS"),
    "TodoMVC, Mithril": todo("", "Mithril", "mithril@1.1.7", "examples/todomvc/index.html"),
    "jQuery UI": Page(
        "JavaScript is chosen",
        (Click(200, 340), TypeText("java", 130, 480), KeyCombo(("down",)), KeyCombo(("down",)), KeyCombo(("enter",))),
        (40, 470, 300, 490),
        "jQuery UI Example Page",
        needs=CHROMIUM,
        package="jquery-ui-dist@1.13.3",
        parts={
            "label": "h2",
            "button": "#button",
            "extra": "#button-icon",
            "result": "#ui-id-3",
            "other": "#accordion h3",
        },
    ),
    "pell, an editor": Page(
        "the text is bold in the output",
        (Click(300, 200), TypeText("Dear all,"), KeyCombo(("ctrl", "a")), Click(120, 105)),
        (100, 440, 700, 590),
        "pell",
        needs=CHROMIUM,
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
    "Awesomplete": Page(
        "Ruby on Rails is chosen",
        (TypeText("ru", 300, 400), KeyCombo(("down",)), KeyCombo(("enter",))),
        (100, 380, 700, 420),
        "Awesomplete",
        needs=CHROMIUM,
        package="awesomplete@1.1.7",
        parts={"label": "section h1", "button": ".size strong", "extra": ".size", "result": "label", "other": "header p"},
    ),
    "reveal.js": Page(
        "the second slide is shown",
        (KeyCombo(("right",)), KeyCombo(("left",)), KeyCombo(("right",))),
        (200, 200, 600, 400),
        "reveal.js",
        needs=CHROMIUM,
        package="reveal.js@4.6.1",
        parts={
            "label": ".slides section:nth-child(2)",
            "button": ".controls",
            "extra": ".progress",
            "result": ".slides section:nth-child(2)",
            "other": ".slides section:nth-child(2)",
        },
    ),
    "UIkit, accordion": Page(
        "Item 3 is open",
        (Click(200, 400), Click(200, 500)),
        (40, 100, 760, 590),
        "Accordion",
        needs=CHROMIUM,
        package="uikit@3.21.0",
        path="tests/accordion.html",
        parts={"label": "h3", "button": ".uk-accordion-title", "extra": "h1", "result": ".uk-open p", "other": "h1"},
        extra={
            "tests/js/test.js": "document.write('<link rel=\"stylesheet\" href=\"../dist/css/uikit.css\">"
            "<script src=\"../dist/js/uikit.js\"></scr' + 'ipt>');"
        },
    ),
}

# --- programs from Debian --------------------------------------------------------------------------------------------


def files(**texts: str) -> str:
    """Shell words that write them; a name's last `_` is a dot."""
    return "".join(f"printf %s {shlex.quote(text)} > {'.'.join(name.rsplit('_', 1))}; " for name, text in texts.items())


def terminal(command: str, *options: str) -> str:
    return f"exec xterm {shlex.join(options)} -geometry 80x24+60+40 -e sh -c {shlex.quote(command)}"


def in_terminals(command: str, *, label: str, character: str, extra: str) -> tuple[str, Mapping[str, str]]:
    """The command in xterm, and its changed versions: three commands, and the same in a changed xterm."""
    changed = {
        "text of a label": terminal(label),
        "one wrong character": terminal(character),
        "a missing element": terminal(extra),
        "a colour": terminal(command, "-fg", "#802020"),
        "a moved button": terminal(command, "-b", "5"),
        "another font size": terminal(command, "-fn", "7x14"),
    }
    return terminal(command), changed


def edited(file: str, edit: str, command: str) -> str:
    """The command, which sees a file of the system's as sed makes it, and nobody else does."""
    bound = f'mount --bind "$HOME/edited" {file}; {command}'
    return f'sed {shlex.quote(edit)} {file} > "$HOME/edited"; exec unshare -rm sh -c {shlex.quote(bound)}'


def in_gtk(command: str, *, label: str, character: str, css: Mapping[str, str]) -> Mapping[str, str]:
    """Changed versions of a GTK program: two commands, and the same with other style sheets, by the change."""
    styled = {what: f"printf %s {shlex.quote(text)} > .config/gtk-3.0/gtk.css; {command}" for what, text in css.items()}
    return {"text of a label": label, "one wrong character": character, **styled}


XTERM = {"xterm": "xterm"}
FRUIT = "apples\npears\n"
TERMINAL = (62, 60, 560, 400)


def nano(text: str = FRUIT, options: str = "") -> str:
    return f"{files(list_txt=text)}exec nano --ignorercfiles {options} list.txt"


def vim(text: str = FRUIT, options: str = "") -> str:
    return f"{files(list_txt=text)}exec vim -u NONE -i NONE -N {options} list.txt"


def less(text: str, options: str = "") -> str:
    return f"{files(poem_txt=text)}LESSHISTFILE=- exec less {options} poem.txt"


def dialog(label: str = "Name", pear: str = "Pears", options: str = "") -> str:
    menu = f"dialog {options} --menu Fruit 12 40 3 1 Apples 2 {pear} 3 Cherries 2>fruit"
    told = 'dialog --msgbox "$(cat name) takes number $(cat fruit), 3.50 in all" 8 40'
    return f"dialog --inputbox {label} 8 40 2>name; {menu}; {told}"


def bc(options: str = "", banner: str = "") -> str:
    return f"{files(start_bc=banner)}exec bc {options} start.bc"


def sc(first: str = "Apples", second: str = "Pears", options: str = "") -> str:
    sheet = f'leftstring A0 = "{first}"\nlet B0 = 12\nleftstring A1 = "{second}"\nleftstring A2 = "Sum"\n'
    return f"{files(fruit_sc=sheet)}exec sc {options} fruit.sc"


def mc(first: str = "apples", second: str = "pears", layout: str = "") -> str:
    settings = f"[Layout]\nmessage_visible=false\nfree_space=false\n{layout}\n"
    panels = "[New Left Panel]\nlist_format=brief\n[New Right Panel]\nlist_format=brief\n"
    written = f"mkdir -p .config/mc fruit; {files(ini=settings, panels_ini=panels)}mv ini panels.ini .config/mc; "
    return f"{written}cd fruit; echo 12 > {first}; echo 3 > {second}; touch -d 2026-01-01 *; exec mc -d"


POEM = "".join(f"{number} bottles of {what}\n" for number, what in enumerate(["apples", "pears", "cherries"] * 20))
_NANO = in_terminals(nano(), label=nano("oranges\npears\n"), character=nano("apples\npeers\n"), extra=nano(options="-x"))
_VIM = in_terminals(
    vim(), label=vim("oranges\npears\n"), character=vim("apples\npeers\n"), extra=vim(options="+'set noshowmode'")
)
_LESS = in_terminals(
    less(POEM),
    label=less(POEM.replace("1 bottles of pears", "1 bags of pears")),
    character=less(POEM.replace("31 bottles", "31 botlles")),
    extra=less(POEM, "-P ' '"),
)
_DIALOG = in_terminals(
    dialog(), label=dialog("Surname"), character=dialog(pear="Peers"), extra=dialog(options="--no-cancel")
)
_BC = in_terminals(bc(), label=bc(banner='"Welcome\n"\n'), character=bc(banner='""\n1\n'), extra=bc("-q"))
_SC = in_terminals(sc(), label=sc("Oranges"), character=sc(second="Peers"), extra=sc(second=""))
_MC = in_terminals(mc(), label=mc("oranges"), character=mc(second="peers"), extra=mc(layout="keybar_visible=false"))


def mousepad(text: str = "Dear all,\n", *settings: str) -> str:
    kept = "\n".join(["[org/xfce/mousepad/preferences/window]", "path-in-title=false", *settings, ""])
    return f"{files(notes_txt=text, keyfile=kept)}mv keyfile .config/glib-2.0/settings/; exec mousepad notes.txt"


def gedit(text: str = "Dear all,\n") -> str:
    return f"{files(notes_txt=text)}exec dbus-run-session gedit notes.txt"


MAIN_UI, BUTTONS_UI = (f"/usr/share/galculator/ui/{name}.ui" for name in ("main_frame", "basic_buttons_gtk3"))
KCALC = "exec dbus-run-session kcalc"


def calc(first: str = "Apples", second: str = "Pears", price: str = "3", style: str = "") -> str:
    """LibreOffice with a sheet of three rows, and without what it tells a user on its first start."""
    rows = "".join(
        f"<table:table-row><table:table-cell office:value-type='string'{style}><text:p>{name}</text:p></table:table-cell>"
        f"<table:table-cell office:value-type='float' office:value='{number}'><text:p>{number}</text:p>"
        "</table:table-cell></table:table-row>"
        for name, number in ((first, "12"), (second, price))
    )
    return f"{files(fruit_fods=SHEET.format(rows=rows))}{OFFICE} --calc fruit.fods"


SHEET = (
    "<office:document xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' "
    "xmlns:table='urn:oasis:names:tc:opendocument:xmlns:table:1.0' "
    "xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0' "
    "xmlns:style='urn:oasis:names:tc:opendocument:xmlns:style:1.0' "
    "xmlns:fo='urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0' office:version='1.3' "
    "office:mimetype='application/vnd.oasis.opendocument.spreadsheet'>"
    "<office:automatic-styles>"
    "<style:style style:name='red' style:family='table-cell'><style:text-properties fo:color='#b01030'/></style:style>"
    "<style:style style:name='large' style:family='table-cell'><style:text-properties fo:font-size='12pt'/></style:style>"
    "</office:automatic-styles>"
    "<office:body><office:spreadsheet><table:table table:name='Fruit'>{rows}</table:table></office:spreadsheet></office:body>"
    "</office:document>"
)
FIRST_START = "".join(
    f'<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
    for path, name, value in [
        ("Office.Common/Misc", "ShowTipOfTheDay", "false"),
        ("Office.Common/Misc", "FirstRun", "false"),
        ("Setup/Product", "ooSetupLastVersion", "7.4"),
        ("Setup/Office", "ooSetupInstCompleted", "true"),
        ("Office.Common/Save/Document", "AutoSave", "false"),
    ]
)
SETTINGS = (
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    f"{FIRST_START}</oor:items>"
)
OFFICE = (
    f"mkdir -p office/user; {files(registrymodifications_xcu=SETTINGS)}mv registrymodifications.xcu office/user; "
    'exec soffice -env:UserInstallation="file://$HOME/office" --nologo --norestore --nofirststartwizard --nolockcheck'
)

_GTK = {
    "a colour": "button { color: #b01030 }",
    "a moved button": "button { margin-left: 3px }",
    "another font size": "* { font-size: 117% }",
}
DESKTOP_PROGRAMS: Mapping[str, DesktopProgram] = {
    "nano": DesktopProgram(
        "four lines were written",
        (KeyCombo(("down",)), TypeText("bread\ntea\n"), KeyCombo(("ctrl", "o")), KeyCombo(("enter",))),
        TERMINAL,
        "nano|xterm|sh",
        needs={**XTERM, "nano": "nano"},
        command=_NANO[0],
        changed=_NANO[1],
        other=(70, 100, 84, 116),
    ),
    "vim": DesktopProgram(
        "two lines were written",
        (KeyCombo(("o",)), TypeText("bread"), KeyCombo(("escape",)), TypeText(":w\n"), TypeText("Gdd:w\n")),
        TERMINAL,
        ".",
        needs={**XTERM, "vim": "vim"},
        command=_VIM[0],
        changed=_VIM[1],
        other=(70, 100, 84, 116),
    ),
    "less": DesktopProgram(
        "the second bottles of pears after line 30 are shown",
        (TypeText("/pears\n"), TypeText("30n"), KeyCombo(("space",)), TypeText("g")),
        TERMINAL,
        ".",
        needs={**XTERM, "less": "less"},
        command=_LESS[0],
        changed=_LESS[1],
        other=(70, 100, 84, 116),
    ),
    "dialog": DesktopProgram(
        "alice takes number 2",
        (TypeText("alice\n"), KeyCombo(("down",)), KeyCombo(("enter",))),
        TERMINAL,
        ".",
        needs={**XTERM, "dialog": "dialog"},
        command=_DIALOG[0],
        changed=_DIALOG[1],
        other=(70, 100, 84, 116),
    ),
    "bc": DesktopProgram(
        "the quotient is 4.857",
        (TypeText("x = 34\n"), TypeText("x * 12\n"), TypeText("scale = 3\n"), TypeText("x / 7\n")),
        TERMINAL,
        ".",
        needs={**XTERM, "bc": "bc"},
        command=_BC[0],
        changed=_BC[1],
        other=(70, 100, 84, 116),
    ),
    "sc": DesktopProgram(
        "the sum is 15",
        (
            KeyCombo(("right",)),
            KeyCombo(("down",)),
            TypeText("=3\n"),
            KeyCombo(("down",)),
            TypeText("=@sum(b0:b1)\n"),
            KeyCombo(("up",)),
        ),
        TERMINAL,
        ".",
        needs={**XTERM, "sc": "sc"},
        command=_SC[0],
        changed=_SC[1],
        other=(70, 100, 84, 116),
    ),
    "mc": DesktopProgram(
        "the folder letters is there",
        (KeyCombo(("f7",)), TypeText("letters\n"), KeyCombo(("down",)), KeyCombo(("f3",)), KeyCombo(("f10",))),
        TERMINAL,
        ".",
        needs={**XTERM, "mc": "mc"},
        command=_MC[0],
        changed=_MC[1],
        other=(70, 100, 84, 116),
    ),
    "mousepad": DesktopProgram(
        "the letter is saved",
        (KeyCombo(("ctrl", "end")), TypeText("see you on Monday.\n"), KeyCombo(("ctrl", "s"))),
        TERMINAL,
        "notes",
        needs={"mousepad": "mousepad"},
        command=mousepad(),
        changed=in_gtk(
            mousepad(),
            label=mousepad("Hello all,\n"),
            character=mousepad("Dear ail,\n"),
            css={**_GTK, "a colour": "textview text { color: #b01030 }", "a moved button": "menubar { padding: 2px }"},
        )
        | {"a missing element": mousepad("Dear all,\n", "menubar-visible=false")},
        other=(70, 100, 84, 116),
    ),
    "gedit": DesktopProgram(
        "the letter is saved",
        (KeyCombo(("ctrl", "end")), TypeText("see you on Monday.\n"), KeyCombo(("ctrl", "s"))),
        TERMINAL,
        "notes",
        needs={"gedit": "gedit", "dbus-run-session": "dbus-daemon"},
        command=gedit(),
        changed=in_gtk(
            gedit(),
            label=gedit("Hello all,\n"),
            character=gedit("Dear ail,\n"),
            css={**_GTK, "a missing element": "statusbar { opacity: 0 }"},
        ),
        other=(70, 100, 84, 116),
    ),
    "galculator": DesktopProgram(
        "the sum is 15",
        (Click(100, 300), Click(150, 300), Click(200, 300), Click(250, 300)),
        TERMINAL,
        "galculator",
        needs={"galculator": "galculator"},
        command="exec galculator",
        changed=in_gtk(
            "exec galculator",
            label=edited(BUTTONS_UI, "s/>sqrt</>root</", "exec galculator"),
            character=edited(BUTTONS_UI, "s/>sqrt</>sprt</", "exec galculator"),
            css={**_GTK, "a missing element": "menubar { opacity: 0 }"},
        ),
        other=(70, 100, 84, 116),
    ),
    "kcalc": DesktopProgram(
        "the product is 408",
        (TypeText("12*34\n"), KeyCombo(("escape",)), TypeText("5+6\n")),
        TERMINAL,
        "KCalc",
        needs={"kcalc": "kcalc", "dbus-run-session": "dbus-daemon"},
        command=KCALC,
        changed={},
        other=(70, 100, 84, 116),
    ),
    "LibreOffice Calc": DesktopProgram(
        "the sum is 15",
        (KeyCombo(("ctrl", "end")), KeyCombo(("down",)), TypeText("=SUM(B1:B2)\n"), KeyCombo(("up",))),
        TERMINAL,
        "fruit",
        (1024, 768),
        needs={"soffice": "libreoffice-calc"},
        command=calc(),
        changed={
            "text of a label": calc("Oranges"),
            "one wrong character": calc(second="Peers"),
            "a colour": calc(style=" table:style-name='red'"),
            "another font size": calc(style=" table:style-name='large'"),
            "a missing element": calc(second=""),
            "a moved button": calc(),
        },
        other=(70, 100, 84, 116),
    ),
}
SCALES = (1, 2)
PROGRAMS: Mapping[str, Program] = {
    **{f"{name}, scale {scale}": page.scaled(scale) for name, page in PAGES.items() for scale in SCALES},
    **DESKTOP_PROGRAMS,
}


def kinds(words: Sequence[str]) -> list[str]:
    """The changes whose names have one of the words; all without words."""
    return [name for name in CHANGES if not words or any(word in name for word in words)]
