"""The shell commands that start the programs of foreign_table, as a careful user has settled them, and changed ones."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from foreign_changes import Box


def files(**texts: str) -> str:
    """Shell words that write them; a name's last `_` is a dot."""
    return "".join(f"printf %s {shlex.quote(text)} > {'.'.join(name.rsplit('_', 1))}; " for name, text in texts.items())


def terminal(command: str, *options: str) -> str:
    return f"exec xterm {shlex.join(options)} -geometry 80x24+60+40 -e sh -c {shlex.quote(command)}"


def in_terminals(command: str, label: str, character: str, extra: str) -> tuple[str, Mapping[str, str]]:
    """The command in xterm, and its changed versions: three commands, and the same in a changed xterm."""
    commands = {"text of a label": label, "one wrong character": character, "a missing element": extra}
    options = {"a colour": ("-fg", "#802020"), "a moved button": ("-b", "5"), "another font size": ("-fn", "7x14")}
    changed = {what: terminal(changed) for what, changed in commands.items()}
    return terminal(command), changed | {what: terminal(command, *more) for what, more in options.items()}


def edited(file: str, edit: str, command: str) -> str:
    """The command, which sees a file of the system's as sed makes it, and nobody else does."""
    bound = f'mount --bind "$HOME/edited" {file}; {command}'
    return f'sed {shlex.quote(edit)} {file} > "$HOME/edited"; exec unshare -rm sh -c {shlex.quote(bound)}'


def in_gtk(command: str, *, label: str, character: str, css: Mapping[str, str]) -> Mapping[str, str]:
    """Changed versions of a GTK program: two commands, and the same with other style sheets, by the change."""
    styled = {what: f"printf %s {shlex.quote(text)} > .config/gtk-3.0/gtk.css; {command}" for what, text in css.items()}
    return {"text of a label": label, "one wrong character": character, **styled}


FRUIT = "apples\npears\n"


def cells(row: int, left: int, right: int) -> Box:
    """Return the places of characters on the screen of a terminal; rows and columns count from 0."""
    return 62 + 6 * left, 62 + 13 * row, 62 + 6 * right, 75 + 13 * row


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


def mc(first: str = "apples", second: str = "pears", layout: str = "") -> str:
    settings = f"[Layout]\nmessage_visible=false\nfree_space=false\n{layout}\n"
    panels = "[New Left Panel]\nlist_format=brief\n[New Right Panel]\nlist_format=brief\n"
    written = f"mkdir -p .config/mc fruit; {files(ini=settings, panels_ini=panels)}mv ini panels.ini .config/mc; "
    return f"{written}cd fruit; echo 12 > {first}; echo 3 > {second}; touch -d 2026-01-01 *; exec mc -d"


POEM = "".join(f"{number} bottles of {what}\n" for number, what in enumerate(["apples", "pears", "cherries"] * 20))
BAGS, BOTLLES = POEM.replace("1 bottles of pears", "1 bags of pears"), POEM.replace("21 bottles", "21 botlles")
ORANGES, PEERS = "oranges\npears\n", "apples\npeers\n"
NANO = in_terminals(nano(), nano(ORANGES), nano(PEERS), nano(options="-x"))
VIM = in_terminals(vim(), vim(ORANGES), vim(PEERS), vim(options="+'set noshowmode'"))
LESS = in_terminals(less(POEM), less(BAGS), less(BOTLLES), less(POEM, "-P ' '"))
DIALOG = in_terminals(dialog(), dialog("Surname"), dialog(pear="Peers"), dialog(options="--no-cancel"))
MC = in_terminals(mc(), mc("oranges"), mc(second="peers"), mc(layout="keybar_visible=false"))


def mousepad(text: str = "Dear all,\n", *settings: str) -> str:
    kept = "\n".join(["[org/xfce/mousepad/preferences/window]", "path-in-title=false", *settings, ""])
    return f"{files(notes_txt=text, keyfile=kept)}mv keyfile .config/glib-2.0/settings/; exec mousepad notes.txt"


BUTTONS_UI = "/usr/share/galculator/ui/basic_buttons_gtk3.ui"
