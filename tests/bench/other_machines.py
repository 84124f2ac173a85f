"""Record programs and their dialogs on one machine, and replay them on another: which drift? Run as a script:

    python tests/bench/other_machines.py record DIRECTORY [OPTION OF PYTEST …]
    python tests/bench/other_machines.py replay DIRECTORY [OPTION OF PYTEST …]

DIRECTORY keeps the recordings; `-k gtk4` chooses programs, `-o vnc_rendering=system` leaves the rendering to the
machine. Another root file system serves as another machine, entered as a user with `unshare` and `chroot`. All need
openbox, xterm, mousepad, gnome-text-editor, chromium and PySide6.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.planners.local.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.types import Action, Click, KeyCombo, TypeText, Wait

if TYPE_CHECKING:
    from pytest_vnc_use.settings.settings import Settings
    from pytest_vnc_use.types.protocols import Desktop, Planner

HERE = Path(__file__).parent
FILES = (
    "mkdir letters; echo 'Dear all,' >notes.txt; echo x >letters/old.txt; echo '{}' >data.json; "
    "touch -d 2020-02-02 notes.txt data.json letters/old.txt letters; exec "
)
QT = """
from PySide6.QtWidgets import QApplication, QFileDialog
import sys
application, dialog = QApplication([]), QFileDialog()
dialog.setAcceptMode(QFileDialog.AcceptMode[sys.argv[1]])
dialog.show()
application.exec()
"""
CHROMIUM = (
    "chromium --no-sandbox --no-first-run --test-type --disable-gpu --disable-dev-shm-usage "
    "--user-data-dir=.profile --password-store=basic --kiosk "
)
UPLOAD = (
    "data:text/html,<title>A page</title>"
    "<input type=file style='position:fixed;left:20px;top:20px;width:300px;height:60px'>"
)
PAGE = "data:text/html,<title>A page</title><h1>Hello, fi</h1><p style='font-family:serif'>serif <code>code</code>"
MOUSEPAD, GTK4 = "mousepad --disable-server notes.txt", "gnome-text-editor -s notes.txt"
SHOP = shlex.join([sys.executable, str(HERE.parents[1] / "examples" / "shop")])
SIGN_IN = (Click(720, 372), TypeText("alice"), Click(720, 468), TypeText("wonderland"), Click(720, 574))
WRITE = (TypeText("see you on Monday, fi 0123\n"), "ctrl+s")


@dataclass
class Program:
    """A command of the shell, what to do there, and the title of the window that shows when it is ready."""

    command: str
    steps: tuple[Action | str, ...]
    window: str = ""
    server: str = "xvnc"


def chromium(page: str) -> str:
    return FILES + CHROMIUM + shlex.quote(page)


def qt_dialog(mode: str) -> str:
    return FILES + shlex.join([sys.executable, "-c", QT, mode])


PROGRAMS = {
    "mousepad": Program(FILES + MOUSEPAD, ("ctrl+end", *WRITE, "alt+f", "esc"), "Mousepad"),
    "gtk3-open": Program(FILES + MOUSEPAD, ("ctrl+o", TypeText("data.json"), "enter"), "Mousepad"),
    "gtk3-save": Program(FILES + MOUSEPAD, ("ctrl+shift+s", TypeText("other.txt"), "enter"), "Mousepad"),
    "gtk4": Program(FILES + GTK4, ("ctrl+end", *WRITE, "f10", "esc"), "notes.txt"),
    "gtk4-open": Program(FILES + GTK4, ("ctrl+o", "esc"), "notes.txt"),
    # Not saved: after that gnome-text-editor warns of a file changed by another program, or does not, by chance.
    "gtk4-save": Program(FILES + GTK4, ("ctrl+shift+s", TypeText("other.txt"), "esc"), "notes.txt"),
    "xterm": Program(
        FILES + "xterm -fa monospace -e env PS1='$ ' sh",
        (TypeText("ls letters; echo fi 0123\n"), TypeText("cat notes.txt\n")),
        "sh|xterm|env",
    ),
    "shop-xvnc": Program(f"exec {SHOP}", SIGN_IN),
    "shop-qt": Program(f"exec {SHOP}", SIGN_IN, server="qt"),
    "page": Program(chromium(f"file://{HERE}/fonts_page.html"), ("tab", "page_down", "home"), "Chromium"),
    "form": Program(
        chromium(f"file://{HERE}/fonts_form.html"),
        (Click(170, 262), TypeText("pears"), "tab", "tab", "down", "tab", "enter"),
        "Chromium",
    ),
    "chromium-open": Program(chromium(UPLOAD), (Click(150, 50), TypeText("/"), "esc"), "Chromium"),
    "chromium-choose": Program(chromium(UPLOAD), (Click(150, 50), "down", "enter"), "Chromium"),
    "chromium-save": Program(chromium(PAGE), ("ctrl+s", "end"), "Chromium"),
    "qt-open": Program(qt_dialog("AcceptOpen"), (TypeText("notes.txt"), "tab"), "Open"),
    "qt-save": Program(qt_dialog("AcceptSave"), (TypeText("other.txt"), "tab", "tab"), "Save"),
}
REST_S = 4.0
"""The wait of a recording before the first step and after each: parts of a window may come late."""
WINDOW = """for i in $(seq 3000); do xwininfo -root -tree | grep -Eq "$1" && exit; sleep 0.1; done; exit 1"""


def steps_of(name: str) -> list[Action]:
    actions = [KeyCombo(tuple(step.split("+"))) if isinstance(step, str) else step for step in PROGRAMS[name].steps]
    return [Wait(REST_S), *(each for action in actions for each in (action, Wait(REST_S)))]


@pytest.fixture
def vnc_settings(vnc_settings: Settings, name: str) -> Settings:
    return replace(
        vnc_settings, server=PROGRAMS[name].server, gate_seconds=40.0, start_seconds=200.0, qt_host_network="true"
    )


@pytest.fixture
def vnc_app(name: str) -> list[str]:
    return ["sh", "-c", PROGRAMS[name].command]


@pytest.fixture
def vnc_desktop(vnc_desktop: Desktop, name: str) -> Desktop:
    if title := PROGRAMS[name].window:  # of more than a tooltip's size
        window = f'"[^"]*({title})[^"]*":.* [0-9]{{3,}}x[0-9]{{2,}}[+]'
        vnc_desktop.run(["sh", "-c", WINDOW, "sh", window], timeout_s=400)
    return vnc_desktop


@pytest.fixture
def vnc_planner(request: pytest.FixtureRequest, vnc_settings: Settings, name: str) -> Planner:
    if vnc_settings.record != "rewrite":
        planner: Planner = request.getfixturevalue("vnc_planner")
        return planner
    steps = steps_of(name)
    return ScriptedPlanner(lambda seen: [steps[len(seen.turns)]] if len(seen.turns) < len(steps) else AT_ITS_END)


@pytest.mark.vnc_task("Use the program", expect=None)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, vnc_desktop: Desktop) -> None:
    pass


def main(mode: str, directory: str, *options: str) -> int:
    project = Path(directory).resolve()
    project.mkdir(exist_ok=True)
    (project / "pytest.ini").write_text(f"[pytest]\npythonpath = {HERE}\n")
    (project / "conftest.py").write_text("from other_machines import vnc_app, vnc_desktop, vnc_planner, vnc_settings\n")
    (project / "test_programs.py").write_text("from other_machines import test_program\n")
    results, record = project / "results.json", {"record": "rewrite", "replay": "replay"}[mode]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "vnc_rehearse=0"]
    command += [f"--vnc-record={record}", f"--vnc-results={results}", *options, str(project)]
    ended = subprocess.run(command, cwd=project)
    for test in json.loads(results.read_text("utf-8"))["tests"]:
        name, message = test["test"].partition("[")[2][:-1], test["message"].partition("\n")[0]
        print(f"| {name} | {test['result']} | {message} |")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
